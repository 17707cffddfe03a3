/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/load.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/paths/path.h"
#include "conf/trust.h"
#include "policy/apply.h"
#include "policy/home_kind.h"
#include "policy/paths/paths.h"

#include "../alloc_fail.h"
#include "../cmocka_all.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* A home and a workspace of its own for each test. */
static char *top;

static int set_up(void **state) {
        (void)state;
        char name[] = "/tmp/bailey-load-XXXXXX";
        assert_non_null(mkdtemp(name));
        top = realpath(name, NULL);
        static const char *const variables[] = {
                "XDG_CONFIG_HOME",         "XDG_STATE_HOME", "BAILEY_MODE", "BAILEY_ALLOW",   "BAILEY_POLICY",
                "BAILEY_PRESET",           "PIP_INDEX_URL",  "GOPROXY",     "OPENAI_API_KEY", "ANTHROPIC_API_KEY",
                "CLAUDE_CODE_OAUTH_TOKEN", "GITHUB_TOKEN",   "GH_TOKEN"
        };
        for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++)
                unsetenv(variables[i]);
        static const char *const directories[] = { "home", "home/.config", "home/.config/bailey", "ws", "home/.cargo" };
        for (size_t i = 0; i < sizeof directories / sizeof directories[0]; i++) {
                cleanup(free_ptr) char *path = path_join(top, directories[i]);
                assert_int_equal(mkdir(path, 0755), 0);
        }
        cleanup(free_ptr) char *home = path_join(top, "home"), *ws = path_join(top, "ws");
        setenv("HOME", home, 1);
        assert_int_equal(chdir(ws), 0);
        return 0;
}

static int tear_down(void **state) {
        (void)state;
        static const char *const files[] = { "ws/.bailey.yaml",
                                             "ws/list.txt",
                                             "ws/link.txt",
                                             "home/secret",
                                             "home/.config/bailey/config.yaml",
                                             "home/.npmrc",
                                             "home/.cargo/config.toml",
                                             "other.yaml",
                                             "home/.local/state/bailey/trust",
                                             "home/.local/state/bailey",
                                             "home/.local/state",
                                             "home/.local",
                                             "home/.config/bailey",
                                             "home/.config",
                                             "home/.cargo",
                                             "home",
                                             "ws" };
        assert_int_equal(chdir("/"), 0);
        for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
                cleanup(free_ptr) char *path = path_join(top, files[i]);
                remove(path);
        }
        int left = rmdir(top);
        free(top);
        top = NULL;
        return left;
}

static void write_file(const char *below, const char *text) {
        cleanup(free_ptr) char *path = path_join(top, below);
        assert_int_equal(path_replace_file(path, str_of(text), 0644, NULL), 0);
}
#define user_file(text) write_file("home/.config/bailey/config.yaml", text)
#define workspace_yaml(text) write_file("ws/.bailey.yaml", text)

static struct policy *load_or_fail(const struct policy_request *request) {
        struct policy *p = NULL;
        struct err e = { 0 };
        struct policy_request none = { 0 };
        if (policy_load(request ? request : &none, &p, &e) < 0)
                fail_msg("%s", e.text);
        return p;
}

static void assert_refused(int code, const char *says) {
        struct policy_request request = { 0 };
        struct policy *p = NULL;
        struct err e = { 0 };
        int r = policy_load(&request, &p, &e);
        policy_free(p);
        if (r != -code || !strstr(e.text, says))
                fail_msg("%d: %s", r, e.text);
}

static void loads_defaults(void **state) {
        (void)state;
        cleanup(policy_freep) struct policy *p = load_or_fail(NULL);
        assert_int_equal(p->mode, MODE_WORKSPACE_WRITE_WHITELIST);
        assert_int_equal(p->network.ask, ASK_NEVER);
        assert_int_equal(p->network.ask_timeout_ns, 120 * NS_PER_SECOND);
        assert_int_equal(p->network.limits.connect_ns, 10 * NS_PER_SECOND);
        assert_int_equal(p->network.limits.header_bytes, 65536);
        assert_int_equal(p->process.limits.memory, 0);
        assert_int_equal(p->process.limits.files, 0);
        assert_int_equal(p->process.limits.processes, 0);
        assert_int_equal(p->process.limits.cpu_seconds, 0);
        assert_false(p->filesystem.reads_denied);
        assert_int_equal(p->network.allow.n, 0);
        assert_string_equal(p->preset, "default");
        assert_null(p->origins[ROW_MODE]);
        cleanup(free_ptr) char *ws = path_join(top, "ws");
        assert_string_equal(p->workspace, ws);
}

