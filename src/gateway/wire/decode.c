/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The origin was asked for an identity body and sent an encoded one. It may be hostile, and decoders are large
 * programs: they run here, in the confined process that reads hostile bytes anyway, and see nothing but bytes.
 *
 * Streams: everything that can be decoded so far is written at once, so an event that its sender flushed is not
 * delayed. Only the decoder's window is kept.
 *
 * Limits: a window of 32 KiB for gzip and deflate, WINDOW_LOG for zstd (RFC 9659), 16 MiB for brotli, whose format has
 * no more; MEMORY_MAX in all for one of these two. A body may grow by RATIO_MAX, which is more than deflate can, beyond
 * the first FREE_BYTES. Their memory has held bytes that were not searched yet, so it is wiped; zstd alone offers no
 * way to.
 */
#include "gateway/wire/decode.h"

#include "base/cleanup.h"
#include "base/secrets/secret.h"

#include <brotli/decode.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

enum { WINDOW_LOG = 23, RATIO_MAX = 1100, FREE_BYTES = 16 << 20, MEMORY_MAX = 24 << 20 };

struct decoder {
        enum coding coding;
        bool owes, whole;
        bool ready;    /* the library's state is there */
        char magic[4]; /* of a zstd frame: its first n_magic bytes */
        uint8_t n_magic;
        uint64_t n_in, n_out;
        size_t memory;
        union {
                z_stream zlib;
                BrotliDecoderState *brotli;
                ZSTD_DCtx *zstd;
        };
};

enum coding coding_of(struct str value) {
        static const struct {
                struct str name;
                enum coding coding;
        } known[] = { { STR(""), CODING_IDENTITY },       { STR("identity"), CODING_IDENTITY },
                      { STR("gzip"), CODING_GZIP },       { STR("x-gzip"), CODING_GZIP },
                      { STR("deflate"), CODING_DEFLATE }, { STR("br"), CODING_BROTLI },
                      { STR("zstd"), CODING_ZSTD } };

        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
                if (str_eq_nocase(value, known[i].name))
                        return known[i].coding;

        return CODING_UNKNOWN;
}

enum coding coding_add(enum coding found, struct str value) {
        enum coding next = str_eq_nocase(value, STR("aws-chunked")) ? CODING_IDENTITY : coding_of(value);
        if (next == CODING_IDENTITY)
                return found;
        if (found == CODING_IDENTITY)
                return next;

        return CODING_UNKNOWN;
}

bool coding_has_header(struct str name) {
        static const struct str names[] = { STR("content-encoding"), STR("content-length"), STR("content-md5"),
                                            STR("digest"),           STR("content-digest"), STR("repr-digest"),
                                            STR("accept-ranges") };
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
                if (str_eq_nocase(name, names[i]))
                        return true;
        return false;
}

/* memory of zlib and brotli: counted, and wiped when it is given back */

struct block {
        size_t n;
        max_align_t bytes[];
};

static void *decode_take(void *decoder, size_t n) {
        struct decoder *d = decoder;
        if (n > MEMORY_MAX - d->memory)
                return NULL;

        struct block *block = malloc(sizeof *block + n);
        if (!block)
                return NULL;

        block->n = n;
        d->memory += n;

        return block->bytes;
}

static void decode_give(void *decoder, void *p) {
        struct decoder *d = decoder;
        if (!p)
                return;
        struct block *block = (struct block *)((char *)p - offsetof(struct block, bytes));
        d->memory -= block->n;
        secret_wipe(block->bytes, block->n);
        free(block);
}

static void *take_items(void *decoder, unsigned n, unsigned size) {
        return decode_take(decoder, (size_t)n * size);
}

/* one each */

enum { GZIP_WINDOW = 15 + 16, ZLIB_WINDOW = 15, BARE_WINDOW = -15 };

