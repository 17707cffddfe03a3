/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Supervision of the gateway.
 *
 * Trust: the gateway parses hostile bytes and is treated as hostile. It can send malformed messages (which ends it),
 * lie about what it did, and die. None of this opens anything: it may only accept on its listeners and judge by a
 * sealed policy. Its reports are recorded as its own: it cannot forge other lines, other runs or the supervisor's
 * notes.
 *
 * Ownership: this module owns duplicates of the listeners, the snapshots of the last few generations (events name rules
 * by generation), the process, its three descriptors (control, events, pidfd), the watch of this host's addresses and
 * the secrets of the start block. The audit is borrowed.
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
#include "base/secrets/secret.h"
#include "ipc/listener_refuse.h"
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
        HELD_MS = 2000,
        AUDIT_RETRY_MS = 500,
        FAILURES_MAX = 3, /* starts in a row; then nobody waits for the next */
};
#define CLOCK_SKEW_US 60000000ULL

struct gateway_process {
        struct gateway_settings settings;
        int listeners[GATEWAY_LISTENERS_MAX];
        bool unrefused[GATEWAY_LISTENERS_MAX]; /* something waits there that cannot be refused: not now, at least */
        char *program;
        struct secret *password; /* of the upstream proxy; not in settings.start, nor is the next */
        struct secret *client_secret;
        struct generation generations[GENERATIONS]; /* the newest first */
        awaited_list awaited;
        char *batch; /* EVENT_BATCH_MAX bytes */

        struct role role;
        int events;
        uint64_t audit_retry_ns; /* CLOCK_NEVER: the audit can be written */
        unsigned failures;       /* starts in a row after which no gateway accepted anything */
        bool held;               /* started ahead: it accepts nothing before IPC_GO */
        bool dismissed;          /* held, and killed before anybody connected; its end has not been seen yet */
        bool needed;             /* somebody has connected, or it was asked for */
        bool addresses_due;      /* the newest policy was compiled without an address that this host has now */
};

enum role_state gateway_process_state(const struct gateway_process *process) {
        return process->role.state;
}

pid_t gateway_process_pid(const struct gateway_process *process) {
        return process->role.pid;
}

static void process_notice(struct gateway_process *process, enum gateway_notice what, const char *text) {
        if (process->settings.on_notice)
                process->settings.on_notice(process->settings.arg, what, text);
}

/* Nobody needed it yet, so nobody is told. */
static void process_dismiss(struct gateway_process *process) {
        process->dismissed = true;
        role_kill(&process->role);
}

/*
 * Messages to the gateway. One that does not read them is as good as dead.
 */
static void end_by_force(struct gateway_process *process, const char *why) {
        if (!process->role.pid || process->role.condemned)
                return;
        if (process->held) {
                process_dismiss(process);
                return;
        }

        process->role.condemned = true;
        (void)audit_note(process->settings.audit, "the gateway is ended: %s", why);
        process_notice(process, NOTICE_DIED, why);
        role_kill(&process->role);
}

static void process_tell(struct gateway_process *process, const struct ipc_message *message, int fd) {
        if (!process->role.pid || process->role.condemned)
                return;
        int r = ipc_send(process->role.control, IPC_SUPERVISOR, message, fd);
        if (r < 0 && r != -EPIPE) /* gone: its death is reported where it is seen */
                end_by_force(process, r == -EAGAIN ? "it does not read its messages" : "it cannot be told anything");
}

/*
 * Policies.
 */
static const struct generation *generation_find(const struct gateway_process *process, uint32_t number) {
        for (size_t i = 0; i < GENERATIONS; i++)
                if (number && process->generations[i].number == number)
                        return &process->generations[i];
        return NULL;
}