static void layers_in_order(void **state) {
        (void)state;
        user_file("mode: full-network\nnetwork: { allow: [a.example.com], deny: [x.example.com] }\n"
                  "process: { limits: { memory: 1GiB } }\nfilesystem: { write: [build, ~/.cache], deny_write: "
                  "[\"**/*.key\"] }\n");
        workspace_yaml("mode: read-only\nnetwork:\n  deny: [y.example.com]\nprocess: { limits: { memory: 512MiB } }\n");
        setenv("BAILEY_ALLOW", "b.example.com,c.example.com:443", 1);
        cleanup(option_values_done) struct option_values line = { 0 };
        assert_int_equal(option_set(&line, &policy_rows[ROW_MODE], STR("workspace-write"), "--mode", NULL), 0);
        assert_int_equal(option_set(&line, &policy_rows[ROW_WRITE], STR("out"), "--write", NULL), 0);
        struct policy_request request = { .command_line = &line };
        cleanup(policy_freep) struct policy *p = load_or_fail(&request);
        unsetenv("BAILEY_ALLOW");
        assert_int_equal(p->mode, MODE_WORKSPACE_WRITE);
        assert_string_equal(p->origins[ROW_MODE], "--mode");
        assert_int_equal(p->process.limits.memory, 512ULL << 20);
        assert_string_equal(p->origins[ROW_MEMORY], ".bailey.yaml:4:30");
        assert_int_equal(p->network.allow.n, 3);
        assert_string_equal(p->network.allow.p[0].origin, "~/.config/bailey/config.yaml:2:20");
        assert_string_equal(p->network.allow.p[2].text, "c.example.com:443");
        assert_string_equal(p->network.allow.p[2].origin, "BAILEY_ALLOW");
        assert_int_equal(p->network.deny.n, 2);
        assert_string_equal(p->network.deny.p[1].origin, ".bailey.yaml:3:10");
        /* In the user's file, which holds for all workspaces, "build" is the workspace's. */
        cleanup(free_ptr) char *build = path_join(top, "ws/build");
        cleanup(free_ptr) char *cache = path_join(top, "home/.cache");
        cleanup(free_ptr) char *out = path_join(top, "ws/out");
        assert_string_equal(p->filesystem.write.p[0].text, build);
        assert_string_equal(p->filesystem.write.p[1].text, cache);
        assert_string_equal(p->filesystem.write.p[2].text, out);
        assert_string_equal(p->filesystem.deny_write.p[0].text, "**/*.key");
}

static void reads_a_named_file(void **state) {
        (void)state;
        user_file("mode: full-network\n");
        write_file("other.yaml", "filesystem: { deny_read: [here] }\n");
        cleanup(free_ptr) char *path = path_join(top, "other.yaml"), *here = path_join(top, "here");
        cleanup(option_values_done) struct option_values line = { 0 };
        assert_int_equal(option_set(&line, &policy_rows[ROW_POLICY], str_of(path), "--policy", NULL), 0);
        struct policy_request request = { .command_line = &line };
        cleanup(policy_freep) struct policy *p = load_or_fail(&request);
        assert_int_equal(p->mode, MODE_WORKSPACE_WRITE_WHITELIST); /* the user's file was not read */
        assert_string_equal(p->filesystem.deny_read.p[0].text, here);
        struct policy_request missing = { .only_file = "/nonexistent/policy.yaml" };
        struct policy *none = NULL;
        assert_int_equal(policy_load(&missing, &none, NULL), -ENOENT);
}

static void reads_everything(void **state) {
        (void)state;
        write_file("ws/list.txt", "# hosts\none.example.com\n\n*.two.example.com:443 # with a comment\n");
        user_file("preset: ci\nprofile: claude\nmode: workspace-write-whitelist\n"
                  "network:\n  allow: ['@github', 'api.example.com:443']\n  allow_file: list.txt\n"
                  "  rules:\n    - { host: api.github.com, methods: [GET, HEAD], paths: ['/repos/acme/**'] }\n"
                  "  allow_private: ['10.1.2.3:5432', 'host.bailey.internal:8080']\n  deny_cidrs: [10.0.0.0/8]\n"
                  "  ask: tty\n  ask_timeout: 30s\n  upstream_proxy: 'http://u:p@proxy.corp.example:3128'\n"
                  "  publish: ['8080:80', '127.0.0.1:9090:90', '[::1]:1:2']\n  host_port: [5432]\n"
                  "  dns_servers: [192.0.2.1, '192.0.2.1:5353']\n"
                  "  limits: { connect: 5s, connections: 10, bytes_out: 1GiB }\n"
                  "filesystem: { reads: deny, read: [/usr], overlay: true }\n"
                  "process:\n  limits: { cpu: 1500ms }\n  env: { pass: [TERM, LANG], set: { CI: '1', EMPTY: '' } }\n  "
                  "timeout: 1h\n"
                  "commands:\n  - { name: no-apply, decision: escalate, argv: [terraform, apply], reason: 'changes "
                  "production', "
                  "match: ['terraform apply -auto-approve'], no_match: ['terraform plan'] }\n"
                  "credentials:\n  - { provider: openai, source: 'env:OPENAI_API_KEY' }\n"
                  "  - { name: internal, env: INTERNAL_TOKEN, source: 'exec:op read x', hosts: "
                  "[api.internal.example.com], slot: "
                  "'header:x-api-key' }\n"
                  "agents:\n  builder: { networkAccess: whitelist, monitorEnabled: true, autoKillOnThreat: false }\n"
                  "monitor:\n  - { violations: 20, within: 60s, action: pause }\naudit: log.jsonl\n");
        cleanup(policy_freep) struct policy *p = load_or_fail(NULL);
        assert_string_equal(p->preset, "ci");
        assert_int_equal(p->mode, MODE_WORKSPACE_WRITE_WHITELIST);
        assert_int_equal(p->network.allow.n, 3);
        assert_string_equal(p->network.allow.p[2].text, "@anthropic");
        assert_string_equal(p->network.allow.p[2].origin, "profile claude in ~/.config/bailey/config.yaml:2:10");
        assert_int_equal(p->network.allow_files.n, 1);
        assert_int_equal(p->network.rules.n, 1);
        assert_string_equal(p->network.rules.p[0].methods.p[1].text, "HEAD");
        assert_string_equal(p->network.rules.p[0].origin, "~/.config/bailey/config.yaml:8:7");
        assert_true(p->network.deny_cidrs_set);
        assert_int_equal(p->network.ask, ASK_TTY);
        assert_int_equal(p->network.publish.n, 3);
        assert_int_equal(p->network.publish.p[1].outside, 9090);
        assert_string_equal(p->network.publish.p[2].addr, "::1");
        assert_int_equal(p->network.host_ports.p[0].inside, 5432);
        assert_int_equal(p->network.limits.bytes_out, 1ULL << 30);
        assert_true(p->filesystem.reads_denied && p->filesystem.overlay);
        assert_int_equal(p->process.limits.cpu_seconds, 2);
        assert_string_equal(p->process.env_set.p[0].text, "CI=1");
        assert_string_equal(p->process.env_set.p[1].text, "EMPTY=");
        assert_string_equal(p->commands.p[0].decision, "escalate");
        assert_int_equal(p->credentials.n, 4); /* and the two of the profile's sign-in */
        assert_string_equal(p->credentials.p[1].slot, "header:x-api-key");
        assert_true(p->agents.p[0].monitor_enabled);
        assert_int_equal(p->monitor.p[0].within_ns, 60 * NS_PER_SECOND);
        cleanup(free_ptr) char *audit = path_join(top, "ws/log.jsonl");
        assert_string_equal(p->audit_path, audit);
}

