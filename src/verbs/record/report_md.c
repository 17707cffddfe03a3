/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Markdown, which is also what a terminal shows. Text from outside stands in code spans only, whose fence is longer
 * than any run of backticks inside; a '|' would end a table cell even there and is written as \u{7c}.
 */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/escape.h"
#include "verbs/record/report_internal.h"

#include <inttypes.h>

enum { TEXT_MAX = 2048 };

struct sheet {
        struct buf *out;
        int status;
};

static void md_put(struct sheet *sheet, const char *text) {
        if (sheet->status == 0)
                sheet->status = buf_add(sheet->out, text);
}

static void put_text(struct sheet *sheet, struct str text) {
        if (sheet->status == 0)
                sheet->status = report_md_text(sheet->out, text);
}

static void put_number(struct sheet *sheet, uint64_t number) {
        if (sheet->status == 0)
                sheet->status = buf_printf(sheet->out, "%" PRIu64, number);
}

static void put_time(struct sheet *sheet, uint64_t at_us) {
        char text[CLOCK_TEXT_MAX];

        if (!at_us) {
                md_put(sheet, "-");
                return;
        }

        clock_text(at_us, text);
        text[10] = ' ';
        text[19] = '\0';
        md_put(sheet, text);
}

static size_t longest_run(struct str text) {
        size_t longest = 0, run = 0;

        for (size_t i = 0; i < text.n; i++) {
                run = text.p[i] == '`' ? run + 1 : 0;
                if (run > longest)
                        longest = run;
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
        if (r < 0)
                return r;

        return put_fence(out, fence);
}

static void put_fact(struct sheet *sheet, const char *name, struct str value) {
        if (!value.n)
                return;
        md_put(sheet, "- ");
        md_put(sheet, name);
        md_put(sheet, ": ");
        put_text(sheet, value);
        md_put(sheet, "\n");
}

static void put_facts(struct sheet *sheet, const struct report *rep) {
        md_put(sheet, "# What the run ");
        put_text(sheet, rep->run_id);
        md_put(sheet, " did\n\n");
        put_fact(sheet, "command", rep->command);
        put_fact(sheet, "workspace", rep->workspace);
        put_fact(sheet, "mode", rep->mode);
        put_fact(sheet, "exit status", rep->status);
        md_put(sheet, "- from ");
        put_time(sheet, rep->first_us);
        md_put(sheet, " to ");
        put_time(sheet, rep->last_us);
        md_put(sheet, " (UTC)\n- attempts: ");
        put_number(sheet, rep->allowed);
        md_put(sheet, " allowed, ");
        put_number(sheet, rep->refused);
        md_put(sheet, " refused\n");
        put_fact(sheet, "audit log", str_of(rep->path));

        for (size_t i = 0; i < rep->lost.n; i++) {
                md_put(sheet, "- **");
                put_text(sheet, rep->lost.p[i]);
                md_put(sheet, "**\n");
        }

        if (!rep->whole) {
                md_put(sheet, "- **the audit log is not whole**: ");
                put_text(sheet, str_of(err_text(&rep->broken)));
        } else {
                md_put(sheet,
                       rep->running ? "- the run goes on; the log is whole so far: " : "- the audit log is whole: ");
                put_number(sheet, rep->proof.records);
                md_put(sheet, " records, SHA-256 of the last one ");
                put_text(sheet, str_of(rep->proof.last_hash));
        }

        md_put(sheet, "\n");

        if (rep->left_out) {
                md_put(sheet, "- lists are cut at 5000 rows; left out here: ");
                put_number(sheet, rep->left_out);
                md_put(sheet, "\n");
        }
}

static bool begin_table(struct sheet *sheet, const char *title, size_t rows, const char *none, const char *headings) {
        md_put(sheet, "\n## ");
        md_put(sheet, title);
        md_put(sheet, "\n\n");
        md_put(sheet, rows ? headings : none);
        md_put(sheet, "\n");
        return rows != 0;
}

static void put_questions(struct sheet *sheet, const struct report *rep) {
        if (!begin_table(sheet, "Questions and answers", rep->questions.n, "Nobody was asked.",
                         "| asked | about | answer | scope | by |\n|---|---|---|---|---|"))
                return;

        for (size_t i = 0; i < rep->questions.n; i++) {
                const struct report_question *question = &rep->questions.p[i];

                md_put(sheet, "| ");
                put_time(sheet, question->asked_us);
                const struct str cells[] = { question->about, question->answer, question->scope, question->by };
                for (size_t k = 0; k < sizeof cells / sizeof *cells; k++) {
                        md_put(sheet, " | ");
                        put_text(sheet, cells[k]);
                }

                md_put(sheet, " |\n");
        }
}

static void put_targets(struct sheet *sheet, const char *title, const report_targets *list, const char *none) {
        if (!begin_table(sheet, title, list->n, none,
                         "| what | port | allowed | refused | in | out | rule | reason | last |\n"
                         "|---|--:|--:|--:|--:|--:|---|---|---|"))
                return;

        for (size_t i = 0; i < list->n; i++) {
                const struct report_target *target = list->p[i];
                const uint64_t numbers[] = { target->port, target->allowed, target->refused, target->bytes_in,
                                             target->bytes_out };

                md_put(sheet, "| ");
                put_text(sheet, target->name);

                for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++) {
                        md_put(sheet, " | ");
                        put_number(sheet, numbers[k]);
                }

                md_put(sheet, " | ");
                put_text(sheet, target->rule);
                md_put(sheet, " | ");
                put_text(sheet, target->reason);
                md_put(sheet, " | ");
                put_time(sheet, target->last_us);
                md_put(sheet, " |\n");
        }
}

