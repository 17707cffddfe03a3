/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Golden profiles: tests/cases/macos/NAME.case, a policy, gives NAME.sb, on any machine. Each profile of an agent gives
 * agent-NAME.lines: what it adds to default.sb (+) and takes away (-). With UPDATE_CASES=1 in the environment the
 * expected files are written anew; look at the difference before you commit it.
 * Then what a golden file cannot say: spellings, moves, sockets, groups, refusals.
 */
#include "../cmocka_all.h"
#include "base/cleanup.h"
#include "base/paths/path.h"
#include "conf/json_walk.h"
#include "plan/macos/macos_launch.h"
#include "plan/macos/seatbelt_internal.h"
#include "policy/load.h"
#include "policy/macos.h"
#include "policy/profile/profile.h"
#include "seatbelt_kit.h"

#include <dirent.h>
#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <unistd.h>

#define HOME "/Users/ada"
#define WORK HOME "/src/engine"
#define OWN HOME "/Library/Application Support/bailey/homes/engine"
#define TEMPORARY "/private/var/folders/zz/ada/T/bailey-run"

static char folder[512];

static void replace(char **text, const char *with) {
        free(*text);
        *text = str_dup(str_of(with));
        assert_non_null(*text);
}

/* A policy as a Mac would have it: loaded here, with that one's home and workspace. */
static struct policy *load(const char *text) {
        struct policy_request request = { .only_text = text, .workspace = folder };
        struct policy *p = NULL;
        struct err e = { 0 };

        setenv("HOME", HOME, 1);
        if (policy_load(&request, &p, &e) < 0)
                fail_msg("%s in %s", err_text(&e), text);
        replace(&p->workspace, WORK);
        replace(&p->home, HOME);
        replace(&p->home_inside, HOME);
        origin_texts_done(&p->filesystem.hidden_homes);
        origin_texts_done(&p->filesystem.moved);
        return p;
}

static struct seatbelt_host host_of(const struct policy *p) {
        bool network = p->mode == MODE_WORKSPACE_WRITE_WHITELIST || p->mode == MODE_FULL_NETWORK;
        bool real = p->filesystem.home && strcmp(p->filesystem.home, "real") == 0;
        static const char *const sockets[] = { HOME "/.docker/run/docker.sock", "/private/var/run/docker.sock",
                                               HOME "/agent.sock", HOME "/other.sock", NULL };

        return (struct seatbelt_host){ .home = HOME,
                                       .own_home = real ? NULL : OWN,
                                       .tmpdir = TEMPORARY,
                                       .http_port = network ? 49152 : 0,
                                       .socks_port = network ? 49153 : 0,
                                       .api_port = network && p->credentials.n ? 49154 : 0,
                                       .sockets = sockets,
                                       .tag = "bailey-run" };
}

/* The lists of names that Bailey closes by itself grow often; a golden file shows a few of them. */
static bool is_shown(const struct path_rule *rule) {
        static const char *const sample[] = { "/.ssh",        "/.aws",        "/.git/hooks",
                                              "/.git/config", "/.vscode",     "/.bashrc",
                                              "/.claude",     "/etc/sudoers", "/etc/ssh/ssh_host_*_key" };

        if (!rule->built_in || rule->grants || rule->own)
                return true;
        for (size_t i = 0; i < sizeof sample / sizeof *sample; i++)
                if (str_ends(str_of(rule->pattern), str_of(sample[i])))
                        return true;
        return false;
}

static struct path_rules *shorten(struct path_rules *taken) {
        cleanup(path_rules_freep) struct path_rules *rules = taken;
        VEC(struct path_rule) list = { 0 };
        struct path_rules *few = NULL;

        for (size_t i = 0; i < path_rules_count(rules); i++)
                if (is_shown(path_rules_at(rules, i)))
                        assert_int_equal(vec_push(&list, *path_rules_at(rules, i)), 0);
        assert_int_equal(path_rules_restore(list.p, list.n, path_rules_reads_open(rules), &few, NULL), 0);
        vec_done(&list);
        return few;
}

static void make_from(const char *text, bool few, struct made *made) {
        cleanup(policy_freep) struct policy *p = load(text);
        cleanup(path_rules_freep) struct path_rules *rules = NULL;
        const struct seatbelt_host host = host_of(p);
        struct err e = { 0 };

        if (path_rules_compile(p, &rules, &e) < 0)
                fail_msg("%s", err_text(&e));
        if (few)
                rules = shorten(rules);
        if (made_make(made, p, rules, &host, &e) < 0)
                fail_msg("%s", err_text(&e));
}

static void make(const char *text, struct made *made) {
        make_from(text, false, made);
}

static void compare(const char *path, const char *text) {
        cleanup(buf_done) struct buf wanted = { 0 };
        struct err e = { 0 };

        if (getenv("UPDATE_CASES")) {
                if (path_replace_file(path, str_of(text), 0644, &e) < 0)
                        fail_msg("%s", err_text(&e));
                return;
        }
        if (path_read_file(path, 4 << 20, &wanted, &e) < 0)
                fail_msg("%s", err_text(&e));
        if (!str_eq(buf_str(&wanted), str_of(text)))
                fail_msg("%s: the profile changed; UPDATE_CASES=1 writes it, then look at the difference", path);
}

static void check_case(const char *name) {
        char input[1024], output[1024];
        cleanup(buf_done) struct buf text = { 0 };
        cleanup(made_done) struct made made = { 0 };
        struct err e = { 0 };

        snprintf(input, sizeof input, "%s/%s.case", folder, name);
        snprintf(output, sizeof output, "%s/%s.sb", folder, name);
        if (path_read_file(input, 1 << 20, &text, &e) < 0)
                fail_msg("%s", err_text(&e));
        make_from(buf_text(&text), true, &made);
        compare(output, made.text);
        if (!strstr(buf_text(&text), "macos:"))
                made_check_text(&made);
}

