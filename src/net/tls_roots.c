/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The system's roots. A bundle has some 150 certificates, and parsing them all takes tens of milliseconds, of which a
 * connection needs one or two. So when the first origin is connected to they are only decoded, and it is noted where
 * the subject of each lies. OpenSSL asks for an issuer by its name (X509_LOOKUP), and those of that name are parsed
 * then and stay in the store. The list never changes, and the store has a lock of its own: any number of threads may
 * ask. An issuer is written as its own certificate writes it (RFC 5280, 7.1); only when none is, names are compared
 * as names.
 *
 * As with OpenSSL's own programs, the environment says where they are: $SSL_CERT_FILE replaces the distribution's
 * bundle, and $SSL_CERT_DIR adds to it.
 */
#include "net/tls_internal.h"

#include "base/base64.h"
#include "base/cleanup.h"
#include "base/paths/path.h"
#include "base/vec.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <openssl/asn1.h>
#include <openssl/err.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROOTS_BYTES_MAX = 16 << 20 };

#define PEM_BEGIN STR("-----BEGIN CERTIFICATE-----")
#define PEM_END STR("-----END CERTIFICATE-----")

/* Where distributions keep them. */
static const char *const system_root_files[] = {
        "/etc/ssl/certs/ca-certificates.crt",                /* Debian, Alpine, Arch */
        "/etc/pki/tls/certs/ca-bundle.crt",                  /* Fedora */
        "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", /* RHEL */
        "/etc/ssl/ca-bundle.pem",                            /* SUSE */
        "/etc/ssl/cert.pem",
};

/* files */

static int read_bundle(struct buf *text, struct err *err) {
        const char *named = getenv("SSL_CERT_FILE");
        if (named && *named)
                return path_read_file(named, ROOTS_BYTES_MAX, text, err);

        for (size_t i = 0; i < sizeof system_root_files / sizeof *system_root_files; i++) {
                int r = path_read_file(system_root_files[i], ROOTS_BYTES_MAX, text, err);
                if (r != -ENOENT)
                        return r;
        }

        err_clear(err);
        return 0;
}

static void close_dir(DIR **dir) {
        if (*dir)
                closedir(*dir);
}

/* What cannot be read there is passed over: such directories hold links to files that went away. */
static int read_directory(struct buf *text, struct err *err) {
        const char *named = getenv("SSL_CERT_DIR");
        if (!named || !*named)
                return 0;

        cleanup(close_dir) DIR *d = opendir(named);
        if (!d)
                return err_set(err, errno, "cannot read $SSL_CERT_DIR, %s", named);

        for (const struct dirent *entry; (entry = readdir(d));) {
                cleanup(buf_done) struct buf one = BUF(ROOTS_BYTES_MAX);
                char path[PATH_MAX];
                int n = snprintf(path, sizeof path, "%s/%s", named, entry->d_name);
                if (entry->d_name[0] == '.' || n >= (int)sizeof path ||
                    path_read_file(path, ROOTS_BYTES_MAX, &one, NULL) < 0)
                        continue;

                int r = buf_append(text, buf_str(&one));
                if (r == 0)
                        r = buf_add_char(text, '\n');
                if (r < 0)
                        return err_set(err, -r, "what is in $SSL_CERT_DIR, %s, is too large", named);
        }

        return 0;
}

int tls_roots_read(struct str *ret, struct err *err) {
        cleanup(buf_done) struct buf text = BUF(ROOTS_BYTES_MAX);
        int r = read_bundle(&text, err);

        if (r >= 0)
                r = buf_add_char(&text, '\n');
        if (r >= 0)
                r = read_directory(&text, err);
        if (r < 0)
                return err_wrap(err, r, "while reading the system's root certificates");

        *ret = buf_str(&text);
        text = (struct buf){ 0 };

        return 0;
}

/* the index */

struct root {
        uint32_t at, n;           /* in der */
        uint32_t subject, name_n; /* also in der */
};

struct roots {
        struct buf der;
        VEC(struct root) list;
};

static void roots_free(struct roots *roots) {
        if (!roots)
                return;
        buf_done(&roots->der);
        vec_done(&roots->list);
        free(roots);
}

static void roots_freep(struct roots **roots) {
        roots_free(*roots);
}

/* Steps into the element at *p (a sequence), or over it. False: it is not there. */
static bool roots_step(const unsigned char **p, const unsigned char *end, bool into) {
        long length;
        int tag, class;
        int kind = *p < end ? ASN1_get_object(p, &length, &tag, &class, end - *p) : 0x80;
        if (kind & 0x80)
                return false;
        if (!into)
                *p += length;

        return true;
}

/* The subject of a certificate: version, serial number, algorithm, issuer and validity come before it. p is NULL when
 * it is not there. */
static struct str subject_of(struct str der) {
        const struct str none = { 0 };
        const unsigned char *p = (const unsigned char *)der.p, *end = p + der.n;

        for (int i = 0; i < 2; i++) /* the certificate, and in it what is signed */
                if (!roots_step(&p, end, true))
                        return none;

        if (p < end && *p == (V_ASN1_CONTEXT_SPECIFIC | V_ASN1_CONSTRUCTED) && !roots_step(&p, end, false))
                return none;

        for (int i = 0; i < 4; i++)
                if (!roots_step(&p, end, false))
                        return none;

        const unsigned char *subject = p;
        return roots_step(&p, end, false) ? str_n(subject, (size_t)(p - subject)) : none;
}