static void picks_the_role(void **state) {
        (void)state;
        user_file(
            "agents: { builder: { networkAccess: full }, reader: { networkAccess: sandboxed } }\nagent: reader\n");
        cleanup(policy_freep) struct policy *p = load_or_fail(NULL);
        assert_int_equal(p->mode, MODE_WORKSPACE_WRITE);
        assert_string_equal(p->origins[ROW_MODE], "agents.reader in ~/.config/bailey/config.yaml:1:53");
        cleanup(option_values_done) struct option_values line = { 0 };
        assert_int_equal(option_set(&line, &policy_rows[ROW_AGENT], STR("builder"), "--agent", NULL), 0);
        struct policy_request request = { .command_line = &line };
        cleanup(policy_freep) struct policy *builder = load_or_fail(&request);
        assert_int_equal(builder->mode, MODE_FULL_NETWORK);
        assert_int_equal(option_set(&line, &policy_rows[ROW_MODE], STR("read-only"), "--mode", NULL), 0);
        cleanup(policy_freep) struct policy *by_hand = load_or_fail(&request);
        assert_int_equal(by_hand->mode, MODE_READ_ONLY);
        user_file("agents: { builder: { networkAccess: full } }\nagent: bulider\n");
        assert_refused(ENOENT, "config.yaml:2:8: there is no role 'bulider' under agents; did you mean 'builder'?");
}