/* Everything that can fail comes first; then both count, or neither. */
int gateway_process_reload(struct gateway_process *process, const struct policy *limits, const void *snapshot, size_t n,
                           struct err *err) {
        struct gateway_start start = process->settings.start;
        struct generation next = { 0 };
        uint32_t number = process->generations[0].number + 1;
        cleanup(close_fd) int rules_fd = -1, limits_fd = -1;

        if (limits) {
                gateway_start_set_limits(&start, &limits->network.limits);
                start.ask_timeout_ns = limits->network.ask_timeout_ns;
        }

        int r = 0;

        if (limits)
                r = gateway_start_seal(&start, &limits_fd, err);

        if (r == 0 && process->role.pid)
                r = fd_sealed("bailey-policy", str_n(snapshot, n), &rules_fd, err);
        if (r == 0)
                r = generation_open(&next, snapshot, n, number ? number : 1, err);
        if (r < 0)
                return err_wrap(err, r, "the new policy is not used");

        process->settings.start = start;
        generation_done(&process->generations[GENERATIONS - 1]);
        memmove(&process->generations[1], &process->generations[0], sizeof process->generations[0] * (GENERATIONS - 1));
        process->generations[0] = next;
        if (process->needed)
                (void)audit_note(process->settings.audit, "policy %u: %zu rules", next.number,
                                 snapshot_rule_count(next.snapshot));

        if (process->role.pid && limits)
                process_tell(process, &(struct ipc_message){ .kind = IPC_LIMITS }, limits_fd);
        if (process->role.pid)
                process_tell(process, &(struct ipc_message){ .kind = IPC_SNAPSHOT, .number = next.number }, rules_fd);

        return 0;
}

void gateway_process_when_judged(struct gateway_process *process, int fd) {
        awaited_add(&process->awaited, fd, process->generations[0].number);
        if (!process->role.pid)
                awaited_tell(&process->awaited, UINT32_MAX);
}

/* The same policy with the addresses of now. */
static int use_addresses(struct gateway_process *process, struct err *err) {
        cleanup(free_ptr) void *snapshot = NULL;
        size_t n = 0;

        process->addresses_due = true;
        int r = process->settings.compile(process->settings.arg, &snapshot, &n, err);
        const struct generation *newest = &process->generations[0];
        if (r == 0 && (n != newest->n || memcmp(snapshot, newest->bytes, n) != 0)) {
                if (process->needed)
                        (void)audit_note(process->settings.audit, "the addresses of this host have changed");
                r = gateway_process_reload(process, NULL, snapshot, n, err);
        }

        process->addresses_due = r < 0;
        return r;
}

/* Without the new list an address of this host may be reached: then there is no gateway until there is one. */
static void follow_addresses(struct gateway_process *process) {
        struct err err = { 0 };
        if (!host_addresses_changed(process->settings.addresses) || use_addresses(process, &err) == 0)
                return;
        (void)audit_note(process->settings.audit, "the new addresses of this host cannot be judged: %s",
                         err_text(&err));
        end_by_force(process, "this host's addresses have changed, and the policy could not be compiled with them");
}

/*
 * The audit: written once per step. While it fails, the gateway refuses new work.
 */
static void flush_audit(struct gateway_process *process) {
        struct err err = { 0 };
        bool failed = audit_flush(process->settings.audit, &err) < 0;
        bool before = process->audit_retry_ns != CLOCK_NEVER;

        if (failed)
                process->audit_retry_ns = clock_after_ms(AUDIT_RETRY_MS);
        else
                process->audit_retry_ns = CLOCK_NEVER;
        if (failed == before)
                return;

        const struct ipc_message message = { .kind = IPC_AUDIT, .number = !failed };
        process_tell(process, &message, -1);

        if (failed)
                process_notice(process, NOTICE_AUDIT_FAILED, err_text(&err));
        else {
                (void)audit_note(process->settings.audit, "the log can be written again");
                process_notice(process, NOTICE_AUDIT_RESTORED, audit_path(process->settings.audit));
        }
}

/* Its notes are marked as its own, and its clock must be ours. */
static void process_record(struct gateway_process *process, struct event *ev) {
        char text[512];
        uint64_t now = clock_wall_us();
        if (ev->wall_us > now + CLOCK_SKEW_US || ev->wall_us + CLOCK_SKEW_US < now)
                ev->wall_us = now;

        if (ev->kind == EVENT_NOTE) {
                int n = snprintf(text, sizeof text, "gateway: %.*s", STR_FMT(str_first(ev->detail, 400)));
                ev->detail = str_n(text, n > 0 ? (size_t)n : 0);
        }

        struct snapshot_rule rule;
        const struct generation *judged = generation_find(process, ev->generation);
        bool known = judged && snapshot_rule(judged->snapshot, ev->rule, &rule);
        (void)audit_add(process->settings.audit, ev, known ? &rule : NULL);

        if (process->settings.on_event)
                process->settings.on_event(process->settings.arg, ev, known ? &rule : NULL);

        ev->detail = (struct str){ 0 }; /* it may point into this function */
}

