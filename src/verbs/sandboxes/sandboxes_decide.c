/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `bailey allow` and `bailey deny`: a rule, or the answer to a question, from outside. Its scope and the pending
 * questions decide which sandboxes it concerns: see decide_concerned(). Rules are remembered here too, so that this
 * works while nothing runs.
 */
#include "base/cleanup.h"
#include "base/escape.h"
#include "base/log.h"
#include "base/paths/path.h"
#include "control/questions.h"
#include "policy/apply.h"
#include "policy/approved.h"
#include "policy/check.h"
#include "policy/match/pattern.h"
#include "verbs/sandboxes/sandboxes.h"

#include <errno.h>
#include <stdio.h>

struct deciding {
        const struct decide_request *q;
        char *workspace; /* that the rule is for */
        struct pattern pattern;
        bool is_group;
        struct sandboxes_list list;
        VEC(bool) chosen;
        struct buf *out;
};

static void deciding_done(struct deciding *deciding) {
        sandboxes_done(&deciding->list);
        vec_done(&deciding->chosen);
        free(deciding->workspace);
}

static int decide_ask(struct control_client *client, enum control_do what, struct control_message *ret) {
        const struct control_request request = { .what = what };
        struct err gone = { 0 };
        return control_client_call(client, &request, ret, &gone);
}

static bool has_question(const struct deciding *deciding, struct control_client *client) {
        cleanup(control_message_done) struct control_message message = { 0 };
        if (deciding->is_group || decide_ask(client, CONTROL_PENDING, &message) < 0)
                return false;

        const struct node *questions = node_get(message.root, STR("questions"));
        for (const struct node *node = questions ? questions->first : NULL; node; node = node->next) {
                const char *text = control_text(node, "host");
                struct host host;
                cleanup(free_ptr) char *bracketed = text && strchr(text, ':') ? str_format("[%s]", text) : NULL;
                if (text && host_parse(str_of(bracketed ? bracketed : text), &host, NULL) == 0 &&
                    pattern_matches(&deciding->pattern, &host, (uint16_t)control_number(node, "port")))
                        return true;
        }

        return false;
}

static char *workspace_of(struct control_client *client) {
        cleanup(control_message_done) struct control_message message = { 0 };
        const char *text =
            decide_ask(client, CONTROL_STATUS, &message) < 0 ? NULL : control_text(message.root, "workspace");
        if (text)
                return str_dup(str_of(text));

        return NULL;
}

/* The workspace stands for one guest or container: what is decided for it concerns nobody else. */
static bool decide_is_for_one(const struct decide_request *request) {
        return request->whom || request->guest;
}

static bool is_in_workspace(const struct deciding *deciding, struct control_client *client) {
        cleanup(free_ptr) char *workspace = workspace_of(client);

        return workspace && strcmp(workspace, deciding->workspace) == 0;
}

/* A remembered rule concerns every sandbox that it would have been read by; another one those that wait for it. */
static bool decide_concerned(struct deciding *deciding, struct control_client *client) {
        if (decide_is_for_one(deciding->q))
                return is_in_workspace(deciding, client);
        if (deciding->q->sandbox || deciding->q->scope == SCOPE_ALWAYS || deciding->q->forget)
                return true;
        if (deciding->q->scope != SCOPE_WORKSPACE)
                return has_question(deciding, client);
        return is_in_workspace(deciding, client);
}

/* The workspace of the sandboxes that wait for the host. NULL in *ret: none waits. If they differ, a person must say
 * which one. */
static int workspace_that_waits(struct deciding *deciding, char **ret, struct err *err) {
        cleanup(free_ptr) char *found = NULL;

        for (size_t i = 0; i < deciding->list.clients.n; i++) {
                struct control_client *client = &deciding->list.clients.p[i];
                cleanup(free_ptr) char *workspace = has_question(deciding, client) ? workspace_of(client) : NULL;

                if (workspace && found && strcmp(workspace, found) != 0)
                        return err_set(err, EINVAL,
                                       "sandboxes in %s and in %s wait for %s; say with --workspace or --sandbox which "
                                       "one is meant",
                                       found, workspace, deciding->q->target);

                if (workspace && !found)
                        found = take_ptr(&workspace);
        }

        *ret = take_ptr(&found);
        return 0;
}

