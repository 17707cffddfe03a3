/* SPDX-License-Identifier: Apache-2.0 */
#include "control/questions.h"

#include "base/clock.h"

#include <stdlib.h>

static struct question *find_target(struct questions *qs, const struct authority *target) {
        for (size_t i = 0; i < qs->list.n; i++)
                if (!qs->list.p[i].command.text && !qs->list.p[i].push && qs->list.p[i].target.port == target->port &&
                    host_equal(&qs->list.p[i].target.host, &target->host))
                        return &qs->list.p[i];
        return NULL;
}

static struct question *questions_add(struct questions *qs, struct question fresh, uint64_t timeout_ns) {
        fresh.number = qs->last + 1;
        fresh.asked_us = clock_wall_us();
        fresh.expires_us = fresh.asked_us + timeout_ns / 1000;
        if (qs->list.n >= QUESTIONS_MAX || vec_push(&qs->list, fresh) < 0)
                return NULL;
        qs->last++;
        return &qs->list.p[qs->list.n - 1];
}

struct question *questions_ask(struct questions *qs, uint64_t waiting_id, const struct authority *target,
                               enum event_via via, uint64_t timeout_ns, bool *ret_new) {
        struct question *q = find_target(qs, target);

        *ret_new = !q;

        if (!q) {
                q = questions_add(qs, (struct question){ .target = *target, .via = via }, timeout_ns);
                if (!q)
                        return NULL;
        }

        if (vec_push(&q->waiting, waiting_id) == 0)
                return q;
        if (*ret_new)
                questions_remove(qs, q->number);

        return NULL;
}

static void command_done(struct question_command *command) {
        free(command->text);
        free(command->segment);
        free(command->rule);
        free(command->reason);
        *command = (struct question_command){ 0 };
}

static char *questions_copy(const char *text) {
        return str_dup(str_of(text_or(text, "")));
}

struct question *questions_ask_command(struct questions *qs, const struct question_command *command,
                                       uint64_t timeout_ns) {
        struct question fresh = { .command = { .text = questions_copy(command->text),
                                               .segment = questions_copy(command->segment),
                                               .rule = questions_copy(command->rule),
                                               .reason = questions_copy(command->reason) } };
        const struct question_command *question_command = &fresh.command;
        struct question *question =
            question_command->text && question_command->segment && question_command->rule && question_command->reason
                ? questions_add(qs, fresh, timeout_ns)
                : NULL;
        if (!question)
                command_done(&fresh.command);

        return question;
}

struct question *questions_ask_push(struct questions *qs, uint64_t waiting_id, const struct authority *target,
                                    enum event_via via, const char *push, uint64_t timeout_ns) {
        struct question fresh = { .target = *target, .via = via, .push = questions_copy(push) };
        struct question *q = fresh.push ? questions_add(qs, fresh, timeout_ns) : NULL;

        if (!q) {
                free(fresh.push);
                return NULL;
        }

        if (vec_push(&q->waiting, waiting_id) == 0)
                return q;

        questions_remove(qs, q->number);
        return NULL;
}

void question_explain(struct question *question, struct str words) {
        if (!question->reason && words.n)
                question->reason = str_dup(words);
}

bool question_is_own(const struct question *question) {
        return question->page || question->call || question->of_tool || question->held;
}

struct question *questions_same_call(struct questions *qs, const struct question_call *call) {
        for (size_t i = 0; i < qs->list.n; i++) {
                struct question *question = &qs->list.p[i];

                if (question->call && strcmp(question->tool, call->tool) == 0 &&
                    strcmp(question->push, call->words) == 0 && strcmp(question->directory, call->directory) == 0)
                        return question;
        }
        return NULL;
}

uint64_t questions_gone(struct questions *qs, uint64_t waiting_id, bool own) {
        for (size_t i = 0; i < qs->list.n; i++) {
                struct question *question = &qs->list.p[i];
                for (size_t k = 0; k < question->waiting.n; k++) {
                        if (question->waiting.p[k] != waiting_id || question_is_own(question) != own)
                                continue;

                        question->waiting.p[k] = question->waiting.p[--question->waiting.n];
                        uint64_t number = question->number;
                        if (question->waiting.n)
                                return 0;

                        questions_remove(qs, number);
                        return number;
                }
        }

        return 0;
}

struct question *questions_find(struct questions *qs, uint64_t number) {
        for (size_t i = 0; i < qs->list.n; i++)
                if (qs->list.p[i].number == number)
                        return &qs->list.p[i];
        return NULL;
}

struct question *questions_covered(struct questions *qs, const struct pattern *pattern) {
        for (size_t i = 0; i < qs->list.n; i++)
                if (!qs->list.p[i].command.text && !qs->list.p[i].push &&
                    pattern_matches(pattern, &qs->list.p[i].target.host, qs->list.p[i].target.port))
                        return &qs->list.p[i];
        return NULL;
}

void questions_remove(struct questions *qs, uint64_t number) {
        struct question *q = questions_find(qs, number);
        if (!q)
                return;

        vec_done(&q->waiting);
        command_done(&q->command);
        free(q->push);
        free(q->tool);
        free(q->directory);
        free(q->reason);

        size_t place = (size_t)(q - qs->list.p);
        memmove(q, q + 1, (qs->list.n - place - 1) * sizeof *q);
        qs->list.n--;
}

void questions_done(struct questions *qs) {
        while (qs->list.n)
                questions_remove(qs, qs->list.p[qs->list.n - 1].number);
        vec_done(&qs->list);
}

const char *question_kind(const struct question *question) {
        if (question->command.text)
                return "command";
        if (question->access)
                return "access";
        if (question->page)
                return "page";
        if (question->call)
                return "call";
        if (question->push)
                return "push";

        return "host";
}

void question_emit(struct emit *json, const struct question *question) {
        char asked[CLOCK_TEXT_MAX], expires[CLOCK_TEXT_MAX];

        clock_text(question->asked_us, asked);
        clock_text(question->expires_us, expires);
        emit_open(json, '{');
        emit_put_number(json, "id", question->number);
        emit_put_text(json, "kind", question_kind(question));

        if (question->container)
                emit_put_text(json, "container", question->container);

        if (question->access) {
                emit_put_text(json, "access", question->push);
                emit_put_bool(json, "held", question->held);
                emit_put_text(json, "reason", question->reason);
        } else if (question->call) {
                emit_put_text(json, "tool", question->tool);
                emit_put_text(json, "call", question->push);
                emit_put_text(json, "directory", question->directory);
        } else if (question->push) {
                char target[AUTHORITY_TEXT_MAX];

                authority_text(&question->target, target);
                emit_put_text(json, question->page ? "page" : "push", question->push);
                emit_put_text(json, "target", target);
                if (question->of_tool)
                        emit_put_text(json, "tool", question->tool);
        } else if (question->command.text) {
                emit_put_string(json, "command", str_first(str_of(question->command.text), QUESTION_SHOWN));
                emit_put_string(json, "segment", str_first(str_of(question->command.segment), QUESTION_SHOWN));
                emit_put_text(json, "rule", *question->command.rule ? question->command.rule : NULL);
                emit_put_text(json, "reason", question->command.reason);
        } else {
                emit_put_string(json, "host", host_str(&question->target.host));
                emit_put_number(json, "port", question->target.port);
                emit_put_text(json, "via", event_via_name(question->via));
                emit_put_number(json, "waiting", question->waiting.n);

                if (question->reason)
                        emit_put_text(json, "reason", question->reason);
        }

        emit_put_text(json, "asked", asked);
        emit_put_text(json, "expires", expires);
        emit_close(json);
}
