/* SPDX-License-Identifier: Apache-2.0 */
#include "control/protocol.h"

#include "base/cleanup.h"
#include "conf/json.h"
#include "conf/suggest.h"

#include <assert.h>
#include <errno.h>

enum field {
        FIELD_ID,
        FIELD_DO,
        FIELD_VERSION,
        FIELD_CLIENT,
        FIELD_QUESTION,
        FIELD_ANSWER,
        FIELD_SCOPE,
        FIELD_PATTERN,
        FIELDS
};

static const char *const field_names[] = { "id", "do", "version", "client", "question", "answer", "scope", "pattern" };
static_assert(sizeof field_names / sizeof *field_names == FIELDS, "one name per field");

#define HAS(f) (1u << (f))
static const struct {
        const char *name;
        unsigned needs, takes; /* besides id and do */
} requests[] = {
        [CONTROL_HELLO] = { "hello", HAS(FIELD_VERSION), HAS(FIELD_CLIENT) },
        [CONTROL_STATUS] = { "status", 0, 0 },
        [CONTROL_SUBSCRIBE] = { "subscribe", 0, 0 },
        [CONTROL_PENDING] = { "pending", 0, 0 },
        [CONTROL_ANSWER] = { "answer", HAS(FIELD_QUESTION) | HAS(FIELD_ANSWER), HAS(FIELD_SCOPE) },
        [CONTROL_ALLOW] = { "allow", HAS(FIELD_PATTERN), HAS(FIELD_SCOPE) },
        [CONTROL_DENY] = { "deny", HAS(FIELD_PATTERN), HAS(FIELD_SCOPE) },
        [CONTROL_FORGET] = { "forget", HAS(FIELD_PATTERN), HAS(FIELD_SCOPE) },
        [CONTROL_RULES] = { "rules", 0, 0 },
        [CONTROL_RELOAD] = { "reload", 0, 0 },
        [CONTROL_PAUSE] = { "pause", 0, 0 },
        [CONTROL_RESUME] = { "resume", 0, 0 },
        [CONTROL_KILL] = { "kill", 0, 0 },
};
static_assert(sizeof requests / sizeof *requests == CONTROL_DOS, "one row per request");

static const char *const answers[] = { [ANSWER_DENY] = "deny", [ANSWER_ALLOW] = "allow" };
static_assert(sizeof answers / sizeof *answers == CONTROL_ANSWERS, "one name per answer");
static const char *const scopes[] = { "once", "sandbox", "workspace", "always" };
static_assert(sizeof scopes / sizeof *scopes == CONTROL_SCOPES, "one name per scope");
static const char *const faults[] = { "bad-request", "version", "hello-first", "not-found",
                                      "invalid",     "failed",  "too-many" };
static_assert(sizeof faults / sizeof *faults == CONTROL_FAULTS, "one code per fault");

const char *control_do_name(enum control_do d) {
        return (unsigned)d < CONTROL_DOS ? requests[d].name : "?";
}
const char *control_answer_name(enum control_answer answer) {
        return (unsigned)answer < CONTROL_ANSWERS ? answers[answer] : "?";
}
const char *control_scope_name(enum control_scope scope) {
        return (unsigned)scope < CONTROL_SCOPES ? scopes[scope] : "?";
}
const char *control_fault_code(enum control_fault fault) {
        return (unsigned)fault < CONTROL_FAULTS ? faults[fault] : "?";
}

bool control_scope_parse(struct str text, enum control_scope *ret) {
        for (unsigned i = 0; i < CONTROL_SCOPES; i++)
                if (str_is(text, scopes[i])) {
                        *ret = (enum control_scope)i;
                        return true;
                }
        return false;
}

/*
 * Requests.
 */
static bool is_number(const struct node *node) {
        return node->kind == NODE_SCALAR && !node->quoted;
}
static bool is_text(const struct node *node) {
        return node->kind == NODE_SCALAR && node->quoted;
}

static int read_number(const struct node *node, uint64_t max, uint64_t *ret, struct err *err) {
        if (!is_number(node) || !str_to_u64(node->text, max, ret))
                return err_set(err, EINVAL, "\"%.*s\" must be a whole number of at most %ju", STR_FMT(node->key),
                               (uintmax_t)max);
        return 0;
}

/* Printable ASCII or UTF-8 without control bytes; terminated in ret. */
static int read_text(const struct node *node, char *ret, size_t size, struct err *err) {
        if (!is_text(node) || node->text.n >= size)
                return err_set(err, EINVAL, "\"%.*s\" must be a text of at most %zu bytes", STR_FMT(node->key),
                               size - 1);

        for (size_t i = 0; i < node->text.n; i++)
                if ((unsigned char)node->text.p[i] < 0x20 || node->text.p[i] == 0x7f)
                        return err_set(err, EINVAL, "\"%.*s\" has control characters", STR_FMT(node->key));

        memcpy(ret, node->text.p, node->text.n);
        ret[node->text.n] = '\0';

        return 0;
}

