/* SPDX-License-Identifier: Apache-2.0 */
#include "bailey/version.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/paths/path.h"
#include "base/processes/usage.h"
#include "control/control_place.h"
#include "control/link.h"
#include "control/live_internal.h"
#include "policy/approved.h"
#include "policy/judge/ratchet.h"
#include "roles/vault_session.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

enum { KILLED = 128 + SIGKILL };

int live_place(bool preview, char **ret, struct err *err) {
        if (preview)
                return control_directory(ret, err);
        if (control_make_directory(ret, err) < 0)
                err_clear(err); /* the server will find out the same, and say it */
        return 0;
}

int live_hide(struct plan_host *host, const char *directory, struct err *err) {
        cleanup(free_ptr) char *real = directory ? realpath(directory, NULL) : NULL;
        if (!real)
                return 0;

        struct plan_path path = { .path = real,
                                  .type = PLAN_PATH_DIR,
                                  .access = PATH_DENIED,
                                  .origin = "built in: Bailey's control sockets" };
        if (vec_push(&host->paths, path) < 0)
                return err_memory(err);

        take_ptr(&real);
        return 0;
}

bool live_in_sight(const struct policy *policy) {
        cleanup(free_ptr) char *directory = NULL;
        bool possible = control_peer_is_certain() && control_make_directory(&directory, NULL) == 0;
        if (!possible)
                log_notice(
                    "lost: bailey ps does not show this sandbox, nobody can be asked, and what would be asked for "
                    "is refused");
        else if (policy->network.ask == ASK_TTY)
                log_notice(
                    "lost: the terminal does not ask, since nothing can be made to stand still; use bailey pending "
                    "and bailey allow");

        return possible;
}

/*
 * Events.
 */
void live_publish(struct live *live, struct emit *json) {
        if (control_close(json) == 0)
                control_server_publish(live->server, buf_str(json->out));
}

void live_publish_text(struct live *live, const char *event, const char *key, const char *text) {
        if (!control_server_watched(live->server))
                return;
        cleanup(buf_done) struct buf out = BUF(LIVE_EVENT_MAX);
        struct emit j = control_event_open(&out, event);
        emit_put_text(&j, key, text);
        live_publish(live, &j);
}

void live_notice(struct live *live, enum gateway_notice notice, const char *text) {
        if (live && (notice == NOTICE_AUDIT_FAILED || notice == NOTICE_AUDIT_RESTORED))
                live->audit_failed = notice == NOTICE_AUDIT_FAILED;
        if (!live || notice == NOTICE_READY || notice == NOTICE_RELOADED || notice == NOTICE_STOPPED)
                return;
        if (notice == NOTICE_DIED || notice == NOTICE_CANNOT_START)
                live_questions_drop(live);

        cleanup(free_ptr) char *line = str_format("gateway: %s", text_or(text, "failed"));
        if (line)
                live_publish_text(live, "note", "text", line);
}

/*
 * Freezing. It takes a moment; clients that wait for it get their reply when it is done.
 */
static void reply_pausing(struct live *live, int error) {
        for (size_t i = 0; i < live->pausing.n; i++) {
                cleanup(buf_done) struct buf out = BUF(4096);
                const struct waiting_reply *reply = &live->pausing.p[i];
                int r;

                if (error) {
                        char text[128];

                        snprintf(text, sizeof text, "the sandbox does not stand still: %s", strerror(error));
                        r = control_reply_fault(&out, reply->id, FAULT_FAILED, text);
                } else {
                        struct emit j = control_reply_open(&out, reply->id);
                        r = control_close(&j);
                }

                if (r == 0)
                        control_server_reply(live->server, reply->ticket, buf_str(&out));
        }

        live->pausing.n = 0;
}

void live_hold(struct live *live, enum hold who) {
        live->holds |= who;
        if (live->freeze != FREEZE_OFF || !live->parts.freeze)
                return;
        live->freeze = FREEZE_ASKED;
        if (live->parts.freeze(live->parts.run) < 0)
                live_frozen(live, EPIPE);
}

