/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/policy_digest.h"

#include "base/cleanup.h"
#include "policy/load.h"

#include "../cmocka_all.h"

#include <string.h>

static void digest_text(const char *text, unsigned char ret[static DIGEST_BYTES]) {
        cleanup(policy_freep) struct policy *policy = NULL;
        struct err err = { 0 };
        const struct policy_request request = { .only_text = text, .workspace = "/tmp" };

        if (policy_load(&request, &policy, &err) < 0)
                fail_msg("%s: %s", text, err_text(&err));
        policy_digest(policy, ret);
}

/* Each is another policy than each other, down to one letter of one value. */
static void every_setting_counts(void **state) {
        (void)state;
        static const char *const texts[] = {
                "",
                "mode: read-only",
                "network: {allow: [a.example]}",
                "network: {allow: [b.example]}",
                "network: {allow: [a.example, b.example]}",
                "network: {deny: [a.example]}",
                "network: {deny: [{host: a.example, reason: no}]}",
                "network: {deny: [{host: a.example, reason: on}]}",
                "network: {ask: control}",
                "network: {ask_timeout: 7s}",
                "network: {ca_key: rsa4096}",
                "network: {upstream_proxy: 'http://a:b@proxy.example:1'}",
                "network: {upstream_proxy: 'http://a:c@proxy.example:1'}",
                "network: {dns_servers: [192.0.2.1]}",
                "network: {publish: ['127.0.0.1:8080:80']}",
                "network: {publish: ['127.0.0.1:8080:81']}",
                "network: {limits: {connections: 7}}",
                "network: {no_intercept: [a.example]}",
                "network: {quiet: [a.example]}",
                "filesystem: {write: [/a]}",
                "filesystem: {read: [/a]}",
                "filesystem: {deny_read: [/a]}",
                "filesystem: {deny_write: [/a]}",
                "filesystem: {deny_write: [/b]}",
                "filesystem: {overlay: true}",
                "filesystem: {reads: deny}",
                "filesystem: {home: other}",
                "filesystem: {ask: [/a]}",
                "process: {timeout: 7s}",
                "process: {limits: {memory: 1GiB}}",
                "process: {limits: {processes: 100}}",
                "process: {env: {set: {TOKEN: one}}}",
                "process: {env: {set: {TOKEN: two}}}",
                "process: {env: {pass: [A]}}",
                "process: {nesting: true}",
                "process: {trace_denials: true}",
                "commands: [{name: a, decision: forbid, reason: no, argv: [a]}]",
                "commands: [{name: a, decision: forbid, reason: no, argv: [b]}]",
                "commands: [{name: a, decision: escalate, reason: no, argv: [a]}]",
        };
        enum { N = sizeof texts / sizeof *texts };
        static unsigned char digests[N][DIGEST_BYTES];

        for (size_t i = 0; i < N; i++)
                digest_text(texts[i], digests[i]);

        for (size_t i = 0; i < N; i++)
                for (size_t k = 0; k < i; k++)
                        if (memcmp(digests[i], digests[k], DIGEST_BYTES) == 0)
                                fail_msg("the same: %s and %s", texts[i], texts[k]);
}

static void the_same_is_the_same(void **state) {
        (void)state;
        unsigned char one[DIGEST_BYTES], other[DIGEST_BYTES];

        digest_text("network: {allow: ['@npm', a.example]}", one);
        digest_text("network: {allow: ['@npm', a.example]}", other);
        assert_memory_equal(one, other, sizeof one);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(every_setting_counts),
                cmocka_unit_test(the_same_is_the_same),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