/* Every key, with a value that narrows and one that widens what the defaults give (NULL: there is none). */
static const struct {
        enum policy_row row;
        const char *narrow, *widen;
} trust_cases[] = {
        { ROW_PRESET, "preset: ci", "preset: development" },
        { ROW_PROFILE, NULL, "profile: claude" },
        { ROW_MODE, "mode: read-only", "mode: full-network" },
        { ROW_AGENT, NULL, "agent: builder" },
        { ROW_ALLOW, "network: { allow: [] }", "network: { allow: [a.example.com] }" },
        { ROW_DENY, "network: { deny: ['@github', a.example.com, '*:22', { host: b.example, reason: no }] }", NULL },
        { ROW_NO_INTERCEPT, "network: { no_intercept: ['*.example.com'] }", NULL },
        { ROW_ALLOW_PRIVATE, NULL, "network: { allow_private: ['10.0.0.1:1'] }" },
        { ROW_ALLOW_FILE, NULL, "network: { allow_file: list.txt }" },
        /* a message about a bad line shows it: what lies elsewhere is not the workspace's to read */
        { ROW_DENY_FILE, "network: { deny_file: list.txt }", "network: { deny_file: /etc/passwd }" },
        { ROW_DENY_FILE, "network: { deny_file: ./list.txt }", "network: { deny_file: ../home/secret }" },
        { ROW_DENY_FILE, NULL, "network: { deny_file: link.txt }" },
        { ROW_DENY_CIDRS, "network: { deny_cidrs: null }", "network: { deny_cidrs: [] }" },
        { ROW_ASK, "network: { ask: never }", "network: { ask: tty }" },
        { ROW_ASK_TIMEOUT, "network: { ask_timeout: 10s }", "network: { ask_timeout: 200s }" },
        { ROW_PUBLISH, NULL, "network: { publish: ['80:80'] }" },
        { ROW_HOST_PORT, NULL, "network: { host_port: [80] }" },
        { ROW_UPSTREAM_PROXY, NULL, "network: { upstream_proxy: 'http://p.example:1' }" },
        { ROW_UPSTREAM_BYPASS, NULL, "network: { upstream_bypass: [a.example.com] }" },
        { ROW_DNS_SERVERS, NULL, "network: { dns_servers: [192.0.2.1] }" },
        { ROW_CA_KEY, NULL, "network: { ca_key: rsa4096 }" },
        { ROW_SSH_GIT, "ssh: { git: false }", "ssh: { git: true }" },
        { ROW_SSH_USERS, NULL, "ssh: { users: [root] }" },
        { ROW_SSH_KNOWN_HOSTS, NULL, "ssh: { known_hosts: [hosts] }" },
        { ROW_SSH_IDENTITIES, NULL, "ssh: { identities: [key] }" },
        { ROW_SSH_HOSTS, NULL, "ssh: { hosts: [example.com] }" },
        { ROW_SSH_KEYS, NULL, "ssh: { keys: [~/.ssh/id.pub] }" },
        { ROW_SIGN_SSH, "signing: { ssh: false }", "signing: { ssh: true }" },
        { ROW_SIGN_GPG, NULL, "signing: { gpg: ['0123456789abcdef'] }" },
        { ROW_SIGN_ASK, "signing: { ask: true }", NULL },
        { ROW_BROWSER_HOSTS, NULL, "browser: { hosts: [a.example.com] }" },
        { ROW_BROWSER_ASK, "browser: { ask: true }", "browser: { ask: false }" },
        { ROW_BROWSER_PROGRAM, NULL, "browser: { program: /usr/bin/true }" },
        { ROW_BROWSER_CALLBACK, "browser: { callback_timeout: 1m }", "browser: { callback_timeout: 20m }" },
        { ROW_HOME, NULL, "filesystem: { home: real }" },
        { ROW_READS, "filesystem: { reads: deny }", NULL },
        { ROW_READ, NULL, "filesystem: { read: [/etc] }" },
        { ROW_WRITE, NULL, "filesystem: { write: [/etc] }" },
        { ROW_ASK_PATH, NULL, "filesystem: { ask: [/etc] }" },
        { ROW_DENY_READ, "filesystem: { deny_read: [secret] }", NULL },
        { ROW_DENY_WRITE, "filesystem: { deny_write: [Makefile] }", NULL },
        { ROW_OVERLAY, "filesystem: { overlay: true }", NULL },
        { ROW_ENV, NULL, "process: { env: { set: { A: b } } }" },
        { ROW_ENV_PASS, NULL, "process: { env: { pass: [A] } }" },
        { ROW_TIMEOUT, "process: { timeout: 5m }", NULL },
        { ROW_ALLOW_DEGRADED, "process: { allow_degraded: false }", "process: { allow_degraded: true }" },
        { ROW_QUIET_HOSTS, NULL, "network: { quiet: [example.com] }" },
        { ROW_NESTING, "process: { nesting: false }", "process: { nesting: true }" },
        { ROW_MACOS_ALLOW, NULL, "macos: { allow: [clipboard] }" },
        { ROW_BASE_URLS, "process: { env: { base_urls: false } }", "process: { env: { base_urls: true } }" },
        { ROW_TRACE_DENIALS, "process: { trace_denials: true }", NULL },
        { ROW_AUDIT, NULL, "audit: /tmp/x" },
        { ROW_PROCESSES, "process: { limits: { processes: 10 } }", "process: { limits: { processes: 0 } }" },
        { ROW_MEMORY, "process: { limits: { memory: 1GiB } }", "process: { limits: { memory: 3GiB } }" },
        { ROW_TEMPORARY, "process: { limits: { temporary: 1GiB } }", "process: { limits: { temporary: 0 } }" },
        { ROW_FILES, "process: { limits: { files: 1024 } }", NULL },
        { ROW_CPU, "process: { limits: { cpu: 10s } }", NULL },
        { ROW_CPU_PERCENT, "process: { limits: { cpu_percent: 50 } }", NULL },
        { ROW_LIMIT_CONNECT, "network: { limits: { connect: 1s } }", "network: { limits: { connect: 11s } }" },
        { ROW_LIMIT_HEADER, "network: { limits: { header: 1s } }", "network: { limits: { header: 11s } }" },
        { ROW_LIMIT_IDLE, "network: { limits: { idle: 1s } }", "network: { limits: { idle: 61s } }" },
        { ROW_LIMIT_TUNNEL_IDLE, "network: { limits: { tunnel_idle: 1s } }",
          "network: { limits: { tunnel_idle: 11m } }" },
        { ROW_LIMIT_HEADER_BYTES, "network: { limits: { header_bytes: 4KiB } }",
          "network: { limits: { header_bytes: 65KiB } }" },
        { ROW_LIMIT_CONNECTIONS, "network: { limits: { connections: 1 } }", "network: { limits: { connections: 0 } }" },
        { ROW_LIMIT_CONNECTION_RATE, "network: { limits: { connections_per_second: 1 } }", NULL },
        { ROW_LIMIT_BODY_BYTES, "network: { limits: { body_bytes: 1MiB } }", NULL },
        { ROW_LIMIT_BYTES_OUT_PER_HOST, "network: { limits: { bytes_out_per_host: 1 } }", NULL },
        { ROW_LIMIT_BYTES_OUT, "network: { limits: { bytes_out: 1 } }", NULL },
};

/* The other direction for rows whose default is the widest: first the user narrows, then the workspace may not undo it.
 */
static const struct {
        const char *user, *workspace;
} undo_cases[] = {
        { "filesystem: { reads: deny }", "filesystem: { reads: allow }" },
        { "filesystem: { overlay: true }", "filesystem: { overlay: false }" },
        { "process: { timeout: 5m }", "process: { timeout: 6m }" },
        { "process: { timeout: 5m }", "process: { timeout: 0 }" },
        { "process: { trace_denials: true }", "process: { trace_denials: false }" },
        { "process: { limits: { cpu: 10s } }", "process: { limits: { cpu: 0 } }" },
        { "process: { limits: { files: 1024 } }", "process: { limits: { files: 1025 } }" },
        { "process: { limits: { files: 1024 } }", "process: { limits: { files: 0 } }" },
        { "process: { limits: { memory: 1GiB } }", "process: { limits: { memory: 2GiB } }" },
        { "process: { limits: { processes: 10 } }", "process: { limits: { processes: 11 } }" },
        { "network: { limits: { connections_per_second: 5 } }", "network: { limits: { connections_per_second: 6 } }" },
        { "network: { limits: { bytes_out_per_host: 5 } }", "network: { limits: { bytes_out_per_host: 0 } }" },
        { "network: { limits: { bytes_out: 5 } }", "network: { limits: { bytes_out: 6 } }" },
        { "network: { limits: { body_bytes: 5 } }", "network: { limits: { body_bytes: 0 } }" },
        { "mode: read-only", "mode: workspace-write" },
        { "preset: ci", "preset: default" },
        { "network: { deny_cidrs: [0.0.0.0/0] }", "network: { deny_cidrs: null }" },
};

