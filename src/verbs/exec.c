/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Captured output: the supervisor runs in a child of ours, in a session of its own, with pipes for the output and the
 * link of libbailey (ipc/supervise.h); this process serves it as a program with libbailey would. Otherwise this process
 * is the supervisor itself, as of `bailey run`.
 */
#include "verbs/exec.h"

#include "api/capture.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/escape.h"
#include "base/fd.h"
#include "conf/suggest.h"
#include "control/command_room.h"
#include "control/link.h"
#include "control/questions.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { COMMAND_MAX = 4 << 20, SIGNALLED = 128 };

void exec_outcome_done(struct exec_outcome *o) {
        check_verdict_done(&o->verdict);
        bailey_result_free(o->result);
        o->result = NULL;
}

/*
 * Asking.
 */
static int spell(const struct check_question *q, struct buf *out) {
        int r = 0;
        for (size_t i = 0; r == 0 && i < q->n; i++) {
                r = i ? buf_add_char(out, ' ') : 0;
                r = r < 0 ? r : q->args ? escape_shell(out, str_of(q->words[i])) : buf_add(out, q->words[i]);
        }
        return r;
}

static const char *refusal_text(enum room_word word) {
        static const char *const texts[] = {
                [ROOM_REFUSED] = "the command was not approved",
                [ROOM_NOBODY] = "the command needs an approval, and nobody is there to be asked",
                [ROOM_LATE] = "the command was not approved: nobody answered in time",
                [ROOM_LEFT] = "the command was not approved: the question was given up",
        };
        return texts[word];
}

/* Into the room with it. True when it may run. */
static bool wait_in_room(const struct exec_request *q, const struct judged *judged, struct exec_outcome *o,
                         struct room_outcome *room, struct err *e) {
        const struct check_verdict *v = &o->verdict;
        const struct option *how = &policy_rows[ROW_ASK];
        const struct policy_request policy = { .command_line = q->options };
        const struct room_request request = { .policy = &policy,
                                              .options = q->options,
                                              .argv = q->question.words,
                                              .judged = *judged,
                                              .ask_terminal = !option_given(q->options, how),
                                              .link = -1 };
        if (room_wait(&request, room, e) < 0) {
                o->stage = v->decision == CHECK_FORBIDDEN ? EXEC_FORBIDDEN : EXEC_NOT_APPROVED;
                (void)err_wrap(e, -e->code, "the command does not run");
                return false;
        }
        if (room->word == ROOM_APPROVED)
                return true;
        o->stage = v->decision == CHECK_FORBIDDEN ? EXEC_FORBIDDEN : EXEC_NOT_APPROVED;
        bool too_long = room->word == ROOM_NOBODY && strlen(judged->command) > QUESTION_SHOWN;
        err_set(e, EACCES, "%s: %s (rule %s, in: %s)",
                v->decision == CHECK_FORBIDDEN ? "the command is forbidden"
                : too_long                     ? room->by
                                               : refusal_text(room->word),
                v->reason, *v->rule ? v->rule : "none", show(str_of(v->segment)).text);
        return false;
}

/* True when it may run; judged->by says by whose word. */
static bool approve(const struct exec_request *q, struct judged *judged, struct exec_outcome *o,
                    struct room_outcome *room, struct err *e) {
        const struct check_verdict *v = &o->verdict;
        bool forbidden = v->decision == CHECK_FORBIDDEN, escalated = v->decision == CHECK_ESCALATED;
        judged->by = forbidden ? "forbidden" : escalated && q->approved ? "approved by the caller" : NULL;
        if ((forbidden || (escalated && !q->approved)) && !wait_in_room(q, judged, o, room, e))
                return false;
        if (room->id[0])
                judged->by = room->by;
        o->stage = EXEC_RAN;
        return true;
}

/*
 * Running.
 */
/* Not expected: questions of a captured command go to the control socket. */
static void answer_no(void *arg, int link, const struct supervise_message *question) {
        (void)arg;
        (void)supervise_send(link, &(struct supervise_message){ .kind = SUPERVISE_ANSWER, .id = question->id }, NULL);
}

