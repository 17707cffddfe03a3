/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What libbailey costs: check (target: at most 50 us for a command of 200 bytes) and exec beside the same command run
 * by `bailey run` and by bwrap, alternating, medians and how far half of them are apart. Prints a table, and JSON with
 * --json.
 *
 *     bench_api BAILEY [--json]
 */
#include "base/clock.h"
#include "base/str.h"

#include <bailey/bailey.h>

#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

enum { LAUNCHES = 60, CHECKS = 400, ROUNDS = 9 };

static const char bytes_200[] =
    "cd /srv/project && env NODE_ENV=test timeout 300 bash -c 'npm run lint && npm test -- --ci' 2>&1 | tee "
    "build.log | grep -E '(error|warning)' | sort | uniq -c | head -n 40; git diff --stat HEAD~1 -- src/ tests";

/* As the lab's agent profile has it: bench/lab/launch.py. */
static const char *const by_bwrap[] = { "bwrap",
                                        "--ro-bind",
                                        "/",
                                        "/",
                                        "--dev",
                                        "/dev",
                                        "--proc",
                                        "/proc",
                                        "--tmpfs",
                                        "/tmp",
                                        "--unshare-all",
                                        "--new-session",
                                        "--die-with-parent",
                                        "true",
                                        NULL };

static _Noreturn void fail(const char *what, const struct bailey_error *e) {
        fprintf(stderr, "%s: %s\n", what, e ? e->message : "failed");
        exit(1);
}

static int by_value(const void *a, const void *b) {
        double x = *(const double *)a, y = *(const double *)b;
        return x < y ? -1 : x > y;
}

struct figure {
        double median, spread;
};

static struct figure figure_of(double *values, size_t n) {
        qsort(values, n, sizeof *values, by_value);
        double middle = values[n / 2];
        return (struct figure){ middle, middle > 0 ? (values[n * 3 / 4] - values[n / 4]) / middle : 0 };
}

static uint64_t cpu_ns(void) {
        struct timespec t;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
        return (uint64_t)t.tv_sec * NS_PER_SECOND + (uint64_t)t.tv_nsec;
}

/* CPU time of the quietest round: the others were disturbed. */
static double check_us(bailey_manager *m) {
        double best = 0;
        for (int round = 0; round < ROUNDS; round++) {
                uint64_t began = cpu_ns();
                for (int i = 0; i < CHECKS; i++) {
                        struct bailey_verdict v;
                        struct bailey_error e;
                        if (bailey_manager_check(m, bytes_200, &v, &e) != BAILEY_OK)
                                fail("check", &e);
                }
                double us = (double)(cpu_ns() - began) / CHECKS / 1000;
                best = round == 0 || us < best ? us : best;
        }
        return best;
}

static double exec_ms(bailey_manager *m) {
        static const char *const argv[] = { "true", NULL };
        struct bailey_error e;
        bailey_result *r = NULL;
        uint64_t began = clock_ns();
        if (bailey_manager_exec_args(m, argv, NULL, &r, &e) != BAILEY_OK)
                fail("exec", &e);
        bailey_result_free(r);
        return (double)(clock_ns() - began) / NS_PER_MS;
}

/* Less than 0 where it does not work. */
static double spawn_ms(const char *const *argv) {
        pid_t pid;
        int status;
        uint64_t began = clock_ns();
        if (posix_spawnp(&pid, argv[0], NULL, NULL, (char *const *)(uintptr_t)argv, environ) ||
            waitpid(pid, &status, 0) != pid || status)
                return -1;
        return (double)(clock_ns() - began) / NS_PER_MS;
}

int main(int argc, char **argv) {
        struct bailey_error e;
        bailey_config *config = NULL;
        bailey_manager *m = NULL;
        double exec[LAUNCHES], run[LAUNCHES], peer[LAUNCHES];
        char directory[] = "/var/tmp/bailey-bench-XXXXXX";
        bool json = argc > 2 && str_is(str_of(argv[2]), "--json");
        if (argc < 2 || !mkdtemp(directory) || chdir(directory) < 0)
                fail("usage: bench_api BAILEY [--json]", NULL);
        if (bailey_config_new(NULL, &config, &e) || bailey_config_executable(config, argv[1], &e) ||
            bailey_manager_new(config, &m, &e))
                fail("manager", &e);

        const char *const by_run[] = { argv[1], "run", "--", "true", NULL };
        for (int i = 0; i < LAUNCHES; i++) {
                exec[i] = exec_ms(m);
                run[i] = spawn_ms(by_run);
                peer[i] = spawn_ms(by_bwrap);
                if (run[i] < 0)
                        fail("bailey run", NULL);
        }

        double check = check_us(m);
        struct figure ours = figure_of(exec, LAUNCHES), launch = figure_of(run, LAUNCHES),
                      bwrap = figure_of(peer, LAUNCHES);
        bailey_manager_free(m);
        bailey_config_free(config);
        (void)!chdir("/");
        rmdir(directory);
        if (json)
                printf("{\"bench\":\"api\",\"check_200_us\":%.1f,\"exec_ms\":%.2f,\"exec_spread\":%.3f,\"run_ms\":%.2f,"
                       "\"run_spread\":%.3f,\"bwrap_ms\":%.2f,\"bwrap_spread\":%.3f,\"exec_over_run\":%.3f,"
                       "\"exec_over_bwrap\":%.3f}\n",
                       check, ours.median, ours.spread, launch.median, launch.spread, bwrap.median, bwrap.spread,
                       ours.median / launch.median, bwrap.median > 0 ? ours.median / bwrap.median : 0);
        else
                printf("check of 200 bytes %.1f us; exec %.2f ms, bailey run %.2f ms, bwrap %.2f ms\n", check,
                       ours.median, launch.median, bwrap.median);
        return 0;
}
