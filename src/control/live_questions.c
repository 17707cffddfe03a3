/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions of the gateway, and about a command before it runs, and their answers. The gateway holds the connections
 * and their deadlines. Here each host and port is asked about once, over every channel that the policy opens, and the
 * first answer counts. An answer goes to the gateway before anything else happens.
 */
#include "base/cleanup.h"
#include "base/escape.h"
#include "base/paths/path.h"
#include "control/live_internal.h"
#include "policy/approved.h"

#include <errno.h>

enum { SUBJECT_MAX = 65536 };

static void deny_now(struct live *live, uint64_t waiting_id) {
        if (*live->parts.gateway)
                gateway_process_answer(*live->parts.gateway, waiting_id, DECISION_DENY);
}

/* What the question is about, for the record and for people: escaped. Heap text. */
static char *questions_subject(const struct question *question) {
        cleanup(buf_done) struct buf out = BUF(SUBJECT_MAX);
        char target[AUTHORITY_TEXT_MAX];

        if (question->call) {
                if (escape_text(&out, str_of(question->push), QUESTION_SHOWN) < 0 ||
                    buf_printf(&out, " (tool %s in ", question->tool) < 0 ||
                    escape_text(&out, str_of(question->directory), QUESTION_SHOWN) < 0 || buf_add(&out, ")") < 0)
                        return NULL;
                return str_dup(buf_str(&out));
        }

        if (question->push) {
                if (escape_text(&out, str_of(question->push), QUESTION_SHOWN) < 0 ||
                    (question->of_tool && buf_printf(&out, " (tool %s)", question->tool) < 0))
                        return NULL;
                return str_dup(buf_str(&out));
        }

        if (!question->command.text) {
                authority_text(&question->target, target);
                return str_dup(str_of(target));
        }

        if (escape_text(&out, str_of(question->command.text), QUESTION_SHOWN) < 0)
                return NULL;

        return str_dup(buf_str(&out));
}

/* Who opens it is the sandbox's text, too. */
static char *hook_text_held(const struct question *question, const char *id, const char *about) {
        cleanup(buf_done) struct buf reason = BUF(SUBJECT_MAX);
        uintmax_t number = question->number;

        if (escape_text(&reason, str_of(text_or(question->reason, "")), QUESTION_SHOWN) < 0 || !buf_text(&reason))
                return NULL;

        return str_format("bailey: sandbox %s waits to open what no rule grants: %s (%s). Allow it with: bailey allow "
                          "--access %s/%ju",
                          id, about, reason.p, id, number);
}

static char *hook_text(const struct question *question, const char *id, const char *about) {
        uintmax_t number = question->number;

        if (question->held)
                return hook_text_held(question, id, about);

        if (question->access)
                return str_format("bailey: sandbox %s asks for access: %s. Allow it with: bailey allow --access %s/%ju",
                                  id, about, id, number);

        if (question->page)
                return str_format("bailey: sandbox %s wants a page opened in your browser: %s. Allow it with: bailey "
                                  "allow --page %s/%ju",
                                  id, about, id, number);

        if (question->call)
                return str_format(
                    "bailey: sandbox %s calls a tool of this host: %s. Allow it with: bailey allow --call "
                    "%s/%ju",
                    id, about, id, number);

        if (question->push)
                return str_format("bailey: sandbox %s waits with a %s. Allow it with: bailey allow --push %s/%ju", id,
                                  about, id, number);

        if (question->command.text)
                return str_format(
                    "bailey: %s wants to run a command that needs approval (%s): %s. Allow it with: bailey "
                    "allow --command %s/%ju",
                    id, question->command.reason, about, id, number);

        if (question->container)
                return str_format(
                    "bailey: container %s wants to connect to %s. Allow it with: bailey allow %s --container %s",
                    question->container, about, about, question->container);

        return str_format("bailey: sandbox %s wants to connect to %s. Allow it with: bailey allow %s --sandbox %s", id,
                          about, about, id);
}

/* For hooks: what a chat shows as text, and what a program reads beside it. */
static void tell_hooks(struct live *live, const struct question *question, const char *about) {
        cleanup(buf_done) struct buf out = BUF(LIVE_EVENT_MAX);
        cleanup(free_ptr) char *text = hook_text(question, live->parts.id, about);
        struct emit j = control_event_open(&out, "ask");

        emit_put_text(&j, "text", text);
        emit_put_text(&j, "sandbox", live->parts.id);
        emit_put_text(&j, "workspace", (*live->parts.policy)->workspace);
        emit_key(&j, "question");
        question_emit(&j, question);

        if (control_close(&j) == 0)
                live_hooks_tell(live, question->number, buf_str(&out));
}