/* Keys that no workspace may set, trusted or not. */
static const struct {
        enum policy_row row;
        const char *text;
} own_cases[] = {
        { ROW_LOG_MAX_AGE, "log: { max_age: 1d }" },
        { ROW_LOG_MAX_SIZE, "log: { max_size: 1MiB }" },
        { ROW_APPROVAL_COMMAND, "approval: { command: 'touch x' }" },
        { ROW_APPROVAL_WEBHOOK, "approval: { webhook: 'http://a.example/' }" },
        { ROW_CHAT_SERVICE, "approval: { chat: { service: zulip } }" },
        { ROW_CHAT_URL, "approval: { chat: { url: 'https://a.example' } }" },
        { ROW_CHAT_TOKEN, "approval: { chat: { token: 'env:X' } }" },
        { ROW_CHAT_APP_TOKEN, "approval: { chat: { app_token: 'env:X' } }" },
        { ROW_CHAT_ACCOUNT, "approval: { chat: { account: bot } }" },
        { ROW_CHAT_ROOM, "approval: { chat: { room: here } }" },
        { ROW_CHAT_APPROVERS, "approval: { chat: { approvers: [me] } }" },
        { ROW_CHAT_PER_MINUTE, "approval: { chat: { per_minute: 1 } }" },
};

static void workspace_may_only_narrow(void **state) {
        (void)state;
        bool covered[POLICY_ROWS] = { false };
        cleanup(free_ptr) char *link = path_join(top, "ws/link.txt");
        write_file("ws/list.txt", "one.example.com\n");
        write_file("home/secret", "hunter2 is no pattern\n");
        assert_int_equal(symlink("../home/secret", link), 0);
        for (size_t i = 0; i < sizeof trust_cases / sizeof trust_cases[0]; i++) {
                covered[trust_cases[i].row] = true;
                if (trust_cases[i].narrow) {
                        workspace_yaml(trust_cases[i].narrow);
                        policy_free(load_or_fail(NULL));
                }
                if (trust_cases[i].widen) {
                        workspace_yaml(trust_cases[i].widen);
                        assert_refused(EPERM,
                                       "the workspace's .bailey.yaml asks for more than you granted: .bailey.yaml:1:");
                }
                assert_true(trust_cases[i].narrow || trust_cases[i].widen);
        }
        for (size_t i = 0; i < sizeof own_cases / sizeof own_cases[0]; i++) {
                covered[own_cases[i].row] = true;
                workspace_yaml(own_cases[i].text);
                assert_refused(EINVAL, "this belongs into your own configuration, not into a workspace's");
        }
        for (unsigned row = 0; row < POLICY_ROWS; row++)
                if (policy_rows[row].key && !covered[row])
                        fail_msg("%s has no case", policy_rows[row].key);
        for (size_t i = 0; i < sizeof undo_cases / sizeof undo_cases[0]; i++) {
                user_file(undo_cases[i].user);
                workspace_yaml(undo_cases[i].workspace);
                assert_refused(EPERM, "asks for more than you granted");
        }
}

static void records_need_trust(void **state) {
        (void)state;
        static const struct {
                const char *text;
                bool widens;
        } cases[] = {
                { "network: { rules: [{ host: a.example.com }] }", true },
                { "commands: [{ name: a, decision: allow, argv: [ls] }]", true },
                { "commands: [{ name: a, decision: escalate, argv: [ls] }]", false },
                { "commands: [{ name: a, decision: forbid, argv: [ls] }]", false },
                { "credentials: [{ provider: openai, source: 'env:A' }]", true },
                { "agents: { a: { networkAccess: sandboxed } }", true },
                { "monitor: [{ violations: 1, within: 1s, action: kill }]", false },
        };
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
                workspace_yaml(cases[i].text);
                if (cases[i].widens)
                        assert_refused(EPERM, "asks for more than you granted");
                else
                        policy_free(load_or_fail(NULL));
        }
}