/* One batch. 0: there is none now. */
static ssize_t receive_batch(struct gateway_process *process) {
        size_t n_fds = 0;
        ssize_t n = fd_receive(process->events, process->batch, EVENT_BATCH_MAX, NULL, 0, &n_fds);

        if (n > 0)
                return n;
        if (n == 0 || n == -EPIPE)
                close_fd(&process->events); /* the death itself is seen at the pidfd */
        else if (n != -EAGAIN && n != -ECONNRESET)
                end_by_force(process, "it sent a malformed event");
        return 0;
}

/* Reads what has been reported, up to a limit, so that one busy gateway cannot hold the loop. */
static void read_events(struct gateway_process *process, unsigned batches) {
        while (batches-- > 0 && process->events >= 0) {
                ssize_t n = receive_batch(process);
                if (n == 0)
                        return;

                struct str batch = str_n(process->batch, (size_t)n);
                struct event ev;
                int r;

                while ((r = event_decode(&batch, &ev)) > 0)
                        process_record(process, &ev);

                if (r < 0)
                        end_by_force(process, "it sent a malformed event");
        }
}

/*
 * Messages from the gateway.
 */
static void process_handle(struct gateway_process *process, const struct ipc_message *message) {
        char text[80];

        switch ((enum ipc_kind)message->kind) {
        case IPC_READY:
                if (process->role.state != ROLE_STARTING)
                        break;
                process->failures = 0;
                role_set(&process->role, ROLE_SERVING, process->held ? HELD_MS : 0);
                if (!process->held)
                        process_notice(process, NOTICE_READY, "");
                break;
        case IPC_SWAPPED:
                snprintf(text, sizeof text, "policy %ju judges", (uintmax_t)message->number);
                (void)audit_note(process->settings.audit, "%s", text);
                awaited_tell(&process->awaited, (uint32_t)message->number);
                process_notice(process, NOTICE_RELOADED, text);
                break;
        case IPC_ASK:
                if (process->settings.on_ask)
                        process->settings.on_ask(process->settings.arg, message->id, &message->authority,
                                                 (enum event_via)message->number, message->text);
                else
                        gateway_process_answer(process, message->id, DECISION_DENY);
                break;
        case IPC_ASK_GONE:
                if (process->settings.on_ask_gone)
                        process->settings.on_ask_gone(process->settings.arg, message->id, message->number == 1);
                break;
        case IPC_SSH:
        case IPC_TOOL:
        case IPC_PROGRAM_GONE:
                if (process->settings.on_program)
                        process->settings.on_program(process->settings.arg, message);
                else if (message->kind != IPC_PROGRAM_GONE)
                        gateway_process_program_status(process, message->id, IPC_PROGRAM_NOT_RUN,
                                                       "no program of the host runs here");
                break;
        case IPC_FAILED:
                if (process->held) { /* the next says it again */
                        process_dismiss(process);
                        break;
                }

                (void)audit_note(process->settings.audit, "the gateway cannot work: %s", message->text);
                process_notice(process, NOTICE_CANNOT_START, message->text);
                process->role.condemned = true; /* it said why; its end needs no second report */
                role_kill(&process->role);
                break;
        default:
                break;
        }
}

static void read_control(struct gateway_process *process, unsigned messages) {
        while (messages-- > 0 && process->role.control >= 0) {
                struct ipc_message message;
                cleanup(close_fd) int fd = -1;
                int r = ipc_receive(process->role.control, IPC_GATEWAY, &message, &fd);
                if (r <= 0) {
                        if (r == 0)
                                close_fd(&process->role.control);
                        else if (r != -EAGAIN)
                                end_by_force(process, "it sent a malformed message");

                        return;
                }

                process_handle(process, &message);
        }
}