static void put_commands(struct sheet *sheet, const struct report *rep) {
        if (!begin_table(sheet, "Commands that were judged", rep->commands.n, "None but the one above.",
                         "| time | verdict | command | rule | why |\n|---|---|---|---|---|"))
                return;

        for (size_t i = 0; i < rep->commands.n; i++) {
                const struct report_command *command = &rep->commands.p[i];
                const struct str cells[] = { command->text, command->rule, command->detail };

                md_put(sheet, "| ");
                put_time(sheet, command->at_us);
                md_put(sheet, command->allowed ? " | allowed" : " | refused");

                for (size_t k = 0; k < sizeof cells / sizeof *cells; k++) {
                        md_put(sheet, " | ");
                        put_text(sheet, cells[k]);
                }

                md_put(sheet, " |\n");
        }
}

static void put_credentials(struct sheet *sheet, const struct report *rep) {
        if (!begin_table(sheet, "Credentials", rep->credentials.n, "No credential was used.",
                         "| name | uses | towards |\n|---|--:|---|"))
                return;

        for (size_t i = 0; i < rep->credentials.n; i++) {
                const struct report_credential *credential = rep->credentials.p[i];

                md_put(sheet, "| ");
                put_text(sheet, credential->name);
                md_put(sheet, " | ");
                put_number(sheet, credential->count);
                md_put(sheet, " |");

                for (size_t k = 0; k < credential->hosts.n; k++) {
                        md_put(sheet, " ");
                        put_text(sheet, credential->hosts.p[k]->name);
                }

                md_put(sheet, " |\n");
        }
}

static void put_changes(struct sheet *sheet, const struct report *rep) {
        size_t n = rep->has_changes ? rep->changes.list.n : 0;

        if (!begin_table(sheet, "Changes that wait in the overlay", n,
                         "None: the run had no overlay, or its changes were applied or discarded.",
                         "| change | path |\n|---|---|"))
                return;

        for (size_t i = 0; i < n && i < REPORT_ROWS_MAX; i++) {
                md_put(sheet, "| ");
                md_put(sheet, change_kind_name(rep->changes.list.p[i].kind));
                md_put(sheet, " | ");
                put_text(sheet, str_of(rep->changes.list.p[i].path));
                md_put(sheet, " |\n");
        }
}

static void put_moments(struct sheet *sheet, const struct report *rep) {
        if (!begin_table(sheet, "Timeline", rep->moments.n, "Nothing is on record.",
                         "| time (UTC) | what | | text |\n|---|---|---|---|"))
                return;

        for (size_t i = 0; i < rep->moments.n; i++) {
                static const char *const tones[] = {
                        [TONE_PLAIN] = "", [TONE_ALLOWED] = "allowed", [TONE_REFUSED] = "refused"
                };
                const struct report_moment *moment = &rep->moments.p[i];

                md_put(sheet, "| ");
                put_time(sheet, moment->at_us);
                md_put(sheet, " | ");
                md_put(sheet, report_lane_name(moment->lane));
                md_put(sheet, " | ");
                md_put(sheet, tones[moment->tone]);
                md_put(sheet, " | ");
                put_text(sheet, moment->text);
                md_put(sheet, " |\n");
        }
}

int report_put_markdown(const struct report *rep, struct buf *out) {
        struct sheet sheet = { .out = out };

        put_facts(&sheet, rep);
        put_questions(&sheet, rep);
        put_targets(&sheet, "Hosts", &rep->hosts, "The run asked for no host.");
        put_commands(&sheet, rep);
        put_credentials(&sheet, rep);
        put_changes(&sheet, rep);
        put_targets(&sheet, "Files", &rep->files, "No refused access to a file is on record.");
        put_targets(&sheet, "System calls", &rep->calls, "No refused system call is on record.");
        md_put(&sheet, "\n## Rules that changed while it ran\n\n");

        for (size_t i = 0; i < rep->rules.n; i++) {
                md_put(&sheet, "- ");
                put_text(&sheet, rep->rules.p[i]);
                md_put(&sheet, "\n");
        }

        md_put(&sheet, rep->rules.n ? "" : "None.\n");
        put_moments(&sheet, rep);

        return sheet.status;
}
