/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs/sandboxes/sandboxes.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/escape.h"
#include "verbs/sandboxes/sandbox_names.h"
#include "verbs/sandboxes/sandboxes_text.h"

#include <errno.h>

void sandboxes_done(struct sandboxes_list *list) {
        for (size_t i = 0; i < list->clients.n; i++)
                control_client_done(&list->clients.p[i]);
        for (size_t i = 0; i < list->silent.n; i++)
                free(list->silent.p[i]);
        vec_done(&list->clients);
        vec_done(&list->silent);
}

/* Gone between listing and connecting is no error, and neither is one that does not reply. */
static int open_one(const char *id, const char *name, struct sandboxes_list *ret, struct err *err) {
        struct control_client c;
        struct err why = { 0 };
        int r = control_client_open(id, name, &c, &why);
        if (r == -ENOENT || r == -ECONNREFUSED || r == -ECONNRESET)
                return 0;

        if (r == -ETIMEDOUT) {
                char *silent = str_dup(str_of(id));
                if (silent && vec_push(&ret->silent, silent) == 0)
                        return 0;

                free(silent);
                return err_memory(err);
        }

        if (r < 0)
                return err_set(err, why.code, "%s", err_text(&why));

        if (vec_push(&ret->clients, c) < 0) {
                control_client_done(&c);
                return err_memory(err);
        }

        return 0;
}

int sandboxes_open(const char *prefix, const char *name, struct sandboxes_list *ret, struct err *err) {
        cleanup(sandboxes_done) struct sandboxes_list l = { 0 };
        int r;

        if (prefix) {
                cleanup(free_ptr) char *id = NULL;
                struct control_client c;

                r = names_sandbox(prefix, &id, err);
                if (r == 0)
                        r = control_client_open(id, name, &c, err);

                if (r == 0 && vec_push(&l.clients, c) < 0) {
                        control_client_done(&c);
                        r = err_memory(err);
                }
        } else {
                cleanup(control_ids_done) control_ids ids = { 0 };

                r = control_list(&ids, err);
                for (size_t i = 0; r == 0 && i < ids.n; i++)
                        r = open_one(ids.p[i], name, &l, err);
        }

        if (r < 0)
                return r;

        *ret = l;
        l = (struct sandboxes_list){ 0 };

        return 0;
}

static int sandboxes_call(struct control_client *client, enum control_do what, struct control_message *ret,
                          struct err *err) {
        const struct control_request request = { .what = what };
        return control_client_call(client, &request, ret, err);
}

/* What a supervisor says of a guest's name is the one that it was started with. */
static void emit_renamed(struct emit *json, const struct node *node, const char *guest) {
        emit_key_str(json, node->key);
        if (guest[0] && str_is(node->key, "guest")) {
                emit_text(json, guest);
        } else if (guest[0] && str_is(node->key, "command")) {
                emit_open(json, '[');
                emit_text(json, "guest");
                emit_text(json, guest);
                emit_close(json);
        } else {
                sandboxes_emit_node(json, node);
        }
}

/* The reply as an object of its own: without what belongs to the protocol. */
static void emit_reply(struct emit *json, const struct node *root, const char *guest) {
        emit_open(json, '{');
        for (const struct node *node = root->first; node; node = node->next)
                if (!str_is(node->key, "id") && !str_is(node->key, "ok"))
                        emit_renamed(json, node, guest);
        emit_close(json);
}

