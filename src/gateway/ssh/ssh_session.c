/* SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "bridge/git_answer.h"
#include "gateway/ask.h"
#include "gateway/load/quota.h"
#include "gateway/refusal.h"
#include "gateway/ssh/ssh_session_internal.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

enum { REFUSED_STATUS = 1, FAILED_STATUS = 128, HELP_MAX = 4096 };

/* --- the beginning and the end --- */

static void ssh_session_destroy(struct task *task) {
        struct ssh_session *session = link_owner(task, struct ssh_session, destroy);

        examine_free(session->examine);
        buf_done(&session->in);
        buf_done(&session->out);
        buf_done(&session->said.line);
        free(session);
}

void ssh_session_end(struct ssh_session *session) {
        struct loop *loop = session->worker->loop;

        if (session->gone)
                return;

        session->gone = true;
        if (!session->recorded && session->state >= SSH_OPENING)
                ssh_session_record(session, &session->verdict, true, NULL);

        link_remove(&session->link);
        link_remove(&session->judged.link);
        timer_stop(&session->limit);
        task_cancel(&session->again);

        if (session->state == SSH_HELD && session->gpg)
                ask_leave(&session->hold, false);
        else if (session->state == SSH_HELD)
                gate_cancel(&session->hold);

        program_close(&session->call);
        stream_close(session->program);
        stream_close(session->errors);
        client_done(&session->client);
        loop_defer(loop, &session->destroy);
}

void ssh_session_enter(struct ssh_session *session, enum ssh_state state) {
        const struct gateway_limits *limits = &session->worker->limits;

        session->state = (uint8_t)state;
        if (state == SSH_HELD)
                timer_stop(&session->limit); /* the question has its own */
        else
                timer_start(&session->limit, state == SSH_READING ? limits->header_ns : limits->tunnel_idle_ns);
}

static void on_limit(struct timer *timer) {
        ssh_session_end(link_owner(timer, struct ssh_session, limit));
}

struct verdict ssh_session_no(enum reason reason) {
        return (struct verdict){ .decision = DECISION_DENY, .reason = (uint8_t)reason, .rule = RULE_NONE };
}

void ssh_session_record(struct ssh_session *session, const struct verdict *verdict, bool allowed, const char *why) {
        struct event ev = { .kind = EVENT_REQUEST,
                            .connection = session->client.number,
                            .rule = verdict->rule,
                            .generation = session->worker->policy->generation,
                            .via = VIA_SSH,
                            .scheme = SCHEME_SSH,
                            .reason = verdict->reason,
                            .allowed = allowed,
                            .port = session->command.target.port,
                            .domain = host_str(&session->command.target.host),
                            .path = str_of(session->command.sent_path),
                            .detail = str_of(why),
                            .bytes_in = session->bytes_in,
                            .bytes_out = session->bytes_out,
                            .duration_us = (loop_now(session->worker->loop) - session->client.since) / 1000 };

        if (session->gpg) {
                ev.via = VIA_GPG;
                ev.scheme = SCHEME_NONE;
                ev.method = STR("sign");
                ev.path = str_of(session->key);
        } else if (session->command.sent_path[0]) {
                ev.method = str_of(ssh_service_name(session->command.service));
        }

        if (session->status > 0)
                ev.status = (uint16_t)session->status;
        if (session->examine)
                ev.act = buf_str(&session->examine->act);

        session->recorded = true;
        report_event(&session->worker->report, &ev);
}

/* --- refusals --- */

static void ssh_session_exit(struct ssh_session *session, int status) {
        const char code = (char)(status & 0xff);

        if (ssh_flow_frame(session, SSH_FRAME_EXIT, str_n(&code, 1)) < 0)
                ssh_session_end(session);
        else
                ssh_session_enter(session, SSH_ENDING);
}

/* The server sees the end of the connection and no word of it. */
static void ssh_session_cut(struct ssh_session *session) {
        program_close(&session->call);
        stream_close(take_ptr(&session->program));
        stream_close(take_ptr(&session->errors));
        buf_clear(&session->in);
}

