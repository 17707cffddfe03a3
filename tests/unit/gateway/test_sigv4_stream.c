/* SPDX-License-Identifier: Apache-2.0 */
/* The chunked uploads of the API reference of S3, whose signatures AWS has published. */
#include "gateway/creds/sigv4_stream.h"

#include "base/cleanup.h"

#include <errno.h>
#include <stdlib.h>

#include "../cmocka_all.h"

#define ANY "0000000000000000000000000000000000000000000000000000000000000000"
#define SIGNATURE ";chunk-signature="

static const struct {
        const char *payload, *signed_headers, *length, *trailer, *seed, *chunks[3], *trailer_signature;
} examples[] = {
        { "STREAMING-AWS4-HMAC-SHA256-PAYLOAD",
          "content-encoding;content-length;host;x-amz-content-sha256;x-amz-date;x-amz-decoded-content-length;x-amz-"
          "storage-class",
          "66824",
          "",
          "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9",
          { "ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648",
            "0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497",
            "b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9" },
          NULL },
        { "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER",
          "content-encoding;host;x-amz-content-sha256;x-amz-date;x-amz-decoded-content-length;x-amz-storage-class;x-"
          "amz-trailer",
          "66946",
          "x-amz-checksum-crc32c:sOO8/Q==\r\n",
          "106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e",
          { "b474d8862b1487a5145d686f57f013e54db672cee1c953b3010fb58501ef5aa2",
            "1c1344b170168f8e65b41376b44b20fe354e373826ccbbe2c1d40a8cae51e5c7",
            "2ca2aba2005185cf7159c6277faf83795951dd77a3a99e6e65d5c9f85863f992" },
          "d81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435" },
};

static const struct sigv4_key *key(void) {
        static struct sigv4_key k = { .key_id = STR("AKIAIOSFODNN7EXAMPLE") };
        static const char *const steps[] = { "20130524", "us-east-1", "s3", "aws4_request" };
        struct str with = STR("AWS4wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY");
        for (size_t i = 0; i < 4; i++) {
                digest_hmac(with, str_of(steps[i]), k.key);
                with = str_n(k.key, DIGEST_BYTES);
        }
        return &k;
}

static void sign_head(size_t i, struct sigv4_stream *stream) {
        char authorization[512], seed[SIGV4_SIGNATURE_HEX];
        snprintf(
            authorization, sizeof authorization,
            "AWS4-HMAC-SHA256 Credential=AKIAFAKE/20130524/us-east-1/s3/aws4_request,SignedHeaders=%s,Signature=" ANY,
            examples[i].signed_headers);
        struct header_view headers[] = {
                { STR("Authorization"), str_of(authorization) },
                { STR("x-amz-date"), STR("20130524T000000Z") },
                { STR("x-amz-storage-class"), STR("REDUCED_REDUNDANCY") },
                { STR("x-amz-content-sha256"), str_of(examples[i].payload) },
                { STR("Content-Encoding"), STR("aws-chunked") },
                { STR("x-amz-decoded-content-length"), STR("66560") },
                { STR("Content-Length"), str_of(examples[i].length) },
                { STR("x-amz-trailer"), STR("x-amz-checksum-crc32c") },
        };
        struct request_view r = { .secure = true,
                                  .method = STR("PUT"),
                                  .target = STR("/examplebucket/chunkObject.txt"),
                                  .host = STR("s3.amazonaws.com"),
                                  .now_s = 1369353600,
                                  .n_headers = examples[i].trailer_signature ? 8 : 7,
                                  .headers = headers };
        struct sigv4 s;
        cleanup(buf_done) struct buf out = BUF(4096);
        assert_true(sigv4_find(&r, &s) && sigv4_check(&r, &s));
        assert_int_equal(sigv4_sign(&s, &r, key(), STR(""), &out, seed), 0);
        assert_memory_equal(seed, examples[i].seed, SIGV4_SIGNATURE_HEX);
        assert_int_equal(sigv4_stream_init(stream, &s, key(), seed), 0);
}

