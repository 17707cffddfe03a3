/* SPDX-License-Identifier: Apache-2.0 */
#include "import/import_source.h"

#include "base/cleanup.h"
#include "conf/suggest.h"

#include <errno.h>
#include <stdio.h>

int import_check_word(const struct document *document, const struct node *node, struct err *err) {
        if (node->key.n > IMPORT_WORD_BYTES_MAX)
                return node_key_error(document, node, err, "a key has at most %d KiB, this one %zu",
                                      IMPORT_WORD_BYTES_MAX >> 10, node->key.n >> 10);
        if (node->text.n > IMPORT_WORD_BYTES_MAX)
                return node_error(document, node, err, "a text has at most %d KiB, this one %zu",
                                  IMPORT_WORD_BYTES_MAX >> 10, node->text.n >> 10);
        return 0;
}

/* As deep as documents are, which have a limit of their own (NODE_DEPTH_MAX). */
static int check_below(const struct document *document, const struct node *node, struct err *err) {
        int r = import_check_word(document, node, err);

        for (const struct node *child = node->first; r == 0 && child; child = child->next)
                r = check_below(document, child, err);

        return r;
}

int import_check_words(const struct document *document, struct err *err) {
        const struct node *root = document_root(document);

        if (root)
                return check_below(document, root, err);

        return 0;
}

char *import_said(const struct node *node) {
        if (node->kind != NODE_SCALAR)
                return str_dup(node->key);
        if (node->key.n == 0)
                return str_dup(node->text);
        return str_format("%.*s: %.*s", STR_FMT(node->key), STR_FMT(node->text));
}

int import_say(struct import_source *source, const struct node *node, bool dropped, struct err *err, const char *format,
               ...) {
        cleanup(free_ptr) char *place = node_origin(source->document, node), *said = import_said(node);
        char text[512];
        va_list args;

        if (!place || !said)
                return err_memory(err);

        va_start(args, format);
        vsnprintf(text, sizeof text, format, args);
        va_end(args);

        return import_note(source->model, place, str_of(said), dropped, err, "%s", text);
}

int import_want_map(struct import_source *source, const struct node *node, struct err *err) {
        if (node->kind == NODE_MAP)
                return 0;

        return node_error(source->document, node, err, "%s must be an object, not %s",
                          node->key.n ? show(node->key).text : "this", node_kind_name(node->kind));
}

int import_want_text(struct import_source *source, const struct node *node, struct err *err) {
        if (node->kind == NODE_SCALAR && node->quoted)
                return 0;

        const char *kind = node_kind_name(node->kind);
        if (node->kind == NODE_SCALAR)
                kind = "a number or truth value";

        return node_error(source->document, node, err, "%s must be a string, not %s",
                          node->key.n ? show(node->key).text : "an entry", kind);
}

int import_want_bool(struct import_source *source, const struct node *node, bool *ret, struct err *err) {
        bool yes = str_is(node->text, "true"), no = str_is(node->text, "false");

        if (node->kind != NODE_SCALAR || node->quoted || (!yes && !no))
                return node_error(source->document, node, err, "%s must be true or false", show(node->key).text);
        *ret = yes;
        return 0;
}

int import_each(struct import_source *source, const struct node *list, import_handler *handle, struct err *err) {
        if (list->kind != NODE_LIST)
                return node_error(source->document, list, err, "%s must be a list of strings, not %s",
                                  list->key.n ? show(list->key).text : "this", node_kind_name(list->kind));

        for (const struct node *node = list->first; node; node = node->next) {
                int r = import_want_text(source, node, err);
                if (r == 0)
                        r = handle(source, node, err);
                if (r < 0)
                        return r;
        }

        return 0;
}

static int handle_key(struct import_source *source, const struct node *node, const struct import_key *key,
                      struct err *err) {
        if (node->kind == NODE_NULL)
                return 0;
        if (key->handle)
                return key->handle(source, node, err);
        if (!key->why)
                return 0;

        /* A switch that is off forbids and grants nothing. */
        if (node->kind == NODE_SCALAR && !node->quoted && str_is(node->text, "false"))
                return 0;

        return import_say(source, node, key->dropped, err, "%s", key->why);
}

int import_keys(struct import_source *source, const struct node *map, const struct import_key *keys, size_t n,
                const char *unknown, bool dropped, struct err *err) {
        int r = import_want_map(source, map, err);

        for (const struct node *node = map->first; r == 0 && node; node = node->next) {
                size_t i = 0;
                while (i < n && !str_is(node->key, keys[i].key))
                        i++;
                if (i < n)
                        r = handle_key(source, node, &keys[i], err);
                else if (unknown)
                        r = import_say(source, node, dropped, err, "%s", unknown);
        }

        return r;
}

void import_start_listed(struct import_model *model, bool workspace_writable) {
        if (model->network == IMPORT_NETWORK_NONE)
                model->network = IMPORT_NETWORK_LISTED;
        model->workspace_writable |= workspace_writable;
}