/* The only sandbox that runs, if its workspace is below this directory: from ~ nobody means all of ~. */
static char *workspace_below(struct deciding *deciding) {
        cleanup(free_ptr) char *here = realpath(".", NULL);
        cleanup(free_ptr) char *workspace =
            deciding->list.clients.n == 1 ? workspace_of(&deciding->list.clients.p[0]) : NULL;

        return here && workspace && path_is_within(workspace, here) ? take_ptr(&workspace) : NULL;
}

/* The directory that a remembered rule is for: the named one; else that of a sandbox that waits for an answer, from any
 * terminal; else the current one. */
static int find_workspace(struct deciding *deciding, struct err *err) {
        const struct decide_request *request = deciding->q;
        int r = 0;

        if (request->sandbox)
                deciding->workspace = workspace_of(&deciding->list.clients.p[0]);
        else if (request->workspace)
                deciding->workspace = realpath(request->workspace, NULL);
        else if (request->scope == SCOPE_WORKSPACE && !request->forget) {
                r = workspace_that_waits(deciding, &deciding->workspace, err);
                if (r == 0 && !deciding->workspace)
                        deciding->workspace = workspace_below(deciding);
        }

        if (r < 0)
                return r;

        if (!deciding->workspace && !request->workspace && !request->sandbox)
                deciding->workspace = realpath(".", NULL);

        if (!deciding->workspace)
                return err_set(err, ENOENT, "the workspace cannot be found");

        return 0;
}

static int decide_choose(struct deciding *deciding, struct err *err) {
        size_t n = 0;
        for (size_t i = 0; i < deciding->list.clients.n; i++) {
                bool yes = decide_concerned(deciding, &deciding->list.clients.p[i]);

                n += yes;
                if (vec_push(&deciding->chosen, yes) < 0)
                        return err_memory(err);
        }

        if (n || deciding->q->forget || deciding->q->scope > SCOPE_SANDBOX)
                return 0;

        if (deciding->q->whom)
                return err_set(err, ENOENT,
                               "the container %s is not connected; without --scope the rule is remembered for it",
                               deciding->q->whom);

        if (deciding->list.clients.n == 0)
                return err_set(err, ENOENT,
                               "no sandbox is running; with --scope workspace or --scope always the rule is "
                               "remembered for later ones");

        if (deciding->q->scope == SCOPE_ONCE)
                return err_set(err, ENOENT, "no question that waits is about %s; `bailey pending` lists them",
                               deciding->q->target);

        if (deciding->list.clients.n > 1)
                return err_set(err, EINVAL, "%zu sandboxes are running, and none waits for %s; name one with --sandbox",
                               deciding->list.clients.n, deciding->q->target);

        deciding->chosen.p[0] = true;
        return 0;
}

static int decide_forget_rule(struct state *state, const struct decide_request *request, const char *workspace,
                              struct err *err) {
        if (decide_is_for_one(request))
                return state_forget_own_rule(state, workspace, request->target, err);

        return state_forget_rule(state, workspace, request->target, err);
}

/* What one guest or container had for itself is gone, and the same is remembered for all: it holds for this one too. */
static void decide_tell_left(struct state *state, const struct decide_request *request) {
        struct approved approved = { 0 };
        struct err none = { 0 };

        if (state_rules(state, &approved, &none) < 0)
                return;

        for (size_t i = 0; i < approved.rules.n; i++) {
                const struct approved_rule *rule = &approved.rules.p[i];

                if (rule->workspace || strcmp(rule->pattern, request->target) != 0)
                        continue;

                const char *verb = rule->deny ? "deny" : "allow";
                log_notice("%s stays under `%s`: that is remembered for every sandbox, and `bailey %s --forget %s` "
                           "takes it back",
                           request->target, verb, verb, request->target);
        }

        approved_done(&approved);
}

