/* SPDX-License-Identifier: Apache-2.0 */
#include "ipc/credentials.h"

#include "base/base64.h"
#include "base/cleanup.h"
#include "base/fd.h"

#include <errno.h>

#include "../cmocka_all.h"

#define FAKE_OPENAI "sk-proj-Fake0000fake1111fake2222"
#define FAKE_GITHUB "ghp_FakeFakeFakeFakeFakeFakeFake123456"
#define FAKE_KEY_ID "AKIAFAKEFAKEFAKEFAKE"
#define FAKE_SECRET_KEY "fakeFAKEfake/FAKEfake+FAKEfakeFAKEfake12"

static const struct str openai_hosts[] = { STR("api.openai.com") };
static const struct str github_hosts[] = { STR("github.com"), STR("api.github.com"), STR("127.0.0.1:8443") };
static const struct str aws_hosts[] = { STR("*.amazonaws.com"), STR("*.amazonaws.com:8443") };

static const struct credential_row rows[] = {
        { .kind = MAPPING_VALUE,
          .name = STR("openai"),
          .slots = STR("bearer"),
          .env = { STR("OPENAI_API_KEY") },
          .stand_in = { STR(FAKE_OPENAI) },
          .hosts = openai_hosts,
          .n_hosts = 1 },
        { .kind = MAPPING_VALUE,
          .name = STR("github"),
          .slots = STR("bearer,basic,header:X-Token"),
          .env = { STR("GITHUB_TOKEN") },
          .stand_in = { STR(FAKE_GITHUB) },
          .hosts = github_hosts,
          .n_hosts = 3 },
        { .kind = MAPPING_SIGV4,
          .name = STR("aws"),
          .slots = STR("sigv4"),
          .env = { [PART_KEY_ID] = STR("AWS_ACCESS_KEY_ID"), [PART_SECRET_KEY] = STR("AWS_SECRET_ACCESS_KEY") },
          .stand_in = { [PART_KEY_ID] = STR(FAKE_KEY_ID), [PART_SECRET_KEY] = STR(FAKE_SECRET_KEY) },
          .hosts = aws_hosts,
          .n_hosts = 2 },
};
enum { ROWS = sizeof rows / sizeof *rows };

struct table {
        struct buf bytes;
        struct credentials *open;
};

static struct table make(const struct credential_row *list, size_t n) {
        struct table t = { .bytes = BUF(CREDENTIALS_BYTES_MAX) };
        struct err e = { 0 };
        if (credentials_encode(list, n, &t.bytes, &e) < 0)
                fail_msg("%s", err_text(&e));
        assert_int_equal(credentials_open(buf_str(&t.bytes), &t.open, &e), 0);
        return t;
}

static void done(struct table *t) {
        credentials_close(t->open);
        buf_done(&t->bytes);
}

static void goes_there_and_back(void **state) {
        (void)state;
        cleanup(done) struct table t = make(rows, ROWS);
        assert_int_equal(credentials_count(t.open), ROWS);
        for (uint32_t i = 0; i < ROWS; i++) {
                const struct credential_mapping *m = credentials_get(t.open, i);
                assert_int_equal(m->index, i);
                assert_int_equal(m->kind, rows[i].kind);
                assert_true(str_eq(m->name, rows[i].name));
                for (int part = 0; part < PARTS; part++) {
                        assert_true(str_eq(m->env[part], rows[i].env[part]));
                        assert_true(str_eq(m->stand_in[part], rows[i].stand_in[part]));
                }
                assert_int_equal(m->n_hosts, rows[i].n_hosts);
        }
        assert_null(credentials_get(t.open, ROWS));
        const struct credential_mapping *github = credentials_get(t.open, 1);
        assert_int_equal(github->n_slots, 3);
        assert_int_equal(github->slots[1].kind, SLOT_BASIC);
        assert_int_equal(github->slots[2].kind, SLOT_HEADER);
        assert_true(str_is(github->slots[2].name, "X-Token"));
}

