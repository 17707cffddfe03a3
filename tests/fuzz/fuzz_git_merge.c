/* SPDX-License-Identifier: Apache-2.0 */
/* Base, inside and host with a NUL between them. What git runs is in the result only where the host has it; a copy that
 * is as it was changes nothing; the result is a configuration. */
#include "fuzz.h"
#include "policy/git/git_merge.h"

struct sought {
        const struct gitconfig_setting *setting;
        bool found;
};

static int compare(const struct gitconfig_setting *setting, void *context) {
        struct sought *sought = context;
        sought->found |= str_eq(setting->section, sought->setting->section) &&
                         str_eq(setting->subsection, sought->setting->subsection) &&
                         str_eq(setting->key, sought->setting->key) && str_eq(setting->value, sought->setting->value);
        return 0;
}

static int check_setting(const struct gitconfig_setting *setting, void *context) {
        const struct git_merge *merge = context;
        struct sought sought = { .setting = setting };

        if (gitconfig_judge(setting) == GITCONFIG_OTHER && git_harmless(setting, GIT_CARRIED))
                return 0;
        (void)gitconfig_read(merge->host, compare, &sought, NULL);
        FUZZ_CHECK(sought.found);
        return 0;
}

static bool reach_all(struct str host, uint16_t port, void *context) {
        (void)context;
        FUZZ_CHECK(host.n > 0 && host.p[0] != '-' && port > 0);
        return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct str rest = str_n(data, size);
        struct git_merge merge = { .may_reach = reach_all };
        struct buf text = BUF(4 << 20);
        git_lefts left = { 0 };
        bool changed = false;

        if (size > 4096 || !str_split(&rest, '\0', &merge.base) || !str_split(&rest, '\0', &merge.inside))
                return 0;
        merge.host = rest;
        if (git_merge(&merge, &text, &changed, &left) == 0) {
                FUZZ_CHECK(gitconfig_read(buf_str(&text), check_setting, &merge, NULL) == 0);
                FUZZ_CHECK(!str_eq(merge.base, merge.inside) || (!changed && left.n == 0));
        }
        buf_done(&text);
        git_lefts_done(&left);
        return 0;
}
