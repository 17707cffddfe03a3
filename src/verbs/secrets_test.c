/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The proof that a credential works: a vault and a gateway as of a run, and bailey-probe, which plays the client and
 * the origin. The policy is narrowed to this one credential, for its own host at a port of ours.
 */
#include "base/base64.h"
#include "base/bounds.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/escape.h"
#include "base/fd.h"
#include "base/files/tree.h"
#include "base/log.h"
#include "base/paths/path.h"
#include "base/processes/poller.h"
#include "base/random.h"
#include "conf/suggest.h"
#include "ipc/probe_messages.h"
#include "policy/load.h"
#include "policy/tools/own_commands.h"
#include "policy/tools/tool_credentials.h"
#include "roles/gateway_process.h"
#include "roles/helper.h"
#include "roles/host_addresses.h"
#include "roles/listen.h"
#include "roles/trust_store.h"
#include "roles/vault_session.h"
#include "store/audit.h"
#include "verbs/secrets.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LIMIT_MS = 60000, ID_MAX = 13 };

struct test {
        char id[ID_MAX];
        struct policy *policy;
        struct audit *audit;
        struct vault_session vault;
        struct gateway_process *gateway;
        struct poller poller;
        uint64_t deadline_ns;
        bool ended;
        char *directory; /* the next three */
        char *hosts, *roots, *audit_path;
        struct authority origin;
        int listener, proxy, talk;
        struct endpoint proxy_at;
        struct helper probe;
        struct probe_result result;
};

static void test_done(struct test *test) {
        if (test->probe.pid > 0) {
                helper_kill(test->probe.pidfd, test->probe.pid);
                while (waitpid(test->probe.pid, NULL, 0) < 0 && errno == EINTR)
                        ;
                close_fd(&test->probe.pidfd);
        }

        gateway_process_free(test->gateway);
        test->gateway = NULL;
        vault_session_close(&test->vault);
        audit_free(test->audit);
        policy_free(test->policy);
        poller_done(&test->poller);
        if (test->directory)
                (void)tree_remove(AT_FDCWD, test->directory);

        close_fd(&test->listener);
        close_fd(&test->proxy);
        close_fd(&test->talk);
        free(test->directory);
        free(test->hosts);
        free(test->roots);
        free(test->audit_path);
}

/* One of the tools' is tried in the same way: it alone is the policy's then. */
static int take_tools(struct policy *policy, const char *name, struct err *err) {
        cleanup(mappings_done) mappings tools = { 0 };
        int r = tool_mappings_all(policy, &tools, err);

        for (size_t i = 0; r == 0 && i < tools.n; i++) {
                struct credential wanted = policy->tool_credentials.p[i];

                if (strcmp(tools.p[i].name, name) != 0)
                        continue;
                if (vec_reserve(&policy->tool_credentials, policy->credentials.n) < 0 ||
                    vec_reserve(&policy->credentials, 1) < 0)
                        return err_memory(err);

                policy->tool_credentials.p[i] = policy->tool_credentials.p[--policy->tool_credentials.n];
                for (size_t k = 0; k < policy->credentials.n; k++)
                        policy->tool_credentials.p[policy->tool_credentials.n++] = policy->credentials.p[k];

                policy->credentials.p[0] = wanted;
                policy->credentials.n = 1;
                return 0;
        }

        return r;
}

static int keep_only(struct policy *policy, const char *name, struct err *err) {
        cleanup(mappings_done) mappings list = { 0 };
        int r = take_tools(policy, name, err);
        struct suggestion suggestion = suggest_for(str_of(name));

        if (r == 0)
                r = mappings_of(policy, &list, err);

        for (size_t i = 0; r == 0 && i < list.n; i++) {
                suggest_offer(&suggestion, list.p[i].name);
                if (strcmp(list.p[i].name, name) != 0)
                        continue;

                struct credential wanted = policy->credentials.p[i];
                policy->credentials.p[i] = policy->credentials.p[0];
                policy->credentials.p[0] = wanted;
                return (int)i;
        }

        if (r < 0)
                return r;

        return err_set(err, ENOENT, "the policy has no credential %s%s; --credential NAME adds one",
                       show(str_of(name)).text, suggest_text(&suggestion, "").text);
}

