/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Supervision of the gateway.
 *
 * Trust: the gateway parses hostile bytes and is taken for hostile itself. It can be refused (a malformed message ends
 * it), it can lie about what it did, and it can die; none of this opens anything, since the supervisor only ever lets
 * it accept on listeners and judge by a sealed policy. What it reports is written down as its word: it cannot forge
 * other lines, other runs or the supervisor's own notes.
 *
 * Ownership: this module owns duplicates of the listeners, the snapshots of the last few generations (events name rules
 * by generation), the process, its three descriptors (control, events, pidfd), the watch of this host's addresses and
 * the upstream proxy's password. The audit is borrowed.
 *
 * States: see roles/role.h. A gateway that dies is replaced at the next connection after the delay. Limits: GENERATIONS
 * kept, BATCHES read in one step, START_MS to become ready, GATEWAY_STOP_MS to end.
 */
#include "roles/gateway_process.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/escape.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/secret.h"
#include "roles/awaited.h"
#include "roles/gateway_spawn.h"
#include "roles/generation.h"
#include "roles/helper.h"
#include "roles/host_addresses.h"
#include "roles/role.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
        GENERATIONS = 4,
        BATCHES = 64,
        START_MS = 10000,
        AUDIT_RETRY_MS = 500,
};
#define CLOCK_SKEW_US 60000000ULL

struct gateway_process {
        struct gateway_settings settings;
        int listeners[GATEWAY_LISTENERS_MAX];
        char *program;
        struct secret *password;                    /* of the upstream proxy; not in settings.start */
        struct generation generations[GENERATIONS]; /* the newest first */
        awaited_list awaited;
        char *batch; /* EVENT_BATCH_MAX bytes */

        struct role role;
        int events;
        uint64_t audit_retry_ns; /* CLOCK_NEVER: the audit can be written */
        bool addresses_due;      /* the newest policy was compiled without an address that this host has now */
};

enum role_state gateway_process_state(const struct gateway_process *g) {
        return g->role.state;
}

pid_t gateway_process_pid(const struct gateway_process *g) {
        return g->role.pid;
}

static void notice(struct gateway_process *g, enum gateway_notice what, const char *text) {
        if (g->settings.on_notice)
                g->settings.on_notice(g->settings.arg, what, text);
}

/*
 * Messages to the gateway. One that does not read them is as good as dead.
 */
static void end_by_force(struct gateway_process *g, const char *why) {
        if (!g->role.pid || g->role.condemned)
                return;
        g->role.condemned = true;
        (void)audit_note(g->settings.audit, "the gateway is ended: %s", why);
        notice(g, NOTICE_DIED, why);
        role_kill(&g->role);
}

static void tell(struct gateway_process *g, const struct ipc_message *m, int fd) {
        if (!g->role.pid || g->role.condemned)
                return;
        int r = ipc_send(g->role.control, IPC_SUPERVISOR, m, fd);
        if (r < 0 && r != -EPIPE) /* gone: its death is reported where it is seen */
                end_by_force(g, r == -EAGAIN ? "it does not read its messages" : "it cannot be told anything");
}

/*
 * Policies.
 */
static const struct generation *generation_find(const struct gateway_process *g, uint32_t number) {
        for (size_t i = 0; i < GENERATIONS; i++)
                if (number && g->generations[i].number == number)
                        return &g->generations[i];
        return NULL;
}