static int read_choice(const struct node *node, const char *const *names, unsigned count, unsigned *ret,
                       struct err *err) {
        struct suggestion suggestion = suggest_for(node->text);

        for (unsigned i = 0; is_text(node) && i < count; i++) {
                if (str_is(node->text, names[i])) {
                        *ret = i;
                        return 0;
                }

                suggest_offer(&suggestion, names[i]);
        }

        return err_set(err, EINVAL, "\"%.*s\": %s is not known%s", STR_FMT(node->key), show(node->text).text,
                       suggest_text(&suggestion, "").text);
}

static int read_field(const struct node *node, enum field field, struct control_request *request, struct err *err) {
        uint64_t number = 0;
        unsigned place = 0;
        int r = 0;

        switch (field) {
        case FIELD_ID:
        case FIELD_QUESTION:
                return read_number(node, INT64_MAX, field == FIELD_ID ? &request->id : &request->question, err);
        case FIELD_VERSION:
                r = read_number(node, UINT32_MAX, &number, err);
                request->version = (uint32_t)number;
                return r;
        case FIELD_CLIENT:
                return read_text(node, request->client, sizeof request->client, err);
        case FIELD_PATTERN:
                return read_text(node, request->pattern, sizeof request->pattern, err);
        case FIELD_ANSWER:
                r = read_choice(node, answers, CONTROL_ANSWERS, &place, err);
                request->answer = (enum control_answer)place;

                return r;
        case FIELD_SCOPE:
                r = read_choice(node, scopes, CONTROL_SCOPES, &place, err);
                request->scope = (enum control_scope)place;
                return r;
        default:
                return 0;
        }
}

static int find_field(struct str key, enum field *ret, struct err *err) {
        struct suggestion suggestion = suggest_for(key);

        for (unsigned i = 0; i < FIELDS; i++) {
                if (str_is(key, field_names[i])) {
                        *ret = (enum field)i;
                        return 0;
                }

                suggest_offer(&suggestion, field_names[i]);
        }

        return err_set(err, EINVAL, "unknown field %s%s", show(key).text, suggest_text(&suggestion, "").text);
}

static int find_do(const struct node *root, enum control_do *ret, struct err *err) {
        const struct node *node = node_get(root, STR("do"));
        if (!node || !is_text(node))
                return err_set(err, EINVAL, "\"do\" must say what is wanted");

        struct suggestion suggestion = suggest_for(node->text);

        for (unsigned i = 0; i < CONTROL_DOS; i++) {
                if (str_is(node->text, requests[i].name)) {
                        *ret = (enum control_do)i;
                        return 0;
                }

                suggest_offer(&suggestion, requests[i].name);
        }

        return err_set(err, EINVAL, "unknown request %s%s", show(node->text).text, suggest_text(&suggestion, "").text);
}

static int read_fields(const struct node *root, struct control_request *request, struct err *err) {
        unsigned seen = 0,
                 takes = requests[request->what].needs | requests[request->what].takes | HAS(FIELD_ID) | HAS(FIELD_DO);

        for (const struct node *node = root->first; node; node = node->next) {
                enum field f = FIELDS;
                int r = find_field(node->key, &f, err);
                if (r == 0 && !(takes & HAS(f)))
                        r = err_set(err, EINVAL, "%s takes no \"%s\"", requests[request->what].name, field_names[f]);
                if (r == 0)
                        r = read_field(node, f, request, err);
                if (r < 0)
                        return r;

                seen |= HAS(f);
        }

        for (unsigned f = 0; f < FIELDS; f++)
                if ((requests[request->what].needs & HAS(f)) && !(seen & HAS(f)))
                        return err_set(err, EINVAL, "%s needs \"%s\"", requests[request->what].name, field_names[f]);

        return 0;
}

int control_request_parse(struct str line, struct control_request *ret, struct err *err) {
        cleanup(document_freep) struct document *document = NULL;

        *ret = (struct control_request){ 0 };
        if (line.n > CONTROL_LINE_MAX)
                return err_set(err, EINVAL, "a request has at most %d bytes", CONTROL_LINE_MAX);

        int r = json_read(line, STR("request"), &document, err);
        if (r == -ENOMEM)
                return r;
        if (r < 0)
                return -EINVAL;

        const struct node *root = document_root(document);
        if (!root || root->kind != NODE_MAP)
                return err_set(err, EINVAL, "a request is a JSON object");

        struct control_request request = { .scope = SCOPE_SANDBOX };
        const struct node *id = node_get(root, STR("id"));
        if (!id)
                return err_set(err, EINVAL, "a request needs an \"id\"");

        r = read_number(id, INT64_MAX, &request.id, err);
        if (r < 0)
                return r;

        ret->id = request.id;
        r = find_do(root, &request.what, err);
        if (r == 0 && request.what == CONTROL_ANSWER)
                request.scope = SCOPE_ONCE;
        if (r == 0)
                r = read_fields(root, &request, err);
        if (r == 0)
                *ret = request;

        return r;
}

