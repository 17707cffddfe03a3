/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/wire/sni.h"

#include "base/buf.h"
#include "base/cleanup.h"

#include "../cmocka_all.h"

static void put16(struct buf *b, size_t n) {
        buf_add_char(b, (char)(n >> 8));
        buf_add_char(b, (char)n);
}

static void put_extension(struct buf *b, unsigned type, struct str body) {
        put16(b, type);
        put16(b, body.n);
        buf_append(b, body);
}

static void put_server_name(struct buf *b, struct str name) {
        cleanup(buf_done) struct buf body = BUF(1024);
        put16(&body, name.n + 3);
        buf_add_char(&body, 0);
        put16(&body, name.n);
        buf_append(&body, name);
        put_extension(b, 0, buf_str(&body));
}

/* A handshake message around the extensions. */
static void put_hello(struct buf *b, struct str extensions) {
        cleanup(buf_done) struct buf m = BUF(1 << 16);
        buf_append(&m, STR("\x03\x03"
                           "0123456789abcdef0123456789abcdef"
                           "\x04"
                           "sess"));
        buf_append(&m, STR("\x00\x04\x1a\x1a\x13\x01"
                           "\x01\x00")); /* with a greased cipher */
        put16(&m, extensions.n);
        buf_append(&m, extensions);
        buf_append(b, STR("\x01\x00"));
        put16(b, m.n);
        buf_append(b, buf_str(&m));
}

/* As TLS records of at most `size` bytes. */
static void put_records(struct buf *b, struct str message, size_t size) {
        while (message.n > 0) {
                struct str part = str_first(message, size);
                buf_append(b, STR("\x16\x03\x01"));
                put16(b, part.n);
                buf_append(b, part);
                message = str_skip(message, part.n);
        }
}

static void names(void **state) {
        (void)state;
        cleanup(buf_done) struct buf extensions = BUF(1 << 16), hello = BUF(1 << 16);
        put_extension(&extensions, 0x2a2a, STR("")); /* grease */
        put_server_name(&extensions, STR("Api.ok.test"));
        put_extension(&extensions, 0xfe0d, STR("ech"));
        put_extension(&extensions, 16, STR("\0\14\2h2\10http/1.1"));
        put_hello(&hello, buf_str(&extensions));
        static const size_t sizes[] = { 1, 2, 3, 7, 50, 16384 };
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
                cleanup(buf_done) struct buf wire = BUF(1 << 16);
                put_records(&wire, buf_str(&hello), sizes[i]);
                struct sni sni;
                for (size_t n = 0; n < wire.n; n++)
                        assert_int_equal(sni_parse(str_first(buf_str(&wire), n), &sni), SNI_MORE);
                assert_int_equal(sni_parse(buf_str(&wire), &sni), SNI_NAME);
                assert_true(str_eq(str_n(sni.name, sni.n), STR("Api.ok.test")));
                assert_true(sni.ech);
                struct sniff found;
                assert_int_equal(sniff(buf_str(&wire), 65536, &found), SNIFF_TLS);
                assert_true(found.has_host && str_is(host_str(&found.host), "api.ok.test"));
                assert_true(str_eq(str_n(found.protocols, found.protocols_n), STR("\2h2\10http/1.1")));
        }
}

static enum sni_result parse_hello(struct str extensions, struct sni *sni) {
        cleanup(buf_done) struct buf hello = BUF(1 << 16), wire = BUF(1 << 16);
        put_hello(&hello, extensions);
        put_records(&wire, buf_str(&hello), 16384);
        return sni_parse(buf_str(&wire), sni);
}

