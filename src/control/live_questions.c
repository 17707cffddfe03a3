/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions of the gateway, and about a command before it runs, and their answers. The gateway holds the connections
 * and counts their time; here each host and port is asked for once, on every way that the policy opens, and the first
 * answer on any way counts. An answer goes to the gateway before anything else is done with it.
 */
#include "base/cleanup.h"
#include "base/escape.h"
#include "control/live_internal.h"

#include <errno.h>

enum { SUBJECT_MAX = 65536 };

static void deny_now(struct live *c, uint64_t waiting_id) {
        if (*c->parts.gateway)
                gateway_process_answer(*c->parts.gateway, waiting_id, DECISION_DENY);
}

/* What the question is about, for the record and for people: escaped. Heap text. */
static char *subject(const struct question *q) {
        cleanup(buf_done) struct buf out = BUF(SUBJECT_MAX);
        char target[AUTHORITY_TEXT_MAX];
        if (q->push)
                return escape_text(&out, str_of(q->push), QUESTION_SHOWN) < 0 ? NULL : str_dup(buf_str(&out));
        if (!q->command.text) {
                authority_text(&q->target, target);
                return str_dup(str_of(target));
        }
        return escape_text(&out, str_of(q->command.text), QUESTION_SHOWN) < 0 ? NULL : str_dup(buf_str(&out));
}

static char *hook_text(const struct question *q, const char *id, const char *about) {
        if (q->access)
                return str_format("bailey: sandbox %s asks for access: %s. Allow it with: bailey allow --access %s", id,
                                  about, id);
        if (q->page)
                return str_format("bailey: sandbox %s wants a page opened in your browser: %s. Allow it with: bailey "
                                  "allow --page %s",
                                  id, about, id);
        if (q->push)
                return str_format("bailey: sandbox %s waits with a %s. Allow it with: bailey allow --push %s", id,
                                  about, id);
        if (q->command.text)
                return str_format(
                    "bailey: %s wants to run a command that needs approval (%s): %s. Allow it with: bailey "
                    "allow --command %s",
                    id, q->command.reason, about, id);
        if (q->container)
                return str_format(
                    "bailey: container %s wants to connect to %s. Allow it with: bailey allow %s --container %s",
                    q->container, about, about, q->container);
        return str_format("bailey: sandbox %s wants to connect to %s. Allow it with: bailey allow %s --sandbox %s", id,
                          about, about, id);
}

/* For hooks: what a chat shows as text, and what a program reads beside it. */
static void tell_hooks(struct live *c, const struct question *q, const char *about) {
        cleanup(buf_done) struct buf out = BUF(LIVE_EVENT_MAX);
        cleanup(free_ptr) char *text = hook_text(q, c->parts.id, about);
        struct emit j = control_event_open(&out, "ask");
        emit_put_text(&j, "text", text);
        emit_put_text(&j, "sandbox", c->parts.id);
        emit_put_text(&j, "workspace", (*c->parts.policy)->workspace);
        emit_key(&j, "question");
        question_emit(&j, q);
        if (control_close(&j) == 0)
                live_hooks_tell(c, q->number, buf_str(&out));
}

/* On every way that the policy opens. */
static void tell_all(struct live *c, const struct question *q) {
        cleanup(buf_done) struct buf out = BUF(LIVE_EVENT_MAX);
        cleanup(free_ptr) char *about = subject(q);
        (void)audit_note(*c->parts.audit, "asked: %s", about ? about : "?");
        if (control_server_watched(c->server)) {
                struct emit j = control_event_open(&out, "ask");
                emit_key(&j, "question");
                question_emit(&j, q);
                live_publish(c, &j);
        }
        if (about)
                tell_hooks(c, q, about);
        live_prompt_consider(c);
}

static void ask_access(struct live *c, uint64_t id, const struct authority *target, enum event_via via,
                       const char *text) {
        bool agreed = live_access_agreed(c, text);
        struct question *q;

        if (agreed && *c->parts.gateway)
                gateway_process_answer(*c->parts.gateway, id, DECISION_ALLOW);
        else if (!agreed && str_starts(str_of(text), STR(ASK_WANTS)) && live_access_ask(c, id, target, via, text, &q))
                tell_all(c, q);
        else
                deny_now(c, id);
}