/* The bytes of one PEM text, appended; how many, 0 when it is malformed. (OpenSSL's own decoder takes three
 * milliseconds for a bundle.) */
static size_t roots_decode(struct buf *to, struct str text) {
        if (buf_reserve(to, text.n) < 0)
                return 0;

        char *out = to->p + to->n;
        size_t n = 0;
        for (struct str line; str_split(&text, '\n', &line);) {
                line = str_trim(str_first(line, line.n - (line.n > 0 && line.p[line.n - 1] == '\r')));
                memcpy(out + n, line.p, line.n);
                n += line.n;
        }

        if (base64_decode(str_n(out, n), out, &n))
                return n;

        return 0;
}

/* -ENOMEM. What is no certificate is passed over: bundles of distributions hold odd things. */
static int add_root(struct roots *to, struct str pem) {
        size_t n = roots_decode(&to->der, pem);
        struct str subject = subject_of(str_n(to->der.p + to->der.n, n));

        ERR_clear_error();
        if (!subject.p)
                return 0;

        struct root root = { (uint32_t)to->der.n, (uint32_t)n, (uint32_t)(subject.p - to->der.p), (uint32_t)subject.n };
        to->der.n += n;

        return vec_push(&to->list, root);
}

static int make_index(struct str pem, struct roots **ret) {
        cleanup(roots_freep) struct roots *made = calloc(1, sizeof *made);
        if (!made)
                return -ENOMEM;

        made->der = BUF(ROOTS_BYTES_MAX);
        int r = buf_reserve(&made->der, pem.n);
        const char *end = pem.p + pem.n;

        for (const char *at = pem.p; r == 0 && at;) {
                at = memmem(at, (size_t)(end - at), PEM_BEGIN.p, PEM_BEGIN.n);
                const char *body = at ? at + PEM_BEGIN.n : NULL;
                at = body ? memmem(body, (size_t)(end - body), PEM_END.p, PEM_END.n) : NULL;
                if (at)
                        r = add_root(made, str_n(body, (size_t)(at - body)));
        }

        *ret = r == 0 ? take_ptr(&made) : NULL;
        return r;
}

/* what OpenSSL asks */

static void on_free(X509_LOOKUP *lookup) {
        roots_free(X509_LOOKUP_get_method_data(lookup));
}

/* The caller does not own what it gets: it is the store's. */
static int hand_out(X509_STORE *store, const X509_NAME *name, X509_OBJECT *ret) {
        X509_STORE_lock(store);
        X509_OBJECT *found = X509_OBJECT_retrieve_by_subject(X509_STORE_get0_objects(store), X509_LU_X509, name);
        X509 *x = found ? X509_OBJECT_get0_X509(found) : NULL;
        int good = x && X509_OBJECT_set1_X509(ret, x) == 1;
        if (good)
                X509_free(x);

        X509_STORE_unlock(store);
        return good;
}

static struct str name_of(const struct roots *roots, const struct root *root) {
        return str_n(roots->der.p + root->subject, root->name_n);
}

static bool is_same_name(struct str subject, const X509_NAME *name) {
        const unsigned char *p = (const unsigned char *)subject.p;
        X509_NAME *parsed = d2i_X509_NAME(NULL, &p, (long)subject.n);
        bool same = parsed && X509_NAME_cmp(parsed, name) == 0;
        X509_NAME_free(parsed);
        return same;
}

/* Into the store, also when it is there already. */
static bool add_to_store(X509_STORE *store, const struct roots *roots, const struct root *root) {
        X509 *x = tls_certificate(str_n(roots->der.p + root->at, root->n));
        bool good = x && X509_STORE_add_cert(store, x) == 1;
        X509_free(x);
        return good;
}

static int on_wanted(X509_LOOKUP *lookup, X509_LOOKUP_TYPE type, const X509_NAME *name, X509_OBJECT *ret) {
        const struct roots *roots = X509_LOOKUP_get_method_data(lookup);
        X509_STORE *store = X509_LOOKUP_get_store(lookup);
        const unsigned char *written;
        size_t written_n;

        if (type != X509_LU_X509 || X509_NAME_get0_der(name, &written, &written_n) != 1)
                return 0;

        bool any = false;

        for (size_t i = 0; i < roots->list.n; i++)
                if (str_eq(name_of(roots, &roots->list.p[i]), str_n(written, written_n)))
                        any |= add_to_store(store, roots, &roots->list.p[i]);

        for (size_t i = 0; !any && i < roots->list.n; i++)
                if (is_same_name(name_of(roots, &roots->list.p[i]), name))
                        any = add_to_store(store, roots, &roots->list.p[i]);

        ERR_clear_error();
        return any && hand_out(store, name, ret);
}

int tls_roots_install(X509_STORE *store, struct str pem, X509_LOOKUP_METHOD **ret) {
        cleanup(roots_freep) struct roots *roots = NULL;
        int r = make_index(pem, &roots);
        if (r < 0)
                return r;

        X509_LOOKUP_METHOD *method = X509_LOOKUP_meth_new("roots by name");
        bool good = method && X509_LOOKUP_meth_set_get_by_subject(method, on_wanted) == 1 &&
                    X509_LOOKUP_meth_set_free(method, on_free) == 1;
        X509_LOOKUP *lookup = good ? X509_STORE_add_lookup(store, method) : NULL;
        if (!lookup) {
                X509_LOOKUP_meth_free(method);
                return -ENOMEM;
        }

        X509_LOOKUP_set_method_data(lookup, take_ptr(&roots));
        *ret = method;

        return 0;
}