void live_release(struct live *live, enum hold who) {
        live->holds &= ~(unsigned)who;
        if (live->holds || live->freeze != FREEZE_ON)
                return; /* while it is being frozen: let go when that is done */
        live->freeze = FREEZE_OFF;
        (void)live->parts.thaw(live->parts.run); /* an init that is gone is seen elsewhere */
}

void live_frozen(struct live *live, int error) {
        if (!live || live->freeze != FREEZE_ASKED)
                return;

        live->freeze = error ? FREEZE_OFF : FREEZE_ON;
        if (live->parts.link && (live->holds & HOLD_LINK))
                link_stood(live->parts.link, live->stand, error);
        if (error && (live->holds & HOLD_PAUSE) && strcmp(live->paused_by, "monitor") == 0) {
                (void)audit_note(*live->parts.audit, "it could not be paused: killed by the monitor");
                live->parts.end(live->parts.run, KILLED); /* what should freeze must not go on */
        }

        if (error)
                live->holds = 0;

        reply_pausing(live, error);
        live_prompt_frozen(live, error);
        if (live->freeze == FREEZE_ON && !live->holds)
                live_release(live, HOLD_PROMPT);
}

/* True when the reply follows. */
static bool pause_now(struct live *live, uint64_t ticket, uint64_t id, const char *by) {
        (void)audit_note(*live->parts.audit, "paused by %s", by);
        live_publish_text(live, "paused", "by", by);
        snprintf(live->paused_by, sizeof live->paused_by, "%s", by);

        bool later = live->freeze != FREEZE_ON;
        if (later && vec_push(&live->pausing, ((struct waiting_reply){ ticket, id })) < 0)
                later = false;

        live_hold(live, HOLD_PAUSE);
        return later;
}

static void resume_now(struct live *live, const char *by) {
        if (!(live->holds & HOLD_PAUSE))
                return;
        (void)audit_note(*live->parts.audit, "resumed by %s", by);
        live_publish_text(live, "resumed", "by", by);
        live_release(live, HOLD_PAUSE);
}

void live_disk(struct live *live, const char *why) {
        if (!live)
                return;

        if (!why) {
                live->disk[0] = '\0';
                live_publish_text(live, "resumed", "by", "disk");
                live_release(live, HOLD_DISK);
                return;
        }

        if (!live->disk[0])
                live_publish_text(live, "paused", "by", "disk");
        snprintf(live->disk, sizeof live->disk, "%s", why);
        live_hold(live, HOLD_DISK);
}

void live_stand(struct live *live, uint64_t id, bool stand) {
        live->stand = id;
        if (!stand) {
                live_release(live, HOLD_LINK);
                return;
        }

        if (live->parts.cannot_freeze) {
                link_stood(live->parts.link, live->stand, EOPNOTSUPP);
        } else if (live->freeze == FREEZE_ON) {
                live->holds |= HOLD_LINK;
                link_stood(live->parts.link, live->stand, 0);
        } else {
                live_hold(live, HOLD_LINK);
        }
}

bool live_stands(const struct live *live) {
        return live && live->freeze == FREEZE_ON;
}

void live_pause(struct live *live, const char *by) {
        if (live->parts.cannot_freeze) { /* what should freeze must not go on */
                (void)audit_note(*live->parts.audit, "it cannot be paused without namespaces: killed by %s", by);
                live->parts.end(live->parts.run, KILLED);
                return;
        }
        (void)pause_now(live, 0, 0, by);
}

/*
 * Requests.
 */
static const char *state_of(const struct live *live) {
        if (!live->parts.freeze)
                return "asking";
        if (live->holds & (HOLD_PAUSE | HOLD_DISK))
                return "paused";
        if (ratchet_closed(*live->parts.policy))
                return "narrowed";

        return "running";
}

/* Those that have closed, and why. */
static void emit_ratchets(const struct policy *policy, struct emit *json) {
        emit_key(json, "ratchets");
        emit_open(json, '[');

        for (size_t i = 0; i < policy->ratchet.n; i++) {
                cleanup(buf_done) struct buf say = BUF(LIVE_LATER_MAX * 4);

                if (!policy->ratchet.p[i].closed)
                        continue;

                ratchet_say(&policy->ratchet.p[i], &say);
                emit_open(json, '{');
                emit_key(json, "say");
                emit_string(json, buf_str(&say));
                emit_put_text(json, "origin", policy->ratchet.p[i].origin);
                emit_close(json);
        }

        emit_close(json);
}