/* Everything that can fail comes first; then both count, or neither. */
int gateway_process_reload(struct gateway_process *g, const struct policy *limits, const void *snapshot, size_t n,
                           struct err *e) {
        struct gateway_start start = g->settings.start;
        struct generation next = { 0 };
        uint32_t number = g->generations[0].number + 1;
        cleanup(close_fd) int rules_fd = -1, limits_fd = -1;
        if (limits) {
                gateway_start_set_limits(&start, &limits->network.limits);
                start.ask_timeout_ns = limits->network.ask_timeout_ns;
        }
        int r = limits ? gateway_start_seal(&start, &limits_fd, e) : 0;
        if (r == 0 && g->role.pid)
                r = fd_sealed("bailey-policy", str_n(snapshot, n), &rules_fd, e);
        if (r == 0)
                r = generation_open(&next, snapshot, n, number ? number : 1, e);
        if (r < 0)
                return err_wrap(e, r, "the new policy is not used");
        g->settings.start = start;
        generation_done(&g->generations[GENERATIONS - 1]);
        memmove(&g->generations[1], &g->generations[0], sizeof g->generations[0] * (GENERATIONS - 1));
        g->generations[0] = next;
        (void)audit_note(g->settings.audit, "policy %u: %zu rules", next.number, snapshot_rule_count(next.snapshot));
        if (g->role.pid && limits)
                tell(g, &(struct ipc_message){ .kind = IPC_LIMITS }, limits_fd);
        if (g->role.pid)
                tell(g, &(struct ipc_message){ .kind = IPC_SNAPSHOT, .number = next.number }, rules_fd);
        return 0;
}

void gateway_process_when_judged(struct gateway_process *g, int fd) {
        awaited_add(&g->awaited, fd, g->generations[0].number);
        if (!g->role.pid)
                awaited_tell(&g->awaited, UINT32_MAX);
}

/* The same policy with the addresses of now. */
static int use_addresses(struct gateway_process *g, struct err *e) {
        cleanup(free_ptr) void *snapshot = NULL;
        size_t n = 0;
        g->addresses_due = true;
        int r = g->settings.compile(g->settings.arg, &snapshot, &n, e);
        const struct generation *newest = &g->generations[0];
        if (r == 0 && (n != newest->n || memcmp(snapshot, newest->bytes, n) != 0)) {
                (void)audit_note(g->settings.audit, "the addresses of this host have changed");
                r = gateway_process_reload(g, NULL, snapshot, n, e);
        }
        g->addresses_due = r < 0;
        return r;
}

/* Without the new list an address of this host may be reached: then there is no gateway until there is one. */
static void follow_addresses(struct gateway_process *g) {
        struct err e = { 0 };
        if (!host_addresses_changed(g->settings.addresses) || use_addresses(g, &e) == 0)
                return;
        (void)audit_note(g->settings.audit, "the new addresses of this host cannot be judged: %s", err_text(&e));
        end_by_force(g, "this host's addresses have changed, and the policy could not be compiled with them");
}

/*
 * The audit: written once per step. While it fails, the gateway refuses new work.
 */
static void flush_audit(struct gateway_process *g) {
        struct err e = { 0 };
        bool failed = audit_flush(g->settings.audit, &e) < 0;
        bool before = g->audit_retry_ns != CLOCK_NEVER;
        g->audit_retry_ns = failed ? clock_after_ms(AUDIT_RETRY_MS) : CLOCK_NEVER;
        if (failed == before)
                return;
        const struct ipc_message m = { .kind = IPC_AUDIT, .number = !failed };
        tell(g, &m, -1);
        if (failed)
                notice(g, NOTICE_AUDIT_FAILED, err_text(&e));
        else {
                (void)audit_note(g->settings.audit, "the log can be written again");
                notice(g, NOTICE_AUDIT_RESTORED, audit_path(g->settings.audit));
        }
}

/* Its notes are marked as its own, and its clock must be ours. */
static void record(struct gateway_process *g, struct event *ev) {
        char text[512];
        uint64_t now = clock_wall_us();
        if (ev->wall_us > now + CLOCK_SKEW_US || ev->wall_us + CLOCK_SKEW_US < now)
                ev->wall_us = now;
        if (ev->kind == EVENT_NOTE) {
                int n = snprintf(text, sizeof text, "gateway: %.*s", (int)(ev->detail.n < 400 ? ev->detail.n : 400),
                                 ev->detail.n ? ev->detail.p : "");
                ev->detail = str_n(text, n > 0 ? (size_t)n : 0);
        }
        struct snapshot_rule rule;
        const struct generation *judged = generation_find(g, ev->generation);
        bool known = judged && snapshot_rule(judged->snapshot, ev->rule, &rule);
        (void)audit_add(g->settings.audit, ev, known ? &rule : NULL);
        if (g->settings.on_event)
                g->settings.on_event(g->settings.arg, ev, known ? &rule : NULL);
        ev->detail = (struct str){ 0 }; /* it may point into this function */
}

