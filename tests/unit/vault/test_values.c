/* SPDX-License-Identifier: Apache-2.0 */
#include "vault/values.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/secrets/digest.h"
#include "vault/aws.h"
#include "vault/source.h"
#include "vault/stand_in.h"

#include <errno.h>
#include <stdio.h>

#include "../cmocka_all.h"

static bool same_kind(char a, char b) {
        return ascii_is_alnum(a) ? ascii_is_alnum(b) : a == b;
}

static void stand_ins_look_alike(void **state) {
        (void)state;
        struct stand_in_source random = STAND_IN_RANDOM;
        static const struct {
                const char *real, *prefix, *keeps, *alphabet;
        } cases[] = {
                { "sk-ant-api03-abcDEF123456-xyz_XYZ789", "sk-ant-", "sk-ant-api03-", NULL },
                { "ghp_16C7e42F292c6912E7710c838347Ae178B4a", "", "ghp_", NULL },
                { "AKIAIOSFODNN7EXAMPLE", "", "AKIA", "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789" },
                { "xoxb-123456789012-1234567890123-AbCdEfGhIjKl", "xox", "xoxb-", NULL },
                { "0123456789abcdef0123456789abcdef", "", "", "0123456789abcdef" },
                { "corp-0123456789", "corp-", "corp-", "0123456789" },
                { "hunter2hunter2", "", "", "abcdefghijklmnopqrstuvwxyz0123456789" },
        };
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                struct str real = str_of(cases[i].real), keeps = str_of(cases[i].keeps);
                char stand_in[128], again[128];
                struct err e = { 0 };
                assert_int_equal(stand_in_make(&random, real, str_of(cases[i].prefix), stand_in, &e), 0);
                assert_int_equal(stand_in_make(&random, real, str_of(cases[i].prefix), again, &e), 0);
                assert_memory_not_equal(stand_in, again, real.n);
                assert_true(str_starts(str_n(stand_in, real.n), keeps));
                assert_null(memmem(stand_in, real.n, real.p + keeps.n, real.n - keeps.n));
                for (size_t k = 0; k < real.n; k++) {
                        assert_true(same_kind(real.p[k], stand_in[k]));
                        if (cases[i].alphabet && k >= keeps.n)
                                assert_non_null(strchr(cases[i].alphabet, stand_in[k]));
                }
                assert_true(stand_in_is_apart(str_n(stand_in, real.n), real, str_of(cases[i].prefix)));
                assert_false(stand_in_is_apart(real, real, str_of(cases[i].prefix)));
        }
}

static void a_seed_gives_the_same_each_time(void **state) {
        (void)state;
        const struct str real = STR("sk-proj-Rea1OpenAiVa1ue0123456789abcdefXYZ"),
                         same_form = STR("sk-proj-New1OpenAiVa1ue5555555555aaaaaaXYZ");
        const uint8_t seed[DIGEST_BYTES] = { 1 }, other[DIGEST_BYTES] = { 2 };
        char first[64] = "", again[64] = "", moved[64] = "", part[64] = "";
        struct stand_in_source source;

        stand_in_source_seed(&source, seed, PART_VALUE);
        assert_int_equal(stand_in_make(&source, real, STR(""), first, NULL), 0);
        stand_in_source_seed(&source, seed, PART_VALUE);
        assert_int_equal(stand_in_make(&source, same_form, STR(""), again, NULL), 0);
        assert_string_equal(first, again);

        stand_in_source_seed(&source, other, PART_VALUE);
        assert_int_equal(stand_in_make(&source, real, STR(""), moved, NULL), 0);
        stand_in_source_seed(&source, seed, PART_KEY_ID);
        assert_int_equal(stand_in_make(&source, real, STR(""), part, NULL), 0);
        assert_string_not_equal(first, moved);
        assert_string_not_equal(first, part);
}

static void what_has_no_stand_in_is_refused(void **state) {
        (void)state;
        char stand_in[64];
        struct err e = { 0 };
        struct stand_in_source random = STAND_IN_RANDOM;
        assert_int_equal(stand_in_make(&random, STR("sk-ant-api03-abc"), STR(""), stand_in, &e), -EINVAL);
        assert_null(strstr(e.text, "abc"));
        assert_int_equal(stand_in_make(&random, STR("!!!!++++!!!!"), STR(""), stand_in, &e), -EINVAL);
}

/* The derived key of the example in AWS's documentation of Signature Version 4. */
static void signing_key_of_the_specification(void **state) {
        (void)state;
        uint8_t derived[VAULT_DIGEST_BYTES];
        char hex[DIGEST_HEX_MAX];
        assert_int_equal(aws_signing_key(STR("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"), STR("20150830"),
                                         STR("us-east-1"), STR("iam"), derived, NULL),
                         0);
        digest_hex(derived, hex);
        assert_string_equal(hex, "c4afb1cc5771d871763a393e44b703571b55cc28424d1a5e86da6ed3c154a4b9");
}

