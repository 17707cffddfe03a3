/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process that waits with a sandbox (`bailey spare`). Its own command line names only the program: the command
 * comes with the caller.
 */
#include "verbs/warm.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/random.h"
#include "control/control_place.h"
#include "control/judged.h"
#include "control/link.h"
#include "run/run_spare.h"
#include "verbs/warm_internal.h"
#include "verbs/warm_key.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

extern char **environ;

enum { WAIT_MS = 60000, BACKLOG = 8, WARM_ID_MAX = 13, COMMAND_MAX = 4 << 20 };

struct waiting {
        const struct exec_request *exec;
        struct run_request run;
        struct run_spare spare;
        char *path; /* of its socket */
        char *argv[4];
        struct check_verdict verdict;
        struct judged judged;
        struct buf command;
        struct supervise_request nothing;
        struct link link;
        bool used;
};

static void waiting_done(struct waiting *waiting) {
        if (waiting->path)
                (void)unlink(waiting->path);
        free(waiting->path);
        run_spare_done(&waiting->spare);
        check_verdict_done(&waiting->verdict);
        buf_done(&waiting->command);
}

static void on_taken(void *arg) {
        struct waiting *waiting = arg;

        (void)unlink(waiting->path);
        free(waiting->path);
        waiting->path = NULL;
        waiting->used = true;
}

/* What would have to be asked about is the caller's to ask. */
static int judge(void *arg, const struct policy *policy, char **words, size_t n, int link, struct err *err) {
        struct waiting *waiting = arg;
        const struct exec_request *exec = waiting->exec;
        const struct check_question question = { .words = words, .n = n, .args = exec->question.args };
        struct check_verdict *verdict = &waiting->verdict;

        if (n == 0 || (!question.args && n > 1) || (question.args && strcmp(words[0], exec->question.words[0]) != 0))
                return err_set(err, EINVAL, "another program than the one that it was made for");

        check_verdict_done(verdict);
        int r = check_command_by(policy, &question, verdict, err);
        if (r < 0)
                return r;

        bool escalated = verdict->decision == CHECK_ESCALATED;
        if (verdict->decision == CHECK_FORBIDDEN || (escalated && !exec->approved))
                return err_set(err, EACCES, "the command does not run without a question");

        buf_clear(&waiting->command);
        r = exec_spell(&question, &waiting->command);
        if (r < 0)
                return err_memory(err);

        waiting->judged = (struct judged){ .decision = verdict->name,
                                           .command = buf_text(&waiting->command),
                                           .segment = text_or(verdict->segment, ""),
                                           .rule = verdict->rule,
                                           .reason = verdict->reason,
                                           .by = escalated ? "approved by the caller" : NULL };
        waiting->argv[2] = words[0];
        waiting->run.argv = question.args ? words : waiting->argv;
        waiting->run.judged = &waiting->judged;
        waiting->link = (struct link){ .fd = link, .request = &waiting->nothing };
        waiting->run.link = link >= 0 ? &waiting->link : NULL;
        waiting->run.quiet = exec->quiet || link >= 0;

        return 0;
}

/* Another one may be missing or too many since this one was started. */
static bool is_needed(const char *directory, const char *prefix, unsigned wanted) {
        cleanup(warm_names_done) warm_names names = { 0 };

        return warm_list(directory, prefix, &names) == 0 && names.n < wanted;
}

static int waiting_listen(struct waiting *waiting, struct err *err) {
        cleanup(free_ptr) char *directory = NULL;
        cleanup(close_fd) int place = -1, fd = -1;
        char prefix[WARM_NAME_MAX], id[WARM_ID_MAX], name[WARM_NAME_MAX + WARM_ID_MAX];
        struct sockaddr_un to;
        int r = control_make_directory(&directory, err);
        if (r < 0)
                return r;

        if (warm_key(waiting->exec, warm_program(waiting->exec), waiting->spare.key) < 0)
                return err_memory(err);

        warm_name(waiting->spare.key, prefix);
        if (!is_needed(directory, prefix, waiting->exec->warm))
                return err_set(err, EEXIST, "enough others wait");

        random_id(id, sizeof id);
        snprintf(name, sizeof name, "%s%s", prefix, id);
        r = control_address(directory, name, &to, &place, err);
        if (r < 0)
                return r;

        fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0 || bind(fd, (struct sockaddr *)&to, sizeof to) < 0 || listen(fd, BACKLOG) < 0)
                return err_errno(err, "cannot listen in %s", directory);

        waiting->path = str_format("%s/%s", directory, name);
        if (!waiting->path)
                return err_memory(err);

        waiting->spare.listener = take_fd(&fd);
        return 0;
}

/* From the start, so that nothing of the command that was is left in memory. */
static void begin_anew(const struct exec_request *request) {
        char **words;

        if (warm_command_line(request, &words) == 0)
                (void)execve("/proc/self/exe", words, environ);
}

int warm_wait(const struct exec_request *request, struct err *err) {
        cleanup(waiting_done) struct waiting waiting = {
                .exec = request,
                .run = { .options = request->options, .hosts_file = request->hosts_file, .quiet = true },
                .spare = RUN_SPARE_NONE,
                .argv = { (char *)(uintptr_t)request->shell, (char *)"-c", (char *)":", NULL },
                .command = BUF(COMMAND_MAX),
        };
        int status = 0;
        int r = waiting_listen(&waiting, err);
        if (r < 0)
                return r;

        waiting.run.argv = request->question.args ? request->question.words : waiting.argv;
        waiting.run.spare = &waiting.spare;
        waiting.spare.until_ns = clock_after_ms(WAIT_MS);
        waiting.spare.judge = judge;
        waiting.spare.on_taken = on_taken;
        waiting.spare.arg = &waiting;
        (void)run_command(&waiting.run, &status, err);
        if (!waiting.used && err->code != ESTALE)
                return 0;

        waiting_done(&waiting);
        begin_anew(request);
        _exit(0);
}
