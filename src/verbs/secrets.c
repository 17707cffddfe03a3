/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs/secrets.h"

#include "base/base64.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/emit.h"
#include "base/escape.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/random.h"
#include "base/tree.h"
#include "conf/suggest.h"
#include "control/session.h"
#include "ipc/probe.h"
#include "policy/load.h"
#include "policy/own_commands.h"
#include "roles/helper.h"
#include "roles/host_addresses.h"
#include "roles/listen.h"
#include "roles/trust_store.h"
#include "store/audit_place.h"
#include "store/stand_ins.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LIMIT_MS = 60000 };

/*
 * The list.
 */
static int put_texts(struct buf *out, char *const *texts, size_t n) {
        int r = 0;
        for (size_t i = 0; r == 0 && i < n; i++)
                r = buf_printf(out, "%s%s", i ? "," : "", texts[i]);
        return r;
}

/* A command's arguments may hold more than a reader should see. */
static char *shown_source(const char *source) {
        size_t word = strncmp(source, "exec:", 5) == 0 ? 5 + strcspn(source + 5, " \t") : strlen(source);
        return str_format("%.*s%s", (int)word, source, source[word] ? " ..." : "");
}

static int list_text(const mappings *list, struct buf *out) {
        int r = 0;
        for (size_t i = 0; r == 0 && i < list->n; i++) {
                const struct mapping *m = &list->p[i];
                cleanup(free_ptr) char *source = shown_source(m->source);
                r = buf_printf(out, "%-16s ", m->name);
                r = r < 0 ? r : put_texts(out, m->env.p, m->env.n);
                r = r < 0 ? r : buf_add(out, "  from ");
                r = r < 0 ? r : escape_text(out, str_of(source ? source : "?"), 200);
                r = r < 0 ? r : buf_add(out, "  to ");
                r = r < 0 ? r : put_texts(out, m->hosts.p, m->hosts.n);
                r = r < 0 ? r : buf_add(out, "  as ");
                r = r < 0 ? r : put_texts(out, m->slots.p, m->slots.n);
                r = r < 0 ? r : buf_add(out, "\n");
        }
        return r;
}

static int list_json(const mappings *list, struct buf *out) {
        struct emit j = emit_to(out);
        emit_open(&j, '[');
        for (size_t i = 0; i < list->n; i++) {
                const struct mapping *m = &list->p[i];
                cleanup(free_ptr) char *source = shown_source(m->source);
                emit_open(&j, '{');
                emit_put_text(&j, "name", m->name);
                emit_put_text(&j, "provider", m->provider ? m->provider->name : NULL);
                emit_put_text(&j, "source", source);
                emit_put_texts(&j, "env", m->env.p, m->env.n);
                emit_put_texts(&j, "hosts", m->hosts.p, m->hosts.n);
                emit_put_texts(&j, "slots", m->slots.p, m->slots.n);
                emit_put_text(&j, "origin", m->origin);
                emit_close(&j);
        }
        emit_close(&j);
        int r = emit_status(&j);
        return r < 0 ? r : buf_add(out, "\n");
}

static int load(const struct option_values *options, struct policy **ret, struct err *e) {
        const struct policy_request request = { .command_line = options, .network_only = true };
        return policy_load(&request, ret, e);
}

int secrets_list(const struct option_values *options, bool json, struct buf *out, struct err *e) {
        cleanup(policy_freep) struct policy *p = NULL;
        cleanup(mappings_done) mappings list = { 0 };
        err_blame(e, ERR_CONFIG);
        int r = load(options, &p, e);
        r = r < 0 ? r : mappings_of(p, &list, e);
        if (r < 0)
                return r;
        err_blame(e, ERR_SYSTEM);
        r = json ? list_json(&list, out) : list_text(&list, out);
        return r < 0 ? err_set(e, -r, "the list is too long to print") : 0;
}

/* Names of the policy's own credentials and of providers: a typing mistake must not look like a rotation. */
static int find_name(const struct policy *p, const char *name, struct err *err) {
        cleanup(mappings_done) mappings list = { 0 };
        struct suggestion near = suggest_for(str_of(name));
        int r = mappings_of(p, &list, err);
        if (r < 0)
                return r;

        for (size_t i = 0; i < list.n; i++) {
                if (strcmp(list.p[i].name, name) == 0)
                        return 0;
                suggest_offer(&near, list.p[i].name);
        }
        for (const char *const *known = policy_provider_names; *known; known++) {
                if (strcmp(*known, name) == 0)
                        return 0;
                suggest_offer(&near, *known);
        }
        return err_set(err, ENOENT, "there is no credential and no provider %s%s", show(str_of(name)).text,
                       suggest_text(&near, "").text);
}

