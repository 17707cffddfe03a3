/* SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "bridge/git_answer.h"
#include "gateway/ask.h"
#include "gateway/quota.h"
#include "gateway/refusal.h"
#include "gateway/ssh_session_internal.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

enum { REFUSED_STATUS = 1, FAILED_STATUS = 128, HELP_MAX = 4096 };

/* --- the beginning and the end --- */

static void ssh_session_destroy(struct task *t) {
        struct ssh_session *s = link_owner(t, struct ssh_session, destroy);

        examine_free(s->examine);
        buf_done(&s->in);
        buf_done(&s->out);
        buf_done(&s->said.line);
        free(s);
}

void ssh_session_end(struct ssh_session *s) {
        struct loop *loop = s->worker->loop;

        if (s->gone)
                return;
        s->gone = true;
        if (!s->recorded && s->state >= SSH_OPENING)
                ssh_session_record(s, &s->verdict, true, NULL);
        link_remove(&s->link);
        link_remove(&s->judged.link);
        timer_stop(&s->limit);
        task_cancel(&s->again);
        if (s->state == SSH_HELD && s->gpg)
                ask_leave(&s->hold, false);
        else if (s->state == SSH_HELD)
                gate_cancel(&s->hold);
        program_close(&s->call);
        stream_close(s->program);
        stream_close(s->errors);
        client_done(&s->client);
        loop_defer(loop, &s->destroy);
}

void ssh_session_enter(struct ssh_session *s, enum ssh_state state) {
        const struct gateway_limits *limits = &s->worker->limits;

        s->state = (uint8_t)state;
        if (state == SSH_HELD)
                timer_stop(&s->limit); /* the question has its own */
        else
                timer_start(&s->limit, state == SSH_READING ? limits->header_ns : limits->tunnel_idle_ns);
}

static void on_limit(struct timer *t) {
        ssh_session_end(link_owner(t, struct ssh_session, limit));
}

struct verdict ssh_session_no(enum reason reason) {
        return (struct verdict){ .decision = DECISION_DENY, .reason = (uint8_t)reason, .rule = RULE_NONE };
}

void ssh_session_record(struct ssh_session *s, const struct verdict *v, bool allowed, const char *why) {
        struct event ev = { .kind = EVENT_REQUEST,
                            .connection = s->client.number,
                            .rule = v->rule,
                            .generation = s->worker->policy->generation,
                            .via = s->gpg ? VIA_GPG : VIA_SSH,
                            .scheme = s->gpg ? SCHEME_NONE : SCHEME_SSH,
                            .reason = v->reason,
                            .allowed = allowed,
                            .port = s->command.target.port,
                            .domain = host_str(&s->command.target.host),
                            .method = s->gpg ? STR("sign") : STR(""),
                            .path = s->gpg ? str_of(s->key) : str_of(s->command.sent_path),
                            .detail = str_of(why),
                            .bytes_in = s->bytes_in,
                            .bytes_out = s->bytes_out,
                            .duration_us = (loop_now(s->worker->loop) - s->client.since) / 1000 };

        if (s->status > 0)
                ev.status = (uint16_t)s->status;
        if (!s->gpg && s->command.sent_path[0])
                ev.method = str_of(ssh_service_name(s->command.service));
        if (s->examine)
                ev.act = buf_str(&s->examine->act);
        s->recorded = true;
        report_event(&s->worker->report, &ev);
}

/* --- refusals --- */

static void ssh_session_exit(struct ssh_session *s, int status) {
        const char code = (char)(status & 0xff);

        if (ssh_flow_frame(s, SSH_FRAME_EXIT, str_n(&code, 1)) < 0)
                ssh_session_end(s);
        else
                ssh_session_enter(s, SSH_ENDING);
}

/* The server sees the end of the connection and no word of it. */
static void ssh_session_cut(struct ssh_session *s) {
        program_close(&s->call);
        stream_close(take_ptr(&s->program));
        stream_close(take_ptr(&s->errors));
        buf_clear(&s->in);
}

