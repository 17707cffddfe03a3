/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Against signatures that AWS has published: its test suite for Signature Version 4, and the examples in the API
 * reference of S3. Each request is given as a client would send it, signed with some other key; what is made anew with
 * the key of the suite must be the published signature.
 */
#include "gateway/creds/sigv4.h"

#include "base/cleanup.h"

#include <errno.h>

#include "../cmocka_all.h"

#define ANY_SIGNATURE "0000000000000000000000000000000000000000000000000000000000000000"
#define SUITE_SECRET "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
#define S3_SECRET "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
enum { SUITE_TIME = 1440938160, S3_TIME = 1369353600 };

static void derive(const char *secret, const char *date, const char *region, const char *service,
                   unsigned char ret[static DIGEST_BYTES]) {
        char first[128];
        snprintf(first, sizeof first, "AWS4%s", secret);
        digest_hmac(str_of(first), str_of(date), ret);
        digest_hmac(str_n(ret, DIGEST_BYTES), str_of(region), ret);
        digest_hmac(str_n(ret, DIGEST_BYTES), str_of(service), ret);
        digest_hmac(str_n(ret, DIGEST_BYTES), STR("aws4_request"), ret);
}

struct vector {
        const char *name, *method, *target, *headers[12]; /* name, value, ... */
        const char *signed_headers, *body, *signature;
};

static struct request_view view(const struct vector *v, struct header_view *headers, const char *host, uint64_t now) {
        struct request_view r = { .secure = true,
                                  .method = str_of(v->method),
                                  .target = str_of(v->target),
                                  .host = str_of(host),
                                  .now_s = now };
        while (v->headers[2 * r.n_headers]) {
                headers[r.n_headers] = (struct header_view){ str_of(v->headers[2 * r.n_headers]),
                                                             str_of(v->headers[2 * r.n_headers + 1]) };
                r.n_headers++;
        }
        r.headers = headers;
        return r;
}

static void check_vector(const struct vector *v) {
        struct header_view headers[16];
        char authorization[512];
        struct request_view r = view(v, headers, "example.amazonaws.com", SUITE_TIME);
        headers[r.n_headers++] = (struct header_view){ STR("X-Amz-Date"), STR("20150830T123600Z") };
        snprintf(authorization, sizeof authorization,
                 "AWS4-HMAC-SHA256 Credential=AKIAFAKE/20150830/us-east-1/service/aws4_request, SignedHeaders=%s, "
                 "Signature=" ANY_SIGNATURE,
                 v->signed_headers);
        headers[r.n_headers++] = (struct header_view){ STR("Authorization"), str_of(authorization) };

        struct sigv4 s;
        assert_true(sigv4_find(&r, &s));
        assert_true(str_is(s.key_id, "AKIAFAKE"));
        if (!sigv4_check(&r, &s))
                fail_msg("%s: %s", v->name, sigv4_problem_text(s.problem));
        struct sigv4_key key = { .key_id = STR("AKIDEXAMPLE") };
        derive(SUITE_SECRET, "20150830", "us-east-1", "service", key.key);
        unsigned char digest[DIGEST_BYTES];
        char hash[DIGEST_HEX_MAX], signature[SIGV4_SIGNATURE_HEX], expected[512];
        digest_sha256(str_of(v->body), digest);
        digest_hex(digest, hash);
        cleanup(buf_done) struct buf out = BUF(4096);
        assert_int_equal(sigv4_sign(&s, &r, &key, str_of(hash), &out, signature), 0);
        snprintf(expected, sizeof expected,
                 "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, SignedHeaders=%s, "
                 "Signature=%s",
                 v->signed_headers, v->signature);
        if (!str_is(buf_str(&out), expected))
                fail_msg("%s:\n%.*s\n%s", v->name, STR_FMT(buf_str(&out)), expected);
}

#define VANILLA "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"
#define POST_VANILLA "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"
#define PLAIN "host;x-amz-date"