int secrets_rotate(const struct option_values *options, const char *name, struct err *err) {
        err_blame(err, ERR_CONFIG);
        if (name) {
                cleanup(policy_freep) struct policy *p = NULL;
                int r = load(options, &p, err);
                r = r < 0 ? r : find_name(p, name, err);
                if (r < 0) {
                        err_blame(err, r == -ENOENT ? ERR_UNAVAILABLE : ERR_CONFIG);
                        return r;
                }
        }

        err_blame(err, ERR_SYSTEM);
        return stand_ins_rotate(name, err);
}

/*
 * The proof. A policy with this one credential, for its own host at a port of ours.
 */
struct test {
        struct session session; /* without a control and without signals */
        char *directory;        /* hosts, roots, audit */
        char *hosts, *roots;
        struct authority origin;
        int listener, proxy, talk;
        struct endpoint proxy_at;
        struct helper probe;
        struct probe_result result;
};

static void test_done(struct test *t) {
        if (t->probe.pid > 0) {
                helper_kill(t->probe.pidfd, t->probe.pid);
                while (waitpid(t->probe.pid, NULL, 0) < 0 && errno == EINTR)
                        ;
                close_fd(&t->probe.pidfd);
        }
        session_done(&t->session);
        if (t->directory)
                (void)tree_remove(AT_FDCWD, t->directory);
        close_fd(&t->listener);
        close_fd(&t->proxy);
        close_fd(&t->talk);
        free(t->directory);
        free(t->hosts);
        free(t->roots);
}

static int keep_only(struct policy *p, const char *name, struct err *e) {
        cleanup(mappings_done) mappings list = { 0 };
        int r = mappings_of(p, &list, e);
        struct suggestion s = suggest_for(str_of(name));
        for (size_t i = 0; r == 0 && i < list.n; i++) {
                suggest_offer(&s, list.p[i].name);
                if (strcmp(list.p[i].name, name) != 0)
                        continue;
                struct credential wanted = p->credentials.p[i];
                p->credentials.p[i] = p->credentials.p[0];
                p->credentials.p[0] = wanted;
                return (int)i;
        }
        return r < 0 ? r
                     : err_set(e, ENOENT, "the policy has no credential %s%s", show(str_of(name)).text,
                               suggest_text(&s, "").text);
}

/* The first host of the credential, at our port; a wildcard stands for a name below it. */
static int play_host(struct test *t, const struct mapping *m, uint16_t port, struct err *e) {
        struct str text = str_of(m->hosts.p[0]);
        ptrdiff_t colon = str_rfind(text, ':');
        bool wildcard = str_starts(text, STR("*."));
        cleanup(free_ptr) char *name =
            str_format("%s%.*s:%u", wildcard ? "bailey-test" : "", (int)(colon - wildcard), text.p + wildcard, port);
        return name ? authority_parse(str_of(name), 0, &t->origin, e) : err_memory(e);
}

static int narrow_policy(struct test *t, const char *name, uint16_t port, struct secrets_proof *ret, struct err *e) {
        struct policy *p = t->session.policy;
        cleanup(mappings_done) mappings list = { 0 };
        char text[AUTHORITY_TEXT_MAX], local[32];
        int r = keep_only(p, name, e);
        if (r < 0)
                return r;
        r = mappings_of(p, &list, e);
        r = r < 0 ? r : play_host(t, &list.p[0], port, e);
        if (r < 0)
                return r;
        snprintf(ret->target, sizeof ret->target, "%.255s", list.p[0].hosts.p[0]);
        struct str slots = str_of(list.p[0].slots.p[0]), first;
        str_split(&slots, ',', &first);
        snprintf(ret->slot, sizeof ret->slot, "%.*s", (int)(first.n < 127 ? first.n : 127), first.p);
        if (strncmp(ret->slot, "body:", 5) == 0)
                return err_set(e, ENOENT,
                               "%s goes to a token endpoint only, and is used up there: nothing can be sent to try it. "
                               "Try the credential that it renews",
                               name);
        authority_text(&t->origin, text);
        snprintf(local, sizeof local, "127.0.0.1:%u", port);
        struct credential *c = &p->credentials.p[0];
        origin_texts_done(&c->hosts);
        origin_texts_done(&p->network.deny);
        c->hosts = (origin_texts){ 0 };
        p->network.deny = (origin_texts){ 0 };
        p->mode = MODE_WORKSPACE_WRITE_WHITELIST;
        p->network.ask = ASK_NEVER;
        return origin_texts_add(&c->hosts, str_of(text), "test") < 0 ||
                       origin_texts_add(&p->network.allow_private, str_of(local), "test") < 0
                   ? err_memory(e)
                   : 0;
}

