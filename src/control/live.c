/* SPDX-License-Identifier: Apache-2.0 */
#include "bailey/version.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/path.h"
#include "base/usage.h"
#include "control/live_internal.h"
#include "control/place.h"
#include "policy/approved.h"
#include "policy/ratchet.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

enum { KILLED = 128 + SIGKILL };

int live_place(bool preview, char **ret, struct err *e) {
        if (preview)
                return control_directory(ret, e);
        if (control_make_directory(ret, e) < 0)
                err_clear(e); /* the server will find out the same, and say it */
        return 0;
}

int live_hide(struct plan_host *host, const char *directory, struct err *e) {
        cleanup(free_ptr) char *real = directory ? realpath(directory, NULL) : NULL;
        if (!real)
                return 0;
        struct plan_path path = { .path = real,
                                  .type = PLAN_PATH_DIR,
                                  .access = PATH_DENIED,
                                  .origin = "built in: Bailey's control sockets" };
        if (vec_push(&host->paths, path) < 0)
                return err_memory(e);
        take_ptr(&real);
        return 0;
}

bool live_in_sight(const struct policy *p) {
        cleanup(free_ptr) char *directory = NULL;
        bool possible = control_peer_is_certain() && control_make_directory(&directory, NULL) == 0;
        if (!possible)
                log_notice(
                    "lost: bailey ps does not show this sandbox, nobody can be asked, and what would be asked for "
                    "is refused");
        else if (p->network.ask == ASK_TTY)
                log_notice(
                    "lost: the terminal does not ask, since nothing can be made to stand still; use bailey pending "
                    "and bailey allow");
        return possible;
}

/*
 * Events.
 */
void live_publish(struct live *c, struct emit *j) {
        if (control_close(j) == 0)
                control_server_publish(c->server, buf_str(j->out));
}

void live_publish_text(struct live *c, const char *event, const char *key, const char *text) {
        if (!control_server_watched(c->server))
                return;
        cleanup(buf_done) struct buf out = BUF(LIVE_EVENT_MAX);
        struct emit j = control_event_open(&out, event);
        emit_put_text(&j, key, text);
        live_publish(c, &j);
}

void live_notice(struct live *c, enum gateway_notice notice, const char *text) {
        if (c && (notice == NOTICE_AUDIT_FAILED || notice == NOTICE_AUDIT_RESTORED))
                c->audit_failed = notice == NOTICE_AUDIT_FAILED;
        if (!c || notice == NOTICE_READY || notice == NOTICE_RELOADED || notice == NOTICE_STOPPED)
                return;
        if (notice == NOTICE_DIED || notice == NOTICE_CANNOT_START)
                live_questions_drop(c);
        cleanup(free_ptr) char *line = str_format("gateway: %s", text ? text : "failed");
        if (line)
                live_publish_text(c, "note", "text", line);
}

/*
 * Freezing. It takes a moment; who waits for it is told when it is done.
 */
static void reply_pausing(struct live *c, int error) {
        for (size_t i = 0; i < c->pausing.n; i++) {
                cleanup(buf_done) struct buf out = BUF(4096);
                const struct waiting_reply *w = &c->pausing.p[i];
                int r;
                if (error) {
                        char text[128];
                        snprintf(text, sizeof text, "the sandbox does not stand still: %s", strerror(error));
                        r = control_reply_fault(&out, w->id, FAULT_FAILED, text);
                } else {
                        struct emit j = control_reply_open(&out, w->id);
                        r = control_close(&j);
                }
                if (r == 0)
                        control_server_reply(c->server, w->ticket, buf_str(&out));
        }
        c->pausing.n = 0;
}

void live_hold(struct live *c, enum hold who) {
        c->holds |= who;
        if (c->freeze != FREEZE_OFF || !c->parts.freeze)
                return;
        c->freeze = FREEZE_ASKED;
        if (c->parts.freeze(c->parts.run) < 0)
                live_frozen(c, EPIPE);
}

void live_release(struct live *c, enum hold who) {
        c->holds &= ~(unsigned)who;
        if (c->holds || c->freeze != FREEZE_ON)
                return; /* while it is being frozen: let go when that is done */
        c->freeze = FREEZE_OFF;
        (void)c->parts.thaw(c->parts.run); /* an init that is gone is seen elsewhere */
}

void live_frozen(struct live *c, int error) {
        if (!c || c->freeze != FREEZE_ASKED)
                return;
        c->freeze = error ? FREEZE_OFF : FREEZE_ON;
        if (error)
                c->holds = 0;
        reply_pausing(c, error);
        live_prompt_frozen(c, error);
        if (c->freeze == FREEZE_ON && !c->holds)
                live_release(c, HOLD_PROMPT);
}