static void test_golden(void **state) {
        (void)state;
        DIR *d = opendir(folder);
        size_t n = 0;

        assert_non_null(d);
        for (struct dirent *entry; (entry = readdir(d));) {
                struct str name = str_of(entry->d_name);

                if (!str_ends(name, STR(".case")))
                        continue;
                entry->d_name[name.n - 5] = '\0';
                check_case(entry->d_name);
                n++;
        }
        closedir(d);
        assert_true(n >= 7);
}

static bool has_line(const char *text, struct str line) {
        struct str rest = str_of(text), one;

        while (str_split(&rest, '\n', &one))
                if (str_eq(one, line))
                        return true;
        return false;
}

static void add_difference(struct buf *out, char sign, const char *text, const char *without) {
        struct str rest = str_of(text), line;

        while (str_split(&rest, '\n', &line))
                if (line.n > 300 &&
                    !has_line(without, line)) /* expressions over all protected names, as in default.sb */
                        assert_int_equal(buf_printf(out, "%c %.*s... %zu bytes\n", sign, 80, line.p, line.n), 0);
                else if (!has_line(without, line))
                        assert_int_equal(buf_printf(out, "%c %.*s\n", sign, STR_FMT(line)), 0);
}

/* For each home that an agent may have. */
static void test_profiles(void **state) {
        (void)state;
        static const char *const homes[] = { "workspace", "real" };

        for (size_t h = 0; h < 2; h++) {
                cleanup(free_ptr) char *text = str_format("filesystem: { home: %s }\n", homes[h]);
                cleanup(made_done) struct made plain = { 0 };
                make_from(text, true, &plain);
                for (size_t i = 0; i < n_profiles_built_in; i++) {
                        const char *name = profiles_built_in[i].name;
                        cleanup(free_ptr) char *with = str_format("%sprofile: [%s]\n", text, name);
                        cleanup(free_ptr) char *path = str_format("%s/agent-%s-%s.lines", folder, name, homes[h]);
                        cleanup(made_done) struct made made = { 0 };
                        cleanup(buf_done) struct buf lines = BUF(1 << 20);

                        make_from(with, true, &made);
                        add_difference(&lines, '+', made.text, plain.text);
                        add_difference(&lines, '-', plain.text, made.text);
                        compare(path, lines.n ? buf_text(&lines) : "");
                        made_check_text(&made);
                }
        }
}

/* --- by question --- */

static bool allows(const struct made *made, const char *operation, const char *path, const char *type) {
        return made_allows(made, (struct sbpl_question){ .operation = operation, .path = path, .type = type });
}

static bool looks_up(const struct made *made, const char *name) {
        return made_allows(made, (struct sbpl_question){ .operation = "mach-lookup", .name = name });
}

static bool connects(const struct made *made, const char *address, unsigned port) {
        return made_allows(made,
                           (struct sbpl_question){ .operation = "network-outbound", .address = address, .port = port });
}

/* A name that does not exist is created in another spelling, and read by a program that asks for the usual one. */
static void test_spellings(void **state) {
        (void)state;
        cleanup(made_done) struct made made = { 0 };
        static const char *const refused[] = {
                ".vscode", ".VSCODE",        ".VsCode", ".Git/Hooks", ".git/HOOKS/pre-commit", ".Claude/settings.json",
                ".ENVRC",  "Secrets/KEY.pem"
        };
        static const char *const allowed[] = { ".vscodex", ".git/index", "src/.vscode/x", "open/Key.pem", "a.C" };

        make("filesystem: { deny_read: [\"**/secrets/*.pem\"], deny_write: [\"~/src/engine/*.c\"] }\n", &made);
        for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
                cleanup(free_ptr) char *path = path_join(WORK, refused[i]);
                if (allows(&made, "file-write-create", path, NULL))
                        fail_msg("%s may be made", path);
        }
        for (size_t i = 0; i + 1 < sizeof allowed / sizeof *allowed; i++) {
                cleanup(free_ptr) char *path = path_join(WORK, allowed[i]);
                if (!allows(&made, "file-write-create", path, NULL))
                        fail_msg("%s may not be made", path);
        }
        assert_false(allows(&made, "file-write-data", WORK "/a.C", NULL));
        assert_true(allows(&made, "file-read-data", WORK "/a.C", NULL));
        assert_false(allows(&made, "file-read-data", WORK "/deep/SECRETS/a.PEM", NULL));
}

