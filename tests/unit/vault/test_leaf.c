/* SPDX-License-Identifier: Apache-2.0 */
#include "vault/leaf.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/files/tree.h"
#include "base/paths/path.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../cmocka_all.h"

static uint8_t *gateway_key;
static struct str key;

static int set_up(void **state) {
        (void)state;
        EVP_PKEY *p = EVP_EC_gen("P-256");
        int n = i2d_PUBKEY(p, &gateway_key);
        key = str_n(gateway_key, (size_t)n);
        EVP_PKEY_free(p);
        return n > 0 ? 0 : -1;
}

static int tear_down(void **state) {
        (void)state;
        OPENSSL_free(gateway_key);
        return 0;
}

static struct host host(const char *text) {
        struct host h;
        assert_int_equal(host_parse(str_of(text), &h, NULL), 0);
        return h;
}

static X509 *parse(struct str der) {
        const uint8_t *at = (const uint8_t *)der.p;
        X509 *x = d2i_X509(NULL, &at, (long)der.n);
        assert_non_null(x);
        assert_ptr_equal(at, (const uint8_t *)der.p + der.n);
        return x;
}

/* As a client would: the chain, the purpose, the name, the times. */
static bool accepted(struct ca *ca, struct str leaf, const struct host *for_host) {
        X509 *root = parse(ca_certificate(ca)), *x = parse(leaf);
        X509_STORE *store = X509_STORE_new();
        X509_STORE_CTX *context = X509_STORE_CTX_new();
        X509_STORE_add_cert(store, root);
        X509_STORE_CTX_init(context, store, x, NULL);
        X509_VERIFY_PARAM *p = X509_STORE_CTX_get0_param(context);
        X509_VERIFY_PARAM_set_flags(p, X509_V_FLAG_X509_STRICT | X509_V_FLAG_CHECK_SS_SIGNATURE);
        X509_VERIFY_PARAM_set_purpose(p, X509_PURPOSE_SSL_SERVER);
        if (for_host->kind == HOST_ADDR)
                X509_VERIFY_PARAM_set1_ip_asc(p, for_host->name);
        else
                X509_VERIFY_PARAM_set1_host(p, for_host->name, 0);
        bool good = X509_verify_cert(context) == 1;
        if (!good)
                print_message("%s\n", X509_verify_cert_error_string(X509_STORE_CTX_get_error(context)));
        X509_STORE_CTX_free(context);
        X509_STORE_free(store);
        X509_free(root);
        X509_free(x);
        return good;
}

static void leaves_are_accepted_for_their_host_only(void **state) {
        (void)state;
        static const enum vault_ca kinds[] = { VAULT_CA_P256, VAULT_CA_RSA4096 };
        char longest[HOST_TEXT_MAX + 1] = "";
        for (size_t i = 0; i + 2 < sizeof longest; i += 2)
                memcpy(longest + i, i + 4 < sizeof longest ? "a." : "aa", 3);
        const char *const names[] = { "api.example.com", "a_b.example.com", "127.0.0.1", "[2001:db8::1]", longest };
        const struct host other = host("evil.example.com");
        for (size_t k = 0; k < 2; k++) {
                struct ca *ca = NULL;
                struct leaves *l = NULL;
                struct err e = { 0 };
                assert_int_equal(ca_new(kinds[k], "test", &ca, &e), 0);
                assert_int_equal(leaves_new(ca, &l, &e), 0);
                for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
                        struct str leaf;
                        struct host h = host(names[i]);
                        assert_int_equal(leaves_get(l, &h, key, &leaf, &e), 0);
                        assert_true(accepted(ca, leaf, &h));
                        assert_false(accepted(ca, leaf, &other));
                        X509 *x = parse(leaf);
                        int days, seconds;
                        ASN1_TIME_diff(&days, &seconds, X509_get0_notBefore(x), X509_get0_notAfter(x));
                        assert_true(days > 1 && days <= 398);
                        assert_true(X509_cmp_current_time(X509_get0_notBefore(x)) < 0);
                        assert_int_equal(X509_check_ca(x), 0);
                        uint8_t *has = NULL;
                        int n = i2d_PUBKEY(X509_get0_pubkey(x), &has);
                        assert_true(str_eq(str_n(has, (size_t)n), key));
                        OPENSSL_free(has);
                        X509_free(x);
                }
                leaves_free(l);
                ca_free(ca);
        }
}