void ssh_session_refuse_plain(struct ssh_session *s, struct verdict v, const char *why, int status) {
        cleanup(buf_done) struct buf text = BUF(HELP_MAX);

        ssh_session_record(s, &v, false, why);
        (void)buf_printf(&text, "bailey: %s\n", why ? why : reason_text((enum reason)v.reason));
        (void)ssh_flow_frame(s, SSH_FRAME_ERRORS, buf_str(&text));
        ssh_session_cut(s);
        ssh_session_exit(s, status);
}

/* Before anything of git's protocol was spoken: as a server says it that does not serve this. */
static void refuse_service(struct ssh_session *s, struct verdict v) {
        cleanup(buf_done) struct buf text = BUF(HELP_MAX), answer = BUF(2 * HELP_MAX);
        const char *why = s->examine ? examine_why(s->examine) : NULL;

        ssh_session_record(s, &v, false, why);
        (void)refusal_text(&text, worker_snapshot(s->worker), &s->command.target, &v, 0, why);
        (void)git_answer_advertisement(&answer, ssh_service_name(s->command.service), false, buf_str(&text));
        (void)ssh_flow_frame(s, SSH_FRAME_OUTPUT, buf_str(&answer));
        ssh_session_cut(s);
        ssh_session_exit(s, REFUSED_STATUS);
}

/* After the server's list of refs: as a server answers that takes no push. */
static void refuse_push(struct ssh_session *s, struct verdict v) {
        cleanup(buf_done) struct buf answer = BUF(EXAMINE_ANSWER_MAX);

        if (examine_answer(s->examine, worker_snapshot(s->worker), &v, &answer) < 0) {
                ssh_session_refuse_plain(s, v, examine_why(s->examine), FAILED_STATUS);
                return;
        }
        ssh_session_record(s, &v, false, examine_why(s->examine));
        s->out.max = answer.n + 2 * (size_t)SSH_PIECE;
        (void)ssh_flow_frame(s, SSH_FRAME_OUTPUT, buf_str(&answer));
        ssh_session_cut(s);
        s->status = 0;
        ssh_session_enter(s, SSH_DRAINING);
}

/* --- the program --- */

static void on_stream(struct stream *stream, void *owner) {
        (void)stream;
        ssh_session_run(owner);
}

static void on_program_fd(struct program_call *call, enum ipc_program_fd which, int fd) {
        struct ssh_session *s = link_owner(call, struct ssh_session, call);
        struct stream **to = which == IPC_PROGRAM_FD_STDIO ? &s->program : &s->errors;

        if (*to || which == IPC_PROGRAM_FD_TABLE || fd_set_nonblocking(fd, true) < 0) {
                close_fd(&fd);
                return;
        }
        if (stream_socket_new(s->worker->loop, fd, to) < 0) {
                ssh_session_end(s);
                return;
        }
        stream_set_owner(*to, on_stream, s);
        if (which != IPC_PROGRAM_FD_STDIO)
                return;
        ssh_session_enter(s, s->examine && examine_is_open(s->examine) ? SSH_HEAD : SSH_PASSING);
        ssh_session_run(s);
}

static void on_program_status(struct program_call *call, int status, const char *why) {
        struct ssh_session *s = link_owner(call, struct ssh_session, call);

        link_remove(&call->link);
        call->id = 0;
        if (status == IPC_PROGRAM_NOT_RUN) {
                ssh_session_refuse_plain(s, ssh_session_no(REASON_UPSTREAM), why, FAILED_STATUS);
        } else if (status == IPC_PROGRAM_REFUSED) {
                ssh_session_refuse_plain(s, ssh_session_no(s->gpg ? REASON_SIGNING : REASON_GIT_SERVICE), why,
                                         FAILED_STATUS);
        } else {
                s->status = status;
                if (s->program)
                        stream_assume_readable(s->program);
                if (s->errors)
                        stream_assume_readable(s->errors);
        }
        ssh_session_run(s);
}