static int decide_remember(struct deciding *deciding, struct err *err) {
        cleanup(state_closep) struct state *s = NULL;
        const struct decide_request *request = deciding->q;
        int r = state_open(&s, err), n;
        if (r < 0)
                return r;

        if (request->forget) {
                n = decide_forget_rule(s, request, deciding->workspace, err);
                if (n > 0)
                        (void)buf_printf(deciding->out, "forgotten: %s\n", request->target);
                if (n >= 0 && decide_is_for_one(request))
                        decide_tell_left(s, request);
                if (n < 0)
                        return n;

                return 0;
        }

        r = state_add_rule(s, request->deny, request->scope == SCOPE_WORKSPACE ? deciding->workspace : NULL,
                           request->target, err);
        const struct state_decision decision = { .host = request->target,
                                                 .answer = request->deny ? "deny" : "allow",
                                                 .scope = control_scope_name(request->scope),
                                                 .by = "command line" };
        if (r == 0)
                r = state_add_decision(s, &decision, err);

        const char *where = request->scope == SCOPE_WORKSPACE ? deciding->workspace : "in every workspace";

        if (r == 0 && request->whom)
                (void)buf_printf(deciding->out, "remembered: %s %s for the container %s\n",
                                 request->deny ? "deny" : "allow", request->target, request->whom);
        else if (r == 0)
                (void)buf_printf(deciding->out, "remembered: %s %s %s\n", request->deny ? "deny" : "allow",
                                 request->target, where);

        return r;
}

/* One that is gone or says no does not keep the others from being told; the last no is the result. */
static enum control_do decide_what(const struct decide_request *request) {
        if (request->forget)
                return CONTROL_FORGET;
        if (request->deny)
                return CONTROL_DENY;

        return CONTROL_ALLOW;
}

static const char *decided_word(const struct decide_request *request) {
        if (request->forget)
                return "forgotten:";
        if (request->deny)
                return "denied";

        return "allowed";
}

/* Without a name it is the rule for this workspace and for all that is taken back: guests keep what they have for
 * themselves. */
static enum control_scope decide_order_scope(const struct decide_request *request) {
        bool for_all = request->forget && !request->sandbox && !decide_is_for_one(request);

        return for_all ? SCOPE_ALWAYS : request->scope;
}

static int decide_tell(struct deciding *deciding, struct err *err) {
        const struct decide_request *request = deciding->q;
        struct control_request order = { .what = decide_what(request), .scope = decide_order_scope(request) };
        int result = 0;

        snprintf(order.pattern, sizeof order.pattern, "%s", request->target);

        for (size_t i = 0; i < deciding->list.clients.n; i++) {
                struct control_client *client = &deciding->list.clients.p[i];
                cleanup(control_message_done) struct control_message message = { 0 };
                struct err why = { 0 };
                int r = -ECONNRESET;

                if (deciding->chosen.p[i])
                        r = control_client_call(client, &order, &message, &why);

                if (r == -ECONNRESET || (r < 0 && request->forget && client->not_found))
                        continue;

                if (r < 0) {
                        result = err_set(err, why.code, "%s: %s", client->id, err_text(&why));
                        continue;
                }

                uint64_t answered = control_number(message.root, "answered");
                (void)buf_printf(deciding->out, "%s: %s %s", client->id, decided_word(request), request->target);
                (void)buf_printf(deciding->out, answered ? ", and it was waiting\n" : "\n");
        }

        return result;
}

static int read_target(struct deciding *deciding, struct err *err) {
        const struct decide_request *request = deciding->q;
        bool deny = request->deny || request->forget;
        int r = deny ? check_denied_pattern(str_of(request->target), err)
                     : check_host_pattern(str_of(request->target), err);
        if (r < 0)
                return -EINVAL;
        if (strlen(request->target) >= sizeof((struct control_request *)0)->pattern)
                return err_set(err, EINVAL, "the pattern is too long");

        deciding->is_group = request->target[0] == '@';
        if (deciding->is_group)
                r = 0;
        else
                r = pattern_parse_refusal(str_of(request->target), &deciding->pattern, err);

        if (r < 0)
                return -EINVAL;

        return 0;
}

/*
 * Commands.
 */
