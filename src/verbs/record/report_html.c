/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One page that needs nothing else: no script, no picture, no request. Its own policy (in a meta element) forbids all
 * of that, and allows the one style sheet by its hash, so that even text which found a way around report_html_text()
 * could not do anything.
 */
#include "base/base64.h"
#include "base/bounds.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/escape.h"
#include "base/secrets/digest.h"
#include "verbs/record/report_internal.h"

#include <inttypes.h>
#include <stdio.h>

enum { TEXT_MAX = 4096, CHART_WIDTH = 1000, CHART_LEFT = 90, CHART_ROW = 26, CHART_DOTS = 1500 };

static const char style[] =
    ":root{color-scheme:light dark;--bg:#fff;--fg:#1b1f24;--dim:#57606a;--line:#d0d7de;--soft:#f6f8fa;--yes:#1a7f37;"
    "--no:#b42318;--mid:#0b5cad}"
    "@media(prefers-color-scheme:dark){:root{--bg:#0f1419;--fg:#e6edf3;--dim:#9aa5b1;--line:#30363d;--soft:#171d24;"
    "--yes:#56d364;--no:#ff8a80;--mid:#79b8ff}}"
    "*{box-sizing:border-box}body{margin:0 auto;padding:1.5rem 1rem 4rem;max-width:70rem;background:var(--bg);"
    "color:var(--fg);font:15px/1.5 system-ui,sans-serif}"
    "h1{font-size:1.5rem;margin:0 0 .25rem}h2{font-size:1.1rem;margin:2rem 0 .5rem;border-bottom:1px solid "
    "var(--line);padding-bottom:.25rem}"
    "code,td.t{font-family:ui-monospace,monospace;font-size:.87em;overflow-wrap:anywhere}"
    "dl{display:grid;grid-template-columns:max-content 1fr;gap:.2rem 1rem;margin:.5rem 0}dt{color:var(--dim)}"
    "dd{margin:0;overflow-wrap:anywhere}"
    ".wide{overflow-x:auto}table{border-collapse:collapse;width:100%}th{text-align:left;color:var(--dim);"
    "font-weight:600;white-space:nowrap}"
    "th,td{padding:.3rem .6rem .3rem 0;border-bottom:1px solid var(--line);vertical-align:top}td.n{text-align:right;"
    "font-variant-numeric:tabular-nums;white-space:nowrap}th.n{text-align:right}td.w{white-space:nowrap}"
    ".yes{color:var(--yes)}.no{color:var(--no)}.dim{color:var(--dim)}"
    ".proof{background:var(--soft);border:1px solid var(--line);border-left:4px solid var(--yes);padding:.6rem 1rem;"
    "border-radius:4px;overflow-wrap:anywhere}.proof.bad{border-left-color:var(--no)}"
    "svg{width:100%;height:auto;min-width:40rem;display:block}svg text{fill:var(--dim);font:11px system-ui,sans-serif}"
    "svg line{stroke:var(--line)}circle{fill:var(--mid);fill-opacity:.75}circle.yes{fill:var(--yes)}circle.no{fill:"
    "var(--no)}"
    "@media print{body{max-width:none}}";

/* The first failure sticks. */
struct page {
        struct buf *out;
        int status;
};

static void html_put(struct page *page, const char *markup) {
        if (page->status == 0)
                page->status = buf_add(page->out, markup);
}

static void put_text(struct page *page, struct str text) {
        if (page->status == 0)
                page->status = report_html_text(page->out, text);
}

static void put_number(struct page *page, uint64_t number) {
        if (page->status == 0)
                page->status = buf_printf(page->out, "%" PRIu64, number);
}