/* The first host of the credential, at our port; a wildcard stands for a name below it. */
static int play_host(struct test *test, const struct mapping *mapping, uint16_t port, struct err *err) {
        struct str text = str_of(mapping->hosts.p[0]);
        ptrdiff_t colon = str_rfind(text, ':');
        bool wildcard = str_starts(text, STR("*."));
        cleanup(free_ptr) char *name =
            str_format("%s%.*s:%u", wildcard ? "bailey-test" : "", (int)(colon - wildcard), text.p + wildcard, port);
        if (!name)
                return err_memory(err);

        return authority_parse(str_of(name), 0, &test->origin, err);
}

static int narrow_policy(struct test *test, const char *name, uint16_t port, struct secrets_proof *ret,
                         struct err *err) {
        struct policy *policy = test->policy;
        cleanup(mappings_done) mappings list = { 0 };
        char text[AUTHORITY_TEXT_MAX], local[32];
        int r = keep_only(policy, name, err);
        if (r < 0)
                return r;

        r = mappings_of(policy, &list, err);
        if (r < 0)
                return r;

        r = play_host(test, &list.p[0], port, err);
        if (r < 0)
                return r;

        snprintf(ret->target, sizeof ret->target, "%.255s", list.p[0].hosts.p[0]);
        struct str slots = str_of(list.p[0].slots.p[0]), first;
        str_split(&slots, ',', &first);
        snprintf(ret->slot, sizeof ret->slot, "%.*s", (int)min_of(first.n, 127), first.p);

        if (strncmp(ret->slot, "body:", 5) == 0)
                return err_set(err, ENOENT,
                               "%s goes to a token endpoint only, and is used up there: nothing can be sent to try it. "
                               "Try the credential that it renews",
                               name);

        authority_text(&test->origin, text);
        snprintf(local, sizeof local, "127.0.0.1:%u", port);
        struct credential *credential = &policy->credentials.p[0];
        origin_texts_done(&credential->hosts);
        origin_texts_done(&policy->network.deny);
        credential->hosts = (origin_texts){ 0 };
        policy->network.deny = (origin_texts){ 0 };
        policy->mode = MODE_WORKSPACE_WRITE_WHITELIST;
        policy->network.ask = ASK_NEVER;

        if (origin_texts_add(&credential->hosts, str_of(text), "test") < 0 ||
            origin_texts_add(&policy->network.allow_private, str_of(local), "test") < 0)
                return err_memory(err);

        return 0;
}

/* Only the credential that is tested has its source read; the others stay in the policy's memory, unseen. */
static int open_vault(struct test *test, void **ret_snapshot, size_t *ret_n, struct err *err) {
        struct policy *policy = test->policy;
        size_t all = policy->credentials.n, rules = policy->network.rules.n, repositories = policy->git.n;

        policy->credentials.n = 1;
        policy->network.rules.n = policy->git.n = 0;
        const struct vault_session_request request = { .policy = policy, .id = test->id, .environment = environ };
        int r = vault_session_open(&test->vault, &request, err);
        if (r >= 0)
                r = host_addresses_compile(policy, ret_snapshot, ret_n, err);

        policy->credentials.n = all;
        policy->network.rules.n = rules;
        policy->git.n = repositories;
        return r;
}

static void test_on_notice(void *arg, enum gateway_notice notice, const char *text) {
        (void)arg;
        if (notice == NOTICE_CANNOT_START || notice == NOTICE_DIED || notice == NOTICE_AUDIT_FAILED)
                log_error("gateway: %s", text_or(text, "failed"));
}