/* In the child: the supervisor. */
static _Noreturn void supervise(const struct run_request *plain, int link_fd, int out, int err) {
        const struct supervise_request nothing = { 0 };
        const struct link link = { .fd = link_fd, .request = &nothing };
        struct run_request q = *plain;
        struct err e = { 0 };
        int status = 0;
        if (dup2(out, STDOUT_FILENO) < 0 || dup2(err, STDERR_FILENO) < 0 || setsid() < 0)
                _exit(1);
        close(out);
        close(err);
        q.link = &link;
        q.quiet = true;
        enum run_end end = run_command(&q, &status, &e);
        link_end(&link, end, status, end == RUN_ENDED && status > SIGNALLED, end == RUN_ENDED ? NULL : err_text(&e));
        _exit(0);
}

static int start(const struct run_request *q, struct child *ret, struct err *e) {
        int link[2] = { -1, -1 }, out[2] = { -1, -1 }, err[2] = { -1, -1 };
        pid_t pid = -1;
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, link) == 0 && pipe2(out, O_CLOEXEC) == 0 &&
            pipe2(err, O_CLOEXEC) == 0)
                pid = fork();
        if (pid == 0) {
                close(link[0]);
                close(out[0]);
                close(err[0]);
                supervise(q, link[1], out[1], err[1]);
        }
        int r = pid < 0 ? err_errno(e, "cannot start the supervisor") : 0;
        close_fd(&link[1]);
        close_fd(&out[1]);
        close_fd(&err[1]);
        *ret = (struct child){ .pid = pid > 0 ? pid : 0, .pidfd = -1, .link = link[0], .out = out[0], .err = err[0] };
        if (r == 0)
                ret->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
        (void)fd_set_nonblocking(link[0], true);
        (void)fd_set_nonblocking(out[0], true);
        (void)fd_set_nonblocking(err[0], true);
        return r;
}

static void run_captured(const struct exec_request *q, const struct run_request *run, struct exec_outcome *o,
                         struct err *e) {
        struct capture c = { .child = CHILD_NONE, .stop = { -1, -1 }, .on_ask = answer_no };
        uint64_t began = clock_ns();
        o->end = RUN_FAILED;
        if (result_new(q->output_limit, &c.result) < 0) {
                err_memory(e);
                return;
        }
        o->result = c.result;
        int r = start(run, &c.child, e);
        if (r == 0)
                capture_serve(&c);
        capture_done(&c);
        c.result->duration_ns = clock_ns() - began;
        c.result->sandboxed = true;
        if (r < 0)
                return;
        if (!c.told) {
                err_set(e, EIO, "the supervisor ended before the command did");
                return;
        }
        o->end = c.end.number < RUN_ENDS ? (enum run_end)c.end.number : RUN_FAILED;
        o->status = c.end.status;
        c.result->signal = c.end.signalled ? c.end.status - SIGNALLED : 0;
        c.result->exit_code = c.end.signalled ? -1 : c.end.status;
        if (o->end == RUN_TIMED_OUT)
                c.result->exit_code = -1;
        if (o->end != RUN_ENDED)
                err_set(e, EIO, "%s", c.end.detail);
        if (result_finish(c.result) < 0)
                err_memory(e);
}

void exec_command(const struct exec_request *q, struct exec_outcome *ret, struct err *e) {
        cleanup(room_outcome_done) struct room_outcome room = { 0 };
        cleanup(buf_done) struct buf command = BUF(COMMAND_MAX);
        *ret = (struct exec_outcome){ .stage = EXEC_NOT_CHECKED, .end = RUN_FAILED };
        if (check_command(q->options, &q->question, &ret->verdict, e) < 0)
                return;
        const struct check_verdict *v = &ret->verdict;
        struct judged judged = { .decision = v->name,
                                 .command = spell(&q->question, &command) < 0 ? NULL : buf_text(&command),
                                 .segment = v->segment ? v->segment : "",
                                 .rule = v->rule,
                                 .reason = v->reason };
        if (!judged.command) {
                err_set(e, ENOMEM, "out of memory, or the command is longer than %d bytes", COMMAND_MAX);
                return;
        }
        if (!approve(q, &judged, ret, &room, e))
                return;
        char shell_option[] = "-c";
        char *through[] = { (char *)(uintptr_t)q->shell, shell_option, q->question.words[0], NULL };
        const struct run_request run = { .options = q->options,
                                         .argv = q->question.args ? q->question.words : through,
                                         .hosts_file = q->hosts_file,
                                         .quiet = q->quiet,
                                         .judged = &judged,
                                         .id = room.id[0] ? room.id : NULL,
                                         .audit_path = room.audit_path };
        if (q->capture)
                run_captured(q, &run, ret, e);
        else
                ret->end = run_command(&run, &ret->status, e);
}
