/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The policy core by lines, for tests in other languages. Reads requests, one a line, and answers each with one line:
 *
 *     addr TEXT               ok CANONICAL CLASS | error
 *     host TEXT               ok name|addr CANONICAL | error REASON
 *     authority DEFAULT TEXT  ok name|addr HOST PORT | error REASON
 *
 * TEXT is the rest of the line. With an argument it writes a small real snapshot to that file instead: a seed for
 * fuzzing.
 */
#include "base/cleanup.h"
#include "base/paths/path.h"
#include "policy/judge/snapshot.h"

#include <stdio.h>
#include <stdlib.h>

static void answer_addr(struct str text) {
        struct addr a;
        char canonical[ADDR_TEXT_MAX];
        if (!addr_parse(text, &a)) {
                puts("error");
                return;
        }
        addr_text(&a, canonical);
        printf("ok %s %s\n", canonical, addr_class_name(addr_classify(&a)));
}

static void answer_host(struct str text) {
        struct host h;
        struct err e = { 0 };
        if (host_parse(text, &h, &e) < 0)
                printf("error %s\n", err_text(&e));
        else
                printf("ok %s %s\n", h.kind == HOST_NAME ? "name" : "addr", h.name);
}

static void answer_authority(struct str text) {
        struct str number;
        uint64_t fallback;
        struct authority a;
        struct err e = { 0 };
        if (!str_split(&text, ' ', &number) || !str_to_u64(number, UINT16_MAX, &fallback))
                printf("error the default port is missing\n");
        else if (authority_parse(text, (uint16_t)fallback, &a, &e) < 0)
                printf("error %s\n", err_text(&e));
        else
                printf("ok %s %s %u\n", a.host.kind == HOST_NAME ? "name" : "addr", a.host.name, a.port);
}

static const struct {
        struct str word;
        void (*answer)(struct str text);
} requests[] = {
        { STR("addr "), answer_addr },
        { STR("host "), answer_host },
        { STR("authority "), answer_authority },
};

static int write_seed(const char *path) {
        static const char *const patterns[] = { "api.example.com:443", "*.example.com", "*.sub.example.com:80-90",
                                                "10.1.2.0/24:80",      "10.0.0.0/8",    "fd00::/8",
                                                "1.1.1.1:443" };
        const struct str methods[] = { STR("GET"), STR("HEAD") }, paths[] = { STR("/repos/acme/**") };
        struct addr self = { ADDR_V4, { 127, 0, 0, 1 } };
        cleanup(snapshot_builder_freep) struct snapshot_builder *b = snapshot_builder_new(NETWORK_FILTERED, false);
        cleanup(free_ptr) void *block = NULL;
        size_t n;
        struct err e = { 0 };
        int r = b ? 0 : -1;
        for (size_t i = 0; r == 0 && i < sizeof patterns / sizeof patterns[0]; i++)
                r = snapshot_add(b, i % 3 ? LIST_ALLOW : LIST_DENY, str_of(patterns[i]), STR("seed"), &e);
        if (r == 0)
                r = snapshot_add(b, LIST_ALLOW_PRIVATE, STR("host.bailey.internal:443"), STR("seed"), &e);
        if (r == 0)
                r = snapshot_add_request_rule(b, STR("deep.sub.example.com"), methods, 2, paths, 1, STR("seed"), &e);
        if (r == 0)
                r = snapshot_add_self(b, &self, 3128, &e);
        if (r == 0)
                r = snapshot_build(b, &block, &n, &e);
        if (r == 0)
                r = path_replace_file(path, str_n(block, n), 0644, &e);
        if (r < 0)
                fprintf(stderr, "policy-lines: %s\n", err_text(&e));
        return r < 0 ? 1 : 0;
}

int main(int argc, char **argv) {
        cleanup(free_ptr) char *line = NULL;
        size_t cap = 0;
        if (argc > 1)
                return write_seed(argv[1]);
        for (ssize_t n; (n = getline(&line, &cap, stdin)) >= 0;) {
                struct str text = str_n(line, (size_t)n - (n > 0 && line[n - 1] == '\n'));
                bool known = false;
                for (size_t i = 0; i < sizeof requests / sizeof requests[0] && !known; i++)
                        if (str_starts(text, requests[i].word)) {
                                requests[i].answer(str_skip(text, requests[i].word.n));
                                known = true;
                        }
                if (!known)
                        puts("error no such request");
        }
        return 0;
}
