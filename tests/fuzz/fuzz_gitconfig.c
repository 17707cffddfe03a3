/* SPDX-License-Identifier: Apache-2.0 */
/* Settings have small letters where git makes them small, and no key without a letter; words are never empty. */
#include "fuzz.h"
#include "policy/git/gitconfig.h"

static int check_setting(const struct gitconfig_setting *setting, void *context) {
        struct str rest = setting->value, word;
        (void)context;

        FUZZ_CHECK(setting->key.n > 0);
        for (size_t i = 0; i < setting->key.n; i++)
                FUZZ_CHECK(setting->key.p[i] < 'A' || setting->key.p[i] > 'Z');
        for (size_t i = 0; i < setting->section.n; i++)
                FUZZ_CHECK(setting->section.p[i] < 'A' || setting->section.p[i] > 'Z');
        (void)gitconfig_judge(setting);
        while (gitconfig_word(&rest, &word))
                FUZZ_CHECK(word.n > 0);
        return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct err err = { 0 };
        (void)gitconfig_read(str_n(data, size), check_setting, NULL, &err);
        return 0;
}
