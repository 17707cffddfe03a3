/* SPDX-License-Identifier: Apache-2.0 */
#include "api/plain.h"

#include "api/api_report.h"
#include "api/child.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/wait.h>

enum { CANNOT_EXECUTE = 126, NOT_FOUND = 127, TICK_MS = 50, PATIENCE_MS = 5000 };

struct plain {
        struct child child;
        bailey_result *result;
        const int *stop;
        uint64_t deadline_ns; /* 0: none */
};

/* Served until the command has ended; what it left behind in its session is killed then, as a sandbox would. */
static enum bailey_code plain_serve(struct plain *plain) {
        struct child *child = &plain->child;
        bool ended = false;

        while (child->out >= 0 || child->err >= 0) {
                struct pollfd fds[] = {
                        { .fd = child->out, .events = POLLIN },     { .fd = child->err, .events = POLLIN },
                        { .fd = child->pidfd, .events = POLLIN },   { .fd = plain->stop[0], .events = POLLIN },
                        { .fd = plain->stop[1], .events = POLLIN },
                };
                int wait = plain->deadline_ns ? TICK_MS : -1;
                if (ended)
                        wait = 0; /* what it wrote last */

                if (poll(fds, sizeof fds / sizeof *fds, wait) < 0)
                        continue;
                if (fds[3].revents || fds[4].revents)
                        return BAILEY_E_CANCELLED;
                if (plain->deadline_ns && clock_ns() >= plain->deadline_ns)
                        return BAILEY_E_TIMEOUT;

                bool read = fds[0].revents || fds[1].revents;
                if (fds[0].revents && !output_read(&plain->result->out, child->out))
                        close_fd(&child->out);
                if (fds[1].revents && !output_read(&plain->result->err, child->err))
                        close_fd(&child->err);
                if (ended && !read)
                        return BAILEY_OK; /* the rest is held open by what it left behind */

                ended = fds[2].revents != 0;
        }

        return BAILEY_OK;
}

/* The program's environment with the call's variables over it. NULL-terminated; the texts are borrowed. */
static char **make_env(char *const *host, const supervise_texts *variables) {
        size_t n = 0;
        while (host[n])
                n++;

        char **env = calloc(n + variables->n + 1, sizeof *env);
        size_t used = 0;

        for (size_t i = 0; env && i < n; i++) {
                bool replaced = false;
                for (size_t k = 0; k < variables->n && !replaced; k++) {
                        size_t name = strcspn(variables->p[k], "=") + 1;
                        replaced = strncmp(host[i], variables->p[k], name) == 0;
                }

                if (!replaced)
                        env[used++] = host[i];
        }

        for (size_t k = 0; env && k < variables->n; k++)
                env[used++] = variables->p[k];

        return env;
}

static int plain_conclude(struct plain *plain, enum bailey_code ended, struct bailey_error *error) {
        bailey_result *r = plain->result;

        child_kill(&plain->child, true);
        int status = child_wait(&plain->child, PATIENCE_MS);
        child_done(&plain->child);

        if (ended == BAILEY_E_TIMEOUT) {
                r->exit_code = -1;
                if (result_finish(r) < 0)
                        return report_memory(error);

                return report(error, ended, "the command ran longer than its time limit and was ended");
        }

        if (ended == BAILEY_E_CANCELLED)
                return report(error, ended, "the command was cancelled and ended");
        if (status == -1)
                return report(error, BAILEY_E_SYSTEM, "another part of this program took the command's exit status");

        r->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
        r->exit_code = WIFSIGNALED(status) ? -1 : WEXITSTATUS(status);

        if (result_finish(r) < 0)
                return report_memory(error);

        return BAILEY_OK;
}

int plain_child(const struct plain_call *call, int *ret_errno, struct bailey_error *error) {
        struct plain plain = { .child = CHILD_NONE,
                               .result = call->result,
                               .stop = call->stop,
                               .deadline_ns = call->timeout_ns ? clock_ns() + call->timeout_ns : 0 };
        int r = child_start(call->plan, &plain.child, ret_errno, error);

        if (r == BAILEY_OK)
                return plain_conclude(&plain, plain_serve(&plain), error);

        return r;
}

int plain_run(bailey_manager *manager, const struct state *state, const struct exec_call *call, bailey_result *result,
              struct bailey_error *error) {
        cleanup(free_ptr) char *directory = NULL;
        cleanup(free_ptr) char **env = NULL;
        cleanup(call_settings_done) struct call_settings settings = { 0 };
        int r = exec_directory(state, call->options, &directory, error);

        if (r == BAILEY_OK)
                r = state_call(state, call->options, &settings, error);
        if (r != BAILEY_OK)
                return r;

        env = make_env(manager->env, &settings.variables);
        if (!env)
                return report_memory(error);

        snprintf(result->notice, sizeof result->notice, "%s", manager->notice);
        const struct child_plan plan = { .path = call->argv[0],
                                         .argv = (char *const *)(uintptr_t)call->argv,
                                         .envp = env,
                                         .directory = directory,
                                         .input = call->options ? call->options->input : -1,
                                         .capture = true,
                                         .search = true };
        const struct plain_call plain = {
                .plan = &plan,
                .result = result,
                .stop = { call->options && call->options->cancel ? call->options->cancel->fd : -1, manager->closing },
                .timeout_ns = settings.timeout_ns
        };
        int started = 0;
        r = plain_child(&plain, &started, error);
        if (r != BAILEY_OK && (started == ENOENT || started == EACCES || started == ENOEXEC)) {
                result->exit_code = started == ENOENT ? NOT_FOUND : CANNOT_EXECUTE;
                if (result_finish(result) < 0)
                        return report_memory(error);

                return BAILEY_OK;
        }

        return r;
}
