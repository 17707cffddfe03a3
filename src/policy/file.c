/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/file.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/path.h"
#include "conf/suggest.h"
#include "conf/yaml.h"
#include "policy/apply.h"
#include "policy/check.h"
#include "policy/keys.h"
#include "policy/records.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

void widening_done(struct widening *w) {
        free(w->place);
        free(w->key);
        free(w->text);
}

void policy_file_done(struct policy_file *f) {
        free(f->path);
        free(f->base);
        buf_done(&f->content);
        document_free(f->document);
        for (size_t i = 0; i < f->widenings.n; i++)
                widening_done(&f->widenings.p[i]);
        vec_done(&f->widenings);
}

static int check_kind(int fd, const char *shown, struct err *e) {
        struct stat st;
        if (fstat(fd, &st) < 0)
                return err_errno(e, "cannot examine %s", shown);
        if (!S_ISREG(st.st_mode))
                return err_set(e, EINVAL, "%s is not a regular file", shown);
        if (st.st_mode & S_IWOTH)
                return err_set(e, EPERM, "%s can be written by everybody, so nobody can rely on it (chmod o-w)", shown);
        return 0;
}

static int read_content(struct policy_file *f, const char *shown, unsigned flags, struct err *e) {
        int no_link = flags & POLICY_FILE_NO_LINK ? O_NOFOLLOW : 0;
        cleanup(close_fd) int fd = open(f->path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | no_link);
        if (fd < 0 && errno == ENOENT && !(flags & POLICY_FILE_REQUIRED))
                return 0;
        if (fd < 0 && errno == ELOOP && no_link)
                return err_set(e, ELOOP, "%s is a symbolic link; a workspace's policy must be a file of its own",
                               shown);
        if (fd < 0)
                return err_errno(e, "cannot open %s", shown);
        int r = check_kind(fd, shown, e);
        if (r < 0)
                return r;
        f->content = BUF(DOCUMENT_BYTES_MAX);
        r = fd_read_all(fd, &f->content);
        if (r == -EMSGSIZE)
                return err_set(e, EFBIG,
                               "%s:1:1: the file has more than %d bytes; put long lists of hosts into a file of their "
                               "own (network.allow_file, network.deny_file)",
                               shown, DOCUMENT_BYTES_MAX);
        return r < 0 ? err_set(e, -r, "cannot read %s: %s", shown, strerror(-r)) : 1;
}

int policy_file_open(struct policy_file *f, const char *path, const char *shown, unsigned flags, struct err *e) {
        f->path = str_dup(str_of(path));
        const char *slash = strrchr(path, '/');
        f->base = slash && slash > path ? str_dup(str_n(path, (size_t)(slash - path))) : str_dup(STR("/"));
        if (!f->path || !f->base)
                return err_memory(e);
        int r = read_content(f, shown, flags, e);
        return r <= 0 ? r : yaml_read(buf_str(&f->content), str_of(shown), &f->document, e);
}

int policy_file_text(struct policy_file *f, const char *text, const char *base, const char *shown, struct err *e) {
        f->path = str_dup(str_of(shown));
        f->base = str_dup(str_of(base));
        if (!f->path || !f->base)
                return err_memory(e);
        if (strlen(text) > DOCUMENT_BYTES_MAX)
                return err_set(e, EFBIG, "%s:1:1: the policy has more than %d bytes", shown, DOCUMENT_BYTES_MAX);
        return yaml_read(str_of(text), str_of(shown), &f->document, e);
}

struct str policy_file_preset(const struct policy_file *f) {
        const struct node *root = f->document ? document_root(f->document) : NULL;
        const struct node *n = root && root->kind == NODE_MAP ? node_get(root, STR("preset")) : NULL;
        return n && n->kind == NODE_SCALAR ? n->text : str_n(NULL, 0);
}

/* --- applying --- */

struct walk {
        struct policy_file *file;
        struct policy *policy;
};

static int note_widening(struct walk *w, const struct node *n, const char *key, struct str text, struct err *e) {
        struct widening widening = { .place = node_origin(w->file->document, n),
                                     .key = str_dup(str_of(key)),
                                     .text = str_dup(text) };
        if (!widening.place || !widening.key || !widening.text || vec_push(&w->file->widenings, widening) < 0) {
                widening_done(&widening);
                return err_memory(e);
        }
        return 0;
}

/* A list of refused hosts only takes away, but a message about a bad line in it quotes the line: the workspace must not
 * be able to have the user's other files read out that way. */
static bool reads_elsewhere(const struct walk *w, enum policy_row row, struct str text) {
        cleanup(free_ptr) char *expanded = NULL, *path = NULL, *real = NULL;
        if (row != ROW_DENY_FILE)
                return false;
        if (path_expand_home(text, w->policy->home, &expanded) == 0 &&
            path_normalise(str_of(expanded), w->file->base, &path) == 0)
                real = realpath(path, NULL);
        return !real || !path_is_within(real, w->policy->workspace);
}

