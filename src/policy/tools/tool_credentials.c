/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/tools/tool_credentials.h"

#include "base/cleanup.h"
#include "conf/suggest.h"
#include "policy/check.h"
#include "policy/credential.h"
#include "policy/tools/tools.h"

#include <errno.h>

enum { KNOWN_MAX = 400 };

static struct str word_split(struct str word, struct str *ret_source) {
        struct str name;

        str_split(&word, '=', &name);
        *ret_source = word;
        return name;
}

/* A name of an entry is known when all files are read; of the rest the form is known now. */
int check_tool_credential(struct str text, struct err *err) {
        struct str source, name = word_split(text, &source);

        if (str_find(text, '=') >= 0 || provider_find(name))
                return check_credential_word(text, err);
        return check_name(name, err);
}

/* --- which one is meant --- */

static const struct credential *list_find(const struct credential *list, size_t n, struct str name, bool by_provider) {
        for (size_t i = n; i-- > 0;) { /* the last layer's */
                const char *called = list[i].name;

                if (by_provider)
                        called = called ? NULL : list[i].provider;
                if (called && str_is(name, called))
                        return &list[i];
        }

        return NULL;
}

bool tool_credential_find(const struct policy *policy, struct str word, struct tool_credential *ret) {
        struct str source, name = word_split(word, &source);

        *ret = (struct tool_credential){ .source = source };

        for (unsigned by_provider = 0; str_find(word, '=') < 0 && by_provider < 2 && !ret->own; by_provider++) {
                ret->own = list_find(policy->tool_credentials.p, policy->tool_credentials.n, name, by_provider == 1);
                if (!ret->own)
                        ret->own = list_find(policy->credentials.p, policy->credentials.n, name, by_provider == 1);
        }

        if (!ret->own)
                ret->provider = provider_find(name);

        return ret->own || ret->provider;
}

int tool_mappings(const struct policy *policy, const struct bridge_tool *tool, mappings *ret, struct err *err) {
        mappings list = { 0 };
        struct tool_credential found;
        int r = 0;

        for (size_t i = 0; r == 0 && i < tool->credentials.n; i++)
                if (tool_credential_find(policy, str_of(tool->credentials.p[i].text), &found) && found.own)
                        r = mappings_add(&list, policy, found.own, err);

        if (r < 0) {
                mappings_done(&list);
                return r;
        }

        *ret = list;
        return 0;
}

/* Two tools may have two of one name, or in one variable. */
static int add_alone(mappings *list, const struct policy *policy, const struct credential *credential,
                     struct err *err) {
        mappings one = { 0 };
        int r = mappings_add(&one, policy, credential, err);

        if (r < 0)
                return r;

        if (vec_push(list, one.p[0]) < 0) {
                mappings_done(&one);
                return err_memory(err);
        }

        vec_done(&one); /* what was in it is the list's */
        return 0;
}

int tool_mappings_all(const struct policy *policy, mappings *ret, struct err *err) {
        mappings list = { 0 };
        int r = 0;

        for (size_t i = 0; r == 0 && i < policy->tool_credentials.n; i++)
                r = add_alone(&list, policy, &policy->tool_credentials.p[i], err);

        if (r < 0) {
                mappings_done(&list);
                return r;
        }

        *ret = list;
        return 0;
}

static int sources_add(mappings *list, const struct policy *policy, const struct tool_credential *found,
                       struct err *err) {
        if (found->own)
                return add_alone(list, policy, found->own, err);

        cleanup(free_ptr) char *source = str_dup(found->source), *provider = str_dup(str_of(found->provider->name));
        if (!source || !provider)
                return err_memory(err);

        return add_alone(list, policy, &(struct credential){ .provider = provider, .source = source }, err);
}

int tool_sources(const struct policy *policy, mappings *ret, struct err *err) {
        mappings list = { 0 };
        struct tool_credential found;
        int r = 0;

        for (size_t i = 0; i < policy->bridge.n; i++)
                for (size_t k = 0; r == 0 && k < policy->bridge.p[i].credentials.n; k++)
                        if (tool_credential_find(policy, str_of(policy->bridge.p[i].credentials.p[k].text), &found) &&
                            (found.own || found.source.n))
                                r = sources_add(&list, policy, &found, err);

        if (r < 0) {
                mappings_done(&list);
                return r;
        }

        *ret = list;
        return 0;
}

/* --- once all layers are there --- */

static int refuse_unknown(const struct policy *policy, const struct bridge_tool *tool, const struct origin_text *word,
                          struct err *err) {
        struct str source, name = word_split(str_of(word->text), &source);
        struct suggestion suggestion = suggest_for(name);
        cleanup(buf_done) struct buf known = BUF(KNOWN_MAX);

        if (sign_in_find(name))
                return err_set(err, EINVAL,
                               "%s: %s is an agent's sign-in, which the tool '%s' cannot use; name a provider, or an "
                               "entry under `credentials`",
                               word->origin, word->text, tool->name);

        for (size_t i = 0; i < policy->credentials.n; i++) {
                const char *own = policy->credentials.p[i].name;
                if (!own)
                        continue;
                suggest_offer(&suggestion, own);
                (void)buf_printf(&known, "%s%s", known.n ? ", " : "", own);
        }
        for (const char *const *provider = policy_provider_names; *provider; provider++)
                suggest_offer(&suggestion, *provider);

        return err_set(err, EINVAL,
                       "%s: the tool '%s' names the credential %s, which is neither an entry under `credentials` (%s) "
                       "nor a provider%s",
                       word->origin, tool->name, show(name).text,
                       known.n && buf_text(&known) ? known.p : "there is none with a name",
                       suggest_text(&suggestion, "").text);
}

