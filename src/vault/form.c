/* SPDX-License-Identifier: Apache-2.0 */
#include "vault/form.h"

#include "base/base64.h"
#include "base/bounds.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/emit.h"
#include "base/secrets/secret.h"
#include "conf/json.h"

#include <errno.h>

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
enum { FORM_MAX = 8192, CLAIMS_MAX = 4096, CLAIM_TEXT_MAX = 128 };
#define FAR_AWAY 4102444800 /* 2100: a client renews it when the provider says no, not by this clock */

static int put_drawn(struct stand_in_source *source, size_t n, struct buf *out) {
        int r = 0;

        for (size_t i = 0; r == 0 && i < n; i++)
                r = buf_add_char(out, alphabet[stand_in_draw(source, sizeof alphabet - 1)]);
        return r;
}

/* Claims that clients read: whose service it is, and which account and plan. Names of people and their addresses are
 * not among them. */
static bool claim_is_harmless(struct str key) {
        static const char *const keys[] = { "iss",
                                            "aud",
                                            "azp",
                                            "scp",
                                            "scope",
                                            "client_id",
                                            "https://api.openai.com/auth",
                                            "chatgpt_plan_type",
                                            "chatgpt_account_id",
                                            "chatgpt_account_user_id",
                                            "chatgpt_user_id",
                                            "chatgpt_account_is_fedramp",
                                            "user_id" };
        for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
                if (str_is(key, keys[i]))
                        return true;

        return false;
}

static void emit_claims(struct emit *j, const struct node *map, unsigned depth);

static void emit_claim(struct emit *json, const struct node *node, unsigned depth) {
        if (node->kind == NODE_SCALAR && node->quoted)
                emit_string(json, str_first(node->text, min_of(node->text.n, CLAIM_TEXT_MAX)));
        else if (node->kind == NODE_SCALAR && (str_is(node->text, "true") || str_is(node->text, "false")))
                emit_bool(json, str_is(node->text, "true"));
        else if (node->kind == NODE_MAP && depth < 4) {
                emit_open(json, '{');
                emit_claims(json, node, depth + 1);
                emit_close(json);
        } else if (node->kind == NODE_LIST && depth < 4) {
                emit_open(json, '[');
                for (const struct node *item = node->first; item; item = item->next)
                        emit_claim(json, item, depth + 1);
                emit_close(json);
        } else {
                emit_null(json);
        }
}

static void emit_claims(struct emit *json, const struct node *map, unsigned depth) {
        for (const struct node *node = map->first; node; node = node->next) {
                if (!claim_is_harmless(node->key))
                        continue;
                emit_key_str(json, node->key);
                emit_claim(json, node, depth);
        }
}

/* The middle part of a token, decoded; NULL: it is none. */
static struct document *claims_of(struct str token) {
        struct str head, body;
        char plain[FORM_MAX];
        size_t n;
        struct document *document = NULL;

        if (!str_split(&token, '.', &head) || !str_split(&token, '.', &body) || !token.p)
                return NULL;
        if (body.n + 4 > sizeof plain)
                return NULL;

        for (size_t i = 0; i < body.n; i++) { /* in the standard form, with padding */
                char c = body.p[i];

                plain[i] = c;
                if (c == '-' || c == '_')
                        plain[i] = c == '-' ? '+' : '/';
        }

        for (n = body.n; n % 4; n++)
                plain[n] = '=';

        if (!base64_decode(str_n(plain, n), plain, &n))
                return NULL;
        if (json_read(str_n(plain, n), STR("claims"), &document, NULL) < 0)
                document = NULL;

        secret_wipe(plain, sizeof plain);
        return document;
}

static int put_base64(struct buf *out, struct str bytes) {
        int r = buf_reserve(out, base64_length(bytes.n) + 1);
        if (r < 0)
                return r;

        base64_encode(bytes, BASE64_URL, out->p + out->n);
        size_t n = base64_length(bytes.n);
        while (n > 0 && out->p[out->n + n - 1] == '=')
                n--;

        out->n += n;
        return 0;
}

static int make_jwt(struct stand_in_source *source, struct str real, struct buf *out) {
        cleanup(document_freep) struct document *document = claims_of(real);
        cleanup(buf_done) struct buf claims = BUF(CLAIMS_MAX);
        const struct node *root = document ? document_root(document) : NULL;
        struct emit j = emit_to(&claims);

        emit_open(&j, '{');
        if (root && root->kind == NODE_MAP)
                emit_claims(&j, root, 0);

        emit_put_number(&j, "exp", FAR_AWAY);
        emit_put_text(&j, "note", "stand-in");
        emit_close(&j);

        int r = emit_status(&j);
        if (r < 0)
                return r;

        r = put_base64(out, STR("{\"alg\":\"RS256\",\"typ\":\"JWT\"}"));
        if (r < 0)
                return r;

        r = buf_add_char(out, '.');
        if (r < 0)
                return r;

        r = put_base64(out, buf_str(&claims));
        if (r < 0)
                return r;

        r = buf_add_char(out, '.');
        if (r < 0)
                return r;

        return put_drawn(source, FORM_SIGNATURE, out);
}

int form_make(struct stand_in_source *source, struct str form, struct str real, char **ret, struct err *err) {
        cleanup(buf_done) struct buf out = BUF(FORM_MAX);
        int r;

        if (str_is(form, "jwt")) {
                r = make_jwt(source, real, &out);
        } else {
                struct str prefix = str_starts(form, STR("opaque:")) ? str_skip(form, 7) : STR("");

                r = buf_append(&out, prefix);
                if (r >= 0)
                        r = put_drawn(source, FORM_OPAQUE, &out);
        }

        if (r < 0)
                return err_set(err, -r, "no stand-in can be made of this form");

        *ret = str_dup(buf_str(&out));
        if (!*ret)
                return err_set(err, ENOMEM, "no memory for a stand-in");

        return 0;
}
