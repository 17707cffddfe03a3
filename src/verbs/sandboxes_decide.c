/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `bailey allow` and `bailey deny`: a rule, or the answer to a question, from outside. Which sandboxes it concerns is
 * decided by its scope and by what waits: see concerned(). What is to be remembered is remembered here too, so that it
 * works while nothing runs.
 */
#include "base/cleanup.h"
#include "base/path.h"
#include "policy/apply.h"
#include "policy/check.h"
#include "policy/pattern.h"
#include "verbs/sandboxes.h"

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

static void deciding_done(struct deciding *d) {
        sandboxes_done(&d->list);
        vec_done(&d->chosen);
        free(d->workspace);
}

static int ask(struct control_client *c, enum control_do what, struct control_message *ret) {
        const struct control_request q = { .what = what };
        struct err gone = { 0 };
        return control_client_call(c, &q, ret, &gone);
}

static bool has_question(const struct deciding *d, struct control_client *c) {
        cleanup(control_message_done) struct control_message m = { 0 };
        if (d->is_group || ask(c, CONTROL_PENDING, &m) < 0)
                return false;
        const struct node *questions = node_get(m.root, STR("questions"));
        for (const struct node *n = questions ? questions->first : NULL; n; n = n->next) {
                const char *text = control_text(n, "host");
                struct host host;
                cleanup(free_ptr) char *bracketed = text && strchr(text, ':') ? str_format("[%s]", text) : NULL;
                if (text && host_parse(str_of(bracketed ? bracketed : text), &host, NULL) == 0 &&
                    pattern_matches(&d->pattern, &host, (uint16_t)control_number(n, "port")))
                        return true;
        }
        return false;
}

static char *workspace_of(struct control_client *c) {
        cleanup(control_message_done) struct control_message m = { 0 };
        const char *text = ask(c, CONTROL_STATUS, &m) < 0 ? NULL : control_text(m.root, "workspace");
        return text ? str_dup(str_of(text)) : NULL;
}

static bool is_in_workspace(const struct deciding *d, struct control_client *c) {
        cleanup(free_ptr) char *workspace = workspace_of(c);

        return workspace && strcmp(workspace, d->workspace) == 0;
}

/* A remembered rule concerns every sandbox that it would have been read by; another one those that wait for it. */
static bool concerned(struct deciding *d, struct control_client *c) {
        if (d->q->whom)
                return is_in_workspace(d, c);
        if (d->q->sandbox || d->q->scope == SCOPE_ALWAYS || d->q->forget)
                return true;
        if (d->q->scope != SCOPE_WORKSPACE)
                return has_question(d, c);
        return is_in_workspace(d, c);
}

/* The workspace of every sandbox that waits for the host. NULL in *ret: none waits. Of different ones a person must say
 * which is meant. */
static int workspace_that_waits(struct deciding *d, char **ret, struct err *e) {
        cleanup(free_ptr) char *found = NULL;

        for (size_t i = 0; i < d->list.clients.n; i++) {
                struct control_client *c = &d->list.clients.p[i];
                cleanup(free_ptr) char *workspace = has_question(d, c) ? workspace_of(c) : NULL;

                if (workspace && found && strcmp(workspace, found) != 0)
                        return err_set(e, EINVAL,
                                       "sandboxes in %s and in %s wait for %s; say with --workspace or --sandbox which "
                                       "one is meant",
                                       found, workspace, d->q->target);
                if (workspace && !found)
                        found = take_ptr(&workspace);
        }
        *ret = take_ptr(&found);
        return 0;
}

/* The only sandbox that runs, if its workspace is below this directory: from ~ nobody means all of ~. */
static char *workspace_below(struct deciding *d) {
        cleanup(free_ptr) char *here = realpath(".", NULL);
        cleanup(free_ptr) char *workspace = d->list.clients.n == 1 ? workspace_of(&d->list.clients.p[0]) : NULL;

        return here && workspace && path_is_within(workspace, here) ? take_ptr(&workspace) : NULL;
}