/* This host's addresses are not followed: the one host that is allowed is our own. */
static int open_gateway(struct test *test, const void *snapshot, size_t n, struct err *err) {
        struct gateway_settings settings = { .listeners = &test->proxy,
                                             .n_listeners = 1,
                                             .audit = test->audit,
                                             .on_notice = test_on_notice,
                                             .arg = test };

        gateway_start_init(&settings.start);
        settings.start.listeners[0].kind = LISTENER_HTTP;
        settings.start.workers = 1;
        snprintf(settings.start.hosts_file, sizeof settings.start.hosts_file, "%s", test->hosts);
        snprintf(settings.start.ca_bundle, sizeof settings.start.ca_bundle, "%s", test->roots);
        snprintf(settings.start.sandbox_id, sizeof settings.start.sandbox_id, "%s", test->id);
        vault_session_gateway(&test->vault, &settings);

        int r = gateway_process_new(&settings, snapshot, n, &test->gateway, err);
        if (r < 0)
                return r;

        return gateway_process_start(test->gateway, err);
}

static const char *const no_user = "x";

/* The request with the stand-in in its slot, and what must stand before the value when it arrives. */
static int write_request(struct probe_start *start, const char *slot, const char *stand_in, struct err *err) {
        char host[AUTHORITY_TEXT_MAX], pair[PROBE_STAND_IN_MAX + 8], encoded[2 * PROBE_STAND_IN_MAX];
        char header[2 * PROBE_STAND_IN_MAX] = "", path[PROBE_STAND_IN_MAX + 300] = "/";

        authority_text(&start->origin, host);

        if (strcmp(slot, "bearer") == 0) {
                snprintf(header, sizeof header, "authorization: Bearer %s\r\n", stand_in);
                snprintf(start->marker, sizeof start->marker, "authorization: bearer ");
        } else if (strncmp(slot, "header:", 7) == 0) {
                snprintf(header, sizeof header, "%s: %s\r\n", slot + 7, stand_in);
                snprintf(start->marker, sizeof start->marker, "%.200s: ", slot + 7);
        } else if (strncmp(slot, "basic", 5) == 0) {
                int n;

                if (strcmp(slot, "basic:user") == 0)
                        n = snprintf(pair, sizeof pair, "%s:%s", stand_in, no_user);
                else
                        n = snprintf(pair, sizeof pair, "%s:%s", no_user, stand_in);

                base64_encode(str_n(pair, (size_t)n), BASE64_STANDARD, encoded);
                snprintf(header, sizeof header, "authorization: Basic %.*s\r\n", (int)base64_length((size_t)n),
                         encoded);
                snprintf(start->marker, sizeof start->marker, "authorization: basic ");
        } else if (strncmp(slot, "query:", 6) == 0) {
                snprintf(path, sizeof path, "/?%.200s=%s", slot + 6, stand_in);
                snprintf(start->marker, sizeof start->marker, "get /?%.200s=", slot + 6);
        } else if (strcmp(slot, "path") == 0) {
                snprintf(path, sizeof path, "/%s", stand_in);
                snprintf(start->marker, sizeof start->marker, "get /");
        } else {
                char now[CLOCK_TEXT_MAX], date[9];

                clock_text(clock_wall_us(), now); /* "2026-11-15T02:52:32.123456Z" */
                snprintf(date, sizeof date, "%.4s%.2s%.2s", now, now + 5, now + 8);
                snprintf(header, sizeof header,
                         "authorization: AWS4-HMAC-SHA256 Credential=%s/%s/us-east-1/bedrock/aws4_request, "
                         "SignedHeaders=host;x-amz-date, Signature=%064d\r\nx-amz-date: %sT%.2s%.2s%.2sZ\r\n",
                         stand_in, date, 0, date, now + 11, now + 14, now + 17);
                snprintf(start->marker, sizeof start->marker, "authorization: aws4-hmac-sha256 credential=");
        }

        int n = snprintf(start->request, sizeof start->request,
                         "GET %s HTTP/1.1\r\nHost: %s\r\n%sConnection: close\r\n\r\n", path, host, header);
        int f = snprintf(start->stand_in, sizeof start->stand_in, "%s", stand_in);
        start->request_n = (uint32_t)n;

        if (n >= (int)sizeof start->request || f >= (int)sizeof start->stand_in)
                return err_set(err, E2BIG, "the stand-in is too long");

        return 0;
}