static void published_suite(void **state) {
        (void)state;
        static const struct vector suite[] = {
                { "get-vanilla", "GET", "/", { 0 }, PLAIN, "", VANILLA },
                { "post-vanilla", "POST", "/", { 0 }, PLAIN, "", POST_VANILLA },
                { "get-vanilla-empty-query-key",
                  "GET",
                  "/?Param1=value1",
                  { 0 },
                  PLAIN,
                  "",
                  "a67d582fa61cc504c4bae71f336f98b97f1ea3c7a6bfe1b6e45aec72011b9aeb" },
                { "get-vanilla-query-order-key-case",
                  "GET",
                  "/?Param2=value2&Param1=value1",
                  { 0 },
                  PLAIN,
                  "",
                  "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500" },
                { "get-vanilla-utf8-query",
                  "GET",
                  "/?\xe1\x88\xb4=bar",
                  { 0 },
                  PLAIN,
                  "",
                  "2cdec8eed098649ff3a119c94853b13c643bcf08f8b0a1d91e12c9027818dd04" },
                { "get-unreserved",
                  "GET",
                  "/-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
                  { 0 },
                  PLAIN,
                  "",
                  "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f" },
                { "get-utf8",
                  "GET",
                  "/\xe1\x88\xb4",
                  { 0 },
                  PLAIN,
                  "",
                  "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85" },
                { "get-space",
                  "GET",
                  "/example space/",
                  { 0 },
                  PLAIN,
                  "",
                  "652487583200325589f1fba4c7e578f72c47cb61beeca81406b39ddec1366741" },
                { "get-relative", "GET", "/example/..", { 0 }, PLAIN, "", VANILLA },
                { "get-relative-relative", "GET", "/example1/example2/../..", { 0 }, PLAIN, "", VANILLA },
                { "get-slash", "GET", "//", { 0 }, PLAIN, "", VANILLA },
                { "get-slash-dot-slash", "GET", "/./", { 0 }, PLAIN, "", VANILLA },
                { "get-slash-pointless-dot",
                  "GET",
                  "/./example",
                  { 0 },
                  PLAIN,
                  "",
                  "ef75d96142cf21edca26f06005da7988e4f8dc83a165a80865db7089db637ec5" },
                { "get-slashes",
                  "GET",
                  "//example//",
                  { 0 },
                  PLAIN,
                  "",
                  "9a624bd73a37c9a373b5312afbebe7a714a789de108f0bdfe846570885f57e84" },
                { "get-header-key-duplicate",
                  "GET",
                  "/",
                  { "My-Header1", "value2", "My-Header1", "value2", "My-Header1", "value1" },
                  "host;my-header1;x-amz-date",
                  "",
                  "c9d5ea9f3f72853aea855b47ea873832890dbdd183b4468f858259531a5138ea" },
                { "get-header-value-order",
                  "GET",
                  "/",
                  { "My-Header1", "value4", "My-Header1", "value1", "My-Header1", "value3", "My-Header1", "value2" },
                  "host;my-header1;x-amz-date",
                  "",
                  "08c7e5a9acfcfeb3ab6b2185e75ce8b1deb5e634ec47601a50643f830c755c01" },
                { "get-header-value-trim",
                  "GET",
                  "/",
                  { "My-Header1", " value1", "My-Header2", " \"a   b   c\"" },
                  "host;my-header1;my-header2;x-amz-date",
                  "",
                  "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736" },
                { "post-header-value-case",
                  "POST",
                  "/",
                  { "My-Header1", "VALUE1" },
                  "host;my-header1;x-amz-date",
                  "",
                  "cdbc9802e29d2942e5e10b5bccfdd67c5f22c7c4e8ae67b53629efa58b974b7d" },
                { "post-x-www-form-urlencoded",
                  "POST",
                  "/",
                  { "Content-Type", "application/x-www-form-urlencoded" },
                  "content-type;host;x-amz-date",
                  "Param1=value1",
                  "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a" },
        };
        for (size_t i = 0; i < sizeof suite / sizeof *suite; i++)
                check_vector(&suite[i]);
}

