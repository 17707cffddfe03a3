/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Markdown, which is also what a terminal shows. Text from outside stands in code spans only, whose fence is longer
 * than any run of backticks inside; a '|' would end a table cell even there and is written as \u{7c}.
 */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/escape.h"
#include "verbs/report_internal.h"

#include <inttypes.h>

enum { TEXT_MAX = 2048 };

struct sheet {
        struct buf *out;
        int status;
};

static void put(struct sheet *s, const char *text) {
        if (s->status == 0)
                s->status = buf_add(s->out, text);
}

static void put_text(struct sheet *s, struct str text) {
        if (s->status == 0)
                s->status = report_md_text(s->out, text);
}

static void put_number(struct sheet *s, uint64_t number) {
        if (s->status == 0)
                s->status = buf_printf(s->out, "%" PRIu64, number);
}

static void put_time(struct sheet *s, uint64_t at_us) {
        char text[CLOCK_TEXT_MAX];

        if (!at_us) {
                put(s, "-");
                return;
        }
        clock_text(at_us, text);
        text[10] = ' ';
        text[19] = '\0';
        put(s, text);
}

static size_t longest_run(struct str text) {
        size_t longest = 0, run = 0;

        for (size_t i = 0; i < text.n; i++) {
                run = text.p[i] == '`' ? run + 1 : 0;
                longest = run > longest ? run : longest;
        }
        return longest;
}

static int put_fence(struct buf *out, size_t length) {
        for (size_t i = 0; i < length; i++) {
                int r = buf_add_char(out, '`');
                if (r < 0)
                        return r;
        }
        return 0;
}

int report_md_text(struct buf *out, struct str text) {
        cleanup(buf_done) struct buf visible = BUF(16 * (size_t)TEXT_MAX);
        int r;

        if (!text.n)
                return buf_add_char(out, '-');
        r = escape_text(&visible, text, TEXT_MAX);
        if (r < 0)
                return r;

        size_t fence = longest_run(buf_str(&visible)) + 1;
        /* A space inside keeps a backtick at an end apart from the fence; where both ends are spaces Markdown takes one
         * of each away again. */
        const char *pad = fence > 1 ? " " : "";

        r = put_fence(out, fence);
        if (r < 0)
                return r;
        r = buf_add(out, pad);
        for (size_t i = 0; i < visible.n && r == 0; i++)
                r = visible.p[i] == '|' ? buf_add(out, "\\u{7c}") : buf_add_char(out, visible.p[i]);
        if (r < 0)
                return r;
        r = buf_add(out, pad);
        return r < 0 ? r : put_fence(out, fence);
}

static void put_fact(struct sheet *s, const char *name, struct str value) {
        if (!value.n)
                return;
        put(s, "- ");
        put(s, name);
        put(s, ": ");
        put_text(s, value);
        put(s, "\n");
}

static void put_facts(struct sheet *s, const struct report *rep) {
        put(s, "# What the run ");
        put_text(s, rep->run_id);
        put(s, " did\n\n");
        put_fact(s, "command", rep->command);
        put_fact(s, "workspace", rep->workspace);
        put_fact(s, "mode", rep->mode);
        put_fact(s, "exit status", rep->status);
        put(s, "- from ");
        put_time(s, rep->first_us);
        put(s, " to ");
        put_time(s, rep->last_us);
        put(s, " (UTC)\n- attempts: ");
        put_number(s, rep->allowed);
        put(s, " allowed, ");
        put_number(s, rep->refused);
        put(s, " refused\n");
        put_fact(s, "audit log", str_of(rep->path));

        if (!rep->whole) {
                put(s, "- **the audit log is not whole**: ");
                put_text(s, str_of(err_text(&rep->broken)));
        } else {
                put(s, rep->running ? "- the run goes on; the log is whole so far: " : "- the audit log is whole: ");
                put_number(s, rep->proof.records);
                put(s, " records, SHA-256 of the last one ");
                put_text(s, str_of(rep->proof.last_hash));
        }
        put(s, "\n");
        if (rep->left_out) {
                put(s, "- lists are cut at 5000 rows; left out here: ");
                put_number(s, rep->left_out);
                put(s, "\n");
        }
}

static bool begin_table(struct sheet *s, const char *title, size_t rows, const char *none, const char *headings) {
        put(s, "\n## ");
        put(s, title);
        put(s, "\n\n");
        put(s, rows ? headings : none);
        put(s, "\n");
        return rows != 0;
}

static void put_questions(struct sheet *s, const struct report *rep) {
        if (!begin_table(s, "Questions and answers", rep->questions.n, "Nobody was asked.",
                         "| asked | about | answer | scope | by |\n|---|---|---|---|---|"))
                return;
        for (size_t i = 0; i < rep->questions.n; i++) {
                const struct report_question *question = &rep->questions.p[i];
                put(s, "| ");
                put_time(s, question->asked_us);
                const struct str cells[] = { question->about, question->answer, question->scope, question->by };
                for (size_t k = 0; k < sizeof cells / sizeof *cells; k++) {
                        put(s, " | ");
                        put_text(s, cells[k]);
                }
                put(s, " |\n");
        }
}

