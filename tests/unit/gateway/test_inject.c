/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/creds/inject.h"

#include "base/base64.h"
#include "base/cleanup.h"

#include <errno.h>

#include "../cmocka_all.h"

/* Stand-ins and, of the same length, what they stand for. */
#define F_API "sk-FAKE0123456789abcd"
#define R_API "sk-REAL-9876543210/+="
#define F_GIT "ghp_FAKEFAKEFAKEFAKE"
#define R_GIT "ghp_REALrealREALreal"
#define F_KEY "AKIAFAKEFAKEFAKEFAKE"
#define F_SECRET "fakeFAKEfakeFAKEfakeFAKEfakeFAKEfake1234"

static const struct str api_hosts[] = { STR("api.ok.test"), STR("api.ok.test:8443") },
                        git_hosts[] = { STR("git.ok.test") }, aws_hosts[] = { STR("*.aws.test") };

static const struct credential_row rows[] = {
        { .name = STR("api"),
          .slots = STR("bearer,header:X-Api-Key,query:key,path"),
          .stand_in = { STR(F_API) },
          .hosts = api_hosts,
          .n_hosts = 2 },
        { .name = STR("git"),
          .slots = STR("bearer,basic"),
          .stand_in = { STR(F_GIT) },
          .hosts = git_hosts,
          .n_hosts = 1 },
        { .kind = MAPPING_SIGV4,
          .name = STR("aws"),
          .slots = STR("sigv4"),
          .stand_in = { [PART_KEY_ID] = STR(F_KEY), [PART_SECRET_KEY] = STR(F_SECRET) },
          .hosts = aws_hosts,
          .n_hosts = 1 },
};

static struct buf table_bytes = BUF(CREDENTIALS_BYTES_MAX);
static struct credentials *table;

static int open_table(void **state) {
        (void)state;
        return credentials_encode(rows, 3, &table_bytes, NULL) || credentials_open(buf_str(&table_bytes), &table, NULL);
}

static int close_table(void **state) {
        (void)state;
        credentials_close(table);
        buf_done(&table_bytes);
        return 0;
}

struct request {
        struct request_view view;
        struct header_view headers[8];
        struct authority to;
};

/* headers: "Name: value" texts, NULL at the end. */
static void fill(struct request *q, const char *to, bool secure, const char *target, const char *const *headers) {
        *q = (struct request){ .view = { .secure = secure, .method = STR("GET"), .target = str_of(target) } };
        assert_int_equal(authority_parse(str_of(to), 443, &q->to, NULL), 0);
        for (; *headers; headers++) {
                struct str line = str_of(*headers);
                size_t colon = (size_t)str_find(line, ':');
                q->headers[q->view.n_headers++] =
                    (struct header_view){ str_first(line, colon), str_trim(str_skip(line, colon + 1)) };
        }
        q->view.headers = q->headers;
        q->view.host = host_str(&q->to.host);
}

#define HEADERS(...) ((const char *const[]){ __VA_ARGS__ __VA_OPT__(, ) NULL })

static void expect_problem(const char *to, bool secure, const char *target, const char *const *headers,
                           enum inject_problem problem) {
        struct request q;
        struct inject_plan plan;
        fill(&q, to, secure, target, headers);
        enum inject_result r = inject_judge(table, &q.to, &q.view, &plan);
        if (r != INJECT_REFUSE || plan.problem != problem)
                fail_msg("%s %s %s: result %d, problem %d instead of %d", to, target, headers[0] ? headers[0] : "", r,
                         plan.problem, problem);
        assert_true(inject_problem_text(&plan)[0] != '\0');
}

static void expect_pass(const char *to, const char *target, const char *const *headers) {
        struct request q;
        struct inject_plan plan;
        fill(&q, to, true, target, headers);
        assert_int_equal(inject_judge(table, &q.to, &q.view, &plan), INJECT_PASS);
        q.view.secure = false;
        assert_int_equal(inject_judge(table, &q.to, &q.view, &plan), INJECT_PASS);
}

