/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/wire/websocket.h"

#include "base/base64.h"
#include "base/secrets/digest.h"

#include <errno.h>

enum { LAST = 0x80, RESERVED = 0x70, MASKED = 0x80, SHORT_MAX = 125, SIZE_16 = 126, SIZE_64 = 127, HEAD_MAX = 14 };

static bool opcode_is_known(uint8_t opcode) {
        return opcode <= WEBSOCKET_BINARY || (opcode >= WEBSOCKET_CLOSE && opcode <= WEBSOCKET_PONG);
}

/* The length and the head's own; 0: not all here. */
static int read_length(const unsigned char *bytes, size_t n, uint64_t *ret, size_t *ret_head) {
        size_t more = 0;
        uint64_t length = bytes[1] & 0x7f;

        if (length == SIZE_16)
                more = 2;
        else if (length == SIZE_64)
                more = 8;
        if (n < 2 + more)
                return 0;
        if (more) {
                length = 0;
                for (size_t i = 0; i < more; i++)
                        length = length << 8 | bytes[2 + i];
                if (length <= (more == 2 ? (uint64_t)SHORT_MAX : (uint64_t)UINT16_MAX))
                        return -EBADMSG; /* a shorter form would do */
        }
        *ret = length;
        *ret_head = 2 + more;
        return 1;
}

int websocket_read(struct str in, size_t max, struct websocket_frame *ret, size_t *ret_used) {
        const unsigned char *bytes = (const unsigned char *)in.p;
        uint64_t length = 0;
        size_t head = 0;
        int r;

        if (in.n < 2)
                return 0;
        uint8_t opcode = bytes[0] & 0x0f;
        bool last = bytes[0] & LAST, control = opcode >= WEBSOCKET_CLOSE;
        if ((bytes[0] & RESERVED) || (bytes[1] & MASKED) || !opcode_is_known(opcode))
                return -EBADMSG;
        if (control && (!last || (bytes[1] & 0x7f) > SHORT_MAX))
                return -EBADMSG;

        r = read_length(bytes, in.n, &length, &head);
        if (r <= 0)
                return r;
        if (length > max)
                return -EMSGSIZE;
        if (in.n - head < length)
                return 0;
        *ret = (struct websocket_frame){ .opcode = opcode,
                                         .last = last,
                                         .payload = str_first(str_skip(in, head), (size_t)length) };
        *ret_used = head + (size_t)length;
        return 1;
}

int websocket_write(struct buf *out, enum websocket_opcode opcode, struct str payload, const unsigned char mask[4]) {
        unsigned char head[HEAD_MAX] = { (unsigned char)(LAST | opcode) };
        size_t n = 2;
        int r;

        if (payload.n <= SHORT_MAX) {
                head[1] = (unsigned char)(MASKED | payload.n);
        } else {
                size_t more = payload.n <= UINT16_MAX ? 2 : 8;

                head[1] = (unsigned char)(MASKED | (more == 2 ? SIZE_16 : SIZE_64));
                for (size_t i = 0; i < more; i++)
                        head[n++] = (unsigned char)((uint64_t)payload.n >> (8 * (more - 1 - i)));
        }
        memcpy(head + n, mask, 4);
        n += 4;
        r = buf_reserve(out, n + payload.n);
        if (r < 0)
                return r;

        (void)buf_append(out, str_n(head, n)); /* there is room for all of it */
        for (size_t i = 0; i < payload.n; i++)
                (void)buf_add_char(out, (char)((unsigned char)payload.p[i] ^ mask[i % 4]));
        return 0;
}

void websocket_key(const unsigned char random[16], char ret[static WEBSOCKET_KEY_MAX]) {
        base64_encode(str_n(random, 16), BASE64_STANDARD, ret);
        ret[WEBSOCKET_KEY_MAX - 1] = '\0';
}

void websocket_proof(const char *key, char ret[static WEBSOCKET_PROOF_MAX]) {
        const struct str pieces[] = { str_of(key), STR("258EAFA5-E914-47DA-95CA-C5AB0DC85B11") };
        unsigned char digest[DIGEST_SHA1_BYTES];

        digest_sha1(pieces, 2, digest);
        base64_encode(str_n(digest, sizeof digest), BASE64_STANDARD, ret);
        ret[WEBSOCKET_PROOF_MAX - 1] = '\0';
}