void gateway_process_answer(struct gateway_process *process, uint64_t id, enum decision decision) {
        const struct ipc_message message = { .kind = IPC_ANSWER,
                                             .id = id,
                                             .number = decision == DECISION_ALLOW ? DECISION_ALLOW : DECISION_DENY };
        process_tell(process, &message, -1);
}

void gateway_process_program_fd(struct gateway_process *process, uint64_t id, enum ipc_program_fd which, int fd) {
        const struct ipc_message message = { .kind = IPC_PROGRAM_FD, .id = id, .number = which };

        process_tell(process, &message, fd);
}

void gateway_process_program_status(struct gateway_process *process, uint64_t id, int status, const char *why) {
        struct ipc_message message = { .kind = IPC_PROGRAM_STATUS, .id = id, .number = (uint64_t)status };

        (void)snprintf(message.text, sizeof message.text, "%s", why);
        for (char *at = message.text; *at; at++) /* the message is printable ASCII */
                if (*at < 0x20 || *at > 0x7e)
                        *at = '?';
        process_tell(process, &message, -1);
}

const struct snapshot *gateway_process_snapshot(const struct gateway_process *process) {
        return process->generations[0].snapshot;
}

/*
 * The vault: one channel for each worker, all or none.
 */
void gateway_process_vault(struct gateway_process *process) {
        int fds[GATEWAY_WORKERS_MAX];

        if (!process->settings.vault || !process->role.pid || process->role.state == ROLE_STOPPING)
                return; /* the next gateway is connected when it starts */

        uint32_t n = vault_process_connect_all(process->settings.vault, fds, process->settings.start.workers);
        for (uint32_t i = 0; i < n; i++) {
                const struct ipc_message message = { .kind = IPC_VAULT, .number = i };

                process_tell(process, &message, fds[i]);
                close_fd(&fds[i]);
        }
}

/*
 * Life and death.
 */
static void put_secret(const struct secret *secret, char *to) {
        if (secret)
                memcpy(to, secret_value(secret).p, secret_value(secret).n);
}

/* The start block with its secrets. They stay in secret memory only: they are wiped from ours when this returns, and
 * from the file once the gateway has read it. */
static int seal_block(struct gateway_process *process, int *ret, struct err *err) {
        struct gateway_start start = process->settings.start;

        start.generation = process->generations[0].number;
        start.waits = process->held;
        start.audit = process->audit_retry_ns == CLOCK_NEVER;
        put_secret(process->password, start.upstream_password);
        put_secret(process->client_secret, start.client_secret);

        int r = gateway_start_seal(&start, ret, err);
        secret_wipe(&start, sizeof start);

        return r;
}

static int process_spawn(struct gateway_process *process, int block, int snapshot, const int *vaults,
                         struct gateway_child *ret, struct err *err) {
        int others[GATEWAY_LISTENERS_MAX + 1 + GATEWAY_WORKERS_MAX];
        size_t n = process->settings.n_listeners;

        memcpy(others, process->listeners, n * sizeof *others);
        if (process->settings.vault)
                others[n++] = process->settings.credentials;

        for (uint32_t i = 0; i < process->settings.start.n_vaults; i++)
                others[n++] = vaults[i];

        return gateway_spawn(process->program, block, snapshot, others, n, ret, err);
}

static void note_start(struct gateway_process *process) {
        process->needed = true;
        (void)audit_note(process->settings.audit, "gateway started, pid %d", (int)process->role.pid);
}

static int process_start(struct gateway_process *process, struct err *err) {
        cleanup(close_fd) int snapshot = -1, block = -1;
        int r = process->addresses_due ? use_addresses(process, err) : 0;
        const struct generation *newest = &process->generations[0];
        uint32_t *n_vaults = &process->settings.start.n_vaults;
        int vaults[GATEWAY_WORKERS_MAX] = { 0 };

        if (process->settings.vault)
                *n_vaults = vault_process_connect_all(process->settings.vault, vaults, process->settings.start.workers);
        else
                *n_vaults = 0;
        if (r == 0)
                r = fd_sealed("bailey-policy", str_n(newest->bytes, newest->n), &snapshot, err);
        if (r == 0)
                r = seal_block(process, &block, err);
        if (r == 0 && !process->program)
                r = gateway_program(&process->program, err);

        struct gateway_child child = { 0 };
        if (r == 0)
                r = process_spawn(process, block, snapshot, vaults, &child, err);

        for (uint32_t i = 0; i < *n_vaults; i++)
                close_fd(&vaults[i]);

        if (r < 0)
                return r;

        process->events = child.events;
        role_started(&process->role, &child.process, child.control, START_MS);
        if (!process->held)
                note_start(process);

        return 0;
}