/* One value of a row, with the place that it was written at. */
static int apply_text(struct walk *w, enum policy_row row, const struct node *n, struct str text, struct err *e) {
        const struct option *o = &policy_rows[row];
        const struct document *d = w->file->document;
        struct err inner = { 0 };
        int r = option_check(o, text, &inner);
        if (r == 0 && w->file->untrusted && o->trust == TRUST_NEVER)
                r = err_set(&inner, EPERM, "this belongs into your own configuration, not into a workspace's");
        if (r == 0 && w->file->untrusted && (policy_widens(w->policy, row, text) || reads_elsewhere(w, row, text)))
                r = note_widening(w, n, o->key, text, &inner);
        cleanup(free_ptr) char *origin = node_origin(d, n);
        if (!origin)
                return err_memory(e);
        if (r == 0)
                r = policy_apply(w->policy, row, text, origin, w->file->base, &inner);
        if (r == -ENOMEM)
                return err_memory(e);
        return r < 0 ? node_error(d, n, e, "%s: %s", o->key, err_text(&inner)) : 0;
}

static int apply_scalar(struct walk *w, enum policy_row row, const struct node *n, struct err *e) {
        if (n->kind != NODE_SCALAR)
                return node_error(w->file->document, n, e, "%s needs a single value here, not %s", policy_rows[row].key,
                                  node_kind_name(n->kind));
        return apply_text(w, row, n, n->text, e);
}

/* { host: PATTERN, reason: TEXT } in network.deny. */
static int apply_refusal(struct walk *w, const struct node *map, struct err *e) {
        const struct document *d = w->file->document;
        const struct node *host = node_get(map, STR("host")), *reason = node_get(map, STR("reason"));
        struct err inner = { 0 };
        int r;

        for (const struct node *n = map->first; n; n = n->next)
                if (n != host && n != reason)
                        return node_key_error(d, n, e, "unknown key %s in network.deny; there are 'host' and 'reason'",
                                              show(n->key).text);
        if (!host)
                return node_error(d, map, e,
                                  "an entry of network.deny needs 'host', as { host: x.example, reason: y }");
        r = apply_scalar(w, ROW_DENY, host, e);
        if (r < 0 || !reason)
                return r;

        if (reason->kind != NODE_SCALAR)
                return node_error(d, reason, e, "'reason' needs a text, not %s", node_kind_name(reason->kind));
        r = policy_set_reason(w->policy, reason->text, &inner);
        if (r == -ENOMEM)
                return err_memory(e);
        return r < 0 ? node_error(d, reason, e, "network.deny: %s", err_text(&inner)) : 0;
}

