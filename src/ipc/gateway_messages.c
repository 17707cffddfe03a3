/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages between supervisor and gateway. One table says for each kind who may send it and what it carries; sender and
 * receiver are held to the same table. The gateway parses hostile bytes and may be compromised: the supervisor accepts
 * only a kind that the gateway may send, a canonical authority and printable text. Anything else refuses the whole
 * message.
 */
#include "ipc/gateway_messages.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "ipc/event.h"
#include "ipc/valid.h"

#include <assert.h>
#include <errno.h>
#include <unistd.h>

static const struct kind_row {
        const char *name;
        enum ipc_side from;
        bool descriptor, id, authority, text;
        uint64_t number_max;
} kinds[] = {
        [IPC_SNAPSHOT] = { "snapshot", IPC_SUPERVISOR, .descriptor = true, .number_max = UINT32_MAX },
        [IPC_AUDIT] = { "audit", IPC_SUPERVISOR, .number_max = 1 },
        [IPC_ANSWER] = { "answer", IPC_SUPERVISOR, .id = true, .number_max = DECISION_ALLOW },
        [IPC_STOP] = { "stop", IPC_SUPERVISOR },
        [IPC_VAULT] = { "vault", IPC_SUPERVISOR, .descriptor = true, .number_max = GATEWAY_WORKERS_MAX - 1 },
        [IPC_LIMITS] = { "limits", IPC_SUPERVISOR, .descriptor = true },
        [IPC_PROGRAM_FD] = { "program-fd", IPC_SUPERVISOR, .descriptor = true, .id = true,
                             .number_max = IPC_PROGRAM_FDS - 1 },
        [IPC_PROGRAM_STATUS] = { "program-status", IPC_SUPERVISOR, .id = true, .text = true,
                                 .number_max = IPC_PROGRAM_REFUSED },
        [IPC_GO] = { "go", IPC_SUPERVISOR },
        [IPC_READY] = { "ready", IPC_GATEWAY },
        [IPC_SWAPPED] = { "swapped", IPC_GATEWAY, .number_max = UINT32_MAX },
        [IPC_ASK] = { "ask", IPC_GATEWAY, .id = true, .authority = true, .text = true, .number_max = VIAS - 1 },
        [IPC_ASK_GONE] = { "ask-gone", IPC_GATEWAY, .id = true, .number_max = 1 },
        [IPC_FAILED] = { "failed", IPC_GATEWAY, .text = true },
        [IPC_SSH] = { "ssh", IPC_GATEWAY, .id = true, .authority = true, .text = true },
        [IPC_TOOL] = { "tool", IPC_GATEWAY, .id = true, .text = true, .number_max = IPC_TOOLS - 1 },
        [IPC_PROGRAM_GONE] = { "program-gone", IPC_GATEWAY, .id = true },
};
static_assert(sizeof kinds / sizeof *kinds == IPC_KINDS, "a row for each kind of message");
static_assert(DECISION_DENY == 0 && DECISION_ALLOW == 1, "an answer is one of the first two decisions");

const char *ipc_kind_name(enum ipc_kind kind) {
        return (unsigned)kind < IPC_KINDS ? kinds[kind].name : NULL;
}

static bool text_valid(const char *text, size_t size) {
        size_t n = strnlen(text, size);
        return n < size && ipc_text_valid(str_n(text, n));
}

static bool message_valid(const struct ipc_message *message, enum ipc_side from, bool descriptor) {
        if (message->version != IPC_VERSION || message->kind >= IPC_KINDS || !kinds[message->kind].name)
                return false;
        const struct kind_row *row = &kinds[message->kind];
        return row->from == from && row->descriptor == descriptor && message->number <= row->number_max &&
               (!row->authority || (message->authority.port != 0 && ipc_host_valid(&message->authority.host))) &&
               (!row->text || text_valid(message->text, sizeof message->text));
}

/* Only the fields that the kind uses; the rest is zero on the wire and for the reader. */
static void message_reduce(struct ipc_message *to, const struct ipc_message *from) {
        const struct kind_row *row = &kinds[from->kind];

        memset(to, 0, sizeof *to);
        to->version = from->version;
        to->kind = from->kind;
        to->number = from->number;

        if (row->id)
                to->id = from->id;

        if (row->authority) {
                to->authority.port = from->authority.port;
                ipc_host_copy(&to->authority.host, &from->authority.host);
        }

        if (row->text)
                memcpy(to->text, from->text, strnlen(from->text, sizeof from->text - 1));
}

int ipc_send(int sock, enum ipc_side from, const struct ipc_message *message, int fd) {
        struct ipc_message checked = *message, wire;
        checked.version = IPC_VERSION;
        if (!message_valid(&checked, from, fd >= 0))
                return -EINVAL;
        message_reduce(&wire, &checked);
        int r = fd_send(sock, str_n(&wire, sizeof wire), &fd, fd >= 0 ? 1 : 0);
        if (r == -ECONNRESET)
                return -EPIPE; /* gone with messages unread, or without: gone */

        return r;
}