/* Only the credential that is tested has its source read; the others stay in the policy's memory, unseen. */
static int open_vault(struct test *t, void **ret_snapshot, size_t *ret_n, struct err *e) {
        size_t all = t->session.policy->credentials.n, rules = t->session.policy->network.rules.n;
        size_t repositories = t->session.policy->git.n;
        t->session.policy->credentials.n = 1;
        t->session.policy->network.rules.n = t->session.policy->git.n = 0;
        const struct vault_session_request q = { .policy = t->session.policy,
                                                 .id = t->session.id,
                                                 .environment = environ };
        int r = vault_session_open(t->session.vault, &q, e);
        r = r < 0 ? r : host_addresses_compile(t->session.policy, ret_snapshot, ret_n, e);
        t->session.policy->credentials.n = all;
        t->session.policy->network.rules.n = rules;
        t->session.policy->git.n = repositories;
        return r;
}

static int open_gateway(struct test *t, const void *snapshot, size_t n, struct err *e) {
        struct gateway_settings g = { .listeners = &t->proxy, .n_listeners = 1 };
        int addresses = -1; /* the one host that is allowed is our own */
        gateway_start_init(&g.start);
        g.start.listeners[0].kind = LISTENER_HTTP;
        g.start.workers = 1;
        snprintf(g.start.hosts_file, sizeof g.start.hosts_file, "%s", t->hosts);
        snprintf(g.start.ca_bundle, sizeof g.start.ca_bundle, "%s", t->roots);
        snprintf(g.start.sandbox_id, sizeof g.start.sandbox_id, "%s", t->session.id);
        int r = session_open_gateway(&t->session, &g, &addresses, snapshot, n, e);
        return r < 0 ? r : gateway_process_start(t->session.gateway, e);
}

static const char *const no_user = "x";

/* The request with the stand-in in its slot, and what must stand before the value when it arrives. */
static int write_request(struct probe_start *s, const char *slot, const char *fake, struct err *e) {
        char host[AUTHORITY_TEXT_MAX], pair[PROBE_FAKE_MAX + 8], encoded[2 * PROBE_FAKE_MAX];
        const char *target = "/", *field = "authorization";
        char header[2 * PROBE_FAKE_MAX] = "", path[PROBE_FAKE_MAX + 300] = "/";
        authority_text(&s->origin, host);
        if (strcmp(slot, "bearer") == 0) {
                snprintf(header, sizeof header, "Bearer %s", fake);
                snprintf(s->marker, sizeof s->marker, "authorization: bearer ");
        } else if (strncmp(slot, "header:", 7) == 0) {
                field = slot + 7;
                snprintf(header, sizeof header, "%s", fake);
                snprintf(s->marker, sizeof s->marker, "%.200s: ", field);
        } else if (strncmp(slot, "basic", 5) == 0) {
                bool user = strcmp(slot, "basic:user") == 0;
                int n = snprintf(pair, sizeof pair, "%s:%s", user ? fake : no_user, user ? no_user : fake);
                base64_encode(str_n(pair, (size_t)n), BASE64_STANDARD, encoded);
                snprintf(header, sizeof header, "Basic %.*s", (int)base64_length((size_t)n), encoded);
                snprintf(s->marker, sizeof s->marker, "authorization: basic ");
        } else if (strncmp(slot, "query:", 6) == 0) {
                snprintf(path, sizeof path, "/?%.200s=%s", slot + 6, fake);
                snprintf(s->marker, sizeof s->marker, "get /?%.200s=", slot + 6);
        } else if (strcmp(slot, "path") == 0) {
                snprintf(path, sizeof path, "/%s", fake);
                snprintf(s->marker, sizeof s->marker, "get /");
        } else {
                char now[CLOCK_TEXT_MAX], date[9];
                clock_text(clock_wall_us(), now); /* "2026-11-15T02:52:32.123456Z" */
                snprintf(date, sizeof date, "%.4s%.2s%.2s", now, now + 5, now + 8);
                snprintf(header, sizeof header,
                         "AWS4-HMAC-SHA256 Credential=%s/%s/us-east-1/bedrock/aws4_request, "
                         "SignedHeaders=host;x-amz-date, Signature=%064d\r\nx-amz-date: %sT%.2s%.2s%.2sZ",
                         fake, date, 0, date, now + 11, now + 14, now + 17);
                snprintf(s->marker, sizeof s->marker, "authorization: aws4-hmac-sha256 credential=");
        }
        target = path;
        int n =
            snprintf(s->request, sizeof s->request, "GET %s HTTP/1.1\r\nHost: %s\r\n%s%s%s%sConnection: close\r\n\r\n",
                     target, host, header[0] ? field : "", header[0] ? ": " : "", header, header[0] ? "\r\n" : "");
        int f = snprintf(s->fake, sizeof s->fake, "%s", fake);
        s->request_n = (uint32_t)n;
        return n >= (int)sizeof s->request || f >= (int)sizeof s->fake ? err_set(e, E2BIG, "the stand-in is too long")
                                                                       : 0;
}