static int make_places(struct test *test, struct err *err) {
        const char *base = getenv("TMPDIR");
        cleanup(free_ptr) char *names = str_format("127.0.0.1 %s\n", test->origin.host.name);

        random_id(test->id, sizeof test->id);
        test->directory = str_format("%s/bailey-secrets-%s", base && base[0] == '/' ? base : "/tmp", test->id);
        test->hosts = test->directory ? path_join(test->directory, "hosts") : NULL;
        test->roots = test->directory ? path_join(test->directory, "roots.pem") : NULL;
        test->audit_path = test->directory ? path_join(test->directory, "audit") : NULL;
        if (!names || !test->hosts || !test->roots || !test->audit_path)
                return err_memory(err);

        int r = path_make_private_dir(test->directory, err);
        if (r < 0)
                return r;

        r = path_replace_file(test->hosts, str_of(names), 0600, err);
        if (r < 0)
                return r;

        const struct audit_settings settings = { .path = test->audit_path, .run_id = test->id, .sandbox = test->id };
        return audit_open(&settings, &test->audit, err);
}

static ssize_t test_hear(const struct test *test, void *room, size_t size) {
        size_t none = 0;
        return fd_receive(test->talk, room, size, NULL, 0, &none);
}

/* After the vault, which makes the stand-in for the request, and before the gateway, which must trust this origin's CA
 * from its start. */
static int start_probe(struct test *test, const struct probe_start *start, struct err *err) {
        int ends[2];
        char der[PROBE_CA_MAX];
        cleanup(free_ptr) char *program = NULL;
        cleanup(close_fd) int block = -1;
        cleanup(trust_store_done) struct trust_store store = TRUST_STORE_NONE;
        int r = helper_program("bailey-probe", "vault", &program, err);
        if (r < 0)
                return r;

        r = fd_sealed("bailey-probe-start", str_n(start, sizeof *start), &block, err);
        if (r < 0)
                return r;
        r = fd_pair_blocking(ends);
        if (r < 0)
                return err_set(err, -r, "cannot make a socket: %s", strerror(-r));

        cleanup(close_fd) int its = ends[1];
        test->talk = ends[0];
        const int fds[] = { block, test->listener, its };
        r = helper_spawn("bailey-probe", program, fds, 3, &test->probe, err);
        if (r < 0)
                return r;

        close_fd(&its);
        ssize_t n = test_hear(test, der, sizeof der);
        if (n <= 0)
                return err_set(err, EPROTO, "bailey-probe ended before it began");

        r = trust_store_add(&store, str_n(der, (size_t)n), err);
        if (r < 0)
                return r;

        return path_replace_file(test->roots, buf_str(&store.pem), 0600, err);
}

static int let_go(struct test *test, struct err *err) {
        struct probe_go go = { .proxy_port = test->proxy_at.port };
        struct str ca = vault_process_ca(test->vault.process);
        if (ca.n > sizeof go.ca)
                return err_set(err, EMSGSIZE, "the CA's certificate is too large");

        memcpy(go.ca, ca.p, ca.n);
        go.ca_n = (uint32_t)ca.n;
        int r = fd_send(test->talk, str_n(&go, sizeof go), NULL, 0);

        if (r < 0)
                return err_set(err, -r, "bailey-probe ended");

        return 0;
}

static void probe_watch(void *arg, struct poller *poller) {
        poller_watch(poller, ((const struct test *)arg)->talk, POLLIN);
}

static int probe_step(void *arg, struct poller *poller, struct err *err) {
        struct test *test = arg;

        if (!poller_ready(poller, test->talk))
                return 0;
        if (test_hear(test, &test->result, sizeof test->result) != (ssize_t)sizeof test->result)
                return err_set(err, EPROTO, "bailey-probe ended without a result");

        test->result.text[sizeof test->result.text - 1] = '\0';
        test->ended = true;

        return 0;
}

static void roles_watch(void *arg, struct poller *poller) {
        const struct test *test = arg;

        vault_session_watch(&test->vault, poller);
        gateway_process_watch(test->gateway, poller);
        poller_until(poller, test->deadline_ns);
}

static int roles_step(void *arg, struct poller *poller, struct err *err) {
        struct test *test = arg;

        vault_session_step(&test->vault, poller);
        gateway_process_step(test->gateway, poller);
        if (clock_ns() >= test->deadline_ns)
                return err_set(err, ETIMEDOUT, "the test took longer than %d s", LIMIT_MS / 1000);
        return 0;
}