/* The directory that a remembered rule is for: what was named; else where somebody waits for an answer, wherever this
 * terminal stands; else the current one. */
static int find_workspace(struct deciding *d, struct err *e) {
        const struct decide_request *q = d->q;
        int r = 0;

        if (q->sandbox)
                d->workspace = workspace_of(&d->list.clients.p[0]);
        else if (q->workspace)
                d->workspace = realpath(q->workspace, NULL);
        else if (q->scope == SCOPE_WORKSPACE && !q->forget) {
                r = workspace_that_waits(d, &d->workspace, e);
                if (r == 0 && !d->workspace)
                        d->workspace = workspace_below(d);
        }
        if (r < 0)
                return r;

        if (!d->workspace && !q->workspace && !q->sandbox)
                d->workspace = realpath(".", NULL);
        return d->workspace ? 0 : err_set(e, ENOENT, "the workspace cannot be found");
}

static int choose(struct deciding *d, struct err *e) {
        size_t n = 0;
        for (size_t i = 0; i < d->list.clients.n; i++) {
                bool yes = concerned(d, &d->list.clients.p[i]);
                n += yes;
                if (vec_push(&d->chosen, yes) < 0)
                        return err_memory(e);
        }
        if (n || d->q->forget || d->q->scope > SCOPE_SANDBOX)
                return 0;
        if (d->q->whom)
                return err_set(e, ENOENT,
                               "the container %s is not connected; without --scope the rule is remembered for it",
                               d->q->whom);
        if (d->list.clients.n == 0)
                return err_set(e, ENOENT,
                               "no sandbox is running; with --scope workspace or --scope always the rule is "
                               "remembered for later ones");
        if (d->q->scope == SCOPE_ONCE)
                return err_set(e, ENOENT, "no question that waits is about %s; `bailey pending` lists them",
                               d->q->target);
        if (d->list.clients.n > 1)
                return err_set(e, EINVAL, "%zu sandboxes are running, and none waits for %s; name one with --sandbox",
                               d->list.clients.n, d->q->target);
        d->chosen.p[0] = true;
        return 0;
}

static int remember(struct deciding *d, struct err *e) {
        cleanup(state_closep) struct state *s = NULL;
        const struct decide_request *q = d->q;
        int r = state_open(&s, e), n;
        if (r < 0)
                return r;
        if (q->forget) {
                n = q->whom ? state_forget_own_rule(s, d->workspace, q->target, e)
                            : state_forget_rule(s, d->workspace, q->target, e);
                if (n > 0)
                        (void)buf_printf(d->out, "forgotten: %s\n", q->target);
                return n < 0 ? n : 0;
        }
        r = state_add_rule(s, q->deny, q->scope == SCOPE_WORKSPACE ? d->workspace : NULL, q->target, e);
        const struct state_decision decision = { .host = q->target,
                                                 .answer = q->deny ? "deny" : "allow",
                                                 .scope = control_scope_name(q->scope),
                                                 .by = "command line" };
        if (r == 0)
                r = state_add_decision(s, &decision, e);
        const char *where = q->scope == SCOPE_WORKSPACE ? d->workspace : "in every workspace";
        if (r == 0 && q->whom)
                (void)buf_printf(d->out, "remembered: %s %s for the container %s\n", q->deny ? "deny" : "allow",
                                 q->target, q->whom);
        else if (r == 0)
                (void)buf_printf(d->out, "remembered: %s %s %s\n", q->deny ? "deny" : "allow", q->target, where);
        return r;
}

