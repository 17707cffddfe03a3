/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/path.h"
#include "egress/egress.h"
#include "egress/egress_discover.h"
#include "egress/egress_pid.h"
#include "egress/egress_state.h"
#include "policy/policy.h"
#include "roles/vault_session.h"
#include "store/audit.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

static void say(const struct egress_talk *t, bool bad, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void say(const struct egress_talk *t, bool bad, const char *format, ...) {
        cleanup(buf_done) struct buf text = BUF(4096);
        va_list args;
        va_start(args, format);
        int r = buf_vprintf(&text, format, args);
        va_end(args);
        if (r == 0 && t && t->say)
                t->say(t->arg, bad, buf_text(&text));
}

static bool is_left_out(const struct egress_setup *q, const struct provider *p) {
        for (const char *const *w = q->without; w && *w; w++)
                if (strcmp(*w, p->name) == 0)
                        return true;
        return false;
}

static bool agreed(const struct egress_talk *t, const struct provider *p, const char *source) {
        cleanup(free_ptr) char *question = str_format("Stand in for %s (%s)?", p->title, source);
        return !t || !t->confirm || (question && t->confirm(t->arg, question));
}

static struct egress_credential *find(struct egress_settings *s, const struct provider *p) {
        for (size_t i = 0; i < s->credentials.n; i++)
                if (s->credentials.p[i].provider && strcmp(s->credentials.p[i].provider, p->name) == 0)
                        return &s->credentials.p[i];
        return NULL;
}

static const char *listed(const struct provider *p, const text_list *names) {
        for (const char *const *v = p->env; *v; v++)
                for (size_t i = 0; i < names->n; i++)
                        if (strcmp(names->p[i], *v) == 0)
                                return *v;
        return NULL;
}

/* What Bitwarden lists. With --from-bitwarden a credential of the environment is read from there from now on. */
static int take_from_bitwarden(struct egress_settings *s, const struct egress_setup *q, const struct egress_talk *talk,
                               struct err *e) {
        bool convert = q->from_bitwarden;
        cleanup(text_list_done) text_list names = { 0 };
        int r = egress_bitwarden_names(s->project, environ, &names, e);
        for (size_t i = 0; r == 0 && i < n_policy_providers; i++) {
                const struct provider *p = &policy_providers[i];
                const char *name = listed(p, &names);
                struct egress_credential *c = find(s, p);
                cleanup(free_ptr) char *source = name ? str_format("bws:%s/%s", s->project, name) : NULL;
                if (c && convert && strncmp(c->source, "env:", 4) == 0 && !name)
                        return err_set(e, ENOENT,
                                       "Bitwarden has no secret for %s, whose credential is %s; add it "
                                       "there, or take the credential out",
                                       p->title, c->source);
                if (!source || is_left_out(q, p))
                        continue;
                if (c && convert && strncmp(c->source, "env:", 4) == 0) {
                        r = egress_credential_source(c, source, e);
                        say(talk, false, "%s: from Bitwarden now (%s)", p->title, name);
                } else if (!c && agreed(talk, p, source)) {
                        r = egress_credential_make(s, p->name, source, e);
                        say(talk, false, "%s: %s", p->title, source);
                }
        }
        return r;
}

static int take_from_environment(struct egress_settings *s, const struct egress_setup *q,
                                 const struct egress_talk *talk, struct err *e) {
        int r = 0;
        for (size_t i = 0; r == 0 && i < n_policy_providers; i++) {
                const struct provider *p = &policy_providers[i];
                const char *name = egress_provider_variable(p, environ);
                cleanup(free_ptr) char *source = name ? str_format("env:%s", name) : NULL;
                if (!source || find(s, p) || is_left_out(q, p) || !agreed(talk, p, source))
                        continue;
                r = egress_credential_make(s, p->name, source, e);
                say(talk, false, "%s: %s", p->title, source);
        }
        return r;
}

static int leave_bitwarden(struct egress_settings *s, const struct egress_talk *talk, struct err *e) {
        int r = 0;
        for (size_t i = 0; r == 0 && i < s->credentials.n; i++) {
                struct egress_credential *c = &s->credentials.p[i];
                if (strncmp(c->source, "bws:", 4) != 0)
                        continue;
                const char *slash = strrchr(c->source, '/');
                cleanup(free_ptr) char *source = str_format("env:%s", slash ? slash + 1 : c->source + 4);
                r = source ? egress_credential_source(c, source, e) : err_memory(e);
                if (r == 0)
                        say(talk, false, "%s: from the environment now", c->source);
        }
        return r;
}

static int find_credentials(struct egress_settings *s, const struct egress_setup *q, const struct egress_talk *talk,
                            struct err *e) {
        if (q->no_bitwarden) {
                s->bitwarden = false;
                int r = leave_bitwarden(s, talk, e);
                if (r < 0)
                        return r;
        }
        if (!q->from_bitwarden && !s->bitwarden)
                return take_from_environment(s, q, talk, e);
        if (!s->project)
                return err_set(e, EINVAL,
                               "which of Bitwarden's projects? Give --project ID (\"bws project list\" shows them): a "
                               "name alone may mean another project's secret tomorrow");
        s->bitwarden = true; /* as before, unless it was said otherwise: never back to the environment by itself */
        return take_from_bitwarden(s, q, talk, e);
}

/*
 * Proof that it will work: the audit can be written, every credential can be read.
 */
static int check_audit(const char *directory, bool running, struct err *e) {
        cleanup(free_ptr) char *path = path_join(directory, EGRESS_AUDIT);
        struct audit *audit = NULL;
        if (!path)
                return err_memory(e);
        const struct audit_settings a = { .path = path, .run_id = "setup", .sandbox = "egress" };
        int r = audit_open(&a, &audit, e);
        if (r == -EBUSY && running) {
                err_clear(e);
                return 0;
        }
        r = r < 0 ? r : audit_note(audit, "set up");
        if (r == 0)
                return audit_close(audit, e);
        audit_free(audit);
        return err_wrap(e, r, "without an audit log there is no gateway");
}

struct tokens {
        const char *directory;
        bool rotate;
};

static int load_tokens(void *arg, const mappings *m, struct vault_process *v, struct err *e) {
        const struct tokens *t = arg;
        return egress_tokens_load(t->directory, m, v, t->rotate, e);
}

static int save_tokens(void *arg, const mappings *m, const struct vault_process *v, struct err *e) {
        return egress_tokens_save(((const struct tokens *)arg)->directory, m, v, e);
}

static int no_tokens(void *arg, const mappings *m, struct vault_process *v, struct err *e) {
        (void)arg, (void)m, (void)v, (void)e;
        return 0;
}

static int keep_nothing(void *arg, const mappings *m, const struct vault_process *v, struct err *e) {
        (void)arg, (void)m, (void)v, (void)e;
        return 0;
}

static int open_vault(const char *directory, const struct egress_settings *s, const struct vault_session_place *place,
                      struct err *e) {
        cleanup(policy_freep) struct policy *p = NULL;
        cleanup(vault_session_close) struct vault_session vault = VAULT_SESSION_NONE;
        int r = egress_settings_policy(directory, s, &p, e);
        const struct vault_session_request q = {
                .policy = p, .id = "egress", .roots = s->ca_bundle, .environment = environ, .place = place
        };
        return r < 0 ? r : vault_session_open(&vault, &q, e);
}

bool egress_credential_works(const char *directory, const struct egress_settings *s, size_t index) {
        struct egress_settings one = *s; /* borrows everything */
        const struct vault_session_place place = { .directory = directory, .load = no_tokens, .save = keep_nothing };
        one.credentials.p = &s->credentials.p[index];
        one.credentials.n = 1;
        return open_vault(directory, &one, &place, NULL) == 0;
}

static void warn_uncovered(const struct egress_settings *s, const struct egress_talk *talk) {
        const struct egress_uncovered *u;
        for (size_t at = 0; (u = egress_uncovered_next(s, environ, &at));)
                say(talk, true, "%s is set and is not covered: %s", u->variable, u->why);
        if (s->credentials.n == 0)
                say(talk, true,
                    "no credentials were found; the gateway will only filter. Set the variable of a provider, such as "
                    "OPENAI_API_KEY, and run this again");
}

/* The settings that there are, or those of the first time. */
static int load_or_begin(const char *directory, struct egress_settings *ret, struct err *e) {
        int r = egress_settings_load(directory, ret, e);
        if (r != -ENOENT)
                return r;
        err_clear(e);
        egress_settings_init(ret);
        return 0;
}

int egress_setup(const struct egress_setup *q, const struct egress_talk *talk, struct err *e) {
        cleanup(free_ptr) char *directory = NULL;
        cleanup(egress_settings_done) struct egress_settings s = { 0 };
        cleanup(close_fd) int pidfd = -1;
        struct egress_identity id;
        err_blame(e, ERR_USAGE);
        if (q->from_bitwarden && q->no_bitwarden)
                return err_set(e, EINVAL, "--from-bitwarden and --no-bitwarden exclude each other");
        err_blame(e, ERR_SYSTEM);
        int r = egress_directory(true, &directory, e);
        if (r < 0)
                return r;
        err_blame(e, ERR_CONFIG);
        r = load_or_begin(directory, &s, e);
        if (r == 0 && q->project) {
                free(s.project);
                s.project = str_format("%s", q->project);
        }
        for (const char *const *w = q->without; r == 0 && w && *w; w++)
                r = egress_credential_remove(&s, *w, e);
        r = r < 0 ? r : find_credentials(&s, q, talk, e);
        if (r < 0)
                return r;
        warn_uncovered(&s, talk);
        bool running = egress_pid_find(directory, true, &id, &pidfd, NULL) == 0;
        struct tokens tokens = { directory, q->rotate_tokens };
        const struct vault_session_place place = {
                .directory = directory, .load = load_tokens, .save = save_tokens, .arg = &tokens
        };
        s.enabled = true;
        err_blame(e, ERR_SYSTEM);
        r = check_audit(directory, running, e);
        if (r == 0 && open_vault(directory, &s, &place, e) < 0)
                return err_set(e, e->code, "%s. To take a credential out: \"bailey egress setup --without NAME\"",
                               err_text(e));
        r = r < 0 ? r : egress_settings_save(directory, &s, e);
        if (r < 0)
                return r;
        say(talk, false,
            running ? "set up; it runs already, and \"bailey egress restart\" makes this count"
                    : "set up; start it with \"bailey egress start\"");
        return 0;
}

int egress_config(char *const *assignments, struct buf *out, struct err *e) {
        cleanup(free_ptr) char *directory = NULL;
        cleanup(egress_settings_done) struct egress_settings s = { 0 };
        err_blame(e, ERR_SYSTEM);
        int r = egress_directory(true, &directory, e);
        if (r < 0)
                return r;
        err_blame(e, ERR_CONFIG);
        r = load_or_begin(directory, &s, e);
        for (char *const *a = assignments; r == 0 && *a; a++)
                r = egress_settings_change(&s, str_of(*a), e);
        if (r == 0 && assignments[0])
                r = egress_settings_save(directory, &s, e);
        if (r < 0)
                return r;
        r = egress_settings_text(&s, out);
        return r < 0 ? err_set(e, -r, "the settings are too large to print") : 0;
}
