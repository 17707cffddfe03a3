/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs/inspect/inspect.h"

#include "api/commands.h"
#include "base/cleanup.h"
#include "base/emit.h"
#include "base/paths/path.h"
#include "policy/git/forges.h"
#include "policy/groups.h"
#include "policy/idle.h"
#include "policy/load.h"
#include "policy/paths/asks.h"
#include "policy/paths/deep_settings.h"
#include "policy/profile/profile.h"
#include "policy/show.h"
#include "policy/tools/tools.h"
#include "roles/host_addresses.h"
#include "sandbox/sandbox.h"
#include "verbs/inspect/inspect_advice.h"
#include "verbs/inspect/inspect_internal.h"
#include "verbs/inspect/inspect_note.h"
#include "verbs/inspect/inspect_page.h"
#include "verbs/inspect/inspect_ratchet.h"
#include "verbs/inspect/inspect_ssh.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

void inspector_free(struct inspector *inspector) {
        if (!inspector)
                return;

        snapshot_close(inspector->snapshot);
        free(inspector->bytes);
        path_rules_free(inspector->paths);
        sh_rules_free(inspector->commands);
        policy_free(inspector->policy);
        free(inspector);
}

void inspector_freep(struct inspector **inspector) {
        inspector_free(*inspector);
}

static enum err_kind kind_of(int r, enum policy_layer layer) {
        if (r == -ENOMEM)
                return ERR_SYSTEM;
        if (layer == LAYER_COMMAND_LINE || layer == LAYER_CALL)
                return ERR_USAGE;

        return ERR_CONFIG;
}

/* As for a run: this host's own addresses are out of reach. */
static int inspect_compile(struct inspector *inspector, struct err *err) {
        cleanup(endpoints_done) endpoints own = { 0 };
        size_t n = 0;
        int r = host_addresses(&own, err);
        if (r < 0)
                return r;

        r = policy_compile_network(inspector->policy, own.p, own.n, &inspector->bytes, &n, err);
        if (r < 0)
                return r;

        r = snapshot_open(inspector->bytes, n, &inspector->snapshot, err);
        if (r < 0)
                return r;

        r = path_rules_compile(inspector->policy, &inspector->paths, err);
        if (r < 0)
                return r;

        return commands_load(inspector->policy, &inspector->commands, err); /* tries their examples */
}

int inspector_new(const struct option_values *options, const char *file, struct inspector **ret, struct err *err) {
        cleanup(inspector_freep) struct inspector *i = calloc(1, sizeof *i);
        enum policy_layer layer = LAYER_FILES;
        struct policy_request request = {
                .command_line = options, .only_file = file, .ret_layer = &layer, .network_only = true
        };

        err_blame(err, ERR_SYSTEM);
        if (!i)
                return err_memory(err);

        int r = policy_load(&request, &i->policy, err);
        err_blame(err, r == -EPERM ? ERR_REFUSED : kind_of(r, layer));
        if (r >= 0)
                r = inspect_compile(i, err);
        if (r < 0)
                return r;

        *ret = take_ptr(&i);
        return 0;
}

int inspect_show(const struct inspector *inspector, unsigned flags, struct buf *out) {
        unsigned how = 0;
        if (flags & INSPECT_EXPAND)
                how |= POLICY_SHOW_EXPAND;
        if (flags & INSPECT_DEFAULTS)
                how |= POLICY_SHOW_DEFAULTS;

        if (flags & INSPECT_JSON)
                return policy_show_json(out, inspector->policy, how);

        return policy_show_text(out, inspector->policy, how);
}

void inspect_idle(const struct inspector *inspector, void (*say)(void *arg, const char *text), void *arg) {
        policy_idle_grants(inspector->policy, say, arg);
}

struct inspect_counts inspect_count(const struct inspector *inspector) {
        struct inspect_counts counts = { .path_rules = path_rules_count(inspector->paths),
                                         .mode = policy_mode_name(inspector->policy->mode) };
        struct snapshot_rule rule;
        for (uint32_t n = 0; n < snapshot_rule_count(inspector->snapshot); n++) /* without this host's own addresses */
                counts.network_rules += snapshot_rule(inspector->snapshot, n, &rule) && rule.list <= LIST_ALLOW_PRIVATE;
        return counts;
}

/* --- groups --- */