static const struct node *question_of_kind(const struct control_message *message, const char *wanted, uint64_t number,
                                           size_t *ret_n) {
        const struct node *questions = node_get(message->root, STR("questions")), *found = NULL;

        *ret_n = 0;
        for (const struct node *node = questions ? questions->first : NULL; node; node = node->next) {
                const char *kind = control_text(node, "kind");

                if (!kind || strcmp(kind, wanted) != 0 || (number && control_number(node, "id") != number))
                        continue;
                if (!found)
                        found = node;
                (*ret_n)++;
        }

        return found;
}

/* "ID" or "ID/NUMBER", as `bailey pending` has it. 0: no number is given. */
static int read_question(const char *target, char **ret_sandbox, uint64_t *ret_number, struct err *err) {
        struct str rest = str_of(target), sandbox = rest;
        ptrdiff_t slash = str_find(rest, '/');

        *ret_number = 0;
        if (slash >= 0) {
                sandbox = str_first(rest, (size_t)slash);
                if (!str_to_u64(str_skip(rest, (size_t)slash + 1), UINT64_MAX, ret_number) || *ret_number == 0)
                        return err_set(err, EINVAL,
                                       "behind the / stands the number of a question, as `bailey pending` "
                                       "shows it");
        }

        *ret_sandbox = str_dup(sandbox);
        if (!*ret_sandbox)
                return err_memory(err);

        return 0;
}

static const char *waiting_kind(const struct decide_request *request) {
        if (request->access)
                return "access";
        if (request->page)
                return "page";
        if (request->call)
                return "call";
        if (request->push)
                return "push";

        return "command";
}

static int answer_waiting(const struct decide_request *request, struct buf *out, struct err *err) {
        cleanup(sandboxes_done) struct sandboxes_list list = { 0 };
        cleanup(control_message_done) struct control_message pending = { 0 }, done = { 0 };
        cleanup(free_ptr) char *sandbox = NULL;
        const char *kind = waiting_kind(request), *article = request->access ? "" : "a ";
        uint64_t number;
        size_t n;
        int r = read_question(request->target, &sandbox, &number, err);

        if (r == 0)
                r = sandboxes_open(sandbox, request->deny ? "bailey deny" : "bailey allow", &list, err);
        if (r < 0)
                return r;

        struct control_client *client = &list.clients.p[0];
        const struct control_request ask = { .what = CONTROL_PENDING };
        r = control_client_call(client, &ask, &pending, err);
        if (r < 0)
                return r;

        const struct node *question = question_of_kind(&pending, kind, number, &n);
        if (!question)
                return err_set(err, ENOENT, "no %squestion about %s%s waits in %s; `bailey pending` lists what does",
                               number ? "such " : "", article, kind, client->id);
        if (n > 1) /* which one was read is not known here */
                return err_set(err, EINVAL,
                               "%zu questions of this kind wait in %s: name one by its number, as `bailey pending` "
                               "shows it (--%s %s/%ju)",
                               n, client->id, kind, client->id, (uintmax_t)control_number(question, "id"));

        const struct control_request answer = { .what = CONTROL_ANSWER,
                                                .question = control_number(question, "id"),
                                                .answer = request->deny ? ANSWER_DENY : ANSWER_ALLOW,
                                                .scope = request->scope };

        r = control_client_call(client, &answer, &done, err);
        if (r < 0)
                return r;

        r = buf_printf(out, "%s: %s ", client->id, request->deny ? "denied" : "allowed");
        if (r == 0) /* the key of what it is about is the kind's name */
                r = escape_text(out, str_of(control_text(question, kind)), QUESTION_SHOWN);
        if (r < 0)
                return r;

        return buf_add(out, "\n");
}

static int forget_command(const struct decide_request *request, struct buf *out, struct err *err) {
        cleanup(state_closep) struct state *s = NULL;
        cleanup(free_ptr) char *workspace = realpath(text_or(request->workspace, "."), NULL);
        int r = workspace ? state_open(&s, err) : err_set(err, ENOENT, "the workspace cannot be found");
        int n = r < 0 ? r : state_forget_command(s, workspace, request->target, err);
        if (n == 0)
                return err_set(err, ENOENT, "nothing is remembered about this command, here or for every workspace");
        if (n < 0)
                return n;

        return buf_printf(out, "forgotten: %d\n", n);
}