void ssh_session_refuse_plain(struct ssh_session *session, struct verdict verdict, const char *why, int status) {
        cleanup(buf_done) struct buf text = BUF(HELP_MAX);

        ssh_session_record(session, &verdict, false, why);
        (void)buf_printf(&text, "bailey: %s\n", why ? why : reason_text((enum reason)verdict.reason));
        (void)ssh_flow_frame(session, SSH_FRAME_ERRORS, buf_str(&text));
        ssh_session_cut(session);
        ssh_session_exit(session, status);
}

/* Before anything of git's protocol was spoken: as a server says it that does not serve this. */
static void refuse_service(struct ssh_session *session, struct verdict verdict) {
        cleanup(buf_done) struct buf text = BUF(HELP_MAX), answer = BUF(2 * HELP_MAX);
        const char *why = session->examine ? examine_why(session->examine) : NULL;

        ssh_session_record(session, &verdict, false, why);
        (void)refusal_text(&text, worker_snapshot(session->worker), &session->command.target, &verdict, 0, why);
        (void)git_answer_advertisement(&answer, ssh_service_name(session->command.service), false, buf_str(&text));
        (void)ssh_flow_frame(session, SSH_FRAME_OUTPUT, buf_str(&answer));
        ssh_session_cut(session);
        ssh_session_exit(session, REFUSED_STATUS);
}

/* After the server's list of refs: as a server answers that takes no push. */
static void refuse_push(struct ssh_session *session, struct verdict verdict) {
        cleanup(buf_done) struct buf answer = BUF(EXAMINE_ANSWER_MAX);

        if (examine_answer(session->examine, worker_snapshot(session->worker), &verdict, &answer) < 0) {
                ssh_session_refuse_plain(session, verdict, examine_why(session->examine), FAILED_STATUS);
                return;
        }

        ssh_session_record(session, &verdict, false, examine_why(session->examine));
        session->out.max = answer.n + 2 * (size_t)SSH_PIECE;
        (void)ssh_flow_frame(session, SSH_FRAME_OUTPUT, buf_str(&answer));
        ssh_session_cut(session);
        session->status = 0;
        ssh_session_enter(session, SSH_DRAINING);
}

/* --- the program --- */

static void on_stream(struct stream *stream, void *owner) {
        (void)stream;
        ssh_session_run(owner);
}

static void on_program_fd(struct program_call *call, enum ipc_program_fd which, int fd) {
        struct ssh_session *session = link_owner(call, struct ssh_session, call);
        struct stream **to = which == IPC_PROGRAM_FD_STDIO ? &session->program : &session->errors;

        if (*to || which == IPC_PROGRAM_FD_TABLE || fd_set_nonblocking(fd, true) < 0) {
                close_fd(&fd);
                return;
        }

        if (stream_socket_new(session->worker->loop, fd, to) < 0) {
                ssh_session_end(session);
                return;
        }

        stream_set_owner(*to, on_stream, session);
        if (which != IPC_PROGRAM_FD_STDIO)
                return;

        ssh_session_enter(session, session->examine && examine_is_open(session->examine) ? SSH_HEAD : SSH_PASSING);
        ssh_session_run(session);
}

static void on_program_status(struct program_call *call, int status, const char *why) {
        struct ssh_session *session = link_owner(call, struct ssh_session, call);

        link_remove(&call->link);
        call->id = 0;

        if (status == IPC_PROGRAM_NOT_RUN) {
                ssh_session_refuse_plain(session, ssh_session_no(REASON_UPSTREAM), why, FAILED_STATUS);
        } else if (status == IPC_PROGRAM_REFUSED) {
                ssh_session_refuse_plain(session, ssh_session_no(session->gpg ? REASON_SIGNING : REASON_GIT_SERVICE),
                                         why, FAILED_STATUS);
        } else {
                session->status = status;
                if (session->program)
                        stream_assume_readable(session->program);
                if (session->errors)
                        stream_assume_readable(session->errors);
        }

        ssh_session_run(session);
}