/* True when the reply follows. */
static bool pause_now(struct live *c, uint64_t ticket, uint64_t id, const char *by) {
        (void)audit_note(*c->parts.audit, "paused by %s", by);
        live_publish_text(c, "paused", "by", by);
        snprintf(c->paused_by, sizeof c->paused_by, "%s", by);
        bool later = c->freeze != FREEZE_ON;
        if (later && vec_push(&c->pausing, ((struct waiting_reply){ ticket, id })) < 0)
                later = false;
        live_hold(c, HOLD_PAUSE);
        return later;
}

static void resume_now(struct live *c, const char *by) {
        if (!(c->holds & HOLD_PAUSE))
                return;
        (void)audit_note(*c->parts.audit, "resumed by %s", by);
        live_publish_text(c, "resumed", "by", by);
        live_release(c, HOLD_PAUSE);
}

void live_pause(struct live *c, const char *by) {
        if (c->parts.cannot_freeze) { /* what should stand still must not go on */
                (void)audit_note(*c->parts.audit, "it cannot be paused without namespaces: killed by %s", by);
                c->parts.end(c->parts.run, KILLED);
                return;
        }
        (void)pause_now(c, 0, 0, by);
}

/*
 * Requests.
 */
static const char *state_of(const struct live *c) {
        if (!c->parts.freeze)
                return "asking";
        if (c->holds & HOLD_PAUSE)
                return "paused";
        return ratchet_closed(*c->parts.policy) ? "narrowed" : "running";
}

/* Those that have closed, and why. */
static void emit_ratchets(const struct policy *p, struct emit *j) {
        emit_key(j, "ratchets");
        emit_open(j, '[');
        for (size_t i = 0; i < p->ratchet.n; i++) {
                cleanup(buf_done) struct buf say = BUF(LIVE_LATER_MAX * 4);
                if (!p->ratchet.p[i].closed)
                        continue;
                ratchet_say(&p->ratchet.p[i], &say);
                emit_open(j, '{');
                emit_key(j, "say");
                emit_string(j, buf_str(&say));
                emit_put_text(j, "origin", p->ratchet.p[i].origin);
                emit_close(j);
        }
        emit_close(j);
}

void live_ratchet(struct live *c, const struct event *ev, const char *origin) {
        if (!c || !control_server_watched(c->server))
                return;

        cleanup(buf_done) struct buf out = BUF(LIVE_EVENT_MAX);
        struct emit j = control_event_open(&out, "ratchet");
        emit_key(&j, "trigger");
        emit_string(&j, ev->method);
        emit_key(&j, "what");
        emit_string(&j, ev->path);
        emit_key(&j, "say");
        emit_string(&j, ev->detail);
        emit_put_text(&j, "origin", origin);
        live_publish(c, &j);
}

/* Processor time and memory, at a time that the next answer can be compared with. */
static void emit_usage(pid_t pid, struct emit *j) {
        struct usage usage;

        if (!usage_of_tree(pid, &usage))
                return;
        emit_key(j, "usage");
        emit_open(j, '{');
        emit_put_number(j, "at_us", clock_ns() / 1000);
        emit_put_number(j, "cpu_us", usage.cpu_us);
        emit_put_number(j, "memory", usage.memory);
        emit_put_number(j, "processes", usage.processes);
        emit_close(j);
}

static void emit_facts(const struct live *c, struct emit *j) {
        struct live_facts facts = { 0 };

        if (c->parts.describe)
                c->parts.describe(c->parts.run, &facts);
        emit_put_bool(j, "degraded", facts.degraded);
        emit_put_bool(j, "learns", facts.learns);
        emit_put_bool(j, "audit_failed", c->audit_failed);
        emit_put_number(j, "alarms", c->alarms);
        emit_put_text(j, "alarm", c->alarm[0] ? c->alarm : NULL);
        emit_key(j, "lost");
        emit_open(j, '[');
        for (size_t i = 0; i < facts.n_lost; i++)
                if (str_starts(str_of(facts.lost[i]), STR("lost: ")))
                        emit_string(j, str_skip(str_of(facts.lost[i]), 6));
        emit_close(j);
        emit_usage(facts.pid, j);
}

