/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The record on the wire: a head of fixed size in native byte order (both ends are the same build on the same machine),
 * then the bytes of the strings without separators. `size` counts both and must agree with the lengths, so that a
 * sender cannot make two readers see different records. There are no padding bytes: nothing of the sender's memory
 * travels.
 */
#include "ipc/event.h"

#include "base/bounds.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>

enum { TEXTS = 6 };

struct wire {
        uint64_t wall_us, connection, bytes_in, bytes_out, duration_us;
        uint32_t size, rule, generation;
        uint16_t kind, via, scheme, reason, port, status;
        uint16_t text_n[TEXTS];
        uint8_t allowed;
        uint8_t family, address[16], unused[2];
        uint32_t count, unused_too;
};
static_assert(sizeof(struct wire) == 104, "the record's head has no hidden padding");
static_assert(sizeof(struct wire) + TEXTS * EVENT_TEXT_MAX <= EVENT_BATCH_MAX, "one record fits into an empty batch");

/* Later than this is no time a clock shows, and its text would not fit (year 9999). */
#define WALL_MAX_US 253402300799999999ULL

static const char *const kind_names[] = {
        [EVENT_REQUEST] = "request",
        [EVENT_TUNNEL_OPEN] = "tunnel-open",
        [EVENT_TUNNEL_CLOSE] = "tunnel-close",
        [EVENT_DNS] = "dns",
        [EVENT_PACKET] = "packet",
        [EVENT_FILE] = "file",
        [EVENT_SYSCALL] = "syscall",
        [EVENT_COMMAND] = "command",
        [EVENT_RATCHET] = "ratchet",
        [EVENT_HELD] = "held",
        [EVENT_NOTE] = "note",
        [EVENT_NAMED] = "named",
};
static_assert(sizeof kind_names / sizeof *kind_names == EVENT_KINDS, "a name for each kind");

static const char *const via_names[] = {
        [VIA_NONE] = "none",
        [VIA_HTTP] = "http",
        [VIA_CONNECT] = "connect",
        [VIA_SOCKS5] = "socks5",
        [VIA_TRANSPARENT] = "transparent",
        [VIA_DNS] = "dns",
        [VIA_API] = "api",
        [VIA_PACKET] = "packet",
        [VIA_SSH] = "ssh",
        [VIA_AGENT] = "ssh-agent",
        [VIA_GPG] = "gpg",
};
static_assert(sizeof via_names / sizeof *via_names == VIAS, "a name for each way in");

static const char *const scheme_names[] = {
        [SCHEME_NONE] = "none", [SCHEME_HTTP] = "http", [SCHEME_HTTPS] = "https", [SCHEME_TCP] = "tcp",
        [SCHEME_UDP] = "udp",   [SCHEME_ICMP] = "icmp", [SCHEME_IP] = "ip",       [SCHEME_SSH] = "ssh",
};
static_assert(sizeof scheme_names / sizeof *scheme_names == SCHEMES, "a name for each scheme");

const char *event_kind_name(enum event_kind kind) {
        return (unsigned)kind < EVENT_KINDS ? kind_names[kind] : NULL;
}

const char *event_via_name(enum event_via event_via) {
        return (unsigned)event_via < VIAS ? via_names[event_via] : NULL;
}

const char *event_scheme_name(enum event_scheme scheme) {
        return (unsigned)scheme < SCHEMES ? scheme_names[scheme] : NULL;
}

enum event_scheme event_scheme_of(uint8_t protocol) {
        switch (protocol) {
        case IPPROTO_TCP:
                return SCHEME_TCP;
        case IPPROTO_UDP:
                return SCHEME_UDP;
        case IPPROTO_ICMP:
        case IPPROTO_ICMPV6:
                return SCHEME_ICMP;
        default:
                return SCHEME_IP;
        }
}

struct str event_scheme_word(enum event_scheme scheme) {
        switch (scheme) {
        case SCHEME_TCP:
                return STR("TCP");
        case SCHEME_UDP:
                return STR("UDP");
        case SCHEME_ICMP:
                return STR("ICMP");
        default:
                return STR("IP");
        }
}

/* The one list of valid values per field. It also checks the sender, so that a sender's bug shows where it happens. */
static bool values_valid(const struct wire *wire) {
        return wire->kind < EVENT_KINDS && wire->via < VIAS && wire->scheme < SCHEMES && wire->reason < REASONS &&
               wire->status <= EVENT_STATUS_MAX && wire->wall_us <= WALL_MAX_US && wire->allowed <= 1 &&
               wire->family <= ADDR_V6 && wire->count != 1;
}