static void on_revoked(struct judged *j, struct verdict verdict) {
        struct ssh_session *session = link_owner(j, struct ssh_session, judged);

        if (verdict.decision != DECISION_ALLOW)
                ssh_session_record(session, &verdict, false, NULL);
        ssh_session_end(session);
}

static void open_ssh(struct ssh_session *session) {
        struct ipc_message message = { .kind = IPC_SSH, .authority = session->command.target };

        if (ssh_request_write(&session->command, message.text, sizeof message.text) < 0 ||
            program_open(&session->call, &message) < 0) {
                ssh_session_refuse_plain(session, ssh_session_no(REASON_LIMIT), NULL, FAILED_STATUS);
                return;
        }

        session->judged = (struct judged){ .target = &session->judged_at,
                                           .addr = { .family = ADDR_NONE },
                                           .asked = true,
                                           .git = &session->examine->git,
                                           .revoke = on_revoked };
        link_init(&session->judged.link);
        judged_add(session->worker, &session->judged);
        ssh_session_enter(session, SSH_OPENING);
}

/* --- what is asked for --- */

static struct verdict judge_service(struct ssh_session *session) {
        const struct snapshot *snapshot = worker_snapshot(session->worker);
        const struct verdict granted = { .decision = DECISION_ALLOW };
        enum reason closed = gate_is_closed(session->worker);
        struct verdict verdict = verdict_target(snapshot, &session->command.target.host, session->command.target.port);

        if (closed != REASON_NONE)
                return ssh_session_no(closed);
        if (verdict.decision == DECISION_DENY && verdict.reason == REASON_DENY_RULE)
                return verdict;
        if (verdict.reason == REASON_RATCHET) /* nobody is asked about ssh: then it is a no */
                return ssh_session_no(REASON_RATCHET);

        return examine_verdict(session->examine, snapshot, granted);
}

static void on_ratcheted(struct gate_call *call) {
        struct ssh_session *session = link_owner(call, struct ssh_session, hold);

        ssh_session_enter(session, SSH_HEAD);
        if (call->verdict.decision == DECISION_ALLOW)
                session->verdict = judge_service(session);
        else
                session->verdict = call->verdict;
        if (session->verdict.decision == DECISION_DENY)
                refuse_service(session, session->verdict);
        else
                open_ssh(session);

        ssh_session_run(session);
}

/* The host may be a trigger of a ratchet, which closes first. */
static bool hold_for_ratchet(struct ssh_session *session) {
        const struct snapshot *snapshot = worker_snapshot(session->worker);
        const struct authority *dialled = &session->command.target;

        if (!verdict_target(snapshot, &dialled->host, dialled->port).reaches &&
            !verdict_target(snapshot, &session->judged_at.host, session->judged_at.port).reaches)
                return false;

        session->hold = (struct gate_call){ .worker = session->worker,
                                            .target = session->judged_at,
                                            .via = VIA_SSH,
                                            .request_visible = true,
                                            .done = on_ratcheted };
        gate_set_question(&session->hold, STR(ASK_RATCHET), &session->verdict);
        ssh_session_enter(session, SSH_HELD);
        gate_open(&session->hold);

        return true;
}

static void begin_ssh(struct ssh_session *session, const struct ssh_message *message) {
        struct err err = { 0 };
        bool full = false;

        if (message->n == 0 ||
            ssh_command_parse(message->words[0], message->words + 1, message->n - 1, &session->command, &err) < 0) {
                ssh_session_refuse_plain(session, ssh_session_no(REASON_GIT_FORM), message->n ? err_text(&err) : NULL,
                                         FAILED_STATUS);
                return;
        }

        session->judged_at =
            ssh_judged_target(worker_snapshot(session->worker), &session->command.target, session->command.path);
        if (examine_ssh(&session->judged_at, session->command.path, ssh_service_right(session->command.service),
                        ssh_service_name(session->command.service) + strlen("git-"), &session->examine) < 0) {
                ssh_session_end(session);
                return;
        }

        session->host_bytes = quota_host(session->worker->gateway->quota, &session->command.target.host, &full);
        if (full)
                session->verdict = ssh_session_no(REASON_LIMIT);
        else
                session->verdict = judge_service(session);
        if (session->verdict.decision == DECISION_DENY)
                refuse_service(session, session->verdict);
        else if (!hold_for_ratchet(session))
                open_ssh(session);
}

