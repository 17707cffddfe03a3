/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/judge/ratchet.h"

#include "base/cleanup.h"
#include "base/paths/path.h"
#include "conf/suggest.h"
#include "policy/check.h"
#include "policy/expand.h"
#include "policy/mappings.h"
#include "policy/match/glob.h"
#include "policy/match/pattern.h"
#include "policy/tools/browser.h"
#include "policy/tools/tools.h"

#include <errno.h>
#include <stdlib.h>

enum { WORDS_MAX = 64 };

/* --- what may be written --- */

int check_ratchet_path(struct str text, struct err *err) {
        if (text.n == 0 || memchr(text.p, '\0', text.n))
                return err_set(err, EINVAL, "a pattern of files is a path, as ~/customers/** or **/*.pem");
        if (text.p[0] == '~' && text.n > 1 && text.p[1] != '/')
                return err_set(err, EINVAL, "%s: '~' stands for your own home; write the path of another one",
                               show(text).text);
        return 0;
}

int check_ratchet_host(struct str text, struct err *err) {
        if (str_is(text, "none"))
                return 0;

        return check_host_pattern(text, err);
}

int check_ratchet_tool(struct str text, struct err *err) {
        struct str rest = text, word;

        if (!str_split(&rest, ' ', &word) || check_name(word, NULL) < 0)
                return err_set(err, EINVAL, "%s: a call begins with the name of its tool, as \"gcloud storage cat **\"",
                               show(text).text);
        return 0;
}

bool ratchet_leaves_no_host(const struct ratchet_rule *rule) {
        for (size_t i = 0; i < rule->allow.n; i++)
                if (strcmp(rule->allow.p[i].text, "none") == 0)
                        return true;
        return false;
}

int check_ratchet(const void *record, struct err *err) {
        const struct ratchet_rule *rule = record;

        if (rule->reads.n + rule->tools.n + rule->reaches.n + rule->credentials.n == 0)
                return err_set(err, EINVAL,
                               "a ratchet needs 'when' with a trigger: read, tool, reach or credential, as when: { "
                               "read: [~/customers/**] }");

        if (rule->allow.n == 0 && !rule->git && !rule->creds && !rule->ask)
                return err_set(err, EINVAL,
                               "a ratchet needs 'then' with an effect: allow, git, credentials or ask, as then: { "
                               "allow: [api.anthropic.com] }; allow: none leaves no host");

        if (ratchet_leaves_no_host(rule) && rule->allow.n > 1)
                return err_set(err, EINVAL, "'none' in then.allow stands alone: it means no host at all");

        return 0;
}

/* --- all layers together --- */

static int settle_tools(const struct policy *policy, const struct ratchet_rule *rule, struct err *err) {
        for (size_t i = 0; i < rule->tools.n + rule->keep_tools.n; i++) {
                bool keeps = i >= rule->tools.n;
                const struct origin_text *text = keeps ? &rule->keep_tools.p[i - rule->tools.n] : &rule->tools.p[i];
                struct str rest = str_of(text->text), name = { 0 };

                (void)str_split(&rest, ' ', &name);

                if (!tool_find(policy, name) && !(policy_has_browser(policy) && str_is(name, BROWSER_TOOL)))
                        return err_set(err, EINVAL,
                                       "%s: no tool %s is bridged (see `bridge`), so that this is never so",
                                       text->origin, show(name).text);
        }

        return 0;
}

/* A tool that stays, and has what the same ratchet takes away: one of the two is not meant. */
static int settle_kept(const struct policy *policy, const struct ratchet_rule *rule, struct err *err) {
        for (size_t i = 0; i < rule->keep_tools.n; i++) {
                const struct origin_text *kept = &rule->keep_tools.p[i];
                const struct bridge_tool *tool = tool_find(policy, str_of(kept->text));
                const char *taken = NULL;

                if (tool && rule->git && (tool->repos.n || tool_is(tool->workspace, "objects", false)))
                        taken = "git: none";
                else if (tool && rule->creds && tool->credentials.n)
                        taken = "credentials: none";

                if (taken)
                        return err_set(err, EINVAL,
                                       "%s: the tool %s stays, and '%s' of the same ratchet takes away what it works "
                                       "with; leave one of the two out",
                                       kept->origin, kept->text, taken);
        }

        return 0;
}

static const struct mapping *mapping_named(const mappings *list, const char *name) {
        for (size_t i = 0; i < list->n; i++)
                if (strcmp(list->p[i].name, name) == 0)
                        return &list->p[i];
        return NULL;
}