static void trust_is_for_one_content(void **state) {
        (void)state;
        write_file("ws/list.txt", "one.example.com\n");
        workspace_yaml("network: { allow_file: list.txt, allow: ['@npm'] }\n");
        struct policy_request request = { 0 };
        cleanup(workspace_file_done) struct workspace_file w = { 0 };
        assert_int_equal(policy_examine_workspace(&request, &w, NULL), 0);
        assert_int_equal(w.widenings.n, 2);
        assert_string_equal(w.widenings.p[1].place, ".bailey.yaml:1:42");
        assert_string_equal(w.widenings.p[1].key, "network.allow");
        assert_false(w.trusted);
        assert_refused(EPERM, "network.allow '@npm'. If you want that, run 'bailey trust'");
        assert_int_equal(trust_add(w.path, w.digest, NULL), 0);
        policy_free(load_or_fail(NULL));
        cleanup(workspace_file_done) struct workspace_file again = { 0 };
        assert_int_equal(policy_examine_workspace(&request, &again, NULL), 0);
        assert_true(again.trusted);
        write_file("ws/list.txt", "one.example.com\nevil.example.com\n"); /* the list is part of what was trusted */
        assert_refused(EPERM, "asks for more");
        write_file("ws/list.txt", "one.example.com\n");
        policy_free(load_or_fail(NULL));
        workspace_yaml("network: { allow_file: list.txt, allow: ['@npm' ] }\n");
        assert_refused(EPERM, "asks for more");
        assert_int_equal(trust_remove(w.path, NULL), 0);
        assert_int_equal(trust_remove(w.path, NULL), -ENOENT);
        cleanup(free_ptr) char *record = path_join(top, "home/.local/state/bailey/trust");
        struct stat st;
        assert_int_equal(stat(record, &st), 0);
        assert_int_equal(st.st_mode & 0777, 0600);
}

static void leaves_the_workspace_file_out(void **state) {
        (void)state;
        workspace_yaml("mode: full-network\n");
        cleanup(option_values_done) struct option_values line = { 0 };
        assert_int_equal(
            option_set(&line, &policy_rows[ROW_WORKSPACE_POLICY], STR("false"), "--no-workspace-policy", NULL), 0);
        struct policy_request request = { .command_line = &line };
        cleanup(policy_freep) struct policy *p = load_or_fail(&request);
        assert_int_equal(p->mode, MODE_WORKSPACE_WRITE_WHITELIST);
}

static void refuses_odd_files(void **state) {
        (void)state;
        cleanup(free_ptr) char *link = path_join(top, "ws/.bailey.yaml"), *target = path_join(top, "other.yaml");
        write_file("other.yaml", "mode: read-only\n");
        assert_int_equal(symlink(target, link), 0);
        assert_refused(ELOOP, ".bailey.yaml is a symbolic link");
        assert_int_equal(unlink(link), 0);
        assert_int_equal(mkfifo(link, 0600), 0);
        assert_refused(EINVAL, ".bailey.yaml is not a regular file"); /* and it did not wait for a writer */
        assert_int_equal(unlink(link), 0);
        workspace_yaml("mode: read-only\n");
        assert_int_equal(chmod(link, 0666), 0);
        assert_refused(EPERM, ".bailey.yaml can be written by everybody");
}

static void finds_mirrors(void **state) {
        (void)state;
        write_file("home/.npmrc", "# mine\nregistry=https://user:secret@npm.corp.example:8443/path/\n"
                                  "@acme:registry = https://npm.acme.example/\n//npm.acme.example/:_authToken=x\n");
        write_file("home/.cargo/config.toml", "[source.crates-io]\nreplace-with = 'm'\n[source.m]\n"
                                              "registry = \"sparse+https://cargo.corp.example/index/\"\n");
        setenv("PIP_INDEX_URL", "http://pip.corp.example/simple", 1);
        user_file("network: { allow: ['@npm', '@crates', '@pypi', '@github'] }\n");
        cleanup(policy_freep) struct policy *p = load_or_fail(NULL);
        unsetenv("PIP_INDEX_URL");
        static const struct {
                const char *group, *pattern, *origin;
        } expected[] = { { "npm", "npm.corp.example:8443", "~/.npmrc:2" },
                         { "npm", "npm.acme.example:443", "~/.npmrc:3" },
                         { "crates", "cargo.corp.example:443", "~/.cargo/config.toml:4" },
                         { "pypi", "pip.corp.example:80", "PIP_INDEX_URL" } };
        for (size_t k = 0; k < sizeof expected / sizeof expected[0];
             k++) { /* the machine's own settings may add others */
                bool found = false;
                for (size_t i = 0; i < p->network.mirrors.n && !found; i++) {
                        const struct mirror *m = &p->network.mirrors.p[i];
                        found = strcmp(m->group, expected[k].group) == 0 &&
                                strcmp(m->pattern, expected[k].pattern) == 0 &&
                                strcmp(m->origin, expected[k].origin) == 0;
                        assert_null(strstr(m->pattern, "secret"));
                }
                if (!found)
                        fail_msg("%s is missing", expected[k].pattern);
        }
}

/* Where the workspace is the home directory, a run could write there what the next one may reach. */
static struct policy *load_text(const char *text) {
        const struct policy_request request = { .only_text = text };
        return load_or_fail(&request);
}

/* Without an own home there are no sign-ins in it, so only the key counts. */
#define CLAUDE "profile: claude\nfilesystem: { home: real }\n"

/* An agent's key is given as a stand-in, unless the person has said otherwise. */
static void profiles_bring_credentials(void **state) {
        (void)state;
        cleanup(policy_freep) struct policy *without = load_text(CLAUDE);
        assert_int_equal(without->credentials.n, 0);
        setenv("ANTHROPIC_API_KEY", "sk-ant-0123456789", 1);
        cleanup(policy_freep) struct policy *with = load_text(CLAUDE);
        assert_int_equal(with->credentials.n, 1);
        assert_string_equal(with->credentials.p[0].provider, "anthropic");
        assert_string_equal(with->credentials.p[0].source, "env:ANTHROPIC_API_KEY");
        assert_int_equal(with->process.env_pass.n, 0);
        static const char *const decided[] = {
                CLAUDE "process: { env: { pass: [ANTHROPIC_API_KEY] } }",
                CLAUDE "process: { env: { set: { ANTHROPIC_API_KEY: other } } }",
        };
        for (size_t i = 0; i < sizeof decided / sizeof *decided; i++) {
                cleanup(policy_freep) struct policy *p = load_text(decided[i]);
                assert_int_equal(p->credentials.n, 0);
        }
        cleanup(policy_freep) struct policy *own =
            load_text(CLAUDE "credentials:\n  - { provider: anthropic, source: 'file:/key' }");
        assert_int_equal(own->credentials.n, 1);
        assert_string_equal(own->credentials.p[0].source, "file:/key");
        cleanup(policy_freep) struct policy *named =
            load_text(CLAUDE "credentials:\n  - { name: mine, env: ANTHROPIC_API_KEY, source: 'file:/key', "
                             "hosts: [h.example.com], slot: bearer }");
        assert_int_equal(named->credentials.n, 1);
}

