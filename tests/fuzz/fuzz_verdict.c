/* SPDX-License-Identifier: Apache-2.0 */
/* A policy and questions, one a line ("+pattern", "-pattern", "?host:port"): the snapshot says what trying every rule
 * says. */
#include "base/cleanup.h"
#include "fuzz.h"
#include "policy/judge/snapshot.h"
#include "policy/match/pattern.h"

enum { RULES_MAX = 64 };

struct model {
        struct pattern pattern[RULES_MAX];
        bool deny[RULES_MAX];
        size_t n;
};

static void add(struct model *m, struct snapshot_builder *b, struct str line) {
        bool deny = line.p[0] == '-';
        struct str text = str_trim(str_skip(line, 1));
        if (m->n == RULES_MAX || snapshot_add(b, deny ? LIST_DENY : LIST_ALLOW, text, STR("fuzz"), NULL) < 0)
                return;
        FUZZ_CHECK(pattern_parse_user(text, &m->pattern[m->n], NULL) == 0);
        m->deny[m->n++] = deny;
}

static enum decision expected(const struct model *m, const struct authority *a) {
        bool allowed = false;
        for (size_t i = 0; i < m->n; i++) {
                if (!pattern_matches(&m->pattern[i], &a->host, a->port))
                        continue;
                if (m->deny[i])
                        return DECISION_DENY;
                allowed = true;
        }
        return allowed ? DECISION_ALLOW : DECISION_DENY;
}

static void question(const struct model *m, const struct snapshot *s, struct str text) {
        struct authority a;
        if (authority_parse(text, 443, &a, NULL) < 0 || host_is_loopback_name(&a.host))
                return;
        struct verdict v = verdict_target(s, &a.host, a.port);
        if (a.host.kind == HOST_ADDR && addr_classify(&a.host.addr) != ADDR_CLASS_PUBLIC)
                FUZZ_CHECK(v.decision == DECISION_DENY);
        else
                FUZZ_CHECK(v.decision == expected(m, &a));
        struct verdict by_name = verdict_name(s, &a.host);
        FUZZ_CHECK(v.decision != DECISION_ALLOW || by_name.decision == DECISION_ALLOW);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        cleanup(snapshot_builder_freep) struct snapshot_builder *b = snapshot_builder_new(NETWORK_FILTERED, false);
        cleanup(free_ptr) struct model *m = calloc(1, sizeof *m);
        cleanup(free_ptr) void *block = NULL;
        cleanup(snapshot_closep) struct snapshot *s = NULL;
        struct str rest = str_n(data, size), line;
        size_t n;
        if (!b || !m)
                return 0;
        while (str_split(&rest, '\n', &line))
                if (line.n > 0 && (line.p[0] == '+' || line.p[0] == '-'))
                        add(m, b, line);
        FUZZ_CHECK(snapshot_build(b, &block, &n, NULL) == 0);
        FUZZ_CHECK(snapshot_open(block, n, &s, NULL) == 0);
        rest = str_n(data, size);
        while (str_split(&rest, '\n', &line))
                if (line.n > 0 && line.p[0] == '?')
                        question(m, s, str_skip(line, 1));
        return 0;
}