/* On every way that the policy opens. */
static void tell_all(struct live *live, const struct question *question) {
        cleanup(buf_done) struct buf out = BUF(LIVE_EVENT_MAX);
        cleanup(free_ptr) char *about = questions_subject(question);

        (void)audit_note(*live->parts.audit, "asked: %s", about ? about : "?");

        if (control_server_watched(live->server)) {
                struct emit j = control_event_open(&out, "ask");

                emit_key(&j, "question");
                question_emit(&j, question);
                live_publish(live, &j);
        }

        if (about)
                tell_hooks(live, question, about);

        live_prompt_consider(live);
}

static void ask_access(struct live *live, uint64_t id, const struct authority *target, enum event_via via,
                       const char *text) {
        bool agreed = live_access_agreed(live, text);
        struct question *question;

        if (agreed && *live->parts.gateway)
                gateway_process_answer(*live->parts.gateway, id, DECISION_ALLOW);
        else if (!agreed && str_starts(str_of(text), STR(ASK_WANTS)) &&
                 live_access_ask(live, id, target, via, text, &question))
                tell_all(live, question);
        else
                deny_now(live, id);
}

void live_ask(struct live *live, uint64_t id, const struct authority *target, enum event_via via, const char *push) {
        struct str words =
            str_starts(str_of(push), STR(ASK_BECAUSE)) ? str_skip(str_of(push), strlen(ASK_BECAUSE)) : STR("");

        if (str_starts(str_of(push), STR(ASK_AGREED)) || str_starts(str_of(push), STR(ASK_WANTS))) {
                ask_access(live, id, target, via, push);
                return;
        }

        bool fresh = push[0] != '\0' && !words.n;
        uint64_t timeout_ns = (*live->parts.policy)->network.ask_timeout_ns;
        struct question *question = fresh ? questions_ask_push(&live->questions, id, target, via, push, timeout_ns)
                                          : questions_ask(&live->questions, id, target, via, timeout_ns, &fresh);
        if (!question) {
                deny_now(live, id);
                return;
        }

        question->container = live->parts.container;
        question_explain(question, words);
        if (fresh)
                tell_all(live, question);
}

int live_ask_command(struct live *live, const struct question_command *command, struct err *err) {
        uint64_t timeout_ns = (*live->parts.policy)->network.ask_timeout_ns;

        if (strlen(command->text) > QUESTION_SHOWN)
                return err_set(err, E2BIG, "the command is too long to be shown: nobody is asked about it");

        const struct question *question = questions_ask_command(&live->questions, command, timeout_ns);
        if (!question)
                return err_memory(err);

        tell_all(live, question);
        return 0;
}

int live_ask_page(struct live *live, uint64_t id, const struct authority *target, const char *text, struct err *err) {
        uint64_t timeout_ns = (*live->parts.policy)->network.ask_timeout_ns;
        struct question *question;

        if (strlen(text) > QUESTION_SHOWN)
                return err_set(err, E2BIG, "the address is too long to be shown: nobody is asked about it");

        question = questions_ask_push(&live->questions, id, target, VIA_NONE, text, timeout_ns);
        if (!question)
                return err_memory(err);

        question->page = true;
        tell_all(live, question);

        return 0;
}

int live_ask_call(struct live *live, uint64_t id, const struct question_call *call, struct err *err) {
        uint64_t timeout_ns = (*live->parts.policy)->network.ask_timeout_ns;
        const struct authority none = { 0 };
        cleanup(free_ptr) char *where = str_dup(str_of(call->directory)), *tool = str_dup(str_of(call->tool));
        struct question *question;

        if (strlen(call->words) + strlen(call->directory) > QUESTION_SHOWN)
                return err_set(err, E2BIG, "the call is too long to be shown: nobody is asked about it");

        question =
            where && tool ? questions_ask_push(&live->questions, id, &none, VIA_NONE, call->words, timeout_ns) : NULL;
        if (!question)
                return err_set(err, EBUSY, "nobody can be asked: too many questions wait, or there is no memory");

        question->call = true;
        question->tool = take_ptr(&tool);
        question->directory = take_ptr(&where);
        tell_all(live, question);

        return 0;
}

