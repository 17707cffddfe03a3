/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/file.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/paths/path.h"
#include "conf/suggest.h"
#include "conf/yaml.h"
#include "policy/apply.h"
#include "policy/check.h"
#include "policy/judge/records.h"
#include "policy/keys.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

void widening_done(struct widening *widening) {
        free(widening->place);
        free(widening->key);
        free(widening->text);
}

void policy_file_done(struct policy_file *file) {
        free(file->path);
        free(file->base);
        buf_done(&file->content);
        document_free(file->document);
        for (size_t i = 0; i < file->widenings.n; i++)
                widening_done(&file->widenings.p[i]);
        vec_done(&file->widenings);
}

static int check_kind(int fd, const char *shown, struct err *err) {
        struct stat st;

        if (fstat(fd, &st) < 0)
                return err_errno(err, "cannot examine %s", shown);
        if (!S_ISREG(st.st_mode))
                return err_set(err, EINVAL, "%s is not a regular file", shown);

        if (st.st_mode & S_IWOTH)
                return err_set(err, EPERM, "%s can be written by everybody, so nobody can rely on it (chmod o-w)",
                               shown);

        return 0;
}

static int read_content(struct policy_file *file, const char *shown, unsigned flags, struct err *err) {
        int no_link = flags & POLICY_FILE_NO_LINK ? O_NOFOLLOW : 0;
        cleanup(close_fd) int fd = open(file->path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | no_link);
        if (fd < 0 && errno == ENOENT && !(flags & POLICY_FILE_REQUIRED))
                return 0;

        if (fd < 0 && errno == ELOOP && no_link)
                return err_set(err, ELOOP, "%s is a symbolic link; a workspace's policy must be a file of its own",
                               shown);

        if (fd < 0)
                return err_errno(err, "cannot open %s", shown);

        int r = check_kind(fd, shown, err);
        if (r < 0)
                return r;

        file->content = BUF(DOCUMENT_BYTES_MAX);
        r = fd_read_all(fd, &file->content);
        if (r == -EMSGSIZE)
                return err_set(err, EFBIG,
                               "%s:1:1: the file has more than %d bytes; put long lists of hosts into a file of their "
                               "own (network.allow_file, network.deny_file)",
                               shown, DOCUMENT_BYTES_MAX);

        if (r < 0)
                return err_set(err, -r, "cannot read %s: %s", shown, strerror(-r));

        return 1;
}

int policy_file_open(struct policy_file *file, const char *path, const char *shown, unsigned flags, struct err *err) {
        file->path = str_dup(str_of(path));
        const char *slash = strrchr(path, '/');
        if (slash && slash > path)
                file->base = str_dup(str_n(path, (size_t)(slash - path)));
        else
                file->base = str_dup(STR("/"));
        if (!file->path || !file->base)
                return err_memory(err);
        int r = read_content(file, shown, flags, err);
        if (r <= 0)
                return r;

        return yaml_read(buf_str(&file->content), str_of(shown), &file->document, err);
}

int policy_file_text(struct policy_file *file, const char *text, const char *base, const char *shown, struct err *err) {
        file->path = str_dup(str_of(shown));
        file->base = str_dup(str_of(base));
        if (!file->path || !file->base)
                return err_memory(err);
        if (strlen(text) > DOCUMENT_BYTES_MAX)
                return err_set(err, EFBIG, "%s:1:1: the policy has more than %d bytes", shown, DOCUMENT_BYTES_MAX);
        return yaml_read(str_of(text), str_of(shown), &file->document, err);
}

struct str policy_file_preset(const struct policy_file *file) {
        const struct node *root = file->document ? document_root(file->document) : NULL;
        const struct node *node = root && root->kind == NODE_MAP ? node_get(root, STR("preset")) : NULL;
        return node && node->kind == NODE_SCALAR ? node->text : str_n(NULL, 0);
}

/* --- applying --- */

struct walk {
        struct policy_file *file;
        struct policy *policy;
};