static void emit_groups(struct emit *json) {
        emit_key(json, "groups");
        emit_open(json, '{');

        for (size_t i = 0; i < n_policy_groups; i++) {
                emit_key(json, policy_groups[i].name);
                emit_open(json, '{');
                emit_put_text(json, "help", policy_groups[i].help);
                emit_put_bool(json, "mirrors", policy_groups[i].mirror != MIRROR_NONE);
                emit_key(json, "patterns");
                emit_open(json, '[');

                for (const char *const *p = policy_groups[i].patterns; *p; p++)
                        emit_text(json, *p);

                emit_close(json);
                emit_close(json);
        }

        emit_close(json);
}

/* Each value of a profile that stands for something in a policy: "network.allow" and "@openai". */
typedef int value_function(void *arg, const char *key, const char *value);

static int each_value(const struct node *node, const char *key, value_function *f, void *arg) {
        int r = 0;

        if (node->kind == NODE_SCALAR)
                return f(arg, key, node->text.p);

        for (const struct node *child = node->first; child && r == 0; child = child->next) {
                cleanup(free_ptr) char *below =
                    child->key.n ? str_format("%s.%.*s", key, STR_FMT(child->key)) : str_dup(str_of(key));

                if (below)
                        r = each_value(child, below, f, arg);
                else
                        r = -ENOMEM;
        }

        return r;
}

static int each_profile_value(const char *name, value_function *f, void *arg) {
        static const char *const shown[] = { "network", "credentials", "process", "real_home" };
        cleanup(profile_done) struct profile profile = { 0 };
        int r = profile_open(str_of(name), &profile, NULL);

        for (size_t i = 0; i < sizeof shown / sizeof *shown && r == 0; i++) {
                const struct node *node = profile_node(&profile, shown[i]);

                if (node)
                        r = each_value(node, shown[i], f, arg);
                else
                        r = 0;
        }

        return r;
}

static int emit_value(void *arg, const char *key, const char *value) {
        struct emit *j = arg;

        emit_open(j, '{');
        emit_put_text(j, "key", key);
        emit_put_text(j, "value", value);
        emit_close(j);
        return 0;
}

static int print_value(void *arg, const char *key, const char *value) {
        return buf_printf(arg, "              %s: %s\n", key, value);
}

static void emit_profiles(struct emit *json) {
        cleanup(profile_names_done) profile_names names = { 0 };

        (void)profile_list(&names, NULL);
        emit_key(json, "profiles");
        emit_open(json, '{');

        for (size_t i = 0; i < names.n; i++) {
                emit_key(json, names.p[i]);
                emit_open(json, '[');
                (void)each_profile_value(names.p[i], emit_value, json);
                emit_close(json);
        }

        emit_close(json);
}

static int print_profiles(struct buf *out) {
        cleanup(profile_names_done) profile_names names = { 0 };
        int r = profile_list(&names, NULL);

        for (size_t i = 0; r == 0 && i < names.n; i++) {
                r = buf_printf(out, "%sprofile %s\n", i ? "" : "\n", names.p[i]);
                if (r >= 0)
                        r = each_profile_value(names.p[i], print_value, out);
        }

        return r;
}

int inspect_list_groups(struct buf *out, bool json) {
        int r = 0;

        if (json) {
                struct emit j = emit_to(out);

                emit_open(&j, '{');
                emit_groups(&j);
                emit_profiles(&j);
                emit_close(&j);

                return emit_status(&j);
        }

        for (size_t i = 0; r == 0 && i < n_policy_groups; i++) {
                const struct group *group = &policy_groups[i];

                r = buf_printf(out, "@%-12s %s%s\n", group->name, group->help,
                               group->mirror ? ", and the mirrors in your own settings" : "");
                for (const char *const *p = group->patterns; *p && r == 0; p++)
                        r = buf_printf(out, "%s%s", p == group->patterns ? "              " : " ", *p);
                if (r == 0 && group->patterns[0])
                        r = buf_add_char(out, '\n');
        }

        const char *name, *help;
        for (size_t i = 0; r == 0 && (name = forge_name(i, &help)); i++)
                r = buf_printf(out, "@%s\n              %s\n", name, help);

        if (r < 0)
                return r;

        return print_profiles(out);
}