static void aws_texts(void **state) {
        (void)state;
        static const char *const good[] = {
                "AWS_ACCESS_KEY_ID=AKIDAKID\nAWS_SECRET_ACCESS_KEY=secret00\nAWS_SESSION_TOKEN=token000\n",
                "export AWS_ACCESS_KEY_ID=\"AKIDAKID\"\r\nexport AWS_SECRET_ACCESS_KEY='secret00'\r\nexport "
                "AWS_SESSION_TOKEN=token000",
                "[default]\naws_access_key_id = AKIDAKID\naws_secret_access_key = secret00\nregion = x\n"
                "aws_session_token = token000\n",
        };
        struct err e = { 0 };
        struct aws a;
        for (size_t i = 0; i < 3; i++) {
                assert_int_equal(aws_parse(str_of(good[i]), &a, &e), 0);
                assert_true(str_is(a.key_id, "AKIDAKID"));
                assert_true(str_is(a.secret_key, "secret00"));
                assert_true(str_is(a.session_token, "token000"));
        }
        assert_int_equal(aws_parse(STR("AWS_ACCESS_KEY_ID=x"), &a, &e), -EINVAL);
        assert_non_null(strstr(e.text, "AWS_SECRET_ACCESS_KEY"));
        assert_int_equal(aws_parse(STR(""), &a, &e), -EINVAL);
}

static struct vault_mapping mapping(const char *name, const char *host, enum vault_kind_of_mapping kind) {
        struct vault_mapping m = { .kind = kind, .n_hosts = 1 };
        snprintf(m.name, sizeof m.name, "%s", name);
        snprintf(m.source, sizeof m.source, "env:X");
        snprintf(m.hosts[0], sizeof m.hosts[0], "%s", host);
        return m;
}

static struct authority to(const char *text) {
        struct authority a;
        assert_int_equal(authority_parse(str_of(text), 443, &a, NULL), 0);
        return a;
}

static void release_is_for_the_mapping_s_hosts_only(void **state) {
        (void)state;
        struct vault_mapping m[] = { mapping("a", "api.test", MAPPING_VALUE),
                                     mapping("b", "*.b.test:8443", MAPPING_VALUE),
                                     mapping("c", "bedrock.test:443", MAPPING_SIGV4) };
        struct values *v = NULL;
        struct err e = { 0 };
        enum value_change change;
        struct str value;
        assert_int_equal(values_new(m, 3, &v, &e), 0);
        static const struct {
                uint32_t mapping;
                const char *to;
                int refused;
        } cases[] = {
                { 0, "api.test:443", 0 },
                { 0, "api.test:80", VAULT_WRONG_TARGET },
                { 0, "evil.test:443", VAULT_WRONG_TARGET },
                { 0, "x.api.test:443", VAULT_WRONG_TARGET },
                { 1, "x.b.test:8443", 0 },
                { 1, "b.test:8443", VAULT_WRONG_TARGET },
                { 1, "x.b.test:443", VAULT_WRONG_TARGET },
                { 2, "bedrock.test:443", VAULT_NOT_MAPPED }, /* the secret key of AWS is never released */
                { 3, "api.test:443", VAULT_NOT_MAPPED },
                { 200, "api.test:443", VAULT_NOT_MAPPED },
        };
        struct authority api = to("api.test:443");
        assert_int_equal(values_release(v, 0, &api, &value), VAULT_NO_VALUE);
        assert_int_equal(values_set(v, 0, STR("real-secret-a"), &change, &e), 0);
        assert_int_equal(change, VALUE_CHANGED);
        assert_int_equal(values_set(v, 1, STR("real-secret-b"), &change, &e), 0);
        assert_int_equal(
            values_set(v, 2, STR("AWS_ACCESS_KEY_ID=AKIA0123456789\nAWS_SECRET_ACCESS_KEY=s3cr3ts3cr3t"), &change, &e),
            0);
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                struct authority a = to(cases[i].to);
                assert_int_equal(values_release(v, cases[i].mapping, &a, &value), cases[i].refused);
        }
        assert_int_equal(values_release(v, 0, &api, &value), 0);
        assert_true(str_is(value, "real-secret-a"));

        struct str id, token;
        uint8_t derived[VAULT_DIGEST_BYTES];
        char now[CLOCK_TEXT_MAX], day[16];
        clock_text(clock_wall_us(), now);
        snprintf(day, sizeof day, "%.4s%.2s%.2s", now, now + 5, now + 8);
        const struct str today = str_of(day);
        struct authority bedrock = to("bedrock.test:443"), evil = to("evil.test:443");
        assert_int_equal(values_signing_key(v, 2, &bedrock, today, STR("r"), STR("s"), &id, derived, &token), 0);
        assert_true(str_is(id, "AKIA0123456789"));
        assert_int_equal(token.n, 0);
        assert_int_equal(values_signing_key(v, 2, &evil, today, STR("r"), STR("s"), &id, derived, &token),
                         VAULT_WRONG_TARGET);
        assert_int_equal(values_signing_key(v, 0, &api, today, STR("r"), STR("s"), &id, derived, &token),
                         VAULT_NOT_MAPPED);
        static const char *const days[] = { "20150830", "20991231", "00000000", "2026", "" };
        for (size_t i = 0; i < sizeof days / sizeof *days; i++)
                assert_int_equal(
                    values_signing_key(v, 2, &bedrock, str_of(days[i]), STR("r"), STR("s"), &id, derived, &token),
                    VAULT_WRONG_TARGET);
        values_free(v);
}