int live_ask_of_tool(struct live *live, uint64_t id, const char *tool, const struct authority *target, const char *text,
                     struct err *err) {
        uint64_t timeout_ns = (*live->parts.policy)->network.ask_timeout_ns;
        cleanup(free_ptr) char *name = str_dup(str_of(tool));
        struct question *question =
            name ? questions_ask_push(&live->questions, id, target, VIA_NONE, text, timeout_ns) : NULL;

        if (!question)
                return err_set(err, EBUSY, "nobody can be asked: too many questions wait, or there is no memory");

        question->of_tool = true;
        question->tool = take_ptr(&name);
        tell_all(live, question);

        return 0;
}

int live_ask_path(struct live *live, uint64_t id, const char *what, struct str opener, struct err *err) {
        uint64_t timeout_ns = (*live->parts.policy)->network.ask_timeout_ns;
        const struct authority none = { 0 };
        struct question *question;

        if (strlen(what) > QUESTION_SHOWN)
                return err_set(err, E2BIG, "the path is too long to be shown: nobody is asked about it");

        question = questions_ask_push(&live->questions, id, &none, VIA_NONE, what, timeout_ns);
        if (!question)
                return err_set(err, EBUSY, "nobody can be asked: too many questions wait, or there is no memory");

        question->access = question->held = true;
        question_explain(question, opener);
        tell_all(live, question);

        return 0;
}

static void publish_answer(struct live *live, uint64_t number, enum control_answer answer, enum control_scope scope,
                           const char *by) {
        cleanup(buf_done) struct buf out = BUF(LIVE_EVENT_MAX);

        if (!control_server_watched(live->server))
                return;

        struct emit j = control_event_open(&out, "answered");
        emit_put_number(&j, "question", number);
        emit_put_text(&j, "answer", control_answer_name(answer));
        emit_put_text(&j, "scope", control_scope_name(scope));
        emit_put_text(&j, "by", by);
        live_publish(live, &j);
}

/* Pages, calls and tools have numbers of their own beside the gateway's. */
static const struct question *waiting_under(const struct live *live, uint64_t id, bool own) {
        for (size_t i = 0; i < live->questions.list.n; i++)
                for (size_t k = 0; k < live->questions.list.p[i].waiting.n; k++)
                        if (live->questions.list.p[i].waiting.p[k] == id &&
                            question_is_own(&live->questions.list.p[i]) == own)
                                return &live->questions.list.p[i];
        return NULL;
}

/* The question is no longer there. */
static void tell_gone(struct live *live, uint64_t number, const char *target, bool expired) {
        cleanup(buf_done) struct buf out = BUF(LIVE_EVENT_MAX);

        live_prompt_gone(live, number);
        live_hooks_gone(live, number);

        if (expired) {
                (void)audit_note(*live->parts.audit, "answered: %s, deny, by timeout", target);
                publish_answer(live, number, ANSWER_DENY, SCOPE_ONCE, "timeout");
                return;
        }

        (void)audit_note(*live->parts.audit, "no longer asked: %s", target);
        struct emit j = control_event_open(&out, "gone");
        emit_put_number(&j, "question", number);
        live_publish(live, &j);
}

static void drop_waiting(struct live *live, uint64_t id, bool own, bool expired) {
        const struct question *question = waiting_under(live, id, own);
        if (!question)
                return;
        cleanup(free_ptr) char *about = questions_subject(question);
        uint64_t number = questions_gone(&live->questions, id, own);
        if (number)
                tell_gone(live, number, about ? about : "?", expired);
}

void live_ask_gone(struct live *live, uint64_t id, bool expired) {
        drop_waiting(live, id, false, expired);
}

void live_own_gone(struct live *live, uint64_t id, bool expired) {
        if (live)
                drop_waiting(live, id, true, expired);
}

void live_command_gone(struct live *live, bool expired) {
        const struct question *question = live && live->questions.list.n ? &live->questions.list.p[0] : NULL;
        cleanup(free_ptr) char *about = question && question->command.text ? questions_subject(question) : NULL;
        if (!about)
                return;
        uint64_t number = question->number;
        questions_remove(&live->questions, number);
        tell_gone(live, number, about, expired);
}