static void test_moves(void **state) {
        (void)state;
        cleanup(made_done) struct made made = { 0 };

        make("filesystem: { write: [/opt/cache], deny_read: [~/src/engine/a/b/c, \"~/src/engine/lib/*/key\", "
             "\"**/in/key\"] }\n",
             &made);
        assert_false(allows(&made, "file-write-unlink", WORK, "DIRECTORY"));
        assert_false(allows(&made, "file-write-unlink", "/opt/cache", "DIRECTORY"));
        assert_false(allows(&made, "file-write-unlink", WORK "/.git", "DIRECTORY"));
        assert_false(allows(&made, "file-write-unlink", WORK "/a", "DIRECTORY"));
        assert_false(allows(&made, "file-write-unlink", WORK "/a/b", "DIRECTORY"));
        assert_false(allows(&made, "file-write-unlink", WORK "/a/b/c", "DIRECTORY"));
        assert_false(allows(&made, "file-write-unlink", WORK "/lib", "DIRECTORY"));
        assert_false(allows(&made, "file-write-unlink", WORK "/lib/x", "DIRECTORY"));
        assert_false(allows(&made, "file-write-unlink", WORK "/q/in", "DIRECTORY"));
        assert_true(allows(&made, "file-write-unlink", WORK "/q", "DIRECTORY"));
        assert_true(allows(&made, "file-write-unlink", WORK "/a/x", "DIRECTORY"));
        assert_true(allows(&made, "file-write-unlink", WORK "/.git/index.lock", NULL));
        assert_true(allows(&made, "file-write-unlink", WORK "/node_modules", "DIRECTORY"));
        /* no link takes the place of a directory above a protected name, in any spelling */
        assert_false(allows(&made, "file-write-create", WORK "/.git", "SYMLINK"));
        assert_false(allows(&made, "file-write-create", WORK "/.GIT", "SYMLINK"));
        assert_true(allows(&made, "file-write-create", WORK "/.git", "DIRECTORY"));
        assert_true(allows(&made, "file-write-create", WORK "/link", "SYMLINK"));

        /* a granted directory inside another one stays; a link in its place would lead to what has rules of its own */
        cleanup(made_done) struct made inner = { 0 };
        make("filesystem: { write: [~/src/engine/sub], deny_write: [~/src/engine/sub/x/y] }\n", &inner);
        assert_false(allows(&inner, "file-write-unlink", WORK "/sub", "DIRECTORY"));
        assert_true(allows(&inner, "file-write-create", WORK "/sub", "SYMLINK"));
        assert_true(allows(&inner, "file-write-create", WORK "/SUB", "SYMLINK"));
        assert_false(allows(&inner, "file-write-create", WORK "/sub/X", "SYMLINK"));
}

static void test_ways(void **state) {
        (void)state;
        cleanup(made_done) struct made made = { 0 };

        make("filesystem: { reads: deny }\n", &made);
        static const char *const ways[] = { "/Users", HOME, HOME "/src", "/private/var/folders", "/tmp", "/var" };
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
                assert_true(allows(&made, "file-read-metadata", ways[i], "DIRECTORY"));
        assert_false(allows(&made, "file-read-data", HOME, "DIRECTORY"));
        assert_false(allows(&made, "file-read-metadata", HOME "/other", NULL));
        assert_false(allows(&made, "file-read-data", "/opt/homebrew/bin/x", NULL));
        assert_false(looks_up(&made, "com.apple.cfprefsd.daemon"));
        assert_true(allows(&made, "file-read-data", "/private/etc/passwd", NULL));
        assert_false(allows(&made, "file-read-data", "/private/etc/master.passwd", NULL));
}

static void test_network(void **state) {
        (void)state;
        cleanup(made_done) struct made filtered = { 0 }, none = { 0 }, ports = { 0 };

        make("filesystem: { home: workspace }\n", &filtered);
        assert_true(connects(&filtered, "127.0.0.1", 49152));
        assert_true(connects(&filtered, "::1", 49153));
        assert_false(connects(&filtered, "127.0.0.1", 49154));
        assert_false(connects(&filtered, "127.0.0.1", 22));
        assert_false(connects(&filtered, "10.0.0.1", 49152));
        assert_false(connects(&filtered, "1.1.1.1", 53));
        assert_true(looks_up(&filtered, "com.apple.trustd.agent"));
        assert_false(made_allows(
            &filtered, (struct sbpl_question){ .operation = "network-bind", .address = "127.0.0.1", .port = 8080 }));

        make("mode: workspace-write\n", &none);
        assert_false(connects(&none, "127.0.0.1", 49152));
        assert_false(looks_up(&none, "com.apple.trustd.agent"));

        make("network: { host_port: [5432], publish: [\"8080:8080\"] }\n", &ports);
        assert_true(connects(&ports, "127.0.0.1", 5432));
        assert_false(connects(&ports, "127.0.0.1", 8080));
        assert_null(strstr(ports.text, "(remote ip \"localhost:*\")")); /* to serve is not to connect */
        assert_true(made_allows(
            &ports, (struct sbpl_question){ .operation = "network-inbound", .address = "127.0.0.1", .port = 8080 }));
        assert_false(made_allows(
            &ports, (struct sbpl_question){ .operation = "network-inbound", .address = "10.9.9.9", .port = 8080 }));
}

/* One port of the gateway is enough for what a network needs. */
static void test_ports(void **state) {
        (void)state;
        cleanup(policy_freep) struct policy *p = load("mode: full-network\n");
        cleanup(path_rules_freep) struct path_rules *rules = NULL;
        struct err e = { 0 };

        assert_int_equal(path_rules_compile(p, &rules, &e), 0);
        for (unsigned i = 0; i < 3; i++) {
                cleanup(made_done) struct made made = { 0 };
                struct seatbelt_host host = host_of(p);

                host.http_port = i == 0 ? 41 : 0;
                host.socks_port = i == 1 ? 42 : 0;
                host.api_port = i == 2 ? 43 : 0;
                assert_int_equal(made_make(&made, p, rules, &host, &e), 0);
                assert_true(connects(&made, "127.0.0.1", 41 + i));
                assert_false(connects(&made, "127.0.0.1", 41 + (i + 1) % 3));
                assert_true(looks_up(&made, "com.apple.trustd"));
        }
}