/* The target and the first header after the swap. */
static void expect_swap(const char *to, const char *target, const char *const *headers, const char *new_target,
                        const char *new_value, const char *names) {
        struct request q;
        struct inject_plan plan;
        struct str values[INJECT_SWAPS_MAX];
        cleanup(buf_done) struct buf out = BUF(4096);
        fill(&q, to, true, target, headers);
        if (inject_judge(table, &q.to, &q.view, &plan) != INJECT_SWAP)
                fail_msg("%s %s: not swapped: %s", to, headers[0] ? headers[0] : target, inject_problem_text(&plan));
        for (size_t i = 0; i < plan.n_swaps; i++)
                values[i] = plan.swaps[i].mapping == 0 ? STR(R_API) : STR(R_GIT);
        assert_int_equal(inject_target(&plan, &q.view, values, &out), new_target ? 1 : 0);
        if (new_target)
                assert_string_equal(buf_text(&out), new_target);
        buf_clear(&out);
        if (q.view.n_headers > 0)
                assert_int_equal(inject_header(&plan, &q.view, 0, values, &out), new_value ? 1 : 0);
        if (new_value)
                assert_string_equal(buf_text(&out), new_value);
        buf_clear(&out);
        assert_int_equal(inject_names(&plan, table, &out), 0);
        assert_string_equal(buf_text(&out), names);
        /* The same in the clear is refused. */
        q.view.secure = false;
        assert_int_equal(inject_judge(table, &q.to, &q.view, &plan), INJECT_REFUSE);
        assert_int_equal(plan.problem, INJECT_PLAIN);
}

/* "Prefix |user:password" with what follows the bar in base64. */
static const char *basic(const char *text, char *out) {
        struct str plain = str_of(text), prefix;
        assert_true(str_split(&plain, '|', &prefix));
        memcpy(out, prefix.p, prefix.n);
        base64_encode(plain, BASE64_STANDARD, out + prefix.n);
        out[prefix.n + base64_length(plain.n)] = '\0';
        return out;
}

static void swaps_in_its_slots(void **state) {
        (void)state;
        char line[256], value[256];
        expect_swap("api.ok.test", "/v1", HEADERS("Authorization: Bearer " F_API), NULL, "Bearer " R_API, "api");
        expect_swap("api.ok.test:8443", "/", HEADERS("authorization: bearer   " F_API), NULL, "bearer   " R_API, "api");
        expect_swap("api.ok.test", "/v1", HEADERS("x-api-key: " F_API), NULL, R_API, "api");
        expect_swap("git.ok.test", "/", HEADERS("Authorization: token " F_GIT), NULL, "token " R_GIT, "git");
        expect_swap("api.ok.test", "/v1?a=b&key=" F_API "&c", HEADERS(), "/v1?a=b&key=sk-REAL-9876543210%2F%2B%3D&c",
                    NULL, "api");
        expect_swap("api.ok.test", "/v1?%6bey=sk%2DFAKE0123456789abcd", HEADERS(),
                    "/v1?%6bey=sk-REAL-9876543210%2F%2B%3D", NULL, "api");
        expect_swap("api.ok.test", "/bot/" F_API "/send", HEADERS(), "/bot/sk-REAL-9876543210%2F+=/send", NULL, "api");
        expect_swap("api.ok.test", "/" F_API, HEADERS("x-api-key: " F_API), "/sk-REAL-9876543210%2F+=", R_API, "api");
        expect_swap("git.ok.test", "/", HEADERS(basic("Authorization: Basic |" F_GIT ":x-oauth-basic", line)), NULL,
                    basic("Basic |" R_GIT ":x-oauth-basic", value), "git");
        expect_swap("git.ok.test", "/", HEADERS(basic("Authorization: basic |me:" F_GIT, line)), NULL,
                    basic("Basic |me:" R_GIT, value), "git");
        expect_swap("git.ok.test", "/", HEADERS(basic("Authorization: Basic |" F_GIT ":", line)), NULL,
                    basic("Basic |" R_GIT ":", value), "git");
        expect_swap("git.ok.test", "/", HEADERS(basic("Authorization: Basic |" F_GIT ":" F_GIT, line)), NULL,
                    basic("Basic |" R_GIT ":" R_GIT, value), "git");
}

