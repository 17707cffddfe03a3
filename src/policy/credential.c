/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/credential.h"

#include "base/cleanup.h"
#include "base/paths/path.h"
#include "base/secrets/secret.h"
#include "conf/json_walk.h"
#include "conf/suggest.h"
#include "policy/check.h"
#include "policy/home_kind.h"
#include "policy/profile/providers.h"

#include <errno.h>
#include <stdlib.h>

static const struct provider *credential_split(struct str word, struct str *ret_source) {
        struct str name;
        str_split(&word, '=', &name);
        *ret_source = word;
        return provider_find(name);
}

int check_credential_word(struct str word, struct err *err) {
        struct str source, name;

        if (credential_split(word, &source)) {
                if (source.n == 0)
                        return 0;
                return check_source(source, err);
        }

        str_split(&word, '=', &name);

        if (sign_in_find(name)) {
                if (word.n != 0)
                        return err_set(err, EINVAL, "%s is read from the agent's own file: leave out '=...'",
                                       show(name).text);
                return 0;
        }

        struct suggestion suggestion = suggest_for(name);
        for (const char *const *known = policy_provider_names; *known; known++)
                suggest_offer(&suggestion, *known);

        for (size_t i = 0; i < n_sign_ins; i++)
                suggest_offer(&suggestion, sign_ins[i].name);

        return err_set(err, EINVAL,
                       "there is no provider %s%s (one of your own stands under 'credentials' in a policy)",
                       show(name).text, suggest_text(&suggestion, "").text);
}

static bool is_set(const char *variable) {
        const char *value = getenv(variable);
        return value && value[0];
}

const char *credential_variable(const struct provider *provider) {
        if (strcmp(provider->slots[0], "sigv4") == 0)
                return provider->env[1];
        for (const char *const *name = provider->env; *name; name++)
                if (is_set(*name))
                        return *name;
        return provider->env[0];
}

struct credential *credential_of_provider(const struct policy *policy, const char *provider) {
        for (size_t i = 0; i < policy->credentials.n; i++)
                if (policy->credentials.p[i].provider && strcmp(policy->credentials.p[i].provider, provider) == 0)
                        return &policy->credentials.p[i];
        return NULL;
}

/*
 * Sign-ins.
 */
static bool has_credential(const struct policy *policy, const char *name) {
        for (size_t i = 0; i < policy->credentials.n; i++)
                if (policy->credentials.p[i].name && strcmp(policy->credentials.p[i].name, name) == 0)
                        return true;
        return false;
}

static void credential_done(struct credential *credential) {
        free(credential->name);
        free(credential->source);
        free(credential->slot);
        free(credential->origin);
        free(credential->form);
        free(credential->answer);
        free(credential->expiry);
        origin_texts_done(&credential->hosts);
}

static char *slots_of(const struct sign_in_secret *secret) {
        const struct provider *known = secret->provider ? provider_find(str_of(secret->provider)) : NULL;
        cleanup(buf_done) struct buf text = BUF(1024);
        int r = 0;

        if (secret->slots)
                return str_dup(str_of(secret->slots));

        for (const char *const *slot = known ? known->slots : NULL; slot && *slot && r == 0; slot++)
                r = buf_printf(&text, "%s%s", text.n ? "," : "", *slot);

        if (r < 0)
                return NULL;

        return str_dup(buf_str(&text));
}

static char *copy_or_null(const char *text) {
        return text ? str_dup(str_of(text)) : NULL;
}

/* `pointer`: NULL for one that is kept in memory. */
static int add_secret(struct policy *policy, const struct sign_in *sign_in, const struct sign_in_secret *secret,
                      const char *path, struct str pointer, const char *origin) {
        const struct provider *known = secret->provider ? provider_find(str_of(secret->provider)) : NULL;
        const char *const *hosts = known ? known->hosts : secret->hosts;
        struct credential c = { .name = str_format("%s%s", sign_in->name, secret->suffix) };

        for (unsigned n = 2; c.name && has_credential(policy, c.name); n++) { /* of several accounts */
                free(c.name);
                c.name = str_format("%s%s.%u", sign_in->name, secret->suffix, n);
        }

        if (pointer.p)
                c.source = str_format("%s:%s#%.*s", sign_in->yaml ? "yaml" : "json", path, STR_FMT(pointer));
        else
                c.source = str_dup(STR("memory"));
        c.slot = slots_of(secret);
        c.origin = str_dup(str_of(origin));
        c.form = copy_or_null(secret->form);
        c.answer = copy_or_null(secret->answer);

        bool expires = pointer.p && secret->answer && sign_in->expiry;
        c.expiry = expires ? str_dup(str_of(sign_in->expiry)) : NULL;
        bool copied = c.name && c.source && c.slot && c.origin && (c.form || !secret->form) &&
                      (c.answer || !secret->answer) && (c.expiry || !expires);
        int r = copied ? 0 : -ENOMEM;
        for (; r == 0 && hosts && *hosts; hosts++)
                r = origin_texts_add(&c.hosts, str_of(*hosts), origin);

        if (r < 0 || vec_push(&policy->credentials, c) < 0) {
                credential_done(&c);
                return -ENOMEM;
        }

        return 0;
}

struct adding {
        struct policy *policy;
        const struct sign_in *row;
        const struct sign_in_secret *secret;
        const char *path, *origin;
        size_t found;
};

enum { VALUE_MIN = 8 }; /* less is no secret: VAULT_SECRET_MIN */