static int settle_credentials(const struct policy *policy, const struct ratchet_rule *rule, struct err *err) {
        cleanup(mappings_done) mappings list = { 0 };
        int r = 0;

        if (rule->credentials.n)
                r = mappings_of(policy, &list, err);

        for (size_t i = 0; r == 0 && i < rule->credentials.n; i++)
                if (!mapping_named(&list, rule->credentials.p[i].text))
                        r = err_set(err, EINVAL, "%s: no credential has the name %s, so that this is never so",
                                    rule->credentials.p[i].origin, rule->credentials.p[i].text);

        return r;
}

static int settle_ports(const struct policy *policy, struct err *err) {
        for (size_t i = 0; i < policy->network.publish.n; i++) {
                const struct port_map *port = &policy->network.publish.p[i];
                struct addr address;

                if (!port->addr)
                        continue;

                if (!addr_parse(str_of(port->addr), &address) || addr_classify(&address) != ADDR_CLASS_LOOPBACK)
                        return err_set(err, EINVAL,
                                       "%s: a port is published to other machines, and a ratchet (%s) could not close "
                                       "it; publish it on the loopback address, or leave one of the two out",
                                       port->origin, policy->ratchet.p[0].origin);
        }

        return 0;
}

int ratchet_settle(const struct policy *policy, struct err *err) {
        int r = 0;

        if (policy->ratchet.n == 0)
                return 0;

        if (policy->ratchet.n > RATCHETS_MAX)
                return err_set(err, E2BIG, "%s: there are more than %d ratchets",
                               policy->ratchet.p[RATCHETS_MAX].origin, RATCHETS_MAX);

        for (size_t i = 0; r == 0 && i < policy->ratchet.n; i++) {
                const struct ratchet_rule *rule = &policy->ratchet.p[i];

                r = settle_tools(policy, rule, err);
                if (r == 0)
                        r = settle_kept(policy, rule, err);
                if (r == 0)
                        r = settle_credentials(policy, rule, err);

                if (r == 0 && rule->ask && policy->network.ask == ASK_NEVER)
                        r = err_set(err, EINVAL,
                                    "%s: then.ask needs somebody who can be asked: set network.ask, or leave it out",
                                    rule->origin);
        }

        if (r < 0)
                return r;

        return settle_ports(policy, err);
}

/* --- triggers --- */

char *ratchet_pattern(const struct policy *policy, const char *text) {
        struct str s = str_of(text);
        cleanup(free_ptr) char *expanded = NULL;
        char *pattern = NULL;
        int r;

        if (s.n > 0 && s.p[0] == '~') {
                r = path_expand_home(s, text_or(policy->home, "/"), &expanded);
                return r == 0 && path_normalise(str_of(expanded), NULL, &pattern) == 0 ? pattern : NULL;
        }

        const char *base = str_is(s, "**") || str_starts(s, STR("**/")) ? "/" : policy->workspace;
        return path_normalise(s, text_or(base, "/"), &pattern) == 0 ? pattern : NULL;
}

bool ratchet_has_reads(const struct policy *policy) {
        for (size_t i = 0; i < policy->ratchet.n; i++)
                if (policy->ratchet.p[i].reads.n)
                        return true;
        return false;
}

/* A plain path means what is below it as well. */
static bool pattern_covers(const char *pattern, const char *path) {
        if (glob_match(str_of(pattern), str_of(path)))
                return true;
        return !glob_has_magic(str_of(pattern)) && path_is_within(path, pattern);
}

uint32_t ratchet_of_path(const struct policy *policy, const char *path) {
        uint32_t found = 0;

        for (size_t i = 0; i < policy->ratchet.n; i++)
                for (size_t k = 0; k < policy->ratchet.p[i].reads.n; k++) {
                        cleanup(free_ptr) char *pattern = ratchet_pattern(policy, policy->ratchet.p[i].reads.p[k].text);
                        if (!pattern || pattern_covers(pattern, path))
                                found |= UINT32_C(1) << i;
                }

        return found;
}

struct reaching {
        const struct authority *target;
        bool found;
};

static int match_target(void *context, struct str text, struct str origin, struct err *err) {
        struct reaching *reaching = context;
        struct pattern pattern;

        (void)origin;

        if (pattern_parse_user(text, &pattern, err) < 0 ||
            pattern_matches(&pattern, &reaching->target->host, reaching->target->port))
                reaching->found = true; /* what cannot be read counts as well */

        return 0;
}