void live_questions_drop(struct live *live) {
        for (size_t i = 0; i < live->questions.list.n;) {
                const struct question *question = &live->questions.list.p[i];

                if (question_is_own(question))
                        i++;
                else
                        live_ask_gone(live, question->waiting.p[0], false);
        }
}

/* The gateway first, the papers after. */
static void questions_settle(struct live *live, struct question *question, enum control_answer answer,
                             enum control_scope scope, const char *by) {
        enum decision d = answer == ANSWER_ALLOW ? DECISION_ALLOW : DECISION_DENY;
        struct authority target = question->target;
        uint64_t number = question->number;
        bool about_command = question->command.text, about_push = question->push, about_call = question->call;
        uint64_t caller = about_call && question->waiting.n ? question->waiting.p[0] : 0;
        const char *kind = question_kind(question);
        cleanup(free_ptr) char *text = questions_subject(question),
                               *command = str_dup(str_of(about_command ? question->command.text : ""));

        for (size_t i = 0; i < question->waiting.n && question->page; i++)
                live->parts.page_decided(live->parts.run, question->waiting.p[i], answer == ANSWER_ALLOW, by);

        for (size_t i = 0; i < question->waiting.n && question->of_tool; i++)
                live->parts.tool_decided(live->parts.run, question->waiting.p[i], answer == ANSWER_ALLOW);

        for (size_t i = 0; i < question->waiting.n && !question_is_own(question) && *live->parts.gateway; i++)
                gateway_process_answer(*live->parts.gateway, question->waiting.p[i], d);

        if (about_command)
                live->parts.decided(live->parts.run, answer == ANSWER_ALLOW, by);

        questions_remove(&live->questions, number);
        live_prompt_gone(live, number);
        live_hooks_gone(live, number);
        (void)audit_note(*live->parts.audit, "answered: %s, %s, scope %s, by %s", text ? text : "?",
                         control_answer_name(answer), control_scope_name(scope), by);
        publish_answer(live, number, answer, scope, by);

        struct state_decision decision = { .kind = kind,
                                           .host = target.host.name,
                                           .port = target.port,
                                           .answer = control_answer_name(answer),
                                           .scope = control_scope_name(scope),
                                           .by = by };
        if (about_push && text)
                decision.host = text;
        if (about_command && command)
                decision.host = command;
        if (about_command)
                decision.port = 0;

        live_rules_decided(live, &decision);

        if (about_call) /* last: what it starts may ask and close by itself */
                live->parts.call_decided(live->parts.run, caller, answer == ANSWER_ALLOW, scope != SCOPE_ONCE, by);
}

/* For this call, or for every such call until the sandbox ends; nothing is remembered for later runs. */
static void answer_call(struct live *live, struct question *question, enum control_answer answer,
                        enum control_scope scope, const char *by) {
        enum control_scope reach = scope == SCOPE_ONCE ? SCOPE_ONCE : SCOPE_SANDBOX;
        cleanup(free_ptr) char *words = str_dup(str_of(question->push)),
                               *directory = str_dup(str_of(question->directory)),
                               *tool = str_dup(str_of(question->tool));
        const struct question_call call = { .tool = tool, .words = words, .directory = directory };

        do
                questions_settle(live, question, answer, reach, by);
        while (reach == SCOPE_SANDBOX && words && directory && tool &&
               (question = questions_same_call(&live->questions, &call)));
}

/* A person's word about a command counts for the commands of later runs too, where its scope reaches there. */
static int remember_command(struct live *live, const struct question *question, enum control_answer answer,
                            enum control_scope scope, struct err *err) {
        cleanup(state_closep) struct state *s = NULL;
        const char *workspace = scope == SCOPE_WORKSPACE ? (*live->parts.policy)->workspace : NULL;

        if (scope < SCOPE_WORKSPACE)
                return 0;

        int r = state_open(&s, err);
        if (r == 0)
                r = state_add_command(s, answer == ANSWER_DENY, workspace, question->command.rule,
                                      question->command.text, err);

        if (r < 0)
                return err_wrap(err, r, "the answer counts for this run, but is not remembered");

        return 0;
}

