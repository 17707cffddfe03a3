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

static struct question *add(struct questions *qs, struct question fresh, uint64_t timeout_ns) {
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
                q = add(qs, (struct question){ .target = *target, .via = via }, timeout_ns);
                if (!q)
                        return NULL;
        }
        if (vec_push(&q->waiting, waiting_id) == 0)
                return q;
        if (*ret_new)
                questions_remove(qs, q->number);
        return NULL;
}

static void command_done(struct question_command *c) {
        free(c->text);
        free(c->segment);
        free(c->rule);
        free(c->reason);
        *c = (struct question_command){ 0 };
}

static char *copy(const char *text) {
        return str_dup(str_of(text ? text : ""));
}

struct question *questions_ask_command(struct questions *qs, const struct question_command *command,
                                       uint64_t timeout_ns) {
        struct question fresh = { .command = { .text = copy(command->text),
                                               .segment = copy(command->segment),
                                               .rule = copy(command->rule),
                                               .reason = copy(command->reason) } };
        const struct question_command *c = &fresh.command;
        struct question *q = c->text && c->segment && c->rule && c->reason ? add(qs, fresh, timeout_ns) : NULL;
        if (!q)
                command_done(&fresh.command);
        return q;
}

struct question *questions_ask_push(struct questions *qs, uint64_t waiting_id, const struct authority *target,
                                    enum event_via via, const char *push, uint64_t timeout_ns) {
        struct question fresh = { .target = *target, .via = via, .push = copy(push) };
        struct question *q = fresh.push ? add(qs, fresh, timeout_ns) : NULL;

        if (!q) {
                free(fresh.push);
                return NULL;
        }
        if (vec_push(&q->waiting, waiting_id) == 0)
                return q;
        questions_remove(qs, q->number);
        return NULL;
}

void question_explain(struct question *q, struct str words) {
        if (!q->reason && words.n)
                q->reason = str_dup(words);
}

uint64_t questions_gone(struct questions *qs, uint64_t waiting_id, bool page) {
        for (size_t i = 0; i < qs->list.n; i++) {
                struct question *q = &qs->list.p[i];
                for (size_t k = 0; k < q->waiting.n; k++) {
                        if (q->waiting.p[k] != waiting_id || q->page != page)
                                continue;
                        q->waiting.p[k] = q->waiting.p[--q->waiting.n];
                        uint64_t number = q->number;
                        if (q->waiting.n)
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

struct question *questions_covered(struct questions *qs, const struct pattern *p) {
        for (size_t i = 0; i < qs->list.n; i++)
                if (!qs->list.p[i].command.text && !qs->list.p[i].push &&
                    pattern_matches(p, &qs->list.p[i].target.host, qs->list.p[i].target.port))
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

const char *question_kind(const struct question *q) {
        if (q->command.text)
                return "command";
        if (q->access)
                return "access";
        if (q->page)
                return "page";
        return q->push ? "push" : "host";
}

void question_emit(struct emit *j, const struct question *q) {
        char asked[CLOCK_TEXT_MAX], expires[CLOCK_TEXT_MAX];
        clock_text(q->asked_us, asked);
        clock_text(q->expires_us, expires);
        emit_open(j, '{');
        emit_put_number(j, "id", q->number);
        emit_put_text(j, "kind", question_kind(q));
        if (q->container)
                emit_put_text(j, "container", q->container);
        if (q->access) {
                emit_put_text(j, "access", q->push);
                emit_put_text(j, "reason", q->reason);
        } else if (q->push) {
                char target[AUTHORITY_TEXT_MAX];
                authority_text(&q->target, target);
                emit_put_text(j, q->page ? "page" : "push", q->push);
                emit_put_text(j, "target", target);
        } else if (q->command.text) {
                emit_put_string(j, "command", str_first(str_of(q->command.text), QUESTION_SHOWN));
                emit_put_string(j, "segment", str_first(str_of(q->command.segment), QUESTION_SHOWN));
                emit_put_text(j, "rule", *q->command.rule ? q->command.rule : NULL);
                emit_put_text(j, "reason", q->command.reason);
        } else {
                emit_put_string(j, "host", host_str(&q->target.host));
                emit_put_number(j, "port", q->target.port);
                emit_put_text(j, "via", event_via_name(q->via));
                emit_put_number(j, "waiting", q->waiting.n);
                if (q->reason)
                        emit_put_text(j, "reason", q->reason);
        }
        emit_put_text(j, "asked", asked);
        emit_put_text(j, "expires", expires);
        emit_close(j);
}
