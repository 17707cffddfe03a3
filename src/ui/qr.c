/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In the standard's order: bits of the text, Reed-Solomon bytes for each block, the blocks interleaved, the fixed
 * patterns, the bits laid out in a zigzag, and the mask among eight that disturbs a camera least.
 */
#include "ui/qr.h"

#include <errno.h>
#include <stdlib.h>

enum { VERSIONS = 9, CODEWORDS_MAX = 292, MASKS = 8, QUIET = 2 };

/* Level L. All blocks of one of these versions are equally long. */
static const struct {
        unsigned data, correction, blocks; /* bytes of one block, twice; how many */
        unsigned char aligned[3];          /* centres of the alignment patterns, 0: none */
} versions[VERSIONS + 1] = {
        [1] = { 19, 7, 1, { 0 } },          [2] = { 34, 10, 1, { 6, 18 } },     [3] = { 55, 15, 1, { 6, 22 } },
        [4] = { 80, 20, 1, { 6, 26 } },     [5] = { 108, 26, 1, { 6, 30 } },    [6] = { 68, 18, 2, { 6, 34 } },
        [7] = { 78, 20, 2, { 6, 22, 38 } }, [8] = { 97, 24, 2, { 6, 24, 42 } }, [9] = { 116, 30, 2, { 6, 26, 46 } },
};

/* One that is being drawn. */
struct canvas {
        struct qr *qr;
        unsigned version;
        unsigned char fixed[QR_SIZE_MAX][QR_SIZE_MAX]; /* patterns, which no mask changes */
};

/*
 * Bytes.
 */
struct bits {
        unsigned char bytes[CODEWORDS_MAX];
        size_t n; /* bits */
};

static void bits_add(struct bits *bits, unsigned value, unsigned width) {
        for (unsigned i = width; i-- > 0; bits->n++)
                if (value >> i & 1)
                        bits->bytes[bits->n / 8] |= (unsigned char)(0x80 >> bits->n % 8);
}

/* Mode, length, the bytes, an end, and padding to the last byte of the version. */
static void bits_fill(struct bits *bits, struct str text, size_t capacity) {
        bits_add(bits, 4, 4);
        bits_add(bits, (unsigned)text.n, 8);
        for (size_t i = 0; i < text.n; i++)
                bits_add(bits, (unsigned char)text.p[i], 8);

        size_t left = capacity * 8 - bits->n;
        bits_add(bits, 0, left < 4 ? (unsigned)left : 4);
        bits->n = (bits->n + 7) / 8 * 8;
        for (unsigned i = 0; bits->n < capacity * 8; i++)
                bits_add(bits, i % 2 ? 0x11 : 0xec, 8);
}

/* In the field of 256 elements by x^8 + x^4 + x^3 + x^2 + 1. */
static unsigned field_multiply(unsigned a, unsigned b) {
        unsigned product = 0;

        for (int i = 7; i >= 0; i--) {
                product = product << 1 ^ (product >> 7) * 0x11d;
                product ^= (b >> i & 1) * a;
        }
        return product;
}

/* The generator of this degree, without its first coefficient. */
static void correction_divisor(unsigned degree, unsigned char *ret) {
        unsigned root = 1;

        memset(ret, 0, degree);
        ret[degree - 1] = 1;

        for (unsigned i = 0; i < degree; i++) {
                for (unsigned j = 0; j < degree; j++) {
                        ret[j] = (unsigned char)field_multiply(ret[j], root);
                        if (j + 1 < degree)
                                ret[j] ^= ret[j + 1];
                }

                root = field_multiply(root, 2);
        }
}

static void correction_make(const unsigned char *data, size_t n, unsigned degree, unsigned char *ret) {
        unsigned char divisor[32];

        correction_divisor(degree, divisor);
        memset(ret, 0, degree);

        for (size_t i = 0; i < n; i++) {
                unsigned factor = data[i] ^ ret[0];

                memmove(ret, ret + 1, degree - 1);
                ret[degree - 1] = 0;
                for (unsigned j = 0; j < degree; j++)
                        ret[j] ^= (unsigned char)field_multiply(divisor[j], factor);
        }
}

/* All codewords of the version, in the order in which they are drawn. */
static size_t codewords_make(struct str text, unsigned version, unsigned char ret[static CODEWORDS_MAX]) {
        const unsigned data = versions[version].data, correction = versions[version].correction,
                       blocks = versions[version].blocks;
        struct bits bits = { 0 };
        size_t n = 0;

        bits_fill(&bits, text, (size_t)data * blocks);

        for (unsigned i = 0; i < data; i++)
                for (unsigned block = 0; block < blocks; block++)
                        ret[n++] = bits.bytes[block * data + i];

        for (unsigned block = 0; block < blocks; block++) {
                unsigned char made[32];

                correction_make(bits.bytes + (size_t)block * data, data, correction, made);
                for (unsigned i = 0; i < correction; i++)
                        ret[n + (size_t)i * blocks + block] = made[i];
        }

        return n + (size_t)correction * blocks;
}