static void on_revoked(struct judged *j, struct verdict v) {
        struct ssh_session *s = link_owner(j, struct ssh_session, judged);

        if (v.decision != DECISION_ALLOW)
                ssh_session_record(s, &v, false, NULL);
        ssh_session_end(s);
}

static void open_ssh(struct ssh_session *s) {
        struct ipc_message m = { .kind = IPC_SSH, .authority = s->command.target };

        if (ssh_request_write(&s->command, m.text, sizeof m.text) < 0 || program_open(&s->call, &m) < 0) {
                ssh_session_refuse_plain(s, ssh_session_no(REASON_LIMIT), NULL, FAILED_STATUS);
                return;
        }
        s->judged = (struct judged){ .target = &s->judged_at,
                                     .addr = { .family = ADDR_NONE },
                                     .asked = true,
                                     .git = &s->examine->git,
                                     .revoke = on_revoked };
        link_init(&s->judged.link);
        judged_add(s->worker, &s->judged);
        ssh_session_enter(s, SSH_OPENING);
}

/* --- what is asked for --- */

static struct verdict judge_service(struct ssh_session *s) {
        const struct snapshot *snapshot = worker_snapshot(s->worker);
        const struct verdict granted = { .decision = DECISION_ALLOW };
        enum reason closed = gate_is_closed(s->worker);
        struct verdict v = verdict_target(snapshot, &s->command.target.host, s->command.target.port);

        if (closed != REASON_NONE)
                return ssh_session_no(closed);
        if (v.decision == DECISION_DENY && v.reason == REASON_DENY_RULE)
                return v;
        if (v.reason == REASON_RATCHET) /* nobody is asked about ssh: then it is a no */
                return ssh_session_no(REASON_RATCHET);
        return examine_verdict(s->examine, snapshot, granted);
}

static void on_ratcheted(struct gate_call *c) {
        struct ssh_session *s = link_owner(c, struct ssh_session, hold);

        ssh_session_enter(s, SSH_HEAD);
        s->verdict = c->verdict.decision == DECISION_ALLOW ? judge_service(s) : c->verdict;
        if (s->verdict.decision == DECISION_DENY)
                refuse_service(s, s->verdict);
        else
                open_ssh(s);
        ssh_session_run(s);
}

/* The host may be a trigger of a ratchet, which closes first. */
static bool hold_for_ratchet(struct ssh_session *s) {
        const struct snapshot *snapshot = worker_snapshot(s->worker);
        const struct authority *dialled = &s->command.target;

        if (!verdict_target(snapshot, &dialled->host, dialled->port).reaches &&
            !verdict_target(snapshot, &s->judged_at.host, s->judged_at.port).reaches)
                return false;
        s->hold = (struct gate_call){ .worker = s->worker,
                                      .target = s->judged_at,
                                      .via = VIA_SSH,
                                      .request_visible = true,
                                      .done = on_ratcheted };
        gate_set_question(&s->hold, STR(ASK_RATCHET), &s->verdict);
        ssh_session_enter(s, SSH_HELD);
        gate_open(&s->hold);
        return true;
}

static void begin_ssh(struct ssh_session *s, const struct ssh_message *m) {
        struct err e = { 0 };
        bool full = false;

        if (m->n == 0 || ssh_command_parse(m->words[0], m->words + 1, m->n - 1, &s->command, &e) < 0) {
                ssh_session_refuse_plain(s, ssh_session_no(REASON_GIT_FORM), m->n ? err_text(&e) : NULL, FAILED_STATUS);
                return;
        }
        s->judged_at = ssh_judged_target(worker_snapshot(s->worker), &s->command.target, s->command.path);
        if (examine_ssh(&s->judged_at, s->command.path, ssh_service_right(s->command.service),
                        ssh_service_name(s->command.service) + strlen("git-"), &s->examine) < 0) {
                ssh_session_end(s);
                return;
        }
        s->host_bytes = quota_host(s->worker->gateway->quota, &s->command.target.host, &full);
        s->verdict = full ? ssh_session_no(REASON_LIMIT) : judge_service(s);
        if (s->verdict.decision == DECISION_DENY)
                refuse_service(s, s->verdict);
        else if (!hold_for_ratchet(s))
                open_ssh(s);
}