int ratchet_each_host(const struct policy *policy, const struct ratchet_rule *rule, expand_function *each,
                      void *context, struct err *err) {
        cleanup(mappings_done) mappings list = { 0 };
        int r = 0;

        if (rule->credentials.n)
                r = mappings_of(policy, &list, err);

        for (size_t i = 0; r == 0 && i < rule->reaches.n; i++)
                r = expand_entry(policy, &rule->reaches.p[i], false, each, context, err);

        for (size_t i = 0; r == 0 && i < rule->credentials.n; i++) {
                const struct mapping *mapping = mapping_named(&list, rule->credentials.p[i].text);

                for (size_t k = 0; mapping && r == 0 && k < mapping->hosts.n; k++) {
                        const struct origin_text host = { .text = mapping->hosts.p[k], .origin = mapping->origin };
                        r = expand_entry(policy, &host, false, each, context, err);
                }
        }

        return r;
}

uint32_t ratchet_of_host(const struct policy *policy, const struct authority *target) {
        uint32_t found = 0;

        for (size_t i = 0; i < policy->ratchet.n; i++) {
                struct reaching reaching = { .target = target };
                int r = ratchet_each_host(policy, &policy->ratchet.p[i], match_target, &reaching, NULL);

                if (r < 0 || reaching.found)
                        found |= UINT32_C(1) << i;
        }

        return found;
}

/* A star stands for anything, slashes too: what a trigger misses is open. */
static bool text_matches(struct str pattern, struct str text) {
        size_t at = 0, star = SIZE_MAX, from = 0, i = 0;

        while (i < text.n) {
                if (at < pattern.n && pattern.p[at] == '*') {
                        star = at++;
                        from = i;
                } else if (at < pattern.n && pattern.p[at] == text.p[i]) {
                        at++;
                        i++;
                } else if (star != SIZE_MAX) {
                        at = star + 1;
                        i = ++from;
                } else {
                        return false;
                }
        }

        while (at < pattern.n && pattern.p[at] == '*')
                at++;

        return at == pattern.n;
}

/* "pods,secrets" names both. */
static bool word_matches(struct str pattern, struct str word) {
        struct str rest = word, part;

        if (text_matches(pattern, word))
                return true;

        while (str_split(&rest, ',', &part))
                if (text_matches(pattern, part))
                        return true;

        return false;
}

static bool words_match(const struct str *pattern, size_t n_pattern, const struct str *words, size_t n) {
        if (n_pattern == 0)
                return n == 0;

        if (str_is(pattern[0], "**"))
                return words_match(pattern + 1, n_pattern - 1, words, n) ||
                       (n > 0 && words_match(pattern, n_pattern, words + 1, n - 1));

        if (n == 0 || !word_matches(pattern[0], words[0]))
                return false;

        return words_match(pattern + 1, n_pattern - 1, words + 1, n - 1);
}

/* As it runs, or without its options: these stand between the words. */
static bool call_matches(const char *text, const char *const *argv, size_t n) {
        struct str pattern[WORDS_MAX], all[WORDS_MAX], plain[WORDS_MAX], rest = str_of(text), word;
        size_t n_pattern = 0, n_plain = 0;

        while (n_pattern < WORDS_MAX && str_split(&rest, ' ', &word))
                if (word.n)
                        pattern[n_pattern++] = word;

        if (n > WORDS_MAX || n_pattern == WORDS_MAX)
                return n_pattern > 0 && n > 0 && str_is(pattern[0], argv[0]);

        for (size_t i = 0; i < n; i++) {
                all[i] = str_of(argv[i]);
                if (argv[i][0] != '-')
                        plain[n_plain++] = all[i];
        }

        return words_match(pattern, n_pattern, all, n) || words_match(pattern, n_pattern, plain, n_plain);
}

uint32_t ratchet_of_tool(const struct policy *policy, const struct bridge_tool *tool, const char *const *argv,
                         size_t n) {
        bool sees_files = tool->workspace && strcmp(tool->workspace, "none") != 0;
        uint32_t found = 0;

        for (size_t i = 0; i < policy->ratchet.n; i++) {
                const struct ratchet_rule *rule = &policy->ratchet.p[i];
                bool closes = sees_files && rule->reads.n; /* nobody judges what it opens there */

                for (size_t k = 0; k < rule->tools.n; k++)
                        closes |= call_matches(rule->tools.p[k].text, argv, n);

                found |= closes ? UINT32_C(1) << i : 0;
        }

        return found;
}

/* --- marks --- */