/*
 * One that was started ahead. Until somebody connects it is as if it were not there: it leaves no record, nobody is
 * told when it ends, and it has nothing to say at the end. It is not kept for long: most commands that use the network
 * do so soon, and its memory is wanted by the others.
 */
int gateway_process_ahead(struct gateway_process *process, struct err *err) {
        if (process->role.state != ROLE_IDLE)
                return 0;

        process->held = true;
        int r = process_start(process, err);
        process->held = r == 0;
        return r;
}

bool gateway_process_is_held(const struct gateway_process *process) {
        return process->held || !process->needed;
}

static void let_accept(struct gateway_process *process) {
        process->held = false;
        note_start(process);
        process_tell(process, &(struct ipc_message){ .kind = IPC_GO }, -1);

        if (process->role.state == ROLE_SERVING) {
                role_set(&process->role, ROLE_SERVING, 0);
                process_notice(process, NOTICE_READY, "");
        }
}

/*
 * A gateway that fails at every start: what waits for it is refused. Clients would otherwise wait for as long as they
 * have patience. The next connection after the delay is tried with a new gateway all the same.
 */
static bool is_hopeless(const struct gateway_process *process) {
        return process->failures >= FAILURES_MAX;
}

static bool can_refuse(const struct gateway_process *process, size_t i) {
        return is_hopeless(process) && !process->unrefused[i] &&
               listener_can_refuse(process->settings.start.listeners[i].kind);
}

static void refuse_waiting(struct gateway_process *process) {
        for (size_t i = 0; i < process->settings.n_listeners; i++)
                if (can_refuse(process, i))
                        process->unrefused[i] =
                            !listener_refuse(process->listeners[i], process->settings.start.listeners[i].kind);
}

static void note_failure(struct gateway_process *process) {
        process->failures++;
        role_delay(&process->role);
        memset(process->unrefused, 0, sizeof process->unrefused);
        refuse_waiting(process);
}

static void try_start(struct gateway_process *process) {
        struct err err = { 0 };
        if (process_start(process, &err) == 0)
                return;
        (void)audit_note(process->settings.audit, "the gateway could not be started: %s", err_text(&err));
        process_notice(process, NOTICE_CANNOT_START, err_text(&err));
        process->role.started_ns = clock_ns();
        note_failure(process);
}

static void process_reap(struct gateway_process *process) {
        char how[ROLE_END_TEXT_MAX];

        if (!role_reap(&process->role, how))
                return;

        read_events(process, UINT32_MAX); /* what it reported before it died; the socket has an end now */
        read_control(process, 1024);
        close_fd(&process->events);
        role_forget(&process->role);
        awaited_tell(&process->awaited, UINT32_MAX); /* the next one starts with the newest */

        if (process->held) {
                process->held = process->dismissed = false;
                role_set(&process->role, ROLE_IDLE, 0);
                return;
        }

        (void)audit_note(process->settings.audit, "gateway ended: %s", how);

        if (process->role.state == ROLE_STOPPING) {
                role_set(&process->role, ROLE_STOPPED, 0);
                process_notice(process, NOTICE_STOPPED, how);
                return;
        }

        bool started = process->role.state != ROLE_STARTING;
        if (!process->role.condemned)
                process_notice(process, started ? NOTICE_DIED : NOTICE_CANNOT_START, how);

        if (started)
                role_delay(&process->role);
        else
                note_failure(process);
}

int gateway_process_start(struct gateway_process *process, struct err *err) {
        if (process->dismissed) { /* it accepts nothing more */
                role_end(&process->role);
                close_fd(&process->events);
                process->held = process->dismissed = false;
                role_set(&process->role, ROLE_IDLE, 0);
        }

        if (process->held)
                let_accept(process);
        if (process->role.state != ROLE_IDLE && process->role.state != ROLE_WAITING)
                return 0;
        return process_start(process, err);
}