int event_encode(struct buf *batch, const struct event *ev) {
        const struct str texts[TEXTS] = { ev->domain, ev->method, ev->path, ev->swapped, ev->detail, ev->act };
        struct wire wire = {
                .wall_us = ev->wall_us,
                .connection = ev->connection,
                .bytes_in = ev->bytes_in,
                .bytes_out = ev->bytes_out,
                .duration_us = ev->duration_us,
                .size = sizeof wire,
                .rule = ev->rule,
                .generation = ev->generation,
                .kind = ev->kind,
                .via = ev->via,
                .scheme = ev->scheme,
                .reason = ev->reason,
                .port = ev->port,
                .status = ev->status,
                .allowed = ev->allowed,
                .family = ev->addr.family,
                .count = ev->count == 1 ? 0 : ev->count,
        };
        if (!values_valid(&wire))
                return -EINVAL;
        if (wire.family != ADDR_NONE)
                memcpy(wire.address, ev->addr.bytes, wire.family == ADDR_V4 ? 4 : 16);

        for (size_t i = 0; i < TEXTS; i++) {
                wire.text_n[i] = (uint16_t)min_of(texts[i].n, EVENT_TEXT_MAX);
                wire.size += wire.text_n[i];
        }

        if (batch->n + wire.size > EVENT_BATCH_MAX)
                return -EMSGSIZE;

        int r = buf_reserve(batch, wire.size);
        if (r < 0)
                return r;

        char *at = batch->p + batch->n;
        memcpy(at, &wire, sizeof wire);
        at += sizeof wire;

        for (size_t i = 0; i < TEXTS; i++) {
                if (wire.text_n[i])
                        memcpy(at, texts[i].p, wire.text_n[i]);
                at += wire.text_n[i];
        }

        batch->n += wire.size;
        return 0;
}

static size_t address_size(const struct wire *wire) {
        switch (wire->family) {
        case ADDR_V6:
                return 16;
        case ADDR_V4:
                return 4;
        default:
                return 0;
        }
}

static bool record_valid(const struct wire *wire, size_t available) {
        if (!values_valid(wire) || wire->size > available)
                return false;

        size_t wanted = sizeof *wire;

        for (size_t i = 0; i < TEXTS; i++) {
                if (wire->text_n[i] > EVENT_TEXT_MAX)
                        return false;
                wanted += wire->text_n[i];
        }

        /* Bytes without a meaning are zero: there is one way to write each record. */
        uint8_t rest = wire->unused[0] | wire->unused[1] | (wire->unused_too != 0);
        for (size_t i = address_size(wire); i < sizeof wire->address; i++)
                rest |= wire->address[i];

        return wanted == wire->size && rest == 0;
}

int event_decode(struct str *batch, struct event *ret) {
        struct wire wire;

        if (batch->n == 0)
                return 0;
        if (batch->n < sizeof wire)
                return -EBADMSG;

        memcpy(&wire, batch->p, sizeof wire);
        if (!record_valid(&wire, batch->n))
                return -EBADMSG;

        struct str texts[TEXTS];
        struct str rest = str_skip(*batch, sizeof wire);

        for (size_t i = 0; i < TEXTS; i++) {
                texts[i] = str_first(rest, wire.text_n[i]);
                rest = str_skip(rest, wire.text_n[i]);
        }

        *ret = (struct event){
                .wall_us = wire.wall_us,
                .connection = wire.connection,
                .bytes_in = wire.bytes_in,
                .bytes_out = wire.bytes_out,
                .duration_us = wire.duration_us,
                .rule = wire.rule,
                .generation = wire.generation,
                .count = wire.count,
                .kind = wire.kind,
                .via = wire.via,
                .scheme = wire.scheme,
                .reason = wire.reason,
                .port = wire.port,
                .status = wire.status,
                .allowed = wire.allowed == 1,
                .addr.family = wire.family,
                .domain = texts[0],
                .method = texts[1],
                .path = texts[2],
                .swapped = texts[3],
                .detail = texts[4],
                .act = texts[5],
        };
        memcpy(ret->addr.bytes, wire.address, sizeof ret->addr.bytes);
        *batch = rest;

        return 1;
}
