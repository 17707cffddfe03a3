/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* One command on this Mac, from a policy to its exit status: the places it gets, its profile, the run, the end. */
#include "plan/macos/macos_launch.h"
#include "sandbox/darwin/darwin_run.h"

enum { DARWIN_ID_MAX = 17 };

struct darwin_job {
        struct policy *policy; /* with workspace and home, as the kernel spells them */
        char **argv;           /* the first is a path */
        bool real_home, quiet;
        bool listened;                 /* denials are looked for, quiet or not: on_denial() wants them */
        const char *cwd;               /* canonical; NULL: the workspace */
        const char *kept_home;         /* canonical; NULL: one is made, and ends with the run */
        uint16_t port, socks_port;     /* of a gateway on loopback; 0: none */
        const char *secret;            /* with a port */
        const struct env_input *vault; /* see macos_request; NULL: none */
        const struct run_hooks *hooks; /* NULL: none */
        uint64_t timeout_ns;           /* 0: none */
        char id[DARWIN_ID_MAX];        /* letters and digits; "": one is made */

        /* What it makes. */
        char *tmpdir, *own_home;
        struct path_rules *rules;
        struct macos_launch *launch;
        bool timed_out, left; /* see run_darwin */
        bool signalled;       /* a signal ended the command */
};

/* Makes the directories and the launch. */
int darwin_job_prepare(struct darwin_job *job, struct err *err);
/* Runs it. SIGTERM and SIGHUP end the command. What it exited with, or 128 and the signal. */
int darwin_job_run(struct darwin_job *job, int *ret_code, struct err *err);
/* Removes its directories, with what the command left there. */
void darwin_job_done(struct darwin_job *job);

/* Where a command's program is, since execve() looks nowhere. Heap text or NULL. */
char *darwin_program(const char *name);
