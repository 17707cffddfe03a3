/* SPDX-License-Identifier: Apache-2.0 */
#include "chat/service.h"

#include "base/bounds.h"
#include "base/cleanup.h"
#include "conf/json.h"

#include <stdio.h>

const char *const chat_button_labels[CHAT_BUTTONS] = { "Allow once", "Allow in this sandbox", "Allow in this workspace",
                                                       "Deny" };

const struct chat_service *chat_service_of(enum chat_kind kind) {
        static const struct chat_service *const services[CHAT_KINDS] = {
                [CHAT_ZULIP] = &chat_zulip,   [CHAT_SLACK] = &chat_slack, [CHAT_TELEGRAM] = &chat_telegram,
                [CHAT_MATRIX] = &chat_matrix, [CHAT_NTFY] = &chat_ntfy,   [CHAT_GENERIC] = &chat_generic,
        };

        return kind < CHAT_KINDS ? services[kind] : NULL;
}

void chat_button_value(size_t button, const char *code, char ret[static 48]) {
        static const char *const verbs[CHAT_BUTTONS] = { "allow", "allow", "allow", "deny" };
        static const char *const scopes[CHAT_BUTTONS] = { "once", "sandbox", "workspace", "once" };

        snprintf(ret, 48, "%s %s %s", verbs[button], code, scopes[button]);
}

void chat_call_done(struct chat_call *call) {
        buf_done(&call->url);
        buf_done(&call->line);
        buf_done(&call->headers);
        buf_done(&call->body);
}

static const struct node *service_get(const struct node *map, const char *key, enum node_kind kind) {
        const struct node *node = map && map->kind == NODE_MAP ? node_get(map, str_of(key)) : NULL;

        return node && node->kind == kind ? node : NULL;
}

struct str chat_text(const struct node *map, const char *key) {
        const struct node *node = service_get(map, key, NODE_SCALAR);

        if (node)
                return node->text;
        return STR("");
}

const struct node *chat_map(const struct node *map, const char *key) {
        return service_get(map, key, NODE_MAP);
}

const struct node *chat_list(const struct node *map, const char *key) {
        return service_get(map, key, NODE_LIST);
}

uint64_t chat_number(const struct node *map, const char *key) {
        struct str text = chat_text(map, key);
        ptrdiff_t point = text.n ? str_find(text, '.') : -1;
        uint64_t number;

        if (point >= 0)
                text = str_first(text, (size_t)point);
        if (str_to_u64(text, UINT64_MAX / 2, &number))
                return number;

        return 0;
}

bool chat_true(const struct node *map, const char *key) {
        return str_is(chat_text(map, key), "true");
}

int chat_escape(struct buf *out, struct str text) {
        int r = 0;

        for (size_t i = 0; r == 0 && i < text.n; i++) {
                unsigned char byte = (unsigned char)text.p[i];

                if (ascii_is_alnum((char)byte) || byte == '-' || byte == '.' || byte == '_' || byte == '~')
                        r = buf_add_char(out, (char)byte);
                else
                        r = buf_printf(out, "%%%02X", byte);
        }

        return r;
}

bool chat_keep(char *ret, size_t size, struct str text) {
        bool fits = text.n < size && !str_has_nul(text);

        ret[0] = '\0';
        if (fits && text.n)
                memcpy(ret, text.p, text.n);
        if (fits)
                ret[text.n] = '\0';

        return fits;
}

bool chat_reply_is_refusal(struct str body) {
        cleanup(document_freep) struct document *document = NULL;

        if (json_read(body, STR("reply"), &document, NULL) < 0)
                return false;
        const struct node *root = document_root(document);
        return str_is(chat_text(root, "ok"), "false") || str_is(chat_text(root, "result"), "error");
}

uint64_t chat_retry_s(struct str body, uint32_t header_s) {
        cleanup(document_freep) struct document *document = NULL;
        uint64_t seconds = header_s;

        if (json_read(body, STR("reply"), &document, NULL) == 0) {
                const struct node *root = document_root(document);
                uint64_t others[] = { chat_number(chat_map(root, "parameters"), "retry_after"),
                                      (chat_number(root, "retry_after_ms") + 999) / 1000,
                                      chat_number(root, "retry-after") };

                for (size_t i = 0; i < sizeof others / sizeof *others; i++)
                        seconds = max_of(others[i], seconds);
        }

        return min_of(seconds, 3600);
}
