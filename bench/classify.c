/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one judgement of a command costs: parsing, unwrapping and the rules. Prints a table, and JSON with --json.
 * Target: at most 50 us for a command of 200 bytes. With --once only that one, 400 times: for a tool that counts
 * instructions.
 */
#include "shell/classify.h"
#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { ROUNDS = 9, CALLS = 400 };

static const struct {
        const char *name, *command;
} samples[] = {
        { "plain", "git status --short" },
        { "bytes_200",
          "cd /srv/project && env NODE_ENV=test timeout 300 bash -c 'npm run lint && npm test -- --ci' 2>&1 | tee "
          "build.log | grep -E '(error|warning)' | sort | uniq -c | head -n 40; git diff --stat HEAD~1 -- src/ tests" },
        { "nested", "sudo env A=1 nohup xargs -n1 sh -c \"bash -c 'for f in $(ls); do rm -rf build/{a,b,c}; done'\"" },
};
enum { SAMPLES = sizeof samples / sizeof samples[0] };

static uint64_t cpu_ns(void) {
        struct timespec t;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
        return (uint64_t)t.tv_sec * NS_PER_SECOND + (uint64_t)t.tv_nsec;
}

static double run_once(const char *command) {
        uint64_t start = cpu_ns();
        for (int i = 0; i < CALLS; i++) {
                struct sh_verdict v = { 0 };
                if (sh_classify(NULL, NULL, str_of(command), &v) < 0)
                        abort();
                sh_verdict_done(&v);
        }
        return (double)(cpu_ns() - start) / CALLS / 1000;
}

int main(int argc, char **argv) {
        if (argc > 1 && str_is(str_of(argv[1]), "--once")) {
                printf("%.1f us\n", run_once(samples[1].command));
                return 0;
        }

        bool json = argc > 1 && str_is(str_of(argv[1]), "--json");
        printf(json ? "{\"bench\":\"classify\"" : "classify, us per command:");
        for (size_t i = 0; i < SAMPLES; i++) {
                double best = run_once(samples[i].command);
                for (int k = 1; k < ROUNDS; k++) { /* the quietest round: the others were disturbed */
                        double us = run_once(samples[i].command);
                        best = us < best ? us : best;
                }
                printf(json ? ",\"%s_us\":%.1f" : " %s %.1f", samples[i].name, best);
        }
        printf(json ? "}\n" : "\n");
        return 0;
}