void live_ask(struct live *c, uint64_t id, const struct authority *target, enum event_via via, const char *push) {
        struct str words =
            str_starts(str_of(push), STR(ASK_BECAUSE)) ? str_skip(str_of(push), strlen(ASK_BECAUSE)) : STR("");
        if (str_starts(str_of(push), STR(ASK_AGREED)) || str_starts(str_of(push), STR(ASK_WANTS))) {
                ask_access(c, id, target, via, push);
                return;
        }
        bool fresh = push[0] != '\0' && !words.n;
        uint64_t timeout_ns = (*c->parts.policy)->network.ask_timeout_ns;
        struct question *q = fresh ? questions_ask_push(&c->questions, id, target, via, push, timeout_ns)
                                   : questions_ask(&c->questions, id, target, via, timeout_ns, &fresh);
        if (!q) {
                deny_now(c, id);
                return;
        }
        q->container = c->parts.container;
        question_explain(q, words);
        if (fresh)
                tell_all(c, q);
}

int live_ask_command(struct live *c, const struct question_command *command, struct err *e) {
        uint64_t timeout_ns = (*c->parts.policy)->network.ask_timeout_ns;
        if (strlen(command->text) > QUESTION_SHOWN)
                return err_set(e, E2BIG, "the command is too long to be shown: nobody is asked about it");
        const struct question *q = questions_ask_command(&c->questions, command, timeout_ns);
        if (!q)
                return err_memory(e);
        tell_all(c, q);
        return 0;
}

int live_ask_page(struct live *c, uint64_t id, const struct authority *target, const char *text, struct err *e) {
        uint64_t timeout_ns = (*c->parts.policy)->network.ask_timeout_ns;
        struct question *q;

        if (strlen(text) > QUESTION_SHOWN)
                return err_set(e, E2BIG, "the address is too long to be shown: nobody is asked about it");
        q = questions_ask_push(&c->questions, id, target, VIA_NONE, text, timeout_ns);
        if (!q)
                return err_memory(e);
        q->page = true;
        tell_all(c, q);
        return 0;
}

static void publish_answer(struct live *c, uint64_t number, enum control_answer answer, enum control_scope scope,
                           const char *by) {
        cleanup(buf_done) struct buf out = BUF(LIVE_EVENT_MAX);
        if (!control_server_watched(c->server))
                return;
        struct emit j = control_event_open(&out, "answered");
        emit_put_number(&j, "question", number);
        emit_put_text(&j, "answer", control_answer_name(answer));
        emit_put_text(&j, "scope", control_scope_name(scope));
        emit_put_text(&j, "by", by);
        live_publish(c, &j);
}

/* Pages have numbers of their own beside the gateway's. */
static const struct question *waiting_under(const struct live *c, uint64_t id, bool page) {
        for (size_t i = 0; i < c->questions.list.n; i++)
                for (size_t k = 0; k < c->questions.list.p[i].waiting.n; k++)
                        if (c->questions.list.p[i].waiting.p[k] == id && c->questions.list.p[i].page == page)
                                return &c->questions.list.p[i];
        return NULL;
}

/* The question is no longer there. */
static void tell_gone(struct live *c, uint64_t number, const char *target, bool expired) {
        cleanup(buf_done) struct buf out = BUF(LIVE_EVENT_MAX);
        live_prompt_gone(c, number);
        live_hooks_gone(c, number);
        if (expired) {
                (void)audit_note(*c->parts.audit, "answered: %s, deny, by timeout", target);
                publish_answer(c, number, ANSWER_DENY, SCOPE_ONCE, "timeout");
                return;
        }
        (void)audit_note(*c->parts.audit, "no longer asked: %s", target);
        struct emit j = control_event_open(&out, "gone");
        emit_put_number(&j, "question", number);
        live_publish(c, &j);
}

static void drop_waiting(struct live *c, uint64_t id, bool page, bool expired) {
        const struct question *q = waiting_under(c, id, page);
        if (!q)
                return;
        cleanup(free_ptr) char *about = subject(q);
        uint64_t number = questions_gone(&c->questions, id, page);
        if (number)
                tell_gone(c, number, about ? about : "?", expired);
}

void live_ask_gone(struct live *c, uint64_t id, bool expired) {
        drop_waiting(c, id, false, expired);
}

void live_page_gone(struct live *c, uint64_t id, bool expired) {
        if (c)
                drop_waiting(c, id, true, expired);
}

void live_command_gone(struct live *c, bool expired) {
        const struct question *q = c && c->questions.list.n ? &c->questions.list.p[0] : NULL;
        cleanup(free_ptr) char *about = q && q->command.text ? subject(q) : NULL;
        if (!about)
                return;
        uint64_t number = q->number;
        questions_remove(&c->questions, number);
        tell_gone(c, number, about, expired);
}

void live_questions_drop(struct live *c) {
        for (size_t i = 0; i < c->questions.list.n;) {
                const struct question *q = &c->questions.list.p[i];

                if (q->page) /* the gateway has no part in these */
                        i++;
                else
                        live_ask_gone(c, q->waiting.p[0], false);
        }
}