int control_request_write(struct buf *out, const struct control_request *request) {
        if ((unsigned)request->what >= CONTROL_DOS)
                return -EINVAL;

        size_t before = out->n;
        unsigned has = requests[request->what].needs | requests[request->what].takes;
        struct emit j = emit_to(out);
        emit_open(&j, '{');
        emit_put_number(&j, "id", request->id);
        emit_put_text(&j, "do", requests[request->what].name);

        if (has & HAS(FIELD_VERSION))
                emit_put_number(&j, "version", request->version);
        if (has & HAS(FIELD_CLIENT))
                emit_put_text(&j, "client", request->client);
        if (has & HAS(FIELD_QUESTION))
                emit_put_number(&j, "question", request->question);
        if (has & HAS(FIELD_ANSWER))
                emit_put_text(&j, "answer", control_answer_name(request->answer));
        if (has & HAS(FIELD_PATTERN))
                emit_put_text(&j, "pattern", request->pattern);
        if (has & HAS(FIELD_SCOPE))
                emit_put_text(&j, "scope", control_scope_name(request->scope));

        int r = control_close(&j);
        if (r < 0)
                out->n = before;

        return r;
}

/*
 * Messages of the server.
 */
const char *control_text(const struct node *map, const char *key) {
        const struct node *node = map ? node_get(map, str_of(key)) : NULL;
        return node && is_text(node) && !str_has_nul(node->text) ? node->text.p : NULL;
}

uint64_t control_number(const struct node *map, const char *key) {
        const struct node *node = map ? node_get(map, str_of(key)) : NULL;
        uint64_t number = 0;
        if (node && is_number(node) && str_to_u64(node->text, UINT64_MAX, &number))
                return number;

        return 0;
}

bool control_bool(const struct node *map, const char *key) {
        const struct node *node = map ? node_get(map, str_of(key)) : NULL;
        return node && is_number(node) && str_is(node->text, "true");
}

void control_message_done(struct control_message *message) {
        document_free(message->document);
        *message = (struct control_message){ 0 };
}

static int read_reply(struct control_message *message, struct err *err) {
        const struct node *id = node_get(message->root, STR("id")), *ok = node_get(message->root, STR("ok"));
        if (!id || !is_number(id) || !str_to_u64(id->text, INT64_MAX, &message->id) || !ok || !is_number(ok))
                return err_set(err, EBADMSG, "a message has either \"event\", or \"id\" and \"ok\"");

        message->ok = control_bool(message->root, "ok");
        if (message->ok)
                return 0;

        const struct node *fault = node_get(message->root, STR("error"));
        const struct node *code = fault ? node_get(fault, STR("code")) : NULL;
        const struct node *text = fault ? node_get(fault, STR("text")) : NULL;
        if (!code || !text || !is_text(code) || !is_text(text))
                return err_set(err, EBADMSG, "a reply that is not ok has an \"error\" with \"code\" and \"text\"");

        message->fault = code->text;
        message->text = text->text;

        return 0;
}

int control_message_parse(struct str line, struct control_message *ret, struct err *err) {
        struct control_message message = { 0 };
        int r = json_read(line, STR("reply"), &message.document, err);
        if (r < 0)
                return r;

        message.root = document_root(message.document);
        if (!message.root || message.root->kind != NODE_MAP) {
                r = err_set(err, EBADMSG, "a message is a JSON object");
        } else {
                const struct node *event = node_get(message.root, STR("event"));

                message.is_event = event && is_text(event);
                if (message.is_event)
                        message.event = event->text;
                else
                        r = read_reply(&message, err);
        }

        if (r < 0) {
                control_message_done(&message);
                return r;
        }

        *ret = message;
        return 0;
}

struct emit control_reply_open(struct buf *out, uint64_t id) {
        struct emit j = emit_to(out);
        emit_open(&j, '{');
        emit_put_number(&j, "id", id);
        emit_put_bool(&j, "ok", true);
        return j;
}

struct emit control_event_open(struct buf *out, const char *event) {
        struct emit j = emit_to(out);
        emit_open(&j, '{');
        emit_put_text(&j, "event", event);
        return j;
}

int control_close(struct emit *json) {
        emit_close(json);
        int r = emit_status(json);
        if (r < 0)
                return r;

        return buf_add_char(json->out, '\n');
}

int control_reply_fault(struct buf *out, uint64_t id, enum control_fault fault, const char *text) {
        struct emit j = emit_to(out);

        emit_open(&j, '{');
        emit_put_number(&j, "id", id);
        emit_put_bool(&j, "ok", false);
        emit_key(&j, "error");
        emit_open(&j, '{');
        emit_put_text(&j, "code", control_fault_code(fault));
        emit_put_text(&j, "text", text);
        emit_close(&j);

        return control_close(&j);
}