static int adding_visit(void *arg, struct str pointer, struct str value) {
        struct adding *adding = arg;

        if (value.n < VALUE_MIN || !json_pointer_matches(str_of(adding->secret->pointer), pointer))
                return 0;
        adding->found++;
        return add_secret(adding->policy, adding->row, adding->secret, adding->path, pointer, adding->origin);
}

int sign_in_add(struct policy *policy, const struct sign_in *sign_in, const char *origin, struct err *err) {
        cleanup(free_ptr) char *path = sign_in_path(sign_in, policy->home);
        struct buf text = BUF(SIGN_IN_BYTES_MAX);
        struct adding adding = { .policy = policy, .row = sign_in, .path = path, .origin = origin };
        bool missing[SIGN_IN_SECRETS_MAX] = { 0 }; /* what a token endpoint may give, and the file does not have */

        if (!path && policy->home)
                return err_memory(err);

        int r = path ? path_read_file(path, SIGN_IN_BYTES_MAX, &text, err)
                     : err_set(err, ENOENT, "there is no home directory");

        if (r < 0 && r != -ENOENT)
                return err_wrap(err, r, "the sign-in %s cannot be read", sign_in->name);
        if (r == -ENOENT)
                err_clear(err);

        bool there = r == 0, renewable = r < 0;
        r = 0;
        for (size_t i = 0; r == 0 && i < sign_in_secrets(sign_in); i++) {
                adding.secret = &sign_in->secrets[i];
                adding.found = 0;
                if (there && adding.secret->pointer)
                        r = sign_in_each(buf_str(&text), sign_in->yaml, adding_visit, &adding, err);

                renewable |= adding.found > 0 && adding.secret->answer;
                missing[i] = adding.found == 0 && adding.secret->answer;
        }

        for (size_t i = 0; r == 0 && renewable && i < sign_in_secrets(sign_in); i++)
                if (missing[i])
                        r = add_secret(policy, sign_in, &sign_in->secrets[i], path, (struct str){ 0 }, origin);

        if (text.p)
                secret_wipe(text.p, text.cap);

        buf_done(&text);

        if (r < 0)
                return err_wrap(err, r, "the sign-in %s cannot be read from %s", sign_in->name,
                                path ? path : sign_in->file);

        return 0;
}

int credential_add(struct policy *policy, struct str word, const char *origin, struct err *err) {
        const struct sign_in *sign_in = sign_in_find(word);
        if (sign_in) {
                if (has_credential(policy, sign_in->name))
                        return 0;
                return sign_in_add(policy, sign_in, origin, err);
        }

        struct str source;
        const struct provider *provider = credential_split(word, &source);
        struct credential *there = provider ? credential_of_provider(policy, provider->name) : NULL;
        if (there && source.n == 0)
                return 0;

        cleanup(free_ptr) char *from = NULL, *who = str_dup(str_of(origin));
        if (provider && source.n > 0)
                from = str_dup(source);
        else if (provider)
                from = str_format("env:%s", credential_variable(provider));
        if (!from || !who)
                return err_memory(err);

        struct credential made = { .provider = str_dup(str_of(provider->name)) };
        if (!there && (!made.provider || vec_push(&policy->credentials, made) < 0)) {
                free(made.provider);
                return err_memory(err);
        }

        if (there)
                free(made.provider);
        else
                there = &policy->credentials.p[policy->credentials.n - 1];

        free(there->source);
        free(there->origin);
        there->source = take_ptr(&from);
        there->origin = take_ptr(&who);

        return 0;
}

static bool credential_names(const origin_texts *list, const char *variable) {
        size_t n = strlen(variable);
        for (size_t i = 0; i < list->n; i++) {
                const char *text = list->p[i].text; /* NAME or NAME=VALUE */
                if (strncmp(text, variable, n) == 0 && (text[n] == '\0' || text[n] == '='))
                        return true;
        }
        return false;
}

/* Of the three of AWS the key id and the secret belong together: one alone signs nothing. */
static bool provider_has_value(const struct provider *row) {
        if (strcmp(row->slots[0], "sigv4") == 0)
                return is_set(row->env[0]) && is_set(row->env[1]);
        for (const char *const *name = row->env; *name; name++)
                if (is_set(*name))
                        return true;
        return false;
}

bool credential_is_at_hand(const struct policy *policy, struct str provider) {
        const struct provider *row = provider_find(provider);

        if (sign_in_find(provider)) /* also without a file: then what is signed in to inside stays out of it */
                return home_is_own(policy);
        if (!row || !provider_has_value(row))
                return false;

        for (const char *const *name = row->env; *name; name++) {
                if (credential_names(&policy->process.env_pass, *name) ||
                    credential_names(&policy->process.env_set, *name))
                        return false;
                for (size_t i = 0; i < policy->credentials.n; i++) /* one of the person's own has that variable */
                        if (policy->credentials.p[i].env && strcmp(policy->credentials.p[i].env, *name) == 0)
                                return false;
        }

        return true;
}

bool credential_variable_is_free(const struct policy *policy, const char *name) {
        if (!is_set(name) || credential_names(&policy->process.env_pass, name) ||
            credential_names(&policy->process.env_set, name))
                return false;
        for (size_t i = 0; i < policy->credentials.n; i++)
                if (policy->credentials.p[i].env && strcmp(policy->credentials.p[i].env, name) == 0)
                        return false;
        return true;
}