static void test_sockets(void **state) {
        (void)state;
        cleanup(made_done) struct made made = { 0 }, docker = { 0 };

        make("filesystem: { read: [~/agent.sock], deny_read: [~/denied] }\n", &made);
        assert_true(allows(&made, "network-outbound", HOME "/agent.sock", "SOCKET"));
        assert_false(allows(&made, "network-outbound", HOME "/other.sock", "SOCKET"));
        assert_false(allows(&made, "network-outbound", "/private/var/run/docker.sock", "SOCKET"));
        assert_false(allows(&made, "network-outbound", HOME "/.docker/run/docker.sock", "SOCKET"));
        assert_false(allows(&made, "network-outbound", WORK "/.sock", "SOCKET"));
        assert_true(allows(&made, "network-outbound", TEMPORARY "/x.sock", "SOCKET"));
        assert_true(allows(&made, "network-bind", OWN "/x.sock", "SOCKET"));
        assert_true(made_allows(&made, (struct sbpl_question){ .operation = "system-socket", .domain = "AF_UNIX" }));
        assert_false(made_allows(&made, (struct sbpl_question){ .operation = "system-socket", .domain = "AF_SYSTEM" }));

        /* the same with another rule before it */
        cleanup(made_done) struct made shifted = { 0 };
        make("filesystem: { read: [/opt, ~/agent.sock], deny_read: [~/denied] }\n", &shifted);
        assert_true(allows(&shifted, "network-outbound", HOME "/agent.sock", "SOCKET"));
        assert_false(allows(&shifted, "network-outbound", HOME "/other.sock", "SOCKET"));

        /* a rule that refuses it names it as well */
        cleanup(made_done) struct made refused = { 0 };
        make("filesystem: { deny_read: [~/other.sock], deny_write: [~/agent.sock] }\n", &refused);
        assert_false(allows(&refused, "network-outbound", HOME "/other.sock", "SOCKET"));
        assert_false(allows(&refused, "network-outbound", HOME "/agent.sock", "SOCKET"));

        make("macos: { allow: [docker] }\n", &docker);
        assert_true(allows(&docker, "network-outbound", "/private/var/run/docker.sock", "SOCKET"));
        assert_true(allows(&docker, "network-outbound", HOME "/.docker/run/docker.sock", "SOCKET"));
        assert_false(allows(&docker, "network-outbound", HOME "/other.sock", "SOCKET"));
}

/* Each word opens its own things, and no other word does. */
static void test_groups(void **state) {
        (void)state;
        static const struct {
                const char *word;
                struct sbpl_question question;
        } rows[] = {
                { "keychain", { .operation = "mach-lookup", .name = "com.apple.SecurityServer" } },
                { "keychain", { .operation = "mach-lookup", .name = "com.apple.securityd.xpc" } },
                { "keychain", { .operation = "file-read-data", .path = HOME "/Library/Keychains/login.keychain-db" } },
                { "clipboard", { .operation = "mach-lookup", .name = "com.apple.pasteboard.1" } },
                { "open", { .operation = "lsopen" } },
                { "open", { .operation = "mach-lookup", .name = "com.apple.coreservices.appleevents" } },
                { "browser", { .operation = "mach-register", .name = "org.chromium.Chromium.x" } },
                { "browser", { .operation = "mach-lookup", .name = "org.chromium.Chromium.x" } },
                { "browser", { .operation = "mach-lookup", .name = "com.apple.windowserver.active" } },
                { "xcode", { .operation = "file-write-data", .path = HOME "/Library/Developer/Xcode/DerivedData/x" } },
                { "docker", { .operation = "mach-lookup", .name = "com.docker.backend" } },
                { "localhost", { .operation = "network-outbound", .address = "127.0.0.1", .port = 9 } },
                { "localhost", { .operation = "network-inbound", .address = "127.0.0.1", .port = 9 } },
        };

        for (unsigned word = 0; word < MACOS_WORDS; word++) {
                cleanup(free_ptr) char *text = str_format("macos: { allow: [%s] }\n", macos_word_name(word));
                cleanup(made_done) struct made made = { 0 };
                size_t opened = 0;

                make(text, &made);
                for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
                        bool own = strcmp(rows[i].word, macos_word_name(word)) == 0;

                        if (made_allows(&made, rows[i].question) != own)
                                fail_msg("%s: %s %s", macos_word_name(word), rows[i].question.operation,
                                         own ? "is closed" : "is open");
                        opened += own;
                }
                assert_true(opened > 0);
                assert_non_null(strstr(made.text, macos_word_help(word)));
        }
        assert_null(macos_word_name(MACOS_WORDS));
        assert_int_equal(macos_word(STR("keychains")), 0);
}

/* In the mode that writes nothing a group gives nothing to write. */
static void test_read_only(void **state) {
        (void)state;
        cleanup(made_done) struct made made = { 0 };

        make("mode: read-only\nmacos: { allow: [xcode] }\n", &made);
        assert_false(allows(&made, "file-write-data", HOME "/Library/Developer/Xcode/DerivedData/x", NULL));
        assert_true(allows(&made, "file-read-data", HOME "/Library/Developer/Xcode/DerivedData/x", NULL));
        assert_false(allows(&made, "file-write-data", WORK "/x", NULL));
        assert_true(allows(&made, "file-read-data", WORK "/x", NULL));
        assert_true(allows(&made, "file-write-data", TEMPORARY "/x", NULL));
        assert_true(allows(&made, "file-write-data", OWN "/x", NULL));
}