static void other_keys_are_refused(void **state) {
        (void)state;
        struct ca *ca = NULL;
        struct leaves *l = NULL;
        struct err e = { 0 };
        struct host h = host("a.test");
        struct str leaf;
        assert_int_equal(ca_new(VAULT_CA_P256, "test", &ca, &e), 0);
        assert_int_equal(leaves_new(ca, &l, &e), 0);
        char bad[91];
        memcpy(bad, key.p, sizeof bad);
        bad[20] ^= 1;
        assert_int_equal(leaves_get(l, &h, str_n(bad, sizeof bad), &leaf, &e), -EINVAL);
        assert_int_equal(leaves_get(l, &h, str_first(key, 90), &leaf, &e), -EINVAL);
        assert_int_equal(leaves_get(l, &h, STR(""), &leaf, &e), -EINVAL);
        assert_int_equal(leaves_minted(l), 0);
        leaves_free(l);
        ca_free(ca);
}

/* 10,000 hosts: the cache does not grow beyond its limit, and what is asked for again is not made again. */
static void ten_thousand_mints_are_bounded(void **state) {
        (void)state;
        struct ca *ca = NULL;
        struct leaves *l = NULL;
        struct err e = { 0 };
        struct str leaf;
        char name[64];
        assert_int_equal(ca_new(VAULT_CA_P256, "test", &ca, &e), 0);
        assert_int_equal(leaves_new(ca, &l, &e), 0);
        uint64_t began = clock_ns();
        for (int i = 0; i < 10000; i++) {
                snprintf(name, sizeof name, "h%d.example.com", i);
                struct host h = host(name), hot = host("hot.example.com");
                assert_int_equal(leaves_get(l, &h, key, &leaf, &e), 0);
                assert_int_equal(leaves_get(l, &hot, key, &leaf, &e), 0);
                assert_true(leaves_count(l) <= LEAVES_MAX);
        }
        print_message("%.1f us for one\n", (double)(clock_ns() - began) / 10000 / 1000);
        assert_int_equal(leaves_minted(l), 10001); /* the one that was used all the time was made once */
        assert_int_equal(leaves_count(l), LEAVES_MAX);
        struct mallinfo2 before = mallinfo2();
        for (int i = 0; i < 5000; i++) {
                snprintf(name, sizeof name, "g%d.example.com", i);
                struct host h = host(name);
                assert_int_equal(leaves_get(l, &h, key, &leaf, &e), 0);
        }
        struct mallinfo2 after = mallinfo2();
        assert_true(after.uordblks < before.uordblks + 256 * 1024);
        leaves_free(l);
        ca_free(ca);
}

/* The CA survives the process that made it, in memory that is only handed on. */
static void kept_ca_is_the_same(void **state) {
        (void)state;
        struct ca *a = NULL, *b = NULL;
        struct err e = { 0 };
        cleanup(close_fd) int fd = memfd_create("keep", MFD_CLOEXEC);
        assert_int_equal(ftruncate(fd, VAULT_KEEP_BYTES), 0);
        assert_int_equal(ca_keep(fd, VAULT_CA_P256, "one", &a, &e), 0);
        assert_int_equal(ca_keep(fd, VAULT_CA_RSA4096, "two", &b, &e), 0);
        assert_true(str_eq(ca_certificate(a), ca_certificate(b)));
        struct leaves *l = NULL;
        struct str leaf;
        struct host h = host("a.test");
        assert_int_equal(leaves_new(b, &l, &e), 0);
        assert_int_equal(leaves_get(l, &h, key, &leaf, &e), 0);
        assert_true(accepted(a, leaf, &h));
        leaves_free(l);
        ca_free(a);
        ca_free(b);
        const uint32_t much = UINT32_MAX;
        assert_int_equal(pwrite(fd, &much, sizeof much, 8), sizeof much);
        assert_int_equal(ca_keep(fd, VAULT_CA_P256, "three", &a, &e), -EBADMSG);
}

