/* SPDX-License-Identifier: Apache-2.0 */
/* No guest runs on macOS: a word names a run by the beginning of its id. */
#include "verbs/sandboxes/sandbox_names.h"

#include "base/str.h"

int names_run(const char *word, char **ret, struct err *err) {
        *ret = word ? str_dup(str_of(word)) : NULL;
        return word && !*ret ? err_memory(err) : 0;
}
