/* SPDX-License-Identifier: Apache-2.0 */
#include "roles/trust_store.h"

#include "base/base64.h"
#include "base/bounds.h"
#include "base/cleanup.h"
#include "base/paths/path.h"
#include "base/secrets/digest.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define BEGIN "-----BEGIN CERTIFICATE-----"
#define END "-----END CERTIFICATE-----"
enum { LINE = 64 };

static int read_system_roots(struct buf *ret, struct err *err) {
        static const char *const places[] = { "/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
                                              "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
                                              "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem" };
        const char *named = getenv("SSL_CERT_FILE");
        if (named && named[0])
                return path_read_file(named, TRUST_BYTES_MAX, ret, err);

        for (size_t i = 0; i < sizeof places / sizeof *places; i++)
                if (access(places[i], R_OK) == 0)
                        return path_read_file(places[i], TRUST_BYTES_MAX, ret, err);

        return 0;
}

static int read_roots(const char *configured, struct buf *ret, struct err *err) {
        int r = read_system_roots(ret, err);
        if (r < 0 || !configured || !configured[0])
                return r;

        cleanup(buf_done) struct buf more = BUF(TRUST_BYTES_MAX);
        r = path_read_file(configured, TRUST_BYTES_MAX, &more, err);
        if (r < 0)
                return r;

        if (ret->n > 0)
                r = buf_add_char(ret, '\n');
        else
                r = 0;
        if (r >= 0)
                r = buf_append(ret, buf_str(&more));

        if (r < 0)
                return err_set(err, -r, "the root certificates of the system and of %s are too large", configured);

        return 0;
}

static int put_pem(struct buf *pem, struct str certificate) {
        cleanup(free_ptr) char *text = malloc(base64_length(certificate.n));
        if (!text)
                return -ENOMEM;

        base64_encode(certificate, BASE64_STANDARD, text);
        int r = 0;

        if (pem->n > 0 && pem->p[pem->n - 1] != '\n')
                r = buf_add(pem, "\n");

        if (r >= 0)
                r = buf_add(pem, BEGIN "\n");
        for (struct str rest = str_n(text, base64_length(certificate.n)); r == 0 && rest.n > 0;) {
                struct str line = str_first(rest, min_of(rest.n, LINE));

                r = buf_append(pem, line);
                if (r >= 0)
                        r = buf_add(pem, "\n");
                rest = str_skip(rest, line.n);
        }

        if (r < 0)
                return r;

        return buf_add(pem, END "\n");
}

/* numbers as Java writes them */

static int put_number(struct buf *buf, uint64_t value, unsigned bytes) {
        char text[8];
        for (unsigned i = 0; i < bytes; i++)
                text[i] = (char)(value >> 8 * (bytes - 1 - i) & 0xff);
        return buf_append(buf, str_n(text, bytes));
}

static int put_text(struct buf *buf, struct str s) {
        int r = put_number(buf, s.n, 2);
        if (r < 0)
                return r;

        return buf_append(buf, s);
}

static int put_entry(struct buf *buf, unsigned number, struct str der) {
        cleanup(free_ptr) char *alias = str_format("root-%u", number);
        int r = alias ? put_number(buf, 2, 4) : -ENOMEM; /* a trusted certificate */

        if (r >= 0)
                r = put_text(buf, str_of(alias));
        if (r >= 0)
                r = put_number(buf, 0, 8); /* when it was added */
        if (r >= 0)
                r = put_text(buf, STR("X.509"));
        if (r >= 0)
                r = put_number(buf, der.n, 4);
        if (r < 0)
                return r;

        return buf_append(buf, der);
}

/* The bytes between the marks, or empty when they are not base64. `room` has as many bytes as `text`. */
static struct str decode_one(struct str text, char *room) {
        size_t n = 0, decoded;
        for (size_t i = 0; i < text.n; i++)
                if (ascii_is_alnum(text.p[i]) || text.p[i] == '+' || text.p[i] == '/' || text.p[i] == '=')
                        room[n++] = text.p[i];

        cleanup(free_ptr) char *bytes = malloc(n + 1);
        if (!bytes || !base64_decode(str_n(room, n), bytes, &decoded))
                return STR("");

        memcpy(room, bytes, decoded);
        return str_n(room, decoded);
}

static int put_entries(struct buf *buf, struct str pem, unsigned *ret_n) {
        cleanup(free_ptr) char *room = malloc(pem.n + 1);
        unsigned n = 0;
        int r = room ? 0 : -ENOMEM;
        while (r == 0) {
                const char *from = memmem(pem.p, pem.n, BEGIN, strlen(BEGIN));

                pem = from ? str_skip(pem, (size_t)(from - pem.p) + strlen(BEGIN)) : STR("");
                const char *to = pem.n ? memmem(pem.p, pem.n, END, strlen(END)) : NULL;
                if (!to)
                        break;

                struct str der = decode_one(str_first(pem, (size_t)(to - pem.p)), room);
                if (der.n > 0)
                        r = put_entry(buf, n++, der);

                pem = str_skip(pem, (size_t)(to - pem.p));
        }

        *ret_n = n;
        return r;
}

void trust_store_done(struct trust_store *store) {
        buf_done(&store->pem);
        buf_done(&store->entries);
        store->n = 0;
}

static int store_error(int r, struct err *err) {
        if (r == -ENOMEM)
                return err_memory(err);
        if (r < 0)
                return err_set(err, -r, "the bundle of certificates is too large");

        return 0;
}

int trust_store_read(struct trust_store *store, const char *configured, struct err *err) {
        int r = read_roots(configured, &store->pem, err);
        if (r < 0)
                return r;

        r = buf_reserve(&store->entries, store->pem.n); /* in one piece */
        return store_error(r < 0 ? r : put_entries(&store->entries, buf_str(&store->pem), &store->n), err);
}

int trust_store_add(struct trust_store *store, struct str certificate, struct err *err) {
        int r = put_pem(&store->pem, certificate);

        return store_error(r < 0 ? r : put_entry(&store->entries, store->n++, certificate), err);
}

int trust_store_java(const struct trust_store *store, struct buf *ret, struct err *err) {
        int r = buf_reserve(ret, store->entries.n + DIGEST_SHA1_BYTES + 16);

        if (r >= 0)
                r = put_number(ret, 0xfeedfeed, 4);
        if (r >= 0)
                r = put_number(ret, 2, 4);
        if (r >= 0)
                r = put_number(ret, store->n, 4);
        if (r >= 0)
                r = buf_append(ret, buf_str(&store->entries));

        static const char password[] = "\0c\0h\0a\0n\0g\0e\0i\0t";
        const struct str pieces[] = { str_n(password, sizeof password - 1), STR("Mighty Aphrodite"), buf_str(ret) };
        unsigned char digest[DIGEST_SHA1_BYTES];
        digest_sha1(pieces, 3, digest);
        if (r >= 0)
                r = buf_append(ret, str_n(digest, sizeof digest));

        if (r < 0)
                return err_set(err, -r, "the key store for Java is too large");

        return 0;
}