static int read_message(struct ssh_session *s) {
        struct ssh_message m;
        int r = ssh_flow_read(s, SSH_MESSAGE_HEAD + SSH_MESSAGE_TEXT_MAX);
        int found = r < 0 ? r : ssh_message_read(buf_str(&s->in), &m);

        if (found == 0)
                return s->client_ended ? -EPIPE : r;
        if (found < 0)
                return found;
        s->gpg = m.kind == SSH_MESSAGE_GPG;
        if (s->gpg)
                ssh_gpg_begin(s, &m);
        else
                begin_ssh(s, &m);
        if (!s->gone && s->state != SSH_ENDING)
                buf_consume(&s->in, m.bytes);
        return s->gone ? 0 : 1;
}

/* --- the list of refs --- */

static void settle_push(struct ssh_session *s);

static void on_agreed(struct gate_call *c) {
        struct ssh_session *s = link_owner(c, struct ssh_session, hold);

        ssh_session_enter(s, SSH_HEAD);
        if (c->verdict.decision == DECISION_ALLOW) {
                s->examine->asked = true;
                settle_push(s);
        } else {
                refuse_push(s, c->verdict);
        }
        ssh_session_run(s);
}

static void ask_about_push(struct ssh_session *s) {
        cleanup(buf_done) struct buf text = BUF(GATE_QUESTION_MAX - 1);

        (void)examine_question(s->examine, &text);
        s->hold = (struct gate_call){
                .worker = s->worker, .target = s->judged_at, .via = VIA_SSH, .request_visible = true, .done = on_agreed
        };
        gate_set_question(&s->hold, buf_str(&text), &s->verdict);
        ssh_session_enter(s, SSH_HELD);
        gate_open(&s->hold);
}

static void settle_push(struct ssh_session *s) {
        s->verdict = judge_service(s);
        if (s->verdict.decision == DECISION_DENY)
                refuse_push(s, s->verdict);
        else if (s->examine->ask && !s->examine->asked)
                ask_about_push(s);
        else
                ssh_session_enter(s, SSH_PASSING);
}

static int read_head(struct ssh_session *s) {
        int r = ssh_flow_read(s, EXAMINE_MAX);
        struct str news = str_skip(buf_str(&s->in), s->fed);
        int found;

        if (r <= 0)
                return r;
        s->fed = s->in.n;
        found = examine_feed(s->examine, news, s->client_ended);
        if (found == -ENOMEM)
                return found;
        if (found < 0 && s->client_ended && s->in.n == 0) /* it has looked at the list and gone, as ls-remote does */
                ssh_session_enter(s, SSH_PASSING);
        else if (found < 0)
                ssh_session_refuse_plain(s, examine_malformed(s->examine), examine_why(s->examine), FAILED_STATUS);
        else if (found > 0)
                settle_push(s);
        return 1;
}

/* --- turns --- */

static int drain(struct ssh_session *s) {
        int r = ssh_flow_read(s, SSH_PIECE);

        buf_clear(&s->in);
        if (r <= 0 && !s->client_ended)
                return r;
        if (s->client_ended && s->out.n == 0)
                ssh_session_exit(s, s->status);
        return r;
}

