/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/creds/sigv4_stream.h"

#include "base/cleanup.h"
#include "base/secrets/secret.h"

#include <stdio.h>

#include <errno.h>

enum state { AT_SIZE, IN_DATA, AT_END, AT_TRAILER, OVER };
enum { SIZE_LINE_MAX = 128 };

#define SIGNATURE_IS ";chunk-signature="
#define TRAILER_SIGNATURE "x-amz-trailer-signature:"
#define EMPTY_HASH "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

int sigv4_stream_init(struct sigv4_stream *stream, const struct sigv4 *request, const struct sigv4_key *key,
                      const char seed[static SIGV4_SIGNATURE_HEX]) {
        if (request->payload != PAYLOAD_CHUNKS && request->payload != PAYLOAD_CHUNKS_TRAILER)
                return -EINVAL;

        *stream = (struct sigv4_stream){ .trailer = request->payload == PAYLOAD_CHUNKS_TRAILER,
                                         .in = BUF(SIGV4_CHUNK_MAX + SIZE_LINE_MAX) };
        memcpy(stream->previous, seed, SIGV4_SIGNATURE_HEX);
        memcpy(stream->timestamp, request->timestamp.p, sizeof stream->timestamp);
        memcpy(stream->key, key->key, sizeof stream->key);

        int n = snprintf(stream->scope, sizeof stream->scope, "%.*s/%.*s/%.*s/aws4_request", STR_FMT(request->date),
                         STR_FMT(request->region), STR_FMT(request->service));
        stream->scope_n = (size_t)n;

        if (n > 0 && (size_t)n < sizeof stream->scope)
                return 0;

        return -EINVAL;
}

void sigv4_stream_done(struct sigv4_stream *stream) {
        secret_wipe(stream->key, sizeof stream->key);
        buf_done(&stream->in);
}

/* The next signature of the chain, over the hash that ends its text. */
static int stream_chain(struct sigv4_stream *stream, const char *kind, const char *middle, struct str data) {
        unsigned char digest[DIGEST_BYTES];
        char hex[DIGEST_HEX_MAX];
        cleanup(buf_done) struct buf text = BUF(1024);

        digest_sha256(data, digest);
        digest_hex(digest, hex);
        int r = buf_printf(&text, "AWS4-HMAC-SHA256-%s\n%.16s\n%.*s\n%.64s\n%s%s", kind, stream->timestamp,
                           (int)stream->scope_n, stream->scope, stream->previous, middle, hex);
        if (r < 0)
                return r;

        digest_hmac(str_n(stream->key, sizeof stream->key), buf_str(&text), digest);
        digest_hex(digest, hex);
        memcpy(stream->previous, hex, SIGV4_SIGNATURE_HEX);

        return 0;
}

/* "HEX;chunk-signature=64 digits", without its line end. */
static bool parse_size(struct str line, size_t *ret_digits, size_t *ret_size) {
        size_t size = 0, digits = 0;

        while (digits < line.n && digits < 8 && ascii_hex(line.p[digits]) >= 0)
                size = size << 4 | (size_t)ascii_hex(line.p[digits++]);

        struct str rest = str_skip(line, digits);
        if (digits == 0 || !str_starts(rest, STR(SIGNATURE_IS)) ||
            rest.n != sizeof SIGNATURE_IS - 1 + SIGV4_SIGNATURE_HEX)
                return false;

        for (size_t i = sizeof SIGNATURE_IS - 1; i < rest.n; i++)
                if (ascii_hex(rest.p[i]) < 0)
                        return false;

        *ret_digits = digits;
        *ret_size = size;

        return true;
}

/* Position behind the first CR LF, 0 when there is none yet. */
static size_t line_end(struct str s) {
        const char *at = s.n >= 2 ? memmem(s.p, s.n, "\r\n", 2) : NULL;
        if (at)
                return (size_t)(at - s.p) + 2;

        return 0;
}

/* Each step takes something off `in` and returns 1, or 0 when it needs more bytes. */
static int at_size(struct sigv4_stream *stream) {
        size_t end = line_end(str_first(buf_str(&stream->in), SIZE_LINE_MAX)), digits;
        if (end == 0 && stream->in.n >= SIZE_LINE_MAX)
                return -EBADMSG;
        if (end == 0)
                return 0;
        if (!parse_size(str_first(buf_str(&stream->in), end - 2), &digits, &stream->size))
                return -EBADMSG;
        if (stream->size > SIGV4_CHUNK_MAX)
                return -E2BIG;

        stream->state = IN_DATA;
        return 1;
}

