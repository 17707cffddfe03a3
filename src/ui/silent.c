/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Silent mode: for some minutes every undecided host is allowed, each connection once, and listed for review. Denied
 * hosts, private addresses and metadata services never become questions, so they stay refused; commands keep waiting
 * for a person. The answers come over connections of their own, so that the record says "by control (bailey ui silent
 * mode)".
 */
#include "base/cleanup.h"
#include "base/clock.h"
#include "ui/ui_internal.h"

enum { HOSTS_MAX = 1000, MINUTES_MAX = 60 };

static void tell_page(struct ui *ui) {
        ui_publish(ui, STR("{\"event\":\"silent\"}"));
}

void silent_begin(struct ui *ui, uint64_t minutes) {
        if (minutes < 1)
                minutes = 1;
        if (minutes > MINUTES_MAX)
                minutes = MINUTES_MAX;
        silent_done(ui);
        ui->silent.until_us = clock_wall_us() + minutes * 60 * 1000000;
        ui_note(ui, "silent mode begins, for %ju minutes", (uintmax_t)minutes);
        watch_look(ui);
        tell_page(ui);
}

void silent_end(struct ui *ui, const char *why) {
        if (!ui->silent.until_us)
                return;
        ui->silent.until_us = 0;
        for (size_t i = 0; i < ui->peers.n; i++)
                ui->peers.p[i]->gone = ui->peers.p[i]->gone || ui->peers.p[i]->kind == PEER_SILENT;
        ui_note(ui, "silent mode ends: %s", why);
        tell_page(ui);
}

void silent_tick(struct ui *ui) {
        if (ui->silent.until_us && clock_wall_us() >= ui->silent.until_us)
                silent_end(ui, "the time is over");
}

static void note_host(struct ui *ui, const char *host, uint64_t port) {
        cleanup(free_ptr) char *name = str_format("%s:%ju", host, (uintmax_t)port);

        for (size_t i = 0; name && i < ui->silent.hosts.n; i++) {
                if (strcmp(ui->silent.hosts.p[i].host, name) == 0) {
                        ui->silent.hosts.p[i].count++;
                        return;
                }
        }

        if (!name || ui->silent.hosts.n >= HOSTS_MAX || vec_reserve(&ui->silent.hosts, 1) < 0)
                return;

        ui->silent.hosts.p[ui->silent.hosts.n].host = take_ptr(&name);
        ui->silent.hosts.p[ui->silent.hosts.n++].count = 1;
        tell_page(ui);
}

static void silent_answer(struct ui *ui, struct peer *peer, const struct node *question) {
        struct control_request request = { .what = CONTROL_ANSWER, .answer = ANSWER_ALLOW, .scope = SCOPE_ONCE };
        const char *kind = question ? control_text(question, "kind") : NULL;
        const char *host = question ? control_text(question, "host") : NULL;

        if (!ui->silent.until_us || !kind || !host || strcmp(kind, "host") != 0)
                return;

        request.question = control_number(question, "id");
        if (watch_send(peer, &request, 0) == 0)
                note_host(ui, host, control_number(question, "port"));
}

void silent_message(struct ui *ui, struct peer *peer, const struct control_message *message) {
        if (message->is_event) {
                if (str_is(message->event, "ask"))
                        silent_answer(ui, peer, node_get(message->root, STR("question")));
                return;
        }

        const struct node *questions = node_get(message->root, STR("questions"));
        for (const struct node *question = questions ? questions->first : NULL; question; question = question->next)
                silent_answer(ui, peer, question);
}

void silent_emit(const struct ui *ui, struct emit *json) {
        char until[CLOCK_TEXT_MAX];

        clock_text(ui->silent.until_us, until);
        emit_key(json, "silent");
        emit_open(json, '{');
        emit_put_text(json, "until", ui->silent.until_us ? until : NULL);
        emit_key(json, "hosts");
        emit_open(json, '[');

        for (size_t i = 0; i < ui->silent.hosts.n; i++) {
                emit_open(json, '{');
                emit_put_text(json, "host", ui->silent.hosts.p[i].host);
                emit_put_number(json, "count", ui->silent.hosts.p[i].count);
                emit_close(json);
        }

        emit_close(json);
        emit_close(json);
}

void silent_done(struct ui *ui) {
        for (size_t i = 0; i < ui->silent.hosts.n; i++)
                free(ui->silent.hosts.p[i].host);
        vec_done(&ui->silent.hosts);
}
