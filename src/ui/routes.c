/* SPDX-License-Identifier: Apache-2.0 */
/* Handles requests. The gate has let all of them in; a POST comes from the page of a person who may do this. */
#include "bailey/version.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "conf/json.h"
#include "store/progress.h"
#include "ui/ui_internal.h"

#include <errno.h>
#include <stdio.h>

/*
 * Parameters.
 */
static int add_decoded(struct buf *into, struct str text) {
        for (size_t i = 0; i < text.n; i++) {
                char c = text.p[i];
                if (c == '%') {
                        int high = i + 2 < text.n ? ascii_hex(text.p[i + 1]) : -1;
                        int low = -1;

                        if (i + 2 < text.n + 1 && high >= 0)
                                low = ascii_hex(text.p[i + 2]);

                        if (high < 0 || low < 0 || (high == 0 && low == 0))
                                return -EINVAL;

                        c = (char)(high << 4 | low);
                        i += 2;
                }

                int r = buf_add_char(into, c);
                if (r < 0)
                        return r;
        }

        return 0;
}

const char *query_get(struct str query, const char *name, struct buf *into) {
        struct str part;

        while (str_split(&query, '&', &part)) {
                ptrdiff_t equals = str_find(part, '=');
                if (equals < 0 || !str_is(str_first(part, (size_t)equals), name))
                        continue;

                buf_clear(into);
                if (add_decoded(into, str_skip(part, (size_t)equals + 1)) < 0)
                        return NULL;

                if (into->n)
                        return buf_text(into);

                return NULL;
        }

        return NULL;
}

/* A word for a verb: an id, a name, a host. Never an option. */
static const char *word_get(const struct ui_request *request, const char *name, struct buf *into) {
        const char *word = query_get(request->query, name, into);

        return word && word[0] != '-' ? word : NULL;
}

/*
 * The state, and the stream.
 */
static void show_state(struct ui *ui, const struct ui_request *request) {
        cleanup(buf_done) struct buf out = BUF(UI_REPLY_MAX);
        struct emit j = emit_to(&out);
        uint64_t read, all;
        char now[CLOCK_TEXT_MAX], event[48];

        audit_index_progress(ui->index, &read, &all);
        clock_text(clock_wall_us(), now);
        snprintf(event, sizeof event, "%s-%ju", ui->epoch, (uintmax_t)(ui->ring.next - 1));
        emit_open(&j, '{');
        emit_put_text(&j, "now", now);
        emit_put_text(&j, "event", event);
        emit_put_text(&j, "version", bailey_version());
        emit_put_bool(&j, "read_only", ui->settings->read_only);
        emit_key(&j, "index");
        emit_open(&j, '{');
        emit_put_number(&j, "read", read);
        emit_put_number(&j, "all", all);
        emit_close(&j);
        emit_key(&j, "work");
        emit_open(&j, '[');
        progress_list(&j);
        emit_close(&j);
        silent_emit(ui, &j);
        pair_emit(ui, request->connection->device[0], &j);
        watch_emit_state(ui, !request->connection->device[0], &j);
        emit_close(&j);

        if (emit_status(&j) < 0)
                connection_fault(request->connection, 500, "the state is too long");
        else
                connection_reply(request->connection, 200, "application/json", buf_str(&out), NULL);
}

static void show_events(struct ui *ui, const struct ui_request *request) {
        struct connection *connection = request->connection;
        cleanup(buf_done) struct buf after = BUF(64);
        const char *last = query_get(request->query, "after", &after);
        size_t epoch = strlen(ui->epoch);
        uint64_t number;

        connection->closing = true;
        connection_reply(connection, 200, "text/event-stream; charset=utf-8", STR(""), NULL);

        /* A stream has no length and ends with the connection. */
        static const char length[] = "Content-Length: 0\r\n";
        char *at = memmem(connection->out.p, connection->out.n, length, sizeof length - 1);
        if (at) {
                size_t rest = connection->out.n - (size_t)(at - connection->out.p) - (sizeof length - 1);

                memmove(at, at + sizeof length - 1, rest);
                connection->out.n -= sizeof length - 1;
        }

        connection->stream = true;
        connection->event = ui->ring.next;
        if (!last)
                return;

        if (strncmp(last, ui->epoch, epoch) == 0 && last[epoch] == '-' &&
            str_to_u64(str_of(last + epoch + 1), UINT64_MAX / 2, &number) && number < ui->ring.next) {
                connection->event = number + 1;
                return;
        }

        (void)buf_add(&connection->out, "event: reset\ndata: {}\n\n"); /* of another server: it begins anew */
}

/*
 * What changes something.
 */