static void put_targets(struct sheet *s, const char *title, const report_targets *list, const char *none) {
        if (!begin_table(s, title, list->n, none,
                         "| what | port | allowed | refused | in | out | rule | reason | last |\n"
                         "|---|--:|--:|--:|--:|--:|---|---|---|"))
                return;
        for (size_t i = 0; i < list->n; i++) {
                const struct report_target *target = list->p[i];
                const uint64_t numbers[] = { target->port, target->allowed, target->refused, target->bytes_in,
                                             target->bytes_out };
                put(s, "| ");
                put_text(s, target->name);
                for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++) {
                        put(s, " | ");
                        put_number(s, numbers[k]);
                }
                put(s, " | ");
                put_text(s, target->rule);
                put(s, " | ");
                put_text(s, target->reason);
                put(s, " | ");
                put_time(s, target->last_us);
                put(s, " |\n");
        }
}

static void put_commands(struct sheet *s, const struct report *rep) {
        if (!begin_table(s, "Commands that were judged", rep->commands.n, "None but the one above.",
                         "| time | verdict | command | rule | why |\n|---|---|---|---|---|"))
                return;
        for (size_t i = 0; i < rep->commands.n; i++) {
                const struct report_command *command = &rep->commands.p[i];
                const struct str cells[] = { command->text, command->rule, command->detail };
                put(s, "| ");
                put_time(s, command->at_us);
                put(s, command->allowed ? " | allowed" : " | refused");
                for (size_t k = 0; k < sizeof cells / sizeof *cells; k++) {
                        put(s, " | ");
                        put_text(s, cells[k]);
                }
                put(s, " |\n");
        }
}

static void put_credentials(struct sheet *s, const struct report *rep) {
        if (!begin_table(s, "Credentials", rep->credentials.n, "No credential was used.",
                         "| name | uses | towards |\n|---|--:|---|"))
                return;
        for (size_t i = 0; i < rep->credentials.n; i++) {
                const struct report_credential *credential = rep->credentials.p[i];
                put(s, "| ");
                put_text(s, credential->name);
                put(s, " | ");
                put_number(s, credential->count);
                put(s, " |");
                for (size_t k = 0; k < credential->hosts.n; k++) {
                        put(s, " ");
                        put_text(s, credential->hosts.p[k]->name);
                }
                put(s, " |\n");
        }
}

static void put_changes(struct sheet *s, const struct report *rep) {
        size_t n = rep->has_changes ? rep->changes.list.n : 0;

        if (!begin_table(s, "Changes that wait in the overlay", n,
                         "None: the run had no overlay, or its changes were applied or discarded.",
                         "| change | path |\n|---|---|"))
                return;
        for (size_t i = 0; i < n && i < REPORT_ROWS_MAX; i++) {
                put(s, "| ");
                put(s, change_kind_name(rep->changes.list.p[i].kind));
                put(s, " | ");
                put_text(s, str_of(rep->changes.list.p[i].path));
                put(s, " |\n");
        }
}

static void put_moments(struct sheet *s, const struct report *rep) {
        if (!begin_table(s, "Timeline", rep->moments.n, "Nothing is on record.",
                         "| time (UTC) | what | | text |\n|---|---|---|---|"))
                return;
        for (size_t i = 0; i < rep->moments.n; i++) {
                static const char *const tones[] = {
                        [TONE_PLAIN] = "", [TONE_ALLOWED] = "allowed", [TONE_REFUSED] = "refused"
                };
                const struct report_moment *moment = &rep->moments.p[i];
                put(s, "| ");
                put_time(s, moment->at_us);
                put(s, " | ");
                put(s, report_lane_name(moment->lane));
                put(s, " | ");
                put(s, tones[moment->tone]);
                put(s, " | ");
                put_text(s, moment->text);
                put(s, " |\n");
        }
}

int report_put_markdown(const struct report *rep, struct buf *out) {
        struct sheet s = { .out = out };

        put_facts(&s, rep);
        put_questions(&s, rep);
        put_targets(&s, "Hosts", &rep->hosts, "The run asked for no host.");
        put_commands(&s, rep);
        put_credentials(&s, rep);
        put_changes(&s, rep);
        put_targets(&s, "Files", &rep->files, "No refused access to a file is on record.");
        put_targets(&s, "System calls", &rep->calls, "No refused system call is on record.");
        put(&s, "\n## Rules that changed while it ran\n\n");
        for (size_t i = 0; i < rep->rules.n; i++) {
                put(&s, "- ");
                put_text(&s, rep->rules.p[i]);
                put(&s, "\n");
        }
        put(&s, rep->rules.n ? "" : "None.\n");
        put_moments(&s, rep);
        return s.status;
}
