/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Captured output: the supervisor runs in a child of ours, in a session of its own, with pipes for the output and the
 * link of libbailey (ipc/supervise_messages.h); this process serves it as a program with libbailey would. Otherwise
 * this process is the supervisor itself, as of `bailey run`.
 */
#include "verbs/command_exec.h"

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

void exec_outcome_done(struct exec_outcome *outcome) {
        check_verdict_done(&outcome->verdict);
        bailey_result_free(outcome->result);
        outcome->result = NULL;
}

/*
 * Asking.
 */
static int exec_spell(const struct check_question *question, struct buf *out) {
        int r = 0;
        for (size_t i = 0; r == 0 && i < question->n; i++) {
                if (i)
                        r = buf_add_char(out, ' ');
                else
                        r = 0;
                if (r >= 0)
                        r = question->args ? escape_shell(out, str_of(question->words[i]))
                                           : buf_add(out, question->words[i]);
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

static const char *why_not_run(const struct check_verdict *verdict, const struct judged *judged,
                               const struct room_outcome *room) {
        if (verdict->decision == CHECK_FORBIDDEN)
                return "the command is forbidden";
        if (room->word == ROOM_NOBODY && strlen(judged->command) > QUESTION_SHOWN)
                return room->by; /* too long to be shown to anybody */
        return refusal_text(room->word);
}

/* Into the room with it. True when it may run. */
static bool wait_in_room(const struct exec_request *exec_request, const struct judged *judged,
                         struct exec_outcome *outcome, struct room_outcome *room, struct err *err) {
        const struct check_verdict *verdict = &outcome->verdict;
        const struct option *how = &policy_rows[ROW_ASK];
        const struct policy_request policy = { .command_line = exec_request->options };
        const struct room_request request = { .policy = &policy,
                                              .options = exec_request->options,
                                              .argv = exec_request->question.words,
                                              .judged = *judged,
                                              .ask_terminal = !option_given(exec_request->options, how),
                                              .link = -1 };
        if (room_wait(&request, room, err) < 0) {
                outcome->stage = verdict->decision == CHECK_FORBIDDEN ? EXEC_FORBIDDEN : EXEC_NOT_APPROVED;
                (void)err_wrap(err, -err->code, "the command does not run");
                return false;
        }

        if (room->word == ROOM_APPROVED)
                return true;

        outcome->stage = verdict->decision == CHECK_FORBIDDEN ? EXEC_FORBIDDEN : EXEC_NOT_APPROVED;
        err_set(err, EACCES, "%s: %s (rule %s, in: %s)", why_not_run(verdict, judged, room), verdict->reason,
                *verdict->rule ? verdict->rule : "none", show(str_of(verdict->segment)).text);

        return false;
}

/* True when it may run; judged->by says by whose word. */
static bool exec_approve(const struct exec_request *request, struct judged *judged, struct exec_outcome *outcome,
                         struct room_outcome *room, struct err *err) {
        const struct check_verdict *verdict = &outcome->verdict;
        bool forbidden = verdict->decision == CHECK_FORBIDDEN, escalated = verdict->decision == CHECK_ESCALATED;

        if (forbidden)
                judged->by = "forbidden";
        else if (escalated && request->approved)
                judged->by = "approved by the caller";
        else
                judged->by = NULL;
        if ((forbidden || (escalated && !request->approved)) && !wait_in_room(request, judged, outcome, room, err))
                return false;
        if (room->id[0])
                judged->by = room->by;

        outcome->stage = EXEC_RAN;
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
static _Noreturn void exec_supervise(const struct run_request *plain, int link_fd, int out, int err) {
        const struct supervise_request nothing = { 0 };
        const struct link link = { .fd = link_fd, .request = &nothing };
        struct run_request request = *plain;
        struct err e = { 0 };
        int status = 0;

        if (dup2(out, STDOUT_FILENO) < 0 || dup2(err, STDERR_FILENO) < 0 || setsid() < 0)
                _exit(1);

        close(out);
        close(err);
        request.link = &link;
        request.quiet = true;

        enum run_end end = run_command(&request, &status, &e);
        link_end(&link, end, status, end == RUN_ENDED && status > SIGNALLED, end == RUN_ENDED ? NULL : err_text(&e));
        _exit(0);
}

static int exec_start(const struct run_request *request, struct child *ret, struct err *e) {
        int link[2] = { -1, -1 }, out[2] = { -1, -1 }, err[2] = { -1, -1 };
        pid_t pid = -1;

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, link) == 0 && pipe2(out, O_CLOEXEC) == 0 &&
            pipe2(err, O_CLOEXEC) == 0)
                pid = fork();

        if (pid == 0) {
                close(link[0]);
                close(out[0]);
                close(err[0]);
                exec_supervise(request, link[1], out[1], err[1]);
        }

        int r = 0;

        if (pid < 0)
                r = err_errno(e, "cannot start the supervisor");

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

static void run_captured(const struct exec_request *request, const struct run_request *run,
                         struct exec_outcome *outcome, struct err *err) {
        struct capture capture = { .child = CHILD_NONE, .stop = { -1, -1 }, .on_ask = answer_no };
        uint64_t began = clock_ns();

        outcome->end = RUN_FAILED;

        if (result_new(request->output_limit, &capture.result) < 0) {
                err_memory(err);
                return;
        }

        outcome->result = capture.result;
        int r = exec_start(run, &capture.child, err);
        if (r == 0)
                capture_serve(&capture);

        capture_done(&capture);
        capture.result->duration_ns = clock_ns() - began;
        capture.result->sandboxed = true;

        if (r < 0)
                return;

        if (!capture.told) {
                err_set(err, EIO, "the supervisor ended before the command did");
                return;
        }

        outcome->end = capture.end.number < RUN_ENDS ? (enum run_end)capture.end.number : RUN_FAILED;
        outcome->status = capture.end.status;
        capture.result->signal = capture.end.signalled ? capture.end.status - SIGNALLED : 0;
        capture.result->exit_code = capture.end.signalled ? -1 : capture.end.status;

        if (outcome->end == RUN_TIMED_OUT)
                capture.result->exit_code = -1;
        if (outcome->end != RUN_ENDED)
                err_set(err, EIO, "%s", capture.end.detail);
        if (result_finish(capture.result) < 0)
                err_memory(err);
}

void exec_command(const struct exec_request *request, struct exec_outcome *ret, struct err *err) {
        cleanup(room_outcome_done) struct room_outcome room = { 0 };
        cleanup(buf_done) struct buf command = BUF(COMMAND_MAX);

        *ret = (struct exec_outcome){ .stage = EXEC_NOT_CHECKED, .end = RUN_FAILED };
        if (check_command(request->options, &request->question, &ret->verdict, err) < 0)
                return;

        const struct check_verdict *verdict = &ret->verdict;
        struct judged judged = { .decision = verdict->name,
                                 .command = exec_spell(&request->question, &command) < 0 ? NULL : buf_text(&command),
                                 .segment = text_or(verdict->segment, ""),
                                 .rule = verdict->rule,
                                 .reason = verdict->reason };
        if (!judged.command) {
                err_set(err, ENOMEM, "out of memory, or the command is longer than %d bytes", COMMAND_MAX);
                return;
        }

        if (!exec_approve(request, &judged, ret, &room, err))
                return;

        char shell_option[] = "-c";
        char *through[] = { (char *)(uintptr_t)request->shell, shell_option, request->question.words[0], NULL };
        struct run_request run = { .options = request->options,
                                   .argv = request->question.args ? request->question.words : through,
                                   .hosts_file = request->hosts_file,
                                   .quiet = request->quiet,
                                   .judged = &judged,
                                   .audit_path = room.audit_path };
        if (room.id[0])
                run.id = room.id;

        if (request->capture)
                run_captured(request, &run, ret, err);
        else
                ret->end = run_command(&run, &ret->status, err);
}