static int make_places(struct test *t, struct err *e) {
        const char *base = getenv("TMPDIR");
        cleanup(free_ptr) char *names = str_format("127.0.0.1 %s\n", t->origin.host.name);
        random_id(t->session.id, sizeof t->session.id);
        t->directory = str_format("%s/bailey-secrets-%s", base && base[0] == '/' ? base : "/tmp", t->session.id);
        t->hosts = t->directory ? path_join(t->directory, "hosts") : NULL;
        t->roots = t->directory ? path_join(t->directory, "roots.pem") : NULL;
        t->session.audit_path = t->directory ? path_join(t->directory, "audit") : NULL;
        if (!names || !t->hosts || !t->roots || !t->session.audit_path)
                return err_memory(e);
        int r = path_make_private_dir(t->directory, e);
        r = r < 0 ? r : path_replace_file(t->hosts, str_of(names), 0600, e);
        return r < 0 ? r : session_open_audit(&t->session, t->session.audit_path, t->session.id, e);
}

/* After the vault, which makes the stand-in that is in the request, and before the gateway, which reads at its start
 * what it is to trust: the CA of this origin. */
static int start_probe(struct test *t, const struct probe_start *s, struct err *e) {
        int ends[2];
        char der[PROBE_CA_MAX];
        cleanup(free_ptr) char *program = NULL;
        cleanup(close_fd) int block = -1;
        cleanup(buf_done) struct buf pem = BUF(TRUST_BYTES_MAX);
        int r = helper_program("bailey-probe", "vault", &program, e);
        r = r < 0 ? r : fd_sealed("bailey-probe-start", str_n(s, sizeof *s), &block, e);
        if (r < 0)
                return r;
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
                return err_errno(e, "cannot make a socket");
        cleanup(close_fd) int its = ends[1];
        t->talk = ends[0];
        const int fds[] = { block, t->listener, its };
        r = helper_spawn("bailey-probe", program, fds, 3, &t->probe, e);
        if (r < 0)
                return r;
        close_fd(&its);
        ssize_t n = recv(t->talk, der, sizeof der, 0);
        if (n <= 0)
                return err_set(e, EPROTO, "bailey-probe ended before it began");
        r = trust_store_pem(STR(""), str_n(der, (size_t)n), &pem, e);
        return r < 0 ? r : path_replace_file(t->roots, buf_str(&pem), 0600, e);
}

static int let_go(struct test *t, struct err *e) {
        struct probe_go go = { .proxy_port = t->proxy_at.port };
        struct str ca = vault_process_ca(t->session.vault->process);
        if (ca.n > sizeof go.ca)
                return err_set(e, EMSGSIZE, "the CA's certificate is too large");
        memcpy(go.ca, ca.p, ca.n);
        go.ca_n = (uint32_t)ca.n;
        int r = fd_send(t->talk, str_n(&go, sizeof go), NULL, 0);
        return r < 0 ? err_set(e, -r, "bailey-probe ended") : 0;
}

static void probe_watch(void *arg, struct poller *poller) {
        poller_watch(poller, ((const struct test *)arg)->talk, POLLIN);
}

