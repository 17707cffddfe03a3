/* SPDX-License-Identifier: Apache-2.0 */
#include "ipc/courier_messages.h"

#include <errno.h>

struct head {
        uint32_t kind, flags, status, retry_s;
        uint64_t id, limit_ms;
        uint32_t sizes[COURIER_PARTS];
};

int courier_write(struct buf *out, const struct courier_message *message) {
        struct head head = { .kind = message->kind,
                             .flags = message->flags,
                             .status = message->status,
                             .retry_s = message->retry_s,
                             .id = message->id,
                             .limit_ms = message->limit_ms };
        size_t total = sizeof head;
        int r;

        for (size_t i = 0; i < COURIER_PARTS; i++) {
                if (message->parts[i].n > COURIER_PART_MAX)
                        return -EMSGSIZE;
                head.sizes[i] = (uint32_t)message->parts[i].n;
                total += message->parts[i].n;
        }
        r = buf_reserve(out, total);
        if (r < 0)
                return r;

        (void)buf_append(out, str_n(&head, sizeof head)); /* there is room for all of it */
        for (size_t i = 0; i < COURIER_PARTS; i++)
                (void)buf_append(out, message->parts[i]);
        return 0;
}

int courier_read(struct str in, struct courier_message *ret, size_t *ret_used) {
        struct head head;
        size_t total = sizeof head;

        if (in.n < sizeof head)
                return 0;
        memcpy(&head, in.p, sizeof head);
        if (head.kind < COURIER_REQUEST || head.kind >= COURIER_KINDS)
                return -EBADMSG;
        for (size_t i = 0; i < COURIER_PARTS; i++) {
                if (head.sizes[i] > COURIER_PART_MAX)
                        return -EBADMSG;
                total += head.sizes[i];
        }
        if (in.n < total)
                return 0;

        *ret = (struct courier_message){ .kind = head.kind,
                                         .flags = head.flags,
                                         .status = head.status,
                                         .retry_s = head.retry_s,
                                         .id = head.id,
                                         .limit_ms = head.limit_ms };
        in = str_skip(in, sizeof head);
        for (size_t i = 0; i < COURIER_PARTS; i++) {
                ret->parts[i] = str_first(in, head.sizes[i]);
                in = str_skip(in, head.sizes[i]);
        }
        *ret_used = total;
        return 1;
}