static int apply_list(struct walk *w, enum policy_row row, const struct node *node, struct err *e) {
        policy_apply_start(w->policy, row);
        if (node->kind == NODE_SCALAR)
                return apply_scalar(w, row, node, e); /* a list of one, without brackets */
        if (node->kind != NODE_LIST)
                return node_error(w->file->document, node, e, "%s needs a list, not %s", policy_rows[row].key,
                                  node_kind_name(node->kind));
        if (policy_row_replaces(row) && w->file->untrusted && node->n == 0) {
                int r = note_widening(w, node, policy_rows[row].key, STR("[]"), e);
                if (r < 0)
                        return r;
        }
        for (const struct node *n = node->first; n; n = n->next) {
                int r = row == ROW_DENY && n->kind == NODE_MAP ? apply_refusal(w, n, e) : apply_scalar(w, row, n, e);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* "NAME: value" in the file is "NAME=value" elsewhere. */
static int apply_map(struct walk *w, enum policy_row row, const struct node *node, struct err *e) {
        if (node->kind != NODE_MAP)
                return node_error(w->file->document, node, e, "%s needs a mapping (NAME: value), not %s",
                                  policy_rows[row].key, node_kind_name(node->kind));
        for (const struct node *n = node->first; n; n = n->next) {
                if (n->kind != NODE_SCALAR)
                        return node_error(w->file->document, n, e, "%s: %s needs a single value, not %s",
                                          policy_rows[row].key, show(n->key).text, node_kind_name(n->kind));
                struct err inner = { 0 };
                if (check_variable_name(n->key, &inner) < 0) /* "A=B: c" would become A, with the value "B=c" */
                        return node_key_error(w->file->document, n, e, "%s: %s", policy_rows[row].key,
                                              err_text(&inner));
                cleanup(free_ptr) char *text = str_format("%.*s=%.*s", STR_FMT(n->key), STR_FMT(n->text));
                int r = text ? apply_text(w, row, n, str_of(text), e) : err_memory(e);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int apply_null(struct walk *w, enum policy_row row, const struct node *n, struct err *e) {
        if (!policy_row_replaces(row))
                return node_key_error(w->file->document, n, e, "%s has no value; leave the line out, or give it one",
                                      policy_rows[row].key);
        /* Back to the built-in list: a user who set a stricter one would lose it. */
        int r = w->file->untrusted && w->policy->network.deny_cidrs_set
                    ? note_widening(w, n, policy_rows[row].key, STR("null"), e)
                    : 0;
        policy_apply_null(w->policy, row);
        return r;
}

static int apply_row(struct walk *w, enum policy_row row, const struct node *n, struct err *e) {
        if (n->kind == NODE_NULL)
                return apply_null(w, row, n, e);
        if (policy_rows[row].type == OPTION_MAP)
                return apply_map(w, row, n, e);
        return option_repeats(&policy_rows[row]) ? apply_list(w, row, n, e) : apply_scalar(w, row, n, e);
}

static int apply_record(struct walk *w, const struct record *record, const struct node *n, struct err *e) {
        bool widens = false;
        int r = record_read(w->policy, record, w->file->document, n, &widens, e);
        if (r < 0 || !widens || !w->file->untrusted)
                return r;
        const struct node *first = n->first;
        return note_widening(w, n, record->key, record->named ? n->key : first ? first->text : STR(""), e);
}

static int apply_records(struct walk *w, const struct record *record, const struct node *node, struct err *e) {
        enum node_kind wanted = record->named ? NODE_MAP : NODE_LIST;
        if (node->kind != wanted)
                return node_error(w->file->document, node, e, "%s is %s, not %s", record->key, node_kind_name(wanted),
                                  node_kind_name(node->kind));
        for (const struct node *n = node->first; n; n = n->next) {
                int r = apply_record(w, record, n, e);
                if (r < 0)
                        return r;
        }
        return 0;
}

static void offer_component(struct suggestion *s, const char *key, struct str prefix, char *space, size_t n) {
        struct str part = key_component(key, prefix);
        struct suggestion before = *s;
        if (part.n == 0 || part.n >= n)
                return;
        char candidate[KEY_MAX];
        snprintf(candidate, sizeof candidate, "%.*s", STR_FMT(part));
        suggest_offer(s, candidate);
        if (s->distance != before.distance || s->best != before.best) {
                memcpy(space, candidate, part.n + 1);
                s->best = space;
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

static int unknown_key(const struct walk *w, struct str prefix, const struct node *n, struct err *e) {
        struct suggestion s = suggest_for(n->key);
        char space[KEY_MAX];
        for (size_t i = 0; i < POLICY_KEYS; i++)
                offer_component(&s, key_at(i), prefix, space, sizeof space);
        const char *elsewhere = s.best ? NULL : same_key_elsewhere(n->key);
        if (str_find(n->key, '.') >= 0)
                return node_key_error(w->file->document, n, e,
                                      "unknown key %s; keys are nested, not dotted: network: { allow: [] }",
                                      show(n->key).text);
        struct str section = prefix.n ? str_first(prefix, prefix.n - 1) : STR("");
        return node_key_error(w->file->document, n, e, "unknown key %s%s%.*s%s%s%s%s", show(n->key).text,
                              section.n ? " in " : "", STR_FMT(section), suggest_text(&s, "").text,
                              elsewhere ? "; did you mean '" : "", elsewhere ? elsewhere : "", elsewhere ? "'?" : "");
}

static int apply_section(struct walk *w, const char *prefix, const struct node *map, struct err *e);

static int apply_key(struct walk *w, struct str prefix, const struct node *n, struct err *e) {
        char key[KEY_MAX];
        if (prefix.n + n->key.n + 2 > sizeof key || str_find(n->key, '.') >= 0 || n->key.n == 0)
                return unknown_key(w, prefix, n, e);
        snprintf(key, sizeof key, "%.*s%.*s", STR_FMT(prefix), STR_FMT(n->key));
        for (unsigned row = 0; row < POLICY_ROWS; row++)
                if (policy_rows[row].key && strcmp(policy_rows[row].key, key) == 0)
                        return apply_row(w, (enum policy_row)row, n, e);
        for (size_t i = 0; i < POLICY_RECORDS; i++)
                if (strcmp(policy_records[i].key, key) == 0)
                        return apply_records(w, &policy_records[i], n, e);
        if (!key_is_section(key))
                return unknown_key(w, prefix, n, e);
        if (n->kind == NODE_NULL)
                return 0; /* a heading with nothing under it */
        if (n->kind != NODE_MAP)
                return node_error(w->file->document, n, e, "%s is a section with keys under it, not %s", key,
                                  node_kind_name(n->kind));
        size_t used = strlen(key);
        snprintf(key + used, sizeof key - used, ".");
        return apply_section(w, key, n, e);
}

/* Recursion ends with the keys: a section is three levels down at most. */
static int apply_section(struct walk *w, const char *prefix, const struct node *map, struct err *e) {
        for (const struct node *n = map->first; n; n = n->next) {
                int r = apply_key(w, str_of(prefix), n, e);
                if (r < 0)
                        return r;
        }
        return 0;
}

int policy_file_apply(struct policy_file *f, struct policy *p, struct err *e) {
        const struct node *root = f->document ? document_root(f->document) : NULL;
        f->allow_files_before = f->allow_files_after = p->network.allow_files.n;
        if (!root || root->kind == NODE_NULL)
                return 0;
        if (root->kind != NODE_MAP)
                return node_error(f->document, root, e, "a policy is a mapping (key: value), not %s",
                                  node_kind_name(root->kind));
        struct walk w = { .file = f, .policy = p };
        int r = apply_section(&w, "", root, e);
        f->allow_files_after = p->network.allow_files.n;
        return r;
}
