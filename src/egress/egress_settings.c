/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The settings of `bailey egress`: one table lists the keys; the file, `bailey egress config` and the checks all use
 * it.
 */
#include "base/cleanup.h"
#include "base/emit.h"
#include "base/escape.h"
#include "base/paths/path.h"
#include "conf/json.h"
#include "conf/suggest.h"
#include "egress/egress_state.h"
#include "policy/load.h"
#include "roles/listen.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum kind { KIND_FLAG, KIND_TEXT, KIND_PATH, KIND_PORT, KIND_LIST, KIND_LIST_OR_NULL, KIND_SOURCE, KIND_CREDENTIALS };

static const struct key {
        const char *name;
        enum kind kind;
        size_t at;
        const char *fallback; /* of a text that is not set */
} keys[] = {
#define KEY(name, kind)                                                                                                \
        { #name, kind, offsetof(struct egress_settings, name) }
        KEY(enabled, KIND_FLAG),
        KEY(enforce_on_docker, KIND_FLAG),
        KEY(fail_on_uncovered_providers, KIND_FLAG),
        KEY(allow_env_fallback, KIND_FLAG),
        KEY(base_urls, KIND_FLAG),
        { "credential_source", KIND_SOURCE, offsetof(struct egress_settings, bitwarden) },
        { "bitwarden_project", KIND_TEXT, offsetof(struct egress_settings, project) },
        { "bitwarden_token_env", KIND_TEXT, offsetof(struct egress_settings, token_env), BITWARDEN_TOKEN },
        KEY(port, KIND_PORT),
        { "bridge", KIND_TEXT, offsetof(struct egress_settings, bridge), "auto" },
        { "ask", KIND_TEXT, offsetof(struct egress_settings, ask), "never" },
        KEY(hosts, KIND_PATH),
        KEY(ca_bundle, KIND_PATH),
        KEY(extra_allowed_hosts, KIND_LIST),
        KEY(allow_private, KIND_LIST),
        KEY(deny_cidrs, KIND_LIST_OR_NULL),
        KEY(credentials, KIND_CREDENTIALS),
#undef KEY
};
enum { KEYS = sizeof keys / sizeof *keys };

static void *settings_field(struct egress_settings *settings, const struct key *key) {
        return (char *)settings + key->at;
}

static const void *field_of(const struct egress_settings *settings, const struct key *key) {
        return (const char *)settings + key->at;
}

static const struct key *find_key(struct str name, struct err *err) {
        struct suggestion near = suggest_for(name);

        for (size_t i = 0; i < KEYS; i++) {
                if (str_is(name, keys[i].name))
                        return &keys[i];
                suggest_offer(&near, keys[i].name);
        }

        err_set(err, EINVAL, "there is no setting %s%s", show(name).text, suggest_text(&near, "").text);
        return NULL;
}

/*
 * Birth and end.
 */
void egress_settings_init(struct egress_settings *settings) {
        *settings = (struct egress_settings){ .enforce_on_docker = true, .port = EGRESS_PORT };
}

static void credential_done(struct egress_credential *credential) {
        free(credential->provider);
        free(credential->name);
        free(credential->source);
        free(credential->text);
}

void egress_settings_done(struct egress_settings *settings) {
        for (size_t i = 0; i < settings->credentials.n; i++)
                credential_done(&settings->credentials.p[i]);

        vec_done(&settings->credentials);
        text_list_done(&settings->extra_allowed_hosts);
        text_list_done(&settings->allow_private);
        text_list_done(&settings->deny_cidrs);
        free(settings->project);
        free(settings->token_env);
        free(settings->bridge);
        free(settings->ask);
        free(settings->hosts);
        free(settings->ca_bundle);
        *settings = (struct egress_settings){ 0 };
}

static int replace_text(char **at, struct str text, struct err *err) {
        char *copy = str_dup(text);
        if (!copy)
                return err_set(err, ENOMEM, "out of memory, or text with a NUL");
        free(*at);
        *at = copy;
        return 0;
}

/*
 * Credentials.
 */
static void emit_node(struct emit *json, const struct node *node, struct str source) {
        switch (node->kind) {
        case NODE_MAP:
        case NODE_LIST:
                emit_open(json, node->kind == NODE_MAP ? '{' : '[');

                for (const struct node *c = node->first; c; c = c->next) {
                        bool replaced = node->kind == NODE_MAP && source.p && str_is(c->key, "source");

                        if (node->kind == NODE_MAP)
                                emit_key_str(json, c->key);
                        if (replaced)
                                emit_string(json, source);
                        else
                                emit_node(json, c, (struct str){ 0 });
                }

                emit_close(json);
                return;
        case NODE_SCALAR:
                emit_string(json, node->text);
                return;
        default:
                emit_null(json);
        }
}

static int copy_member(const struct node *map, const char *key, char **ret, struct err *err) {
        const struct node *node = node_get(map, str_of(key));
        if (node && node->kind == NODE_SCALAR)
                return replace_text(ret, node->text, err);

        return 0;
}

static int read_credential(const struct node *node, struct str source, struct egress_credential *ret, struct err *err) {
        cleanup(buf_done) struct buf text = BUF(65536);
        struct emit j = emit_to(&text);

        if (node->kind != NODE_MAP)
                return err_set(err, EINVAL, "an entry of credentials must be a mapping, as in a policy");

        emit_node(&j, node, source);
        struct egress_credential credential = { 0 };
        int r = 0;

        if (emit_status(&j) < 0)
                r = err_set(err, EMSGSIZE, "a credential is too large");

        if (r >= 0)
                r = replace_text(&credential.text, buf_str(&text), err);
        if (r >= 0)
                r = copy_member(node, "provider", &credential.provider, err);
        if (r >= 0)
                r = copy_member(node, "name", &credential.name, err);
        if (r >= 0)
                r = source.p ? replace_text(&credential.source, source, err)
                             : copy_member(node, "source", &credential.source, err);
        if (r == 0 && !credential.source)
                r = err_set(err, EINVAL, "a credential has no source");

        if (r < 0)
                credential_done(&credential);
        else
                *ret = credential;

        return r;
}

int egress_credential_remove(struct egress_settings *settings, const char *name, struct err *err) {
        for (size_t i = 0; i < settings->credentials.n; i++) {
                struct egress_credential *credential = &settings->credentials.p[i];
                if (strcmp(text_or(credential->name, text_or(credential->provider, "")), name) != 0)
                        continue;

                credential_done(credential);
                memmove(credential, credential + 1, (settings->credentials.n - i - 1) * sizeof *credential);
                settings->credentials.n--;
                return 0;
        }

        return err_set(err, ENOENT, "there is no credential %s; \"bailey egress status\" lists them", name);
}

int egress_credential_source(struct egress_credential *credential, const char *source, struct err *err) {
        cleanup(document_freep) struct document *document = NULL;
        struct egress_credential newer;
        int r = json_read(str_of(credential->text), STR(EGRESS_SETTINGS), &document, err);
        if (r < 0)
                return r;

        r = read_credential(document_root(document), str_of(source), &newer, err);
        if (r < 0)
                return r;

        credential_done(credential);
        *credential = newer;

        return 0;
}

static char *credential_text(const char *provider, const char *source) {
        cleanup(buf_done) struct buf out = BUF(65536);
        struct emit j = emit_to(&out);

        emit_open(&j, '{');
        emit_put_text(&j, "provider", provider);
        emit_put_text(&j, "source", source);
        emit_close(&j);
        if (emit_status(&j) < 0)
                return NULL;

        return str_dup(buf_str(&out));
}

int egress_credential_make(struct egress_settings *settings, const char *provider, const char *source,
                           struct err *err) {
        struct egress_credential c = { .provider = str_format("%s", provider),
                                       .source = str_format("%s", source),
                                       .text = credential_text(provider, source) };
        if (c.provider && c.source && c.text && vec_push(&settings->credentials, c) == 0)
                return 0;

        credential_done(&c);
        return err_memory(err);
}

/*
 * Reading: from the tree of a file, and from "KEY=VALUE".
 */
static int read_list(const struct key *key, const struct node *node, text_list *ret, struct err *err) {
        text_list_done(ret);
        int r = 0;

        if (node->kind != NODE_LIST)
                r = err_set(err, EINVAL, "%s must be a list", key->name);

        for (const struct node *c = node->first; c && r == 0; c = c->next)
                r = c->kind == NODE_SCALAR ? text_list_take(ret, str_dup(c->text), err)
                                           : err_set(err, EINVAL, "%s must be a list of texts", key->name);
        return r;
}

static int read_credentials(const struct node *node, struct egress_settings *settings, struct err *err) {
        int r = 0;

        if (node->kind != NODE_LIST)
                r = err_set(err, EINVAL, "credentials must be a list");

        for (const struct node *c = node->first; c && r == 0; c = c->next) {
                struct egress_credential one;

                r = read_credential(c, (struct str){ 0 }, &one, err);
                if (r == 0 && vec_push(&settings->credentials, one) < 0) {
                        credential_done(&one);
                        r = err_memory(err);
                }
        }

        return r;
}

static int set_scalar(struct egress_settings *settings, const struct key *key, struct str text, struct err *err) {
        uint64_t number;

        switch (key->kind) {
        case KIND_FLAG:
                if (!str_is(text, "true") && !str_is(text, "false"))
                        return err_set(err, EINVAL, "%s is true or false, not %s", key->name, show(text).text);
                *(bool *)settings_field(settings, key) = str_is(text, "true");
                return 0;
        case KIND_SOURCE:
                if (!str_is(text, "env") && !str_is(text, "bitwarden"))
                        return err_set(err, EINVAL, "%s is env or bitwarden, not %s", key->name, show(text).text);
                settings->bitwarden = str_is(text, "bitwarden");

                return 0;
        case KIND_PORT:
                if (!str_to_u64(text, 65535, &number))
                        return err_set(err, EINVAL, "%s is a number up to 65535, not %s", key->name, show(text).text);
                settings->port = (unsigned)number;
                return 0;
        case KIND_PATH:
                if (text.n == 0 || text.p[0] != '/')
                        return err_set(err, EINVAL, "%s takes an absolute path, not %s", key->name, show(text).text);

                return replace_text(settings_field(settings, key), text, err);
        case KIND_TEXT:
                if (key->fallback && str_is(text, key->fallback)) {
                        free(*(char **)settings_field(settings, key));
                        *(char **)settings_field(settings, key) = NULL;
                        return 0;
                }
                return replace_text(settings_field(settings, key), text, err);
        default:
                return err_set(err, EINVAL, "%s is not a single value", key->name);
        }
}

static int set_null(struct egress_settings *settings, const struct key *key, struct err *err) {
        if (key->kind == KIND_LIST_OR_NULL) {
                settings->deny_cidrs_set = false;
                text_list_done(&settings->deny_cidrs);
                return 0;
        }

        if (key->kind != KIND_TEXT && key->kind != KIND_PATH)
                return err_set(err, EINVAL, "%s cannot be null", key->name);

        free(*(char **)settings_field(settings, key));
        *(char **)settings_field(settings, key) = NULL;

        return 0;
}

static int read_key(struct egress_settings *settings, const struct node *node, struct err *err) {
        const struct key *key = find_key(node->key, err);
        if (!key)
                return -EINVAL;
        if (node->kind == NODE_NULL)
                return set_null(settings, key, err);
        if (key->kind == KIND_CREDENTIALS)
                return read_credentials(node, settings, err);
        if (key->kind == KIND_LIST_OR_NULL)
                settings->deny_cidrs_set = true;
        if (key->kind == KIND_LIST || key->kind == KIND_LIST_OR_NULL)
                return read_list(key, node, settings_field(settings, key), err);

        if (node->kind != NODE_SCALAR)
                return err_set(err, EINVAL, "%s must be a single value", key->name);

        return set_scalar(settings, key, node->text, err);
}

int egress_settings_change(struct egress_settings *settings, struct str assignment, struct err *err) {
        struct str rest = assignment, name, part;
        ptrdiff_t equals = str_find(assignment, '=');
        if (equals < 1)
                return err_set(err, EINVAL, "%s is not KEY=VALUE", show(assignment).text);

        (void)str_split(&rest, '=', &name);
        const struct key *key = find_key(name, err);
        if (!key)
                return -EINVAL;

        rest = str_skip(assignment, (size_t)equals + 1);
        if (str_is(rest, "null"))
                return set_null(settings, key, err);
        if (key->kind == KIND_CREDENTIALS)
                return err_set(err, EINVAL, "credentials are made by \"bailey egress setup\", or edited in the file");
        if (key->kind != KIND_LIST && key->kind != KIND_LIST_OR_NULL)
                return set_scalar(settings, key, rest, err);

        text_list_done(settings_field(settings, key));
        if (key->kind == KIND_LIST_OR_NULL)
                settings->deny_cidrs_set = true;

        int r = 0;
        while (r == 0 && str_split(&rest, ',', &part))
                if (str_trim(part).n > 0)
                        r = text_list_take(settings_field(settings, key), str_dup(str_trim(part)), err);

        return r;
}

int egress_settings_load(const char *directory, struct egress_settings *ret, struct err *err) {
        cleanup(buf_done) struct buf text = BUF(0);
        cleanup(document_freep) struct document *document = NULL;
        struct egress_settings settings;

        egress_settings_init(&settings);
        int r = egress_read(directory, EGRESS_SETTINGS, &text, err);
        if (r < 0)
                return r;

        r = json_read(buf_str(&text), STR(EGRESS_SETTINGS), &document, err);
        const struct node *root = r == 0 ? document_root(document) : NULL;
        if (r == 0 && (!root || root->kind != NODE_MAP))
                r = err_set(err, EINVAL, "it must be one JSON object");

        for (const struct node *node = root ? root->first : NULL; node && r == 0; node = node->next)
                r = read_key(&settings, node, err);

        if (r < 0) {
                egress_settings_done(&settings);
                return err_wrap(err, r, "in %s/%s", directory, EGRESS_SETTINGS);
        }

        *ret = settings;
        return 0;
}

/*
 * Writing.
 */
static void emit_list(struct emit *json, const text_list *list) {
        emit_open(json, '[');
        for (size_t i = 0; i < list->n; i++)
                emit_text(json, list->p[i]);
        emit_close(json);
}

/* The entries are JSON already, made by an emitter or by constant text. */
static int put_credentials(struct buf *out, const struct egress_settings *settings) {
        int r = buf_add(out, "[");
        for (size_t i = 0; i < settings->credentials.n && r == 0; i++)
                r = buf_printf(out, "%s\n  %s", i ? "," : "", settings->credentials.p[i].text);
        if (r < 0)
                return r;

        return buf_add(out, settings->credentials.n ? "\n ]" : "]");
}

static int put_key(struct buf *out, const struct egress_settings *settings, const struct key *key) {
        cleanup(buf_done) struct buf value = BUF(EGRESS_BYTES_MAX);
        struct emit j = emit_to(&value);
        const void *at = field_of(settings, key);

        switch (key->kind) {
        case KIND_FLAG:
                emit_bool(&j, *(const bool *)at);
                break;
        case KIND_SOURCE:
                emit_text(&j, settings->bitwarden ? "bitwarden" : "env");
                break;
        case KIND_PORT:
                emit_number(&j, settings->port);
                break;
        case KIND_TEXT:
        case KIND_PATH:
                emit_text(&j, *(char *const *)at ? *(char *const *)at : key->fallback);
                break;
        case KIND_LIST_OR_NULL:
                if (!settings->deny_cidrs_set) {
                        emit_null(&j);
                        break;
                }
                emit_list(&j, at);
                break;
        case KIND_LIST:
                emit_list(&j, at);
                break;
        case KIND_CREDENTIALS:
                return put_credentials(out, settings);
        }

        int r = emit_status(&j);
        if (r < 0)
                return r;

        return buf_append(out, buf_str(&value));
}

int egress_settings_text(const struct egress_settings *settings, struct buf *ret) {
        int r = buf_add(ret, "{\n");
        for (size_t i = 0; i < KEYS && r == 0; i++) {
                r = buf_printf(ret, " \"%s\": ", keys[i].name);
                if (r == 0)
                        r = put_key(ret, settings, &keys[i]);
                if (r == 0)
                        r = buf_add(ret, i + 1 < KEYS ? ",\n" : "\n");
        }

        if (r < 0)
                return r;

        return buf_add(ret, "}\n");
}

/* JSON is YAML too. Hosts of credentials are allowed by having one. */
static int write_policy(const char *directory, const struct egress_settings *settings, struct buf *out) {
        cleanup(buf_done) struct buf network = BUF(EGRESS_BYTES_MAX), audit = BUF(8192);
        struct emit j = emit_to(&network);
        cleanup(free_ptr) char *path = path_join(directory, EGRESS_AUDIT);
        if (!path || escape_json(&audit, str_of(path)) < 0)
                return -ENOMEM;

        emit_open(&j, '{');
        emit_put_text(&j, "ask", text_or(settings->ask, "never"));
        emit_key(&j, "allow");
        emit_list(&j, &settings->extra_allowed_hosts);
        emit_key(&j, "allow_private");
        emit_list(&j, &settings->allow_private);

        if (settings->deny_cidrs_set) {
                emit_key(&j, "deny_cidrs");
                emit_list(&j, &settings->deny_cidrs);
        }

        emit_close(&j);
        int r = emit_status(&j);
        if (r >= 0)
                r = buf_printf(out, "{\n \"mode\": \"workspace-write-whitelist\",\n \"audit\": %.*s,\n",
                               STR_FMT(buf_str(&audit)));
        if (r == 0 && settings->base_urls)
                r = buf_add(out, " \"process\": {\"env\": {\"base_urls\": true}},\n");

        if (r >= 0)
                r = buf_printf(out, " \"network\": %.*s,\n \"credentials\": ", STR_FMT(buf_str(&network)));
        if (r >= 0)
                r = put_credentials(out, settings);
        if (r < 0)
                return r;

        return buf_add(out, "\n}\n");
}

static int check_bridge(const char *bridge, struct err *err) {
        struct endpoint at;

        if (!bridge || strcmp(bridge, "auto") == 0 || strcmp(bridge, "none") == 0)
                return 0;

        cleanup(free_ptr) char *text = str_format(strchr(bridge, ':') ? "[%s]:0" : "%s:0", bridge);
        int r = text ? listen_parse(str_of(text), &at, err) : err_memory(err);
        if (r == 0 && addr_classify(&at.addr) != ADDR_CLASS_PRIVATE)
                r = err_set(err, EINVAL, "%s is not the private address of a container bridge", bridge);

        if (r < 0)
                return err_wrap(err, r, "bridge");

        return 0;
}

static int check_ask(const char *ask, struct err *err) {
        if (!ask || strcmp(ask, "never") == 0 || strcmp(ask, "control") == 0)
                return 0;
        return err_set(err, EINVAL, "ask: \"%s\" is neither never nor control", ask);
}

static int check_token(const char *name, struct err *err) {
        bool fits = !name || (name[0] && !ascii_is_digit(name[0]));

        for (const char *c = name; fits && c && *c; c++)
                fits = ascii_is_alnum(*c) || *c == '_';

        return fits ? 0 : err_set(err, EINVAL, "bitwarden_token_env: \"%s\" is no name of a variable", name);
}

int egress_settings_token(const struct egress_settings *settings, struct err *err) {
        const char *name = text_or(settings->token_env, BITWARDEN_TOKEN), *token = getenv(name);

        if (strcmp(name, BITWARDEN_TOKEN) != 0 &&
            (token ? setenv(BITWARDEN_TOKEN, token, 1) : unsetenv(BITWARDEN_TOKEN)) < 0)
                return err_memory(err);
        if (!token || !token[0])
                return err_set(err, ENODATA, "%s is not set, and credentials are read from Bitwarden", name);

        return 0;
}

static int make_policy(const char *directory, const struct egress_settings *settings, struct buf *text,
                       struct policy **ret, struct err *err) {
        int r = write_policy(directory, settings, text);
        if (r < 0)
                return err_set(err, -r, "the settings are too large");

        const struct policy_request request = { .only_text = buf_text(text), .base = "/", .network_only = true };
        r = check_bridge(settings->bridge, err);
        if (r < 0)
                return r;

        r = check_ask(settings->ask, err);
        if (r < 0)
                return r;

        r = check_token(settings->token_env, err);
        if (r < 0)
                return r;

        return policy_load(&request, ret, err);
}

int egress_settings_policy(const char *directory, const struct egress_settings *settings, struct policy **ret,
                           struct err *err) {
        cleanup(buf_done) struct buf text = BUF(EGRESS_BYTES_MAX);
        return make_policy(directory, settings, &text, ret, err);
}

int egress_settings_save_policy(const char *directory, const struct egress_settings *settings, struct err *err) {
        cleanup(buf_done) struct buf policy = BUF(EGRESS_BYTES_MAX);
        cleanup(policy_freep) struct policy *p = NULL;
        cleanup(free_ptr) void *snapshot = NULL;
        size_t n;
        int r = make_policy(directory, settings, &policy, &p, err);
        if (r < 0)
                return r;

        r = policy_compile_network(p, NULL, 0, &snapshot, &n, err);
        if (r < 0)
                return r;

        return egress_write(directory, EGRESS_POLICY, buf_str(&policy), err);
}

int egress_settings_save(const char *directory, const struct egress_settings *settings, struct err *err) {
        cleanup(buf_done) struct buf text = BUF(EGRESS_BYTES_MAX);
        int r = egress_settings_text(settings, &text);
        if (r < 0)
                return err_set(err, -r, "the settings are too large");

        r = egress_settings_save_policy(directory, settings, err);
        if (r < 0)
                return r;

        return egress_write(directory, EGRESS_SETTINGS, buf_str(&text), err);
}