static void refusals(void **state) {
        (void)state;
        struct sni sni;
        cleanup(buf_done) struct buf twice = BUF(1024), two_names = BUF(1024), other = BUF(1024);
        put_server_name(&twice, STR("a.test"));
        put_server_name(&twice, STR("b.test"));
        assert_int_equal(parse_hello(buf_str(&twice), &sni), SNI_BAD);
        put_extension(&two_names, 0,
                      STR("\x00\x0c\x00\x00\x03"
                          "a.b"
                          "\x00\x00\x03"
                          "c.d"));
        assert_int_equal(parse_hello(buf_str(&two_names), &sni), SNI_BAD);
        put_extension(&other, 0,
                      STR("\x00\x06\x01\x00\x03"
                          "a.b"));
        assert_int_equal(parse_hello(buf_str(&other), &sni), SNI_BAD);
        assert_int_equal(parse_hello(STR("\x00\x00\x00\x00"), &sni), SNI_BAD);
        assert_int_equal(parse_hello(STR("\x00\x00\x00\x05\x00\x03\x00\x00\x00"), &sni), SNI_BAD);
        assert_int_equal(parse_hello(STR("\x00\x00\x00\x09"), &sni), SNI_BAD);
        assert_int_equal(parse_hello(STR("\x00"), &sni), SNI_BAD);
        assert_int_equal(parse_hello(STR(""), &sni), SNI_NONE);
        assert_int_equal(parse_hello(STR("\x00\x0a\x00\x00"), &sni), SNI_NONE);
        assert_int_equal(sni_parse(STR("GET / HTTP/1.1\r\n"), &sni), SNI_NOT_TLS);
        assert_int_equal(sni_parse(STR("\x80\x2e\x01\x03\x01"), &sni), SNI_NOT_TLS);
        assert_int_equal(sni_parse(STR("\x16\x02"), &sni), SNI_NOT_TLS);
        assert_int_equal(sni_parse(STR("\x16\x03\x09\x00\x05"), &sni), SNI_BAD);
        assert_int_equal(sni_parse(STR("\x16\x03\x01\x00\x00"), &sni), SNI_BAD);
        assert_int_equal(sni_parse(STR("\x16\x03\x01\x40\x01"), &sni), SNI_BAD);
        assert_int_equal(sni_parse(STR("\x16\x03\x01\x00\x05\x02"), &sni), SNI_BAD);
        assert_int_equal(sni_parse(STR("\x16\x03\x01\x00\x05\x01\xff\xff\xff"), &sni), SNI_BAD);
        /* Another record type in the middle of the hello. */
        assert_int_equal(sni_parse(STR("\x16\x03\x01\x00\x01\x01\x17\x03\x03\x00\x01x"), &sni), SNI_BAD);
}

static void nothing_behind_the_hello(void **state) {
        (void)state;
        struct sni sni;
        cleanup(buf_done) struct buf hello = BUF(1024), wire = BUF(1024);
        put_hello(&hello, STR(""));
        buf_add_char(&hello, 1);
        put_records(&wire, buf_str(&hello), 16384);
        assert_int_equal(sni_parse(buf_str(&wire), &sni), SNI_BAD);
}

static void second_hello(void **state) {
        (void)state;
        cleanup(buf_done) struct buf extensions = BUF(1 << 16), hello = BUF(1 << 16);
        put_server_name(&extensions, STR("Evil.test"));
        put_hello(&hello, buf_str(&extensions));
        static const size_t sizes[] = { 1, 5, 16, 50, 16384 };
        struct tls_records t = { 0 };
        bool has_host;
        struct host host;
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
                cleanup(buf_done) struct buf wire = BUF(1 << 16);
                put_records(&wire, buf_str(&hello), sizes[i]);
                for (size_t n = 0; n < wire.n; n++)
                        assert_int_equal(tls_records_look(&t, str_first(buf_str(&wire), n), &has_host, &host),
                                         TLS_MORE);
                assert_int_equal(tls_records_look(&t, buf_str(&wire), &has_host, &host), TLS_HELLO);
                assert_true(has_host && str_is(host_str(&host), "evil.test"));
        }
        static const struct {
                struct str bytes;
                bool early;
                enum tls_next next;
        } cases[] = {
                { STR("\x14\3\3\0\1\1"), false, TLS_PASS },
                { STR("\x17\3\3\0\1x"), true, TLS_PASS },
                { STR("\x17\3\3\0\1x"), false, TLS_OVER },
                { STR("\x15\3\3\0\2\1\x5a"), false, TLS_PASS }, /* servers go on after a warning */
                { STR("\x18\3\3\0\2\1\0"), false, TLS_BAD },
                { STR("\x16\3\3\x40\0\1\1\xff\xff\3\3"), false, TLS_BAD },        /* servers take 128 KiB */
                { STR("\x16\3\3\0\x28\1\0\0\x24\3\x77"), false, TLS_MORE },       /* and any version 3.x */
                { STR("\x16\3\3\0\x46\x10\0\0\x42xxxx"), false, TLS_OVER },       /* a key exchange */
                { STR("\x16\3\3\0\x28\1\3\xa1\x55\3\x03xxxx"), false, TLS_OVER }, /* encrypted, nearly a hello */
                { STR("\x16\3\3\0\x28\1\0\xa1\x55\4\x03xxxx"), false, TLS_OVER },
                { STR("\x16\3\3\0\0\1"), false, TLS_BAD },
        };
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                t.early = cases[i].early;
                if (tls_records_look(&t, cases[i].bytes, &has_host, &host) != cases[i].next)
                        fail_msg("case %zu", i);
        }
}