static int open_zlib(struct decoder *decoder, int window) {
        decoder->zlib = (z_stream){ .zalloc = take_items, .zfree = decode_give, .opaque = decoder };
        decoder->ready = inflateInit2(&decoder->zlib, window) == Z_OK;
        if (!decoder->ready)
                return -ENOMEM;

        return 0;
}

/* "deflate" is a zlib stream; some servers send a bare deflate stream. The first byte decides: zlib's would, in a bare
 * stream, announce a stored block with padding bits set that encoders leave zero. */
static int open_deflate(struct decoder *decoder, struct str in) {
        return open_zlib(decoder, (in.p[0] & 0x0f) == Z_DEFLATED ? ZLIB_WINDOW : BARE_WINDOW);
}

static ssize_t run_zlib(struct decoder *decoder, struct str *in, char *out, size_t room) {
        z_stream *z = &decoder->zlib;
        uInt most = in->n < INT32_MAX ? (uInt)in->n : INT32_MAX;

        if (decoder->whole && in->n > 0) { /* gzip: another member; nothing follows the others */
                if (decoder->coding != CODING_GZIP || inflateReset(z) != Z_OK)
                        return -EBADMSG;
                decoder->whole = false;
        }

        if (decoder->whole)
                return 0;

        z->next_in = (Bytef *)in->p;
        z->avail_in = most;
        z->next_out = (Bytef *)out;
        z->avail_out = (uInt)room;

        int r = inflate(z, Z_SYNC_FLUSH);
        *in = str_skip(*in, most - z->avail_in);
        decoder->whole = r == Z_STREAM_END;
        decoder->owes = !decoder->whole && z->avail_out == 0;

        if (r != Z_OK && r != Z_STREAM_END && r != Z_BUF_ERROR) { /* the last: it could do nothing now */
                if (r == Z_MEM_ERROR)
                        return -ENOMEM;
                return -EBADMSG;
        }

        return (ssize_t)(room - z->avail_out);
}

static ssize_t run_brotli(struct decoder *decoder, struct str *in, char *out, size_t room) {
        size_t n_in = in->n, n_out = room;
        const uint8_t *from = (const uint8_t *)in->p;
        uint8_t *to = (uint8_t *)out;

        if (decoder->whole && in->n > 0)
                return -EBADMSG;
        if (decoder->whole)
                return 0;

        BrotliDecoderResult r = BrotliDecoderDecompressStream(decoder->brotli, &n_in, &from, &n_out, &to, NULL);
        *in = str_skip(*in, in->n - n_in);
        decoder->whole = r == BROTLI_DECODER_RESULT_SUCCESS;
        decoder->owes = BrotliDecoderHasMoreOutput(decoder->brotli); /* also while it asks for more input */

        if (r == BROTLI_DECODER_RESULT_ERROR) {
                BrotliDecoderErrorCode why = BrotliDecoderGetErrorCode(decoder->brotli);
                if (why <= BROTLI_DECODER_ERROR_ALLOC_CONTEXT_MODES &&
                    why >= BROTLI_DECODER_ERROR_ALLOC_BLOCK_TYPE_TREES)
                        return -ENOMEM;

                return -EBADMSG;
        }

        return (ssize_t)(room - n_out);
}

/* The magic of frames and of skippable frames. The library may also accept formats from before zstd's was settled, with
 * old decoders that ignore our limits. */
static bool is_frame(struct decoder *decoder, struct str in) {
        if (decoder->whole)
                decoder->n_magic = 0;

        struct str next = str_first(in, sizeof decoder->magic - decoder->n_magic);
        memcpy(decoder->magic + decoder->n_magic, next.p, next.n);
        decoder->n_magic += (uint8_t)next.n;

        struct str magic = str_n(decoder->magic, decoder->n_magic);
        if (magic.n > 0 && (magic.p[0] & 0xf0) == 0x50)
                return str_starts(STR("\x2a\x4d\x18"), str_skip(magic, 1));

        return str_starts(STR("\x28\xb5\x2f\xfd"), magic);
}