int report_html_text(struct buf *out, struct str text) {
        cleanup(buf_done) struct buf visible = BUF(16 * (size_t)TEXT_MAX);
        int r;

        r = escape_text(&visible, text, TEXT_MAX);
        for (size_t i = 0; i < visible.n && r == 0; i++) {
                switch (visible.p[i]) {
                case '&':
                        r = buf_add(out, "&amp;");
                        break;
                case '<':
                        r = buf_add(out, "&lt;");
                        break;
                case '>':
                        r = buf_add(out, "&gt;");
                        break;
                case '"':
                        r = buf_add(out, "&quot;");
                        break;
                case '\'':
                        r = buf_add(out, "&#39;");
                        break;
                case '`':
                        r = buf_add(out, "&#96;");
                        break;
                default:
                        r = buf_add_char(out, visible.p[i]);
                }
        }

        return r;
}

static void put_time(struct page *page, uint64_t at_us) {
        char text[CLOCK_TEXT_MAX];

        if (!at_us) {
                html_put(page, "<span class=\"dim\">not on record</span>");
                return;
        }

        clock_text(at_us, text);
        text[10] = ' ';
        text[19] = '\0';
        put_text(page, str_of(text));
}

static void put_fact(struct page *page, const char *name, struct str value) {
        if (!value.n)
                return;
        html_put(page, "<dt>");
        html_put(page, name);
        html_put(page, "</dt><dd><code>");
        put_text(page, value);
        html_put(page, "</code></dd>");
}

static void put_cell(struct page *page, const char *class, struct str text) {
        html_put(page, "<td class=\"");
        html_put(page, class);
        html_put(page, "\">");
        put_text(page, text);
        html_put(page, "</td>");
}

static void put_count(struct page *page, const char *class, uint64_t number) {
        html_put(page, "<td class=\"n");
        html_put(page, number ? class : " dim");
        html_put(page, "\">");
        put_number(page, number);
        html_put(page, "</td>");
}

static void put_time_cell(struct page *page, uint64_t at_us) {
        html_put(page, "<td class=\"w\">");
        put_time(page, at_us);
        html_put(page, "</td>");
}

static void put_verdict_cell(struct page *page, bool allowed) {
        html_put(page, allowed ? "<td class=\"yes\">allowed</td>" : "<td class=\"no\">refused</td>");
}

/* A table with its headings, or a sentence where there is nothing. True when rows are to follow. */
static bool begin_table(struct page *page, const char *title, size_t rows, const char *none, const char *headings) {
        html_put(page, "<h2>");
        html_put(page, title);
        html_put(page, "</h2>");

        if (rows == 0) {
                html_put(page, "<p class=\"dim\">");
                html_put(page, none);
                html_put(page, "</p>");
                return false;
        }

        html_put(page, "<div class=\"wide\"><table><thead><tr>");
        html_put(page, headings);
        html_put(page, "</tr></thead><tbody>");

        return true;
}

static void end_table(struct page *page) {
        html_put(page, "</tbody></table></div>");
}

/*
 * The parts.
 */
static void put_head(struct page *page, const struct report *rep) {
        unsigned char digest[DIGEST_BYTES];
        char hash[64] = "";

        digest_sha256(str_n(style, sizeof style - 1), digest);
        base64_encode(str_n(digest, sizeof digest), BASE64_STANDARD, hash);

        html_put(page, "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta http-equiv="
                       "\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'sha256-");
        html_put(page, hash);
        html_put(page, "'; base-uri 'none'; form-action 'none'\"><meta name=\"referrer\" content=\"no-referrer\"><meta "
                       "name=\"viewport\" content=\"width=device-width,initial-scale=1\"><title>Bailey report ");
        put_text(page, rep->run_id);
        html_put(page, "</title><style>");
        html_put(page, style);
        html_put(page, "</style></head><body><main><h1>What the run <code>");
        put_text(page, rep->run_id);
        html_put(page, "</code> did</h1>");
}