static void open_session(struct ui *ui, const struct ui_request *request, const struct node *body) {
        if (request->connection->device[0]) {
                pair_open_session(ui, request, body);
                return;
        }

        cleanup(buf_done) struct buf out = BUF(1024);
        struct emit j = emit_to(&out);
        const char *key = control_text(body, "key");
        struct gate_session *session = key ? links_exchange(ui, str_of(key)) : NULL;
        char cookie[160];

        if (!session) {
                ui_note(ui, "refused a link: it was used before, is older than a minute, or never was one");
                connection_fault(request->connection, 403,
                                 "this link was used before or is older than a minute: run `bailey ui` again");
                return;
        }

        ui_note(ui, "a session began");
        emit_open(&j, '{');
        emit_put_text(&j, "page", session->header);
        emit_close(&j);
        snprintf(cookie, sizeof cookie, "Set-Cookie: " GATE_COOKIE "=%s; HttpOnly; SameSite=Strict; Path=/\r\n",
                 session->cookie);
        connection_reply(request->connection, 200, "application/json", buf_str(&out), cookie);
}

static bool order_of(const char *text, enum control_do *ret) {
        static const enum control_do orders[] = { CONTROL_ANSWER, CONTROL_ALLOW,  CONTROL_DENY, CONTROL_FORGET,
                                                  CONTROL_PAUSE,  CONTROL_RESUME, CONTROL_KILL, CONTROL_RELOAD };

        for (size_t i = 0; text && i < sizeof orders / sizeof *orders; i++) {
                if (strcmp(control_do_name(orders[i]), text) == 0) {
                        *ret = orders[i];
                        return true;
                }
        }

        return false;
}

static void routes_act(struct ui *ui, const struct ui_request *request, const struct node *body) {
        struct control_request order = { .scope = SCOPE_SANDBOX };
        const char *sandbox = control_text(body, "sandbox"), *scope = control_text(body, "scope"),
                   *answer = control_text(body, "answer"), *pattern = control_text(body, "pattern");
        bool device = request->connection->device[0];
        enum peer_kind kind = device ? PEER_DEVICE : PEER_PAGE;

        if (!order_of(control_text(body, "do"), &order.what) ||
            (scope && !control_scope_parse(str_of(scope), &order.scope)) ||
            (pattern && strlen(pattern) >= sizeof order.pattern)) {
                connection_fault(request->connection, 400, "this is no order that a sandbox understands");
                return;
        }

        if (device && order.what != CONTROL_ANSWER) {
                pair_note(ui, "refused an order of the paired device: %s", control_do_name(order.what));
                connection_fault(request->connection, 403, gate_text(GATE_PAIRED));
                return;
        }

        if (device && sandbox && watch_find(ui, sandbox, PEER_PAGE))
                (void)watch_connect(ui, sandbox, PEER_DEVICE); /* one that has just begun */

        struct peer *peer = sandbox ? watch_find(ui, sandbox, kind) : NULL;
        if (!peer) {
                connection_fault(request->connection, 404, "the sandbox is gone");
                return;
        }

        order.question = control_number(body, "question");
        order.answer = answer && strcmp(answer, "allow") == 0 ? ANSWER_ALLOW : ANSWER_DENY;
        if (pattern)
                memcpy(order.pattern, pattern, strlen(pattern) + 1);

        if (watch_send(peer, &order, ui_ticket(ui, request->connection)) < 0)
                ui_reply_fault(ui, request->connection->ticket, 409, "the sandbox does not listen");
        else
                ui_note(ui, "%s to the sandbox %s%s", control_do_name(order.what), peer->client.id,
                        device ? ", from the paired device" : "");
}

static void change_silent(struct ui *ui, const struct ui_request *request, const struct node *body) {
        uint64_t minutes = control_number(body, "minutes");

        if (minutes)
                silent_begin(ui, minutes);
        else
                silent_end(ui, "a person ended it");
        connection_reply(request->connection, 200, "application/json", STR("{}"), NULL);
}

static void change_overlay(struct ui *ui, const struct ui_request *request, const struct node *body) {
        const char *id = control_text(body, "id"), *what = control_text(body, "do");
        bool apply = what && strcmp(what, "apply") == 0;

        if (!id || !*id || id[0] == '-' || (!apply && (!what || strcmp(what, "discard") != 0))) {
                connection_fault(request->connection, 400, "an overlay is applied or discarded, by its id");
                return;
        }

        const char *const words[] = { apply ? "apply" : "discard", id, NULL };
        ui_note(ui, "%s the overlay %s", words[0], id);
        tool_start(ui, request, words, "text/plain; charset=utf-8");
}

static void test_credential(struct ui *ui, const struct ui_request *request, const struct node *body) {
        const char *name = control_text(body, "name");

        if (!name || !*name || name[0] == '-') {
                connection_fault(request->connection, 400, "a credential is tested by its name");
                return;
        }

        const char *const words[] = { "secrets", "test", "--json", name, NULL };
        ui_note(ui, "a credential is tested");
        tool_start(ui, request, words, "application/json");
}