static int read_message(struct ssh_session *session) {
        struct ssh_message message;
        int r = ssh_flow_read(session, SSH_MESSAGE_HEAD + SSH_MESSAGE_TEXT_MAX);
        int found = r < 0 ? r : ssh_message_read(buf_str(&session->in), &message);

        if (found == 0 && session->client_ended)
                return -EPIPE;
        if (found == 0)
                return r;
        if (found < 0)
                return found;

        session->gpg = message.kind == SSH_MESSAGE_GPG;
        if (session->gpg)
                ssh_gpg_begin(session, &message);
        else
                begin_ssh(session, &message);

        if (!session->gone && session->state != SSH_ENDING)
                buf_consume(&session->in, message.bytes);

        if (session->gone)
                return 0;

        return 1;
}

/* --- the list of refs --- */

static void settle_push(struct ssh_session *session);

static void on_agreed(struct gate_call *call) {
        struct ssh_session *session = link_owner(call, struct ssh_session, hold);

        ssh_session_enter(session, SSH_HEAD);

        if (call->verdict.decision == DECISION_ALLOW) {
                session->examine->asked = true;
                settle_push(session);
        } else {
                refuse_push(session, call->verdict);
        }

        ssh_session_run(session);
}

static void ask_about_push(struct ssh_session *session) {
        cleanup(buf_done) struct buf text = BUF(GATE_QUESTION_MAX - 1);

        (void)examine_question(session->examine, &text);
        session->hold = (struct gate_call){ .worker = session->worker,
                                            .target = session->judged_at,
                                            .via = VIA_SSH,
                                            .request_visible = true,
                                            .done = on_agreed };
        gate_set_question(&session->hold, buf_str(&text), &session->verdict);
        ssh_session_enter(session, SSH_HELD);
        gate_open(&session->hold);
}

static void settle_push(struct ssh_session *session) {
        session->verdict = judge_service(session);
        if (session->verdict.decision == DECISION_DENY)
                refuse_push(session, session->verdict);
        else if (session->examine->ask && !session->examine->asked)
                ask_about_push(session);
        else
                ssh_session_enter(session, SSH_PASSING);
}

static int read_head(struct ssh_session *session) {
        int r = ssh_flow_read(session, EXAMINE_MAX);
        struct str news = str_skip(buf_str(&session->in), session->fed);
        int found;

        if (r <= 0)
                return r;

        session->fed = session->in.n;
        found = examine_feed(session->examine, news, session->client_ended);
        if (found == -ENOMEM)
                return found;

        if (found < 0 && session->client_ended &&
            session->in.n == 0) /* it has looked at the list and gone, as ls-remote does */
                ssh_session_enter(session, SSH_PASSING);
        else if (found < 0)
                ssh_session_refuse_plain(session, examine_malformed(session->examine), examine_why(session->examine),
                                         FAILED_STATUS);
        else if (found > 0)
                settle_push(session);

        return 1;
}

/* --- turns --- */

static int session_drain(struct ssh_session *session) {
        int r = ssh_flow_read(session, SSH_PIECE);

        buf_clear(&session->in);
        if (r <= 0 && !session->client_ended)
                return r;
        if (session->client_ended && session->out.n == 0)
                ssh_session_exit(session, session->status);

        return r;
}

