/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The record on the wire: a head of fixed size in native byte order (both ends are the same build on the same machine),
 * then the bytes of the strings without separators. `size` counts both and must agree with the lengths, so that a
 * sender cannot make two readers see different records. There are no padding bytes: nothing of the sender's memory
 * travels.
 */
#include "ipc/event.h"

#include <assert.h>
#include <errno.h>

enum { TEXTS = 5 };

struct wire {
        uint64_t wall_us, connection, bytes_in, bytes_out, duration_us;
        uint32_t size, rule, generation;
        uint16_t kind, via, scheme, reason, port, status;
        uint16_t text_n[TEXTS];
        uint8_t allowed;
        uint8_t family, address[16];
        uint32_t count;
};
static_assert(sizeof(struct wire) == 96, "the record's head has no hidden padding");
static_assert(sizeof(struct wire) + TEXTS * EVENT_TEXT_MAX <= EVENT_BATCH_MAX, "one record fits into an empty batch");

/* Later than this is no time a clock shows, and its text would not fit (year 9999). */
#define WALL_MAX_US 253402300799999999ULL

static const char *const kind_names[] = {
        [EVENT_REQUEST] = "request", [EVENT_TUNNEL_OPEN] = "tunnel-open", [EVENT_TUNNEL_CLOSE] = "tunnel-close",
        [EVENT_DNS] = "dns",         [EVENT_PACKET] = "packet",           [EVENT_FILE] = "file",
        [EVENT_SYSCALL] = "syscall", [EVENT_COMMAND] = "command",         [EVENT_NOTE] = "note",
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
};
static_assert(sizeof via_names / sizeof *via_names == VIAS, "a name for each way in");

static const char *const scheme_names[] = {
        [SCHEME_NONE] = "none", [SCHEME_HTTP] = "http", [SCHEME_HTTPS] = "https", [SCHEME_TCP] = "tcp",
        [SCHEME_UDP] = "udp",   [SCHEME_ICMP] = "icmp", [SCHEME_IP] = "ip",
};
static_assert(sizeof scheme_names / sizeof *scheme_names == SCHEMES, "a name for each scheme");

const char *event_kind_name(enum event_kind k) {
        return (unsigned)k < EVENT_KINDS ? kind_names[k] : NULL;
}

const char *event_via_name(enum event_via v) {
        return (unsigned)v < VIAS ? via_names[v] : NULL;
}

const char *event_scheme_name(enum event_scheme s) {
        return (unsigned)s < SCHEMES ? scheme_names[s] : NULL;
}

/* The one list of what a field may hold: the sender is held to it as well, so that its mistake shows at its place. */
static bool values_valid(const struct wire *w) {
        return w->kind < EVENT_KINDS && w->via < VIAS && w->scheme < SCHEMES && w->reason < REASONS &&
               w->status <= EVENT_STATUS_MAX && w->wall_us <= WALL_MAX_US && w->allowed <= 1 && w->family <= ADDR_V6 &&
               w->count != 1;
}

int event_encode(struct buf *batch, const struct event *ev) {
        const struct str texts[TEXTS] = { ev->domain, ev->method, ev->path, ev->swapped, ev->detail };
        struct wire w = {
                .wall_us = ev->wall_us,
                .connection = ev->connection,
                .bytes_in = ev->bytes_in,
                .bytes_out = ev->bytes_out,
                .duration_us = ev->duration_us,
                .size = sizeof w,
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
        if (!values_valid(&w))
                return -EINVAL;
        if (w.family != ADDR_NONE)
                memcpy(w.address, ev->addr.bytes, w.family == ADDR_V4 ? 4 : 16);
        for (size_t i = 0; i < TEXTS; i++) {
                w.text_n[i] = (uint16_t)(texts[i].n < EVENT_TEXT_MAX ? texts[i].n : EVENT_TEXT_MAX);
                w.size += w.text_n[i];
        }

        if (batch->n + w.size > EVENT_BATCH_MAX)
                return -EMSGSIZE;
        int r = buf_reserve(batch, w.size);
        if (r < 0)
                return r;
        char *at = batch->p + batch->n;
        memcpy(at, &w, sizeof w);
        at += sizeof w;
        for (size_t i = 0; i < TEXTS; i++) {
                if (w.text_n[i])
                        memcpy(at, texts[i].p, w.text_n[i]);
                at += w.text_n[i];
        }
        batch->n += w.size;
        return 0;
}

static bool record_valid(const struct wire *w, size_t available) {
        if (!values_valid(w) || w->size > available)
                return false;
        size_t wanted = sizeof *w;
        for (size_t i = 0; i < TEXTS; i++) {
                if (w->text_n[i] > EVENT_TEXT_MAX)
                        return false;
                wanted += w->text_n[i];
        }
        /* Bytes without a meaning are zero: there is one way to write each record. */
        uint8_t rest = 0;
        for (size_t i = w->family == ADDR_V6 ? 16 : w->family == ADDR_V4 ? 4 : 0; i < sizeof w->address; i++)
                rest |= w->address[i];
        return wanted == w->size && rest == 0;
}

int event_decode(struct str *batch, struct event *ret) {
        struct wire w;
        if (batch->n == 0)
                return 0;
        if (batch->n < sizeof w)
                return -EBADMSG;
        memcpy(&w, batch->p, sizeof w);
        if (!record_valid(&w, batch->n))
                return -EBADMSG;

        struct str texts[TEXTS];
        struct str rest = str_skip(*batch, sizeof w);
        for (size_t i = 0; i < TEXTS; i++) {
                texts[i] = str_first(rest, w.text_n[i]);
                rest = str_skip(rest, w.text_n[i]);
        }
        *ret = (struct event){
                .wall_us = w.wall_us,
                .connection = w.connection,
                .bytes_in = w.bytes_in,
                .bytes_out = w.bytes_out,
                .duration_us = w.duration_us,
                .rule = w.rule,
                .generation = w.generation,
                .count = w.count,
                .kind = w.kind,
                .via = w.via,
                .scheme = w.scheme,
                .reason = w.reason,
                .port = w.port,
                .status = w.status,
                .allowed = w.allowed == 1,
                .addr.family = w.family,
                .domain = texts[0],
                .method = texts[1],
                .path = texts[2],
                .swapped = texts[3],
                .detail = texts[4],
        };
        memcpy(ret->addr.bytes, w.address, sizeof ret->addr.bytes);
        *batch = rest;
        return 1;
}