int sandboxes_ps(bool json, struct buf *out, struct err *err) {
        cleanup(sandboxes_done) struct sandboxes_list sandboxes_list = { 0 };
        cleanup(guest_names_done) guest_names guests = { 0 };
        struct emit j = emit_to(out);
        int r = sandboxes_open(NULL, "bailey ps", &sandboxes_list, err), written = 0;
        if (r < 0)
                return r;

        names_of_guests(&guests);
        if (json)
                emit_open(&j, '[');
        else if (sandboxes_list.clients.n + sandboxes_list.silent.n)
                written = sandboxes_ps_head(out);

        for (size_t i = 0; i < sandboxes_list.clients.n && written == 0; i++) {
                cleanup(control_message_done) struct control_message message = { 0 };
                struct control_client *client = &sandboxes_list.clients.p[i];
                const char *guest = names_guest(&guests, client->id);
                struct err gone = { 0 };

                if (sandboxes_call(client, CONTROL_STATUS, &message, &gone) < 0)
                        continue; /* it ended meanwhile */

                if (json)
                        emit_reply(&j, message.root, guest);
                else
                        written = sandboxes_ps_line(out, message.root, guest);
        }

        for (size_t i = 0; i < sandboxes_list.silent.n && written == 0; i++) {
                if (json) {
                        emit_open(&j, '{');
                        emit_put_text(&j, "sandbox", sandboxes_list.silent.p[i]);
                        emit_put_text(&j, "state", "silent");
                        emit_close(&j);
                } else {
                        written = buf_printf(out, "%-14s silent\n", sandboxes_list.silent.p[i]);
                }
        }

        if (json) {
                emit_close(&j);
                written = emit_status(&j);
                if (written == 0)
                        written = buf_add_char(out, '\n');
        }

        if (written < 0)
                return err_memory(err);

        return 0;
}

static int list_questions(const char *id, const char *guest, const struct node *root, struct emit *json,
                          struct buf *out) {
        const struct node *questions = node_get(root, STR("questions"));
        int r = 0;
        for (const struct node *node = questions ? questions->first : NULL; node && r == 0; node = node->next) {
                if (!json) {
                        r = sandboxes_guest_text(out, guest);
                        if (r == 0)
                                r = sandboxes_pending_line(out, id, node);
                        continue;
                }

                emit_open(json, '{');
                emit_put_text(json, "sandbox", id);
                if (guest[0])
                        emit_put_text(json, "guest", guest);

                for (const struct node *n = node->first; n; n = n->next) {
                        emit_key_str(json, str_is(n->key, "id") ? STR("question") : n->key);
                        sandboxes_emit_node(json, n);
                }

                emit_close(json);
        }

        return r;
}

int sandboxes_pending(const char *prefix, bool json, struct buf *out, struct err *err) {
        cleanup(sandboxes_done) struct sandboxes_list sandboxes_list = { 0 };
        cleanup(guest_names_done) guest_names guests = { 0 };
        struct emit j = emit_to(out);
        int r = sandboxes_open(prefix, "bailey pending", &sandboxes_list, err);
        if (r < 0)
                return r;

        names_of_guests(&guests);
        if (json)
                emit_open(&j, '[');

        for (size_t i = 0; i < sandboxes_list.clients.n && r == 0; i++) {
                cleanup(control_message_done) struct control_message message = { 0 };
                struct control_client *client = &sandboxes_list.clients.p[i];
                struct err gone = { 0 };

                if (sandboxes_call(client, CONTROL_PENDING, &message, &gone) == 0)
                        r = list_questions(client->id, names_guest(&guests, client->id), message.root, json ? &j : NULL,
                                           out);
        }

        if (json) {
                emit_close(&j);
                r = emit_status(&j);
                if (r == 0)
                        r = buf_add_char(out, '\n');
        }

        if (r < 0)
                return err_memory(err);

        return 0;
}

int sandboxes_order(const char *prefix, enum control_do what, char ret_id[static CONTROL_ID_MAX], struct err *err) {
        cleanup(sandboxes_done) struct sandboxes_list sandboxes_list = { 0 };
        cleanup(control_message_done) struct control_message message = { 0 };
        cleanup(free_ptr) char *name = str_format("bailey %s", control_do_name(what));
        int r = name ? sandboxes_open(prefix, name, &sandboxes_list, err) : err_memory(err);
        if (r == 0)
                r = sandboxes_list.clients.n ? sandboxes_call(&sandboxes_list.clients.p[0], what, &message, err)
                                             : err_set(err, ENOENT, "it is gone");

        if (r == -ECONNRESET && what == CONTROL_KILL)
                r = 0; /* its last words were lost; it is dead */
        if (r == 0 && sandboxes_list.clients.n)
                memcpy(ret_id, sandboxes_list.clients.p[0].id, CONTROL_ID_MAX);

        return r;
}
