/* SPDX-License-Identifier: Apache-2.0 */
#include "control/questions.h"

#include "base/clock.h"

static struct question *find_target(struct questions *qs, const struct authority *target) {
        for (size_t i = 0; i < qs->list.n; i++)
                if (qs->list.p[i].target.port == target->port && host_equal(&qs->list.p[i].target.host, &target->host))
                        return &qs->list.p[i];
        return NULL;
}

struct question *questions_ask(struct questions *qs, uint64_t waiting_id, const struct authority *target,
                               enum event_via via, uint64_t timeout_ns, bool *ret_new) {
        struct question *q = find_target(qs, target);
        *ret_new = !q;
        if (!q) {
                uint64_t now = clock_wall_us();
                struct question fresh = { .number = qs->last + 1,
                                          .target = *target,
                                          .via = via,
                                          .asked_us = now,
                                          .expires_us = now + timeout_ns / 1000 };
                if (qs->list.n >= QUESTIONS_MAX || vec_push(&qs->list, fresh) < 0)
                        return NULL;
                qs->last++;
                q = &qs->list.p[qs->list.n - 1];
        }
        if (vec_push(&q->waiting, waiting_id) == 0)
                return q;
        if (*ret_new)
                questions_remove(qs, q->number);
        return NULL;
}

uint64_t questions_gone(struct questions *qs, uint64_t waiting_id) {
        for (size_t i = 0; i < qs->list.n; i++) {
                struct question *q = &qs->list.p[i];
                for (size_t k = 0; k < q->waiting.n; k++) {
                        if (q->waiting.p[k] != waiting_id)
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
                if (pattern_matches(p, &qs->list.p[i].target.host, qs->list.p[i].target.port))
                        return &qs->list.p[i];
        return NULL;
}

void questions_remove(struct questions *qs, uint64_t number) {
        struct question *q = questions_find(qs, number);
        if (!q)
                return;
        vec_done(&q->waiting);
        size_t place = (size_t)(q - qs->list.p);
        memmove(q, q + 1, (qs->list.n - place - 1) * sizeof *q);
        qs->list.n--;
}

void questions_done(struct questions *qs) {
        for (size_t i = 0; i < qs->list.n; i++)
                vec_done(&qs->list.p[i].waiting);
        vec_done(&qs->list);
}

void question_emit(struct emit *j, const struct question *q) {
        char asked[CLOCK_TEXT_MAX], expires[CLOCK_TEXT_MAX];
        clock_text(q->asked_us, asked);
        clock_text(q->expires_us, expires);
        emit_open(j, '{');
        emit_put_number(j, "id", q->number);
        emit_put_text(j, "kind", "host");
        emit_put_string(j, "host", host_str(&q->target.host));
        emit_put_number(j, "port", q->target.port);
        emit_put_text(j, "via", event_via_name(q->via));
        emit_put_number(j, "waiting", q->waiting.n);
        emit_put_text(j, "asked", asked);
        emit_put_text(j, "expires", expires);
        emit_close(j);
}