static int in_data(struct sigv4_stream *stream, struct buf *out) {
        size_t head = line_end(buf_str(&stream->in)), digits = 0, size = 0;
        bool last = stream->size == 0;
        size_t whole = head + stream->size + (last ? 0 : 2);
        if (stream->in.n < whole)
                return 0;

        struct str data = str_n(stream->in.p + head, stream->size);
        if (!last && memcmp(data.p + data.n, "\r\n", 2) != 0)
                return -EBADMSG;
        if (!parse_size(str_first(buf_str(&stream->in), head - 2), &digits, &size))
                return -EBADMSG;

        int r = stream_chain(stream, "PAYLOAD", EMPTY_HASH "\n", data);
        if (r >= 0)
                r = buf_append(out, str_n(stream->in.p, digits + sizeof SIGNATURE_IS - 1));
        if (r >= 0)
                r = buf_append(out, str_n(stream->previous, SIGV4_SIGNATURE_HEX));
        if (r >= 0)
                r = buf_append(out, str_n(stream->in.p + head - 2, whole - (head - 2)));
        buf_consume(&stream->in, whole);
        if (!last)
                stream->state = AT_SIZE;
        else if (stream->trailer)
                stream->state = AT_TRAILER;
        else
                stream->state = AT_END;

        if (r < 0)
                return r;

        return 1;
}

static int at_end(struct sigv4_stream *stream, struct buf *out) {
        if (stream->in.n < 2)
                return 0;
        if (stream->in.n > 2 || memcmp(stream->in.p, "\r\n", 2) != 0)
                return -EBADMSG;

        int r = buf_append(out, buf_str(&stream->in));
        buf_clear(&stream->in);
        stream->state = OVER;

        if (r < 0)
                return r;

        return 1;
}

/* "name:value CR LF" lines, the last of them the signature, and an empty line; kept until all is there. */
static int at_trailer(struct sigv4_stream *stream, struct buf *out) {
        struct str all = buf_str(&stream->in);
        cleanup(buf_done) struct buf canonical = BUF(SIGV4_TRAILER_MAX);

        if (all.n > SIGV4_TRAILER_MAX)
                return -EBADMSG;
        if (all.n < 4 || memcmp(all.p + all.n - 4, "\r\n\r\n", 4) != 0)
                return 0;

        for (struct str rest = all;;) {
                size_t end = line_end(rest);
                struct str line = str_first(rest, end - 2);
                if (str_eq_nocase(str_first(line, sizeof TRAILER_SIGNATURE - 1), STR(TRAILER_SIGNATURE))) {
                        size_t head = (size_t)(line.p - all.p) + sizeof TRAILER_SIGNATURE - 1;

                        if (line.n != sizeof TRAILER_SIGNATURE - 1 + SIGV4_SIGNATURE_HEX || rest.n != end + 2)
                                return -EBADMSG;

                        int r = stream_chain(stream, "TRAILER", "", buf_str(&canonical));
                        if (r >= 0)
                                r = buf_append(out, str_first(all, head));
                        if (r >= 0)
                                r = buf_append(out, str_n(stream->previous, SIGV4_SIGNATURE_HEX));
                        if (r >= 0)
                                r = buf_add(out, "\r\n\r\n");
                        buf_clear(&stream->in);
                        stream->state = OVER;

                        if (r < 0)
                                return r;

                        return 1;
                }

                if (line.n == 0 || str_find(line, ':') <= 0)
                        return -EBADMSG;

                int r = buf_append(&canonical, line);
                if (r >= 0)
                        r = buf_add_char(&canonical, '\n');
                if (r < 0)
                        return r;

                rest = str_skip(rest, end);
        }
}

static int stream_step(struct sigv4_stream *stream, struct buf *out) {
        switch ((enum state)stream->state) {
        case AT_SIZE:
                return at_size(stream);
        case IN_DATA:
                return in_data(stream, out);
        case AT_END:
                return at_end(stream, out);
        case AT_TRAILER:
                return at_trailer(stream, out);
        default:
                return stream->in.n > 0 ? -EBADMSG : 0;
        }
}

int sigv4_stream_feed(struct sigv4_stream *stream, struct str bytes, struct buf *out) {
        int r = 0;
        while (r >= 0 && bytes.n > 0) {
                /* No more at once than one chunk needs: the buffer's limit is about a chunk, not about a read. */
                size_t room = stream->in.max - stream->in.n;
                struct str part = str_first(bytes, room);

                if (room > 0)
                        r = buf_append(&stream->in, part);
                else
                        r = -E2BIG;
                bytes = str_skip(bytes, part.n);

                do
                        r = r < 0 ? r : stream_step(stream, out);
                while (r > 0);
        }

        return r;
}

bool sigv4_stream_is_whole(const struct sigv4_stream *stream) {
        return stream->state == OVER && stream->in.n == 0;
}