/* The program has ended: its last words, then its status. */
static int finish(struct ssh_session *s) {
        cleanup(buf_done) struct buf text = BUF(HELP_MAX + SSH_ERRORS_MAX);

        (void)ssh_errors_take(&s->said, STR(""), true, &text);
        if (!s->gpg)
                (void)ssh_errors_advise(&s->said, &s->command.target, &text);
        (void)ssh_flow_frame(s, SSH_FRAME_ERRORS, buf_str(&text));
        ssh_session_record(s, &s->verdict, true, NULL);
        ssh_session_exit(s, s->status);
        return 1;
}

/* Its end alone says nothing: git closes its side when a pack is sent, and waits for the answer. */
static bool client_is_gone(const struct ssh_session *s) {
        struct pollfd fd = { .fd = s->client.stream->fd };

        return poll(&fd, 1, 0) > 0 && (fd.revents & (POLLHUP | POLLERR));
}

static int step(struct ssh_session *s) {
        switch ((enum ssh_state)s->state) {
        case SSH_READING:
                return read_message(s);
        case SSH_PAYLOAD:
                ssh_gpg_payload(s);
                return 0;
        case SSH_HELD:
        case SSH_OPENING:
                return client_is_gone(s) ? -EPIPE : 0;
        case SSH_HEAD:
                return read_head(s);
        case SSH_PASSING:
                return ssh_flow_in(s);
        case SSH_DRAINING:
                return drain(s);
        default:
                return 0;
        }
}

void ssh_session_run(struct ssh_session *s) {
        int moved = 1;

        for (int turns = 0; moved > 0 && turns < 64; turns++) {
                if (s->gone)
                        return;
                int flushed = ssh_flow_flush(s);
                int out = flushed > 0 ? ssh_flow_out(s) : flushed;
                moved = out < 0 ? out : step(s);
                if (moved >= 0)
                        moved |= out;
                if (!s->gone && moved >= 0 && s->state >= SSH_OPENING && s->state <= SSH_PASSING && ssh_flow_is_over(s))
                        moved = finish(s);
                if (!s->gone && s->state == SSH_ENDING && ssh_flow_flush(s) > 0) {
                        (void)stream_finish(s->client.stream);
                        ssh_session_end(s);
                        return;
                }
        }
        if (s->gone)
                return;
        if (moved < 0)
                ssh_session_end(s);
        else if (s->state != SSH_HELD)
                timer_start(&s->limit,
                            s->state == SSH_READING ? s->worker->limits.header_ns : s->worker->limits.tunnel_idle_ns);
        if (moved > 0 && !s->gone)
                loop_soon(s->worker->loop, &s->again);
}

static void on_again(struct task *t) {
        ssh_session_run(link_owner(t, struct ssh_session, again));
}

int ssh_session_start(const struct client *c) {
        struct ssh_session *s = alloc_zeroed(sizeof *s);

        if (!s)
                return client_has_no_room(c);
        s->client = *c;
        s->worker = c->worker;
        s->status = SSH_STATUS_NONE;
        s->in = BUF(EXAMINE_MAX + SSH_PIECE);
        s->out = BUF(4 * SSH_PIECE);
        s->said.line = BUF(SSH_ERRORS_MAX);
        s->call.worker = c->worker;
        s->call.on_fd = on_program_fd;
        s->call.on_status = on_program_status;
        link_init(&s->call.link);
        link_init(&s->judged.link);
        task_init(&s->destroy, ssh_session_destroy);
        task_init(&s->again, on_again);
        timer_init(&s->limit, c->worker->loop, on_limit);
        link_append(&c->worker->ssh_sessions, &s->link);
        ssh_session_enter(s, SSH_READING);
        stream_set_owner(s->client.stream, on_stream, s);
        ssh_session_run(s);
        return 0;
}

void ssh_sessions_end(struct worker *w) {
        while (!link_is_empty(&w->ssh_sessions))
                ssh_session_end(link_owner(w->ssh_sessions.next, struct ssh_session, link));
}
