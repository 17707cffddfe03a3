/* SPDX-License-Identifier: Apache-2.0 */
/*
 * guard-checks N: judges N commands, as `bailey check` and the library do. Its instructions are counted from outside.
 */
#include "shell/classify.h"

#include "base/cleanup.h"

#include <stdio.h>
#include <stdlib.h>

static const char *const commands[] = {
        "git status --short",
        "cd /srv/project && env NODE_ENV=test timeout 300 bash -c 'npm run lint && npm test -- --ci' 2>&1 | tee out",
        "sudo env A=1 nohup xargs -n1 sh -c \"bash -c 'for f in $(ls); do rm -rf build/{a,b,c}; done'\"",
        "grep -E '(error|warning)' build.log | sort | uniq -c | head -n 40; git diff --stat HEAD~1 -- src/ tests",
};

int main(int argc, char **argv) {
        unsigned long n = argc == 2 ? strtoul(argv[1], NULL, 10) : 0;
        size_t judged[SH_FORBIDDEN + 1] = { 0 };
        for (unsigned long i = 0; i < n; i++) {
                cleanup(sh_verdict_done) struct sh_verdict v = { 0 };
                if (sh_classify(NULL, NULL, str_of(commands[i % (sizeof commands / sizeof *commands)]), &v) < 0)
                        return 1;
                judged[v.decision]++;
        }
        printf("%zu allow, %zu sandboxed, %zu escalated, %zu forbidden\n", judged[SH_ALLOW], judged[SH_SANDBOXED],
               judged[SH_ESCALATED], judged[SH_FORBIDDEN]);
        return 0;
}