static void published_session_token(void **state) {
        (void)state;
        static const char token[] =
            "AQoDYXdzEPT//////////"
            "wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8j4FZTwdQWLWsKWHGBuFqwAeMicRXmxfpSPfIeoIYRqTflfKD8YUuwthA"
            "x7mSEI/qkPpKPi/"
            "kMcGdQrmGdeehM4IC1NtBmUpp2wUE8phUZampKsburEDy0KPkyQDYwT7WZ0wq5VSXDvp75YU9HFvlRd8Tx6q6fE8YQcHNVXAkiY9"
            "q6d+xo0rKwT38xVqr7ZD0u0iPPkUL64lIZbqBAz+scqKmlzm8FDrypNC9Yjc8fPOLn9FX9KSYvKTr4rvx3iSIlTJabIQwj2ICCR/"
            "oLxBA==";
        struct header_view headers[] = {
                { STR("X-Amz-Date"), STR("20150830T123600Z") },
                { STR("Authorization"),
                  STR("AWS4-HMAC-SHA256 Credential=AKIAFAKE/20150830/us-east-1/service/aws4_request, "
                      "SignedHeaders=host;x-amz-date;x-amz-security-token, Signature=" ANY_SIGNATURE) },
                { STR("X-Amz-Security-Token"), STR("a-stand-in") },
        };
        struct request_view r = { .secure = true,
                                  .method = STR("POST"),
                                  .target = STR("/"),
                                  .host = STR("example.amazonaws.com"),
                                  .now_s = SUITE_TIME,
                                  .n_headers = 3,
                                  .headers = headers };
        struct sigv4 s;
        char signature[SIGV4_SIGNATURE_HEX];
        struct sigv4_key key = { .key_id = STR("AKIDEXAMPLE"), .token = str_of(token) };
        derive(SUITE_SECRET, "20150830", "us-east-1", "service", key.key);
        cleanup(buf_done) struct buf out = BUF(4096);
        assert_true(sigv4_find(&r, &s) && sigv4_check(&r, &s));
        assert_int_equal(sigv4_sign(&s, &r, &key, STR(""), &out, signature), 0);
        assert_memory_equal(signature, "85d96828115b5dc0cfc3bd16ad9e210dd772bbebba041836c64533a82be05ead", 64);
        /* It is signed also when the client did not know of it, and goes when there is none. */
        headers[1].value = STR("AWS4-HMAC-SHA256 Credential=AKIAFAKE/20150830/us-east-1/service/aws4_request,"
                               "SignedHeaders=host;x-amz-date,Signature=" ANY_SIGNATURE);
        r.n_headers = 2;
        buf_clear(&out);
        assert_true(sigv4_find(&r, &s) && sigv4_check(&r, &s));
        assert_int_equal(sigv4_sign(&s, &r, &key, STR(""), &out, signature), 0);
        assert_memory_equal(signature, "85d96828115b5dc0cfc3bd16ad9e210dd772bbebba041836c64533a82be05ead", 64);
        key.token = STR("");
        buf_clear(&out);
        assert_int_equal(sigv4_sign(&s, &r, &key, STR(""), &out, signature), 0);
        assert_memory_equal(signature, POST_VANILLA, 64);
}

#define S3_SCOPE "20130524/us-east-1/s3/aws4_request"

