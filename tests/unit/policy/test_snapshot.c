/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/judge/snapshot.h"

#include "../cmocka_all.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "policy/match/pattern.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

/* A fixed sequence: a failure is the same failure every time. */
static uint32_t next_random(uint64_t *state) {
        *state = *state * 6364136223846793005ULL + 1442695040888963407ULL;
        return (uint32_t)(*state >> 33);
}

static const char *const sample[] = { "api.example.com:443", "*.example.com",         "10.1.2.0/24:80", "fd00::/8",
                                      "localhost:3000",      "a.b.c.example.net:1-99" };

static void build_sample(void **ret, size_t *ret_n) {
        cleanup(snapshot_builder_freep) struct snapshot_builder *b = snapshot_builder_new(NETWORK_FILTERED, true);
        const struct str methods[] = { STR("GET") }, paths[] = { STR("/a/**"), STR("/b") };
        struct addr self = { ADDR_V4, { 127, 0, 0, 1 } };
        assert_non_null(b);
        for (size_t i = 0; i < sizeof sample / sizeof sample[0]; i++) {
                assert_int_equal(snapshot_add(b, LIST_ALLOW, str_of(sample[i]), STR("here"), NULL), 0);
                assert_int_equal(snapshot_add(b, LIST_DENY, str_of(sample[i]), STR("there"), NULL), 0);
        }
        assert_int_equal(snapshot_add_request_rule(b, STR("r.example.com"), methods, 1, paths, 2, STR("rule"), NULL),
                         0);
        assert_int_equal(snapshot_add_self(b, &self, 3128, NULL), 0);
        assert_int_equal(snapshot_build(b, ret, ret_n, NULL), 0);
}

/* Asks everything there is to ask; only memory safety and an end are expected. */
static void exercise(const struct snapshot *s) {
        static const char *const hosts[] = { "api.example.com",   "x.y.example.com",
                                             "localhost",         "r.example.com",
                                             "10.1.2.3",          "[fd00::1]",
                                             "zz.test",           "host.bailey.internal",
                                             "[64:ff9b::a01:203]" };
        struct addr addr = { ADDR_V4, { 10, 1, 2, 3 } };
        struct snapshot_rule rule;
        for (size_t i = 0; i < sizeof hosts / sizeof hosts[0]; i++) {
                struct host h;
                assert_int_equal(host_parse(str_of(hosts[i]), &h, NULL), 0);
                struct verdict v = verdict_target(s, &h, 80);
                snapshot_rule(s, v.rule, &rule);
                v = verdict_request(s, &h, 443, STR("GET"), STR("/a/b"));
                assert_true(v.decision <= DECISION_ASK);
                v = verdict_address(s, &h, &addr, 80);
                v = verdict_name(s, &h);
        }
}

static void rules_keep_their_words(void **state) {
        (void)state;
        cleanup(free_ptr) void *block = NULL;
        cleanup(snapshot_closep) struct snapshot *s = NULL;
        size_t n;
        build_sample(&block, &n);
        assert_int_equal(snapshot_open(block, n, &s, NULL), 0);
        struct snapshot_rule rule;
        struct host h;
        assert_int_equal(host_parse(STR("api.example.com"), &h, NULL), 0);
        struct verdict v = verdict_target(s, &h, 443);
        assert_int_equal(v.reason, REASON_DENY_RULE);
        assert_true(snapshot_rule(s, v.rule, &rule));
        assert_true(str_is(rule.text, "api.example.com:443"));
        assert_true(str_is(rule.origin, "there"));
        assert_int_equal(rule.list, LIST_DENY);
        assert_false(snapshot_rule(s, RULE_NONE, &rule));
        assert_false(snapshot_rule(s, (uint32_t)snapshot_rule_count(s), &rule));
        assert_int_equal(snapshot_rule_count(s), 2 * sizeof sample / sizeof sample[0] + 2);
        assert_int_equal(snapshot_mode(s), NETWORK_FILTERED);
}