/* One that is still starting has what was waiting for it before it. */
enum { LAST_WORD_MS = 250, FIRST_AND_LAST_WORD_MS = 5000 };

void gateway_process_stop(struct gateway_process *process) {
        if (process->role.state == ROLE_STOPPING || process->role.state == ROLE_STOPPED)
                return;

        if (!process->role.pid) {
                role_set(&process->role, ROLE_STOPPED, 0);
                process_notice(process, NOTICE_STOPPED, "");
                return;
        }

        process->held = process->dismissed = false;
        role_set(&process->role, ROLE_STOPPING, GATEWAY_STOP_MS);
        const struct ipc_message message = { .kind = IPC_STOP };
        process_tell(process, &message, -1);
}

static void on_deadline(struct gateway_process *process) {
        switch (process->role.state) {
        case ROLE_STARTING:
                process->role.due_ns = CLOCK_NEVER;
                end_by_force(process, "it did not become ready in time");
                break;
        case ROLE_WAITING:
                role_set(&process->role, ROLE_IDLE, 0);
                break;
        case ROLE_SERVING: /* held, and nobody came */
                process->role.due_ns = CLOCK_NEVER;
                process_dismiss(process);
                break;
        case ROLE_STOPPING:
                process->role.due_ns = CLOCK_NEVER;
                role_kill(&process->role);
                break;
        default:
                process->role.due_ns = CLOCK_NEVER;
        }
}

/*
 * The loop's side.
 */
static bool awaits_connection(const struct gateway_process *process, size_t i) {
        if (process->role.state == ROLE_WAITING)
                return can_refuse(process, i);

        return process->role.state == ROLE_IDLE || (process->held && !process->dismissed);
}

void gateway_process_watch(const struct gateway_process *process, struct poller *poller) {
        role_watch(&process->role, poller);
        poller_watch(poller, process->events, POLLIN);
        if (process->settings.addresses > 0)
                poller_watch(poller, process->settings.addresses, POLLIN);

        for (size_t i = 0; i < process->settings.n_listeners; i++)
                if (awaits_connection(process, i))
                        poller_watch(poller, process->listeners[i], POLLIN);

        poller_until(poller, process->audit_retry_ns);
}

static bool connection_waits(const struct gateway_process *process, const struct poller *poller) {
        for (size_t i = 0; i < process->settings.n_listeners; i++)
                if (awaits_connection(process, i) && poller_ready(poller, process->listeners[i]))
                        return true;
        return false;
}

void gateway_process_step(struct gateway_process *process, const struct poller *poller) {
        bool connection = connection_waits(process, poller); /* before a state changes */
        bool death = poller_ready(poller, process->role.pidfd) != 0;

        if (process->settings.addresses > 0 && poller_ready(poller, process->settings.addresses))
                follow_addresses(process);
        if (poller_ready(poller, process->role.control))
                read_control(process, 64);

        read_events(process, BATCHES);
        if (death && process->role.pid)
                process_reap(process);
        if (connection && process->held && !process->dismissed)
                let_accept(process);
        if (connection && process->role.state == ROLE_WAITING) {
                refuse_waiting(process);
                connection = false;
        }

        if (role_is_due(&process->role))
                on_deadline(process);
        if (connection && process->role.state == ROLE_IDLE)
                try_start(process);

        flush_audit(process);
}

/*
 * Birth and end of the object.
 */
static int keep_secrets(struct gateway_process *process, struct err *err) {
        struct gateway_start *start = &process->settings.start;
        int r = secret_take(start->upstream_password, sizeof start->upstream_password, &process->password, err);
        int s = secret_take(start->client_secret, sizeof start->client_secret, &process->client_secret, err);
        if (r < 0)
                return r;

        return s;
}

/* With a vault, each worker has a channel of its own, so their number must be known. */
static uint32_t count_workers(void) {
        long processors = sysconf(_SC_NPROCESSORS_ONLN);

        if (processors < 1)
                return 1;
        if (processors > GATEWAY_WORKERS_MAX)
                return GATEWAY_WORKERS_MAX;

        return (uint32_t)processors;
}