void live_ratchet(struct live *live, const struct event *ev, const char *origin) {
        if (!live || !control_server_watched(live->server))
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
        live_publish(live, &j);
}

/* Processor time and memory, at a time that the next answer can be compared with. */
static void emit_usage(pid_t pid, struct emit *json) {
        struct usage usage;

        if (!usage_of_tree(pid, &usage))
                return;

        emit_key(json, "usage");
        emit_open(json, '{');
        emit_put_number(json, "at_us", clock_ns() / 1000);
        emit_put_number(json, "cpu_us", usage.cpu_us);
        emit_put_number(json, "memory", usage.memory);
        emit_put_number(json, "processes", usage.processes);
        emit_close(json);
}

static void emit_facts(const struct live *live, struct emit *json) {
        struct live_facts facts = { 0 };

        if (live->parts.describe)
                live->parts.describe(live->parts.run, &facts);

        emit_put_bool(json, "degraded", facts.degraded);
        emit_put_bool(json, "learns", facts.learns);
        emit_put_bool(json, "audit_failed", live->audit_failed);
        emit_put_number(json, "alarms", live->alarms);
        emit_put_text(json, "alarm", live->alarm[0] ? live->alarm : NULL);
        emit_put_text(json, "disk", live->disk[0] ? live->disk : NULL);
        emit_key(json, "lost");
        emit_open(json, '[');

        for (size_t i = 0; i < facts.n_lost; i++)
                if (str_starts(str_of(facts.lost[i]), STR("lost: ")))
                        emit_string(json, str_skip(str_of(facts.lost[i]), 6));

        emit_close(json);
        emit_usage(facts.pid, json);
}

static void emit_status_of(struct live *live, struct emit *json) {
        const struct policy *policy = *live->parts.policy;
        static const char *const asks[] = { [ASK_NEVER] = "never", [ASK_CONTROL] = "control", [ASK_TTY] = "tty" };
        char started[CLOCK_TEXT_MAX];

        clock_text(live->started_us, started);
        emit_put_text(json, "sandbox", live->parts.id);
        emit_put_text(json, "state", state_of(live));
        emit_put_number(json, "pid", (uint64_t)getpid());
        emit_key(json, "command");
        emit_open(json, '[');

        for (char *const *word = live->parts.argv; *word; word++)
                emit_text(json, *word);

        emit_close(json);
        emit_put_text(json, "workspace", policy->workspace);
        if (live->parts.guest)
                emit_put_text(json, "guest", live->parts.guest);
        if (live->parts.container)
                emit_put_text(json, "container", live->parts.container);

        emit_put_text(json, "mode", policy_mode_name(policy->mode));
        emit_put_text(json, "agent", policy->agent);
        emit_put_text(json, "ask", asks[policy->network.ask]);
        emit_put_text(json, "started", started);
        emit_put_number(json, "pending", live->questions.list.n);
        emit_put_number(json, "allowed", live->allowed);
        emit_put_number(json, "refused", live->refused);
        emit_put_text(json, "audit", audit_path(*live->parts.audit));
        emit_ratchets(policy, json);
        emit_facts(live, json);
}

static void emit_pending(const struct live *live, struct emit *json) {
        emit_key(json, "questions");
        emit_open(json, '[');
        for (size_t i = 0; i < live->questions.list.n; i++)
                question_emit(json, &live->questions.list.p[i]);
        emit_close(json);
}