void inspect_verdict_done(struct inspect_verdict *verdict) {
        free(verdict->target);
        free(verdict->detail);
        free(verdict->rule);
        free(verdict->origin);
        free(verdict->because);
        free(verdict->change);
        free(verdict->ratchets);
        free(verdict->notes);
        *verdict = (struct inspect_verdict){ 0 };
}

/* --- hosts --- */

/* HOST[:PORT] as a person types it: international names, and IPv6 without brackets where no port follows. */
static int parse_target(struct str text, struct authority *ret, struct err *err) {
        struct addr addr;

        ret->port = 443;

        if (addr_parse(text, &addr)) {
                host_from_addr(&addr, &ret->host);
                return 0;
        }

        if (memmem(text.p, text.n, "://", 3))
                return err_set(err, EINVAL, "a URL is not a host; write HOST or HOST:PORT, without scheme and path");

        ptrdiff_t colon = str_rfind(text, ':'), bracket = str_rfind(text, ']');
        struct str host = text;

        if (colon >= 0 && colon > bracket) {
                if (!port_parse(str_skip(text, (size_t)colon + 1), &ret->port))
                        return err_set(err, EINVAL, "the port must be a number from 1 to 65535");
                host = str_first(text, (size_t)colon);
        }

        return host_parse_user(host, &ret->host, err);
}

static const char *list_name(enum rule_list list) {
        static const char *const names[] = { [LIST_ALLOW] = "network.allow",
                                             [LIST_DENY] = "network.deny",
                                             [LIST_ALLOW_PRIVATE] = "network.allow_private",
                                             [LIST_QUIET] = "network.quiet",
                                             [LIST_REFUSED] = "network.deny_cidrs",
                                             [LIST_OWN] = "addresses of this host",
                                             [LIST_LISTENER] = "Bailey's own listeners",
                                             [LIST_GIT] = "git",
                                             [LIST_REACH] = "ratchet",
                                             [LIST_RATCHET] = "ratchet",
                                             [LIST_KEPT] = "ratchet",
                                             [LIST_RATCHET_ASK] = "ratchet",
                                             [LIST_KEPT_ASK] = "ratchet" };

        return (size_t)list < sizeof names / sizeof names[0] ? names[list] : NULL;
}

const char *inspect_decision(enum decision decision) {
        if (decision == DECISION_ALLOW)
                return "allow";

        if (decision == DECISION_ASK)
                return "ask";

        return "deny";
}

int inspect_describe(const struct inspector *inspector, const struct verdict *verdict,
                     const struct authority *authority, struct inspect_verdict *ret) {
        struct snapshot_rule rule;

        ret->allowed = verdict->decision == DECISION_ALLOW;
        ret->decision = inspect_decision((enum decision)verdict->decision);
        ret->reason = reason_code((enum reason)verdict->reason);
        ret->text = reason_text((enum reason)verdict->reason);
        ret->needs_request = verdict->needs_request;

        if (verdict->reason == REASON_ADDRESS_CLASS &&
            !(ret->detail = str_dup(str_of(addr_class_name((enum addr_class)verdict->class)))))
                return -ENOMEM;

        if (snapshot_rule(inspector->snapshot, verdict->rule, &rule)) {
                ret->rule = str_dup(rule.text);
                ret->origin = str_dup(rule.origin);
                ret->list = list_name(rule.list);
                if (rule.reason.n > 0 && !(ret->because = str_dup(rule.reason)))
                        return -ENOMEM;
                if (!ret->rule || !ret->origin)
                        return -ENOMEM;
        }

        ret->change = inspect_advice_host(verdict, authority, ret->origin);
        return 0;
}

static int refuse_name(struct inspect_verdict *ret, const struct inspect_question *question, const struct err *why,
                       struct err *err) {
        ret->decision = "deny";
        ret->reason = reason_code(REASON_BAD_NAME);
        ret->text = reason_text(REASON_BAD_NAME);
        ret->target = str_dup(str_of(question->target));
        ret->detail = str_dup(str_of(err_text(why)));
        if (ret->target && ret->detail)
                return 0;

        return err_memory(err);
}