static void first_bytes(void **state) {
        (void)state;
        static const struct {
                struct str bytes;
                enum sniff_kind kind;
                const char *host;
        } cases[] = {
                { STR(""), SNIFF_MORE, NULL },
                { STR("GE"), SNIFF_MORE, NULL },
                { STR("GET / HTTP/1.1\r\nHost: A.Test:80\r\n\r\n"), SNIFF_HTTP, "a.test" },
                { STR("GET / HTTP/1.0\r\n\r\n"), SNIFF_HTTP, NULL },
                { STR("GET / HTTP/1.1\nHost: a\n\n"), SNIFF_BAD, NULL },
                { STR("get / HTTP/1.1\nHost: a\n\n"), SNIFF_BAD, NULL },
                { STR("FOO / HTTP/1.1\nHost: a\n\n"), SNIFF_BAD, NULL },
                { STR("\r\nGET / HTTP/1.1\r\n"), SNIFF_BAD, NULL },
                { STR("GET / HTTP/1.1\r\nHost: a b\r\n\r\n"), SNIFF_BAD, NULL },
                { STR("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"), SNIFF_BAD, NULL },
                { STR("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), SNIFF_HTTP2, NULL },
                { STR("PRI * HTTP/2.0\r\n\r\n"), SNIFF_MORE, NULL },
                { STR(" "), SNIFF_MORE, NULL },
                { STR("\r\n"), SNIFF_MORE, NULL },
                { STR(" GE"), SNIFF_MORE, NULL },
                { STR("_FOO  "), SNIFF_MORE, NULL },
                { STR("FOO /\xff"), SNIFF_MORE, NULL },
                { STR("FOO /\xff HTTP/1.1\r\n"), SNIFF_BAD, NULL },
                { STR("\r\x00\x00\x01"), SNIFF_OTHER, NULL }, /* MySQL: a packet of 13 bytes */
                { STR("AMQP\x00\x00\x09\x01"), SNIFF_OTHER, NULL },
                { STR("\n\tget "), SNIFF_LINE, NULL },
                { STR("\n\tget / HTTP/1.1\r\n"), SNIFF_BAD, NULL },
                { STR("\n\tGET "), SNIFF_MORE, NULL },
                { STR("\n\tGET /"), SNIFF_BAD, NULL },
                { STR("get a\r\n"), SNIFF_OTHER, NULL },
                { STR("GET key\r\n"), SNIFF_OTHER, NULL },
                { STR("GET /key\r\n"), SNIFF_BAD, NULL },
                { STR("GET http://a/\r\n"), SNIFF_BAD, NULL },
                { STR("POST\r\n"), SNIFF_BAD, NULL },
                { STR("CONNECT {\"verbose\""), SNIFF_MORE, NULL },
                { STR("CONNECT {\"verbose\":false}\r\n"), SNIFF_OTHER, NULL },
                { STR("CONNECT\naccept-version:1.2\n"), SNIFF_OTHER, NULL },
                { STR("OPTIONS rtsp://a/ RTSP/1.0\r\n"), SNIFF_OTHER, NULL },
                { STR("OPTIONS sip:a@b SIP/2.0\r\n"), SNIFF_OTHER, NULL },
                { STR("0033git-upload-pack /r\0host=a\0"), SNIFF_OTHER, NULL },
                { STR("0\x0c\x02\x01\x01`\x07"), SNIFF_LINE, NULL },
                { STR("0\n\x02\x01"), SNIFF_OTHER, NULL },
                { STR("ruok"), SNIFF_LINE, NULL },
                { STR("  V2"), SNIFF_LINE, NULL },
                { STR("JDWP-Handshake"), SNIFF_LINE, NULL },
                { STR("HELLO"), SNIFF_MORE, NULL },
                { STR(" GET / HTTP/1.1\r\nHost: a\r\n\r\n"), SNIFF_BAD, NULL },
                { STR("GET\t"), SNIFF_BAD, NULL },
                { STR("FOO\t/"), SNIFF_MORE, NULL },
                { STR("FOO\t/\thttp/1.1\r\nHost: a\r\n\r\n"), SNIFF_BAD, NULL },
                { STR("FOO @ \x0bHTTP/1.1"), SNIFF_BAD, NULL },
                { STR("\n\x01\0\0"), SNIFF_OTHER, NULL },
                { STR("<?xml version='1.0'?><stream>"), SNIFF_OTHER, NULL },
                { STR("SSH-2.0-OpenSSH_9.2\r\n"), SNIFF_OTHER, NULL },
                { STR("EHLO me\r\n"), SNIFF_OTHER, NULL },
                { STR("\x00\x00\x00\x08\x04\xd2\x16\x2f"), SNIFF_OTHER, NULL },
                { STR("*1\r\n$4\r\nPING\r\n"), SNIFF_OTHER, NULL },
                { STR("\x16\x03\x01\x00\x00"), SNIFF_BAD, NULL },
                { STR("\x15\x03\x01\x00\x02\x01\x5a"), SNIFF_BAD, NULL },
                { STR("\x14\x03"), SNIFF_BAD, NULL },
                { STR("\x15"), SNIFF_MORE, NULL },
                { STR("\x15\x01"), SNIFF_OTHER, NULL },
        };
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                struct sniff found;
                enum sniff_kind kind = sniff(cases[i].bytes, 65536, &found);
                if (kind != cases[i].kind)
                        fail_msg("case %zu: %d", i, kind);
                assert_int_equal(found.has_host, cases[i].host != NULL);
                if (cases[i].host)
                        assert_true(str_is(host_str(&found.host), cases[i].host));
        }
}

/* However a line is cut, it is HTTP if it names HTTP, and over at its end. */
static void lines(void **state) {
        (void)state;
        static const struct {
                struct str bytes;
                enum sniff_line_next last;
        } cases[] = {
                { STR("ruok"), SNIFF_LINE_GOES },
                { STR("ruok\n"), SNIFF_LINE_OVER },
                { STR("\r\n x"), SNIFF_LINE_GOES },
                { STR("foo / HTTP/1.1"), SNIFF_LINE_HTTP },
                { STR("\r\nfoo /\thttp/1.1"), SNIFF_LINE_HTTP },
                { STR("fooHTTP/1.1\n / HTTP/1.1"), SNIFF_LINE_OVER },
                { STR("foo\0 / HTTP/1.1"), SNIFF_LINE_OVER },
                { STR("HTTP/"), SNIFF_LINE_GOES },
        };
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
                for (size_t step = 1; step <= cases[i].bytes.n; step++) {
                        struct sniff_line line = { 0 };
                        enum sniff_line_next next = SNIFF_LINE_GOES;
                        for (size_t at = 0; at < cases[i].bytes.n && next == SNIFF_LINE_GOES; at += step)
                                next = sniff_line_look(&line, str_first(str_skip(cases[i].bytes, at), step));
                        if (next != cases[i].last)
                                fail_msg("case %zu in steps of %zu: %d", i, step, next);
                }
}

static void protocols(void **state) {
        (void)state;
        static const struct {
                struct str extension;
                enum sni_result result;
                struct str kept;
        } cases[] = {
                { STR("\0\3\2h2"), SNI_NONE, STR("\2h2") },
                { STR("\0\4\2h2"), SNI_BAD, STR("") },   /* longer than what is there */
                { STR("\0\3\2h2x"), SNI_BAD, STR("") },  /* shorter */
                { STR("\0\4\2h2\5"), SNI_BAD, STR("") }, /* a name cut off */
                { STR("\0\4\0\2h2"), SNI_BAD, STR("") }, /* an empty name */
                { STR("\0\0"), SNI_BAD, STR("") },
                { STR(""), SNI_BAD, STR("") },
        };
        struct sni sni;
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                cleanup(buf_done) struct buf extensions = BUF(1 << 16);
                put_extension(&extensions, 16, cases[i].extension);
                assert_int_equal(parse_hello(buf_str(&extensions), &sni), cases[i].result);
                if (cases[i].result == SNI_NONE)
                        assert_true(str_eq(str_n(sni.protocols, sni.protocols_n), cases[i].kept));
        }
        /* What does not fit is left out, whole. */
        cleanup(buf_done) struct buf list = BUF(1 << 16), extensions = BUF(1 << 16);
        char name[256];
        memset(name, 'a', sizeof name);
        put16(&list, 3 + 201 + 101 + 9);
        buf_append(&list, STR("\2h2"));
        buf_append(&list, STR("\310"));
        buf_append(&list, str_n(name, 200));
        buf_append(&list, STR("\144"));
        buf_append(&list, str_n(name, 100));
        buf_append(&list, STR("\10http/1.1"));
        put_extension(&extensions, 16, buf_str(&list));
        assert_int_equal(parse_hello(buf_str(&extensions), &sni), SNI_NONE);
        assert_int_equal(sni.protocols_n, 3 + 201 + 9);
        put_extension(&extensions, 16, STR("\0\3\2h2"));
        assert_int_equal(parse_hello(buf_str(&extensions), &sni), SNI_BAD); /* offered twice */
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(names),
                cmocka_unit_test(lines),
                cmocka_unit_test(protocols),
                cmocka_unit_test(refusals),
                cmocka_unit_test(nothing_behind_the_hello),
                cmocka_unit_test(second_hello),
                cmocka_unit_test(first_bytes),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