static int change_rule(struct live *live, const struct control_request *request, const char *by, unsigned *ret_answered,
                       struct err *err) {
        const struct rule_change change = {
                .deny = request->what == CONTROL_DENY, .pattern = request->pattern, .scope = request->scope, .by = by
        };
        enum control_answer answer = change.deny ? ANSWER_DENY : ANSWER_ALLOW;

        if (approved_is_path(str_of(request->pattern))) {
                if (change.deny)
                        return err_set(err, EINVAL,
                                       "what no rule grants is closed; `bailey allow --forget` takes back "
                                       "what was opened");
                return live_access_grant(live, request->pattern, request->scope, by, err);
        }

        int r = 0;

        if (request->scope != SCOPE_ONCE)
                r = live_rules_add(live, &change, err);

        if (r == 0)
                r = live_answer_covered(live, request->pattern, answer, request->scope, by, ret_answered, err);
        if (r == 0 && request->scope == SCOPE_ONCE && *ret_answered == 0)
                r = err_set(err, ENOENT, "no question that waits is about %s", request->pattern);

        return r;
}

static enum control_fault fault_of(int r) {
        if (r == -ENOENT)
                return FAULT_NOT_FOUND;

        if (r == -EINVAL || r == -EACCES || r == -ELOOP || r == -EOPNOTSUPP)
                return FAULT_INVALID;

        if (r == -E2BIG)
                return FAULT_TOO_MANY;

        return FAULT_FAILED;
}

/* While a command waits for its approval there is no sandbox yet. What is remembered counts when it begins. */
static int check_begun(const struct live *live, const struct control_request *request, struct err *err) {
        bool about_sandbox =
            request->what == CONTROL_PAUSE || request->what == CONTROL_RESUME || request->what == CONTROL_RELOAD ||
            ((request->what == CONTROL_ALLOW || request->what == CONTROL_DENY) && request->scope <= SCOPE_SANDBOX);

        if (request->what == CONTROL_PAUSE && live->parts.cannot_freeze)
                return err_set(err, EOPNOTSUPP,
                               "a sandbox without namespaces cannot be made to stand still; bailey kill ends it");

        if (live->parts.freeze || !about_sandbox)
                return 0;

        return err_set(err, ENOENT, "the command waits for its own approval and has not begun");
}

static int forget_rule(struct live *live, const struct control_request *request, struct emit *j, struct err *err) {
        int r;

        if (approved_is_path(str_of(request->pattern)))
                r = live_access_forget(live, request->pattern, request->scope, err);
        else
                r = live_rules_forget(live, request->pattern, request->scope, err);

        emit_put_number(j, "removed", r > 0 ? (uint64_t)r : 0);
        return r;
}

static int reload_rules(struct live *live, struct emit *j, struct err *err) {
        char later[LIVE_LATER_MAX] = "";
        int r;

        if (live->parts.reload)
                r = live->parts.reload(live->parts.run, err);
        else
                r = live_rules_reload(live, later, err);
        if (r == 0)
                emit_put_text(j, "later", later);

        return r;
}

static enum control_done live_handle(void *arg, const struct control_request *request, uint64_t ticket, const char *by,
                                     struct buf *out) {
        struct live *live = arg;
        struct err err = { 0 };
        unsigned answered = 0;
        struct emit j = control_reply_open(out, request->id);
        int r = check_begun(live, request, &err);
        switch (r < 0 ? CONTROL_DOS : request->what) {
        case CONTROL_STATUS:
                emit_status_of(live, &j);
                break;
        case CONTROL_PENDING:
                emit_pending(live, &j);
                break;
        case CONTROL_ANSWER:
                r = live_answer(live, request->question, request->answer, request->scope, by, &err);
                break;
        case CONTROL_ALLOW:
        case CONTROL_DENY:
                r = change_rule(live, request, by, &answered, &err);
                emit_put_number(&j, "answered", answered);
                break;
        case CONTROL_FORGET:
                r = forget_rule(live, request, &j, &err);
                break;
        case CONTROL_RULES:
                live_rules_emit(live, &j);
                break;
        case CONTROL_RELOAD:
                r = reload_rules(live, &j, &err);
                break;
        case CONTROL_PAUSE:
                if (pause_now(live, ticket, request->id, by))
                        return buf_clear(out), CONTROL_LATER;
                break;
        case CONTROL_RESUME:
                resume_now(live, by);
                break;
        case CONTROL_KILL:
                (void)audit_note(*live->parts.audit, "killed by %s", by);
                live->parts.end(live->parts.run, KILLED);
                break;
        default:
                r = r < 0 ? r : err_set(&err, EINVAL, "not served here");
        }

        if (r >= 0)
                r = control_close(&j);

        if (r < 0) {
                buf_clear(out);
                (void)control_reply_fault(out, request->id, fault_of(r), err_text(&err));
        }

        return CONTROL_REPLIED;
}