static ssize_t run_zstd(struct decoder *decoder, struct str *in, char *out, size_t room) {
        if (in->n > 0 && !is_frame(decoder, *in))
                return -EBADMSG;

        ZSTD_inBuffer from = { .src = in->p, .size = in->n };
        ZSTD_outBuffer to = { .dst = out, .size = room };
        size_t left = ZSTD_decompressStream(decoder->zstd, &to, &from);
        if (ZSTD_isError(left)) {
                if (ZSTD_getErrorCode(left) == ZSTD_error_memory_allocation)
                        return -ENOMEM;
                return -EBADMSG;
        }

        *in = str_skip(*in, from.pos);
        decoder->whole = left == 0; /* another frame may follow */
        decoder->owes = to.pos == to.size && left > 0;

        return (ssize_t)to.pos;
}

static int open_brotli(struct decoder *decoder) {
        decoder->brotli = BrotliDecoderCreateInstance(decode_take, decode_give, decoder);
        decoder->ready = decoder->brotli != NULL;
        if (!decoder->ready)
                return -ENOMEM;

        return 0;
}

static int open_zstd(struct decoder *decoder) {
        decoder->zstd = ZSTD_createDCtx();
        decoder->ready = decoder->zstd != NULL;
        if (decoder->ready && ZSTD_isError(ZSTD_DCtx_setParameter(decoder->zstd, ZSTD_d_windowLogMax, WINDOW_LOG)))
                return -EINVAL;
        if (!decoder->ready)
                return -ENOMEM;

        return 0;
}

/* all of them */

int decoder_new(enum coding c, struct decoder **ret) {
        if (c == CODING_IDENTITY || c >= CODING_UNKNOWN)
                return -EINVAL;

        struct decoder *decoder = calloc(1, sizeof *decoder);
        if (!decoder)
                return -ENOMEM;

        decoder->coding = c;
        int r;
        if (c == CODING_GZIP)
                r = open_zlib(decoder, GZIP_WINDOW);
        else if (c == CODING_BROTLI)
                r = open_brotli(decoder);
        else if (c == CODING_ZSTD)
                r = open_zstd(decoder);
        else
                r = 0;
        /* deflate: when its first byte is there */
        if (r < 0) {
                decoder_free(decoder);
                return r;
        }

        *ret = decoder;
        return 0;
}

void decoder_free(struct decoder *decoder) {
        if (!decoder)
                return;

        if (decoder->ready && decoder->coding == CODING_BROTLI)
                BrotliDecoderDestroyInstance(decoder->brotli);
        else if (decoder->ready && decoder->coding == CODING_ZSTD)
                ZSTD_freeDCtx(decoder->zstd);
        else if (decoder->ready)
                inflateEnd(&decoder->zlib);

        free(decoder);
}

ssize_t decoder_run(struct decoder *decoder, struct str *in, char *out, size_t room) {
        size_t had = in->n;
        if (had == 0 && !decoder->owes)
                return 0;

        decoder->owes = false;
        if (!decoder->ready && open_deflate(decoder, *in) < 0)
                return -ENOMEM;

        ssize_t n;
        if (decoder->coding == CODING_BROTLI)
                n = run_brotli(decoder, in, out, room);
        else if (decoder->coding == CODING_ZSTD)
                n = run_zstd(decoder, in, out, room);
        else
                n = run_zlib(decoder, in, out, room);

        if (n < 0)
                return n;

        decoder->n_in += had - in->n;
        decoder->n_out += (uint64_t)n;
        decoder->owes |= in->n > 0;

        if (decoder->n_out > FREE_BYTES && decoder->n_out / RATIO_MAX > decoder->n_in)
                return -E2BIG;

        return n;
}

bool decoder_owes(const struct decoder *decoder) {
        return decoder->owes;
}

bool decoder_is_whole(const struct decoder *decoder) {
        return !decoder->owes && (decoder->whole || decoder->n_in == 0);
}