static void published_s3(void **state) {
        (void)state;
        static const struct vector examples[] = {
                { "GET object",
                  "GET",
                  "/test.txt",
                  { "Range", "bytes=0-9", "x-amz-content-sha256",
                    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
                  "host;range;x-amz-content-sha256;x-amz-date",
                  "",
                  "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41" },
                { "PUT object",
                  "PUT",
                  "/test%24file.text",
                  { "Date", "Fri, 24 May 2013 00:00:00 GMT", "x-amz-storage-class", "REDUCED_REDUNDANCY",
                    "x-amz-content-sha256", "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072" },
                  "date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class",
                  "",
                  "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd" },
                { "GET lifecycle",
                  "GET",
                  "/?lifecycle",
                  { "x-amz-content-sha256", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
                  "host;x-amz-content-sha256;x-amz-date",
                  "",
                  "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543" },
                { "GET list",
                  "GET",
                  "/?max-keys=2&prefix=J",
                  { "x-amz-content-sha256", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
                  "host;x-amz-content-sha256;x-amz-date",
                  "",
                  "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7" },
        };
        for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
                struct header_view headers[16];
                char authorization[512], signature[SIGV4_SIGNATURE_HEX];
                struct request_view r = view(&examples[i], headers, "examplebucket.s3.amazonaws.com", S3_TIME + 60);
                snprintf(authorization, sizeof authorization,
                         "AWS4-HMAC-SHA256 Credential=AKIAFAKE/" S3_SCOPE ",SignedHeaders=%s,Signature=" ANY_SIGNATURE,
                         examples[i].signed_headers);
                headers[r.n_headers++] = (struct header_view){ STR("x-amz-date"), STR("20130524T000000Z") };
                headers[r.n_headers++] = (struct header_view){ STR("authorization"), str_of(authorization) };
                struct sigv4 s;
                struct sigv4_key key = { .key_id = STR("AKIAIOSFODNN7EXAMPLE") };
                derive(S3_SECRET, "20130524", "us-east-1", "s3", key.key);
                cleanup(buf_done) struct buf out = BUF(4096);
                assert_true(sigv4_find(&r, &s) && sigv4_check(&r, &s));
                assert_int_equal(sigv4_sign(&s, &r, &key, STR(""), &out, signature), 0);
                if (memcmp(signature, examples[i].signature, 64) != 0)
                        fail_msg("%s: %.64s", examples[i].name, signature);
        }
}

static void published_presigned(void **state) {
        (void)state;
        struct request_view r = {
                .secure = true,
                .method = STR("GET"),
                .target = STR("/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIAFAKE%2F20130524%2Fus-"
                              "east-1%2Fs3%2F"
                              "aws4_request&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host&"
                              "X-Amz-Signature=" ANY_SIGNATURE),
                .host = STR("examplebucket.s3.amazonaws.com"),
                .now_s = S3_TIME + 3600,
        };
        struct sigv4 s;
        char signature[SIGV4_SIGNATURE_HEX];
        struct sigv4_key key = { .key_id = STR("AKIAIOSFODNN7EXAMPLE") };
        derive(S3_SECRET, "20130524", "us-east-1", "s3", key.key);
        cleanup(buf_done) struct buf out = BUF(4096);
        assert_true(sigv4_find(&r, &s) && sigv4_check(&r, &s));
        assert_true(s.presigned);
        assert_int_equal(sigv4_sign(&s, &r, &key, STR(""), &out, signature), 0);
        assert_memory_equal(signature, "aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404", 64);
        assert_true(str_is(buf_str(&out),
                           "/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&"
                           "X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request&"
                           "X-Amz-SignedHeaders=host&"
                           "X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"));
}

static void canonical_paths(void **state) {
        (void)state;
        static const struct {
                const char *path;
                bool s3;
                const char *canonical;
        } cases[] = {
                { "", true, "/" },
                { "", false, "/" },
                { "/a/../b//c/.", true, "/a/../b//c/." },
                { "/a/../b//c/.", false, "/b/c/" },
                { "/../../a", false, "/a" },
                { "/a/b/..", false, "/a/" },
                { "/a/..b", false, "/a/..b" },
                { "/model/x%3A0/invoke", false, "/model/x%253A0/invoke" },
                { "/model/x:0/invoke", false, "/model/x%3A0/invoke" },
                { "/k%20ey%2Fx+y", true, "/k%20ey%2Fx%2By" },
                { "/k ey", true, "/k%20ey" },
                { "/%zz", true, "/%25zz" },
        };
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                cleanup(buf_done) struct buf out = BUF(256);
                assert_int_equal(sigv4_canonical_path(str_of(cases[i].path), cases[i].s3, &out), 0);
                assert_string_equal(buf_text(&out), cases[i].canonical);
        }
}

static void canonical_queries(void **state) {
        (void)state;
        static const char *const cases[][2] = {
                { "", "" },
                { "a", "a=" },
                { "b=2&a=1&a=0", "a=0&a=1&b=2" },
                { "a-b=1&a=2", "a=2&a-b=1" },
                { "x=%2f%2F&y=a+b", "x=%2F%2F&y=a%2Bb" },
                { "&&a=b=c&", "a=b%3Dc" },
                { "B=1&a=2", "B=1&a=2" },
        };
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                cleanup(buf_done) struct buf out = BUF(256);
                assert_int_equal(sigv4_canonical_query(str_of(cases[i][0]), &out), 0);
                assert_string_equal(buf_text(&out), cases[i][1]);
        }
}

