/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/darwin/darwin_job.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/files/tree.h"
#include "base/random.h"
#include "sandbox/darwin/darwin_run.h"
#include "sandbox/darwin/os.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CODE_SIGNALLED = 128 };

static volatile int end_wanted;

static void want_end(int number) {
        (void)number;
        end_wanted = 1;
}

char *darwin_program(const char *name) {
        const char *path = getenv("PATH");
        struct str rest = str_of(text_or(path, "/usr/bin:/bin")), folder;

        if (strchr(name, '/'))
                return str_dup(str_of(name));
        while (str_split(&rest, ':', &folder)) {
                cleanup(free_ptr) char *file = str_format("%.*s/%s", STR_FMT(folder), name);

                if (file && access(file, X_OK) == 0)
                        return take_ptr(&file);
        }
        return NULL;
}

static int make_places(struct darwin_job *job, struct err *err) {
        cleanup(free_ptr) char *temporary = os_temporary();

        if (!job->id[0])
                random_id(job->id, sizeof job->id);
        if (!temporary)
                return err_set(err, ENOENT, "the directory for temporary files is not there");

        job->tmpdir = str_format("%s/bailey-%s", temporary, job->id);
        if (!job->tmpdir)
                return err_memory(err);
        if (mkdir(job->tmpdir, 0700) < 0) {
                int r = err_errno(err, "cannot make a directory below %s", temporary);
                free(take_ptr(&job->tmpdir)); /* it is not ours to remove */
                return r;
        }

        if (job->real_home)
                return 0;
        job->own_home = job->kept_home ? str_dup(str_of(job->kept_home)) : str_format("%s/home", job->tmpdir);
        if (!job->own_home)
                return err_memory(err);
        if (job->kept_home)
                return 0;
        return mkdir(job->own_home, 0700) < 0 ? err_errno(err, "cannot make a home") : 0;
}

int darwin_job_prepare(struct darwin_job *job, struct err *err) {
        int r = make_places(job, err);
        if (r < 0)
                return r;
        r = path_rules_compile(job->policy, &job->rules, err);
        if (r < 0)
                return r;

        const struct seatbelt_host host = { .home = job->policy->home,
                                            .own_home = job->own_home,
                                            .tmpdir = job->tmpdir,
                                            .case_sensitive = os_tells_case(job->policy->workspace),
                                            .http_port = job->port,
                                            .socks_port = job->socks_port,
                                            .tag = job->id };
        const struct macos_request request = { .policy = job->policy,
                                               .rules = job->rules,
                                               .host = &host,
                                               .environment = environ,
                                               .argv = job->argv,
                                               .cwd = text_or(job->cwd, job->policy->workspace),
                                               .id = job->id,
                                               .secret = job->secret,
                                               .vault = job->vault };
        return macos_launch_build(&request, &job->launch, err);
}

int darwin_job_run(struct darwin_job *job, int *ret_code, struct err *err) {
        struct run_darwin run = { .monitored = !job->quiet || job->listened,
                                  .quiet = job->quiet,
                                  .hooks = job->hooks,
                                  .end_wanted = &end_wanted };
        int status = 0;

        if (job->timeout_ns)
                run.deadline_ns = clock_ns() + job->timeout_ns;

        (void)signal(SIGTERM, want_end);
        (void)signal(SIGHUP, want_end);

        int r = run_darwin(job->launch, &run, &status, err);
        job->timed_out = run.timed_out;
        job->left = run.left;
        job->signalled = r == 0 && WIFSIGNALED(status);
        if (r == 0)
                *ret_code = WIFSIGNALED(status) ? CODE_SIGNALLED + WTERMSIG(status) : WEXITSTATUS(status);
        return r;
}

/* The command may have left anything there: no link is followed. */
static void remove_places(char *tmpdir) {
        char *slash = strrchr(tmpdir, '/');

        *slash = '\0';
        cleanup(close_fd) int above = open(tmpdir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        *slash = '/';
        if (above >= 0)
                (void)tree_remove(above, slash + 1);
}

void darwin_job_done(struct darwin_job *job) {
        if (job->tmpdir)
                remove_places(job->tmpdir);

        macos_launch_free(take_ptr(&job->launch));
        path_rules_free(take_ptr(&job->rules));
        free(take_ptr(&job->own_home));
        free(take_ptr(&job->tmpdir));
}