/* The verdicts in the order in which the gateway asks for them; the first refusal stands. */
static int inspect_judge(const struct inspector *inspector, const struct authority *authority,
                         const struct inspect_question *question, struct verdict *ret, struct err *err) {
        *ret = verdict_target(inspector->snapshot, &authority->host, authority->port);
        if (question->address && ret->decision != DECISION_DENY) {
                struct addr addr;

                if (!addr_parse(str_of(question->address), &addr))
                        return err_set(err, EINVAL, "--address must be an IPv4 or IPv6 address");

                struct verdict answer = verdict_address(inspector->snapshot, &authority->host, &addr, authority->port);
                if (answer.decision == DECISION_DENY) {
                        *ret = answer;
                        return 0;
                }
        }

        if ((question->method || question->path) && ret->decision == DECISION_ALLOW && ret->needs_request)
                *ret = verdict_request(inspector->snapshot, &authority->host, authority->port,
                                       str_of(text_or(question->method, "GET")), str_of(text_or(question->path, "/")));

        return 0;
}

int inspect_host(const struct inspector *inspector, const struct inspect_question *question,
                 struct inspect_verdict *ret, struct err *err) {
        cleanup(inspect_verdict_done) struct inspect_verdict answer = { 0 };
        struct authority authority;
        struct verdict verdict;
        struct err why = { 0 };
        char text[AUTHORITY_TEXT_MAX];
        int r = parse_target(str_of(question->target), &authority, &why);
        if (r < 0) {
                r = refuse_name(&answer, question, &why, err);
        } else {
                r = inspect_judge(inspector, &authority, question, &verdict, err);
                authority_text(&authority, text);
                answer.port = authority.port;
                if (r == 0 && (!(answer.target = str_dup(str_of(text))) ||
                               inspect_describe(inspector, &verdict, &authority, &answer) < 0))
                        r = err_memory(err);

                if (r == 0 &&
                    (inspect_ratchets(inspector->policy, &authority, &answer) < 0 ||
                     inspect_notes(inspector->policy, inspector->snapshot, &authority, question, &answer) < 0))
                        r = err_memory(err);
        }

        if (r < 0)
                return r;

        *ret = answer;
        answer = (struct inspect_verdict){ 0 };

        return 0;
}

/* --- paths --- */

