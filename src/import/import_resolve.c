/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Differences in the order of rules. With Bailey the more specific path decides; elsewhere a denial wins over any grant
 * inside it. So a grant that a denial covers is removed: the remaining grants have no denial around them, and a denial
 * inside a grant is the more specific one for both.
 *
 * Bailey also grants by itself: the workspace can be read and written to. Where the source does not, a denial for the
 * workspace says so; a grant below it is more specific and stays.
 */
#include "base/cleanup.h"
#include "base/paths/path.h"
#include "import/import_internal.h"
#include "import/import_source.h"
#include "policy/match/glob.h"
#include "policy/match/pattern.h"

#include <errno.h>

#define ITSELF "" /* said by nobody: it follows from the rest */

/* --- paths --- */

/* Whether the denial holds for the path itself, not only for something below it. */
static bool denial_covers(struct import_model *model, const char *denial, const char *path) {
        struct str pattern = str_of(denial);
        size_t n = strlen(path);

        model->work++;
        if (!glob_has_magic(pattern))
                return path_is_within(path, denial);

        for (size_t i = 1; i <= n; i++) {
                if (path[i] != '/' && path[i] != '\0')
                        continue;

                model->work += 1 + pattern.n * i / 256;
                if (import_is_overworked(model) || glob_match(pattern, str_n(path, i)))
                        return true;
        }

        return false;
}

static const struct import_entry *find_denial(struct import_model *model, enum import_list list, const char *path) {
        const import_entries *denials = &model->lists[list];

        for (size_t i = 0; i < denials->n; i++)
                if (denial_covers(model, denials->p[i].text, path))
                        return &denials->p[i];
        return NULL;
}

static bool is_within_any(const import_entries *grants, const char *path, bool soft_only) {
        for (size_t i = 0; i < grants->n; i++)
                if ((grants->p[i].soft || !soft_only) && path_is_within(path, grants->p[i].text))
                        return true;
        return false;
}

/* Whether the source lets the path be read, as far as denials go. */
static bool can_read(struct import_model *model, const char *path) {
        const import_entries *denials = &model->lists[IMPORT_DENY_READ];

        model->work += model->lists[IMPORT_READ].n;
        bool reopened = is_within_any(&model->lists[IMPORT_READ], path, true);

        for (size_t i = 0; i < denials->n; i++)
                if (denial_covers(model, denials->p[i].text, path) && !(denials->p[i].soft && reopened))
                        return false;
        return true;
}

static bool is_too_wide(const struct import_model *model, const char *path) {
        return strcmp(path, "/") == 0 || strcmp(path, model->home) == 0;
}

#define RULE_TAKES_BACK "a rule about all of the tool wins over it there"
#define TOO_WIDE "the whole home or the whole system is not granted; name what is needed below it"

static int settle_reads(struct import_model *model, struct err *err) {
        import_entries *reads = &model->lists[IMPORT_READ];

        for (size_t i = 0; i < reads->n;) {
                const char *path = reads->p[i].text;
                int r = import_check_work(model, err);

                if (r < 0)
                        return r;

                if (strcmp(path, "/") == 0)
                        model->reads_listed = false;

                if (is_too_wide(model, path) && strcmp(path, model->workspace) != 0)
                        r = import_drop(model, IMPORT_READ, i, false, TOO_WIDE, err);
                else if (!can_read(model, path))
                        r = import_drop(model, IMPORT_READ, i, false,
                                        "a denial covers it, which wins there; here the more specific one would", err);
                else
                        i++;

                if (r < 0)
                        return r;
        }

        return 0;
}

static int settle_writes(struct import_model *model, struct err *err) {
        import_entries *writes = &model->lists[IMPORT_WRITE];

        for (size_t i = 0; i < writes->n;) {
                const char *path = writes->p[i].text;
                int r = import_check_work(model, err);

                if (r < 0)
                        return r;

                if (writes->p[i].by_rule && model->rules_grant_no_writes)
                        r = import_drop(model, IMPORT_WRITE, i, false, RULE_TAKES_BACK, err);
                else if (is_too_wide(model, path))
                        r = import_drop(model, IMPORT_WRITE, i, false, TOO_WIDE, err);
                else if (find_denial(model, IMPORT_DENY_WRITE, path) || !can_read(model, path))
                        r = import_drop(model, IMPORT_WRITE, i, false,
                                        "a denial covers it, which wins there; here the more specific one would", err);
                else
                        i++;

                if (r < 0)
                        return r;
        }

        return 0;
}

/* Paths that are named for reading only, inside writable ones. */
static int limit_writes(struct import_model *model, struct err *err) {
        const import_entries *reads = &model->lists[IMPORT_READ], *writes = &model->lists[IMPORT_WRITE];
        int r = 0;

        for (size_t i = 0; r == 0 && model->reads_limit_writes && i < reads->n; i++) {
                const struct import_entry *read = &reads->p[i];
                bool same = false;

                model->work += 2 * writes->n;
                r = import_check_work(model, err);
                if (r < 0)
                        return r;

                for (size_t k = 0; k < writes->n; k++)
                        same |= strcmp(writes->p[k].text, read->text) == 0;

                if (!same && is_within_any(writes, read->text, false))
                        r = import_add(model, IMPORT_DENY_WRITE, str_of(read->text), read->place, str_of(read->said),
                                       err);
        }

        return r;
}

