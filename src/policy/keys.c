/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/keys.h"

struct str key_component(const char *key, struct str prefix) {
        struct str s = str_of(key);
        if (!key || !str_starts(s, prefix))
                return str_n(NULL, 0);
        s = str_skip(s, prefix.n);
        ptrdiff_t dot = str_find(s, '.');
        return dot < 0 ? s : str_first(s, (size_t)dot);
}

bool key_is_section(const char *key) {
        size_t n = strlen(key);
        for (size_t i = 0; i < POLICY_KEYS; i++)
                if (key_at(i) && strncmp(key_at(i), key, n) == 0 && key_at(i)[n] == '.')
                        return true;
        return false;
}