uint32_t ratchet_closed(const struct policy *policy) {
        uint32_t closed = 0;

        for (size_t i = 0; i < policy->ratchet.n && i < RATCHETS_MAX; i++)
                closed |= policy->ratchet.p[i].closed ? UINT32_C(1) << i : 0;
        return closed;
}

uint32_t ratchet_close(struct policy *policy, uint32_t rules) {
        uint32_t fresh = rules & ~ratchet_closed(policy);

        for (size_t i = 0; i < policy->ratchet.n && i < RATCHETS_MAX; i++)
                if (rules >> i & 1)
                        policy->ratchet.p[i].closed = true;
        return fresh;
}

static void say_list(struct buf *out, const char *verb, const origin_texts *texts, bool *first) {
        for (size_t i = 0; i < texts->n; i++) {
                (void)buf_printf(out, "%s%s %s", *first ? "" : ", ", verb, texts->p[i].text);
                *first = false;
        }
}

void ratchet_say(const struct ratchet_rule *rule, struct buf *ret) {
        bool first = true;

        if (rule->say) {
                (void)buf_add(ret, rule->say);
                return;
        }

        say_list(ret, "read", &rule->reads, &first);
        say_list(ret, "called", &rule->tools, &first);
        say_list(ret, "reached", &rule->reaches, &first);
        say_list(ret, "used", &rule->credentials, &first);
}

bool ratchet_keeps_tool(const struct policy *policy, const char *tool, const struct ratchet_rule **ret_rule) {
        for (size_t i = 0; i < policy->ratchet.n; i++) {
                const struct ratchet_rule *rule = &policy->ratchet.p[i];
                bool kept = !rule->closed;

                for (size_t k = 0; k < rule->keep_tools.n && !kept; k++)
                        kept = strcmp(rule->keep_tools.p[k].text, tool) == 0;

                if (kept)
                        continue;

                *ret_rule = rule;
                return false;
        }

        return true;
}

bool ratchet_takes_git(const struct policy *policy) {
        for (size_t i = 0; i < policy->ratchet.n; i++)
                if (policy->ratchet.p[i].closed && policy->ratchet.p[i].git)
                        return true;
        return false;
}

bool ratchet_takes_credentials(const struct policy *policy) {
        for (size_t i = 0; i < policy->ratchet.n; i++)
                if (policy->ratchet.p[i].closed && policy->ratchet.p[i].creds)
                        return true;
        return false;
}

static int texts_copy(origin_texts *to, const origin_texts *from) {
        for (size_t i = 0; i < from->n; i++)
                if (origin_texts_add(to, str_of(from->p[i].text), from->p[i].origin) < 0)
                        return -ENOMEM;
        return 0;
}

static bool text_copy(char **to, const char *from) {
        *to = from ? str_dup(str_of(from)) : NULL;
        return !from || *to;
}

static void rule_done(struct ratchet_rule *rule) {
        origin_texts *const lists[] = { &rule->reads,       &rule->tools, &rule->reaches,
                                        &rule->credentials, &rule->allow, &rule->keep_tools };

        for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
                origin_texts_done(lists[i]);

        free(rule->origin);
        free(rule->git);
        free(rule->creds);
        free(rule->ask);
        free(rule->say);
}

static int rule_copy(struct ratchet_rule *to, const struct ratchet_rule *from) {
        bool texts = text_copy(&to->origin, from->origin) && text_copy(&to->git, from->git) &&
                     text_copy(&to->creds, from->creds) && text_copy(&to->ask, from->ask) &&
                     text_copy(&to->say, from->say);

        to->closed = from->closed;
        if (!texts || texts_copy(&to->reads, &from->reads) < 0 || texts_copy(&to->tools, &from->tools) < 0 ||
            texts_copy(&to->reaches, &from->reaches) < 0 || texts_copy(&to->credentials, &from->credentials) < 0 ||
            texts_copy(&to->allow, &from->allow) < 0 || texts_copy(&to->keep_tools, &from->keep_tools) < 0)
                return -ENOMEM;

        return 0;
}

int ratchet_copy(struct policy *to, const struct policy *from) {
        for (size_t i = 0; i < to->ratchet.n; i++)
                rule_done(&to->ratchet.p[i]);

        to->ratchet.n = 0;

        for (size_t i = 0; i < from->ratchet.n; i++) {
                struct ratchet_rule rule = { 0 };

                if (rule_copy(&rule, &from->ratchet.p[i]) < 0 || vec_push(&to->ratchet, rule) < 0) {
                        rule_done(&rule);
                        return -ENOMEM;
                }
        }

        return 0;
}