/* All three live until the probe has said what it saw. */
static int wait_for_result(struct test *test, struct err *err) {
        test->deadline_ns = clock_after_ms(LIMIT_MS);
        poller_add(&test->poller, &(struct poller_part){ roles_watch, roles_step, test });
        poller_add(&test->poller, &(struct poller_part){ probe_watch, probe_step, test });

        while (!test->ended) {
                int r = poller_round(&test->poller, err);
                if (r < 0)
                        return r;
        }

        return 0;
}

static int open_listeners(struct test *test, uint16_t *ret_port, struct err *err) {
        struct endpoint origin;
        int r = listen_parse(STR("127.0.0.1:0"), &origin, err);
        test->proxy_at = origin;
        if (r >= 0)
                r = listen_tcp(&origin, &test->listener, err);
        if (r >= 0)
                r = listen_tcp(&test->proxy_at, &test->proxy, err);
        *ret_port = origin.port;
        return r;
}

static int try_it(struct test *test, const struct secrets_proof *proof, struct err *err) {
        cleanup(free_ptr) void *snapshot = NULL;
        cleanup(free_ptr) struct probe_start *start = calloc(1, sizeof *start);
        size_t n = 0;

        if (!start)
                return err_memory(err);

        start->version = PROBE_VERSION;
        start->size = sizeof *start;
        start->origin = test->origin;

        int r = open_vault(test, &snapshot, &n, err);
        if (r < 0)
                return r;

        bool sigv4 = test->vault.mappings.p[0].sigv4;
        const char *stand_in = vault_process_stand_in(test->vault.process, 0, sigv4 ? PART_KEY_ID : PART_VALUE);
        if (stand_in)
                r = write_request(start, proof->slot, stand_in, err);
        else
                r = err_set(err, ENODATA, "the vault made no stand-in");
        if (r < 0)
                return r;

        r = start_probe(test, start, err);
        if (r < 0)
                return r;

        r = open_gateway(test, snapshot, n, err);
        if (r < 0)
                return r;

        r = let_go(test, err);
        if (r < 0)
                return r;

        return wait_for_result(test, err);
}

static int load_policy(const struct option_values *options, struct policy **ret, struct err *err) {
        const struct policy_request request = { .command_line = options, .network_only = true };
        int r = policy_load(&request, ret, err);

        return r < 0 ? r : own_commands_check(*ret, environ, err);
}

static const char *why_not(const struct probe_result *result) {
        if (result->text[0])
                return result->text;
        if (!result->arrived)
                return "nothing arrived at the origin";
        if (!result->swapped)
                return "the origin got the stand-in, or nothing in its place";
        if (!result->hidden)
                return "the origin repeated the value, and the client saw it";
        return "";
}

int secrets_test(const struct option_values *options, const char *name, struct secrets_proof *ret, struct err *err) {
        cleanup(test_done) struct test test = { .listener = -1, .proxy = -1, .talk = -1, .vault = VAULT_SESSION_NONE };
        uint16_t port = 0;

        test.vault.gateway = &test.gateway;
        test.vault.audit = &test.audit;
        *ret = (struct secrets_proof){ 0 };
        err_blame(err, ERR_CONFIG);

        int r = load_policy(options, &test.policy, err);
        if (r < 0)
                return r;

        err_blame(err, ERR_SYSTEM);
        r = open_listeners(&test, &port, err);
        if (r < 0)
                return r;

        r = narrow_policy(&test, name, port, ret, err);
        if (r < 0) {
                err_blame(err, r == -ENOENT ? ERR_UNAVAILABLE : ERR_CONFIG);
                return r;
        }

        r = make_places(&test, err);
        if (r >= 0)
                r = try_it(&test, ret, err);
        if (r < 0) {
                err_blame(err, r == -ENODATA ? ERR_CONFIG : ERR_SYSTEM); /* its source has no value, as for a run */
                return r;
        }

        ret->swapped = test.result.swapped;
        ret->hidden = test.result.hidden;
        snprintf(ret->why, sizeof ret->why, "%s", why_not(&test.result));

        return 0;
}