static void put_proof(struct page *page, const struct report *rep) {
        for (size_t i = 0; i < rep->lost.n; i++) {
                html_put(page, "<p class=\"proof bad\">");
                put_text(page, rep->lost.p[i]);
                html_put(page, "</p>");
        }

        html_put(page, rep->whole ? "<p class=\"proof\">" : "<p class=\"proof bad\">");

        if (!rep->whole) {
                html_put(page, "<strong>The audit log is not whole.</strong> ");
                put_text(page, str_of(err_text(&rep->broken)));
        } else {
                html_put(page, rep->running ? "<strong>The run goes on; the log is whole so far.</strong> "
                                            : "<strong>The audit log is whole.</strong> ");
                put_number(page, rep->proof.records);
                html_put(page, " records. SHA-256 of the last one: <code>");
                put_text(page, str_of(rep->proof.last_hash));
                html_put(page, "</code>. Check it with <code>bailey log verify ");
                put_text(page, str_of(rep->path));
                html_put(page, "</code>, which prints the same.");
        }

        html_put(page, "</p>");
}

static void put_facts(struct page *page, const struct report *rep) {
        html_put(page, "<dl>");
        put_fact(page, "Command", rep->command);
        put_fact(page, "Workspace", rep->workspace);
        put_fact(page, "Mode", rep->mode);
        put_fact(page, "Exit status", rep->status);
        put_fact(page, "Audit log", str_of(rep->path));
        html_put(page, "<dt>From</dt><dd>");
        put_time(page, rep->first_us);
        html_put(page, " UTC</dd><dt>To</dt><dd>");
        put_time(page, rep->last_us);
        html_put(page, " UTC</dd><dt>Attempts</dt><dd><span class=\"yes\">");
        put_number(page, rep->allowed);
        html_put(page, " allowed</span>, <span class=\"no\">");
        put_number(page, rep->refused);
        html_put(page, " refused</span></dd></dl>");
        put_proof(page, rep);

        if (rep->left_out) {
                html_put(page, "<p class=\"no\">Lists are cut at 5000 rows: ");
                put_number(page, rep->left_out);
                html_put(page, " rows are left out here. All of them are in the audit log.</p>");
        }
}

static const char *tone_class(enum report_tone tone) {
        static const char *const classes[] = { [TONE_PLAIN] = "", [TONE_ALLOWED] = "yes", [TONE_REFUSED] = "no" };

        return classes[tone];
}

static void put_dots(struct page *page, const struct report *rep) {
        size_t n = min_of(rep->moments.n, CHART_DOTS);
        uint64_t span = rep->last_us > rep->first_us ? rep->last_us - rep->first_us : 1;

        for (size_t i = 0; i < n && page->status == 0; i++) {
                const struct report_moment *moment = &rep->moments.p[i];
                uint64_t since = moment->at_us > rep->first_us ? moment->at_us - rep->first_us : 0;
                double share = since < span ? (double)since / (double)span : 1.0;

                page->status =
                    buf_printf(page->out, "<circle class=\"%s\" cx=\"%.1f\" cy=\"%d\" r=\"5\"><title>",
                               tone_class(moment->tone), CHART_LEFT + share * (CHART_WIDTH - CHART_LEFT - 10),
                               (int)moment->lane * CHART_ROW + CHART_ROW / 2);
                put_text(page, moment->text);
                html_put(page, "</title></circle>");
        }
}