/*
 * Patterns.
 */
static void canvas_set(struct canvas *canvas, int row, int column, bool dark) {
        if (row < 0 || column < 0 || row >= (int)canvas->qr->size || column >= (int)canvas->qr->size)
                return;
        canvas->qr->dark[row][column] = dark;
        canvas->fixed[row][column] = 1;
}

/* Squares around a centre: those at a distance in `light` are light. */
static void canvas_draw_square(struct canvas *canvas, int row, int column, int reach, unsigned light) {
        for (int y = -reach; y <= reach; y++)
                for (int x = -reach; x <= reach; x++) {
                        int far = abs(x) > abs(y) ? abs(x) : abs(y);
                        canvas_set(canvas, row + y, column + x, !(light >> far & 1));
                }
}

static void canvas_draw_alignment(struct canvas *canvas) {
        const unsigned char *at = versions[canvas->version].aligned;
        unsigned n = 0;

        while (n < 3 && at[n])
                n++;

        for (unsigned i = 0; i < n; i++)
                for (unsigned j = 0; j < n; j++) {
                        bool corner = (i == 0 && j == 0) || (i == 0 && j == n - 1) || (i == n - 1 && j == 0);
                        if (!corner)
                                canvas_draw_square(canvas, at[i], at[j], 2, 1u << 1);
                }
}

/* 15 bits, twice: the level (01), the mask, and their BCH code. */
static void canvas_draw_format(struct canvas *canvas, unsigned mask) {
        int size = (int)canvas->qr->size;
        unsigned value = 1u << 3 | mask, rest = value;

        for (int i = 0; i < 10; i++)
                rest = rest << 1 ^ (rest >> 9) * 0x537;

        unsigned bits = (value << 10 | rest) ^ 0x5412;

        for (int i = 0; i < 15; i++) {
                bool dark = bits >> i & 1;

                if (i < 6)
                        canvas_set(canvas, i, 8, dark);
                else if (i < 8)
                        canvas_set(canvas, i + 1, 8, dark);
                else if (i == 8)
                        canvas_set(canvas, 8, 7, dark);
                else
                        canvas_set(canvas, 8, 14 - i, dark);

                if (i < 8)
                        canvas_set(canvas, 8, size - 1 - i, dark);
                else
                        canvas_set(canvas, size - 15 + i, 8, dark);
        }

        canvas_set(canvas, size - 8, 8, true);
}

static void canvas_draw_version(struct canvas *canvas) {
        int size = (int)canvas->qr->size;
        unsigned rest = canvas->version;

        if (canvas->version < 7)
                return;

        for (int i = 0; i < 12; i++)
                rest = rest << 1 ^ (rest >> 11) * 0x1f25;

        unsigned bits = canvas->version << 12 | rest;

        for (int i = 0; i < 18; i++) {
                canvas_set(canvas, i / 3, size - 11 + i % 3, bits >> i & 1);
                canvas_set(canvas, size - 11 + i % 3, i / 3, bits >> i & 1);
        }
}

static void canvas_draw_patterns(struct canvas *canvas) {
        int size = (int)canvas->qr->size;

        for (int i = 0; i < size; i++) {
                canvas_set(canvas, 6, i, i % 2 == 0);
                canvas_set(canvas, i, 6, i % 2 == 0);
        }

        canvas_draw_square(canvas, 3, 3, 4, 1u << 2 | 1u << 4);
        canvas_draw_square(canvas, 3, size - 4, 4, 1u << 2 | 1u << 4);
        canvas_draw_square(canvas, size - 4, 3, 4, 1u << 2 | 1u << 4);
        canvas_draw_alignment(canvas);
        canvas_draw_format(canvas, 0); /* its place is taken; the bits come with the mask */
        canvas_draw_version(canvas);
}

/* Columns in pairs from the right, up and down in turn, around the patterns. */
static void canvas_draw_codewords(struct canvas *canvas, const unsigned char *bytes, size_t n) {
        int size = (int)canvas->qr->size;
        size_t at = 0;

        for (int right = size - 1; right >= 1; right -= 2) {
                if (right == 6)
                        right = 5; /* the timing pattern has a column of its own */
                for (int step = 0; step < size; step++)
                        for (int side = 0; side < 2; side++) {
                                bool up = ((right + 1) & 2) == 0;
                                int row = up ? size - 1 - step : step, column = right - side;
                                if (canvas->fixed[row][column] || at >= n * 8)
                                        continue;

                                canvas->qr->dark[row][column] = bytes[at / 8] >> (7 - at % 8) & 1;
                                at++;
                        }
        }
}