int ipc_receive(int sock, enum ipc_side from, struct ipc_message *ret, int *ret_fd) {
        struct ipc_message wire;
        cleanup(close_fd) int fd = -1;
        ssize_t n = ipc_receive_bytes(sock, &wire, sizeof wire, &fd);
        if (n <= 0)
                return (int)n;
        if ((size_t)n != sizeof wire || !message_valid(&wire, from, fd >= 0))
                return -EBADMSG;

        message_reduce(ret, &wire);
        *ret_fd = take_fd(&fd);

        return 1;
}

void gateway_start_init(struct gateway_start *start) {
        memset(start, 0, sizeof *start);
        start->version = IPC_VERSION;
        start->size = sizeof *start;
        start->generation = 1;

        start->audit = 1;
        start->dns_mode = DNS_SYNTHETIC;
        start->log_level = LOG_NOTICE;

        start->ask_timeout_ns = 120 * NS_PER_SECOND;
        start->connect_ns = 10 * NS_PER_SECOND;
        start->header_ns = 10 * NS_PER_SECOND;
        start->idle_ns = 60 * NS_PER_SECOND;
        start->tunnel_idle_ns = 600 * NS_PER_SECOND;

        start->header_bytes = 64 * 1024;
        start->connections = 16384;
}

struct gateway_limits gateway_start_limits(const struct gateway_start *start) {
        return (struct gateway_limits){ .connect_ns = start->connect_ns,
                                        .header_ns = start->header_ns,
                                        .idle_ns = start->idle_ns,
                                        .tunnel_idle_ns = start->tunnel_idle_ns,
                                        .header_bytes = start->header_bytes,
                                        .body_bytes = start->body_bytes,
                                        .connections = start->connections,
                                        .connections_per_second = start->connections_per_second,
                                        .bytes_out_per_host = start->bytes_out_per_host,
                                        .bytes_out = start->bytes_out };
}

void gateway_start_set_limits(struct gateway_start *start, const struct gateway_limits *limits) {
        start->connect_ns = limits->connect_ns;
        start->header_ns = limits->header_ns;
        start->idle_ns = limits->idle_ns;
        start->tunnel_idle_ns = limits->tunnel_idle_ns;
        start->header_bytes = limits->header_bytes;
        start->body_bytes = limits->body_bytes;
        start->connections = limits->connections;
        start->connections_per_second = limits->connections_per_second;
        start->bytes_out_per_host = limits->bytes_out_per_host;
        start->bytes_out = limits->bytes_out;
}

static int check_listeners(const struct gateway_start *start, struct err *err) {
        if (start->n_listeners == 0 || start->n_listeners > GATEWAY_LISTENERS_MAX)
                return err_set(err, EINVAL, "%u listeners; 1 to %d are possible", start->n_listeners,
                               GATEWAY_LISTENERS_MAX);

        for (uint32_t i = 0; i < start->n_listeners; i++) {
                const struct gateway_listener *listener = &start->listeners[i];
                if (listener->kind >= LISTENER_KINDS)
                        return err_set(err, EINVAL, "listener %u has the unknown kind %u", i, listener->kind);
                if ((listener->kind == LISTENER_FORWARD) != (listener->forward_port != 0))
                        return err_set(err, EINVAL,
                                       "listener %u: a port to forward to belongs to forwarding listeners only", i);
        }

        return 0;
}

static int check_upstream(const struct gateway_start *start, struct err *err) {
        if (start->n_servers > GATEWAY_SERVERS_MAX)
                return err_set(err, EINVAL, "%u name servers; at most %d are possible", start->n_servers,
                               GATEWAY_SERVERS_MAX);

        for (uint32_t i = 0; i < start->n_servers; i++) {
                uint8_t family = start->servers[i].addr.family;
                if ((family != ADDR_V4 && family != ADDR_V6) || start->servers[i].port == 0)
                        return err_set(err, EINVAL, "name server %u is no address with a port", i);
        }

        if (start->upstream_kind >= UPSTREAM_KINDS)
                return err_set(err, EINVAL, "unknown kind of upstream proxy %u", start->upstream_kind);
        if (start->upstream_kind != UPSTREAM_NONE &&
            (start->upstream.port == 0 || !ipc_host_valid(&start->upstream.host)))
                return err_set(err, EINVAL, "the upstream proxy is no host with a port");

        return 0;
}