static void put_timeline(struct page *page, const struct report *rep) {
        html_put(page, "<h2>Timeline</h2><div class=\"wide\">");

        if (page->status == 0)
                page->status = buf_printf(page->out,
                                          "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"timeline of the "
                                          "run; the same moments are in the table below\">",
                                          CHART_WIDTH, REPORT_LANES * CHART_ROW);

        for (int lane = 0; lane < REPORT_LANES && page->status == 0; lane++) {
                int middle = lane * CHART_ROW + CHART_ROW / 2;
                page->status = buf_printf(page->out,
                                          "<text x=\"0\" y=\"%d\">%s</text><line x1=\"%d\" x2=\"%d\" y1=\"%d\" "
                                          "y2=\"%d\"/>",
                                          middle + 4, report_lane_name((enum report_lane)lane), CHART_LEFT, CHART_WIDTH,
                                          middle, middle);
        }

        put_dots(page, rep);
        html_put(page, "</svg></div>");

        if (!begin_table(page, "Moments", rep->moments.n, "Nothing is on record.",
                         "<th>time (UTC)</th><th>what</th><th>text</th>"))
                return;

        for (size_t i = 0; i < rep->moments.n; i++) {
                const struct report_moment *moment = &rep->moments.p[i];

                html_put(page, "<tr>");
                put_time_cell(page, moment->at_us);
                html_put(page, "<td class=\"");
                html_put(page, tone_class(moment->tone));
                html_put(page, "\">");
                html_put(page, report_lane_name(moment->lane));
                html_put(page, "</td>");
                put_cell(page, "t", moment->text);
                html_put(page, "</tr>");
        }

        end_table(page);
}

static void put_hosts(struct page *page, const struct report *rep) {
        if (!begin_table(page, "Hosts", rep->hosts.n, "The run asked for no host.",
                         "<th>host</th><th class=\"n\">allowed</th><th class=\"n\">refused</th><th class=\"n\">bytes "
                         "in</th><th class=\"n\">bytes out</th><th>rule</th><th>reason</th><th>last</th>"))
                return;

        for (size_t i = 0; i < rep->hosts.n; i++) {
                const struct report_target *host = rep->hosts.p[i];

                html_put(page, "<tr><td class=\"t\">");
                put_text(page, host->name);

                if (host->port) {
                        html_put(page, ":");
                        put_number(page, host->port);
                }

                html_put(page, "</td>");
                put_count(page, " yes", host->allowed);
                put_count(page, " no", host->refused);
                put_count(page, "", host->bytes_in);
                put_count(page, "", host->bytes_out);
                put_cell(page, "t", host->rule);
                put_cell(page, "", host->reason);
                put_time_cell(page, host->last_us);
                html_put(page, "</tr>");
        }

        end_table(page);
}

static void put_questions(struct page *page, const struct report *rep) {
        if (!begin_table(page, "Questions and answers", rep->questions.n, "Nobody was asked.",
                         "<th>asked</th><th>about</th><th>answer</th><th>scope</th><th>by</th><th>answered</th>"))
                return;

        for (size_t i = 0; i < rep->questions.n; i++) {
                const struct report_question *question = &rep->questions.p[i];

                html_put(page, "<tr>");
                put_time_cell(page, question->asked_us);
                put_cell(page, "t", question->about);

                if (question->answer.n)
                        put_cell(page, str_is(question->answer, "allow") ? "yes" : "no", question->answer);
                else
                        html_put(page, "<td class=\"dim\">none</td>");

                put_cell(page, "", question->scope);
                put_cell(page, "t", question->by);
                put_time_cell(page, question->answered_us);
                html_put(page, "</tr>");
        }

        end_table(page);
}

static void put_commands(struct page *page, const struct report *rep) {
        if (!begin_table(page, "Commands that were judged", rep->commands.n,
                         "No command was judged by itself: the run began with the one above.",
                         "<th>time</th><th>verdict</th><th>command</th><th>rule</th><th>why</th>"))
                return;

        for (size_t i = 0; i < rep->commands.n; i++) {
                const struct report_command *command = &rep->commands.p[i];

                html_put(page, "<tr>");
                put_time_cell(page, command->at_us);
                put_verdict_cell(page, command->allowed);
                put_cell(page, "t", command->text);
                put_cell(page, "t", command->rule);
                put_cell(page, "", command->detail);
                html_put(page, "</tr>");
        }

        end_table(page);
}