static char *top;

static char *below(const char *name) {
        return path_join(top, name);
}

static void assert_mode(const char *path, unsigned mode) {
        struct stat st;
        assert_int_equal(lstat(path, &st), 0);
        assert_int_equal(st.st_mode & 07777, mode);
}

static void ca_in_a_directory(void **state) {
        (void)state;
        char name[] = "/tmp/bailey-ca-XXXXXX";
        assert_non_null(mkdtemp(name));
        top = name;
        cleanup(free_ptr) char *dir = below("ca"), *key_path = below("ca/ca.key"), *path = below("ca/ca.crt"),
                               *victim = below("victim");
        struct ca *a = NULL, *b = NULL;
        struct err e = { 0 };
        mode_t mask = umask(0); /* the worst that a caller may have */
        assert_int_equal(ca_open(dir, VAULT_CA_P256, "egress", &a, &e), 0);
        umask(mask);
        assert_mode(dir, 0700);
        assert_mode(key_path, 0600);
        assert_mode(path, 0644);
        assert_int_equal(ca_open(dir, VAULT_CA_P256, "egress", &b, &e), 0);
        assert_true(str_eq(ca_certificate(a), ca_certificate(b)));
        ca_free(take_ptr(&a));
        ca_free(take_ptr(&b));

        /* A key that others could have read is not used. */
        assert_int_equal(chmod(key_path, 0640), 0);
        assert_int_equal(ca_open(dir, VAULT_CA_P256, "egress", &a, &e), -EPERM);
        assert_non_null(strstr(e.text, "chmod 600"));
        assert_int_equal(chmod(key_path, 0600), 0);

        /* Links are not followed, for reading or for writing. */
        assert_int_equal(path_replace_file(victim, STR("precious"), 0600, &e), 0);
        assert_int_equal(unlink(key_path), 0);
        assert_int_equal(symlink(victim, key_path), 0);
        assert_int_equal(ca_open(dir, VAULT_CA_P256, "egress", &a, &e), -ELOOP);
        assert_non_null(strstr(e.text, "link"));
        cleanup(buf_done) struct buf content = BUF(100);
        assert_int_equal(path_read_file(victim, 100, &content, &e), 0);
        assert_true(str_is(buf_str(&content), "precious"));

        /* Halves, and halves of different ones. */
        assert_int_equal(unlink(key_path), 0);
        assert_int_equal(ca_open(dir, VAULT_CA_P256, "egress", &a, &e), -ENOENT);
        assert_int_equal(path_replace_file(key_path, STR("nonsense"), 0600, &e), 0);
        assert_int_equal(ca_open(dir, VAULT_CA_P256, "egress", &a, &e), -EBADMSG);
        assert_non_null(strstr(e.text, "remove both"));
        assert_int_equal(unlink(path), 0); /* a key that never had a certificate */
        assert_int_equal(ca_open(dir, VAULT_CA_P256, "egress", &a, &e), 0);
        ca_free(a);
        assert_int_equal(tree_remove(AT_FDCWD, top), 0);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(leaves_are_accepted_for_their_host_only),
                cmocka_unit_test(other_keys_are_refused),
                cmocka_unit_test(ten_thousand_mints_are_bounded),
                cmocka_unit_test(kept_ca_is_the_same),
                cmocka_unit_test(ca_in_a_directory),
        };
        return cmocka_run_group_tests(tests, set_up, tear_down);
}