static int load_words(const char *const *words, const char *text, struct policy **ret, struct err *e) {
        cleanup(option_values_done) struct option_values values = { 0 };
        const struct policy_request request = { .only_text = text, .command_line = &values };
        for (; *words; words++)
                assert_int_equal(
                    option_set(&values, &policy_rows[ROW_CREDENTIAL], str_of(*words), "--credential", NULL), 0);
        return policy_load(&request, ret, e);
}

static void credentials_in_a_word(void **state) {
        (void)state;
        cleanup(policy_freep) struct policy *p = NULL;
        static const char *const two[] = { "github", "openai=file:/key", "github", NULL };
        setenv("GH_TOKEN", "0123456789", 1);
        assert_int_equal(load_words(two, "credentials:\n  - { provider: openai, source: 'env:X' }", &p, NULL), 0);
        assert_int_equal(p->credentials.n, 2);
        assert_string_equal(p->credentials.p[0].source, "file:/key");
        assert_string_equal(p->credentials.p[0].origin, "--credential");
        assert_string_equal(p->credentials.p[1].source, "env:GH_TOKEN");
        static const char *const bad[][2] = {
                { "opnai",
                  "--credential: there is no provider 'opnai'; did you mean 'openai'? (one of your own stands under "
                  "'credentials' in a policy)" },
                { "openai=key", NULL },
                { "=env:X", NULL },
        };
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
                struct policy *none = NULL;
                struct err e = { 0 };
                assert_int_equal(load_words((const char *const[]){ bad[i][0], NULL }, "", &none, &e), -EINVAL);
                assert_null(none);
                if (bad[i][1])
                        assert_string_equal(err_text(&e), bad[i][1]);
        }
        cleanup(policy_freep) struct policy *aws = NULL;
        assert_int_equal(load_words((const char *const[]){ "bedrock", NULL }, "", &aws, NULL), 0);
        assert_string_equal(aws->credentials.p[0].source, "env:AWS_SECRET_ACCESS_KEY");
}

static void ignores_mirrors_that_the_sandbox_writes(void **state) {
        (void)state;
        cleanup(free_ptr) char *home = path_join(top, "home"), *cargo = path_join(top, "home/.cargo");
        write_file("home/.cargo/config.toml", "[registries.x]\nindex = \"https://evil.example/\"\n");
        user_file("network: { allow: ['@crates'] }\n");
        cleanup(option_values_done) struct option_values real = { 0 };
        assert_int_equal(option_set(&real, &policy_rows[ROW_HOME], STR("real"), "--home", NULL), 0);
        struct policy_request in_home = { .workspace = home, .command_line = &real }, elsewhere = { 0 };
        cleanup(policy_freep) struct policy *inside = load_or_fail(&in_home), *outside = load_or_fail(&elsewhere);
        cleanup(option_values_done) struct option_values line = { 0 };
        assert_int_equal(option_set(&line, &policy_rows[ROW_WRITE], str_of(cargo), "--write", NULL), 0);
        struct policy_request granted = { .command_line = &line };
        cleanup(policy_freep) struct policy *writable = load_or_fail(&granted);
        assert_int_equal(inside->network.mirrors.n, 0);
        assert_int_equal(writable->network.mirrors.n, 0);
        assert_int_equal(outside->network.mirrors.n, 1);
}