static const struct {
        const char *path;
        void (*handle)(struct ui *ui, const struct ui_request *request, const struct node *body);
} posts[] = {
        { "/api/session", open_session },         { "/api/act", routes_act },
        { "/api/silent", change_silent },         { "/api/overlay", change_overlay },
        { "/api/secrets/test", test_credential }, { "/api/pairing/end", pair_stop },
};

static void dispatch_post(struct ui *ui, const struct ui_request *request) {
        cleanup(document_freep) struct document *body = NULL;
        struct err err = { 0 };

        for (size_t i = 0; i < sizeof posts / sizeof *posts; i++) {
                if (!str_is(request->path, posts[i].path))
                        continue;
                if (json_read(request->body, STR("the request"), &body, &err) < 0 || !document_root(body) ||
                    document_root(body)->kind != NODE_MAP)
                        connection_fault(request->connection, 400, err.code ? err_text(&err) : "no JSON object");
                else
                        posts[i].handle(ui, request, document_root(body));

                return;
        }

        connection_fault(request->connection, 404, "there is nothing here");
}

/*
 * What only shows. Verbs that answer by themselves, each with at most one word of the request.
 */
static const struct {
        const char *path, *words[4], *parameter, *type;
} verbs_shown[] = {
        { "/api/doctor", { "doctor", "--json" }, NULL, "application/json" },
        { "/api/secrets", { "secrets", "list", "--json" }, NULL, "application/json" },
        { "/api/policy", { "policy", "show", "--json" }, NULL, "application/json" },
        { "/api/containers", { "egress", "containers", "--json" }, NULL, "application/json" },
        { "/api/egress", { "egress", "status", "--json" }, NULL, "application/json" },
        { "/api/report", { "report", "--json" }, "run", "application/json" },
        { "/api/report.html", { "report" }, "run", "application/octet-stream" },
        { "/api/log.jsonl", { "log", "--json", "--run" }, "run", "application/octet-stream" },
        { "/api/guests", { "guest", "ls", "--json" }, NULL, "application/json" },
        { "/api/verify", { "log", "verify", "--json", "--run" }, "run", "application/json" },
        { "/api/why", { "why", "--json" }, "target", "application/json" },
        { "/api/changes", { "diff", "--json" }, "id", "application/json" },
};

static bool dispatch_verb(struct ui *ui, const struct ui_request *request) {
        for (size_t i = 0; i < sizeof verbs_shown / sizeof *verbs_shown; i++) {
                cleanup(buf_done) struct buf text = BUF(4096);
                const char *words[6] = { 0 };
                size_t n = 0;

                if (!str_is(request->path, verbs_shown[i].path))
                        continue;

                for (; n < 4 && verbs_shown[i].words[n]; n++)
                        words[n] = verbs_shown[i].words[n];

                if (verbs_shown[i].parameter) {
                        words[n] = word_get(request, verbs_shown[i].parameter, &text);
                        if (!words[n]) {
                                connection_fault(request->connection, 400, "a parameter is missing");
                                return true;
                        }
                }

                tool_start(ui, request, words, verbs_shown[i].type);
                return true;
        }

        return false;
}

static bool dispatch_asset(const struct ui_request *request) {
        for (size_t i = 0; i < n_ui_assets; i++) {
                const struct ui_asset *asset = &ui_assets[i];
                if (!str_is(request->path, asset->path))
                        continue;

                connection_reply(request->connection, 200, asset->type, str_n(asset->bytes, asset->n), NULL);
                return true;
        }

        return false;
}

static void show_hosts(struct ui *ui, const struct ui_request *request) {
        history_sums(ui, request, SUMS_HOSTS);
}

static void show_rules(struct ui *ui, const struct ui_request *request) {
        history_sums(ui, request, SUMS_RULES);
}

static void show_credentials(struct ui *ui, const struct ui_request *request) {
        history_sums(ui, request, SUMS_CREDENTIALS);
}

static void show_runs(struct ui *ui, const struct ui_request *request) {
        history_sums(ui, request, SUMS_RUNS);
}

static const struct {
        const char *path;
        void (*handle)(struct ui *ui, const struct ui_request *request);
} pages[] = {
        { "/api/state", show_state },
        { "/api/events", show_events },
        { "/api/history", history_records },
        { "/api/hosts", show_hosts },
        { "/api/rules", show_rules },
        { "/api/credentials", show_credentials },
        { "/api/runs", show_runs },
        { "/api/overlays", overlay_view_list },
        { "/api/overlay/file", overlay_view_file },
};

void routes_dispatch(struct ui *ui, const struct ui_request *request) {
        if (request->post) {
                dispatch_post(ui, request);
                return;
        }

        if (dispatch_asset(request))
                return;

        for (size_t i = 0; i < sizeof pages / sizeof *pages; i++) {
                if (str_is(request->path, pages[i].path)) {
                        pages[i].handle(ui, request);
                        return;
                }
        }

        if (!dispatch_verb(ui, request))
                connection_fault(request->connection, 404, "there is nothing here");
}