/* Reads what has been reported, up to a limit, so that one busy gateway cannot hold the loop. */
static void read_events(struct gateway_process *g, unsigned batches) {
        while (batches-- > 0 && g->events >= 0) {
                ssize_t n = recv(g->events, g->batch, EVENT_BATCH_MAX, MSG_DONTWAIT | MSG_TRUNC);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0) {
                        if (n == 0)
                                close_fd(&g->events); /* the death itself is seen at the pidfd */
                        return;
                }
                struct str batch = str_n(g->batch, n <= EVENT_BATCH_MAX ? (size_t)n : 0);
                struct event ev;
                int r;
                while ((r = event_decode(&batch, &ev)) > 0)
                        record(g, &ev);
                if (r < 0 || n > EVENT_BATCH_MAX)
                        end_by_force(g, "it sent a malformed event");
        }
}

/*
 * Messages from the gateway.
 */
static void handle(struct gateway_process *g, const struct ipc_message *m) {
        char text[80];
        switch ((enum ipc_kind)m->kind) {
        case IPC_READY:
                if (g->role.state != ROLE_STARTING)
                        break;
                role_set(&g->role, ROLE_SERVING, 0);
                notice(g, NOTICE_READY, "");
                break;
        case IPC_SWAPPED:
                snprintf(text, sizeof text, "policy %ju judges", (uintmax_t)m->number);
                (void)audit_note(g->settings.audit, "%s", text);
                awaited_tell(&g->awaited, (uint32_t)m->number);
                notice(g, NOTICE_RELOADED, text);
                break;
        case IPC_ASK:
                if (g->settings.on_ask)
                        g->settings.on_ask(g->settings.arg, m->id, &m->authority, (enum event_via)m->number, m->text);
                else
                        gateway_process_answer(g, m->id, DECISION_DENY);
                break;
        case IPC_ASK_GONE:
                if (g->settings.on_ask_gone)
                        g->settings.on_ask_gone(g->settings.arg, m->id, m->number == 1);
                break;
        case IPC_SSH:
        case IPC_TOOL:
        case IPC_PROGRAM_GONE:
                if (g->settings.on_program)
                        g->settings.on_program(g->settings.arg, m);
                else if (m->kind != IPC_PROGRAM_GONE)
                        gateway_process_program_status(g, m->id, IPC_PROGRAM_NOT_RUN,
                                                       "no program of the host runs here");
                break;
        case IPC_FAILED:
                (void)audit_note(g->settings.audit, "the gateway cannot work: %s", m->text);
                notice(g, NOTICE_CANNOT_START, m->text);
                g->role.condemned = true; /* it said why; its end needs no second report */
                role_kill(&g->role);
                break;
        default:
                break;
        }
}

static void read_control(struct gateway_process *g, unsigned messages) {
        while (messages-- > 0 && g->role.control >= 0) {
                struct ipc_message m;
                cleanup(close_fd) int fd = -1;
                int r = ipc_receive(g->role.control, IPC_GATEWAY, &m, &fd);
                if (r <= 0) {
                        if (r == 0)
                                close_fd(&g->role.control);
                        else if (r != -EAGAIN)
                                end_by_force(g, "it sent a malformed message");
                        return;
                }
                handle(g, &m);
        }
}

void gateway_process_answer(struct gateway_process *g, uint64_t id, enum decision d) {
        const struct ipc_message m = { .kind = IPC_ANSWER,
                                       .id = id,
                                       .number = d == DECISION_ALLOW ? DECISION_ALLOW : DECISION_DENY };
        tell(g, &m, -1);
}

void gateway_process_program_fd(struct gateway_process *g, uint64_t id, enum ipc_program_fd which, int fd) {
        const struct ipc_message m = { .kind = IPC_PROGRAM_FD, .id = id, .number = which };

        tell(g, &m, fd);
}

