/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/marks.h"

#include "base/paths/path.h"
#include "policy/match/glob.h"

static bool mark_covers(const struct plan_mark *mark, const char *path) {
        struct str pattern = str_of(mark->pattern);

        return glob_match(pattern, str_of(path)) || (!glob_has_magic(pattern) && path_is_within(path, mark->pattern));
}

uint32_t plan_marks_of(const struct plan *plan, const char *path) {
        uint32_t found = 0;

        for (size_t i = 0; path[0] == '/' && i < plan->marks.n; i++) {
                const struct plan_mark *mark = &plan->marks.p[i];

                if (!(found >> mark->ratchet & 1) && mark_covers(mark, path))
                        found |= UINT32_C(1) << mark->ratchet;
        }

        return found;
}

bool plan_asks_about(const struct plan *plan, const char *path) {
        for (size_t i = 0; path[0] == '/' && i < plan->asks.n; i++)
                if (path_is_within(path, plan->asks.p[i]))
                        return true;
        return false;
}