static void test_homes(void **state) {
        (void)state;
        cleanup(made_done) struct made own = { 0 }, real = { 0 };

        make("filesystem: { home: workspace, read: [~/Library] }\n", &own);
        assert_false(allows(&own, "file-read-data", HOME "/notes.txt", NULL));
        assert_true(allows(&own, "file-read-data", HOME "/.cargo/bin/cargo", NULL));
        assert_false(allows(&own, "file-write-data", HOME "/.cargo/bin/cargo", NULL));
        assert_false(allows(&own, "file-read-data", HOME "/.cargo/credentials.toml", NULL));
        assert_false(allows(&own, "file-read-data", HOME "/Library/Keychains/x", NULL));
        assert_false(allows(&own, "file-read-data", HOME "/Library/Application Support/Google/Chrome/x", NULL));
        assert_true(allows(&own, "file-read-data", HOME "/Library/Fonts/x", NULL));

        /* the same with another rule before it */
        cleanup(made_done) struct made shifted = { 0 };
        make("filesystem: { home: workspace, read: [/opt, ~/Library] }\n", &shifted);
        assert_false(allows(&shifted, "file-read-data", HOME "/Library/Keychains/x", NULL));
        assert_true(allows(&shifted, "file-read-data", HOME "/Library/Fonts/x", NULL));

        make("filesystem: { home: real, write: [~/Library] }\n", &real);
        assert_true(allows(&real, "file-read-data", HOME "/notes.txt", NULL));
        assert_false(allows(&real, "file-read-data", HOME "/.ssh/id_ed25519", NULL));
        assert_false(allows(&real, "file-write-create", HOME "/Library/LaunchAgents/x.plist", NULL));
        assert_false(allows(&real, "file-write-create", HOME "/Library/launchagents/x.plist", NULL));
        assert_true(allows(&real, "file-write-create", HOME "/Library/Fonts/x", NULL));
        assert_false(allows(&real, "file-read-data", "/Volumes/Backup/x", NULL));
        assert_false(allows(&real, "file-read-data", "/private/tmp/x", NULL));
}

/* The links in the root of every Mac, and names that only begin like them. */
static void test_links(void **state) {
        static const char *const rows[][2] = {
                { "/tmp", "/private/tmp" },
                { "/tmp/x", "/private/tmp/x" },
                { "/var/run/x", "/private/var/run/x" },
                { "/etc/hosts", "/private/etc/hosts" },
                { "/variable", "/variable" },
                { "/private/var/x", "/private/var/x" },
        };

        (void)state;
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
                cleanup(free_ptr) char *canonical = seatbelt_canonical(rows[i][0]);
                assert_string_equal(canonical, rows[i][1]);
        }
}

/* The root directory is no name that a slash follows. */
/* Only the three links of the root have two spellings. */
static void test_no_other_alias(void **state) {
        (void)state;
        cleanup(made_done) struct made made = { 0 };

        make("filesystem: { write: [/private/opt/x, /private/tmp/y] }\n", &made);
        assert_true(allows(&made, "file-write-create", "/private/opt/x/a", NULL));
        assert_false(allows(&made, "file-write-create", "/opt/x/a", NULL));
        assert_true(allows(&made, "file-write-create", "/private/tmp/y/a", NULL));
        assert_true(allows(&made, "file-write-create", "/tmp/y/a", NULL));
}

static void test_below_the_root(void **state) {
        cleanup(buf_done) struct buf root = BUF(256), deeper = BUF(256);

        (void)state;
        assert_int_equal(seatbelt_regex_below("/", "/a", "$", &root), 0);
        assert_string_equal(buf_text(&root), "^/[Aa]$");
        assert_int_equal(seatbelt_regex_below("/w", "/w/a", "$", &deeper), 0);
        assert_string_equal(buf_text(&deeper), "^/w/[Aa]$");
}

/* Globs one by one, on a volume that does not tell case. */
static void test_globs(void **state) {
        (void)state;
        static const struct {
                const char *glob, *name;
                bool refused;
        } rows[] = {
                { "[]k]*", "]x", true },
                { "[]k]*", "kx", true },
                { "[]k]*", "x", false },
                { "[!a]", "b", true },
                { "[!a]", "a", false },
                { "[!a]", "bb", false },
                { "[!a]", "\xc3\xa9", true },
                { "[a-c]x", "bx", true },
                { "[a-c]x", "BX", true },
                { "[a-c]x", "dx", false },
                { "[+-9]", "5", true },
                { "[+-9]", "a", false },
                { "[+-9]", ",", true },
                { "[^b]x", "cx", true },
                { "[^b]x", "bx", false },
                { "?", "x", true },
                { "?", "xy", false },
                { "?", "\xc3\xa9", true },
                { "a[", "a[", true },
                { "a.b*", "a.bc", true },
                { "a.b*", "axbc", false },
                { "a+*", "a+b", true },
                { "a+*", "aab", false },
                { "(x)*", "(x)1", true },
                { "x{1}*", "x{1}", true },
                { "x$*", "x$", true },
                { "*q\"*", "aq\"b", true },
                { "*q\"*", "aqb", false },
                { "[\"-#]z", "\"z", true },
                { "[a\\]z", "\\z", true },
                { "[x-]z", "-z", true },
                { "**/deep/*", "a/b/deep/c", true },
                { "**/deep/*", "deep/c", true },
                { "**/deep/*", "deep", false },
                { "x/**", "x/y/z", true },
                { "x/**", "x", false },
                { "\xc3\xa9*", "\xc3\xa9t", true },
        };

        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
                cleanup(policy_freep) struct policy *p = load("mode: workspace-write\n");
                cleanup(path_rules_freep) struct path_rules *rules = NULL;
                cleanup(made_done) struct made made = { 0 };
                cleanup(free_ptr) char *glob = path_join(WORK "/g", rows[i].glob);
                cleanup(free_ptr) char *path = path_join(WORK "/g", rows[i].name);
                const struct seatbelt_host host = host_of(p);
                struct err e = { 0 };

                assert_int_equal(origin_texts_add(&p->filesystem.deny_read, str_of(glob), "test"), 0);
                assert_int_equal(path_rules_compile(p, &rules, &e), 0);
                rules = shorten(rules);
                assert_int_equal(made_make(&made, p, rules, &host, &e), 0);
                if (allows(&made, "file-read-data", path, NULL) == rows[i].refused)
                        fail_msg("%s is %srefused by %s", path, rows[i].refused ? "not " : "", glob);
        }
}