static int forget_access(const struct decide_request *request, struct buf *out, struct err *err) {
        cleanup(state_closep) struct state *s = NULL;
        cleanup(free_ptr) char *workspace = realpath(text_or(request->workspace, "."), NULL);

        if (!approved_is_path(str_of(request->target)))
                return err_set(err, EINVAL,
                               "--forget --access takes 'read /PATH' or 'write /PATH', as it was asked for");

        int r = workspace ? state_open(&s, err) : err_set(err, ENOENT, "the workspace cannot be found");
        int n = r < 0 ? r : decide_forget_rule(s, request, workspace, err);
        if (n == 0)
                return err_set(err, ENOENT, "nothing is remembered about this path, here or for every workspace");
        if (n < 0)
                return n;

        return buf_printf(out, "forgotten: %d\n", n);
}

/* As the control protocol has it: "read /PATH" or "write /PATH". */
static int path_target(const struct decide_request *request, char **ret, struct err *err) {
        cleanup(free_ptr) char *path = NULL, *here = realpath(".", NULL), *expanded = NULL;
        int r = path_expand_home(str_of(request->target), path_home(), &expanded);

        if (r >= 0)
                r = path_normalise(str_of(expanded), text_or(here, "/"), &path);
        if (r < 0 || !path)
                return err_set(err, EINVAL, "%s is no path", request->target);

        r = policy_check_value(ROW_READ, str_of(path), err);
        if (r < 0)
                return r;

        *ret = str_format("%s %s", request->write ? "write" : "read", path);
        if (!*ret)
                return err_memory(err);

        return 0;
}

static int decide_path(const struct decide_request *asked, struct buf *out, struct err *err) {
        cleanup(free_ptr) char *target = NULL;
        struct decide_request request = *asked;
        int r = request.deny ? err_set(err, EINVAL,
                                       "what no rule grants is closed; `bailey allow --forget --path` takes back what "
                                       "was opened")
                             : path_target(&request, &target, err);
        if (r < 0)
                return r;
        if (strlen(target) >= sizeof((struct control_request *)0)->pattern)
                return err_set(err, EINVAL, "the path is too long");

        request.target = target;

        cleanup(deciding_done) struct deciding deciding = { .q = &request, .out = out, .is_group = true };
        r = sandboxes_open(request.sandbox, "bailey allow", &deciding.list, err);
        if (r == 0)
                r = find_workspace(&deciding, err);
        if (r == 0 && request.scope == SCOPE_ONCE)
                request.scope = SCOPE_SANDBOX; /* nobody waits for it: there is no less than the rest of the run */
        if (r == 0)
                r = decide_choose(&deciding, err);
        if (r == 0) /* a sandbox that says no has the last word: what it refuses is not remembered */
                r = decide_tell(&deciding, err);

        if (r == 0 && (request.forget || request.scope > SCOPE_SANDBOX))
                return decide_remember(&deciding, err);

        return r;
}

int sandboxes_decide(const struct decide_request *request, struct buf *out, struct err *err) {
        cleanup(deciding_done) struct deciding deciding = { .q = request, .out = out };

        if (request->path)
                return decide_path(request, out, err);
        if ((request->push || request->page || request->call) && request->forget)
                return err_set(err, EINVAL, "the answer about a %s is not remembered beyond the run",
                               waiting_kind(request));
        if (request->access && request->forget)
                return forget_access(request, out, err);
        if (request->push || request->page || request->call || request->access)
                return answer_waiting(request, out, err);
        if (request->command) {
                if (request->forget)
                        return forget_command(request, out, err);
                return answer_waiting(request, out, err);
        }

        int r = read_target(&deciding, err);
        if (r == 0)
                r = sandboxes_open(request->sandbox, request->deny ? "bailey deny" : "bailey allow", &deciding.list,
                                   err);
        if (r < 0)
                return r;

        r = find_workspace(&deciding, err);
        if (r == 0)
                r = decide_choose(&deciding, err);
        if (r == 0 && (request->forget || request->scope > SCOPE_SANDBOX))
                r = decide_remember(&deciding, err);
        if (r < 0)
                return r;

        return decide_tell(&deciding, err);
}