static void errors_say_where(void **state) {
        (void)state;
        cleanup(snapshot_builder_freep) struct snapshot_builder *b = snapshot_builder_new(NETWORK_FILTERED, false);
        struct err e = { 0 };
        assert_int_equal(snapshot_add(b, LIST_ALLOW, STR("*.com"), STR("policy.yaml:12:5"), &e), -EINVAL);
        assert_non_null(strstr(e.text, "policy.yaml:12:5"));
        assert_non_null(strstr(e.text, "'*.com'"));
        assert_int_equal(snapshot_add(b, LIST_LISTENER, STR("a.example.com"), STR(""), &e), -EINVAL);
}

static void sealed_files(void **state) {
        (void)state;
        cleanup(free_ptr) void *block = NULL;
        size_t n;
        struct err e = { 0 };
        struct snapshot *s = NULL;
        build_sample(&block, &n);
        cleanup(close_fd) int sealed = -1;
        assert_int_equal(fd_sealed("policy", str_n(block, n), &sealed, &e), 0);
        assert_int_equal(snapshot_open_fd(sealed, &s, &e), 0);
        close_fd(&sealed); /* the mapping stays */
        exercise(s);
        snapshot_close(s);
        s = NULL;
        cleanup(close_fd) int loose = memfd_create("policy", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        assert_int_equal(fd_write_all(loose, block, n), 0);
        assert_int_equal(snapshot_open_fd(loose, &s, &e), -EPERM);
        assert_int_equal(fcntl(loose, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK), 0);
        assert_int_equal(snapshot_open_fd(loose, &s, &e), -EPERM);
        assert_int_equal(fcntl(loose, F_ADD_SEALS, F_SEAL_WRITE), 0);
        assert_int_equal(snapshot_open_fd(loose, &s, &e), 0);
        snapshot_close(s);
        s = NULL;
        cleanup(close_fd) int file = open("/dev/null", O_RDONLY | O_CLOEXEC);
        assert_true(snapshot_open_fd(file, &s, &e) < 0);
        cleanup(close_fd) int empty = -1;
        assert_int_equal(fd_sealed("policy", STR(""), &empty, &e), 0);
        assert_int_equal(snapshot_open_fd(empty, &s, &e), -EBADMSG);
        assert_null(s);
}

/* Cut anywhere: refused. Changed anywhere: refused, or safe to ask. */
static void damaged_blocks(void **state) {
        (void)state;
        cleanup(free_ptr) void *block = NULL;
        size_t n;
        uint64_t random = 7;
        build_sample(&block, &n);
        for (size_t cut = 0; cut < n; cut++) {
                struct snapshot *s = NULL;
                cleanup(free_ptr) void *copy = malloc(cut + 1);
                memcpy(copy, block, cut);
                assert_int_equal(snapshot_open(copy, cut, &s, NULL), -EBADMSG);
        }
        size_t refused = 0, opened = 0;
        for (size_t i = 0; i < 4 * n; i++) {
                cleanup(free_ptr) unsigned char *copy = malloc(n);
                cleanup(snapshot_closep) struct snapshot *s = NULL;
                memcpy(copy, block, n);
                copy[i % n] = (unsigned char)(i < n ? 0xff : next_random(&random));
                if (snapshot_open(copy, n, &s, NULL) < 0) {
                        refused++;
                } else {
                        opened++;
                        exercise(s);
                }
        }
        assert_true(refused > 0 && opened > 0);
        struct snapshot *s = NULL;
        assert_int_equal(snapshot_open((const char *)block + 1, n - 1, &s, NULL), -EBADMSG); /* not aligned */
}

/* --- against a plain model: every rule is tried --- */

struct model_rule {
        struct pattern pattern;
        enum rule_list list;
        char text[64];
};

static void random_name(uint64_t *random, char *ret, size_t max) {
        static const char *const labels[] = { "a", "b", "api", "longer-label", "x1" };
        size_t n = 0, depth = next_random(random) % 4;
        for (size_t i = 0; i < depth; i++)
                n += (size_t)snprintf(ret + n, max - n, "%s.", labels[next_random(random) % 5]);
        snprintf(ret + n, max - n, "%s.%s", next_random(random) % 2 ? "ok" : "no",
                 next_random(random) % 2 ? "test" : "example");
}

static void random_network(uint64_t *random, char *ret, size_t max) {
        unsigned bits = 8 + next_random(random) % 25;
        uint32_t a = (0x01000000U | (next_random(random) & 0x0303U) << 8 | (next_random(random) & 0xffU));
        a &= bits == 32 ? UINT32_MAX : ~(UINT32_MAX >> bits);
        if (next_random(random) % 4)
                snprintf(ret, max, "%u.%u.%u.%u/%u", a >> 24, a >> 16 & 255, a >> 8 & 255, a & 255, bits);
        else
                snprintf(ret, max, "[2606:4700:%x:%x::/64]", next_random(random) % 3, next_random(random) % 3);
}

static void random_rule(uint64_t *random, struct model_rule *ret) {
        static const char *const ports[] = { "", "", ":443", ":80-90", ":1-1000" };
        char body[48];
        ret->list = next_random(random) % 4 ? LIST_ALLOW : LIST_DENY;
        if (next_random(random) % 3)
                random_name(random, body, sizeof body);
        else
                random_network(random, body, sizeof body);
        const char *star = body[0] >= 'a' && next_random(random) % 3 == 0 ? "*." : "";
        snprintf(ret->text, sizeof ret->text, "%s%s%s", star, body, ports[next_random(random) % 5]);
        struct err e = { 0 };
        if (pattern_parse(str_of(ret->text), &ret->pattern, &e) < 0)
                fail_msg("%s", e.text);
}

static enum decision model_says(const struct model_rule *rules, size_t n, const struct host *h, uint16_t port) {
        bool allowed = false;
        for (size_t i = 0; i < n; i++) {
                if (!pattern_matches(&rules[i].pattern, h, port))
                        continue;
                if (rules[i].list == LIST_DENY)
                        return DECISION_DENY;
                allowed = true;
        }
        return allowed ? DECISION_ALLOW : DECISION_DENY;
}

static void random_host(uint64_t *random, struct host *ret) {
        char text[64];
        if (next_random(random) % 2) {
                random_name(random, text, sizeof text);
        } else if (next_random(random) % 3) {
                snprintf(text, sizeof text, "1.%u.%u.%u", next_random(random) % 4, next_random(random) % 4,
                         next_random(random) % 256);
        } else {
                snprintf(text, sizeof text, "[2606:4700:%x:%x::%x]", next_random(random) % 4, next_random(random) % 4,
                         next_random(random) % 9);
        }
        assert_int_equal(host_parse(str_of(text), ret, NULL), 0);
}

static void same_as_trying_every_rule(void **state) {
        (void)state;
        static const uint16_t ports[] = { 1, 80, 85, 90, 91, 443, 1000, 65535 };
        uint64_t random = 2026;
        enum { RULES = 60 };
        struct model_rule rules[RULES];
        for (int round = 0; round < 200; round++) {
                cleanup(snapshot_builder_freep) struct snapshot_builder *b =
                    snapshot_builder_new(NETWORK_FILTERED, false);
                cleanup(free_ptr) void *block = NULL;
                cleanup(snapshot_closep) struct snapshot *s = NULL;
                size_t n, n_rules = 1 + next_random(&random) % RULES;
                for (size_t i = 0; i < n_rules; i++) {
                        random_rule(&random, &rules[i]);
                        assert_int_equal(snapshot_add(b, rules[i].list, str_of(rules[i].text), STR("model"), NULL), 0);
                }
                assert_int_equal(snapshot_build(b, &block, &n, NULL), 0);
                assert_int_equal(snapshot_open(block, n, &s, NULL), 0);
                for (int i = 0; i < 300; i++) {
                        struct host h;
                        uint16_t port = ports[next_random(&random) % 8];
                        random_host(&random, &h);
                        struct verdict v = verdict_target(s, &h, port);
                        if (v.decision != model_says(rules, n_rules, &h, port))
                                fail_msg("round %d: %s:%u: %s", round, h.name, port, reason_code(v.reason));
                }
        }
}

static void many_names(void **state) {
        (void)state;
        cleanup(snapshot_builder_freep) struct snapshot_builder *b = snapshot_builder_new(NETWORK_FILTERED, false);
        cleanup(free_ptr) void *block = NULL;
        cleanup(snapshot_closep) struct snapshot *s = NULL;
        enum { N = 20000 };
        char text[64];
        size_t n;
        for (int i = 0; i < N; i++) {
                snprintf(text, sizeof text, i % 2 ? "h%d.example.com" : "*.w%d.example.com:443", i);
                assert_int_equal(snapshot_add(b, LIST_ALLOW, str_of(text), STR("many"), NULL), 0);
        }
        assert_int_equal(snapshot_build(b, &block, &n, NULL), 0);
        assert_int_equal(snapshot_open(block, n, &s, NULL), 0);
        for (int i = 0; i < N; i++) {
                struct host h;
                snprintf(text, sizeof text, i % 2 ? "h%d.example.com" : "deep.sub.w%d.example.com", i);
                assert_int_equal(host_parse(str_of(text), &h, NULL), 0);
                assert_int_equal(verdict_target(s, &h, 443).decision, DECISION_ALLOW);
                snprintf(text, sizeof text, i % 2 ? "x.h%d.example.com" : "w%d.example.com", i);
                assert_int_equal(host_parse(str_of(text), &h, NULL), 0);
                assert_int_equal(verdict_target(s, &h, 443).decision, DECISION_DENY);
        }
}

/* Every /30 of some thousand, and each wider network around eight of them: what decides is computed, not searched. Each
 * number of networks ends at another place of the last run of keys. */
static void many_networks(void **state) {
        (void)state;
        for (uint32_t n = 1; n <= 3000; n = n * 3 / 2 + 1) {
                cleanup(snapshot_builder_freep) struct snapshot_builder *b =
                    snapshot_builder_new(NETWORK_FILTERED, false);
                cleanup(free_ptr) void *block = NULL;
                cleanup(snapshot_closep) struct snapshot *s = NULL;
                size_t size;
                char text[64];
                for (uint32_t i = 0; i < n; i++) {
                        uint32_t a = 0x14000000U + i * 8; /* /30, then 4 addresses that only the wider one covers */
                        snprintf(text, sizeof text, "%u.%u.%u.%u/30", a >> 24, a >> 16 & 255, a >> 8 & 255, a & 255);
                        assert_int_equal(snapshot_add(b, LIST_ALLOW, str_of(text), STR("narrow"), NULL), 0);
                        snprintf(text, sizeof text, "%u.%u.%u.%u/26", a >> 24, a >> 16 & 255, a >> 8 & 255, a & 255);
                        if (i % 16 == 0)
                                assert_int_equal(snapshot_add(b, LIST_ALLOW, str_of(text), STR("wide"), NULL), 0);
                }
                assert_int_equal(snapshot_build(b, &block, &size, NULL), 0);
                assert_int_equal(snapshot_open(block, size, &s, NULL), 0);
                for (uint32_t a = 0x14000000U - 8; a < 0x14000000U + (n + 20) * 8; a++) {
                        uint32_t i = (a - 0x14000000U) / 8;
                        bool inside = a >= 0x14000000U && i < n, narrow = inside && a % 8 < 4;
                        bool wide = a >= 0x14000000U && i / 16 * 16 < n && i % 16 < 8;
                        struct host h = { .kind = HOST_ADDR, .addr = { ADDR_V4, { 0 } } };
                        uint32_t wire = __builtin_bswap32(a);
                        memcpy(h.addr.bytes, &wire, 4);
                        struct verdict v = verdict_target(s, &h, 443);
                        struct snapshot_rule rule = { 0 };
                        assert_int_equal(v.decision == DECISION_ALLOW, narrow || wide);
                        if (snapshot_rule(s, v.rule, &rule))
                                assert_true(str_eq(rule.origin, narrow ? STR("narrow") : STR("wide")));
                }
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(rules_keep_their_words),
                cmocka_unit_test(errors_say_where),
                cmocka_unit_test(sealed_files),
                cmocka_unit_test(damaged_blocks),
                cmocka_unit_test(same_as_trying_every_rule),
                cmocka_unit_test(many_names),
                cmocka_unit_test(many_networks),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
