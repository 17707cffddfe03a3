/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/credential.h"

#include "base/cleanup.h"
#include "conf/suggest.h"
#include "policy/check.h"
#include "policy/providers.h"

#include <errno.h>
#include <stdlib.h>

static const struct provider *split(struct str word, struct str *ret_source) {
        struct str name;
        str_split(&word, '=', &name);
        *ret_source = word;
        return provider_find(name);
}

int check_credential_word(struct str word, struct err *e) {
        struct str source, name;
        if (split(word, &source))
                return source.n == 0 ? 0 : check_source(source, e);
        str_split(&word, '=', &name);
        struct suggestion s = suggest_for(name);
        for (const char *const *known = policy_provider_names; *known; known++)
                suggest_offer(&s, *known);
        return err_set(e, EINVAL, "there is no provider %s%s (one of your own stands under 'credentials' in a policy)",
                       show(name).text, suggest_text(&s, "").text);
}

static bool is_set(const char *variable) {
        const char *value = getenv(variable);
        return value && value[0];
}

/* The variable that has a value, else the first. The source of a signature is named by its secret key. */
static const char *variable_of(const struct provider *p) {
        if (strcmp(p->slots[0], "sigv4") == 0)
                return p->env[1];
        for (const char *const *name = p->env; *name; name++)
                if (is_set(*name))
                        return *name;
        return p->env[0];
}

struct credential *credential_of_provider(const struct policy *p, const char *provider) {
        for (size_t i = 0; i < p->credentials.n; i++)
                if (p->credentials.p[i].provider && strcmp(p->credentials.p[i].provider, provider) == 0)
                        return &p->credentials.p[i];
        return NULL;
}

int credential_add(struct policy *p, struct str word, const char *origin, struct err *e) {
        struct str source;
        const struct provider *provider = split(word, &source);
        struct credential *there = provider ? credential_of_provider(p, provider->name) : NULL;
        if (there && source.n == 0)
                return 0;
        cleanup(free_ptr) char *from = !provider      ? NULL
                                       : source.n > 0 ? str_dup(source)
                                                      : str_format("env:%s", variable_of(provider));
        cleanup(free_ptr) char *who = str_dup(str_of(origin));
        if (!from || !who)
                return err_set(e, ENOMEM, "out of memory");
        struct credential made = { .provider = str_dup(str_of(provider->name)) };
        if (!there && (!made.provider || vec_push(&p->credentials, made) < 0)) {
                free(made.provider);
                return err_set(e, ENOMEM, "out of memory");
        }
        if (there)
                free(made.provider);
        else
                there = &p->credentials.p[p->credentials.n - 1];
        free(there->source);
        free(there->origin);
        there->source = take_ptr(&from);
        there->origin = take_ptr(&who);
        return 0;
}

static bool names(const origin_texts *list, const char *variable) {
        size_t n = strlen(variable);
        for (size_t i = 0; i < list->n; i++) {
                const char *text = list->p[i].text; /* NAME or NAME=VALUE */
                if (strncmp(text, variable, n) == 0 && (text[n] == '\0' || text[n] == '='))
                        return true;
        }
        return false;
}

bool credential_is_at_hand(const struct policy *p, struct str provider) {
        const struct provider *row = provider_find(provider);
        bool has_value = false;
        for (const char *const *name = row ? row->env : NULL; name && *name; name++) {
                if (names(&p->process.env_pass, *name) || names(&p->process.env_set, *name))
                        return false;
                has_value = has_value || is_set(*name);
        }
        for (size_t i = 0; has_value && i < p->credentials.n; i++) /* one of the person's own has that variable */
                for (const char *const *name = row->env; *name; name++)
                        if (p->credentials.p[i].env && strcmp(p->credentials.p[i].env, *name) == 0)
                                return false;
        return has_value;
}

bool credential_variable_is_free(const struct policy *p, const char *name) {
        if (!is_set(name) || names(&p->process.env_pass, name) || names(&p->process.env_set, name))
                return false;
        for (size_t i = 0; i < p->credentials.n; i++)
                if (p->credentials.p[i].env && strcmp(p->credentials.p[i].env, name) == 0)
                        return false;
        return true;
}