void gateway_process_program_status(struct gateway_process *g, uint64_t id, int status, const char *why) {
        struct ipc_message m = { .kind = IPC_PROGRAM_STATUS, .id = id, .number = (uint64_t)status };

        (void)snprintf(m.text, sizeof m.text, "%s", why);
        for (char *at = m.text; *at; at++) /* the message is printable ASCII */
                if (*at < 0x20 || *at > 0x7e)
                        *at = '?';
        tell(g, &m, -1);
}

const struct snapshot *gateway_process_snapshot(const struct gateway_process *g) {
        return g->generations[0].snapshot;
}

/*
 * The vault: one channel for each worker, all or none.
 */
void gateway_process_vault(struct gateway_process *g) {
        int fds[GATEWAY_WORKERS_MAX];
        if (!g->settings.vault || !g->role.pid || g->role.state == ROLE_STOPPING)
                return; /* the next gateway is connected when it starts */
        uint32_t n = vault_process_connect_all(g->settings.vault, fds, g->settings.start.workers);
        for (uint32_t i = 0; i < n; i++) {
                const struct ipc_message m = { .kind = IPC_VAULT, .number = i };
                tell(g, &m, fds[i]);
                close_fd(&fds[i]);
        }
}

/*
 * Life and death.
 */
/* The start block with the password, which is nowhere else but in secret memory: not in ours when this returns, and not
 * in the file when the gateway has read it. */
static int seal_block(struct gateway_process *g, int *ret, struct err *e) {
        struct gateway_start s = g->settings.start;
        s.generation = g->generations[0].number;
        s.audit = g->audit_retry_ns == CLOCK_NEVER;
        if (g->password)
                memcpy(s.upstream_password, secret_value(g->password).p, secret_value(g->password).n);
        int r = gateway_start_seal(&s, ret, e);
        secret_wipe(&s, sizeof s);
        return r;
}

static int spawn(struct gateway_process *g, int block, int snapshot, const int *vaults, struct gateway_child *ret,
                 struct err *e) {
        int others[GATEWAY_LISTENERS_MAX + 1 + GATEWAY_WORKERS_MAX];
        size_t n = g->settings.n_listeners;
        memcpy(others, g->listeners, n * sizeof *others);
        if (g->settings.vault)
                others[n++] = g->settings.credentials;
        for (uint32_t i = 0; i < g->settings.start.n_vaults; i++)
                others[n++] = vaults[i];
        return gateway_spawn(g->program, block, snapshot, others, n, ret, e);
}

static int start(struct gateway_process *g, struct err *e) {
        cleanup(close_fd) int snapshot = -1, block = -1;
        int r = g->addresses_due ? use_addresses(g, e) : 0;
        const struct generation *newest = &g->generations[0];
        uint32_t *n_vaults = &g->settings.start.n_vaults;
        int vaults[GATEWAY_WORKERS_MAX] = { 0 };
        *n_vaults =
            g->settings.vault ? vault_process_connect_all(g->settings.vault, vaults, g->settings.start.workers) : 0;
        if (r == 0)
                r = fd_sealed("bailey-policy", str_n(newest->bytes, newest->n), &snapshot, e);
        if (r == 0)
                r = seal_block(g, &block, e);
        if (r == 0 && !g->program)
                r = gateway_program(&g->program, e);
        struct gateway_child child = { 0 };
        if (r == 0)
                r = spawn(g, block, snapshot, vaults, &child, e);
        for (uint32_t i = 0; i < *n_vaults; i++)
                close_fd(&vaults[i]);
        if (r < 0)
                return r;
        g->events = child.events;
        role_started(&g->role, &child.process, child.control, START_MS);
        (void)audit_note(g->settings.audit, "gateway started, pid %d", (int)g->role.pid);
        return 0;
}

static void try_start(struct gateway_process *g) {
        struct err e = { 0 };
        if (start(g, &e) == 0)
                return;
        (void)audit_note(g->settings.audit, "the gateway could not be started: %s", err_text(&e));
        notice(g, NOTICE_CANNOT_START, err_text(&e));
        g->role.started_ns = clock_ns();
        role_delay(&g->role);
}

