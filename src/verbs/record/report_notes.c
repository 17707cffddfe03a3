/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The supervisor's notes, which are free text. The forms are those of run/run.c, control/live_questions.c and
 * control/live_rules.c. A target is in the middle of a note and was chosen by the sandbox, so the text after it is
 * searched for from the end: a host or command that contains ", by terminal" does not become an answer.
 */
#include "verbs/record/report_internal.h"

#include <errno.h>

/* Cuts `s` at the last occurrence of the separator: the part behind it goes to *ret_tail. */
static bool cut_last(struct str *s, struct str separator, struct str *ret_tail) {
        if (s->n < separator.n)
                return false;

        for (size_t at = s->n - separator.n + 1; at-- > 0;) {
                if (memcmp(s->p + at, separator.p, separator.n) != 0)
                        continue;

                *ret_tail = str_skip(*s, at + separator.n);
                *s = str_first(*s, at);
                return true;
        }

        return false;
}

static bool take_prefix(struct str *s, struct str prefix) {
        if (!str_starts(*s, prefix))
                return false;
        *s = str_skip(*s, prefix.n);
        return true;
}

/* "start: mode M, workspace W"; a container says more in between. */
static void read_start(struct report *rep, struct str text) {
        struct str mode = text;

        if (!cut_last(&mode, STR(", workspace "), &rep->workspace))
                return;
        (void)take_prefix(&mode, STR("mode "));
        rep->mode = mode;
}

static int add_question(struct report *rep, const struct report_question *question) {
        if (rep->questions.n >= REPORT_ROWS_MAX) {
                rep->left_out++;
                return 0;
        }
        return vec_push(&rep->questions, *question);
}

/* The oldest question about this that is still open, or NULL. */
static struct report_question *open_question(struct report *rep, struct str about) {
        for (size_t i = 0; i < rep->questions.n; i++) {
                struct report_question *question = &rep->questions.p[i];
                if (!question->answered_us && str_eq(question->about, about))
                        return question;
        }
        return NULL;
}

/* An answer by timeout has none. What it is about is the sandbox's text, which may have such words in it as well. */
static void cut_scope(struct str *text, struct str *ret) {
        struct str before = *text, scope = { 0 };

        if (!cut_last(&before, STR(", scope "), &scope) || str_find(scope, ' ') >= 0)
                return;

        *text = before;
        *ret = scope;
}

/* "TARGET, allow, scope once, by WHO", or "TARGET, deny, by timeout". */
static int read_answer(struct report *rep, uint64_t at_us, struct str text) {
        struct report_question answer = { .answered_us = at_us, .about = text };

        if (!cut_last(&answer.about, STR(", by "), &answer.by))
                return 0;

        cut_scope(&answer.about, &answer.scope);
        if (!cut_last(&answer.about, STR(", "), &answer.answer))
                return 0;

        struct report_question *question = open_question(rep, answer.about);
        if (!question)
                return add_question(rep, &answer);

        answer.asked_us = question->asked_us;
        *question = answer;

        return 0;
}

static enum report_tone answer_tone(struct str text) {
        struct str by, scope = { 0 }, answer;

        if (!cut_last(&text, STR(", by "), &by))
                return TONE_PLAIN;

        cut_scope(&text, &scope);
        if (!cut_last(&text, STR(", "), &answer))
                return TONE_PLAIN;

        if (str_is(answer, "allow"))
                return TONE_ALLOWED;

        return TONE_REFUSED;
}

static int note_question(struct report *rep, uint64_t at_us, struct str whole) {
        struct str text = whole;
        int r;

        if (take_prefix(&text, STR("asked: "))) {
                const struct report_question question = { .asked_us = at_us, .about = text };

                r = add_question(rep, &question);
                if (r < 0)
                        return r;

                return report_add_moment(rep, at_us, LANE_QUESTION, TONE_PLAIN, whole);
        }

        if (take_prefix(&text, STR("answered: "))) {
                r = read_answer(rep, at_us, text);
                if (r < 0)
                        return r;
                return report_add_moment(rep, at_us, LANE_QUESTION, answer_tone(text), whole);
        }

        (void)take_prefix(&text, STR("no longer asked: "));
        struct report_question *question = open_question(rep, text);
        if (question)
                question->answered_us = at_us;

        return report_add_moment(rep, at_us, LANE_QUESTION, TONE_PLAIN, whole);
}

int report_take_note(struct report *rep, uint64_t at_us, struct str text) {
        struct str rest = text;

        if (str_starts(text, STR("asked: ")) || str_starts(text, STR("answered: ")) ||
            str_starts(text, STR("no longer asked: ")))
                return note_question(rep, at_us, text);

        if (take_prefix(&rest, STR("start: ")))
                read_start(rep, rest);
        else if (take_prefix(&rest, STR("command: ")))
                rep->command = rest;
        else if (take_prefix(&rest, STR("end: status ")))
                rep->status = rest;
        else if (str_starts(text, STR("lost: ")) || str_starts(text, STR("learns: ")) ||
                 str_starts(text, STR("monitor: "))) {
                if (rep->lost.n >= REPORT_ROWS_MAX)
                        rep->left_out++;
                else if (vec_push(&rep->lost, text) < 0)
                        return -ENOMEM;
        } else if (str_starts(text, STR("rule: ")) || str_starts(text, STR("rule taken back: "))) {
                if (rep->rules.n >= REPORT_ROWS_MAX)
                        rep->left_out++;
                else if (vec_push(&rep->rules, text) < 0)
                        return -ENOMEM;
        }

        return report_add_moment(rep, at_us, LANE_RUN, TONE_PLAIN, text);
}