static int probe_step(void *arg, struct poller *poller, struct err *err) {
        struct test *t = arg;

        if (!poller_ready(poller, t->talk))
                return 0;
        if (recv(t->talk, &t->result, sizeof t->result, 0) != (ssize_t)sizeof t->result)
                return err_set(err, EPROTO, "bailey-probe ended without a result");

        t->result.text[sizeof t->result.text - 1] = '\0';
        t->session.ended = true;
        return 0;
}

static int test_on_deadline(void *owner, struct err *err) {
        (void)owner;
        return err_set(err, ETIMEDOUT, "the test took longer than %d s", LIMIT_MS / 1000);
}

/* All three live until the probe has said what it saw. */
static int wait_for_result(struct test *t, struct err *e) {
        struct session *session = &t->session;

        session->deadline_ns = clock_after_ms(LIMIT_MS);
        session_add(session, SESSION_VAULT);
        session_add(session, SESSION_GATEWAY);
        poller_add(&session->poller, &(struct poller_part){ probe_watch, probe_step, t });
        session_add(session, SESSION_DEADLINE);
        return session_loop(session, e);
}

static int open_listeners(struct test *t, uint16_t *ret_port, struct err *e) {
        struct endpoint origin;
        int r = listen_parse(STR("127.0.0.1:0"), &origin, e);
        t->proxy_at = origin;
        r = r < 0 ? r : listen_tcp(&origin, &t->listener, e);
        r = r < 0 ? r : listen_tcp(&t->proxy_at, &t->proxy, e);
        *ret_port = origin.port;
        return r;
}

static int try_it(struct test *t, const struct secrets_proof *proof, struct err *e) {
        cleanup(free_ptr) void *snapshot = NULL;
        cleanup(free_ptr) struct probe_start *s = calloc(1, sizeof *s);
        size_t n = 0;
        if (!s)
                return err_memory(e);
        s->version = PROBE_VERSION;
        s->size = sizeof *s;
        s->origin = t->origin;
        int r = open_vault(t, &snapshot, &n, e);
        if (r < 0)
                return r;
        bool sigv4 = t->session.vault->mappings.p[0].sigv4;
        const char *fake = vault_process_fake(t->session.vault->process, 0, sigv4 ? PART_KEY_ID : PART_VALUE);
        r = fake ? write_request(s, proof->slot, fake, e) : err_set(e, ENODATA, "the vault made no stand-in");
        r = r < 0 ? r : start_probe(t, s, e);
        r = r < 0 ? r : open_gateway(t, snapshot, n, e);
        r = r < 0 ? r : let_go(t, e);
        return r < 0 ? r : wait_for_result(t, e);
}

int secrets_test(const struct option_values *options, const char *name, struct secrets_proof *ret, struct err *e) {
        static const struct session_calls calls = { .on_deadline = test_on_deadline };
        cleanup(test_done) struct test t = { .listener = -1, .proxy = -1, .talk = -1, .session = SESSION_NONE };
        uint16_t port = 0;

        session_init(&t.session, &calls, &t);
        *ret = (struct secrets_proof){ 0 };
        err_blame(e, ERR_CONFIG);
        int r = load(options, &t.session.policy, e);
        r = r < 0 ? r : own_commands_check(t.session.policy, environ, e);
        if (r < 0)
                return r;
        err_blame(e, ERR_SYSTEM);
        r = open_listeners(&t, &port, e);
        if (r < 0)
                return r;
        r = narrow_policy(&t, name, port, ret, e);
        if (r < 0) {
                err_blame(e, r == -ENOENT ? ERR_UNAVAILABLE : ERR_CONFIG);
                return r;
        }
        r = make_places(&t, e);
        r = r < 0 ? r : try_it(&t, ret, e);
        if (r < 0) {
                err_blame(e, r == -ENODATA ? ERR_CONFIG : ERR_SYSTEM); /* its source has no value, as for a run */
                return r;
        }
        ret->swapped = t.result.swapped;
        ret->hidden = t.result.hidden;
        const char *why = t.result.text[0]    ? t.result.text
                          : !t.result.arrived ? "nothing arrived at the origin"
                          : !t.result.swapped ? "the origin got the stand-in, or nothing in its place"
                          : !t.result.hidden  ? "the origin repeated the value, and the client saw it"
                                              : "";
        snprintf(ret->why, sizeof ret->why, "%s", why);
        return 0;
}