static void hosts_and_ports(void **state) {
        (void)state;
        static const struct {
                const char *host;
                uint16_t port;
                int index; /* -1: none */
        } cases[] = {
                { "api.openai.com", 443, 0 },     { "api.openai.com", 80, -1 },
                { "api.openai.com", 8443, -1 },   { "openai.com", 443, -1 },
                { "github.com", 443, 1 },         { "api.github.com", 443, 1 },
                { "x.github.com", 443, -1 },      { "127.0.0.1", 8443, 1 },
                { "127.0.0.1", 443, -1 },         { "s3.eu-west-1.amazonaws.com", 443, 2 },
                { "s3.amazonaws.com", 8443, 2 },  { "amazonaws.com", 443, -1 },
                { "evilamazonaws.com", 443, -1 },
        };
        cleanup(done) struct table t = make(rows, ROWS);
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                struct host h;
                assert_int_equal(host_parse(str_of(cases[i].host), &h, NULL), 0);
                struct credential_set set = credentials_at(t.open, &h, cases[i].port);
                assert_int_equal(credential_set_is_empty(&set), cases[i].index < 0);
                for (int k = 0; k < ROWS; k++)
                        assert_int_equal(credential_set_has(&set, (uint32_t)k), k == cases[i].index);
        }
}

static void finds_fakes_in_any_form(void **state) {
        (void)state;
        cleanup(done) struct table t = make(rows, ROWS);
        struct credential_hit hit;
        size_t at = 0;
        struct str text = STR("a=" FAKE_GITHUB "&b=sk%2Dproj-Fake0000fake1111fake2222&" FAKE_SECRET_KEY);
        assert_true(credentials_find(t.open, text, &at, &hit));
        assert_int_equal(hit.mapping, 1);
        assert_int_equal(hit.end, 2 + strlen(FAKE_GITHUB));
        assert_true(credentials_find(t.open, text, &at, &hit));
        assert_int_equal(hit.mapping, 0);
        assert_true(credentials_find(t.open, text, &at, &hit));
        assert_int_equal(hit.mapping, 2);
        assert_int_equal(hit.part, PART_SECRET_KEY);
        assert_false(hit.base64);
        assert_false(credentials_find(t.open, text, &at, &hit));
        assert_int_equal(at, text.n);

        for (size_t before = 0; before < 3; before++)
                for (int alphabet = BASE64_STANDARD; alphabet <= BASE64_URL; alphabet++) {
                        char plain[128] = "xyz", encoded[256];
                        memcpy(plain + before, FAKE_SECRET_KEY "~~~", strlen(FAKE_SECRET_KEY) + 3);
                        struct str in = str_n(plain, before + strlen(FAKE_SECRET_KEY) + 3);
                        base64_encode(in, alphabet, encoded);
                        at = 0;
                        assert_true(credentials_find(t.open, str_n(encoded, base64_length(in.n)), &at, &hit));
                        assert_int_equal(hit.mapping, 2);
                        assert_true(hit.base64);
                }
        at = 0;
        assert_false(credentials_find(t.open, STR("sk-proj-Fake0000fake1111fake222 ghp_"), &at, &hit));
}

/* Each is one change to a good row that must be refused. */
static void refuses_bad_rows(void **state) {
        (void)state;
        static const struct str networks[] = { STR("10.0.0.0/8") }, broken[] = { STR("a b") };
        struct credential_row bad[16];
        size_t n = 0;
#define BAD(change) (bad[n] = rows[0], bad[n].change, n++)
        BAD(name = STR(""));
        BAD(name = STR("a,b"));
        BAD(slots = STR(""));
        BAD(slots = STR("cookie"));
        BAD(slots = STR("header:"));
        BAD(slots = STR("header:Host"));
        BAD(slots = STR("header:proxy-authorization"));
        BAD(slots = STR("bearer,,basic"));
        BAD(slots = STR("sigv4"));
        BAD(slots = STR("query:a=b"));
        BAD(env[0] = STR("1A"));
        BAD(stand_in[0] = STR("short"));
        BAD(stand_in[0] = STR("with a space in it"));
        BAD(stand_in[PART_SECRET_KEY] = STR("not for this kind"));
        BAD(hosts = networks);
        BAD(hosts = broken);
        for (size_t i = 0; i < n; i++) {
                cleanup(buf_done) struct buf out = BUF(CREDENTIALS_BYTES_MAX);
                struct err e = { 0 };
                if (credentials_encode(&bad[i], 1, &out, &e) == 0)
                        fail_msg("bad row %zu was taken", i);
                assert_int_equal(out.n, 0);
                assert_true(err_text(&e)[0] != '\0');
        }
        struct credential_row twice[] = { rows[0], rows[0] };
        cleanup(buf_done) struct buf out = BUF(CREDENTIALS_BYTES_MAX);
        assert_int_equal(credentials_encode(twice, 2, &out, NULL), -EEXIST);
        twice[1].name = STR("other");
        assert_int_equal(credentials_encode(twice, 2, &out, NULL), -EEXIST);
        twice[1].stand_in[0] = STR(FAKE_GITHUB);
        assert_int_equal(credentials_encode(twice, 2, &out, NULL), 0);
}

