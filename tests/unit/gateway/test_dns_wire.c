/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/wire/dns_wire.h"

#include "base/cleanup.h"

#include "../cmocka_all.h"

#define NAME                                                                                                           \
        "\x03"                                                                                                         \
        "Api"                                                                                                          \
        "\x02"                                                                                                         \
        "ok"                                                                                                           \
        "\x04"                                                                                                         \
        "test"                                                                                                         \
        "\x00"
#define HEAD(flags, counts) "\x12\x34" flags counts
#define ONE "\x00\x01\x00\x00\x00\x00\x00\x00"
#define ONE_OPT "\x00\x01\x00\x00\x00\x00\x00\x01"
#define RD "\x01\x00"
#define A_IN "\x00\x01\x00\x01"
#define AAAA_IN "\x00\x1c\x00\x01"
#define OPT(size) "\x00\x00\x29" size "\x00\x00\x00\x00\x00\x00"

static void questions(void **state) {
        (void)state;
        enum { DROP = 99 };
        static const struct {
                struct str packet;
                unsigned rcode;
        } cases[] = {
                { STR(HEAD(RD, ONE) NAME A_IN), DNS_NOERROR },
                { STR(HEAD(RD, ONE_OPT) NAME A_IN OPT("\x10\x00")), DNS_NOERROR },
                { STR(""), DROP },
                { STR("\x12\x34\x01\x00\x00\x01"), DROP },
                { STR(HEAD("\x81\x00", ONE) NAME A_IN), DROP },
                { STR(HEAD("\x28\x00", ONE) NAME A_IN), DNS_NOTIMP },
                { STR(HEAD("\x03\x00", ONE) NAME A_IN), DNS_FORMERR },
                { STR(HEAD(RD, "\x00\x00\x00\x00\x00\x00\x00\x00")), DNS_FORMERR },
                { STR(HEAD(RD, "\x00\x02\x00\x00\x00\x00\x00\x00") NAME A_IN NAME A_IN), DNS_FORMERR },
                { STR(HEAD(RD, "\x00\x01\x00\x01\x00\x00\x00\x00") NAME A_IN), DNS_FORMERR },
                { STR(HEAD(RD, ONE) NAME A_IN "x"), DNS_FORMERR },
                { STR(HEAD(RD, ONE) NAME "\x00\x01\x00"), DNS_FORMERR },
                { STR(HEAD(RD, ONE) "\x03"
                                    "Ap"),
                  DNS_FORMERR },
                { STR(HEAD(RD, ONE) "\xc0\x0c" A_IN), DNS_FORMERR },
                { STR(HEAD(RD, ONE) "\x03"
                                    "Api"
                                    "\xc0\x0c" A_IN),
                  DNS_FORMERR },
                { STR(HEAD(RD, ONE) "\x40"
                                    "a" A_IN),
                  DNS_FORMERR },
                { STR(HEAD(RD, ONE_OPT) NAME A_IN), DNS_FORMERR },
                { STR(HEAD(RD, ONE_OPT) NAME A_IN OPT("\x10\x00") "x"), DNS_FORMERR },
                { STR(HEAD(RD, ONE_OPT) NAME A_IN "\x00\x00\x01\x00\x01\x00\x00\x00\x00\x00\x00"), DNS_FORMERR },
                { STR(HEAD(RD, ONE_OPT) NAME A_IN "\x00\x00\x29\x10\x00\x00\x01\x00\x00\x00\x00"), DNS_BADVERS },
                { STR(HEAD(RD, "\x00\x01\x00\x00\x00\x00\x00\x02") NAME A_IN OPT("\x10\x00") OPT("\x10\x00")),
                  DNS_FORMERR },
        };
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                struct dns_query q;
                enum dns_rcode rcode = 0;
                unsigned got = dns_query_parse(cases[i].packet, &q, &rcode) ? rcode : DROP;
                if (got != cases[i].rcode)
                        fail_msg("case %zu: %u, expected %u", i, got, cases[i].rcode);
        }
}

static void names(void **state) {
        (void)state;
        struct dns_query q;
        enum dns_rcode rcode;
        assert_true(dns_query_parse(STR(HEAD(RD, ONE) NAME A_IN), &q, &rcode));
        assert_true(q.plain && str_eq(str_n(q.name, q.name_n), STR("Api.ok.test")));
        assert_true(dns_query_parse(STR(HEAD(RD, ONE) "\x00" A_IN), &q, &rcode));
        assert_int_equal(rcode, DNS_NOERROR);
        assert_false(q.plain);
        assert_true(dns_query_parse(STR(HEAD(RD, ONE) "\x07"
                                                      "evil\0.x"
                                                      "\x04"
                                                      "test"
                                                      "\x00" A_IN),
                                    &q, &rcode));
        assert_int_equal(rcode, DNS_NOERROR);
        assert_false(q.plain);
        assert_true(dns_query_parse(STR(HEAD(RD, ONE) "\x03"
                                                      "a.b"
                                                      "\x04"
                                                      "test"
                                                      "\x00" A_IN),
                                    &q, &rcode));
        assert_false(q.plain);
        /* The longest name fits, one byte more is refused. */
        cleanup(buf_done) struct buf longest = BUF(1024);
        buf_append(&longest, STR(HEAD(RD, ONE)));
        for (int label = 0; label < 4; label++) {
                size_t n = label < 3 ? 63 : 61;
                buf_add_char(&longest, (char)n);
                for (size_t i = 0; i < n; i++)
                        buf_add_char(&longest, 'a');
        }
        size_t at = longest.n;
        buf_append(&longest, STR("\x00" A_IN));
        assert_true(dns_query_parse(buf_str(&longest), &q, &rcode));
        assert_int_equal(rcode, DNS_NOERROR);
        assert_int_equal(q.name_n, 253);
        longest.n = at;
        buf_append(&longest, STR("\x01"
                                 "a"
                                 "\x00" A_IN));
        assert_true(dns_query_parse(buf_str(&longest), &q, &rcode));
        assert_int_equal(rcode, DNS_FORMERR);
}