static int note_widening(struct walk *walk, const struct node *node, const char *key, struct str text,
                         struct err *err) {
        struct widening widening = { .place = node_origin(walk->file->document, node),
                                     .key = str_dup(str_of(key)),
                                     .text = str_dup(text) };
        if (!widening.place || !widening.key || !widening.text || vec_push(&walk->file->widenings, widening) < 0) {
                widening_done(&widening);
                return err_memory(err);
        }

        return 0;
}

/* A list of refused hosts only takes away, but a message about a bad line in it quotes the line: a workspace must not
 * be able to read the user's other files that way. */
static bool reads_elsewhere(const struct walk *walk, enum policy_row row, struct str text) {
        cleanup(free_ptr) char *expanded = NULL, *path = NULL, *real = NULL;
        if (row != ROW_DENY_FILE)
                return false;
        if (path_expand_home(text, walk->policy->home, &expanded) == 0 &&
            path_normalise(str_of(expanded), walk->file->base, &path) == 0)
                real = realpath(path, NULL);
        return !real || !path_is_within(real, walk->policy->workspace);
}

/* One value of a row, with the place that it was written at. */
static int apply_text(struct walk *walk, enum policy_row row, const struct node *node, struct str text,
                      struct err *err) {
        const struct option *o = &policy_rows[row];
        const struct document *document = walk->file->document;
        struct err inner = { 0 };
        int r = option_check(o, text, &inner);
        if (r == 0 && walk->file->untrusted && o->trust == TRUST_NEVER)
                r = err_set(&inner, EPERM, "this belongs into your own configuration, not into a workspace's");

        if (r == 0 && walk->file->untrusted &&
            (policy_widens(walk->policy, row, text) || reads_elsewhere(walk, row, text)))
                r = note_widening(walk, node, o->key, text, &inner);

        cleanup(free_ptr) char *origin = node_origin(document, node);
        if (!origin)
                return err_memory(err);
        if (r == 0)
                r = policy_apply(walk->policy, row, text, origin, walk->file->base, &inner);
        if (r == -ENOMEM)
                return err_memory(err);

        if (r < 0)
                return node_error(document, node, err, "%s: %s", o->key, err_text(&inner));

        return 0;
}

static int apply_scalar(struct walk *walk, enum policy_row row, const struct node *node, struct err *err) {
        if (node->kind != NODE_SCALAR)
                return node_error(walk->file->document, node, err, "%s needs a single value here, not %s",
                                  policy_rows[row].key, node_kind_name(node->kind));
        return apply_text(walk, row, node, node->text, err);
}

/* { host: PATTERN, reason: TEXT } in network.deny. */
static int apply_refusal(struct walk *walk, const struct node *map, struct err *err) {
        const struct document *document = walk->file->document;
        const struct node *host = node_get(map, STR("host")), *reason = node_get(map, STR("reason"));
        struct err inner = { 0 };
        int r;

        for (const struct node *node = map->first; node; node = node->next)
                if (node != host && node != reason)
                        return node_key_error(document, node, err,
                                              "unknown key %s in network.deny; there are 'host' and 'reason'",
                                              show(node->key).text);

        if (!host)
                return node_error(document, map, err,
                                  "an entry of network.deny needs 'host', as { host: x.example, reason: y }");

        r = apply_scalar(walk, ROW_DENY, host, err);
        if (r < 0 || !reason)
                return r;

        if (reason->kind != NODE_SCALAR)
                return node_error(document, reason, err, "'reason' needs a text, not %s", node_kind_name(reason->kind));

        r = policy_set_reason(walk->policy, reason->text, &inner);
        if (r == -ENOMEM)
                return err_memory(err);

        if (r < 0)
                return node_error(document, reason, err, "network.deny: %s", err_text(&inner));

        return 0;
}