static void a_change_counts_at_once(void **state) {
        (void)state;
        struct vault_mapping m[] = { mapping("a", "api.test", MAPPING_VALUE) };
        struct values *v = NULL;
        struct err e = { 0 };
        enum value_change change;
        assert_int_equal(values_new(m, 1, &v, &e), 0);
        assert_int_equal(values_serial(v, 0), 0);
        assert_int_equal(values_set(v, 0, STR("first-value-1"), &change, &e), 0);
        uint64_t first = values_serial(v, 0);
        assert_true(first != 0);
        assert_int_equal(values_set(v, 0, STR("first-value-1"), &change, &e), 0);
        assert_int_equal(change, VALUE_SAME);
        assert_int_equal(values_serial(v, 0), first);
        assert_int_equal(values_set(v, 0, STR("other-value-2"), &change, &e), 0);
        assert_int_equal(change, VALUE_CHANGED);
        uint64_t second = values_serial(v, 0);
        assert_true(second > first);
        assert_true(values_drop(v, 0));
        assert_false(values_drop(v, 0));
        assert_int_equal(values_serial(v, 0), 0);
        assert_int_equal(values_set(v, 0, STR("other-value-2"), &change, &e), 0);
        assert_true(values_serial(v, 0) > second);

        /* The stand-in of before is kept, and can never become the value. */
        assert_int_equal(values_keep_stand_in(v, 0, PART_VALUE, STR("stand-in-1234"), &e), 0);
        assert_int_equal(values_make_stand_ins(v, &e), 0);
        assert_true(str_is(values_stand_in(v, 0, PART_VALUE), "stand-in-1234"));
        assert_true(values_set(v, 0, STR("stand-in-1234"), &change, &e) < 0);
        assert_true(values_keep_stand_in(v, 0, PART_KEY_ID, STR("AKIA12345678"), &e) < 0);
        values_free(v);
}

static void unusable_values_are_refused(void **state) {
        (void)state;
        struct vault_mapping m = mapping("a", "api.test", MAPPING_VALUE);
        struct err e = { 0 };
        static char large[VAULT_SECRET_MAX + 1];
        memset(large, 'x', sizeof large);
        static const struct {
                const char *value, *says;
        } cases[] = { { "", "empty" },
                      { "1234567", "too short" },
                      { "two\nlines-of-it", "more than one line" },
                      { "uml\xc3\xa4ut-value", "cannot be sent" } };
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                assert_true(source_check(&m, str_of(cases[i].value), &e) < 0);
                assert_non_null(strstr(e.text, cases[i].says));
        }
        assert_int_equal(source_check(&m, str_n(large, sizeof large), &e), -EMSGSIZE);
        assert_int_equal(source_check(&m, STR("12345678"), &e), 0);
        char label[SOURCE_LABEL_MAX];
        source_label("exec:printf %s s3cr3t", label);
        assert_string_equal(label, "exec:printf ...");
        source_label("file:/run/secrets/x", label);
        assert_string_equal(label, "file:/run/secrets/x");
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(stand_ins_look_alike),
                cmocka_unit_test(a_seed_gives_the_same_each_time),
                cmocka_unit_test(what_has_no_stand_in_is_refused),
                cmocka_unit_test(signing_key_of_the_specification),
                cmocka_unit_test(aws_texts),
                cmocka_unit_test(release_is_for_the_mapping_s_hosts_only),
                cmocka_unit_test(a_change_counts_at_once),
                cmocka_unit_test(unusable_values_are_refused),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