static void reap(struct gateway_process *g) {
        char how[ROLE_END_TEXT_MAX];

        if (!role_reap(&g->role, how))
                return;

        read_events(g, UINT32_MAX); /* what it reported before it died; the socket has an end now */
        read_control(g, 1024);
        close_fd(&g->events);
        role_forget(&g->role);
        awaited_tell(&g->awaited, UINT32_MAX); /* the next one starts with the newest */
        (void)audit_note(g->settings.audit, "gateway ended: %s", how);
        if (g->role.state == ROLE_STOPPING) {
                role_set(&g->role, ROLE_STOPPED, 0);
                notice(g, NOTICE_STOPPED, how);
                return;
        }
        if (!g->role.condemned)
                notice(g, g->role.state == ROLE_STARTING ? NOTICE_CANNOT_START : NOTICE_DIED, how);
        role_delay(&g->role);
}

int gateway_process_start(struct gateway_process *g, struct err *e) {
        if (g->role.state != ROLE_IDLE && g->role.state != ROLE_WAITING)
                return 0;
        return start(g, e);
}

/* One that is still starting has what was waiting for it before it. */
enum { LAST_WORD_MS = 250, FIRST_AND_LAST_WORD_MS = 5000 };

void gateway_process_stop(struct gateway_process *g) {
        if (g->role.state == ROLE_STOPPING || g->role.state == ROLE_STOPPED)
                return;
        if (!g->role.pid) {
                role_set(&g->role, ROLE_STOPPED, 0);
                notice(g, NOTICE_STOPPED, "");
                return;
        }
        role_set(&g->role, ROLE_STOPPING, GATEWAY_STOP_MS);
        const struct ipc_message m = { .kind = IPC_STOP };
        tell(g, &m, -1);
}

static void on_deadline(struct gateway_process *g) {
        switch (g->role.state) {
        case ROLE_STARTING:
                g->role.due_ns = CLOCK_NEVER;
                end_by_force(g, "it did not become ready in time");
                break;
        case ROLE_WAITING:
                role_set(&g->role, ROLE_IDLE, 0);
                break;
        case ROLE_STOPPING:
                g->role.due_ns = CLOCK_NEVER;
                role_kill(&g->role);
                break;
        default:
                g->role.due_ns = CLOCK_NEVER;
        }
}

/*
 * The loop's side.
 */
void gateway_process_watch(const struct gateway_process *g, struct poller *poller) {
        role_watch(&g->role, poller);
        poller_watch(poller, g->events, POLLIN);
        if (g->settings.addresses > 0)
                poller_watch(poller, g->settings.addresses, POLLIN);
        for (size_t i = 0; g->role.state == ROLE_IDLE && i < g->settings.n_listeners; i++)
                poller_watch(poller, g->listeners[i], POLLIN);

        poller_until(poller, g->audit_retry_ns);
}

static bool connection_waits(const struct gateway_process *g, const struct poller *poller) {
        for (size_t i = 0; g->role.state == ROLE_IDLE && i < g->settings.n_listeners; i++)
                if (poller_ready(poller, g->listeners[i]))
                        return true;
        return false;
}

void gateway_process_step(struct gateway_process *g, const struct poller *poller) {
        bool connection = connection_waits(g, poller); /* before a state changes */
        bool death = poller_ready(poller, g->role.pidfd) != 0;

        if (g->settings.addresses > 0 && poller_ready(poller, g->settings.addresses))
                follow_addresses(g);
        if (poller_ready(poller, g->role.control))
                read_control(g, 64);
        read_events(g, BATCHES);
        if (death && g->role.pid)
                reap(g);
        if (role_is_due(&g->role))
                on_deadline(g);
        if (connection && g->role.state == ROLE_IDLE)
                try_start(g);
        flush_audit(g);
}

/*
 * Birth and end of the object.
 */