static int apply_list(struct walk *walk, enum policy_row row, const struct node *node, struct err *err) {
        policy_apply_start(walk->policy, row);
        if (node->kind == NODE_SCALAR)
                return apply_scalar(walk, row, node, err); /* a list of one, without brackets */

        if (node->kind != NODE_LIST)
                return node_error(walk->file->document, node, err, "%s needs a list, not %s", policy_rows[row].key,
                                  node_kind_name(node->kind));

        if (policy_row_replaces(row) && walk->file->untrusted && node->n == 0) {
                int r = note_widening(walk, node, policy_rows[row].key, STR("[]"), err);
                if (r < 0)
                        return r;
        }

        for (const struct node *n = node->first; n; n = n->next) {
                int r = row == ROW_DENY && n->kind == NODE_MAP ? apply_refusal(walk, n, err)
                                                               : apply_scalar(walk, row, n, err);
                if (r < 0)
                        return r;
        }

        return 0;
}

/* "NAME: value" in the file is "NAME=value" elsewhere. */
static int apply_map(struct walk *walk, enum policy_row row, const struct node *node, struct err *err) {
        if (node->kind != NODE_MAP)
                return node_error(walk->file->document, node, err, "%s needs a mapping (NAME: value), not %s",
                                  policy_rows[row].key, node_kind_name(node->kind));

        for (const struct node *n = node->first; n; n = n->next) {
                if (n->kind != NODE_SCALAR)
                        return node_error(walk->file->document, n, err, "%s: %s needs a single value, not %s",
                                          policy_rows[row].key, show(n->key).text, node_kind_name(n->kind));

                struct err inner = { 0 };
                if (check_variable_name(n->key, &inner) < 0) /* "A=B: c" would become A, with the value "B=c" */
                        return node_key_error(walk->file->document, n, err, "%s: %s", policy_rows[row].key,
                                              err_text(&inner));

                cleanup(free_ptr) char *text = str_format("%.*s=%.*s", STR_FMT(n->key), STR_FMT(n->text));
                int r = text ? apply_text(walk, row, n, str_of(text), err) : err_memory(err);
                if (r < 0)
                        return r;
        }

        return 0;
}

static int apply_null(struct walk *walk, enum policy_row row, const struct node *node, struct err *err) {
        if (!policy_row_replaces(row))
                return node_key_error(walk->file->document, node, err,
                                      "%s has no value; leave the line out, or give it one", policy_rows[row].key);

        /* Back to the built-in list: a user who set a stricter one would lose it. */
        int r = 0;

        if (walk->file->untrusted && walk->policy->network.deny_cidrs_set)
                r = note_widening(walk, node, policy_rows[row].key, STR("null"), err);

        policy_apply_null(walk->policy, row);

        return r;
}

static int apply_row(struct walk *walk, enum policy_row row, const struct node *node, struct err *err) {
        if (node->kind == NODE_NULL)
                return apply_null(walk, row, node, err);
        if (policy_rows[row].type == OPTION_MAP)
                return apply_map(walk, row, node, err);
        if (option_repeats(&policy_rows[row]))
                return apply_list(walk, row, node, err);

        return apply_scalar(walk, row, node, err);
}

static int apply_record(struct walk *walk, const struct record *record, const struct node *node, struct err *err) {
        bool widens = false;
        int r = record_read(walk->policy, record, walk->file->document, node, &widens, err);
        if (r < 0 || !widens || !walk->file->untrusted)
                return r;

        struct str name = STR("");
        if (record->named)
                name = node->key;
        else if (node->first)
                name = node->first->text;

        return note_widening(walk, node, record->key, name, err);
}

static int apply_records(struct walk *walk, const struct record *record, const struct node *node, struct err *err) {
        enum node_kind wanted = record->named ? NODE_MAP : NODE_LIST;
        if (node->kind != wanted)
                return node_error(walk->file->document, node, err, "%s is %s, not %s", record->key,
                                  node_kind_name(wanted), node_kind_name(node->kind));

        for (const struct node *n = node->first; n; n = n->next) {
                int r = apply_record(walk, record, n, err);
                if (r < 0)
                        return r;
        }

        return 0;
}

static void offer_component(struct suggestion *suggestion, const char *key, struct str prefix, char *space, size_t n) {
        struct str part = key_component(key, prefix);
        struct suggestion before = *suggestion;

        if (part.n == 0 || part.n >= n)
                return;

        char candidate[KEY_MAX];
        snprintf(candidate, sizeof candidate, "%.*s", STR_FMT(part));
        suggest_offer(suggestion, candidate);

        if (suggestion->distance != before.distance || suggestion->best != before.best) {
                memcpy(space, candidate, part.n + 1);
                suggestion->best = space;
        }
}