static void add_chunk(struct buf *b, size_t n, const char *signature) {
        assert_int_equal(buf_printf(b, "%zx" SIGNATURE "%s\r\n", n, signature), 0);
        for (size_t i = 0; i < n; i++)
                assert_int_equal(buf_add_char(b, 'a'), 0);
        if (n > 0)
                assert_int_equal(buf_add(b, "\r\n"), 0);
}

static void make_body(size_t i, bool as_signed, struct buf *b) {
        static const size_t sizes[] = { 65536, 1024, 0 };
        for (size_t k = 0; k < 3; k++)
                add_chunk(b, sizes[k], as_signed ? examples[i].chunks[k] : ANY);
        if (examples[i].trailer_signature)
                assert_int_equal(buf_printf(b, "%sx-amz-trailer-signature:%s\r\n", examples[i].trailer,
                                            as_signed ? examples[i].trailer_signature : ANY),
                                 0);
        assert_int_equal(buf_add(b, "\r\n"), 0);
}

static void published_uploads(void **state) {
        (void)state;
        static const size_t pieces[] = { 1 << 20, 65536, 4097, 1000, 7 };
        for (size_t i = 0; i < 2; i++) {
                cleanup(buf_done) struct buf in = BUF(1 << 20), expected = BUF(1 << 20);
                make_body(i, false, &in);
                make_body(i, true, &expected);
                assert_int_equal(in.n, (size_t)strtoul(examples[i].length, NULL, 10));
                for (size_t k = 0; k < sizeof pieces / sizeof *pieces; k++) {
                        cleanup(buf_done) struct buf out = BUF(1 << 20);
                        struct sigv4_stream stream;
                        sign_head(i, &stream);
                        for (size_t at = 0; at < in.n; at += pieces[k]) {
                                assert_false(sigv4_stream_is_whole(&stream));
                                struct str part = str_first(str_skip(buf_str(&in), at), pieces[k]);
                                assert_true(sigv4_stream_feed(&stream, part, &out) >= 0);
                        }
                        assert_true(sigv4_stream_is_whole(&stream));
                        assert_int_equal(out.n, expected.n);
                        assert_memory_equal(out.p, expected.p, out.n);
                        assert_int_equal(sigv4_stream_feed(&stream, STR("x"), &out), -EBADMSG);
                        sigv4_stream_done(&stream);
                }
        }
}

static void bad_bodies(void **state) {
        (void)state;
        static const struct {
                const char *body;
                int result;
        } cases[] = {
                { "5\r\nhello\r\n", -EBADMSG },
                { "5" SIGNATURE "short\r\n", -EBADMSG },
                { "5" SIGNATURE ANY "\r\nhelloXX", -EBADMSG },
                { "5;other=" ANY "\r\nhello\r\n", -EBADMSG },
                { SIGNATURE ANY "\r\n", -EBADMSG },
                { "200001" SIGNATURE ANY "\r\n", -E2BIG },
                { "ffffffffff" SIGNATURE ANY "\r\n", -EBADMSG },
                { "0" SIGNATURE ANY "\r\nxx", -EBADMSG },
                { "0" SIGNATURE ANY "\r\n\r\nx", -EBADMSG },
                { "0000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
                  "0000000000000000"
                  "000000000000000000",
                  -EBADMSG },
        };
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                cleanup(buf_done) struct buf out = BUF(4096);
                struct sigv4_stream stream;
                sign_head(0, &stream);
                int r = sigv4_stream_feed(&stream, str_of(cases[i].body), &out);
                if (r != cases[i].result)
                        fail_msg("case %zu: %d", i, r);
                assert_false(sigv4_stream_is_whole(&stream));
                sigv4_stream_done(&stream);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = { cmocka_unit_test(published_uploads), cmocka_unit_test(bad_bodies) };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
