/* SPDX-License-Identifier: Apache-2.0 */
#include "roles/generation.h"

#include <errno.h>
#include <stdlib.h>

void generation_done(struct generation *p) {
        snapshot_close(p->snapshot);
        free(p->bytes);
        *p = (struct generation){ 0 };
}

int generation_open(struct generation *ret, const void *bytes, size_t n, uint32_t number, struct err *e) {
        struct generation p = { .number = number, .n = n, .bytes = malloc(n ? n : 1) };
        if (!p.bytes)
                return err_set(e, ENOMEM, "no memory for the policy");
        memcpy(p.bytes, bytes, n);
        int r = snapshot_open(p.bytes, n, &p.snapshot, e);
        if (r < 0) {
                generation_done(&p);
                return r;
        }
        *ret = p;
        return 0;
}