/* "allow" at the top: the key exists, but elsewhere. */
static const char *same_key_elsewhere(struct str name) {
        for (size_t i = 0; i < POLICY_KEYS; i++) {
                struct str key = str_of(key_at(i));
                struct str last = str_skip(key, (size_t)(str_rfind(key, '.') + 1));
                if (key.n > 0 && str_eq(last, name))
                        return key.p;
        }
        return NULL;
}

static int unknown_key(const struct walk *walk, struct str prefix, const struct node *node, struct err *err) {
        struct suggestion suggestion = suggest_for(node->key);
        char space[KEY_MAX];

        for (size_t i = 0; i < POLICY_KEYS; i++)
                offer_component(&suggestion, key_at(i), prefix, space, sizeof space);

        const char *elsewhere = suggestion.best ? NULL : same_key_elsewhere(node->key);
        char hint[KEY_MAX + 32] = "";
        if (elsewhere)
                snprintf(hint, sizeof hint, "; did you mean '%s'?", elsewhere);

        if (str_find(node->key, '.') >= 0)
                return node_key_error(walk->file->document, node, err,
                                      "unknown key %s; keys are nested, not dotted: network: { allow: [] }",
                                      show(node->key).text);

        struct str section = prefix.n ? str_first(prefix, prefix.n - 1) : STR("");
        return node_key_error(walk->file->document, node, err, "unknown key %s%s%.*s%s%s", show(node->key).text,
                              section.n ? " in " : "", STR_FMT(section), suggest_text(&suggestion, "").text, hint);
}

static int apply_section(struct walk *walk, const char *prefix, const struct node *map, struct err *err);

static int apply_key(struct walk *walk, struct str prefix, const struct node *node, struct err *err) {
        char key[KEY_MAX];

        if (prefix.n + node->key.n + 2 > sizeof key || str_find(node->key, '.') >= 0 || node->key.n == 0)
                return unknown_key(walk, prefix, node, err);

        snprintf(key, sizeof key, "%.*s%.*s", STR_FMT(prefix), STR_FMT(node->key));

        for (unsigned row = 0; row < POLICY_ROWS; row++)
                if (policy_rows[row].key && strcmp(policy_rows[row].key, key) == 0)
                        return apply_row(walk, (enum policy_row)row, node, err);

        for (size_t i = 0; i < POLICY_RECORDS; i++)
                if (strcmp(policy_records[i].key, key) == 0)
                        return apply_records(walk, &policy_records[i], node, err);

        if (!key_is_section(key))
                return unknown_key(walk, prefix, node, err);
        if (node->kind == NODE_NULL)
                return 0; /* a heading with nothing under it */

        if (node->kind != NODE_MAP)
                return node_error(walk->file->document, node, err, "%s is a section with keys under it, not %s", key,
                                  node_kind_name(node->kind));

        size_t used = strlen(key);
        snprintf(key + used, sizeof key - used, ".");

        return apply_section(walk, key, node, err);
}

/* Recursion ends with the keys: a section is three levels down at most. */
static int apply_section(struct walk *walk, const char *prefix, const struct node *map, struct err *err) {
        for (const struct node *node = map->first; node; node = node->next) {
                int r = apply_key(walk, str_of(prefix), node, err);
                if (r < 0)
                        return r;
        }
        return 0;
}

int policy_file_apply(struct policy_file *file, struct policy *policy, struct err *err) {
        const struct node *root = file->document ? document_root(file->document) : NULL;

        file->allow_files_before = file->allow_files_after = policy->network.allow_files.n;
        if (!root || root->kind == NODE_NULL)
                return 0;

        if (root->kind != NODE_MAP)
                return node_error(file->document, root, err, "a policy is a mapping (key: value), not %s",
                                  node_kind_name(root->kind));

        struct walk walk = { .file = file, .policy = policy };
        int r = apply_section(&walk, "", root, err);
        file->allow_files_after = policy->network.allow_files.n;

        return r;
}