static void emit_status_of(struct live *c, struct emit *j) {
        const struct policy *p = *c->parts.policy;
        static const char *const asks[] = { [ASK_NEVER] = "never", [ASK_CONTROL] = "control", [ASK_TTY] = "tty" };
        char started[CLOCK_TEXT_MAX];
        clock_text(c->started_us, started);
        emit_put_text(j, "sandbox", c->parts.id);
        emit_put_text(j, "state", state_of(c));
        emit_put_number(j, "pid", (uint64_t)getpid());
        emit_key(j, "command");
        emit_open(j, '[');
        for (char *const *word = c->parts.argv; *word; word++)
                emit_text(j, *word);
        emit_close(j);
        emit_put_text(j, "workspace", p->workspace);
        if (c->parts.guest)
                emit_put_text(j, "guest", c->parts.guest);
        if (c->parts.container)
                emit_put_text(j, "container", c->parts.container);
        emit_put_text(j, "mode", policy_mode_name(p->mode));
        emit_put_text(j, "agent", p->agent);
        emit_put_text(j, "ask", asks[p->network.ask]);
        emit_put_text(j, "started", started);
        emit_put_number(j, "pending", c->questions.list.n);
        emit_put_number(j, "allowed", c->allowed);
        emit_put_number(j, "refused", c->refused);
        emit_put_text(j, "audit", audit_path(*c->parts.audit));
        emit_ratchets(p, j);
        emit_facts(c, j);
}

static void emit_pending(const struct live *c, struct emit *j) {
        emit_key(j, "questions");
        emit_open(j, '[');
        for (size_t i = 0; i < c->questions.list.n; i++)
                question_emit(j, &c->questions.list.p[i]);
        emit_close(j);
}

static int change_rule(struct live *c, const struct control_request *q, const char *by, unsigned *ret_answered,
                       struct err *e) {
        const struct rule_change change = {
                .deny = q->what == CONTROL_DENY, .pattern = q->pattern, .scope = q->scope, .by = by
        };
        enum control_answer answer = change.deny ? ANSWER_DENY : ANSWER_ALLOW;
        if (approved_is_path(str_of(q->pattern)))
                return change.deny ? err_set(e, EINVAL,
                                             "what no rule grants is closed; `bailey allow --forget` takes back "
                                             "what was opened")
                                   : live_access_grant(c, q->pattern, q->scope, by, e);
        int r = q->scope == SCOPE_ONCE ? 0 : live_rules_add(c, &change, e);
        if (r == 0)
                r = live_answer_covered(c, q->pattern, answer, by, ret_answered, e);
        if (r == 0 && q->scope == SCOPE_ONCE && *ret_answered == 0)
                r = err_set(e, ENOENT, "no question that waits is about %s", q->pattern);
        return r;
}

static enum control_fault fault_of(int r) {
        return r == -ENOENT                                                      ? FAULT_NOT_FOUND
               : r == -EINVAL || r == -EACCES || r == -ELOOP || r == -EOPNOTSUPP ? FAULT_INVALID
               : r == -E2BIG                                                     ? FAULT_TOO_MANY
                                                                                 : FAULT_FAILED;
}

/* While a command waits for its approval there is no sandbox yet. What is remembered counts when it begins. */
static int check_begun(const struct live *c, const struct control_request *q, struct err *e) {
        bool about_sandbox = q->what == CONTROL_PAUSE || q->what == CONTROL_RESUME || q->what == CONTROL_RELOAD ||
                             ((q->what == CONTROL_ALLOW || q->what == CONTROL_DENY) && q->scope <= SCOPE_SANDBOX);
        if (q->what == CONTROL_PAUSE && c->parts.cannot_freeze)
                return err_set(e, EOPNOTSUPP,
                               "a sandbox without namespaces cannot be made to stand still; bailey kill ends it");
        return c->parts.freeze || !about_sandbox
                   ? 0
                   : err_set(e, ENOENT, "the command waits for its own approval and has not begun");
}

static enum control_done handle(void *arg, const struct control_request *q, uint64_t ticket, const char *by,
                                struct buf *out) {
        struct live *c = arg;
        struct err e = { 0 };
        unsigned answered = 0;
        char later[LIVE_LATER_MAX];
        struct emit j = control_reply_open(out, q->id);
        int r = check_begun(c, q, &e);
        switch (r < 0 ? CONTROL_DOS : q->what) {
        case CONTROL_STATUS:
                emit_status_of(c, &j);
                break;
        case CONTROL_PENDING:
                emit_pending(c, &j);
                break;
        case CONTROL_ANSWER:
                r = live_answer(c, q->question, q->answer, q->scope, by, &e);
                break;
        case CONTROL_ALLOW:
        case CONTROL_DENY:
                r = change_rule(c, q, by, &answered, &e);
                emit_put_number(&j, "answered", answered);
                break;
        case CONTROL_FORGET:
                r = approved_is_path(str_of(q->pattern)) ? live_access_forget(c, q->pattern, &e)
                                                         : live_rules_forget(c, q->pattern, &e);
                emit_put_number(&j, "removed", r > 0 ? (uint64_t)r : 0);
                break;
        case CONTROL_RULES:
                live_rules_emit(c, &j);
                break;
        case CONTROL_RELOAD:
                later[0] = '\0';
                r = c->parts.reload ? c->parts.reload(c->parts.run, &e) : live_rules_reload(c, later, &e);
                if (r == 0)
                        emit_put_text(&j, "later", later);
                break;
        case CONTROL_PAUSE:
                if (pause_now(c, ticket, q->id, by))
                        return buf_clear(out), CONTROL_LATER;
                break;
        case CONTROL_RESUME:
                resume_now(c, by);
                break;
        case CONTROL_KILL:
                (void)audit_note(*c->parts.audit, "killed by %s", by);
                c->parts.end(c->parts.run, KILLED);
                break;
        default:
                r = r < 0 ? r : err_set(&e, EINVAL, "not served here");
        }
        if (r >= 0)
                r = control_close(&j);
        if (r < 0) {
                buf_clear(out);
                (void)control_reply_fault(out, q->id, fault_of(r), err_text(&e));
        }
        return CONTROL_REPLIED;
}

