/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OpenSSL with less in its way. For the public key of every certificate OpenSSL 3.0 looks through all decoders that its
 * providers have, nearly all of them for keys in files: that takes four times as long as the rest of parsing it. And
 * using one cipher of a provider initialises all of them. So TLS has a library context of its own, whose only provider
 * hands out what the default provider has, except for the decoders that no certificate needs and the ciphers that no
 * suite of ours has.
 *
 * Nothing is implemented here: every function is the default provider's, which lives in a context of its own. What TLS
 * may use is decided by its settings, not by this. If the default provider lacks something that is named here (another
 * version, perhaps), or there are no random numbers, TLS uses OpenSSL unchanged.
 *
 * From OpenSSL 3.5 on, a generator of random numbers is told the name of the provider that it was taken from, and looks
 * there for its ciphers: in its own context, which is that of the default provider. So ours is known by name there,
 * too, and has everything.
 */
#include "net/tls_internal.h"

#include <openssl/core_dispatch.h>
#include <openssl/provider.h>
#include <openssl/rand.h>
#include <stdlib.h>

#define NAME "bailey"

/* A function of the kind that the number before it in a table says. */
typedef void (*any_function)(void);

static OSSL_PROVIDER *whole; /* the default one */

/* what is kept */

/* Of one kind of algorithm. Kinds that are not named are kept as they are. */
static struct part {
        int operation;
        bool only;            /* keep these, each of which must be there; else all but these */
        const char *names[8]; /* their first names: they have several */
        OSSL_ALGORITHM *kept; /* with an empty one at their end */
} parts[] = {
        { OSSL_OP_CIPHER,
          true,
          { "AES-128-GCM", "AES-256-GCM", "ChaCha20-Poly1305", "AES-128-CBC", "AES-256-CBC", "AES-128-CCM",
            "AES-256-CCM" },
          NULL },
        { OSSL_OP_DECODER, false, { "DH", "DHX", "DSA", "SM2", "X25519", "X448" }, NULL },
};
enum { PARTS = sizeof parts / sizeof parts[0], NAMES = sizeof parts[0].names / sizeof parts[0].names[0] };

static bool is_named(const struct part *part, const OSSL_ALGORITHM *a) {
        struct str own = str_n(a->algorithm_names, strcspn(a->algorithm_names, ":"));
        for (size_t i = 0; i < NAMES && part->names[i]; i++)
                if (str_eq(own, str_of(part->names[i])))
                        return true;
        return false;
}

/* Of decoders, those of a public key as it is in a certificate. */
static bool is_wanted(const struct part *part, const OSSL_ALGORITHM *a) {
        if (part->operation == OSSL_OP_DECODER && (!strstr(a->property_definition, "input=der") ||
                                                   !strstr(a->property_definition, "structure=SubjectPublicKeyInfo")))
                return false;
        return is_named(part, a) == part->only;
}

/* False when something is missing: an algorithm, or memory. */
static bool library_keep(struct part *part) {
        int no_cache = 0;
        const OSSL_ALGORITHM *all = OSSL_PROVIDER_query_operation(whole, part->operation, &no_cache);
        size_t n_all = 0, n = 0, least = 0;
        while (all && all[n_all].algorithm_names)
                n_all++;

        part->kept = calloc(n_all + 1, sizeof *part->kept);
        for (size_t i = 0; part->kept && i < n_all; i++)
                if (is_wanted(part, &all[i]))
                        part->kept[n++] = all[i];

        while (part->only && least < NAMES && part->names[least])
                least++;

        return n > 0 && n >= least;
}

static bool keep_all(void) {
        for (size_t i = 0; i < PARTS; i++)
                if (!library_keep(&parts[i]))
                        return false;
        return true;
}

/* the provider */

static const OSSL_ALGORITHM *on_query(void *unused, int operation, int *no_cache) {
        (void)unused;
        *no_cache = 0;
        for (size_t i = 0; i < PARTS; i++)
                if (parts[i].operation == operation)
                        return parts[i].kept;
        return OSSL_PROVIDER_query_operation(whole, operation, no_cache);
}

static const OSSL_ALGORITHM *on_query_whole(void *unused, int operation, int *no_cache) {
        (void)unused;
        return OSSL_PROVIDER_query_operation(whole, operation, no_cache);
}

static const OSSL_PARAM *on_gettable(void *unused) {
        (void)unused;
        return OSSL_PROVIDER_gettable_params(whole);
}

static int on_get(void *unused, OSSL_PARAM params[]) {
        (void)unused;
        return OSSL_PROVIDER_get_params(whole, params);
}

/* The groups that TLS may use. */
static int on_capabilities(void *unused, const char *which, OSSL_CALLBACK *tell, void *to) {
        (void)unused;
        return OSSL_PROVIDER_get_capabilities(whole, which, tell, to);
}

static int on_load(const OSSL_CORE_HANDLE *handle, const OSSL_DISPATCH *from_core, const OSSL_DISPATCH **ret,
                   void **ret_context) {
        static const OSSL_DISPATCH functions[] = {
                { OSSL_FUNC_PROVIDER_QUERY_OPERATION, (any_function)on_query },
                { OSSL_FUNC_PROVIDER_GETTABLE_PARAMS, (any_function)on_gettable },
                { OSSL_FUNC_PROVIDER_GET_PARAMS, (any_function)on_get },
                { OSSL_FUNC_PROVIDER_GET_CAPABILITIES, (any_function)on_capabilities },
                { 0, NULL },
        };

        (void)handle;
        (void)from_core;
        *ret = functions;
        *ret_context = OSSL_PROVIDER_get0_provider_ctx(whole);

        return 1;
}

static int on_load_whole(const OSSL_CORE_HANDLE *handle, const OSSL_DISPATCH *from_core, const OSSL_DISPATCH **ret,
                         void **ret_context) {
        static const OSSL_DISPATCH functions[] = {
                { OSSL_FUNC_PROVIDER_QUERY_OPERATION, (any_function)on_query_whole },
                { 0, NULL },
        };

        (void)handle;
        (void)from_core;
        *ret = functions;
        *ret_context = OSSL_PROVIDER_get0_provider_ctx(whole);

        return 1;
}

static OSSL_LIB_CTX *context;

static bool library_load(OSSL_LIB_CTX *to, OSSL_provider_init_fn *init) {
        return OSSL_PROVIDER_add_builtin(to, NAME, init) == 1 && OSSL_PROVIDER_load(to, NAME);
}

/* It stays for as long as the process, as OpenSSL's own does. */
static void library_make(void) {
        OSSL_LIB_CTX *all = OSSL_LIB_CTX_new(), *some = OSSL_LIB_CTX_new();

        whole = all ? OSSL_PROVIDER_load(all, "default") : NULL;
        if (whole && some && keep_all() && library_load(all, on_load_whole) && library_load(some, on_load) &&
            RAND_get0_primary(some)) {
                context = some;
                return;
        }

        for (size_t i = 0; i < PARTS; i++)
                free(parts[i].kept);

        OSSL_LIB_CTX_free(some);
        OSSL_LIB_CTX_free(all);
}

OSSL_LIB_CTX *tls_library(void) {
        static pthread_once_t once = PTHREAD_ONCE_INIT;
        pthread_once(&once, library_make);
        return context;
}

X509 *tls_certificate(struct str der) {
        const unsigned char *p = (const unsigned char *)der.p, *end = p + der.n;
        X509 *x = der.n <= INT32_MAX ? X509_new_ex(tls_library(), NULL) : NULL;
        if (x && d2i_X509(&x, &p, (long)der.n) && p == end)
                return x;
        X509_free(x);
        return NULL;
}
