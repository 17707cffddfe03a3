/* SPDX-License-Identifier: Apache-2.0 */
#include "case.h"

#include "../cmocka_all.h"
#include "base/cleanup.h"
#include "base/paths/path.h"

#include <stdio.h>

/* Words of one line; the last one takes the rest. */
enum { WORDS = 6 };

struct facts {
        struct policy policy;
        struct plan_host host;
        VEC(const char *) argv, env;
};

static VEC(char *) words; /* of the case being read; the plan has copies */

static char *copy(struct str s) {
        char *text = str_dup(s);
        assert_non_null(text);
        assert_int_equal(vec_push(&words, text), 0);
        return text;
}

static void facts_done(struct facts *f) {
        for (size_t i = 0; i < words.n; i++)
                free(words.p[i]);
        vec_done(&words);
        vec_done(&f->host.paths);
        vec_done(&f->host.sockets);
        vec_done(&f->host.devices);
        vec_done(&f->host.system_dirs);
        vec_done(&f->host.root_links);
        vec_done(&f->policy.network.host_ports);
        vec_done(&f->policy.network.publish);
        vec_done(&f->argv);
        vec_done(&f->env);
}

static void add_path(struct facts *f, char **word) {
        struct plan_path p = { .path = word[5], .origin = "rule" };
        if (!strcmp(word[1], "dir"))
                p.type = PLAN_PATH_DIR;
        else if (!strcmp(word[1], "file"))
                p.type = PLAN_PATH_FILE;
        else if (!strcmp(word[1], "link"))
                p.type = PLAN_PATH_LINK;
        if (p.type == PLAN_PATH_LINK)
                p.link = "elsewhere";
        p.access = !strcmp(word[2], "write") ? PATH_WRITE : !strcmp(word[2], "read") ? PATH_READ : PATH_DENIED;
        p.grants = !strcmp(word[3], "grants");
        p.protected = !strcmp(word[4], "protected");
        assert_int_equal(vec_push(&f->host.paths, p), 0);
}

static enum policy_mode mode_of(const char *name) {
        static const char *const names[] = { "read-only", "workspace-write", "workspace-write-whitelist",
                                             "full-network" };
        for (unsigned i = 0; i < MODES; i++)
                if (strcmp(names[i], name) == 0)
                        return i;
        fail_msg("unknown mode %s", name);
        return 0;
}

static void fact(struct facts *f, char **word) {
        struct policy *p = &f->policy;
        struct plan_host *h = &f->host;
        const char *key = word[0];
        if (!strcmp(key, "mode"))
                p->mode = mode_of(word[1]);
        else if (!strcmp(key, "reads"))
                p->filesystem.reads_denied = !strcmp(word[1], "deny");
        else if (!strcmp(key, "workspace"))
                p->workspace = word[1];
        else if (!strcmp(key, "limits"))
                p->process.limits = (struct policy_limits){ strtoul(word[1], NULL, 10), strtoul(word[2], NULL, 10),
                                                            strtoul(word[3], NULL, 10), 0 };
        else if (!strcmp(key, "user"))
                h->uid = h->gid = (uint32_t)strtoul(word[1], NULL, 10);
        else if (!strcmp(key, "cwd"))
                h->cwd = word[1];
        else if (!strcmp(key, "home"))
                h->home = (struct plan_home){ .path = word[1], .files = word[2] };
        else if (!strcmp(key, "resolv"))
                h->resolv_conf = word[1];
        else if (!strcmp(key, "terminal"))
                h->terminal = word[1], h->has_terminal = true;
        else if (!strcmp(key, "landlock"))
                h->landlock_abi = (unsigned)strtoul(word[1], NULL, 10);
        else if (!strcmp(key, "namespaces"))
                h->namespaces = !strcmp(word[1], "yes");
        else if (!strcmp(key, "ipv6"))
                h->ipv6 = !strcmp(word[1], "yes");
        else if (!strcmp(key, "socket"))
                assert_int_equal(vec_push(&h->sockets, word[1]), 0);
        else if (!strcmp(key, "device"))
                assert_int_equal(vec_push(&h->devices, word[1]), 0);
        else if (!strcmp(key, "system"))
                assert_int_equal(vec_push(&h->system_dirs, word[1]), 0);
        else if (!strcmp(key, "link"))
                assert_int_equal(vec_push(&h->root_links, ((struct plan_link){ word[1], word[2] })), 0);
        else if (!strcmp(key, "arg"))
                assert_int_equal(vec_push(&f->argv, word[1]), 0);
        else if (!strcmp(key, "env"))
                assert_int_equal(vec_push(&f->env, word[1]), 0);
        else if (!strcmp(key, "path"))
                add_path(f, word);
        else if (!strcmp(key, "host-port"))
                assert_int_equal(
                    vec_push(&p->network.host_ports, ((struct port_map){ NULL, (uint16_t)strtoul(word[1], NULL, 10),
                                                                         (uint16_t)strtoul(word[2], NULL, 10), NULL })),
                    0);
        else if (!strcmp(key, "publish"))
                assert_int_equal(
                    vec_push(&p->network.publish, ((struct port_map){ word[1], (uint16_t)strtoul(word[2], NULL, 10),
                                                                      (uint16_t)strtoul(word[3], NULL, 10), NULL })),
                    0);
        else
                fail_msg("unknown fact %s", key);
}

struct plan *case_build(const char *file) {
        struct facts f = { 0 };
        struct err e = { 0 };
        cleanup(buf_done) struct buf content = { 0 };
        if (path_read_file(file, 65536, &content, &e) < 0)
                fail_msg("%s", err_text(&e));
        struct str rest = buf_str(&content), line, part;
        while (str_split(&rest, '\n', &line)) {
                char *word[WORDS] = { 0 };
                if (line.n == 0 || line.p[0] == '#')
                        continue;
                for (size_t i = 0; i < WORDS && str_split(&line, ' ', &part); i++)
                        word[i] = copy(part);
                fact(&f, word);
        }
        assert_int_equal(vec_push(&f.argv, NULL), 0);
        assert_int_equal(vec_push(&f.env, NULL), 0);
        cleanup(path_rules_freep) struct path_rules *rules = NULL;
        if (path_rules_compile(&f.policy, &rules, &e) < 0)
                fail_msg("%s", err_text(&e));
        struct plan_request q = {
                .policy = &f.policy, .rules = rules, .host = &f.host, .id = "test", .argv = f.argv.p, .env = f.env.p
        };
        struct plan *p = NULL;
        if (plan_build(&q, &p, &e) < 0)
                fail_msg("%s: %s", file, err_text(&e));
        facts_done(&f);
        return p;
}