/* The program has ended: its last words, then its status. */
static int session_finish(struct ssh_session *session) {
        cleanup(buf_done) struct buf text = BUF(HELP_MAX + SSH_ERRORS_MAX);

        (void)ssh_errors_take(&session->said, STR(""), true, &text);
        if (!session->gpg)
                (void)ssh_errors_advise(&session->said, &session->command.target, &text);

        (void)ssh_flow_frame(session, SSH_FRAME_ERRORS, buf_str(&text));
        ssh_session_record(session, &session->verdict, true, NULL);
        ssh_session_exit(session, session->status);

        return 1;
}

/* Its end alone says nothing: git closes its side when a pack is sent, and waits for the answer. */
static bool client_is_gone(const struct ssh_session *session) {
        struct pollfd fd = { .fd = session->client.stream->fd };

        return poll(&fd, 1, 0) > 0 && (fd.revents & (POLLHUP | POLLERR));
}

static int ssh_session_step(struct ssh_session *session) {
        switch ((enum ssh_state)session->state) {
        case SSH_READING:
                return read_message(session);
        case SSH_PAYLOAD:
                ssh_gpg_payload(session);
                return 0;
        case SSH_HELD:
        case SSH_OPENING:
                return client_is_gone(session) ? -EPIPE : 0;
        case SSH_HEAD:
                return read_head(session);
        case SSH_PASSING:
                return ssh_flow_in(session);
        case SSH_DRAINING:
                return session_drain(session);
        default:
                return 0;
        }
}

void ssh_session_run(struct ssh_session *session) {
        int moved = 1;

        for (int turns = 0; moved > 0 && turns < 64; turns++) {
                if (session->gone)
                        return;

                int flushed = ssh_flow_flush(session);
                int out = flushed > 0 ? ssh_flow_out(session) : flushed;
                if (out < 0)
                        moved = out;
                else
                        moved = ssh_session_step(session);
                if (moved >= 0)
                        moved |= out;

                if (!session->gone && moved >= 0 && session->state >= SSH_OPENING && session->state <= SSH_PASSING &&
                    ssh_flow_is_over(session))
                        moved = session_finish(session);

                if (!session->gone && session->state == SSH_ENDING && ssh_flow_flush(session) > 0) {
                        (void)stream_finish(session->client.stream);
                        ssh_session_end(session);
                        return;
                }
        }

        if (session->gone)
                return;

        if (moved < 0)
                ssh_session_end(session);
        else if (session->state != SSH_HELD)
                timer_start(&session->limit, session->state == SSH_READING ? session->worker->limits.header_ns
                                                                           : session->worker->limits.tunnel_idle_ns);

        if (moved > 0 && !session->gone)
                loop_soon(session->worker->loop, &session->again);
}

static void on_again(struct task *task) {
        ssh_session_run(link_owner(task, struct ssh_session, again));
}

int ssh_session_start(const struct client *client) {
        struct ssh_session *session = alloc_zeroed(sizeof *session);

        if (!session)
                return client_has_no_room(client);

        session->client = *client;
        session->worker = client->worker;
        session->status = SSH_STATUS_NONE;
        session->in = BUF(EXAMINE_MAX + SSH_PIECE);
        session->out = BUF(4 * SSH_PIECE);
        session->said.line = BUF(SSH_ERRORS_MAX);
        session->call.worker = client->worker;
        session->call.on_fd = on_program_fd;
        session->call.on_status = on_program_status;
        link_init(&session->call.link);
        link_init(&session->judged.link);
        task_init(&session->destroy, ssh_session_destroy);
        task_init(&session->again, on_again);
        timer_init(&session->limit, client->worker->loop, on_limit);
        link_append(&client->worker->ssh_sessions, &session->link);
        ssh_session_enter(session, SSH_READING);
        stream_set_owner(session->client.stream, on_stream, session);
        ssh_session_run(session);

        return 0;
}

void ssh_sessions_end(struct worker *worker) {
        while (!link_is_empty(&worker->ssh_sessions))
                ssh_session_end(link_owner(worker->ssh_sessions.next, struct ssh_session, link));
}