/* A grant to read, with one to write inside: other exceptions for reading than for writing, as many of them. */
static void test_exceptions(void **state) {
        (void)state;
        cleanup(made_done) struct made made = { 0 };

        make("filesystem: { deny_read: [\"**/vault\"], read: [~/src/engine/vault], write: [~/src/engine/vault/in] }\n",
             &made);
        assert_true(allows(&made, "file-read-data", WORK "/vault/x", NULL));
        assert_false(allows(&made, "file-write-data", WORK "/vault/x", NULL));
        assert_true(allows(&made, "file-write-data", WORK "/vault/in/x", NULL));
        assert_false(allows(&made, "file-read-data", WORK "/other/vault/x", NULL));
        assert_false(allows(&made, "file-write-data", WORK "/other/vault/x", NULL));

        /* the first exception is the same for both, the second is not */
        cleanup(made_done) struct made two = { 0 };
        make("filesystem: { deny_read: [\"**/vault\"], read: [~/src/engine/b/vault], "
             "write: [~/src/engine/a/vault, ~/src/engine/b/vault/in] }\n",
             &two);
        assert_true(allows(&two, "file-write-data", WORK "/a/vault/x", NULL));
        assert_true(allows(&two, "file-read-data", WORK "/b/vault/x", NULL));
        assert_false(allows(&two, "file-write-data", WORK "/b/vault/x", NULL));
        assert_true(allows(&two, "file-write-data", WORK "/b/vault/in/x", NULL));

        /* a refusal by the other spelling of its place has the exception by that spelling */
        cleanup(made_done) struct made linked = { 0 };
        make("filesystem: { write: [/private/tmp/w], deny_read: [\"/private/tmp/w/*.pem\"], "
             "read: [/private/tmp/w/open.pem] }\n",
             &linked);
        assert_true(allows(&linked, "file-read-data", "/private/tmp/w/open.pem", NULL));
        assert_true(allows(&linked, "file-read-data", "/tmp/w/open.pem", NULL));
        assert_true(allows(&linked, "file-read-data", "/private/tmp/w/open.pem/x", NULL));
        assert_true(allows(&linked, "file-read-data", "/tmp/w/open.pem/x", NULL));
        assert_false(allows(&linked, "file-read-data", "/private/tmp/w/key.pem", NULL));
        assert_false(allows(&linked, "file-read-data", "/tmp/w/key.pem", NULL));
}

/* A rule about the home itself counts instead of the closed one, wherever it stands in the list. */
static void test_home_by_rule(void **state) {
        (void)state;
        static const char *const more[] = { NULL, "/opt", "/srv" };
        cleanup(policy_freep) struct policy *p = load("mode: workspace-write\n");
        const struct seatbelt_host host = host_of(p);

        assert_int_equal(origin_texts_add(&p->filesystem.read, STR(HOME), "test"), 0);
        for (size_t i = 0; i < 3; i++) {
                cleanup(path_rules_freep) struct path_rules *rules = NULL;
                cleanup(made_done) struct made made = { 0 };
                struct err e = { 0 };

                if (more[i])
                        assert_int_equal(origin_texts_add(&p->filesystem.read, str_of(more[i]), "test"), 0);
                assert_int_equal(path_rules_compile(p, &rules, &e), 0);
                assert_int_equal(made_make(&made, p, rules, &host, &e), 0);
                assert_true(allows(&made, "file-read-data", HOME "/notes.txt", NULL));
                assert_false(allows(&made, "file-write-data", HOME "/notes.txt", NULL));
        }
}

/* --- refusals --- */

static void test_long_pattern(void **state) {
        (void)state;
        cleanup(policy_freep) struct policy *p = load("mode: workspace-write\n");
        cleanup(path_rules_freep) struct path_rules *rules = NULL;
        const struct seatbelt_host host = host_of(p);
        char glob[700];
        struct made made;
        struct err e = { 0 };

        memset(glob, 'a', sizeof glob);
        memcpy(glob, "/w/*", 4);
        glob[sizeof glob - 1] = '\0';
        assert_int_equal(origin_texts_add(&p->filesystem.deny_read, str_of(glob), "policy.yaml:7"), 0);
        assert_int_equal(path_rules_compile(p, &rules, &e), 0);
        assert_int_equal(made_make(&made, p, rules, &host, &e), -EMSGSIZE);
        assert_non_null(strstr(err_text(&e), "policy.yaml:7: the pattern is too long"));
}

static void test_refusals(void **state) {
        (void)state;
        static const struct {
                const char *policy, *says;
                int code;
        } rows[] = {
                { "filesystem: { overlay: true }", "no overlay", -EOPNOTSUPP },
                { "process: { nesting: true }", "second profile", -EOPNOTSUPP },
                { "network: { publish: [\"8080:80\"] }", "another number outside", -EOPNOTSUPP },
                { "network: { publish: [\"9090:9090\", \"8080:80\"] }", "another number outside", -EOPNOTSUPP },
        };

        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
                cleanup(policy_freep) struct policy *p = load(rows[i].policy);
                cleanup(path_rules_freep) struct path_rules *rules = NULL;
                const struct seatbelt_host host = host_of(p);
                struct made made;
                struct err e = { 0 };

                assert_int_equal(path_rules_compile(p, &rules, &e), 0);
                assert_int_equal(made_make(&made, p, rules, &host, &e), rows[i].code);
                if (!strstr(err_text(&e), rows[i].says))
                        fail_msg("%s", err_text(&e));
        }
}

