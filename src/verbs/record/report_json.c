/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/emit.h"
#include "verbs/record/report_internal.h"

static void put_time(struct emit *json, const char *key, uint64_t at_us) {
        char text[CLOCK_TEXT_MAX];

        clock_text(at_us, text);
        emit_put_text(json, key, at_us ? text : NULL);
}

static void put_string(struct emit *json, const char *key, struct str text) {
        if (text.n)
                emit_put_string(json, key, text);
        else
                emit_put_text(json, key, NULL);
}

static void put_targets(struct emit *json, const char *key, const report_targets *list) {
        emit_key(json, key);
        emit_open(json, '[');

        for (size_t i = 0; i < list->n; i++) {
                const struct report_target *target = list->p[i];

                emit_open(json, '{');
                emit_put_string(json, "name", target->name);
                emit_put_number(json, "port", target->port);
                put_string(json, "method", target->method);
                emit_put_number(json, "allowed", target->allowed);
                emit_put_number(json, "refused", target->refused);
                emit_put_number(json, "bytes_in", target->bytes_in);
                emit_put_number(json, "bytes_out", target->bytes_out);
                put_string(json, "rule", target->rule);
                put_string(json, "reason", target->reason);
                put_string(json, "detail", target->detail);
                put_time(json, "first", target->first_us);
                put_time(json, "last", target->last_us);
                emit_close(json);
        }

        emit_close(json);
}

static void put_facts(struct emit *json, const struct report *rep) {
        emit_put_string(json, "run", rep->run_id);
        emit_put_string(json, "sandbox", rep->sandbox);
        put_string(json, "command", rep->command);
        put_string(json, "workspace", rep->workspace);
        put_string(json, "mode", rep->mode);
        put_string(json, "status", rep->status);
        put_time(json, "from", rep->first_us);
        put_time(json, "to", rep->last_us);
        emit_put_number(json, "allowed", rep->allowed);
        emit_put_number(json, "refused", rep->refused);
        emit_put_number(json, "left_out", rep->left_out);

        emit_key(json, "lost");
        emit_open(json, '[');
        for (size_t i = 0; i < rep->lost.n; i++)
                emit_string(json, rep->lost.p[i]);

        emit_close(json);

        emit_key(json, "audit");
        emit_open(json, '{');
        emit_put_text(json, "file", rep->path);
        emit_put_bool(json, "whole", rep->whole);
        emit_put_bool(json, "running", rep->running);
        emit_put_text(json, "problem", rep->whole ? NULL : err_text(&rep->broken));
        emit_put_number(json, "records", rep->proof.records);
        emit_put_text(json, "last_sha256", rep->proof.last_hash);
        emit_close(json);
}

static void put_questions(struct emit *json, const struct report *rep) {
        emit_key(json, "questions");
        emit_open(json, '[');

        for (size_t i = 0; i < rep->questions.n; i++) {
                const struct report_question *question = &rep->questions.p[i];

                emit_open(json, '{');
                emit_put_string(json, "about", question->about);
                put_time(json, "asked", question->asked_us);
                put_time(json, "answered", question->answered_us);
                put_string(json, "answer", question->answer);
                put_string(json, "scope", question->scope);
                put_string(json, "by", question->by);
                emit_close(json);
        }

        emit_close(json);
}

static void put_commands(struct emit *json, const struct report *rep) {
        emit_key(json, "commands");
        emit_open(json, '[');

        for (size_t i = 0; i < rep->commands.n; i++) {
                const struct report_command *command = &rep->commands.p[i];

                emit_open(json, '{');
                put_time(json, "at", command->at_us);
                emit_put_string(json, "command", command->text);
                emit_put_bool(json, "allowed", command->allowed);
                put_string(json, "decision", command->decision);
                put_string(json, "rule", command->rule);
                put_string(json, "detail", command->detail);
                emit_close(json);
        }

        emit_close(json);
}

static void put_credentials(struct emit *json, const struct report *rep) {
        emit_key(json, "credentials");
        emit_open(json, '[');

        for (size_t i = 0; i < rep->credentials.n; i++) {
                const struct report_credential *credential = rep->credentials.p[i];

                emit_open(json, '{');
                emit_put_string(json, "name", credential->name);
                emit_put_number(json, "uses", credential->count);
                put_time(json, "first", credential->first_us);
                put_time(json, "last", credential->last_us);
                emit_key(json, "hosts");
                emit_open(json, '[');

                for (size_t k = 0; k < credential->hosts.n; k++)
                        emit_string(json, credential->hosts.p[k]->name);

                emit_close(json);
                emit_close(json);
        }

        emit_close(json);
}

static void put_changes(struct emit *json, const struct report *rep) {
        emit_key(json, "changes");

        if (!rep->has_changes) {
                emit_null(json);
                return;
        }

        emit_open(json, '[');

        for (size_t i = 0; i < rep->changes.list.n && i < REPORT_ROWS_MAX; i++) {
                const struct change *change = &rep->changes.list.p[i];

                emit_open(json, '{');
                emit_put_text(json, "path", change->path);
                emit_put_text(json, "kind", change_kind_name(change->kind));
                emit_put_number(json, "size", change->size);
                emit_close(json);
        }

        emit_close(json);
}

static void put_moments(struct emit *json, const struct report *rep) {
        static const char *const tones[] = {
                [TONE_PLAIN] = NULL, [TONE_ALLOWED] = "allowed", [TONE_REFUSED] = "refused"
        };

        emit_key(json, "timeline");
        emit_open(json, '[');

        for (size_t i = 0; i < rep->moments.n; i++) {
                const struct report_moment *moment = &rep->moments.p[i];

                emit_open(json, '{');
                put_time(json, "at", moment->at_us);
                emit_put_text(json, "lane", report_lane_name(moment->lane));
                emit_put_text(json, "verdict", tones[moment->tone]);
                emit_put_string(json, "text", moment->text);
                emit_close(json);
        }

        emit_close(json);
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
