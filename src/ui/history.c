/* SPDX-License-Identifier: Apache-2.0 */
/* Answers from the index. Records are handed out as they stand in the log: one line is one JSON object. */
#include "base/bounds.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "ui/ui_internal.h"

#include <stdio.h>
#include <stdlib.h>

enum { PAGE = 200, PAGE_MAX = 1000, SUMS_SHOWN = 2000, PARAMETERS = 12 };

struct answer {
        struct emit j;
        uint64_t at_us, run, seq;
        unsigned n;
};

static int on_record(void *arg, const struct audit_hit *hit) {
        struct answer *answer = arg;

        emit_open(&answer->j, '{');
        emit_put_text(&answer->j, "run", hit->run_id);
        emit_key(&answer->j, "record");

        if (answer->j.status == 0)
                answer->j.status = buf_append(answer->j.out, hit->line);

        emit_close(&answer->j);
        answer->at_us = hit->at_us;
        answer->run = hit->run;
        answer->seq = hit->seq;
        answer->n++;

        return answer->j.status;
}

static uint64_t number_of(const char *text, uint64_t fallback) {
        uint64_t number;

        return text && str_to_u64(str_of(text), UINT64_MAX / 2, &number) ? number : fallback;
}

/* "AT.RUN.SEQ", as the last answer gave it. */
static void read_cursor(const char *text, struct audit_query *ret) {
        struct str rest = str_of(text_or(text, "")), part;
        uint64_t *const numbers[] = { &ret->after_us, &ret->after_run, &ret->after_seq };

        for (size_t i = 0; i < 3 && str_split(&rest, '.', &part); i++)
                if (!str_to_u64(part, UINT64_MAX / 2, numbers[i]))
                        return;
}

void history_records(struct ui *ui, const struct ui_request *request) {
        cleanup(buf_done) struct buf out = BUF(UI_REPLY_MAX);
        struct answer answer = { .j = emit_to(&out) };
        struct audit_query query = { .newest_first = true };
        struct buf texts[PARAMETERS];
        struct err err = { 0 };
        const struct {
                const char *name;
                const char **to;
        } parameters[] = { { "run", &query.run },   { "host", &query.host }, { "path", &query.path },
                           { "rule", &query.rule }, { "text", &query.text }, { "credential", &query.credential },
                           { "kind", &query.kind } };

        for (size_t i = 0; i < PARAMETERS; i++)
                texts[i] = BUF(4096);

        for (size_t i = 0; i < sizeof parameters / sizeof *parameters; i++)
                *parameters[i].to = query_get(request->query, parameters[i].name, &texts[i]);

        const char *verdict = query_get(request->query, "verdict", &texts[7]);
        if (verdict && strcmp(verdict, "refused") == 0)
                query.verdict = VERDICT_REFUSED;
        else if (verdict && strcmp(verdict, "allowed") == 0)
                query.verdict = VERDICT_ALLOWED;

        query.since_us = number_of(query_get(request->query, "since_us", &texts[8]), 0);
        query.until_us = number_of(query_get(request->query, "until_us", &texts[9]), 0);
        query.limit = (unsigned)number_of(query_get(request->query, "limit", &texts[10]), PAGE);
        if (query.limit > PAGE_MAX)
                query.limit = PAGE_MAX;
        read_cursor(query_get(request->query, "cursor", &texts[11]), &query);

        emit_open(&answer.j, '{');
        emit_key(&answer.j, "records");
        emit_open(&answer.j, '[');

        int r = audit_index_search(ui->index, &query, on_record, &answer, &err);
        emit_close(&answer.j);
        char cursor[96];
        snprintf(cursor, sizeof cursor, "%ju.%ju.%ju", (uintmax_t)answer.at_us, (uintmax_t)answer.run,
                 (uintmax_t)answer.seq);
        emit_put_text(&answer.j, "cursor", answer.n == query.limit ? cursor : NULL);
        emit_close(&answer.j);

        for (size_t i = 0; i < PARAMETERS; i++)
                buf_done(&texts[i]);

        if (r < 0 || emit_status(&answer.j) < 0)
                connection_fault(request->connection, 500, r < 0 ? err_text(&err) : "the answer is too long");
        else
                connection_reply(request->connection, 200, "application/json", buf_str(&out), NULL);
}

static void put_time(struct emit *json, const char *key, uint64_t at_us) {
        char text[CLOCK_TEXT_MAX];

        clock_text(at_us, text);
        emit_put_text(json, key, at_us ? text : NULL);
}

static int on_sum(void *arg, const struct audit_sum *sum) {
        struct emit *j = arg;

        emit_open(j, '{');
        emit_put_text(j, "name", sum->name);
        emit_put_number(j, "port", sum->port);
        emit_put_number(j, "allowed", sum->allowed);
        emit_put_number(j, "refused", sum->refused);
        emit_put_number(j, "bytes_in", sum->bytes_in);
        emit_put_number(j, "bytes_out", sum->bytes_out);
        put_time(j, "first", sum->first_us);
        put_time(j, "last", sum->last_us);
        emit_put_text(j, "rule", sum->rule && *sum->rule ? sum->rule : NULL);
        emit_put_text(j, "reason", sum->reason && *sum->reason ? sum->reason : NULL);

        if (sum->path) {
                emit_put_text(j, "path", sum->path);
                emit_put_text(j, "workspace", sum->workspace);
                emit_put_text(j, "command", sum->command);
                emit_put_text(j, "mode", sum->mode);
                emit_put_text(j, "status", sum->status);
                emit_put_text(j, "broken", *sum->broken ? sum->broken : NULL);
                emit_put_number(j, "records", sum->records);
                emit_put_bool(j, "closed", sum->closed);
        }

        emit_close(j);
        return j->status;
}

void history_sums(struct ui *ui, const struct ui_request *request, enum audit_sums what) {
        cleanup(buf_done) struct buf out = BUF(UI_REPLY_MAX), run = BUF(4096), text = BUF(4096), limit = BUF(64);
        struct emit j = emit_to(&out);
        struct err err = { 0 };
        unsigned most = (unsigned)number_of(query_get(request->query, "limit", &limit), 500);

        emit_open(&j, '[');
        int r = audit_index_sums(ui->index, what, query_get(request->query, "run", &run),
                                 query_get(request->query, "text", &text), min_of(most, SUMS_SHOWN), on_sum, &j, &err);
        emit_close(&j);

        if (r < 0 || emit_status(&j) < 0)
                connection_fault(request->connection, 500, r < 0 ? err_text(&err) : "the answer is too long");
        else
                connection_reply(request->connection, 200, "application/json", buf_str(&out), NULL);
}