static void refuses_everywhere_else(void **state) {
        (void)state;
        char line[256];
        /* another host, another port */
        expect_problem("git.ok.test", true, "/", HEADERS("Authorization: Bearer " F_API), INJECT_WRONG_HOST);
        expect_problem("api.ok.test:444", true, "/", HEADERS("Authorization: Bearer " F_API), INJECT_WRONG_HOST);
        expect_problem("evil.test", true, "/?q=" F_API, HEADERS(), INJECT_WRONG_HOST);
        expect_problem("evil.test", true, "/", HEADERS(basic("X: |a" F_GIT "b", line)), INJECT_WRONG_HOST);
        expect_problem("evil.test", true, "/%73k-FAKE0123456789abcd", HEADERS(), INJECT_WRONG_HOST);
        expect_problem("evil.test", true, "/", HEADERS("X-" F_GIT ": 1"), INJECT_WRONG_HOST);
        /* the right host, another place */
        expect_problem("api.ok.test", true, "/", HEADERS("User-Agent: " F_API), INJECT_WRONG_SLOT);
        expect_problem("api.ok.test", true, "/", HEADERS("Cookie: a=" F_API), INJECT_WRONG_SLOT);
        expect_problem("api.ok.test", true, "/?other=" F_API, HEADERS(), INJECT_WRONG_SLOT);
        expect_problem("api.ok.test", true, "/?" F_API, HEADERS(), INJECT_WRONG_SLOT);
        expect_problem("api.ok.test", true, "/x" F_API, HEADERS(), INJECT_WRONG_SLOT);
        expect_problem("api.ok.test", true, "/a;" F_API "/", HEADERS(), INJECT_WRONG_SLOT);
        expect_problem("git.ok.test", true, "/" F_GIT, HEADERS(), INJECT_WRONG_SLOT);
        expect_problem("api.ok.test", true, "/", HEADERS(basic("Authorization: Basic |" F_API ":", line)),
                       INJECT_WRONG_SLOT);
        /* only a part of the value */
        expect_problem("api.ok.test", true, "/", HEADERS("Authorization: Bearer " F_API "x"), INJECT_WRONG_SLOT);
        expect_problem("api.ok.test", true, "/", HEADERS("Authorization: Bearer " F_API ", Bearer y"),
                       INJECT_WRONG_SLOT);
        expect_problem("api.ok.test", true, "/", HEADERS("Authorization: Bearer\t" F_API), INJECT_WRONG_SLOT);
        expect_problem("api.ok.test", true, "/", HEADERS("Authorization: Digest " F_API), INJECT_WRONG_SLOT);
        expect_problem("api.ok.test", true, "/", HEADERS("Authorization: " F_API), INJECT_WRONG_SLOT);
        expect_problem("api.ok.test", true, "/", HEADERS("x-api-key: Bearer " F_API), INJECT_WRONG_SLOT);
        expect_problem("api.ok.test", true, "/?key=x" F_API, HEADERS(), INJECT_WRONG_SLOT);
        expect_problem("git.ok.test", true, "/", HEADERS(basic("Authorization: Basic |u:x" F_GIT, line)),
                       INJECT_WRONG_SLOT);
        expect_problem("git.ok.test", true, "/", HEADERS(basic("Authorization: Basic |" F_GIT ":" F_API, line)),
                       INJECT_WRONG_HOST);
        /* a good one does not excuse a bad one */
        expect_problem("api.ok.test", true, "/?q=" F_API, HEADERS("x-api-key: " F_API), INJECT_WRONG_SLOT);
        expect_problem("api.ok.test", true, "/", HEADERS("x-api-key: " F_API, "Referer: https://a/?" F_GIT),
                       INJECT_WRONG_HOST);
        /* the parts of an AWS credential are in no slot by themselves */
        expect_problem("s3.aws.test", true, "/", HEADERS("Authorization: Bearer " F_KEY), INJECT_WRONG_SLOT);
        expect_problem("s3.aws.test", true, "/?x=" F_SECRET, HEADERS(), INJECT_WRONG_SLOT);
}

static void refuses_what_is_there_twice(void **state) {
        (void)state;
        expect_problem("api.ok.test", true, "/", HEADERS("Authorization: Bearer " F_API, "authorization: x"),
                       INJECT_TWICE);
        expect_problem("api.ok.test", true, "/", HEADERS("Authorization: x", "Authorization: Bearer " F_API),
                       INJECT_TWICE);
        expect_problem("api.ok.test", true, "/", HEADERS("Authorization: x", "Authorization: y"), INJECT_TWICE);
        expect_problem("api.ok.test", true, "/", HEADERS("X-Api-Key: " F_API, "x-api-key: y"), INJECT_TWICE);
        expect_problem("api.ok.test", true, "/?key=" F_API "&key=1", HEADERS(), INJECT_TWICE);
        struct request q;
        struct inject_plan plan;
        fill(&q, "api.ok.test", true, "/", HEADERS());
        q.view.method = STR(F_API);
        assert_int_equal(inject_judge(table, &q.to, &q.view, &plan), INJECT_REFUSE);
        expect_problem("api.ok.test", true, "/?%6bey=1&key=" F_API, HEADERS(), INJECT_TWICE);
        expect_problem("api.ok.test", true, "/?k%65y=" F_API "&ke%79=1", HEADERS(), INJECT_TWICE);
        expect_problem("api.ok.test", true, "/" F_API "/" F_API "/" F_API "/" F_API "/" F_API, HEADERS(),
                       INJECT_TOO_MANY);
}

/* Headers that end here are no slots: what would be swapped would be taken out again, or not, depending on who looks.
 */