static int keep_listeners(struct gateway_process *process, const struct gateway_settings *settings, struct err *err) {
        for (size_t i = 0; i < settings->n_listeners; i++) {
                process->listeners[i] = fcntl(settings->listeners[i], F_DUPFD_CLOEXEC, 3);
                if (process->listeners[i] < 0)
                        return err_errno(err, "cannot keep listener %zu", i);
        }

        return 0;
}

int gateway_process_new(const struct gateway_settings *settings, const void *snapshot, size_t n,
                        struct gateway_process **ret, struct err *err) {
        cleanup(close_fd) int addresses = settings->addresses > 0 ? settings->addresses : -1;

        if (settings->n_listeners == 0 || settings->n_listeners > GATEWAY_LISTENERS_MAX)
                return err_set(err, EINVAL, "a gateway has 1 to %d listeners, not %zu", GATEWAY_LISTENERS_MAX,
                               settings->n_listeners);

        cleanup(gateway_process_freep) struct gateway_process *g = calloc(1, sizeof *g);
        if (!g)
                return err_memory(err);

        g->settings = *settings;
        g->settings.addresses = take_fd(&addresses);
        int r = keep_secrets(g, err);
        g->settings.start.version = IPC_VERSION;
        g->settings.start.size = sizeof g->settings.start;
        g->settings.start.n_listeners = (uint32_t)settings->n_listeners;
        g->settings.start.intercept = settings->vault != NULL;
        if (settings->vault && !g->settings.start.workers)
                g->settings.start.workers = count_workers();

        g->role = ROLE_NONE("gateway");
        g->events = -1;
        g->audit_retry_ns = CLOCK_NEVER;

        for (size_t i = 0; i < GATEWAY_LISTENERS_MAX; i++)
                g->listeners[i] = -1;

        if (r < 0)
                return r;

        g->batch = malloc(EVENT_BATCH_MAX);
        g->program = settings->program ? str_format("%s", settings->program) : NULL;
        if (!g->batch || (settings->program && !g->program))
                return err_memory(err);

        g->settings.program = NULL; /* the copy counts */
        g->settings.listeners = NULL;

        r = keep_listeners(g, settings, err);
        if (r == 0)
                r = gateway_start_check(&g->settings.start, err);
        if (r == 0)
                r = generation_open(&g->generations[0], snapshot, n, 1, err);
        if (r < 0)
                return r;

        *ret = take_ptr(&g);
        return 0;
}

/* A moment to say what it still knows: the last attempts of a run are on record too. */
static void let_finish(struct gateway_process *process) {
        const struct ipc_message message = { .kind = IPC_STOP };
        const uint64_t limit_ms = process->role.state == ROLE_STARTING ? FIRST_AND_LAST_WORD_MS : LAST_WORD_MS;
        const uint64_t end_ns = clock_after_ms(limit_ms);

        process_tell(process, &message, -1);

        while (clock_ns() < end_ns) {
                struct pollfd fds[] = { { .fd = process->role.pidfd, .events = POLLIN },
                                        { .fd = process->events, .events = POLLIN } };
                if (poll(fds, 2, clock_left_ms(end_ns)) < 0 && errno != EINTR)
                        return;
                if (fds[0].revents)
                        return;

                read_events(process, BATCHES); /* so that there is room for the rest */
        }
}

void gateway_process_free(struct gateway_process *process) {
        if (!process)
                return;

        if (process->role.pid) {
                if (!process->held) /* it has seen nobody */
                        let_finish(process);
                role_end(&process->role);
                read_events(process, UINT32_MAX);
                (void)audit_flush(process->settings.audit, NULL);
        }

        role_forget(&process->role);
        close_fd(&process->events);
        for (size_t i = 0; i < GATEWAY_LISTENERS_MAX; i++)
                close_fd(&process->listeners[i]);

        for (size_t i = 0; i < GENERATIONS; i++)
                generation_done(&process->generations[i]);

        if (process->settings.addresses > 0)
                close(process->settings.addresses);

        awaited_done(&process->awaited);
        secret_free(process->password);
        secret_free(process->client_secret);
        free(process->batch);
        free(process->program);
        free(process);
}

void gateway_process_freep(struct gateway_process **process) {
        gateway_process_free(*process);
}
