/* SPDX-License-Identifier: Apache-2.0 */
#include "bridge/lfs_batch.h"

#include "base/cleanup.h"
#include "conf/json_walk.h"

#include <errno.h>

enum { OID_HEX = 64, OBJECTS_MAX = 10000 };

struct reading {
        struct lfs_batch *batch;
        unsigned operations, refs;
};

/* "/objects/12/oid": the number is skipped, the rest is left. */
static bool take_index(struct str *pointer) {
        size_t n = 0;

        while (n < pointer->n && ascii_is_digit(pointer->p[n]))
                n++;
        *pointer = str_skip(*pointer, n);
        return n > 0;
}

static int take_operation(struct reading *reading, const struct json_scalar *scalar) {
        if (reading->operations++ > 0 || !scalar->is_string)
                return -EBADMSG;
        if (str_is(scalar->raw, "\"upload\""))
                reading->batch->upload = true;
        else if (!str_is(scalar->raw, "\"download\""))
                return -EBADMSG;
        return 0;
}

static int take_ref(struct reading *reading, const struct json_scalar *scalar) {
        cleanup(buf_done) struct buf name = BUF(GIT_REF_MAX);

        if (reading->refs++ > 0 || !scalar->is_string || json_scalar_text(scalar, &name) < 0)
                return -EBADMSG;
        if (!git_ref_is_valid(buf_str(&name)))
                return -EBADMSG;

        memcpy(reading->batch->ref, name.p, name.n);
        reading->batch->ref_n = name.n;

        return 0;
}

static int take_object(struct reading *reading, struct str pointer, const struct json_scalar *scalar) {
        if (!take_index(&pointer))
                return -EBADMSG;
        if (str_is(pointer, "/size")) {
                if (scalar->is_string)
                        return -EBADMSG;
                return 0;
        }
        if (!str_is(pointer, "/oid") || !scalar->is_string || scalar->raw.n != OID_HEX + 2)
                return -EBADMSG;

        for (size_t i = 1; i <= OID_HEX; i++)
                if (ascii_hex(scalar->raw.p[i]) < 0)
                        return -EBADMSG;

        if (++reading->batch->n_objects > OBJECTS_MAX)
                return -EBADMSG;

        return 0;
}

static int batch_visit(void *arg, const struct json_scalar *scalar) {
        static const struct str objects = STR("/objects/"), transfers = STR("/transfers/");
        struct reading *reading = arg;
        struct str pointer = scalar->pointer;

        if (str_is(pointer, "/operation"))
                return take_operation(reading, scalar);
        if (str_is(pointer, "/ref/name"))
                return take_ref(reading, scalar);
        if (str_is(pointer, "/ref") && str_is(scalar->raw, "null"))
                return 0;
        if (str_starts(pointer, objects))
                return take_object(reading, str_skip(pointer, objects.n), scalar);

        if (str_starts(pointer, transfers)) {
                pointer = str_skip(pointer, transfers.n);
                if (take_index(&pointer) && pointer.n == 0 && scalar->is_string)
                        return 0;

                return -EBADMSG;
        }

        if (!str_is(pointer, "/hash_algo"))
                return -EBADMSG;

        return 0;
}

int lfs_batch_read(struct str body, struct lfs_batch *ret) {
        struct lfs_batch batch = { 0 };
        struct reading reading = { .batch = &batch };
        struct str start = body;

        while (start.n > 0 && strchr(" \t\r\n", start.p[0]) && start.p[0] != '\0')
                start = str_skip(start, 1);

        if (body.n > LFS_BATCH_MAX || start.n == 0 || start.p[0] != '{')
                return -EBADMSG;

        int status = json_walk(body, batch_visit, &reading);
        if (status == -ENOMEM)
                return status;
        if (status < 0)
                return -EBADMSG;
        if (reading.operations != 1)
                return -EBADMSG;

        *ret = batch;
        return 0;
}
