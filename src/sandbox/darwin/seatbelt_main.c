/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bailey-seatbelt: the part of Bailey that exists for macOS. It makes a profile from the same rules as `bailey plan
 * --for macos` and runs a command under it. It reads no policy file and starts no gateway: without --proxy there is no
 * network. Never yet run on a Mac; contrib/macos/run tries it.
 *
 *     bailey-seatbelt probe
 *     bailey-seatbelt plan|run [--workspace DIR] [--mode MODE] [--home own|real] [--reads deny] [--read PATH]
 *                              [--write PATH] [--deny-read GLOB] [--deny-write GLOB] [--allow WORD]
 *                              [--proxy PORT:SECRET] [--quiet] -- COMMAND [ARG...]
 */
#include "base/cleanup.h"
#include "plan/macos/macos_launch.h"
#include "policy/macos.h"
#include "sandbox/darwin/darwin_job.h"
#include "sandbox/darwin/os.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { EXIT_OK = 0, EXIT_USAGE = 2, EXIT_SYSTEM = 125 };

struct job {
        struct policy policy;
        struct darwin_job run;
};

static int main_fail(const struct err *e) {
        (void)fprintf(stderr, "bailey-seatbelt: error: %s\n", err_text(e));
        return EXIT_SYSTEM;
}

static int print_usage(const char *what) {
        (void)fprintf(stderr, "bailey-seatbelt: %s; see the head of src/sandbox/darwin/seatbelt_main.c\n", what);
        return EXIT_USAGE;
}

static int add_text(origin_texts *list, const char *text, const char *origin) {
        const struct origin_text entry = { .text = str_dup(str_of(text)), .origin = str_dup(str_of(origin)) };

        return entry.text && entry.origin ? vec_push(list, entry) : -ENOMEM;
}

/* A path of the command line: absolute; globs stay as they are. */
static int add_path(origin_texts *list, const char *text, const char *origin) {
        cleanup(free_ptr) char *canonical = strpbrk(text, "*?[") ? NULL : os_canonical(text);

        return add_text(list, canonical ? canonical : text, origin);
}

static int take_proxy(struct job *job, const char *text) {
        const char *colon = strchr(text, ':');
        uint64_t port = 0;

        if (!colon || !str_to_u64(str_n(text, (size_t)(colon - text)), 65535, &port) || port == 0)
                return -EINVAL;
        job->run.port = (uint16_t)port;
        job->run.secret = colon + 1;
        return 0;
}

static int take_mode(struct policy *policy, const char *text) {
        static const char *const names[] = { "read-only", "workspace-write", "workspace-write-whitelist",
                                             "full-network" };

        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
                if (strcmp(names[i], text) == 0) {
                        policy->mode = (enum policy_mode)i;
                        return 0;
                }
        return -EINVAL;
}

static int take_option(struct job *job, const char *name, const char *value) {
        struct policy *p = &job->policy;

        if (strcmp(name, "--workspace") == 0)
                return (p->workspace = os_canonical(value)) ? 0 : -errno;
        if (strcmp(name, "--mode") == 0)
                return take_mode(p, value);
        if (strcmp(name, "--home") == 0) {
                job->run.real_home = strcmp(value, "real") == 0;
                return job->run.real_home || strcmp(value, "own") == 0 ? 0 : -EINVAL;
        }
        if (strcmp(name, "--reads") == 0) {
                p->filesystem.reads_denied = strcmp(value, "deny") == 0;
                return 0;
        }
        if (strcmp(name, "--read") == 0)
                return add_path(&p->filesystem.read, value, name);
        if (strcmp(name, "--write") == 0)
                return add_path(&p->filesystem.write, value, name);
        if (strcmp(name, "--deny-read") == 0)
                return add_path(&p->filesystem.deny_read, value, name);
        if (strcmp(name, "--deny-write") == 0)
                return add_path(&p->filesystem.deny_write, value, name);
        if (strcmp(name, "--allow") == 0)
                return macos_word(str_of(value)) ? add_text(&p->macos_allow, value, name) : -EINVAL;
        return strcmp(name, "--proxy") == 0 ? take_proxy(job, value) : -EINVAL;
}

/* The command's words, or NULL. */
static char **take_options(struct job *job, char **words) {
        while (*words && strcmp(*words, "--") != 0) {
                if (strcmp(*words, "--quiet") == 0) {
                        job->run.quiet = true;
                        words++;
                        continue;
                }
                if (!words[1] || take_option(job, words[0], words[1]) < 0)
                        return NULL;
                words += 2;
        }
        return *words && words[1] ? words + 1 : NULL;
}

/* What a policy file would say. */
static int settle_policy(struct job *job, struct err *e) {
        struct policy *p = &job->policy;

        p->home = os_canonical(getenv("HOME") ? getenv("HOME") : "/var/empty");
        if (!p->workspace)
                p->workspace = os_canonical(".");
        if (!p->home || !p->workspace)
                return err_set(e, ENOENT, "the home or the workspace is not there");

        p->home_inside = p->home;
        p->filesystem.home = (char *)(job->run.real_home ? "real" : "none");
        job->run.policy = p;
        return 0;
}

static const char *truth_word(bool holds) {
        return holds ? "true" : "false";
}

static int verb_probe(void) {
        char version[32], machine[32];
        cleanup(free_ptr) char *temporary = os_temporary();

        os_version(version, machine);
        printf(
            "{\"version\": \"%s\", \"machine\": \"%s\", \"confined\": %s, \"case_sensitive\": %s, \"temporary\": %s}\n",
            version, machine, truth_word(os_is_confined()), truth_word(os_tells_case("/Users")),
            truth_word(temporary != NULL));
        return EXIT_OK;
}

static int show_plan(const struct job *job, struct err *e) {
        cleanup(buf_done) struct buf out = BUF(16 << 20);

        if (macos_launch_text(job->run.launch, &out) < 0)
                return main_fail((err_memory(e), e));
        fwrite(out.p, 1, out.n, stdout);
        return EXIT_OK;
}

static int run_job(struct job *job, struct err *e) {
        int code = EXIT_SYSTEM;

        return darwin_job_run(&job->run, &code, e) < 0 ? main_fail(e) : code;
}

int main(int argc, char **argv) {
        struct job job = { .policy = { .mode = MODE_WORKSPACE_WRITE } };
        struct err e = { 0 };

        if (argc == 2 && strcmp(argv[1], "probe") == 0)
                return verb_probe();
        if (argc < 2 || (strcmp(argv[1], "plan") != 0 && strcmp(argv[1], "run") != 0))
                return print_usage("the verbs are probe, plan and run");
        char **words = take_options(&job, argv + 2);
        if (!words)
                return print_usage("an option or its value is wrong, or there is no command");
        words[0] = darwin_program(words[0]);
        if (!words[0])
                return print_usage("the command is not in PATH");

        int code;
        job.run.argv = words;
        if (settle_policy(&job, &e) < 0 || darwin_job_prepare(&job.run, &e) < 0)
                code = main_fail(&e);
        else if (strcmp(argv[1], "plan") == 0)
                code = show_plan(&job, &e);
        else
                code = run_job(&job, &e);
        darwin_job_done(&job.run);
        return code;
}