static void test_bad_facts(void **state) {
        (void)state;
        cleanup(policy_freep) struct policy *p = load("mode: workspace-write\n");
        cleanup(path_rules_freep) struct path_rules *rules = NULL;
        const struct seatbelt_host good = host_of(p);
        struct seatbelt_host bad[8] = { good, good, good, good, good, good, good, good };
        struct err e = { 0 };

        bad[0].home = "ada";
        bad[1].tmpdir = "/private/tmp/../etc";
        bad[2].own_home = "/a//b";
        bad[3].tag = "x\")(allow default)(\"";
        bad[4].tag = "";
        bad[5].http_port = bad[6].socks_port = bad[7].api_port = 80; /* the policy has no network */
        assert_int_equal(path_rules_compile(p, &rules, &e), 0);
        static const char *const says[] = { "the home", "temporary files", "own home",   "tag",
                                            "tag",      "no network",      "no network", "no network" };
        for (size_t i = 0; i < 8; i++) {
                struct made made;

                assert_int_equal(made_make(&made, p, rules, &bad[i], &e), -EINVAL);
                if (!strstr(err_text(&e), says[i]))
                        fail_msg("%zu: %s", i, err_text(&e));
        }
}

/* --- the launch around it --- */

static char **sample_environment(void) {
        static const char *const lines[] = { "PATH=/usr/bin",
                                             "DYLD_INSERT_LIBRARIES=/x",
                                             "MallocStackLogging=1",
                                             "SSH_AUTH_SOCK=/x",
                                             "XPC_FLAGS=1",
                                             "JAVA_TOOL_OPTIONS=-Xmx1g",
                                             NULL };

        return (char **)lines;
}

static void test_launch(void **state) {
        (void)state;
        cleanup(policy_freep) struct policy *p =
            load("process: { limits: { files: 99 }, env: { set: { ONE: one, TWO: two } } }\n");
        cleanup(path_rules_freep) struct path_rules *rules = NULL;
        cleanup(macos_launch_freep) struct macos_launch *launch = NULL;
        cleanup(buf_done) struct buf text = BUF(4 << 20), json = BUF(4 << 20);
        const struct seatbelt_host host = host_of(p);
        char *const argv[] = { (char *)"claude", (char *)"--x y", (char *)"\xc3\xa9t\xc3\xa9", NULL };
        struct macos_request request = { .policy = p,
                                         .rules = NULL,
                                         .host = &host,
                                         .environment = sample_environment(),
                                         .argv = argv,
                                         .cwd = WORK,
                                         .id = "run",
                                         .secret = "s3cr3tOfTheRun" };
        struct err e = { 0 };

        assert_int_equal(path_rules_compile(p, &rules, &e), 0);
        request.rules = rules;
        if (macos_launch_build(&request, &launch, &e) < 0)
                fail_msg("%s", err_text(&e));
        assert_int_equal(macos_launch_text(launch, &text), 0);
        assert_int_equal(macos_launch_json(launch, &json), 0);
        const char *shown = buf_text(&text);
        assert_null(strstr(shown, "s3cr3t"));
        assert_null(strstr(buf_text(&json), "s3cr3t"));
        assert_null(strstr(shown, "DYLD_"));
        assert_null(strstr(shown, "Malloc"));
        assert_null(strstr(shown, "XPC_"));
        assert_null(strstr(shown, "SSH_AUTH_SOCK"));
        assert_non_null(strstr(shown, "HTTPS_PROXY=http://bailey:SECRET@127.0.0.1:49152"));
        assert_non_null(strstr(shown, "ALL_PROXY=socks5h://bailey:SECRET@127.0.0.1:49153"));
        assert_non_null(strstr(shown, "JAVA_TOOL_OPTIONS=-Xmx1g -Djava.net.preferIPv4Stack=true"));
        assert_non_null(strstr(shown, "TMPDIR=" TEMPORARY));
        assert_non_null(strstr(shown, "HOME=" OWN));
        assert_non_null(strstr(shown, "BAILEY_WHY="));
        assert_non_null(strstr(shown, "ONE=one"));
        assert_non_null(strstr(shown, "TWO=two"));
        assert_non_null(strstr(shown, "BAILEY_SANDBOX=run"));
        assert_non_null(
            strstr(buf_text(&json), "{\"platform\": \"macos\", \"tried_on_a_mac\": false, \"directory\": \"" WORK));
        assert_non_null(strstr(shown, "; limit: files 99\n; limit: core 0\n"));
        for (const char *c = shown; *c; c++)
                assert_true(*c == '\n' || (*c >= ' ' && *c <= '~'));
        assert_non_null(strstr(shown, "; command: claude --x y ??t??\n; directory: " WORK "\n; limit: files"));
        assert_non_null(strstr(buf_text(&json), "\"argv\": [\"claude\", \"--x y\", \"\xc3\xa9t\xc3\xa9\"]"));
        assert_non_null(strstr(buf_text(&json), "\"limits\": {\"files\": 99, \"core\": 0}, \"notes\": [\"never yet"));
        /* the JSON is whole, and has the very profile */
        cleanup(buf_done) struct buf profile = BUF(4 << 20), told = BUF(4 << 20);
        assert_int_equal(seatbelt_text(launch->profile, &profile), 0);
        assert_int_equal(json_find(buf_str(&json), STR("/profile"), &told), 0);
        assert_true(str_eq(buf_str(&profile), buf_str(&told)));
        assert_true(str_ends(buf_str(&text), buf_str(&profile)));
        assert_non_null(strstr(shown, "\n;\n; Seatbelt profile"));
        bool real = false;
        for (char **line = launch->environment; *line; line++)
                real = real || strcmp(*line, "https_proxy=http://bailey:s3cr3tOfTheRun@127.0.0.1:49152") == 0;
        assert_true(real);

        /* where nobody has set Java's option, it is one more variable, the last one; fresh memory is not zero here */
        static const char *const few[] = { "PATH=/bin", "LANG=C", "TERM=x",    "LC_ALL=C",      "TZ=UTC",
                                           "USER=u",    "HOME=/", "LOGNAME=u", "SHELL=/bin/sh", NULL };
        mallopt(M_PERTURB, 0x5a);
        for (size_t i = 0; i < sizeof few / sizeof *few; i++) {
                size_t last = 0;

                macos_launch_free(take_ptr(&launch));
                request.environment = (char **)few + i;
                assert_int_equal(macos_launch_build(&request, &launch, &e), 0);
                while (launch->environment[last + 1])
                        last++;
                assert_string_equal(launch->environment[last], "JAVA_TOOL_OPTIONS=-Djava.net.preferIPv4Stack=true");
        }

        /* a volume that tells spellings apart */
        struct seatbelt_host exact = host;
        exact.case_sensitive = true;
        request.host = &exact;
        assert_non_null(strstr(shown, "no link instead of it, in any spelling"));
        text.n = 0;
        macos_launch_free(take_ptr(&launch));
        assert_int_equal(macos_launch_build(&request, &launch, &e), 0);
        assert_int_equal(macos_launch_text(launch, &text), 0);
        assert_null(strstr(buf_text(&text), "no link instead of it, in any spelling"));
        request.host = &host;

        macos_launch_free(launch);
        launch = NULL;
        request.secret = NULL;
        for (size_t i = 0; i < 3; i++) { /* any port of a gateway needs the secret */
                struct seatbelt_host one = host;

                one.http_port = i == 0 ? 1 : 0;
                one.socks_port = i == 1 ? 1 : 0;
                one.api_port = i == 2 ? 1 : 0;
                request.host = &one;
                assert_int_equal(macos_launch_build(&request, &launch, &e), -EINVAL);
        }
        request.host = &host;
        assert_int_equal(macos_launch_build(&request, &launch, &e), -EINVAL);
        request.secret = "with@sign";
        assert_int_equal(macos_launch_build(&request, &launch, &e), -EINVAL);
}