/* The workspace as a denial: its name stands for itself. */
static int deny_workspace(struct import_model *model, enum import_list list, const char *why, struct err *err) {
        cleanup(buf_done) struct buf path = BUF(65536);

        if (import_add_literal(&path, str_of(model->workspace)) < 0)
                return err_memory(err);

        return import_add(model, list, buf_str(&path), why, STR(ITSELF), err);
}

static int settle_workspace(struct import_model *model, struct err *err) {
        const char *workspace = model->workspace;
        bool listed = is_within_any(&model->lists[IMPORT_READ], workspace, false) ||
                      is_within_any(&model->lists[IMPORT_WRITE], workspace, false);
        bool readable = can_read(model, workspace) && (!model->reads_listed || listed);
        bool writable = readable && !model->workspace_read_only &&
                        (model->workspace_writable || is_within_any(&model->lists[IMPORT_WRITE], workspace, false)) &&
                        !find_denial(model, IMPORT_DENY_WRITE, workspace);
        int r = 0;

        if (!readable)
                r = deny_workspace(model, IMPORT_DENY_READ, "the source does not let the project be read", err);
        if (r == 0 && !writable)
                r = deny_workspace(model, IMPORT_DENY_WRITE, "the source does not let the project be written to", err);

        model->workspace_read_only = !writable;
        return r;
}

/* --- hosts --- */

/* As other tools match a name: a star stands for anything. */
static bool wild_match(struct str pattern, struct str name) {
        size_t p = 0, n = 0, star = SIZE_MAX, mark = 0;

        while (n < name.n) {
                if (p < pattern.n && pattern.p[p] == '*') {
                        star = p++;
                        mark = n;
                } else if (p < pattern.n &&
                           (ascii_lower(pattern.p[p]) == ascii_lower(name.p[n]) || pattern.p[p] == '?')) {
                        p++;
                        n++;
                } else if (star != SIZE_MAX) {
                        p = star + 1;
                        n = ++mark;
                } else {
                        return false;
                }
        }

        while (p < pattern.n && pattern.p[p] == '*')
                p++;

        return p == pattern.n;
}

/* Whether a denial that cannot be written as a pattern may concern this pattern. Only a plain name is known to be free
 * of it. */
static bool may_concern(const struct import_model *model, const struct pattern *pattern) {
        const import_entries *unsaid = &model->lists[IMPORT_UNSAID_DENY];

        for (size_t i = 0; i < unsaid->n; i++) {
                struct str text = str_of(unsaid->p[i].text);
                ptrdiff_t colon = str_rfind(text, ':');
                if (colon > 0)
                        text = str_first(text, (size_t)colon);
                if (pattern->kind != PATTERN_NAME || wild_match(text, host_str(&pattern->host)))
                        return true;
        }

        return false;
}

static bool is_denied_whole(const struct import_model *model, const struct pattern *pattern) {
        return model->denies_all_hosts || may_concern(model, pattern);
}

static int settle_allows(struct import_model *model, struct err *err) {
        import_entries *allows = &model->lists[IMPORT_ALLOW];

        for (size_t i = 0; i < allows->n;) {
                struct pattern pattern = { 0 };

                model->work += model->lists[IMPORT_UNSAID_DENY].n;
                int r = import_check_work(model, err);
                if (r == 0)
                        r = pattern_parse_user(str_of(allows->p[i].text), &pattern, err);
                if (r < 0)
                        return r;

                if (model->only_file && allows->p[i].file != model->only_file - 1)
                        r = import_drop(model, IMPORT_ALLOW, i, false, "only the administrator's list of hosts counts",
                                        err);
                else if (allows->p[i].by_rule && model->rules_grant_no_hosts)
                        r = import_drop(model, IMPORT_ALLOW, i, false, RULE_TAKES_BACK, err);
                else if (is_denied_whole(model, &pattern))
                        r = import_drop(model, IMPORT_ALLOW, i, false, "it is denied elsewhere in the source", err);
                else
                        i++;

                if (r < 0)
                        return r;
        }

        return 0;
}