static void put_credentials(struct page *page, const struct report *rep) {
        if (!begin_table(page, "Credentials", rep->credentials.n, "No credential was used.",
                         "<th>name</th><th class=\"n\">uses</th><th>towards</th><th>first</th><th>last</th>"))
                return;

        for (size_t i = 0; i < rep->credentials.n; i++) {
                const struct report_credential *credential = rep->credentials.p[i];

                html_put(page, "<tr>");
                put_cell(page, "t", credential->name);
                put_count(page, "", credential->count);
                html_put(page, "<td class=\"t\">");

                for (size_t k = 0; k < credential->hosts.n; k++) {
                        html_put(page, k ? ", " : "");
                        put_text(page, credential->hosts.p[k]->name);
                        html_put(page, ":");
                        put_number(page, credential->hosts.p[k]->port);
                }

                html_put(page, "</td>");
                put_time_cell(page, credential->first_us);
                put_time_cell(page, credential->last_us);
                html_put(page, "</tr>");
        }

        end_table(page);
}

static void put_accesses(struct page *page, const char *title, const report_targets *list, const char *none) {
        if (!begin_table(page, title, list->n, none,
                         "<th>what</th><th>tried</th><th class=\"n\">allowed</th><th class=\"n\">refused</th>"
                         "<th>reason</th><th>last</th>"))
                return;

        for (size_t i = 0; i < list->n; i++) {
                const struct report_target *target = list->p[i];

                html_put(page, "<tr>");
                put_cell(page, "t", target->name);
                put_cell(page, "", target->method);
                put_count(page, " yes", target->allowed);
                put_count(page, " no", target->refused);
                put_cell(page, "", target->detail.n ? target->detail : target->reason);
                put_time_cell(page, target->last_us);
                html_put(page, "</tr>");
        }

        end_table(page);
}

static void put_changes(struct page *page, const struct report *rep) {
        if (!rep->has_changes) {
                html_put(
                    page,
                    "<h2>Changes to files</h2><p class=\"dim\">The run had no overlay, or its changes were applied "
                    "or discarded: what it wrote is in the workspace itself and is not on record. Protected files "
                    "that it made are among the moments above.</p>");
                return;
        }

        if (!begin_table(page, "Changes that wait in the overlay", rep->changes.list.n, "The overlay holds no change.",
                         "<th>change</th><th>path</th><th class=\"n\">bytes</th>"))
                return;

        for (size_t i = 0; i < rep->changes.list.n && i < REPORT_ROWS_MAX; i++) {
                const struct change *change = &rep->changes.list.p[i];

                html_put(page, "<tr>");
                put_cell(page, change->kind == CHANGE_DELETED ? "no" : "", str_of(change_kind_name(change->kind)));
                put_cell(page, "t", str_of(change->path));
                put_count(page, "", change->size);
                html_put(page, "</tr>");
        }

        end_table(page);
}

static void put_rules(struct page *page, const struct report *rep) {
        html_put(page, "<h2>Rules that changed while it ran</h2>");
        html_put(page, rep->rules.n ? "<ul>" : "<p class=\"dim\">None.</p>");

        for (size_t i = 0; i < rep->rules.n; i++) {
                html_put(page, "<li><code>");
                put_text(page, rep->rules.p[i]);
                html_put(page, "</code></li>");
        }

        html_put(page, rep->rules.n ? "</ul>" : "");
}

int report_put_html(const struct report *rep, struct buf *out) {
        struct page page = { .out = out };

        put_head(&page, rep);
        put_facts(&page, rep);
        put_questions(&page, rep);
        put_hosts(&page, rep);
        put_commands(&page, rep);
        put_credentials(&page, rep);
        put_changes(&page, rep);
        put_accesses(&page, "Files", &rep->files, "No refused access to a file is on record.");
        put_accesses(&page, "System calls", &rep->calls, "No refused system call is on record.");
        put_rules(&page, rep);
        put_timeline(&page, rep);
        html_put(&page, "</main></body></html>\n");

        return page.status;
}