static void hop_by_hop(void **state) {
        (void)state;
        expect_problem("api.ok.test", true, "/", HEADERS("Connection: close, X-Api-Key", "X-Api-Key: " F_API),
                       INJECT_WRONG_SLOT);
        expect_problem("api.ok.test", true, "/", HEADERS("Connection: authorization", "Authorization: Bearer " F_API),
                       INJECT_WRONG_SLOT);
        expect_problem("api.ok.test", true, "/", HEADERS("Proxy-Authorization: Bearer " F_API), INJECT_WRONG_SLOT);
        expect_problem("api.ok.test", true, "/", HEADERS("Connection: " F_API), INJECT_WRONG_SLOT);
}

static void leaves_others_alone(void **state) {
        (void)state;
        expect_pass("api.ok.test", "/v1?key=x", HEADERS("Authorization: Bearer my-own-token", "x-api-key: y"));
        expect_pass("evil.test", "/", HEADERS("Authorization: a", "Authorization: b"));
        expect_pass("api.ok.test", "/%zz?%", HEADERS("Authorization: Basic !!!"));
        struct request q;
        struct inject_plan plan;
        fill(&q, "api.ok.test", true, "/", HEADERS("Authorization: Bearer " F_API));
        assert_int_equal(inject_judge(NULL, &q.to, &q.view, &plan), INJECT_PASS);
}

static void secrets_that_do_not_fit(void **state) {
        (void)state;
        struct request q;
        struct inject_plan plan;
        cleanup(buf_done) struct buf out = BUF(64);
        static const struct str bad[] = { STR("a\r\nb: c"), STR("a\0b"), STR(" x"), STR("x "), STR("") };
        fill(&q, "api.ok.test", true, "/", HEADERS("x-api-key: " F_API));
        assert_int_equal(inject_judge(table, &q.to, &q.view, &plan), INJECT_SWAP);
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
                assert_int_equal(inject_header(&plan, &q.view, 0, &bad[i], &out), -EILSEQ);
        char large[100];
        memset(large, 'x', sizeof large);
        assert_int_equal(inject_header(&plan, &q.view, 0, &(struct str){ large, sizeof large }, &out), -EMSGSIZE);
        char line[256];
        fill(&q, "git.ok.test", true, "/", HEADERS(basic("Authorization: Basic |" F_GIT ":", line)));
        assert_int_equal(inject_judge(table, &q.to, &q.view, &plan), INJECT_SWAP);
        assert_int_equal(inject_header(&plan, &q.view, 0, &STR("a:b"), &out), -EILSEQ);
}

static void signatures(void **state) {
        (void)state;
#define SIGNED(key)                                                                                                    \
        "Authorization: AWS4-HMAC-SHA256 Credential=" key "/20130524/us-east-1/s3/aws4_request,SignedHeaders=host;"    \
        "x-amz-date,Signature=0000000000000000000000000000000000000000000000000000000000000000"
        struct request q;
        struct inject_plan plan;
        fill(&q, "s3.aws.test", true, "/b/k", HEADERS(SIGNED(F_KEY), "X-Amz-Date: 20130524T000000Z"));
        q.view.now_s = 1369353600;
        assert_int_equal(inject_judge(table, &q.to, &q.view, &plan), INJECT_SWAP);
        assert_int_equal(plan.n_swaps, 1);
        assert_int_equal(plan.swaps[0].slot, SLOT_SIGV4);
        assert_int_equal(plan.swaps[0].mapping, 2);
        assert_true(str_is(plan.sigv4.region, "us-east-1"));
        q.view.now_s += 3600;
        assert_int_equal(inject_judge(table, &q.to, &q.view, &plan), INJECT_REFUSE);
        assert_int_equal(plan.problem, INJECT_SIGNATURE);
        q.view.now_s = 1369353600;
        q.view.target = STR("/b/" F_SECRET);
        assert_int_equal(inject_judge(table, &q.to, &q.view, &plan), INJECT_REFUSE);
        assert_int_equal(plan.problem, INJECT_WRONG_SLOT);
        expect_problem("evil.test", true, "/", HEADERS(SIGNED(F_KEY), "X-Amz-Date: 20130524T000000Z"),
                       INJECT_WRONG_HOST);
        expect_problem("s3.aws.test", false, "/", HEADERS(SIGNED(F_KEY), "X-Amz-Date: 20130524T000000Z"), INJECT_PLAIN);
        expect_pass("s3.aws.test", "/", HEADERS(SIGNED("AKIASOMEBODYELSESKEY"), "X-Amz-Date: 20130524T000000Z"));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(swaps_in_its_slots),
                cmocka_unit_test(refuses_everywhere_else),
                cmocka_unit_test(refuses_what_is_there_twice),
                cmocka_unit_test(hop_by_hop),
                cmocka_unit_test(leaves_others_alone),
                cmocka_unit_test(secrets_that_do_not_fit),
                cmocka_unit_test(signatures),
        };
        return cmocka_run_group_tests(tests, open_table, close_table);
}
