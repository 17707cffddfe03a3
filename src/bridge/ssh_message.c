/* SPDX-License-Identifier: Apache-2.0 */
#include "bridge/ssh_message.h"

#include <errno.h>

static unsigned byte_at(struct str bytes, size_t at) {
        return (unsigned char)bytes.p[at];
}

/* Every word ends with a NUL, the last one at the end of all. */
static int message_split(struct str text, unsigned count, struct ssh_message *ret) {
        for (unsigned i = 0; i < count; i++) {
                ptrdiff_t end = str_find(text, '\0');
                if (end < 0)
                        return -EBADMSG;

                ret->words[ret->n++] = str_first(text, (size_t)end);
                text = str_skip(text, (size_t)end + 1);
        }

        if (text.n != 0)
                return -EBADMSG;

        return 0;
}

int ssh_message_read(struct str bytes, struct ssh_message *ret) {
        const struct str mark = STR("BSH1");
        int r;

        *ret = (struct ssh_message){ 0 };
        if (!str_eq(str_first(bytes, mark.n), str_first(mark, bytes.n)))
                return -EBADMSG;
        if (bytes.n < SSH_MESSAGE_HEAD)
                return 0;

        unsigned kind = byte_at(bytes, 4), count = byte_at(bytes, 5);
        size_t n = byte_at(bytes, 6) | byte_at(bytes, 7) << 8;

        if ((kind != SSH_MESSAGE_SSH && kind != SSH_MESSAGE_GPG) || count > SSH_MESSAGE_WORDS ||
            n > SSH_MESSAGE_TEXT_MAX)
                return -EBADMSG;

        if (bytes.n < SSH_MESSAGE_HEAD + n)
                return 0;

        ret->kind = (enum ssh_message_kind)kind;
        ret->bytes = SSH_MESSAGE_HEAD + n;
        r = message_split(str_first(str_skip(bytes, SSH_MESSAGE_HEAD), n), count, ret);
        if (r < 0)
                return r;

        return 1;
}

void ssh_frame_head(enum ssh_frame_kind kind, size_t n, unsigned char ret[static SSH_FRAME_HEAD]) {
        const unsigned char head[SSH_FRAME_HEAD] = { (unsigned char)kind,
                                                     0,
                                                     0,
                                                     0,
                                                     (unsigned char)(n & 0xff),
                                                     (unsigned char)(n >> 8 & 0xff),
                                                     (unsigned char)(n >> 16 & 0xff),
                                                     (unsigned char)(n >> 24 & 0xff) };

        memcpy(ret, head, sizeof head);
}