/*
 * Masks.
 */
static bool mask_inverts(unsigned mask, unsigned y, unsigned x) {
        switch (mask) {
        case 0:
                return (x + y) % 2 == 0;
        case 1:
                return y % 2 == 0;
        case 2:
                return x % 3 == 0;
        case 3:
                return (x + y) % 3 == 0;
        case 4:
                return (x / 3 + y / 2) % 2 == 0;
        case 5:
                return x * y % 2 + x * y % 3 == 0;
        case 6:
                return (x * y % 2 + x * y % 3) % 2 == 0;
        default:
                return ((x + y) % 2 + x * y % 3) % 2 == 0;
        }
}

/* Twice is as if never. */
static void canvas_mask(struct canvas *canvas, unsigned mask) {
        for (unsigned row = 0; row < canvas->qr->size; row++)
                for (unsigned column = 0; column < canvas->qr->size; column++)
                        if (!canvas->fixed[row][column] && mask_inverts(mask, row, column))
                                canvas->qr->dark[row][column] ^= 1;
}

/* Long runs of one colour, and what looks like a corner's pattern, in one row or column. */
static unsigned line_penalty(const struct qr *qr, unsigned line, bool across) {
        unsigned penalty = 0, run = 0, seen = 0;

        for (unsigned i = 0; i < qr->size; i++) {
                unsigned dark = across ? qr->dark[line][i] : qr->dark[i][line];
                bool same = i && dark == (seen & 1);

                run = same ? run + 1 : 1;
                if (run == 5)
                        penalty += 3;
                else if (run > 5)
                        penalty++;

                seen = (seen << 1 | dark) & 0x7ff;
                if (i >= 10 && (seen == 0x5d0 || seen == 0x05d))
                        penalty += 40;
        }

        return penalty;
}

static unsigned qr_penalty(const struct qr *qr) {
        unsigned penalty = 0, dark = 0, all = qr->size * qr->size;

        if (all == 0)
                return 0;

        for (unsigned i = 0; i < qr->size; i++)
                penalty += line_penalty(qr, i, true) + line_penalty(qr, i, false);

        for (unsigned row = 0; row < qr->size; row++)
                for (unsigned column = 0; column < qr->size; column++) {
                        unsigned char here = qr->dark[row][column];

                        dark += here;
                        if (row && column && qr->dark[row - 1][column] == here && qr->dark[row][column - 1] == here &&
                            qr->dark[row - 1][column - 1] == here)
                                penalty += 3;
                }

        unsigned half = all * 10, weight = dark * 20;
        unsigned off = weight > half ? weight - half : half - weight;

        return penalty + off / all * 10;
}

int qr_make(struct str text, struct qr *ret) {
        unsigned char bytes[CODEWORDS_MAX] = { 0 };
        struct canvas canvas = { .qr = ret, .version = 1 };
        unsigned best = 0, least = UINT32_MAX;

        while (canvas.version <= VERSIONS &&
               text.n + 2 > (size_t)versions[canvas.version].data * versions[canvas.version].blocks)
                canvas.version++;

        if (canvas.version > VERSIONS)
                return -EMSGSIZE;

        *ret = (struct qr){ .size = canvas.version * 4 + 17 };
        canvas_draw_patterns(&canvas);
        canvas_draw_codewords(&canvas, bytes, codewords_make(text, canvas.version, bytes));

        for (unsigned mask = 0; mask < MASKS; mask++) {
                canvas_draw_format(&canvas, mask);
                canvas_mask(&canvas, mask);
                unsigned penalty = qr_penalty(ret);
                canvas_mask(&canvas, mask);

                if (penalty < least) {
                        least = penalty;
                        best = mask;
                }
        }

        canvas_draw_format(&canvas, best);
        canvas_mask(&canvas, best);

        return 0;
}

/*
 * The terminal.
 */
static bool qr_is_dark(const struct qr *qr, int row, int column) {
        return row >= 0 && column >= 0 && row < (int)qr->size && column < (int)qr->size && qr->dark[row][column];
}

int qr_draw(const struct qr *qr, bool colours, struct buf *out) {
        static const char *const blocks[] = { "\u2588", "\u2580", "\u2584", " " }; /* what is light is drawn */
        int end = (int)qr->size + QUIET;
        int r = 0;

        for (int row = -QUIET; row < end && r == 0; row += 2) {
                if (colours)
                        r = buf_add(out, "\033[40;97m");
                else
                        r = 0;
                for (int column = -QUIET; column < end && r == 0; column++) {
                        unsigned upper = qr_is_dark(qr, row, column), lower = qr_is_dark(qr, row + 1, column);
                        r = buf_add(out, blocks[upper * 2 + lower]);
                }

                if (r == 0)
                        r = buf_add(out, colours ? "\033[0m\n" : "\n");
        }

        return r;
}