/* What is opened is opened before anybody hears of it: a yes that opens nothing is a no. */
static int answer_held(struct live *live, struct question *question, enum control_answer answer,
                       enum control_scope scope, const char *by, struct err *err) {
        int r = live->parts.path_decided(live->parts.run, question->waiting.p[0], answer == ANSWER_ALLOW, &scope, err);

        if (r < 0) {
                questions_settle(live, question, ANSWER_DENY, SCOPE_ONCE, by);
                return r;
        }

        r = live_access_decided(live, question->push, answer, scope, err);
        questions_settle(live, question, answer, scope, by);

        return r;
}

int live_answer_opened(struct live *live, const char *what, const char *by, struct err *err) {
        const bool write = str_starts(str_of(what), STR("write "));
        const char *opened = strchr(what, '/');
        int result = 0, n = 0;

        for (size_t i = 0; i < live->questions.list.n;) {
                struct question *question = &live->questions.list.p[i];
                bool covered = question->held && (write || question->push[0] == 'r') &&
                               path_is_within(strchr(question->push, '/'), opened);

                if (!covered) {
                        i++;
                        continue;
                }

                struct err why = { 0 };
                int r = answer_held(live, question, ANSWER_ALLOW, SCOPE_SANDBOX, by, &why);

                if (r < 0 && result == 0) {
                        *err = why;
                        result = r;
                }
                n++;
        }

        if (result < 0)
                return result;

        return n;
}

/* What the agent asked for before it reached for it: a path, or a host. */
static int answer_access(struct live *live, struct question *question, enum control_answer answer,
                         enum control_scope scope, const char *by, struct err *err) {
        int r = 0;

        if (answer == ANSWER_ALLOW)
                r = live_access_open(live, question->push, scope, err);

        if (r < 0) { /* do not report an approval that opens nothing */
                questions_settle(live, question, ANSWER_DENY, SCOPE_ONCE, by);
                return r;
        }

        cleanup(free_ptr) char *what = str_dup(str_of(question->push));

        r = live_access_decided(live, question->push, answer, scope, err);
        questions_settle(live, question, answer, scope, by);
        if (r == 0 && answer == ANSWER_ALLOW && what && approved_is_path(str_of(what)))
                r = live_answer_opened(live, what, by, err);

        if (r < 0)
                return r;

        return 0;
}

/* A connection: the answer is a rule, as far as its scope reaches. */
static int answer_connection(struct live *live, struct question *question, enum control_answer answer,
                             enum control_scope scope, const char *by, struct err *err) {
        char pattern[AUTHORITY_TEXT_MAX];

        authority_text(&question->target, pattern);
        questions_settle(live, question, answer, scope, by);
        if (scope == SCOPE_ONCE)
                return 0;

        const struct rule_change change = {
                .deny = answer == ANSWER_DENY, .pattern = pattern, .scope = scope, .by = by
        };
        return live_rules_add(live, &change, err);
}

int live_answer(struct live *live, uint64_t number, enum control_answer answer, enum control_scope scope,
                const char *by, struct err *err) {
        struct question *question = questions_find(&live->questions, number);

        if (!question)
                return err_set(err, ENOENT,
                               "there is no question %ju; it may have been answered, or nobody waits any more",
                               (uintmax_t)number);

        if (question->command.text) {
                int r = remember_command(live, question, answer, scope, err);

                questions_settle(live, question, answer, scope, by);
                return r;
        }

        if (question->held)
                return answer_held(live, question, answer, scope, by, err);

        if (question->access)
                return answer_access(live, question, answer, scope, by, err);

        if (question->call) {
                answer_call(live, question, answer, scope, by);
                return 0;
        }

        if (question->push) { /* one push: "always" is a yes to this one */
                questions_settle(live, question, answer, SCOPE_ONCE, by);
                return 0;
        }

        return answer_connection(live, question, answer, scope, by, err);
}

int live_answer_covered(struct live *live, const char *text, enum control_answer answer, enum control_scope scope,
                        const char *by, unsigned *ret_n, struct err *err) {
        struct pattern pattern;
        struct question *question;

        *ret_n = 0;
        if (text[0] == '@')
                return 0; /* a group: the gateway judges what waits anew by itself */

        int r = pattern_parse_user(str_of(text), &pattern, err);
        if (r < 0)
                return -EINVAL;

        while ((question = questions_covered(&live->questions, &pattern))) {
                questions_settle(live, question, answer, scope, by);
                ++*ret_n;
        }

        return 0;
}
