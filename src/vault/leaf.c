/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Minting is writing a few hundred bytes and one signature: the DER is put together here, so that nothing is allocated,
 * parsed or looked up on the way. (Through the library's X.509 objects one certificate takes four times as long.)
 */
#include "vault/leaf.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/map.h"
#include "base/random.h"
#include "base/secrets/digest.h"
#include "vault/der.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>

#define DAY 86400ULL
enum { SERIAL = 16, KEY_N = 91, POINT_N = 65, NAME_LIMIT = 64, ENTRY_KEY = HOST_TEXT_MAX + 1 + DIGEST_BYTES };
enum { TAG_INTEGER = 2, TAG_BITS = 3, TAG_OCTETS = 4, TAG_UTF8 = 12, TAG_UTC = 23, TAG_TIME = 24 };
enum { TAG_SEQUENCE = 0x30, TAG_SET = 0x31, TAG_VERSION = 0xa0, TAG_EXTENSIONS = 0xa3 };
enum { SAN_NAME = 0x82, SAN_ADDRESS = 0x87, AUTHORITY_KEY = 0x80 };

struct leaf {
        struct leaf *newer, *older;
        char key[ENTRY_KEY];
        size_t key_n;
        uint64_t minted; /* seconds since 1970 */
        size_t n;
        uint8_t bytes[];
};

struct leaves {
        struct ca *ca;
        struct map index;
        struct leaf *newest, *oldest;
        uint64_t minted;
};

/* SubjectPublicKeyInfo of a point on P-256, up to the point. */
static const uint8_t p256_head[KEY_N - POINT_N] = { 0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48,
                                                    0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48,
                                                    0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00 };
/* Whole extensions that are the same for all: what a server's certificate may be used for. */
static const uint8_t fixed_extensions[] = {
        0x30, 0x0c, 0x06, 0x03, 0x55, 0x1d, 0x13, 0x01, 0x01, 0xff, 0x04, 0x02, 0x30, 0x00, /* no CA, critical */
        0x30, 0x0e, 0x06, 0x03, 0x55, 0x1d, 0x0f, 0x01, 0x01, 0xff, 0x04, 0x04, 0x03, 0x02, 0x07, 0x80, /* signature */
        0x30, 0x13, 0x06, 0x03, 0x55, 0x1d, 0x25, 0x04, 0x0c, 0x30, 0x0a, 0x06, 0x08, 0x2b, 0x06, 0x01,
        0x05, 0x05, 0x07, 0x03, 0x01, /* server authentication */
};
static const uint8_t oid_san[] = { 0x06, 0x03, 0x55, 0x1d, 0x11 }, oid_subject_key[] = { 0x06, 0x03, 0x55, 0x1d, 0x0e },
                     oid_authority_key[] = { 0x06, 0x03, 0x55, 0x1d, 0x23 };
static const uint8_t oid_common_name[] = { 0x06, 0x03, 0x55, 0x04, 0x03 },
                     oid_organisation[] = { 0x06, 0x03, 0x55, 0x04, 0x0a };

/* An extension around the value since the mark. */
static void wrap_extension(struct der *der, size_t mark, const uint8_t oid[static 5]) {
        der_wrap(der, mark, TAG_OCTETS);
        der_put(der, oid, 5);
        der_wrap(der, mark, TAG_SEQUENCE);
}

static void put_extensions(struct der *der, const struct ca *ca, const struct host *host, const uint8_t *point) {
        uint8_t digest[DIGEST_BYTES];
        size_t all = der_mark(der), mark = der_mark(der);

        if (host->kind == HOST_ADDR) {
                der_put(der, host->addr.bytes, host->addr.family == ADDR_V4 ? 4 : 16);
                der_wrap(der, mark, SAN_ADDRESS);
        } else {
                der_put(der, host->name, host->name_n);
                der_wrap(der, mark, SAN_NAME);
        }

        der_wrap(der, mark, TAG_SEQUENCE);
        wrap_extension(der, mark, oid_san);

        mark = der_mark(der);
        der_put(der, ca_key_id(ca), CA_KEY_ID);
        der_wrap(der, mark, AUTHORITY_KEY);
        der_wrap(der, mark, TAG_SEQUENCE);
        wrap_extension(der, mark, oid_authority_key);

        mark = der_mark(der);
        digest_sha256(str_n(point, POINT_N), digest); /* its first 160 bits, as RFC 7093 has it */
        der_put(der, digest, CA_KEY_ID);
        der_wrap(der, mark, TAG_OCTETS);
        wrap_extension(der, mark, oid_subject_key);

        der_put(der, fixed_extensions, sizeof fixed_extensions);
        der_wrap(der, all, TAG_SEQUENCE);
        der_wrap(der, all, TAG_EXTENSIONS);
}

static void put_name_part(struct der *der, const uint8_t oid[static 5], struct str text) {
        size_t mark = der_mark(der);
        der_put(der, text.p, text.n);
        der_wrap(der, mark, TAG_UTF8);
        der_put(der, oid, 5);
        der_wrap(der, mark, TAG_SEQUENCE);
        der_wrap(der, mark, TAG_SET);
}

static void put_subject(struct der *der, const struct host *host) {
        size_t mark = der_mark(der);
        if (host->name_n <= NAME_LIMIT) /* clients go by the alternative name; this one is for people */
                put_name_part(der, oid_common_name, host_str(host));
        put_name_part(der, oid_organisation, STR("Bailey"));
        der_wrap(der, mark, TAG_SEQUENCE);
}

static void put_time(struct der *der, uint64_t seconds) {
        time_t t = (time_t)seconds;
        struct tm tm;
        char text[32];
        size_t mark = der_mark(der);

        gmtime_r(&t, &tm);
        bool late = tm.tm_year >= 150; /* from 2050 on with the century */
        size_t n = strftime(text, sizeof text, "%Y%m%d%H%M%SZ", &tm), century = late ? 0 : 2;
        der_put(der, text + century, n - century);
        der_wrap(der, mark, late ? TAG_TIME : TAG_UTC);
}

static void put_serial(struct der *der) {
        static const uint8_t version_3[] = { TAG_VERSION, 3, TAG_INTEGER, 1, 2 };
        uint8_t serial[SERIAL];
        size_t mark = der_mark(der);

        random_bytes(serial, sizeof serial);
        serial[0] = (uint8_t)((serial[0] & 0x7f) | 0x40);
        der_put(der, serial, sizeof serial);
        der_wrap(der, mark, TAG_INTEGER);
        der_put(der, version_3, sizeof version_3);
}

static void put_body(struct der *der, const struct ca *ca, const struct host *host, struct str key, uint64_t now) {
        uint64_t end = now + LEAF_DAYS * DAY;

        put_extensions(der, ca, host, (const uint8_t *)key.p + sizeof p256_head);
        der_put(der, key.p, key.n);
        put_subject(der, host);

        size_t mark = der_mark(der);
        put_time(der, end < ca_end(ca) ? end : ca_end(ca));
        put_time(der, now - DAY); /* clocks inside a guest may be behind */
        der_wrap(der, mark, TAG_SEQUENCE);
        der_put(der, ca_name(ca).p, ca_name(ca).n);
        der_put(der, ca_algorithm(ca).p, ca_algorithm(ca).n);
        put_serial(der);
        der_wrap(der, 0, TAG_SEQUENCE);
}

static int leaf_mint(struct ca *ca, const struct host *host, struct str key, uint64_t now, uint8_t *ret, size_t *ret_n,
                     struct err *err) {
        uint8_t body[LEAF_MAX], signature[CA_SIGNATURE_MAX], whole[LEAF_MAX];
        size_t n = 0;
        struct der inner = der_in(body, sizeof body), outer = der_in(whole, sizeof whole);

        put_body(&inner, ca, host, key, now);
        int r = -ENOBUFS;

        if (!inner.full)
                r = ca_sign(ca, str_n(inner.at, der_mark(&inner)), signature, &n, err);

        if (r == 0) {
                der_put(&outer, signature, n);
                der_byte(&outer, 0); /* no unused bits */
                der_wrap(&outer, 0, TAG_BITS);
                der_put(&outer, ca_algorithm(ca).p, ca_algorithm(ca).n);
                der_put(&outer, inner.at, der_mark(&inner));
                der_wrap(&outer, 0, TAG_SEQUENCE);
        }

        if (r == 0 && outer.full)
                r = -ENOBUFS;
        if (r == -ENOBUFS)
                return err_set(err, ENOBUFS, "the certificate is too large");
        if (r < 0)
                return r;

        *ret_n = der_mark(&outer);
        memcpy(ret, outer.at, *ret_n);

        return 0;
}

/* the cache */

static void unlink_leaf(struct leaves *leaves, struct leaf *leaf) {
        *(leaf->newer ? &leaf->newer->older : &leaves->newest) = leaf->older;
        *(leaf->older ? &leaf->older->newer : &leaves->oldest) = leaf->newer;
}

static void put_newest(struct leaves *leaves, struct leaf *leaf) {
        leaf->newer = NULL;
        leaf->older = leaves->newest;
        *(leaves->newest ? &leaves->newest->newer : &leaves->oldest) = leaf;
        leaves->newest = leaf;
}

static void leaf_drop(struct leaves *leaves, struct leaf *leaf) {
        map_remove(&leaves->index, str_n(leaf->key, leaf->key_n));
        unlink_leaf(leaves, leaf);
        free(leaf);
}

static int leaf_keep(struct leaves *leaves, struct str key, uint64_t now, const uint8_t *bytes, size_t n,
                     struct err *err) {
        struct leaf *leaf = malloc(sizeof *leaf + n);
        if (!leaf)
                return err_set(err, ENOMEM, "no memory for a certificate");

        *leaf = (struct leaf){ .key_n = key.n, .minted = now, .n = n };
        memcpy(leaf->key, key.p, key.n);
        memcpy(leaf->bytes, bytes, n);

        if (leaves->index.n >= LEAVES_MAX)
                leaf_drop(leaves, leaves->oldest);

        if (map_add(&leaves->index, key, leaf) < 0) {
                free(leaf);
                return err_set(err, ENOMEM, "no memory for a certificate");
        }

        put_newest(leaves, leaf);
        return 0;
}

int leaves_get(struct leaves *leaves, const struct host *host, struct str key, struct str *ret, struct err *err) {
        if (key.n != KEY_N || memcmp(key.p, p256_head, sizeof p256_head) != 0 || (uint8_t)key.p[sizeof p256_head] != 4)
                return err_set(err, EINVAL, "the public key is not one on P-256");

        char name[ENTRY_KEY];
        uint64_t now = clock_wall_us() / 1000000;
        memcpy(name, host->name, host->name_n);
        name[host->name_n] = '\0';
        digest_sha256(key, (uint8_t *)name + host->name_n + 1);

        struct str wanted = str_n(name, (size_t)host->name_n + 1 + DIGEST_BYTES);
        struct leaf *leaf = map_get(&leaves->index, wanted);
        if (leaf && (now < leaf->minted || now - leaf->minted > LEAF_REUSED_HOURS * 3600)) {
                leaf_drop(leaves, leaf);
                leaf = NULL;
        }

        if (leaf) {
                unlink_leaf(leaves, leaf);
                put_newest(leaves, leaf);
        } else {
                uint8_t bytes[LEAF_MAX];
                size_t n = 0;
                int r = leaf_mint(leaves->ca, host, key, now, bytes, &n, err);

                if (r >= 0)
                        r = leaf_keep(leaves, wanted, now, bytes, n, err);
                if (r < 0)
                        return r;

                leaves->minted++;
        }

        *ret = str_n(leaves->newest->bytes, leaves->newest->n);
        return 0;
}

int leaves_new(struct ca *ca, struct leaves **ret, struct err *err) {
        struct leaves *leaves = calloc(1, sizeof *leaves);
        if (!leaves)
                return err_set(err, ENOMEM, "no memory for certificates");
        leaves->ca = ca;
        *ret = leaves;
        return 0;
}

void leaves_free(struct leaves *leaves) {
        if (!leaves)
                return;
        while (leaves->newest)
                leaf_drop(leaves, leaves->newest);
        map_done(&leaves->index, NULL);
        free(leaves);
}

void leaves_freep(struct leaves **leaves) {
        leaves_free(*leaves);
}

size_t leaves_count(const struct leaves *leaves) {
        return leaves->index.n;
}

uint64_t leaves_minted(const struct leaves *leaves) {
        return leaves->minted;
}
