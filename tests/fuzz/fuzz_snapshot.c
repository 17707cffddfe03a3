/* SPDX-License-Identifier: Apache-2.0 */
/* A block from anywhere: refused, or safe to ask. The seeds in the corpus are real blocks (tests/tools/policy-lines
 * makes them). */
#include "base/cleanup.h"
#include "fuzz.h"
#include "policy/judge/snapshot.h"

static const char *const hosts[] = {
        "api.example.com",      "deep.sub.example.com", "localhost", "10.1.2.3", "[fd00::1]",
        "host.bailey.internal", "[64:ff9b::a01:203]",   "1.1.1.1",   "a"
};

static void read_whole(struct str text) {
        for (size_t i = 0; i < text.n; i++)
                FUZZ_CHECK((unsigned char)text.p[i] <= *(const volatile unsigned char *)&text.p[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        cleanup(snapshot_closep) struct snapshot *s = NULL;
        cleanup(free_ptr) void *copy = malloc(size + 1); /* aligned, and its end is watched */
        struct addr addr = { ADDR_V4, { 10, 1, 2, 3 } };
        if (!copy)
                return 0;
        memcpy(copy, data, size);
        if (snapshot_open(copy, size, &s, NULL) < 0)
                return 0;
        for (size_t i = 0; i < sizeof hosts / sizeof hosts[0]; i++) {
                struct snapshot_rule rule;
                struct host h;
                FUZZ_CHECK(host_parse(str_of(hosts[i]), &h, NULL) == 0);
                const struct verdict verdicts[] = {
                        verdict_target(s, &h, 443),
                        verdict_name(s, &h),
                        verdict_address(s, &h, &addr, 80),
                        verdict_request(s, &h, 443, STR("GET"), STR("/repos/acme/x")),
                };
                for (size_t j = 0; j < sizeof verdicts / sizeof verdicts[0]; j++) {
                        FUZZ_CHECK(verdicts[j].decision <= DECISION_ASK && verdicts[j].reason < REASONS);
                        if (snapshot_rule(s, verdicts[j].rule, &rule)) {
                                FUZZ_CHECK(rule.list < LISTS);
                                read_whole(rule.text);
                                read_whole(rule.origin);
                        }
                }
        }
        return 0;
}
