/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/linux/broker/broker.h"

#include "policy/match/glob.h"

const char *broker_denies(const struct path_rules *rules, const char *path, bool write) {
        if (!rules || path[0] != '/')
                return NULL;
        const struct path_rule *rule = path_rules_refusing_glob(rules, path, write);
        return rule ? rule->pattern : NULL;
}

/*
 * A glob concerns a directory if some prefix of the glob matches it. If that prefix ends in a name (every directory
 * called secrets, for a glob about files in such directories), renaming it would let the files below slip out of the
 * glob's reach, so it stays. If it ends in ** after a fixed path (anything below /w), the directory may move as long as
 * it stays below that place. A leading ** alone reaches everywhere: no move escapes it.
 */
bool broker_move_escapes(const char *glob, const char *from, const char *to) {
        char front[4096];
        size_t n = strlen(glob);
        if (n >= sizeof front)
                return true;

        memcpy(front, glob, n + 1);

        for (char *slash; (slash = strrchr(front, '/')) && slash != front;) {
                *slash = '\0';
                if (strcmp(front, "/**") == 0 || !glob_match(str_of(front), str_of(from)))
                        continue;

                size_t length = (size_t)(slash - front);
                bool ends_in_stars = length >= 3 && memcmp(slash - 3, "/**", 3) == 0;
                if (!ends_in_stars || !glob_match(str_of(front), str_of(to)))
                        return true;
        }

        return false;
}

const char *broker_denies_move(const struct path_rules *rules, const char *from, const char *to) {
        const char *glob = broker_denies(rules, from, true);
        if (glob || !rules || from[0] != '/')
                return glob;

        for (size_t i = 0; i < path_rules_count(rules); i++) {
                const struct path_rule *rule = path_rules_at(rules, i);
                if (rule->is_glob && broker_move_escapes(rule->pattern, from, to))
                        return rule->pattern;
        }

        return NULL;
}
