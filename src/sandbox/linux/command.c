/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From init to the command. The child shares init's memory until exec (as vfork does, on a stack of its own), so that
 * starting it costs no page tables and an error needs no pipe: it is written where init reads it.
 */
#include "base/fd.h"
#include "sandbox/linux/broker/broker.h"
#include "sandbox/linux/init.h"
#include "sandbox/linux/step.h"
#include "sandbox/linux/watcher/watcher.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_landlock_restrict_self
#define SYS_landlock_restrict_self 446
#endif
extern char **environ;

enum { STACK_BYTES = 256 << 10 }; /* the broker goes on with it */

static void command_fail(struct command *command, const char *what) {
        command->error = errno ? errno : EINVAL;
        snprintf(command->text, sizeof command->text, "%s: %s", what, strerror(command->error));
}

static const char *env_value(const struct plan *plan, const char *name) {
        size_t n = strlen(name);
        for (size_t i = 0; i < plan->env.n; i++)
                if (strncmp(plan->env.p[i], name, n) == 0 && plan->env.p[i][n] == '=')
                        return plan->env.p[i] + n + 1;
        return NULL;
}

/* A script without an interpreter line is the shell's, as execvp has it. */
static void exec_one(const char *path, char **argv, char **env) {
        execve(path, argv, env);
        if (errno != ENOEXEC)
                return;

        char *shell_argv[64] = { (char *)"sh", (char *)path };
        size_t n = 0;
        while (argv[n])
                n++;

        if (n > 60) {
                errno = E2BIG;
                return;
        }

        for (size_t i = 1; i <= n; i++)
                shell_argv[i + 1] = argv[i];

        execve("/bin/sh", shell_argv, env);
}

/* By the PATH that the command will have. An EACCES is reported only if no other directory has the program. */
static void exec_search(const struct plan *plan, char **argv, char **env) {
        const char *name = argv[0];
        if (strchr(name, '/')) {
                exec_one(name, argv, env);
                return;
        }

        const char *search = env_value(plan, "PATH");
        struct str rest = str_of(text_or(search, "/usr/local/bin:/usr/bin:/bin")), part;
        int seen = ENOENT;

        while (str_split(&rest, ':', &part)) {
                char path[PATH_MAX];
                int n = snprintf(path, sizeof path, "%.*s/%s", STR_FMT(part.n ? part : STR(".")), name);
                if (n < 0 || (size_t)n >= sizeof path)
                        continue;

                exec_one(path, argv, env);

                if (errno == EACCES)
                        seen = EACCES;
                else if (errno != ENOENT && errno != ENOTDIR && errno != ELOOP)
                        return;
        }

        errno = seen;
}

/* Its own process group: the terminal's signals go to it alone, and init and the supervisor stay out of the way. */
static int join_terminal(struct command *command) {
        if (setpgid(0, 0) < 0)
                return -1;
        if (command->terminal >= 0 && tcsetpgrp(command->terminal, getpid()) < 0 && errno != ENOTTY)
                return -1;
        return 0;
}

static void reset_signals(const sigset_t *mask) {
        for (int s = 1; s < NSIG; s++)
                if (s != SIGKILL && s != SIGSTOP)
                        signal(s, SIG_DFL);
        sigprocmask(SIG_SETMASK, mask, NULL);
}

int command_enter_landlock(const struct command *command) {
        if (command->landlock >= 0)
                return (int)syscall(SYS_landlock_restrict_self, command->landlock, 0);

        return 0;
}

/* Below the broker's domain: what changes files in place of the command must be able to look at it. */
static int enter_landlock_own(const struct command *command, struct err *err) {
        if (command->landlock_own >= 0 && syscall(SYS_landlock_restrict_self, command->landlock_own, 0) < 0)
                return err_errno(err, "landlock: restrict changes");
        return 0;
}

/* The notify descriptor lands where the keeper finds it; from then on the descriptors are the command's own. */
static int watch_calls(struct command *command, struct err *err) {
        struct broker_filter filter = broker_filter_of(command->plan);
        int r = confine_capabilities(0, err);
        if (r == 0)
                r = broker_filter_load(&filter, &command->notify, err);
        if (r == 0 && filter.writes)
                r = enter_landlock_own(command, err);
        if (r == 0 && unshare(CLONE_FILES) < 0)
                r = err_errno(err, "start the command: descriptors");

        return r;
}

static int start_filters(struct command *command, struct err *err) {
        int r = check_inherited(err);

        if (r < 0)
                return r;

        if (command->plan->flags & PLAN_BROKER) {
                r = broker_start(command->plan, command->events, command->record, err);
                if (r < 0)
                        return r;

                return enter_landlock_own(command, err);
        }

        if (command->watcher >= 0)
                return watcher_enter(command->watcher, err);

        if (command->kept)
                return watch_calls(command, err);

        return 0;
}

static int command_main(void *argument) {
        struct command *command = argument;
        struct err err = { 0 };

        if (chdir(command->plan->cwd) < 0)
                command_fail(command, "working directory");
        else if (join_terminal(command) < 0)
                command_fail(command, "process group");
        else if (!command->kept && command_enter_landlock(command) < 0)
                command_fail(command, "landlock: restrict");
        /* The limits are the command's: the broker, which is started from here, must not starve under them. */
        else if (start_filters(command, &err) < 0 || confine_limits(command->plan, &err) < 0) {
                command->error = err.code;
                snprintf(command->text, sizeof command->text, "%s", err.text);
        } else if (fd_close_from(3) < 0)
                command_fail(command, "close descriptors");
        else {
                reset_signals(command->mask);
                exec_search(command->plan, (char **)command->plan->argv.p, (char **)command->plan->env.p);
                command->not_run = true;
                command_fail(command, command->plan->argv.p[0]);
        }

        return 127;
}

pid_t command_start(struct command *command) {
        static _Alignas(16) char stack[STACK_BYTES];
        pid_t pid = clone(command_main, stack + sizeof stack,
                          CLONE_VM | CLONE_VFORK | SIGCHLD | (command->kept ? CLONE_FILES : 0), command);
        if (pid < 0)
                return -errno;

        return pid;
}