bool inspect_is_file(const char *text) {
        struct inspect_ssh ssh;

        return inspect_ssh_address(str_of(text), &ssh) && ssh.short_form &&
               faccessat(AT_FDCWD, text, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

bool inspect_is_path(const char *text) {
        return strchr(text, '/') || text[0] == '~' || text[0] == '.';
}

/* Resolves links in the part of the path that exists; the rest stays as it is spelled. */
static int inspect_resolve(const struct policy *policy, const char *text, char **ret, struct err *err) {
        cleanup(free_ptr) char *expanded = NULL, *path = NULL, *current = realpath(".", NULL);
        if (path_expand_home(str_of(text), policy->home, &expanded) < 0 || !current ||
            path_normalise(str_of(expanded), current, &path) < 0)
                return err_set(err, EINVAL, "the path cannot be used");

        size_t end = strlen(path);
        while (end > 1) {
                cleanup(free_ptr) char *head = str_dup(str_n(path, end)), *real = head ? realpath(head, NULL) : NULL;

                if (real) {
                        if (strcmp(real, "/") == 0 && path[end])
                                *ret = str_dup(str_of(path + end));
                        else
                                *ret = str_format("%s%s", real, path + end);
                        if (!*ret)
                                return err_memory(err);

                        return 0;
                }

                while (end > 1 && path[--end] != '/')
                        ;
        }

        *ret = take_ptr(&path);
        return 0;
}

static bool path_holds(const struct plan_path *known, const char *path) {
        return known->type == PLAN_PATH_LINK ? strcmp(path, known->path) == 0 : path_is_within(path, known->path);
}

/* Paths that a launch would find on this host though no rule names them: parts of repositories, and the targets of
 * their configuration. The deepest one that closes the path, or NULL if a grant is more specific, such as a directory
 * opened by name in a closed home. */
static const struct plan_path *find_closed(const struct plan_host *host, const char *path) {
        const struct plan_path *found = NULL;

        for (size_t i = 0; i < host->paths.n; i++) {
                const struct plan_path *known = &host->paths.p[i];
                if (!path_holds(known, path))
                        continue;

                size_t length = strlen(known->path), best = found ? strlen(found->path) : 0;
                if (length > best || (length == best && !known->grants))
                        found = known;
        }

        return found && !found->grants && found->access != PATH_WRITE ? found : NULL;
}

static int describe_closed(const struct inspector *inspector, struct inspect_verdict *answer, enum path_access *access,
                           struct err *err) {
        struct plan_host host = { 0 };
        int r = survey_host(inspector->policy, inspector->paths, NULL, &host, err);
        if (r < 0)
                return r;

        const struct plan_path *closed = find_closed(&host, answer->target);
        if (closed) {
                *access = closed->access;
                answer->rule = str_dup(str_of(closed->path));
                answer->origin = str_dup(str_of(text_or(closed->origin, "")));
                if (!answer->rule || !answer->origin)
                        r = err_memory(err);
        }

        survey_done(&host);
        return r;
}

/* Below the top of what this rule grants, the broker goes by the name. */
static int describe_settings(const struct path_rule *rule, struct inspect_verdict *answer, enum path_access *access,
                             struct err *err) {
        struct deep_found found;

        if (*access != PATH_WRITE || !rule || rule->own ||
            !deep_settings_find(answer->target, strlen(rule->pattern), &found))
                return 0;

        *access = PATH_READ;
        answer->rule = str_dup(str_n(answer->target, found.n));
        answer->origin = str_dup(STR(DEEP_SETTINGS_WHY "; not held in containers, in degraded mode and on a Mac"));
        if (!answer->rule || !answer->origin)
                return err_memory(err);

        return 0;
}

bool inspect_is_tool(const struct inspector *inspector, const char *text) {
        struct str rest = str_of(text), name;

        return str_split(&rest, ' ', &name) && tool_find(inspector->policy, name) != NULL;
}

bool inspect_is_page(const char *text) {
        return strstr(text, "://") != NULL;
}

int inspect_page(const struct inspector *inspector, const char *text, struct inspect_verdict *ret, struct err *err) {
        return inspect_page_judge(inspector->policy, text, ret, err);
}

/* Nobody is asked about what a rule refuses. */
static int describe_asked(const struct inspector *inspector, struct inspect_verdict *answer, struct err *err) {
        int asked = asks_about_reading(inspector->policy, inspector->paths, answer->target, err);
        const struct origin_text *entry = asked > 0 ? asks_covering(inspector->policy, answer->target) : NULL;

        if (!entry)
                return asked;

        answer->decision = answer->reason = "ask";
        answer->text = "a person is asked when a program opens it";
        free(answer->rule);
        free(answer->origin);
        answer->rule = str_dup(str_of(entry->text));
        answer->origin = str_dup(str_of(entry->origin));

        if (answer->rule && answer->origin)
                return 0;

        return err_memory(err);
}

int inspect_path(const struct inspector *inspector, const char *path, struct inspect_verdict *ret, struct err *err) {
        cleanup(inspect_verdict_done) struct inspect_verdict answer = { .is_path = true };
        const struct path_rule *rule = NULL;
        int r = inspect_resolve(inspector->policy, path, &answer.target, err);
        if (r < 0)
                return r;

        enum path_access access = path_rules_host_access(inspector->paths, answer.target, &rule);
        if (access == PATH_WRITE)
                r = describe_closed(inspector, &answer, &access, err);
        if (r == 0)
                r = describe_settings(rule, &answer, &access, err);
        if (r < 0)
                return r;

        answer.decision = path_access_name(access);
        answer.allowed = access != PATH_DENIED;
        answer.reason = rule ? "rule" : "default";
        if (rule && rule->own)
                answer.text = "the sandbox has a home of its own: what is there outside is not there inside";
        else
                answer.text = inspect_advice_access(access, rule != NULL);
        if (rule && !answer.rule) {
                answer.rule = str_dup(str_of(rule->pattern));
                answer.origin = str_dup(str_of(rule->origin));
                if (!answer.rule || !answer.origin)
                        return err_memory(err);
        }

        r = describe_asked(inspector, &answer, err);
        if (r < 0)
                return r;

        answer.change = inspect_advice_path(access, answer.target, inspector->policy->mode == MODE_READ_ONLY);
        if (inspect_ratchets(inspector->policy, NULL, &answer) < 0)
                return err_memory(err);

        *ret = answer;
        answer = (struct inspect_verdict){ 0 };

        return 0;
}