/* One of before a rotation is found as such; it may not be one that counts. */
static void finds_rotated_ones(void **state) {
        (void)state;
        static const struct str old[] = { STR("sk-proj-0ldF4keOldF4keOldF4ke01") };
        struct credential_row row = rows[0];
        struct credential_hit hit;
        size_t at = 0;

        row.old = old;
        row.n_old = 1;
        cleanup(done) struct table t = make(&row, 1);
        assert_true(credentials_find(t.open, STR("Bearer sk-proj-0ldF4keOldF4keOldF4ke01"), &at, &hit));
        assert_int_equal(hit.part, PARTS);
        at = 0;
        assert_true(credentials_find(t.open, STR("Bearer " FAKE_OPENAI), &at, &hit));
        assert_int_equal(hit.part, PART_VALUE);

        cleanup(buf_done) struct buf out = BUF(CREDENTIALS_BYTES_MAX);
        row.old = row.stand_in;
        assert_int_equal(credentials_encode(&row, 1, &out, NULL), -EEXIST);
        row.old = (const struct str[]){ STR("short") };
        assert_int_equal(credentials_encode(&row, 1, &out, NULL), -EINVAL);
        row.n_old = CREDENTIAL_OLD_MAX + 1;
        struct str many[CREDENTIAL_OLD_MAX + 1];
        for (size_t i = 0; i <= CREDENTIAL_OLD_MAX; i++)
                many[i] = old[0];
        row.old = many;
        assert_int_equal(credentials_encode(&row, 1, &out, NULL), -E2BIG);
}

static void refuses_damage(void **state) {
        (void)state;
        cleanup(done) struct table t = make(rows, ROWS);
        struct credentials *c = NULL;
        for (size_t n = 0; n < t.bytes.n; n++)
                assert_int_not_equal(credentials_open(str_first(buf_str(&t.bytes), n), &c, NULL), 0);
        cleanup(buf_done) struct buf longer = BUF(CREDENTIALS_BYTES_MAX);
        assert_int_equal(buf_append(&longer, buf_str(&t.bytes)), 0);
        assert_int_equal(buf_add_char(&longer, 'x'), 0);
        assert_int_equal(credentials_open(buf_str(&longer), &c, NULL), -EBADMSG);
}

static void only_sealed_files(void **state) {
        (void)state;
        cleanup(done) struct table t = make(rows, ROWS);
        cleanup(close_fd) int fd = -1;
        cleanup(credentials_closep) struct credentials *c = NULL;
        assert_int_equal(fd_sealed("credentials", buf_str(&t.bytes), &fd, NULL), 0);
        assert_int_equal(credentials_open_fd(fd, &c, NULL), 0);
        assert_int_equal(credentials_count(c), ROWS);
        struct credentials *none = NULL;
        assert_true(credentials_open_fd(0, &none, NULL) < 0);
        assert_null(none);
}

static void empty_table(void **state) {
        (void)state;
        cleanup(done) struct table t = make(NULL, 0);
        struct host h;
        struct credential_hit hit;
        size_t at = 0;
        assert_int_equal(host_parse(STR("a.test"), &h, NULL), 0);
        struct credential_set set = credentials_at(t.open, &h, 443);
        assert_true(credential_set_is_empty(&set));
        assert_false(credentials_find(t.open, STR("anything"), &at, &hit));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(goes_there_and_back),     cmocka_unit_test(hosts_and_ports),
                cmocka_unit_test(finds_fakes_in_any_form), cmocka_unit_test(refuses_bad_rows),
                cmocka_unit_test(finds_rotated_ones),      cmocka_unit_test(refuses_damage),
                cmocka_unit_test(only_sealed_files),       cmocka_unit_test(empty_table),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