/* What the language cannot hold is beside it, by name. */
static void test_parameters(void **state) {
        (void)state;
        cleanup(policy_freep) struct policy *p =
            load("mode: workspace-write\nfilesystem: { write: [\"/Users/ada/\xc3\xa9\", '/Users/ada/a\"b', "
                 "'/Users/ada/c\"d'] }\n");
        cleanup(path_rules_freep) struct path_rules *rules = NULL;
        cleanup(macos_launch_freep) struct macos_launch *launch = NULL;
        cleanup(buf_done) struct buf json = BUF(4 << 20);
        const struct seatbelt_host host = host_of(p);
        char *const argv[] = { (char *)"true", NULL };
        struct err e = { 0 };

        assert_int_equal(path_rules_compile(p, &rules, &e), 0);
        const struct macos_request request = { .policy = p,
                                               .rules = rules,
                                               .host = &host,
                                               .environment = sample_environment(),
                                               .argv = argv,
                                               .cwd = WORK,
                                               .id = "run" };
        if (macos_launch_build(&request, &launch, &e) < 0)
                fail_msg("%s", err_text(&e));
        assert_int_equal(macos_launch_json(launch, &json), 0);

        assert_true(launch->profile->parameters.n >= 3);
        for (size_t i = 0; i < launch->profile->parameters.n; i++) {
                const struct seatbelt_parameter *parameter = &launch->profile->parameters.p[i];
                cleanup(free_ptr) char *at = str_format("/parameters/%s", parameter->name);
                cleanup(buf_done) struct buf value = BUF(4096);

                assert_int_equal(json_find(buf_str(&json), str_of(at), &value), 0);
                assert_true(str_is(buf_str(&value), parameter->value));
        }
}

/* No table has a rule without a reason; the text would have no line for it. */
static void test_rule_without_a_reason(void **state) {
        struct seatbelt *bare = calloc(1, sizeof *bare);
        cleanup(buf_done) struct buf text = BUF(4096);

        (void)state;
        assert_non_null(bare);
        bare->tag = "t";
        assert_int_equal(seatbelt_begin(bare, true, "s", "process-fork", NULL), 0);
        assert_int_equal(seatbelt_text(bare, &text), 0);
        assert_true(str_ends(buf_str(&text), STR("\n; --- s ---\n\n(allow process-fork)\n")));
        seatbelt_free(bare);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_golden),         cmocka_unit_test(test_profiles),
                cmocka_unit_test(test_spellings),      cmocka_unit_test(test_moves),
                cmocka_unit_test(test_ways),           cmocka_unit_test(test_network),
                cmocka_unit_test(test_sockets),        cmocka_unit_test(test_groups),
                cmocka_unit_test(test_read_only),      cmocka_unit_test(test_homes),
                cmocka_unit_test(test_refusals),       cmocka_unit_test(test_bad_facts),
                cmocka_unit_test(test_launch),         cmocka_unit_test(test_globs),
                cmocka_unit_test(test_links),          cmocka_unit_test(test_below_the_root),
                cmocka_unit_test(test_exceptions),     cmocka_unit_test(test_long_pattern),
                cmocka_unit_test(test_ports),          cmocka_unit_test(test_home_by_rule),
                cmocka_unit_test(test_parameters),     cmocka_unit_test(test_rule_without_a_reason),
                cmocka_unit_test(test_no_other_alias),
        };

        snprintf(folder, sizeof folder, "%s/macos", getenv("CASES"));
        return cmocka_run_group_tests(tests, NULL, NULL);
}