int gateway_process_new(const struct gateway_settings *s, const void *snapshot, size_t n, struct gateway_process **ret,
                        struct err *e) {
        cleanup(close_fd) int addresses = s->addresses > 0 ? s->addresses : -1;
        if (s->n_listeners == 0 || s->n_listeners > GATEWAY_LISTENERS_MAX)
                return err_set(e, EINVAL, "a gateway has 1 to %d listeners, not %zu", GATEWAY_LISTENERS_MAX,
                               s->n_listeners);
        cleanup(gateway_process_freep) struct gateway_process *g = calloc(1, sizeof *g);
        if (!g)
                return err_memory(e);
        g->settings = *s;
        g->settings.addresses = take_fd(&addresses);
        struct str password = str_of(g->settings.start.upstream_password);
        int r = password.n ? secret_new(password, &g->password, e) : 0;
        secret_wipe(g->settings.start.upstream_password, sizeof g->settings.start.upstream_password);
        g->settings.start.version = IPC_VERSION;
        g->settings.start.size = sizeof g->settings.start;
        g->settings.start.n_listeners = (uint32_t)s->n_listeners;
        g->settings.start.intercept = s->vault != NULL;
        if (s->vault && !g->settings.start.workers) { /* one channel each: their number must be known */
                long processors = sysconf(_SC_NPROCESSORS_ONLN);
                g->settings.start.workers = processors < 1                     ? 1
                                            : processors > GATEWAY_WORKERS_MAX ? GATEWAY_WORKERS_MAX
                                                                               : (uint32_t)processors;
        }
        g->role = ROLE_NONE("gateway");
        g->events = -1;
        g->audit_retry_ns = CLOCK_NEVER;
        for (size_t i = 0; i < GATEWAY_LISTENERS_MAX; i++)
                g->listeners[i] = -1;
        if (r < 0)
                return r;
        g->batch = malloc(EVENT_BATCH_MAX);
        g->program = s->program ? str_format("%s", s->program) : NULL;
        if (!g->batch || (s->program && !g->program))
                return err_memory(e);
        g->settings.program = NULL; /* the copy counts */
        g->settings.listeners = NULL;
        for (size_t i = 0; i < s->n_listeners; i++) {
                g->listeners[i] = fcntl(s->listeners[i], F_DUPFD_CLOEXEC, 3);
                if (g->listeners[i] < 0)
                        return err_errno(e, "cannot keep listener %zu", i);
        }
        r = gateway_start_check(&g->settings.start, e);
        if (r == 0)
                r = generation_open(&g->generations[0], snapshot, n, 1, e);
        if (r < 0)
                return r;
        *ret = take_ptr(&g);
        return 0;
}

/* A moment to say what it still knows: the last attempts of a run are on record too. */
static void let_finish(struct gateway_process *g) {
        const struct ipc_message m = { .kind = IPC_STOP };
        const uint64_t limit_ms = g->role.state == ROLE_STARTING ? FIRST_AND_LAST_WORD_MS : LAST_WORD_MS;
        const uint64_t end_ns = clock_after_ms(limit_ms);

        tell(g, &m, -1);
        while (clock_ns() < end_ns) {
                struct pollfd fds[] = { { .fd = g->role.pidfd, .events = POLLIN },
                                        { .fd = g->events, .events = POLLIN } };
                if (poll(fds, 2, clock_left_ms(end_ns)) < 0 && errno != EINTR)
                        return;
                if (fds[0].revents)
                        return;
                read_events(g, BATCHES); /* so that there is room for the rest */
        }
}

void gateway_process_free(struct gateway_process *g) {
        if (!g)
                return;
        if (g->role.pid) {
                let_finish(g);
                role_end(&g->role);
                read_events(g, UINT32_MAX);
                (void)audit_flush(g->settings.audit, NULL);
        }
        role_forget(&g->role);
        close_fd(&g->events);
        for (size_t i = 0; i < GATEWAY_LISTENERS_MAX; i++)
                close_fd(&g->listeners[i]);
        for (size_t i = 0; i < GENERATIONS; i++)
                generation_done(&g->generations[i]);
        if (g->settings.addresses > 0)
                close(g->settings.addresses);
        awaited_done(&g->awaited);
        secret_free(g->password);
        free(g->batch);
        free(g->program);
        free(g);
}

void gateway_process_freep(struct gateway_process **g) {
        gateway_process_free(*g);
}
