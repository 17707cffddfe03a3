/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/emit.h"
#include "verbs/report_internal.h"

static void put_time(struct emit *j, const char *key, uint64_t at_us) {
        char text[CLOCK_TEXT_MAX];

        clock_text(at_us, text);
        emit_put_text(j, key, at_us ? text : NULL);
}

static void put_string(struct emit *j, const char *key, struct str text) {
        if (text.n)
                emit_put_string(j, key, text);
        else
                emit_put_text(j, key, NULL);
}

static void put_targets(struct emit *j, const char *key, const report_targets *list) {
        emit_key(j, key);
        emit_open(j, '[');

        for (size_t i = 0; i < list->n; i++) {
                const struct report_target *target = list->p[i];

                emit_open(j, '{');
                emit_put_string(j, "name", target->name);
                emit_put_number(j, "port", target->port);
                put_string(j, "method", target->method);
                emit_put_number(j, "allowed", target->allowed);
                emit_put_number(j, "refused", target->refused);
                emit_put_number(j, "bytes_in", target->bytes_in);
                emit_put_number(j, "bytes_out", target->bytes_out);
                put_string(j, "rule", target->rule);
                put_string(j, "reason", target->reason);
                put_string(j, "detail", target->detail);
                put_time(j, "first", target->first_us);
                put_time(j, "last", target->last_us);
                emit_close(j);
        }

        emit_close(j);
}

static void put_facts(struct emit *j, const struct report *rep) {
        emit_put_string(j, "run", rep->run_id);
        emit_put_string(j, "sandbox", rep->sandbox);
        put_string(j, "command", rep->command);
        put_string(j, "workspace", rep->workspace);
        put_string(j, "mode", rep->mode);
        put_string(j, "status", rep->status);
        put_time(j, "from", rep->first_us);
        put_time(j, "to", rep->last_us);
        emit_put_number(j, "allowed", rep->allowed);
        emit_put_number(j, "refused", rep->refused);
        emit_put_number(j, "left_out", rep->left_out);

        emit_key(j, "lost");
        emit_open(j, '[');
        for (size_t i = 0; i < rep->lost.n; i++)
                emit_string(j, rep->lost.p[i]);

        emit_close(j);

        emit_key(j, "audit");
        emit_open(j, '{');
        emit_put_text(j, "file", rep->path);
        emit_put_bool(j, "whole", rep->whole);
        emit_put_bool(j, "running", rep->running);
        emit_put_text(j, "problem", rep->whole ? NULL : err_text(&rep->broken));
        emit_put_number(j, "records", rep->proof.records);
        emit_put_text(j, "last_sha256", rep->proof.last_hash);
        emit_close(j);
}

static void put_questions(struct emit *j, const struct report *rep) {
        emit_key(j, "questions");
        emit_open(j, '[');

        for (size_t i = 0; i < rep->questions.n; i++) {
                const struct report_question *question = &rep->questions.p[i];

                emit_open(j, '{');
                emit_put_string(j, "about", question->about);
                put_time(j, "asked", question->asked_us);
                put_time(j, "answered", question->answered_us);
                put_string(j, "answer", question->answer);
                put_string(j, "scope", question->scope);
                put_string(j, "by", question->by);
                emit_close(j);
        }

        emit_close(j);
}

static void put_commands(struct emit *j, const struct report *rep) {
        emit_key(j, "commands");
        emit_open(j, '[');

        for (size_t i = 0; i < rep->commands.n; i++) {
                const struct report_command *command = &rep->commands.p[i];

                emit_open(j, '{');
                put_time(j, "at", command->at_us);
                emit_put_string(j, "command", command->text);
                emit_put_bool(j, "allowed", command->allowed);
                put_string(j, "decision", command->decision);
                put_string(j, "rule", command->rule);
                put_string(j, "detail", command->detail);
                emit_close(j);
        }

        emit_close(j);
}

static void put_credentials(struct emit *j, const struct report *rep) {
        emit_key(j, "credentials");
        emit_open(j, '[');

        for (size_t i = 0; i < rep->credentials.n; i++) {
                const struct report_credential *credential = rep->credentials.p[i];

                emit_open(j, '{');
                emit_put_string(j, "name", credential->name);
                emit_put_number(j, "uses", credential->count);
                put_time(j, "first", credential->first_us);
                put_time(j, "last", credential->last_us);
                emit_key(j, "hosts");
                emit_open(j, '[');

                for (size_t k = 0; k < credential->hosts.n; k++)
                        emit_string(j, credential->hosts.p[k]->name);

                emit_close(j);
                emit_close(j);
        }

        emit_close(j);
}

static void put_changes(struct emit *j, const struct report *rep) {
        emit_key(j, "changes");

        if (!rep->has_changes) {
                emit_null(j);
                return;
        }

        emit_open(j, '[');

        for (size_t i = 0; i < rep->changes.list.n && i < REPORT_ROWS_MAX; i++) {
                const struct change *change = &rep->changes.list.p[i];

                emit_open(j, '{');
                emit_put_text(j, "path", change->path);
                emit_put_text(j, "kind", change_kind_name(change->kind));
                emit_put_number(j, "size", change->size);
                emit_close(j);
        }

        emit_close(j);
}

static void put_moments(struct emit *j, const struct report *rep) {
        static const char *const tones[] = {
                [TONE_PLAIN] = NULL, [TONE_ALLOWED] = "allowed", [TONE_REFUSED] = "refused"
        };

        emit_key(j, "timeline");
        emit_open(j, '[');

        for (size_t i = 0; i < rep->moments.n; i++) {
                const struct report_moment *moment = &rep->moments.p[i];

                emit_open(j, '{');
                put_time(j, "at", moment->at_us);
                emit_put_text(j, "lane", report_lane_name(moment->lane));
                emit_put_text(j, "verdict", tones[moment->tone]);
                emit_put_string(j, "text", moment->text);
                emit_close(j);
        }

        emit_close(j);
}

int report_put_json(const struct report *rep, struct buf *out) {
        struct emit j = emit_to(out);
        int r;

        emit_open(&j, '{');
        put_facts(&j, rep);
        put_questions(&j, rep);
        put_targets(&j, "hosts", &rep->hosts);
        put_commands(&j, rep);
        put_credentials(&j, rep);
        put_changes(&j, rep);
        put_targets(&j, "files", &rep->files);
        put_targets(&j, "syscalls", &rep->calls);
        emit_key(&j, "rules");
        emit_open(&j, '[');

        for (size_t i = 0; i < rep->rules.n; i++)
                emit_string(&j, rep->rules.p[i]);

        emit_close(&j);
        put_moments(&j, rep);
        emit_close(&j);
        r = emit_status(&j);
        if (r < 0)
                return r;

        return buf_add_char(out, '\n');
}
