/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages between supervisor and gateway. One table says for each kind who may send it and what it carries; sender and
 * receiver are held to the same table. The gateway parses hostile bytes and may be in hostile hands: what the
 * supervisor takes from it is a kind it may send, a canonical authority, and printable text, or the message is refused
 * whole.
 */
#include "ipc/gateway.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "ipc/event.h"
#include "ipc/valid.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
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
        [IPC_READY] = { "ready", IPC_GATEWAY },
        [IPC_SWAPPED] = { "swapped", IPC_GATEWAY, .number_max = UINT32_MAX },
        [IPC_ASK] = { "ask", IPC_GATEWAY, .id = true, .authority = true, .number_max = VIAS - 1 },
        [IPC_ASK_GONE] = { "ask-gone", IPC_GATEWAY, .id = true, .number_max = 1 },
        [IPC_FAILED] = { "failed", IPC_GATEWAY, .text = true },
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

static bool message_valid(const struct ipc_message *m, enum ipc_side from, bool descriptor) {
        if (m->version != IPC_VERSION || m->kind >= IPC_KINDS || !kinds[m->kind].name)
                return false;
        const struct kind_row *k = &kinds[m->kind];
        return k->from == from && k->descriptor == descriptor && m->number <= k->number_max &&
               (!k->authority || (m->authority.port != 0 && ipc_host_valid(&m->authority.host))) &&
               (!k->text || text_valid(m->text, sizeof m->text));
}

/* Only what the kind uses: the rest is zero on the wire and for whoever reads it. */
static void message_reduce(struct ipc_message *to, const struct ipc_message *from) {
        const struct kind_row *k = &kinds[from->kind];
        memset(to, 0, sizeof *to);
        to->version = from->version;
        to->kind = from->kind;
        to->number = from->number;
        if (k->id)
                to->id = from->id;
        if (k->authority) {
                to->authority.port = from->authority.port;
                ipc_host_copy(&to->authority.host, &from->authority.host);
        }
        if (k->text)
                memcpy(to->text, from->text, strnlen(from->text, sizeof from->text - 1));
}

int ipc_send(int sock, enum ipc_side from, const struct ipc_message *m, int fd) {
        struct ipc_message checked = *m, wire;
        checked.version = IPC_VERSION;
        if (!message_valid(&checked, from, fd >= 0))
                return -EINVAL;
        message_reduce(&wire, &checked);
        int r = fd_send(sock, str_n(&wire, sizeof wire), &fd, fd >= 0 ? 1 : 0);
        return r == -ECONNRESET ? -EPIPE : r; /* gone with messages unread, or without: gone */
}

int ipc_receive(int sock, enum ipc_side from, struct ipc_message *ret, int *ret_fd) {
        struct ipc_message wire;
        cleanup(close_fd) int fd = -1;
        size_t n_fds = 0;
        ssize_t n = fd_receive(sock, &wire, sizeof wire, &fd, 1, &n_fds);
        if (n == 0 || n == -ECONNRESET)
                return 0;
        if (n == -EAGAIN)
                return -EAGAIN;
        if (n < 0)
                return n == -EMSGSIZE || n == -ETOOMANYREFS ? -EBADMSG : (int)n;
        if ((size_t)n != sizeof wire || !message_valid(&wire, from, fd >= 0))
                return -EBADMSG;
        message_reduce(ret, &wire);
        *ret_fd = take_fd(&fd);
        return 1;
}

void gateway_start_init(struct gateway_start *s) {
        memset(s, 0, sizeof *s);
        s->version = IPC_VERSION;
        s->size = sizeof *s;
        s->generation = 1;
        s->audit = 1;
        s->dns_mode = DNS_SYNTHETIC;
        s->log_level = LOG_NOTICE;
        s->ask_timeout_ns = 120 * NS_PER_SECOND;
        s->connect_ns = 10 * NS_PER_SECOND;
        s->header_ns = 10 * NS_PER_SECOND;
        s->idle_ns = 60 * NS_PER_SECOND;
        s->tunnel_idle_ns = 600 * NS_PER_SECOND;
        s->header_bytes = 64 * 1024;
        s->connections = 16384;
}

struct gateway_limits gateway_start_limits(const struct gateway_start *s) {
        return (struct gateway_limits){ .connect_ns = s->connect_ns,
                                        .header_ns = s->header_ns,
                                        .idle_ns = s->idle_ns,
                                        .tunnel_idle_ns = s->tunnel_idle_ns,
                                        .header_bytes = s->header_bytes,
                                        .connections = s->connections,
                                        .connections_per_second = s->connections_per_second,
                                        .bytes_out_per_host = s->bytes_out_per_host,
                                        .bytes_out = s->bytes_out };
}

void gateway_start_set_limits(struct gateway_start *s, const struct gateway_limits *l) {
        s->connect_ns = l->connect_ns;
        s->header_ns = l->header_ns;
        s->idle_ns = l->idle_ns;
        s->tunnel_idle_ns = l->tunnel_idle_ns;
        s->header_bytes = l->header_bytes;
        s->connections = l->connections;
        s->connections_per_second = l->connections_per_second;
        s->bytes_out_per_host = l->bytes_out_per_host;
        s->bytes_out = l->bytes_out;
}

