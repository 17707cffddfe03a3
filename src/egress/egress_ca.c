/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of the CA that a person compares: its fingerprint and its expiry. The file is ours; still, every length in
 * it is checked. A certificate is SEQUENCE { tbs SEQUENCE { [0] version, serial, algorithm, issuer, validity SEQUENCE {
 * notBefore, notAfter }, ... }, ... }.
 */
#include "base/base64.h"
#include "base/bounds.h"
#include "base/cleanup.h"
#include "base/secrets/digest.h"
#include "egress/egress_state.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { DER_SEQUENCE = 0x30, DER_INTEGER = 0x02, DER_VERSION = 0xa0, DER_UTC_TIME = 0x17, DER_TIME = 0x18 };

/* Takes one element from the front: its content. False: it is not of this kind, or not whole. */
static bool der_take(struct str *from, unsigned kind, struct str *ret) {
        const unsigned char *p = (const unsigned char *)from->p;
        size_t head = 2, n;

        if (from->n < 2 || p[0] != kind)
                return false;

        n = p[1];
        if (n >= 0x80) {
                size_t bytes = n & 0x7f;

                if (bytes < 1 || bytes > 3 || from->n < 2 + bytes)
                        return false;

                n = 0;
                for (size_t i = 0; i < bytes; i++)
                        n = n << 8 | p[2 + i];

                head += bytes;
        }

        if (from->n - head < n)
                return false;

        *ret = str_n(from->p + head, n);
        *from = str_skip(*from, head + n);

        return true;
}

/* "261116083000Z" or "20261116083000Z". */
static bool der_take_time(struct str *from, char ret[static 24]) {
        struct str time;
        const char *century = "";

        if (der_take(from, DER_UTC_TIME, &time))
                century = time.n && time.p[0] < '5' ? "20" : "19";
        else if (!der_take(from, DER_TIME, &time))
                return false;

        char digits[24];
        int n = snprintf(digits, sizeof digits, "%s%.*s", century, (int)min_of(time.n, 20), time.p);
        if (n != 15 || strspn(digits, "0123456789") != 14 || digits[14] != 'Z')
                return false;

        snprintf(ret, 24, "%.4s-%.2s-%.2sT%.2s:%.2s:%.2sZ", digits, digits + 4, digits + 6, digits + 8, digits + 10,
                 digits + 12);
        return true;
}

static bool ca_expires(struct str der, char ret[static 24]) {
        struct str certificate, tbs, part, validity;
        char before[24];

        if (!der_take(&der, DER_SEQUENCE, &certificate) || !der_take(&certificate, DER_SEQUENCE, &tbs))
                return false;

        (void)der_take(&tbs, DER_VERSION, &part);
        return der_take(&tbs, DER_INTEGER, &part) && der_take(&tbs, DER_SEQUENCE, &part) &&
               der_take(&tbs, DER_SEQUENCE, &part) && der_take(&tbs, DER_SEQUENCE, &validity) &&
               der_take_time(&validity, before) && der_take_time(&validity, ret);
}

/* The lines between BEGIN and END. */
static int ca_decode(struct str pem, struct buf *der) {
        cleanup(buf_done) struct buf text = BUF(EGRESS_BYTES_MAX);
        struct str line;
        bool inside = false;

        while (str_split(&pem, '\n', &line)) {
                if (str_starts(line, STR("-----END"))) {
                        size_t n = 0;

                        if (buf_reserve(der, text.n) < 0 || !base64_decode(buf_str(&text), der->p, &n))
                                return -EBADMSG;

                        der->n = n;
                        return 0;
                }

                if (inside && buf_append(&text, line) < 0)
                        return -ENOMEM;
                inside = inside || str_starts(line, STR("-----BEGIN CERTIFICATE"));
        }

        return -EBADMSG;
}

int egress_ca(const char *directory, struct egress_ca *ret, struct err *err) {
        cleanup(buf_done) struct buf pem = BUF(EGRESS_BYTES_MAX), der = BUF(EGRESS_BYTES_MAX);
        unsigned char digest[DIGEST_BYTES];
        int r;

        *ret = (struct egress_ca){ 0 };
        r = egress_read(directory, EGRESS_CA, &pem, err);
        if (r < 0)
                return r;
        if (ca_decode(buf_str(&pem), &der) < 0 || !ca_expires(buf_str(&der), ret->expires))
                return err_set(err, EBADMSG, "%s is no certificate", EGRESS_CA);

        digest_sha256(buf_str(&der), digest);
        for (size_t i = 0; i < DIGEST_BYTES; i++)
                snprintf(ret->sha256 + 3 * i, 4, "%02X%s", digest[i], i + 1 < DIGEST_BYTES ? ":" : "");

        return 0;
}