/* Without a variable the stand-in would be in a copy of the file, in a home that a tool does not have. */
static int check_entry(const struct bridge_tool *tool, const struct origin_text *word, const struct credential *own,
                       struct err *err) {
        if (own->env || own->provider)
                return 0;
        return err_set(err, EINVAL, "%s: the tool '%s' has the credential '%s' by a variable: write `env` there (%s)",
                       word->origin, tool->name, own->name, own->origin);
}

static const struct origin_text *list_names(const origin_texts *list, const char *variable) {
        for (size_t i = 0; i < list->n; i++)
                if (strcmp(list->p[i].text, variable) == 0)
                        return &list->p[i];
        return NULL;
}

/* A variable that is passed to the sandbox has the value itself, which the credential keeps away from it. One that is
 * passed to the tool contradicts the credential, whose stand-in it would have. */
static int check_passed(const struct policy *policy, const struct bridge_tool *tool, const struct origin_text *word,
                        const char *variable, bool of_host, struct err *err) {
        const struct origin_text *passed = of_host ? list_names(&policy->process.env_pass, variable) : NULL;

        if (passed)
                return err_set(err, EINVAL,
                               "%s: %s goes to the sandbox, and the tool '%s' has it as a credential (%s) so that the "
                               "sandbox does not; leave it out here, or name the tool's source, as %s=env:VARIABLE",
                               passed->origin, variable, tool->name, word->origin, word->text);

        passed = list_names(&tool->env_pass, variable);
        if (passed)
                return err_set(err, EINVAL,
                               "%s: the tool '%s' has a stand-in in %s, by the credential %s (%s), and no value of "
                               "this host; leave one of the two out",
                               passed->origin, tool->name, variable, word->text, word->origin);

        return 0;
}

static int check_variables(const struct policy *policy, const struct bridge_tool *tool, const struct origin_text *word,
                           const struct tool_credential *found, struct err *err) {
        const struct provider *provider = found->provider;
        bool of_host = !found->own && found->source.n == 0;

        if (found->own && found->own->env)
                return check_passed(policy, tool, word, found->own->env, false, err);
        if (found->own)
                provider = provider_find(str_of(found->own->provider));

        for (const char *const *name = provider ? provider->env : NULL; name && *name; name++) {
                int r = check_passed(policy, tool, word, *name, of_host, err);
                if (r < 0)
                        return r;
        }

        return 0;
}

static int check_words(const struct policy *policy, const struct bridge_tool *tool, struct err *err) {
        cleanup(mappings_done) mappings list = { 0 };
        struct tool_credential found;

        for (size_t i = 0; i < tool->credentials.n; i++) {
                const struct origin_text *word = &tool->credentials.p[i];
                int r = 0;

                if (!tool_credential_find(policy, str_of(word->text), &found))
                        r = refuse_unknown(policy, tool, word, err);
                else if (found.own)
                        r = check_entry(tool, word, found.own, err);
                if (r == 0)
                        r = check_variables(policy, tool, word, &found, err);
                if (r < 0)
                        return r;
        }

        return tool_mappings(policy, tool, &list, err);
}

/* What it is called: by its own name, else by its provider's. */
static const char *entry_name(const struct credential *credential) {
        return credential->name ? credential->name : credential->provider;
}

static bool is_named(const struct policy *policy, const struct credential *credential) {
        const char *name = entry_name(credential);

        for (size_t i = 0; i < policy->bridge.n; i++)
                for (size_t k = 0; name && k < policy->bridge.p[i].credentials.n; k++)
                        if (strcmp(policy->bridge.p[i].credentials.p[k].text, name) == 0)
                                return true;
        return false;
}

/* Of two that are called alike, one could stay with the sandbox where a person thinks that both are the tool's. */
static int check_alone(const struct policy *policy, const struct credential *credential, struct err *err) {
        const struct credential *list = policy->tool_credentials.p;

        for (size_t i = 0; i < policy->tool_credentials.n; i++)
                if (strcmp(entry_name(&list[i]), entry_name(credential)) == 0)
                        return err_set(err, EINVAL,
                                       "%s: another credential (%s) is called '%s' too, and a tool names it; give one "
                                       "of them another 'name'",
                                       credential->origin, list[i].origin, entry_name(credential));
        return 0;
}

static int move_apart(struct policy *policy, struct err *err) {
        size_t kept = 0;
        int r = 0;

        if (vec_reserve(&policy->tool_credentials, policy->credentials.n) < 0)
                r = err_memory(err);

        if (r < 0)
                return r;

        /* Also after an error, so that each entry is in one of the two. */
        for (size_t i = 0; i < policy->credentials.n; i++) {
                const struct credential one = policy->credentials.p[i];
                bool named = is_named(policy, &one), apart = named && one.name && one.sandbox != SWITCH_ON;

                if (one.sandbox == SWITCH_OFF && !named && r == 0)
                        r = err_set(err, EINVAL,
                                    "%s: `sandbox: false` leaves this credential to tools, and no tool under `bridge` "
                                    "names it",
                                    one.origin);
                if (!apart && one.sandbox != SWITCH_OFF) {
                        policy->credentials.p[kept++] = one;
                        continue;
                }

                if (r == 0)
                        r = check_alone(policy, &one, err);
                policy->tool_credentials.p[policy->tool_credentials.n++] = one;
        }

        policy->credentials.n = kept;
        return r;
}

int tool_credentials_settle(struct policy *policy, struct err *err) {
        for (size_t i = 0; i < policy->bridge.n; i++) {
                int r = check_words(policy, &policy->bridge.p[i], err);
                if (r < 0)
                        return r;
        }

        if (policy->credentials.n)
                return move_apart(policy, err);

        return 0;
}