static void on_note(void *arg, const char *text) {
        struct live *c = arg;
        (void)audit_note(*c->parts.audit, "%s", text);
}

/*
 * Life.
 */
int live_new(const struct live_parts *parts, struct live **ret, struct err *e) {
        struct live *c = calloc(1, sizeof *c);
        if (!c)
                return err_memory(e);
        c->parts = *parts;
        c->started_us = clock_wall_us();
        c->launched = (*parts->policy)->mode;
        c->typed = BUF(256);
        int r = monitor_init(&c->monitor, *parts->policy, e);
        const struct control_handler handler = { .handle = handle, .note = on_note, .arg = c };
        struct err why = { 0 };
        if (r == 0 && control_server_new(parts->id, bailey_version(), &handler, &c->server, &why) < 0) {
                if ((*parts->policy)->network.ask == ASK_CONTROL)
                        r = err_set(e, why.code, "nobody could answer a question, since there is no control socket: %s",
                                    err_text(&why));
                else
                        log_notice("there is no control socket, and bailey ps will not show this sandbox: %s",
                                   err_text(&why));
        }
        if (r < 0) {
                live_free(c, 0);
                return r;
        }
        *ret = c;
        return 0;
}

void live_free(struct live *c, int status) {
        if (!c)
                return;
        live_prompt_end(c);
        live_hooks_end(c);
        if (control_server_watched(c->server)) {
                cleanup(buf_done) struct buf out = BUF(LIVE_EVENT_MAX);
                struct emit j = control_event_open(&out, "end");
                emit_put_number(&j, "status", (uint64_t)status);
                live_publish(c, &j);
        }
        control_server_free(c->server);
        questions_done(&c->questions);
        monitor_done(&c->monitor);
        live_rules_done(c);
        live_access_done(c);
        vec_done(&c->pausing);
        buf_done(&c->typed);
        free(c);
}

void live_watch(const struct live *c, struct poller *poller) {
        if (!c)
                return;

        control_server_watch(c->server, poller);
        if (c->prompt == PROMPT_SHOWN)
                poller_watch(poller, c->parts.terminal->fd, POLLIN);
        if (c->prompt_retry_ns)
                poller_until(poller, c->prompt_retry_ns);
        live_hooks_watch(c, poller);
}

void live_step(struct live *c, const struct poller *poller) {
        if (!c)
                return;

        if (c->prompt == PROMPT_SHOWN && poller_ready(poller, c->parts.terminal->fd))
                live_prompt_read(c);
        control_server_step(c->server, poller);
        live_hooks_step(c, poller);
        if (c->prompt_retry_ns && clock_ns() >= c->prompt_retry_ns)
                live_prompt_consider(c);
        (void)audit_flush(*c->parts.audit, NULL); /* what fails here is found and told with the gateway's next record */
}

/* The kernel sends SIGHUP when the terminal goes, and a shell hands it to its jobs; that is the command's. Anybody else
 * who sends it to a supervisor wants the policy to be read again, as with other programs that keep running. */
static bool is_reload(struct live *c, bool from_kernel) {
        int fd = c->parts.terminal->fd;
        return !from_kernel && (fd < 0 || tcgetpgrp(fd) >= 0);
}

bool live_signal(struct live *c, int number, bool from_kernel) {
        struct err e = { 0 };
        if (!c)
                return false;
        if (number == SIGINT || number == SIGQUIT)
                live_prompt_interrupted(c);
        if (number != SIGHUP || !is_reload(c, from_kernel))
                return false;
        char later[LIVE_LATER_MAX];
        if (live_rules_reload(c, later, &e) < 0)
                log_error("%s", err_text(&e));
        else
                log_notice("the policy was read again%s%s", later[0] ? "; for new commands only: " : "", later);
        return true;
}
