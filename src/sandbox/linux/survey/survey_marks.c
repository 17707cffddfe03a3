/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The broker judges canonical paths. A pattern whose fixed part leads through a link would never match one, so the
 * pattern with the links resolved at launch is added.
 */
#include "base/cleanup.h"
#include "policy/judge/ratchet.h"
#include "policy/match/glob.h"
#include "sandbox/linux/survey/survey_internal.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>

static int add_mark(struct plan_host *host, char **pattern, size_t ratchet) {
        const struct plan_mark mark = { .pattern = *pattern, .ratchet = (uint8_t)ratchet };

        if (!*pattern || vec_push(&host->marks, mark) < 0)
                return -ENOMEM;
        *pattern = NULL;
        return 0;
}

/* How much of it is names without magic: "/a/b" of a path that goes on with globs. */
static size_t fixed_length(const char *pattern) {
        size_t n = 0;

        for (const char *slash = pattern; slash; slash = strchr(slash + 1, '/')) {
                const char *end = strchr(slash + 1, '/');
                size_t part = end ? (size_t)(end - slash) : strlen(slash);

                if (glob_has_magic(str_n(slash, part)))
                        break;

                n = (size_t)(slash - pattern) + part;
        }

        return n;
}

/* The longest part that exists, resolved, and the rest as it was. NULL where that is the same. */
static int resolve_fixed(const char *pattern, char **ret) {
        size_t n = fixed_length(pattern);

        *ret = NULL;

        while (n > 1) {
                char front[PATH_MAX];

                if (n >= sizeof front)
                        return 0;

                memcpy(front, pattern, n);
                front[n] = '\0';

                cleanup(free_ptr) char *real = realpath(front, NULL);
                if (real) {
                        if (strcmp(real, front) != 0 && !(*ret = str_format("%s%s", real, pattern + n)))
                                return -ENOMEM;
                        return 0;
                }

                if (errno == ENOMEM)
                        return -ENOMEM;

                while (n > 0 && pattern[n - 1] != '/')
                        n--;

                n = n > 0 ? n - 1 : 0;
        }

        return 0;
}

static int add_ask(struct plan_host *host, char **path) {
        if (!*path || vec_push(&host->asks, *path) < 0)
                return -ENOMEM;
        *path = NULL;
        return 0;
}

static int survey_asks(const struct policy *policy, struct plan_host *host) {
        for (size_t i = 0; i < policy->filesystem.ask.n; i++) {
                cleanup(free_ptr) char *path = str_dup(str_of(policy->filesystem.ask.p[i].text)), *resolved = NULL;

                if (!path || resolve_fixed(path, &resolved) < 0 || add_ask(host, &path) < 0 ||
                    (resolved && add_ask(host, &resolved) < 0))
                        return -ENOMEM;
        }

        return 0;
}

int survey_marks(const struct policy *policy, struct plan_host *host, struct err *err) {
        for (size_t i = 0; i < policy->ratchet.n; i++)
                for (size_t k = 0; k < policy->ratchet.p[i].reads.n; k++) {
                        cleanup(free_ptr) char *pattern = ratchet_pattern(policy, policy->ratchet.p[i].reads.p[k].text);
                        cleanup(free_ptr) char *resolved = NULL;

                        if (!pattern || resolve_fixed(pattern, &resolved) < 0 || add_mark(host, &pattern, i) < 0)
                                return err_memory(err);
                        if (resolved && add_mark(host, &resolved, i) < 0)
                                return err_memory(err);
                }

        if (survey_asks(policy, host) < 0)
                return err_memory(err);

        return 0;
}
