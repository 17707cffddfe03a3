/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/paths/path.h"
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

static void setup_say(const struct egress_talk *talk, bool bad, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void setup_say(const struct egress_talk *talk, bool bad, const char *format, ...) {
        cleanup(buf_done) struct buf text = BUF(4096);
        va_list args;
        va_start(args, format);
        int r = buf_vprintf(&text, format, args);
        va_end(args);
        if (r == 0 && talk && talk->say)
                talk->say(talk->arg, bad, buf_text(&text));
}

static bool is_left_out(const struct egress_setup *setup, const struct provider *provider) {
        for (const char *const *w = setup->without; w && *w; w++)
                if (strcmp(*w, provider->name) == 0)
                        return true;
        return false;
}

static bool setup_agreed(const struct egress_talk *talk, const struct provider *provider, const char *source) {
        cleanup(free_ptr) char *question = str_format("Stand in for %s (%s)?", provider->title, source);
        return !talk || !talk->confirm || (question && talk->confirm(talk->arg, question));
}

static struct egress_credential *setup_find(struct egress_settings *settings, const struct provider *provider) {
        for (size_t i = 0; i < settings->credentials.n; i++)
                if (settings->credentials.p[i].provider &&
                    strcmp(settings->credentials.p[i].provider, provider->name) == 0)
                        return &settings->credentials.p[i];
        return NULL;
}

static const char *setup_listed(const struct provider *provider, const text_list *names) {
        for (const char *const *v = provider->env; *v; v++)
                for (size_t i = 0; i < names->n; i++)
                        if (strcmp(names->p[i], *v) == 0)
                                return *v;
        return NULL;
}

/* What Bitwarden lists. With --from-bitwarden a credential of the environment is read from there from now on. */
static int take_from_bitwarden(struct egress_settings *settings, const struct egress_setup *setup,
                               const struct egress_talk *talk, struct err *err) {
        bool convert = setup->from_bitwarden;
        cleanup(text_list_done) text_list names = { 0 };
        int r = egress_settings_token(settings, err);

        r = r < 0 ? r : egress_bitwarden_names(settings->project, environ, &names, err);
        for (size_t i = 0; r == 0 && i < n_policy_providers; i++) {
                const struct provider *provider = &policy_providers[i];
                const char *name = setup_listed(provider, &names);
                struct egress_credential *credential = setup_find(settings, provider);
                cleanup(free_ptr) char *source = name ? str_format("bws:%s/%s", settings->project, name) : NULL;
                if (credential && convert && strncmp(credential->source, "env:", 4) == 0 && !name)
                        return err_set(err, ENOENT,
                                       "Bitwarden has no secret for %s, whose credential is %s; add it "
                                       "there, or take the credential out",
                                       provider->title, credential->source);

                if (!source || is_left_out(setup, provider))
                        continue;

                if (credential && convert && strncmp(credential->source, "env:", 4) == 0) {
                        r = egress_credential_source(credential, source, err);
                        setup_say(talk, false, "%s: from Bitwarden now (%s)", provider->title, name);
                } else if (!credential && setup_agreed(talk, provider, source)) {
                        r = egress_credential_make(settings, provider->name, source, err);
                        setup_say(talk, false, "%s: %s", provider->title, source);
                }
        }

        return r;
}

static int take_from_environment(struct egress_settings *settings, const struct egress_setup *setup,
                                 const struct egress_talk *talk, struct err *err) {
        int r = 0;
        for (size_t i = 0; r == 0 && i < n_policy_providers; i++) {
                const struct provider *provider = &policy_providers[i];
                const char *name = egress_provider_variable(provider, environ);
                cleanup(free_ptr) char *source = name ? str_format("env:%s", name) : NULL;
                if (!source || setup_find(settings, provider) || is_left_out(setup, provider) ||
                    !setup_agreed(talk, provider, source))
                        continue;

                r = egress_credential_make(settings, provider->name, source, err);
                setup_say(talk, false, "%s: %s", provider->title, source);
        }

        return r;
}

static int leave_bitwarden(struct egress_settings *settings, const struct egress_talk *talk, struct err *err) {
        int r = 0;
        for (size_t i = 0; r == 0 && i < settings->credentials.n; i++) {
                struct egress_credential *credential = &settings->credentials.p[i];
                if (strncmp(credential->source, "bws:", 4) != 0)
                        continue;

                const char *slash = strrchr(credential->source, '/');
                cleanup(free_ptr) char *source = str_format("env:%s", slash ? slash + 1 : credential->source + 4);
                if (source)
                        r = egress_credential_source(credential, source, err);
                else
                        r = err_memory(err);
                if (r == 0)
                        setup_say(talk, false, "%s: from the environment now", credential->source);
        }

        return r;
}

static int find_credentials(struct egress_settings *settings, const struct egress_setup *setup,
                            const struct egress_talk *talk, struct err *err) {
        if (setup->no_bitwarden) {
                settings->bitwarden = false;
                int r = leave_bitwarden(settings, talk, err);
                if (r < 0)
                        return r;
        }

        if (!setup->from_bitwarden && !settings->bitwarden)
                return take_from_environment(settings, setup, talk, err);

        if (!settings->project)
                return err_set(err, EINVAL,
                               "which of Bitwarden's projects? Give --project ID (\"bws project list\" shows them): a "
                               "name alone may mean another project's secret tomorrow");

        settings->bitwarden =
            true; /* as before, unless it was said otherwise: never back to the environment by itself */
        return take_from_bitwarden(settings, setup, talk, err);
}

/*
 * Proof that it will work: the audit can be written, every credential can be read.
 */
static int check_audit(const char *directory, bool running, struct err *err) {
        cleanup(free_ptr) char *path = path_join(directory, EGRESS_AUDIT);
        struct audit *audit = NULL;

        if (!path)
                return err_memory(err);

        const struct audit_settings settings = { .path = path, .run_id = "setup", .sandbox = "egress" };
        int r = audit_open(&settings, &audit, err);
        if (r == -EBUSY && running) {
                err_clear(err);
                return 0;
        }

        if (r >= 0)
                r = audit_note(audit, "set up");
        if (r == 0)
                return audit_close(audit, err);

        audit_free(audit);
        return err_wrap(err, r, "without an audit log there is no gateway");
}

struct tokens {
        const char *directory;
        bool rotate;
};

static int load_tokens(void *arg, const mappings *list, struct vault_process *process, struct err *err) {
        const struct tokens *tokens = arg;
        return egress_tokens_load(tokens->directory, list, process, tokens->rotate, err);
}

static int save_tokens(void *arg, const mappings *list, const struct vault_process *process, struct err *err) {
        return egress_tokens_save(((const struct tokens *)arg)->directory, list, process, err);
}

static int no_tokens(void *arg, const mappings *list, struct vault_process *process, struct err *err) {
        (void)arg, (void)list, (void)process, (void)err;
        return 0;
}

static int keep_nothing(void *arg, const mappings *list, const struct vault_process *process, struct err *err) {
        (void)arg, (void)list, (void)process, (void)err;
        return 0;
}

static int open_vault(const char *directory, const struct egress_settings *settings,
                      const struct vault_session_place *place, struct err *err) {
        cleanup(policy_freep) struct policy *policy = NULL;
        cleanup(vault_session_close) struct vault_session vault = VAULT_SESSION_NONE;
        int r = egress_settings_policy(directory, settings, &policy, err);
        const struct vault_session_request request = {
                .policy = policy, .id = "egress", .roots = settings->ca_bundle, .environment = environ, .place = place
        };

        if (r < 0)
                return r;

        return vault_session_open(&vault, &request, err);
}

bool egress_credential_works(const char *directory, const struct egress_settings *settings, size_t index) {
        struct egress_settings one = *settings; /* borrows everything */
        const struct vault_session_place place = { .directory = directory, .load = no_tokens, .save = keep_nothing };
        one.credentials.p = &settings->credentials.p[index];
        one.credentials.n = 1;
        return open_vault(directory, &one, &place, NULL) == 0;
}

static void warn_uncovered(const struct egress_settings *settings, const struct egress_talk *talk) {
        const struct egress_uncovered *uncovered;

        for (size_t at = 0; (uncovered = egress_uncovered_next(settings, environ, &at));)
                setup_say(talk, true, "%s is set and is not covered: %s", uncovered->variable, uncovered->why);

        if (settings->credentials.n == 0)
                setup_say(
                    talk, true,
                    "no credentials were found; the gateway will only filter. Set the variable of a provider, such as "
                    "OPENAI_API_KEY, and run this again");
}

/* The settings that there are, or those of the first time. */
static int load_or_begin(const char *directory, struct egress_settings *ret, struct err *err) {
        int r = egress_settings_load(directory, ret, err);
        if (r != -ENOENT)
                return r;
        err_clear(err);
        egress_settings_init(ret);
        return 0;
}

int egress_setup(const struct egress_setup *setup, const struct egress_talk *talk, struct err *err) {
        cleanup(free_ptr) char *directory = NULL;
        cleanup(egress_settings_done) struct egress_settings settings = { 0 };
        cleanup(close_fd) int pidfd = -1;
        struct egress_identity id;

        err_blame(err, ERR_USAGE);
        if (setup->from_bitwarden && setup->no_bitwarden)
                return err_set(err, EINVAL, "--from-bitwarden and --no-bitwarden exclude each other");

        err_blame(err, ERR_SYSTEM);
        int r = egress_directory(true, &directory, err);
        if (r < 0)
                return r;

        err_blame(err, ERR_CONFIG);
        r = load_or_begin(directory, &settings, err);
        if (r == 0 && setup->project) {
                free(settings.project);
                settings.project = str_format("%s", setup->project);
        }

        if (r == 0 && setup->token_env) {
                free(settings.token_env);
                settings.token_env = str_format("%s", setup->token_env);
        }

        for (const char *const *w = setup->without; r == 0 && w && *w; w++)
                r = egress_credential_remove(&settings, *w, err);

        if (r >= 0)
                r = find_credentials(&settings, setup, talk, err);
        if (r < 0)
                return r;

        warn_uncovered(&settings, talk);
        bool running = egress_pid_find(directory, true, &id, &pidfd, NULL) == 0;
        struct tokens tokens = { directory, setup->rotate_tokens };
        const struct vault_session_place place = {
                .directory = directory, .load = load_tokens, .save = save_tokens, .arg = &tokens
        };
        settings.enabled = true;
        err_blame(err, ERR_SYSTEM);
        r = check_audit(directory, running, err);
        if (r == 0 && open_vault(directory, &settings, &place, err) < 0)
                return err_set(err, err->code, "%s. To take a credential out: \"bailey egress setup --without NAME\"",
                               err_text(err));

        if (r >= 0)
                r = egress_settings_save(directory, &settings, err);
        if (r < 0)
                return r;

        setup_say(talk, false,
                  running ? "set up; it runs already, and \"bailey egress restart\" makes this count"
                          : "set up; start it with \"bailey egress start\"");
        return 0;
}

int egress_config(char *const *assignments, struct buf *out, struct err *err) {
        cleanup(free_ptr) char *directory = NULL;
        cleanup(egress_settings_done) struct egress_settings settings = { 0 };

        err_blame(err, ERR_SYSTEM);
        int r = egress_directory(true, &directory, err);
        if (r < 0)
                return r;

        err_blame(err, ERR_CONFIG);
        r = load_or_begin(directory, &settings, err);
        for (char *const *a = assignments; r == 0 && *a; a++)
                r = egress_settings_change(&settings, str_of(*a), err);

        if (r == 0 && assignments[0])
                r = egress_settings_save(directory, &settings, err);
        if (r < 0)
                return r;

        r = egress_settings_text(&settings, out);
        if (r < 0)
                return err_set(err, -r, "the settings are too large to print");

        return 0;
}
