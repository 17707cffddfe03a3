/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/policy.h"

#include <errno.h>
#include <stdlib.h>

int origin_texts_add(origin_texts *list, struct str text, const char *origin) {
        struct origin_text entry = { .text = str_dup(text), .origin = str_dup(str_of(origin)) };
        if (!entry.text || !entry.origin || vec_push(list, entry) < 0) {
                free(entry.text);
                free(entry.origin);
                return -ENOMEM;
        }
        return 0;
}

void origin_texts_done(origin_texts *list) {
        for (size_t i = 0; i < list->n; i++) {
                free(list->p[i].text);
                free(list->p[i].origin);
                free(list->p[i].reason);
        }
        vec_done(list);
}
