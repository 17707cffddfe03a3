/* SPDX-License-Identifier: Apache-2.0 */
#include "base/words.h"

#include "base/vec.h"

#include <errno.h>

int words_pack(char *const *words, struct buf *ret) {
        for (size_t i = 0; words[i]; i++) {
                int r = buf_append(ret, str_n(words[i], strlen(words[i]) + 1));
                if (r < 0)
                        return r;
        }

        return 0;
}

int words_unpack(struct str bytes, char ***ret, size_t *ret_n) {
        VEC(char *) words = { 0 };
        struct str word;

        if (bytes.n == 0 || bytes.p[bytes.n - 1] != '\0')
                return -EBADMSG;

        bytes.n--; /* without the last end there is one word for each part */
        while (str_split(&bytes, '\0', &word))
                if (vec_push(&words, (char *)(uintptr_t)word.p) < 0)
                        goto no_memory;
        if (vec_push(&words, NULL) < 0)
                goto no_memory;

        *ret = words.p;
        *ret_n = words.n - 1;
        return 0;

no_memory:
        vec_done(&words);
        return -ENOMEM;
}