static int check_listeners(const struct gateway_start *s, struct err *e) {
        if (s->n_listeners == 0 || s->n_listeners > GATEWAY_LISTENERS_MAX)
                return err_set(e, EINVAL, "%u listeners; 1 to %d are possible", s->n_listeners, GATEWAY_LISTENERS_MAX);
        for (uint32_t i = 0; i < s->n_listeners; i++) {
                const struct gateway_listener *l = &s->listeners[i];
                if (l->kind >= LISTENER_KINDS)
                        return err_set(e, EINVAL, "listener %u has the unknown kind %u", i, l->kind);
                if ((l->kind == LISTENER_FORWARD) != (l->forward_port != 0))
                        return err_set(e, EINVAL,
                                       "listener %u: a port to forward to belongs to forwarding listeners only", i);
        }
        return 0;
}

static int check_upstream(const struct gateway_start *s, struct err *e) {
        if (s->n_servers > GATEWAY_SERVERS_MAX)
                return err_set(e, EINVAL, "%u name servers; at most %d are possible", s->n_servers,
                               GATEWAY_SERVERS_MAX);
        for (uint32_t i = 0; i < s->n_servers; i++) {
                uint8_t family = s->servers[i].addr.family;
                if ((family != ADDR_V4 && family != ADDR_V6) || s->servers[i].port == 0)
                        return err_set(e, EINVAL, "name server %u is no address with a port", i);
        }
        if (s->upstream_kind >= UPSTREAM_KINDS)
                return err_set(e, EINVAL, "unknown kind of upstream proxy %u", s->upstream_kind);
        if (s->upstream_kind != UPSTREAM_NONE && (s->upstream.port == 0 || !ipc_host_valid(&s->upstream.host)))
                return err_set(e, EINVAL, "the upstream proxy is no host with a port");
        return 0;
}

static int check_texts(const struct gateway_start *s, struct err *e) {
        const struct {
                const char *name, *text;
                size_t size;
        } texts[] = {
                { "upstream user", s->upstream_user, sizeof s->upstream_user },
                { "upstream password", s->upstream_password, sizeof s->upstream_password },
                { "upstream bypass list", s->upstream_bypass, sizeof s->upstream_bypass },
                { "CA bundle", s->ca_bundle, sizeof s->ca_bundle },
                { "hosts file", s->hosts_file, sizeof s->hosts_file },
                { "sandbox id", s->sandbox_id, sizeof s->sandbox_id },
        };
        for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
                if (strnlen(texts[i].text, texts[i].size) == texts[i].size)
                        return err_set(e, EINVAL, "the %s is longer than %zu bytes", texts[i].name, texts[i].size - 1);
        return 0;
}

int gateway_start_check(const struct gateway_start *s, struct err *e) {
        if (s->version != IPC_VERSION || s->size != sizeof *s)
                return err_set(e, EPROTO,
                               "the start block is of another version (%u, %u bytes): bailey and bailey-gateway "
                               "must be of the same build",
                               s->version, s->size);
        if (s->dns_mode >= DNS_MODES || s->can_ask > 1 || s->audit > 1 || s->log_level >= LOG_LEVELS ||
            s->workers > GATEWAY_WORKERS_MAX || s->intercept > 1)
                return err_set(e, EINVAL, "a value in the start block is out of range");
        if (s->n_vaults != 0 && (!s->intercept || s->n_vaults != s->workers))
                return err_set(e, EINVAL, "%u connections to the vault for %u workers", s->n_vaults, s->workers);
        if (!s->connect_ns || !s->header_ns || !s->idle_ns || !s->tunnel_idle_ns || s->header_bytes < 1024)
                return err_set(e, EINVAL, "time limits cannot be 0 and the header limit not below 1024 bytes");
        int r = check_listeners(s, e);
        if (r == 0)
                r = check_upstream(s, e);
        if (r == 0)
                r = check_texts(s, e);
        return r;
}

int gateway_start_seal(const struct gateway_start *s, int *ret_fd, struct err *e) {
        int r = gateway_start_check(s, e);
        return r < 0 ? r : fd_sealed("bailey-gateway-start", str_n(s, sizeof *s), ret_fd, e);
}

int gateway_start_read(int fd, struct gateway_start *ret, struct err *e) {
        const int wanted = F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL;
        int seals = fcntl(fd, F_GET_SEALS);
        struct stat st;
        if (seals < 0 || (seals & wanted) != wanted)
                return err_set(
                    e, EPROTO,
                    "the start block is not a sealed file; bailey-gateway is started by bailey, not by hand");
        if (fstat(fd, &st) < 0)
                return err_errno(e, "cannot look at the start block");
        if (st.st_size != (off_t)sizeof *ret)
                return err_set(e, EPROTO,
                               "the start block has %jd bytes, not %zu: bailey and bailey-gateway must be of the same "
                               "build",
                               (intmax_t)st.st_size, sizeof *ret);
        cleanup(free_ptr) struct gateway_start *s = malloc(sizeof *s);
        if (!s)
                return err_set(e, ENOMEM, "no memory for the start block");
        if (pread(fd, s, sizeof *s, 0) != (ssize_t)sizeof *s)
                return err_errno(e, "cannot read the start block");
        int r = gateway_start_check(s, e);
        if (r < 0)
                return r;
        *ret = *s;
        return 0;
}