/* The real home is never the workspace of a sandbox that has its own, nor granted whole; above it, it stays covered. */
static void own_home_is_not_granted(void **state) {
        (void)state;
        cleanup(free_ptr) char *home = path_join(top, "home"), *link = path_join(top, "link");
        struct policy_request in_home = { .workspace = home };
        struct policy *p = NULL;
        struct err e = { 0 };
        assert_int_equal(policy_load(&in_home, &p, &e), -EINVAL);
        assert_non_null(strstr(e.text, "the workspace is your home directory"));

        static const enum policy_row rows[] = { ROW_READ, ROW_WRITE };
        for (size_t i = 0; i < 2; i++) {
                cleanup(option_values_done) struct option_values line = { 0 };
                assert_int_equal(option_set(&line, &policy_rows[rows[i]], STR("~/"), "--grant", NULL), 0);
                struct policy_request whole = { .command_line = &line };
                assert_int_equal(policy_load(&whole, &p, &e), -EINVAL);
                assert_non_null(strstr(e.text, "is the whole home directory"));
                assert_int_equal(option_set(&line, &policy_rows[ROW_HOME], STR("real"), "--home", NULL), 0);
                cleanup(policy_freep) struct policy *real = load_or_fail(&whole);
                assert_non_null(real);
        }

        struct policy_request above = { .workspace = top };
        cleanup(policy_freep) struct policy *around = load_or_fail(&above);
        cleanup(path_rules_freep) struct path_rules *rules = NULL;
        assert_int_equal(path_rules_compile(around, &rules, &e), 0);
        cleanup(free_ptr) char *key = path_join(around->home_inside, ".ssh/id");
        assert_int_equal(path_rules_access(rules, key, NULL), PATH_WRITE);
        assert_int_equal(path_rules_host_access(rules, key, NULL), PATH_DENIED);
        assert_int_equal(path_rules_host_access(rules, around->workspace, NULL), PATH_WRITE);
        assert_int_equal(path_rules_host_access(rules, "/home/somebody/.ssh/id", NULL), PATH_DENIED);
        assert_int_equal(path_rules_host_access(rules, "/root/.ssh/id", NULL), PATH_DENIED);

        /* By another name it is the same directory. */
        assert_int_equal(symlink(home, link), 0);
        assert_int_equal(setenv("HOME", link, 1), 0);
        assert_int_equal(policy_load(&in_home, &p, &e), -EINVAL);
        struct policy_request elsewhere = { 0 };
        cleanup(policy_freep) struct policy *linked = load_or_fail(&elsewhere);
        assert_string_equal(linked->home_inside, home);
        assert_int_equal(unlink(link), 0);
        /* Where there is no such directory, or the system is there, it is elsewhere. */
        static const char *const no_homes[] = { "/does/not/exist", "/", "/usr/sbin", "/tmp" };
        for (size_t i = 0; i < sizeof no_homes / sizeof *no_homes; i++) {
                assert_int_equal(setenv("HOME", no_homes[i], 1), 0);
                cleanup(policy_freep) struct policy *without = load_or_fail(&elsewhere);
                assert_string_equal(without->home_inside, HOME_PLACE);
        }
        assert_int_equal(setenv("HOME", home, 1), 0);
}

static int load_once(void *argument) {
        (void)argument;
        struct policy_request request = { 0 };
        struct policy *p = NULL;
        int r = policy_load(&request, &p, NULL);
        policy_free(p);
        return r;
}

static void survives_want_of_memory(void **state) {
        (void)state;
        write_file("ws/list.txt", "one.example.com\n");
        user_file("profile: codex\nnetwork:\n  allow: ['@github', a.example.com]\n  allow_file: list.txt\n  publish: "
                  "['127.0.0.1:80:80']\n"
                  "  rules: [{ host: a.example.com, methods: [GET] }]\n  deny_cidrs: [10.0.0.0/8]\n"
                  "process: { env: { set: { A: b } } }\nagents: { a: { networkAccess: full } }\nagent: a\n");
        workspace_yaml("network: { deny: [b.example.com] }\nmonitor: [{ violations: 1, within: 1s, action: warn }]\n");
        assert_true(alloc_fail_each(load_once, NULL) > 50);
}

static void loads_fast(void **state) {
        (void)state;
        enum { ROUNDS = 200 };
        user_file("mode: workspace-write-whitelist\nnetwork:\n  allow: [\"@github\", \"api.example.com:443\", "
                  "\"*.example.org\"]\n"
                  "  deny: [gist.github.com]\n  ask_timeout: 120s\nfilesystem:\n  write: [\".\", ~/.cache]\n"
                  "  deny_read: [~/.ssh, \"**/.env\"]\nprocess:\n  limits: { processes: 1024, memory: 2GiB }\n"
                  "  env: { pass: [TERM, LANG], set: { CI: \"1\" } }\n");
        uint64_t best = UINT64_MAX;
        for (int i = 0; i < ROUNDS; i++) {
                uint64_t start = clock_ns();
                policy_free(load_or_fail(NULL));
                uint64_t took = clock_ns() - start;
                best = took < best ? took : best;
        }
        print_message("a typical policy loads in %u us\n", (unsigned)(best / 1000));
        assert_true(best < 20 * NS_PER_MS); /* the target is 0.2 ms; sanitizers and busy machines get slack */
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(loads_defaults, set_up, tear_down),
                cmocka_unit_test_setup_teardown(layers_in_order, set_up, tear_down),
                cmocka_unit_test_setup_teardown(reads_a_named_file, set_up, tear_down),
                cmocka_unit_test_setup_teardown(reads_everything, set_up, tear_down),
                cmocka_unit_test_setup_teardown(picks_the_role, set_up, tear_down),
                cmocka_unit_test_setup_teardown(workspace_may_only_narrow, set_up, tear_down),
                cmocka_unit_test_setup_teardown(records_need_trust, set_up, tear_down),
                cmocka_unit_test_setup_teardown(trust_is_for_one_content, set_up, tear_down),
                cmocka_unit_test_setup_teardown(leaves_the_workspace_file_out, set_up, tear_down),
                cmocka_unit_test_setup_teardown(refuses_odd_files, set_up, tear_down),
                cmocka_unit_test_setup_teardown(finds_mirrors, set_up, tear_down),
                cmocka_unit_test_setup_teardown(ignores_mirrors_that_the_sandbox_writes, set_up, tear_down),
                cmocka_unit_test_setup_teardown(own_home_is_not_granted, set_up, tear_down),
                cmocka_unit_test_setup_teardown(profiles_bring_credentials, set_up, tear_down),
                cmocka_unit_test_setup_teardown(credentials_in_a_word, set_up, tear_down),
                cmocka_unit_test_setup_teardown(survives_want_of_memory, set_up, tear_down),
                cmocka_unit_test_setup_teardown(loads_fast, set_up, tear_down),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
