/* SPDX-License-Identifier: Apache-2.0 */
#include "roles/generation.h"

#include <errno.h>
#include <stdlib.h>

void generation_done(struct generation *generation) {
        snapshot_close(generation->snapshot);
        free(generation->bytes);
        *generation = (struct generation){ 0 };
}

int generation_open(struct generation *ret, const void *bytes, size_t n, uint32_t number, struct err *err) {
        struct generation generation = { .number = number, .n = n, .bytes = malloc(n ? n : 1) };
        if (!generation.bytes)
                return err_set(err, ENOMEM, "no memory for the policy");

        memcpy(generation.bytes, bytes, n);
        int r = snapshot_open(generation.bytes, n, &generation.snapshot, err);
        if (r < 0) {
                generation_done(&generation);
                return r;
        }

        *ret = generation;
        return 0;
}