/* What cannot be signed anew says why. */
static void problems(void **state) {
        (void)state;
        static const struct {
                const char *authorization, *date, *hash;
                uint64_t now;
                bool found;
                enum sigv4_problem problem;
        } cases[] = {
#define SCOPE(date, rest) "AWS4-HMAC-SHA256 Credential=AKIAFAKE/" date "/us-east-1/s3/aws4_request," rest
#define REST "SignedHeaders=host;x-amz-date,Signature=" ANY_SIGNATURE
#define NOW "20130524T000000Z"
                { SCOPE("20130524", REST), NOW, NULL, S3_TIME, true, SIGV4_OK },
                { SCOPE("20130524", REST), NOW, NULL, S3_TIME + 901, true, SIGV4_SKEW },
                { SCOPE("20130524", REST), NOW, NULL, S3_TIME - 901, true, SIGV4_SKEW },
                { SCOPE("20130523", REST), NOW, NULL, S3_TIME, true, SIGV4_DATE },
                { SCOPE("20130524", REST), "Fri, 24 May 2013 00:00:00 GMT", NULL, S3_TIME, true, SIGV4_DATE },
                { SCOPE("20130524", "SignedHeaders=x-amz-date,Signature=" ANY_SIGNATURE), NOW, NULL, S3_TIME, true,
                  SIGV4_HEADERS },
                { SCOPE("20130524", "SignedHeaders=Host,Signature=" ANY_SIGNATURE), NOW, NULL, S3_TIME, true,
                  SIGV4_MALFORMED },
                { SCOPE("20130524", "SignedHeaders=host"), NOW, NULL, S3_TIME, true, SIGV4_MALFORMED },
                { SCOPE("20130524", REST ",Extra=1"), NOW, NULL, S3_TIME, true, SIGV4_MALFORMED },
                { SCOPE("20130524", REST), NOW, "STREAMING-AWS4-HMAC-SHA256-EVENTS", S3_TIME, true, SIGV4_PAYLOAD },
                { SCOPE("20130524", REST), NOW, "UNSIGNED-PAYLOAD", S3_TIME, true, SIGV4_OK },
                { SCOPE("20130524", REST), NOW, "STREAMING-UNSIGNED-PAYLOAD-TRAILER", S3_TIME, true, SIGV4_OK },
                { "AWS4-HMAC-SHA256 Credential=AKIAFAKE/20130524/s3/aws4_request," REST, NOW, NULL, S3_TIME, true,
                  SIGV4_MALFORMED },
                { "AWS4-ECDSA-P256-SHA256 Credential=AKIAFAKE/20130524/s3/aws4_request," REST, NOW, NULL, S3_TIME, true,
                  SIGV4_ALGORITHM },
                { "Bearer AKIAFAKE", NOW, NULL, S3_TIME, false, SIGV4_OK },
                { "AWS4-HMAC-SHA256 Nothing=1", NOW, NULL, S3_TIME, false, SIGV4_OK },
        };
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                struct header_view headers[3] = { { STR("Authorization"), str_of(cases[i].authorization) },
                                                  { STR("X-Amz-Date"), str_of(cases[i].date) },
                                                  { STR("X-Amz-Content-Sha256"), str_of(cases[i].hash) } };
                struct request_view r = { .secure = true,
                                          .method = STR("GET"),
                                          .target = STR("/"),
                                          .host = STR("s3.amazonaws.com"),
                                          .now_s = cases[i].now,
                                          .n_headers = cases[i].hash ? 3 : 2,
                                          .headers = headers };
                struct sigv4 s;
                bool found = sigv4_find(&r, &s);
                if (found != cases[i].found)
                        fail_msg("case %zu: found %d", i, found);
                if (!found)
                        continue;
                bool fine = sigv4_check(&r, &s);
                if (s.problem != cases[i].problem || fine != (s.problem == SIGV4_OK))
                        fail_msg("case %zu: problem %u", i, s.problem);
                assert_true(fine || sigv4_problem_text(s.problem)[0]);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(published_suite), cmocka_unit_test(published_session_token),
                cmocka_unit_test(published_s3),    cmocka_unit_test(published_presigned),
                cmocka_unit_test(canonical_paths), cmocka_unit_test(canonical_queries),
                cmocka_unit_test(problems),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