static void on_note(void *arg, const char *text) {
        struct live *live = arg;
        (void)audit_note(*live->parts.audit, "%s", text);
}

/*
 * Life.
 */
int live_new(const struct live_parts *parts, struct live **ret, struct err *err) {
        struct live *live = calloc(1, sizeof *live);
        if (!live)
                return err_memory(err);

        live->parts = *parts;
        live->started_us = clock_wall_us();
        live->launched = (*parts->policy)->mode;
        live->opens_tls = vault_session_is_wanted(*parts->policy);
        live->typed = BUF(256);

        int r = monitor_init(&live->monitor, *parts->policy, err);
        const struct control_handler handler = { .handle = live_handle, .note = on_note, .arg = live };
        struct err why = { 0 };
        if (r == 0 && control_server_new(parts->id, bailey_version(), &handler, &live->server, &why) < 0) {
                if ((*parts->policy)->network.ask == ASK_CONTROL)
                        r = err_set(err, why.code,
                                    "nobody could answer a question, since there is no control socket: %s",
                                    err_text(&why));
                else
                        log_notice("there is no control socket, and bailey ps will not show this sandbox: %s",
                                   err_text(&why));
        }

        if (r < 0) {
                live_free(live, 0);
                return r;
        }

        *ret = live;
        return 0;
}

void live_free(struct live *live, int status) {
        if (!live)
                return;

        live_prompt_end(live);
        live_hooks_end(live);

        if (control_server_watched(live->server)) {
                cleanup(buf_done) struct buf out = BUF(LIVE_EVENT_MAX);
                struct emit j = control_event_open(&out, "end");

                emit_put_number(&j, "status", (uint64_t)status);
                live_publish(live, &j);
        }

        control_server_free(live->server);
        questions_done(&live->questions);
        monitor_done(&live->monitor);
        live_rules_done(live);
        live_access_done(live);
        vec_done(&live->pausing);
        buf_done(&live->typed);
        free(live);
}

void live_watch(const struct live *live, struct poller *poller) {
        if (!live)
                return;

        control_server_watch(live->server, poller);
        if (live->prompt == PROMPT_SHOWN)
                poller_watch(poller, live->parts.terminal->fd, POLLIN);
        if (live->prompt_retry_ns)
                poller_until(poller, live->prompt_retry_ns);

        live_hooks_watch(live, poller);
}

void live_step(struct live *live, const struct poller *poller) {
        if (!live)
                return;

        if (live->prompt == PROMPT_SHOWN && poller_ready(poller, live->parts.terminal->fd))
                live_prompt_read(live);

        control_server_step(live->server, poller);
        live_hooks_step(live, poller);
        if (live->prompt_retry_ns && clock_ns() >= live->prompt_retry_ns)
                live_prompt_consider(live);

        (void)audit_flush(*live->parts.audit,
                          NULL); /* what fails here is found and told with the gateway's next record */
}

/* The kernel sends SIGHUP when the terminal goes, and a shell hands it to its jobs; that is the command's. Anybody else
 * who sends it to a supervisor wants the policy to be read again, as with other programs that keep running. */
static bool is_reload(struct live *live, bool from_kernel) {
        int fd = live->parts.terminal->fd;
        return !from_kernel && (fd < 0 || tcgetpgrp(fd) >= 0);
}

bool live_signal(struct live *live, int number, bool from_kernel) {
        struct err e = { 0 };

        if (!live)
                return false;
        if (number == SIGINT || number == SIGQUIT)
                live_prompt_interrupted(live);
        if (number != SIGHUP || live->parts.brings_policies || !is_reload(live, from_kernel))
                return false;

        char later[LIVE_LATER_MAX];

        if (live_rules_reload(live, later, &e) < 0)
                log_error("%s", err_text(&e));
        else
                log_notice("the policy was read again%s%s", later[0] ? "; for new commands only: " : "", later);

        return true;
}