/* The gateway first, the papers after. */
static void settle(struct live *c, struct question *q, enum control_answer answer, enum control_scope scope,
                   const char *by) {
        enum decision d = answer == ANSWER_ALLOW ? DECISION_ALLOW : DECISION_DENY;
        struct authority target = q->target;
        uint64_t number = q->number;
        bool about_command = q->command.text, about_push = q->push;
        const char *kind = question_kind(q);
        cleanup(free_ptr) char *text = subject(q), *command = str_dup(str_of(about_command ? q->command.text : ""));
        for (size_t i = 0; i < q->waiting.n && q->page; i++)
                c->parts.page_decided(c->parts.run, q->waiting.p[i], answer == ANSWER_ALLOW, by);
        for (size_t i = 0; i < q->waiting.n && !q->page && *c->parts.gateway; i++)
                gateway_process_answer(*c->parts.gateway, q->waiting.p[i], d);
        if (about_command)
                c->parts.decided(c->parts.run, answer == ANSWER_ALLOW, by);
        questions_remove(&c->questions, number);
        live_prompt_gone(c, number);
        live_hooks_gone(c, number);
        (void)audit_note(*c->parts.audit, "answered: %s, %s, scope %s, by %s", text ? text : "?",
                         control_answer_name(answer), control_scope_name(scope), by);
        publish_answer(c, number, answer, scope, by);
        const char *shown = about_push && text ? text : target.host.name;
        const struct state_decision decision = { .kind = kind,
                                                 .host = about_command && command ? command : shown,
                                                 .port = about_command ? 0 : target.port,
                                                 .answer = control_answer_name(answer),
                                                 .scope = control_scope_name(scope),
                                                 .by = by };
        live_rules_decided(c, &decision);
}

/* A person's word about a command counts for the commands of later runs too, where its scope reaches there. */
static int remember_command(struct live *c, const struct question *q, enum control_answer answer,
                            enum control_scope scope, struct err *e) {
        cleanup(state_closep) struct state *s = NULL;
        const char *workspace = scope == SCOPE_WORKSPACE ? (*c->parts.policy)->workspace : NULL;
        if (scope < SCOPE_WORKSPACE)
                return 0;
        int r = state_open(&s, e);
        if (r == 0)
                r = state_add_command(s, answer == ANSWER_DENY, workspace, q->command.rule, q->command.text, e);
        return r < 0 ? err_wrap(e, r, "the answer counts for this run, but is not remembered") : 0;
}

int live_answer(struct live *c, uint64_t number, enum control_answer answer, enum control_scope scope, const char *by,
                struct err *e) {
        struct question *q = questions_find(&c->questions, number);
        char pattern[AUTHORITY_TEXT_MAX];
        if (!q)
                return err_set(e, ENOENT,
                               "there is no question %ju; it may have been answered, or nobody waits any more",
                               (uintmax_t)number);
        if (q->command.text) {
                int r = remember_command(c, q, answer, scope, e);
                settle(c, q, answer, scope, by);
                return r;
        }
        if (q->access) {
                int r = answer == ANSWER_ALLOW ? live_access_open(c, q->push, scope, e) : 0;
                if (r < 0) { /* nobody is told yes about what stays closed */
                        settle(c, q, ANSWER_DENY, SCOPE_ONCE, by);
                        return r;
                }
                r = live_access_decided(c, q->push, answer, scope, e);
                settle(c, q, answer, scope, by);
                return r;
        }
        if (q->push) { /* one push: whoever says always has said yes to this one */
                settle(c, q, answer, SCOPE_ONCE, by);
                return 0;
        }
        authority_text(&q->target, pattern);
        settle(c, q, answer, scope, by);
        if (scope == SCOPE_ONCE)
                return 0;
        const struct rule_change change = {
                .deny = answer == ANSWER_DENY, .pattern = pattern, .scope = scope, .by = by
        };
        return live_rules_add(c, &change, e);
}

int live_answer_covered(struct live *c, const char *text, enum control_answer answer, const char *by, unsigned *ret_n,
                        struct err *e) {
        struct pattern p;
        struct question *q;
        *ret_n = 0;
        if (text[0] == '@')
                return 0; /* a group: the gateway judges what waits anew by itself */
        int r = pattern_parse_user(str_of(text), &p, e);
        if (r < 0)
                return -EINVAL;
        while ((q = questions_covered(&c->questions, &p))) {
                settle(c, q, answer, SCOPE_ONCE, by);
                ++*ret_n;
        }
        return 0;
}