/* One that is gone or says no does not keep the others from being told; the last no is the result. */
static int tell(struct deciding *d, struct err *e) {
        const struct decide_request *q = d->q;
        struct control_request order = { .what = q->forget ? CONTROL_FORGET
                                                 : q->deny ? CONTROL_DENY
                                                           : CONTROL_ALLOW,
                                         .scope = q->scope };
        int result = 0;
        snprintf(order.pattern, sizeof order.pattern, "%s", q->target);
        for (size_t i = 0; i < d->list.clients.n; i++) {
                struct control_client *c = &d->list.clients.p[i];
                cleanup(control_message_done) struct control_message m = { 0 };
                struct err why = { 0 };
                int r = d->chosen.p[i] ? control_client_call(c, &order, &m, &why) : -ECONNRESET;
                if (r == -ECONNRESET || (r < 0 && q->forget))
                        continue;
                if (r < 0) {
                        result = err_set(e, why.code, "%s: %s", c->id, err_text(&why));
                        continue;
                }
                uint64_t answered = control_number(m.root, "answered");
                (void)buf_printf(d->out, "%s: %s %s", c->id,
                                 q->forget ? "forgotten:"
                                 : q->deny ? "denied"
                                           : "allowed",
                                 q->target);
                (void)buf_printf(d->out, answered ? ", and it was waiting\n" : "\n");
        }
        return result;
}

static int read_target(struct deciding *d, struct err *e) {
        const struct decide_request *q = d->q;
        bool deny = q->deny || q->forget;
        int r = deny ? check_denied_pattern(str_of(q->target), e) : check_host_pattern(str_of(q->target), e);
        if (r < 0)
                return -EINVAL;
        if (strlen(q->target) >= sizeof((struct control_request *)0)->pattern)
                return err_set(e, EINVAL, "the pattern is too long");
        d->is_group = q->target[0] == '@';
        r = d->is_group ? 0 : pattern_parse_refusal(str_of(q->target), &d->pattern, e);
        return r < 0 ? -EINVAL : 0;
}

/*
 * Commands.
 */
static uint64_t question_of_kind(const struct control_message *m, const char *wanted) {
        const struct node *questions = node_get(m->root, STR("questions"));
        for (const struct node *n = questions ? questions->first : NULL; n; n = n->next) {
                const char *kind = control_text(n, "kind");
                if (kind && strcmp(kind, wanted) == 0)
                        return control_number(n, "id");
        }
        return 0;
}

/* A command, or a push: one at a time, the oldest first. */
static const char *waiting_kind(const struct decide_request *q) {
        if (q->access)
                return "access";
        if (q->page)
                return "page";
        return q->push ? "push" : "command";
}

static int answer_waiting(const struct decide_request *q, struct buf *out, struct err *e) {
        cleanup(sandboxes_done) struct sandboxes_list list = { 0 };
        cleanup(control_message_done) struct control_message pending = { 0 }, done = { 0 };
        int r = sandboxes_open(q->target, q->deny ? "bailey deny" : "bailey allow", &list, e);
        if (r < 0)
                return r;
        struct control_client *c = &list.clients.p[0];
        const struct control_request ask = { .what = CONTROL_PENDING };
        r = control_client_call(c, &ask, &pending, e);
        if (r < 0)
                return r;
        const struct control_request answer = { .what = CONTROL_ANSWER,
                                                .question = question_of_kind(&pending, waiting_kind(q)),
                                                .answer = q->deny ? ANSWER_DENY : ANSWER_ALLOW,
                                                .scope = q->scope };
        if (!answer.question)
                return err_set(e, ENOENT, "no question about %s %s waits in %s; `bailey pending` lists what does",
                               q->access ? "" : "a", waiting_kind(q), c->id);
        r = control_client_call(c, &answer, &done, e);
        return r < 0 ? r : buf_printf(out, "%s: %s\n", c->id, q->deny ? "denied" : "allowed");
}

static int forget_command(const struct decide_request *q, struct buf *out, struct err *e) {
        cleanup(state_closep) struct state *s = NULL;
        cleanup(free_ptr) char *workspace = realpath(q->workspace ? q->workspace : ".", NULL);
        int r = workspace ? state_open(&s, e) : err_set(e, ENOENT, "the workspace cannot be found");
        int n = r < 0 ? r : state_forget_command(s, workspace, q->target, e);
        if (n == 0)
                return err_set(e, ENOENT, "nothing is remembered about this command, here or for every workspace");
        return n < 0 ? n : buf_printf(out, "forgotten: %d\n", n);
}