/* A port of this host has another name inside, which denials for localhost do not cover. */
static int settle_host_ports(struct import_model *model, struct err *err) {
        static const char *const names[] = { "localhost", "127.0.0.1", "[::1]", "host.bailey.internal" };
        import_entries *ports = &model->lists[IMPORT_HOST_PORT];
        const import_entries *denials = &model->lists[IMPORT_DENY];

        for (size_t i = 0; i < ports->n;) {
                bool denied = model->denies_all_hosts || model->lists[IMPORT_UNSAID_DENY].n > 0 ||
                              model->network == IMPORT_NETWORK_NONE || model->hosts_required ||
                              (model->only_file && ports->p[i].file != model->only_file - 1);

                model->work += 16 * denials->n;
                if (import_check_work(model, err) < 0)
                        return -E2BIG;

                for (size_t k = 0; k < sizeof names / sizeof *names && !denied; k++) {
                        cleanup(free_ptr) char *text = str_format("%s:%s", names[k], ports->p[i].text);
                        struct pattern own, denial;

                        if (!text || pattern_parse_user(str_of(text), &own, err) < 0)
                                return err_memory(err);

                        for (size_t d = 0; d < denials->n && !denied; d++)
                                denied = pattern_parse_refusal(str_of(denials->p[d].text), &denial, NULL) < 0 ||
                                         pattern_overlaps(&own, &denial);
                }

                int r =
                    denied ? import_drop(model, IMPORT_HOST_PORT, i, false, "it is denied elsewhere in the source", err)
                           : 0;
                if (r < 0)
                        return r;

                i += !denied;
        }

        return 0;
}

static int settle_network(struct import_model *model, struct err *err) {
        bool any = model->network == IMPORT_NETWORK_ANY;
        int r;

        if (any && (model->denies_all_hosts || model->lists[IMPORT_UNSAID_DENY].n > 0 || model->only_file)) {
                model->network = IMPORT_NETWORK_LISTED;
                any = false;
        }

        if (any && model->safe_methods) {
                model->network = IMPORT_NETWORK_LISTED;
                r = import_note(model, model->tool, STR("mode = \"limited\""), false, err,
                                "some methods for every host: rules are for hosts that are named");
                if (r < 0)
                        return r;
        }

        r = settle_allows(model, err);
        if (r < 0)
                return r;

        return settle_host_ports(model, err);
}

/* --- credentials --- */

/* A credential opens its hosts on port 443: they must be open without it. */
static bool host_is_open(const struct import_model *model, const struct pattern *host) {
        const import_entries *allows = &model->lists[IMPORT_ALLOW], *denials = &model->lists[IMPORT_DENY];
        const import_entries *sealed = &model->lists[IMPORT_NO_INTERCEPT];
        struct pattern other;
        bool open = model->network == IMPORT_NETWORK_ANY;

        if (model->network == IMPORT_NETWORK_NONE || is_denied_whole(model, host) || host->kind != PATTERN_NAME)
                return false;

        for (size_t i = 0; i < allows->n && !open; i++)
                open = pattern_parse_user(str_of(allows->p[i].text), &other, NULL) == 0 &&
                       pattern_matches(&other, &host->host, host->port_first);

        for (size_t i = 0; i < denials->n && open; i++)
                open = pattern_parse_refusal(str_of(denials->p[i].text), &other, NULL) == 0 &&
                       !pattern_overlaps(&other, host);

        for (size_t i = 0; i < sealed->n && open; i++)
                open =
                    pattern_parse_user(str_of(sealed->p[i].text), &other, NULL) == 0 && !pattern_overlaps(&other, host);

        return open;
}

static int settle_credential(struct import_model *model, struct import_credential *credential, struct err *err) {
        for (size_t i = 0; i < credential->hosts.n;) {
                char *text = credential->hosts.p[i];
                struct pattern host = { 0 };

                model->work += 4 * (model->lists[IMPORT_ALLOW].n + model->lists[IMPORT_DENY].n);
                int r = import_check_work(model, err);
                if (r == 0)
                        r = pattern_parse_user(str_of(text), &host, err);
                if (r < 0)
                        return r;
                if (!host.has_port)
                        host.port_first = host.port_last = 443;

                if (host.port_first == host.port_last && host_is_open(model, &host)) {
                        i++;
                        continue;
                }

                r = import_note(model, credential->place, str_of(text), false, err,
                                "a secret goes to hosts that are named in full and allowed, whose TLS may be opened");
                memmove(&credential->hosts.p[i], &credential->hosts.p[i + 1],
                        (credential->hosts.n - i - 1) * sizeof text);
                credential->hosts.n--;
                free(text);

                if (r < 0)
                        return r;
        }

        return 0;
}

/* A secret that goes nowhere is not shown either. */
static int hide_unsent(struct import_model *model, struct err *err) {
        int r = 0;

        for (size_t i = 0; r == 0 && i < model->credentials.n; i++) {
                const struct import_credential *credential = &model->credentials.p[i];

                if (credential->hosts.n == 0)
                        r = import_hide(model, str_of(credential->env), credential->place, err);
        }

        return r;
}

int import_resolve(struct import_model *model, struct err *err) {
        int r;

        r = limit_writes(model, err);
        if (r == 0)
                r = settle_writes(model, err);
        if (r == 0)
                r = settle_reads(model, err);
        if (r == 0)
                r = settle_workspace(model, err);
        if (r == 0)
                r = settle_network(model, err);

        for (size_t i = 0; r == 0 && i < model->credentials.n; i++)
                r = settle_credential(model, &model->credentials.p[i], err);
        if (r == 0)
                r = hide_unsent(model, err);

        return r;
}