static void answers(void **state) {
        (void)state;
        struct dns_query q;
        enum dns_rcode rcode;
        cleanup(buf_done) struct buf out = BUF(2048);
        const struct addr both[] = { { ADDR_V4, { 198, 18, 1, 2 } }, { ADDR_V6, { 0xfd, 0, 0xba, 0x11, [15] = 9 } } };
        struct dns_answer a = { .ttl = 30, .n_addrs = 2, .addrs = both, .max = 512 };
        assert_true(dns_query_parse(STR(HEAD(RD, ONE) NAME A_IN), &q, &rcode));
        assert_int_equal(dns_answer_write(&out, &q, &a), 0);
        assert_true(str_eq(buf_str(&out), STR("\x12\x34\x81\x80\x00\x01\x00\x01\x00\x00\x00\x00" NAME A_IN
                                              "\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x1e\x00\x04\xc6\x12\x01\x02")));
        buf_clear(&out);
        assert_true(dns_query_parse(STR(HEAD("\x00\x10", ONE_OPT) NAME AAAA_IN OPT("\x04\x00")), &q, &rcode));
        assert_int_equal(dns_answer_write(&out, &q, &a), 0);
        assert_true(
            str_eq(buf_str(&out),
                   STR("\x12\x34\x80\x90\x00\x01\x00\x01\x00\x00\x00\x01" NAME AAAA_IN
                       "\xc0\x0c\x00\x1c\x00\x01\x00\x00\x00\x1e\x00\x10\xfd\x00\xba\x11\x00\x00\x00\x00\x00\x00\x00"
                       "\x00\x00\x00\x00\x09\x00\x00\x29\x04\xd0\x00\x00\x00\x00\x00\x00")));
        buf_clear(&out);
        a.rcode = DNS_REFUSED;
        assert_true(dns_query_parse(STR(HEAD(RD, ONE) NAME A_IN), &q, &rcode));
        assert_int_equal(dns_answer_write(&out, &q, &a), 0);
        assert_true(str_eq(buf_str(&out), STR("\x12\x34\x81\x85\x00\x01\x00\x00\x00\x00\x00\x00" NAME A_IN)));
        buf_clear(&out);
        assert_true(dns_query_parse(STR(HEAD("\x28\x00", ONE) NAME A_IN), &q, &rcode));
        a.rcode = rcode;
        assert_int_equal(dns_answer_write(&out, &q, &a), 0);
        assert_true(str_eq(buf_str(&out), STR("\x12\x34\xa8\x84\x00\x00\x00\x00\x00\x00\x00\x00")));
        buf_clear(&out);
        assert_true(dns_query_parse(STR(HEAD(RD, ONE_OPT) NAME A_IN "\x00\x00\x29\x10\x00\x00\x01\x00\x00\x00\x00"), &q,
                                    &rcode));
        a.rcode = rcode;
        assert_int_equal(dns_answer_write(&out, &q, &a), 0);
        assert_int_equal(out.p[3] & 15, 0);
        assert_int_equal(out.p[out.n - 6], 1); /* the upper bits of BADVERS */
}

static void truncation(void **state) {
        (void)state;
        struct dns_query q;
        enum dns_rcode rcode;
        cleanup(buf_done) struct buf out = BUF(2048);
        struct addr many[40];
        for (size_t i = 0; i < 40; i++)
                many[i] = (struct addr){ ADDR_V4, { 93, 184, 216, (uint8_t)i } };
        assert_true(dns_query_parse(STR(HEAD(RD, ONE) NAME A_IN), &q, &rcode));
        struct dns_answer a = { .ttl = 1, .n_addrs = 40, .addrs = many, .max = 512 };
        assert_int_equal(dns_answer_write(&out, &q, &a), 0);
        assert_true(out.n <= 512 && (out.p[2] & 2));
        buf_clear(&out);
        a.max = 20;
        assert_true(dns_answer_write(&out, &q, &a) < 0);
        assert_int_equal(out.n, 0);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(questions),
                cmocka_unit_test(names),
                cmocka_unit_test(answers),
                cmocka_unit_test(truncation),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