static int check_texts(const struct gateway_start *start, struct err *err) {
        const struct {
                const char *name, *text;
                size_t size;
        } texts[] = {
                { "upstream user", start->upstream_user, sizeof start->upstream_user },
                { "upstream password", start->upstream_password, sizeof start->upstream_password },
                { "secret for clients", start->client_secret, sizeof start->client_secret },
                { "upstream bypass list", start->upstream_bypass, sizeof start->upstream_bypass },
                { "CA bundle", start->ca_bundle, sizeof start->ca_bundle },
                { "hosts file", start->hosts_file, sizeof start->hosts_file },
                { "sandbox id", start->sandbox_id, sizeof start->sandbox_id },
        };

        for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
                if (strnlen(texts[i].text, texts[i].size) == texts[i].size)
                        return err_set(err, EINVAL, "the %s is longer than %zu bytes", texts[i].name,
                                       texts[i].size - 1);

        return 0;
}

static int check_clients(const struct gateway_start *start, struct err *err) {
        if (start->n_clients > GATEWAY_CLIENTS_MAX)
                return err_set(err, EINVAL, "%u networks of clients; at most %d are possible", start->n_clients,
                               GATEWAY_CLIENTS_MAX);
        for (uint32_t i = 0; i < start->n_clients; i++) {
                const struct cidr *net = &start->clients[i];
                if ((net->addr.family != ADDR_V4 && net->addr.family != ADDR_V6) || net->bits > addr_bits(&net->addr))
                        return err_set(err, EINVAL, "a network of clients is none");
        }
        return 0;
}

/* A listener whose protocol has no place for it would let everybody past the secret; the two Unix sockets belong to
 * whoever may open their files. */
static bool can_want_secret(enum listener_kind kind) {
        return kind == LISTENER_HTTP || kind == LISTENER_SOCKS5 || kind == LISTENER_HANDED ||
               kind == LISTENER_PACKETS || kind == LISTENER_SHIM || kind == LISTENER_AGENT;
}

static int check_secret(const struct gateway_start *start, struct err *err) {
        size_t n = strlen(start->client_secret);
        if (n == 0)
                return 0;
        if (n < PROXY_SECRET_MIN)
                return err_set(err, EINVAL, "the secret for clients is shorter than %d bytes", PROXY_SECRET_MIN);

        for (size_t i = 0; i < n; i++)
                if (!ascii_is_alnum(start->client_secret[i]))
                        return err_set(err, EINVAL, "the secret for clients has a byte that a URL would escape");

        for (uint32_t i = 0; i < start->n_listeners; i++)
                if (!can_want_secret((enum listener_kind)start->listeners[i].kind))
                        return err_set(err, EINVAL, "listener %u cannot ask its clients for the secret", i);

        return 0;
}

int gateway_start_check(const struct gateway_start *start, struct err *err) {
        if (start->version != IPC_VERSION || start->size != sizeof *start)
                return err_set(err, EPROTO,
                               "the start block is of another version (%u, %u bytes): bailey and bailey-gateway "
                               "must be of the same build",
                               start->version, start->size);

        if (start->dns_mode >= DNS_MODES || start->can_ask > 1 || start->audit > 1 || start->log_level >= LOG_LEVELS ||
            start->workers > GATEWAY_WORKERS_MAX || start->intercept > 1 || start->waits > 1)
                return err_set(err, EINVAL, "a value in the start block is out of range");

        if (start->n_vaults != 0 && (!start->intercept || start->n_vaults != start->workers))
                return err_set(err, EINVAL, "%u connections to the vault for %u workers", start->n_vaults,
                               start->workers);
        if (!start->connect_ns || !start->header_ns || !start->idle_ns || !start->tunnel_idle_ns ||
            start->header_bytes < 1024)
                return err_set(err, EINVAL, "time limits cannot be 0 and the header limit not below 1024 bytes");

        int r = check_listeners(start, err);
        if (r == 0)
                r = check_upstream(start, err);
        if (r == 0)
                r = check_texts(start, err);
        if (r == 0)
                r = check_clients(start, err);
        if (r == 0)
                r = check_secret(start, err);

        return r;
}

int gateway_start_seal(const struct gateway_start *start, int *ret_fd, struct err *err) {
        int r = gateway_start_check(start, err);
        if (r < 0)
                return r;

        return fd_sealed("bailey-gateway-start", str_n(start, sizeof *start), ret_fd, err);
}

int gateway_start_read(int fd, struct gateway_start *ret, struct err *err) {
        size_t size;

        if (!fd_is_sealed(fd, &size))
                return err_set(
                    err, EPROTO,
                    "the start block is not a sealed file; bailey-gateway is started by bailey, not by hand");

        if (size != sizeof *ret)
                return err_set(err, EPROTO,
                               "the start block has %zu bytes, not %zu: bailey and bailey-gateway must be of the same "
                               "build",
                               size, sizeof *ret);

        cleanup(free_ptr) struct gateway_start *start = malloc(sizeof *start);
        if (!start)
                return err_set(err, ENOMEM, "no memory for the start block");
        if (pread(fd, start, sizeof *start, 0) != (ssize_t)sizeof *start)
                return err_errno(err, "cannot read the start block");

        int r = gateway_start_check(start, err);
        if (r < 0)
                return r;

        *ret = *start;
        return 0;
}