static int forget_access(const struct decide_request *q, struct buf *out, struct err *e) {
        cleanup(state_closep) struct state *s = NULL;
        cleanup(free_ptr) char *workspace = realpath(q->workspace ? q->workspace : ".", NULL);

        if (!approved_is_path(str_of(q->target)))
                return err_set(e, EINVAL, "--forget --access takes 'read /PATH' or 'write /PATH', as it was asked for");
        int r = workspace ? state_open(&s, e) : err_set(e, ENOENT, "the workspace cannot be found");
        int n = r < 0 ? r : state_forget_rule(s, workspace, q->target, e);
        if (n == 0)
                return err_set(e, ENOENT, "nothing is remembered about this path, here or for every workspace");
        return n < 0 ? n : buf_printf(out, "forgotten: %d\n", n);
}

/* As the control protocol has it: "read /PATH" or "write /PATH". */
static int path_target(const struct decide_request *q, char **ret, struct err *e) {
        cleanup(free_ptr) char *path = NULL, *here = realpath(".", NULL), *expanded = NULL;
        int r = path_expand_home(str_of(q->target), path_home(), &expanded);

        r = r < 0 ? r : path_normalise(str_of(expanded), here ? here : "/", &path);
        if (r < 0 || !path)
                return err_set(e, EINVAL, "%s is no path", q->target);
        r = policy_check_value(ROW_READ, str_of(path), e);
        if (r < 0)
                return r;
        *ret = str_format("%s %s", q->write ? "write" : "read", path);
        return *ret ? 0 : err_memory(e);
}

static int decide_path(const struct decide_request *asked, struct buf *out, struct err *e) {
        cleanup(free_ptr) char *target = NULL;
        struct decide_request q = *asked;
        int r = q.deny ? err_set(e, EINVAL,
                                 "what no rule grants is closed; `bailey allow --forget --path` takes back what "
                                 "was opened")
                       : path_target(&q, &target, e);
        if (r < 0)
                return r;
        if (strlen(target) >= sizeof((struct control_request *)0)->pattern)
                return err_set(e, EINVAL, "the path is too long");
        q.target = target;

        cleanup(deciding_done) struct deciding d = { .q = &q, .out = out, .is_group = true };
        r = sandboxes_open(q.sandbox, "bailey allow", &d.list, e);
        if (r == 0)
                r = find_workspace(&d, e);
        if (r == 0 && q.scope == SCOPE_ONCE)
                q.scope = SCOPE_SANDBOX; /* nobody waits for it: there is no less than the rest of the run */
        if (r == 0)
                r = choose(&d, e);
        if (r == 0) /* a sandbox that says no has the last word: what it refuses is not remembered */
                r = tell(&d, e);
        return r == 0 && (q.forget || q.scope > SCOPE_SANDBOX) ? remember(&d, e) : r;
}

int sandboxes_decide(const struct decide_request *q, struct buf *out, struct err *e) {
        cleanup(deciding_done) struct deciding d = { .q = q, .out = out };
        if (q->path)
                return decide_path(q, out, e);
        if ((q->push || q->page) && q->forget)
                return err_set(e, EINVAL, "the answer about a %s is for this one and not remembered", waiting_kind(q));
        if (q->access && q->forget)
                return forget_access(q, out, e);
        if (q->push || q->page || q->access)
                return answer_waiting(q, out, e);
        if (q->command)
                return q->forget ? forget_command(q, out, e) : answer_waiting(q, out, e);
        int r = read_target(&d, e);
        if (r == 0)
                r = sandboxes_open(q->sandbox, q->deny ? "bailey deny" : "bailey allow", &d.list, e);
        if (r < 0)
                return r;
        r = find_workspace(&d, e);
        if (r == 0)
                r = choose(&d, e);
        if (r == 0 && (q->forget || q->scope > SCOPE_SANDBOX))
                r = remember(&d, e);
        return r < 0 ? r : tell(&d, e);
}
