/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/paths/mirrors.h"

#include "base/cleanup.h"
#include "base/paths/path.h"
#include "policy/match/host.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/*
 * Five file formats, each read for the one thing that matters: the URLs behind a few keys. All are lines of "key =
 * value" or "Key: value" with small differences, so one scanner serves them, driven by a row per tool. Everything that
 * looks like a URL in such a value counts; a user name and password in it are never kept.
 */

enum { SETTINGS_MAX = 1 << 20, FILES_MAX = 256, PATH_SHOWN_MAX = 4352 };

struct search {
        struct policy *policy;
        const char *group;
        const char *root;
        int status; /* only ever -ENOMEM */
};

static bool already_there(const struct search *search, const char *pattern) {
        for (size_t i = 0; i < search->policy->network.mirrors.n; i++) {
                const struct mirror *mirror = &search->policy->network.mirrors.p[i];
                if (strcmp(mirror->group, search->group) == 0 && strcmp(mirror->pattern, pattern) == 0)
                        return true;
        }
        return false;
}

/* Where a value stands: a file's line, or a variable (line 0). */
struct place {
        const char *name;
        unsigned line;
};

static void add_mirror(struct search *search, const struct authority *authority, const struct place *at) {
        char text[AUTHORITY_TEXT_MAX];

        authority_text(authority, text);
        if (already_there(search, text))
                return;

        struct mirror m = { .group = search->group,
                            .pattern = str_dup(str_of(text)),
                            .origin = at->line ? str_format("%s:%u", at->name, at->line) : str_dup(str_of(at->name)) };
        if (!m.pattern || !m.origin || vec_push(&search->policy->network.mirrors, m) < 0) {
                free(m.pattern);
                free(m.origin);
                search->status = -ENOMEM;
        }
}

/* "https://user:password@host:port/path": the host and port. */
static void add_url(struct search *search, struct str url, const struct place *at) {
        bool tls = str_starts(url, STR("https://"));
        struct str rest = str_skip(url, tls ? 8 : 7);
        size_t n = 0;
        while (n < rest.n && !strchr("/?#", rest.p[n]))
                n++;

        struct str authority_part = str_first(rest, n);
        authority_part = str_skip(authority_part, (size_t)(str_rfind(authority_part, '@') + 1));
        struct authority authority;

        if (authority_parse(authority_part, tls ? 443 : 80, &authority, NULL) == 0)
                add_mirror(search, &authority, at);
}

static bool ends_url(char c) {
        return c == ' ' || c == '\t' || c == '"' || c == '\'' || c == ',' || c == '|' || c == ']' || c == '\r';
}

static void add_urls(struct search *search, struct str value, const struct place *at) {
        while (value.n > 0) {
                if (!str_starts(value, STR("http://")) && !str_starts(value, STR("https://"))) {
                        value = str_skip(value, 1);
                        continue;
                }

                size_t n = 0;
                while (n < value.n && !ends_url(value.p[n]))
                        n++;

                add_url(search, str_first(value, n), at);
                value = str_skip(value, n);
        }
}

/* Does the key count? Keys are compared as written: "registry", "@scope:registry", "URIs". */
typedef bool key_test(struct str key);

static bool is_npm_key(struct str key) {
        return str_is(key, "registry") || str_ends(key, STR(":registry"));
}
static bool is_pip_key(struct str key) {
        return str_is(key, "index-url") || str_is(key, "extra-index-url") || str_is(key, "index_url") ||
               str_is(key, "extra_index_url");
}
static bool is_cargo_key(struct str key) {
        return str_is(key, "registry") || str_is(key, "index");
}
static bool is_go_key(struct str key) {
        return str_is(key, "GOPROXY");
}
static bool is_deb822_key(struct str key) {
        return str_is(key, "URIs");
}

/* The scanner. A line that starts with a space continues the value before it (pip, deb822). */
static void scan_keys(struct search *search, struct str text, const char *name, char separator, key_test *counts) {
        struct str line;
        bool in_value = false;

        for (struct place at = { name, 1 }; str_split(&text, '\n', &line); at.line++) {
                struct str content = str_trim(line);
                if (content.n == 0 || strchr("#;[", content.p[0])) {
                        in_value = in_value && content.n > 0 && content.p[0] == '#';
                        continue;
                }

                if (in_value && (line.p[0] == ' ' || line.p[0] == '\t')) {
                        add_urls(search, content, &at);
                        continue;
                }

                ptrdiff_t end = str_find(content, separator);
                in_value = end > 0 && counts(str_trim(str_first(content, (size_t)end)));
                if (in_value)
                        add_urls(search, str_skip(content, (size_t)end + 1), &at);
        }
}

/* "deb [options] URL suite component...": the old one-line form. */
static void scan_sources_list(struct search *search, struct str text, const char *name) {
        struct str line;
        for (struct place at = { name, 1 }; str_split(&text, '\n', &line); at.line++) {
                struct str content = str_trim(line);
                if (str_starts(content, STR("deb ")) || str_starts(content, STR("deb-src ")))
                        add_urls(search, content, &at);
        }
}

static bool read_settings(const char *path, struct buf *content) {
        return path_read_file(path, SETTINGS_MAX, content, NULL) == 0;
}

/* ~ for the home directory in what is shown. */
static void shown_name(const struct search *search, const char *path, char ret[static PATH_SHOWN_MAX]) {
        const char *home = search->policy->home;
        if (home && path_is_within(path, home) && strlen(home) > 1)
                snprintf(ret, PATH_SHOWN_MAX, "~%s", path + strlen(home));
        else
                snprintf(ret, PATH_SHOWN_MAX, "%s", path);
}

/* Settings that the sandbox may write, because the workspace is the home directory for instance: one run must not let
 * the next one reach more. */
static bool sandbox_writes(const struct policy *policy, const char *path) {
        cleanup(free_ptr) char *real = realpath(path, NULL);
        if (!real || path_is_within(real, policy->workspace))
                return real != NULL;

        for (size_t i = 0; i < policy->filesystem.write.n; i++) {
                cleanup(free_ptr) char *root = realpath(policy->filesystem.write.p[i].text, NULL);
                if (root && path_is_within(real, root))
                        return true;
        }

        return false;
}

static void scan_file(struct search *search, const char *path, char separator, key_test *counts) {
        cleanup(buf_done) struct buf content = BUF(SETTINGS_MAX);
        char name[PATH_SHOWN_MAX];

        /* Most of them do not exist, and every launch asks: one call must do. */
        if (!path || access(path, R_OK) < 0 || sandbox_writes(search->policy, path) || !read_settings(path, &content))
                return;

        shown_name(search, path, name);

        if (counts)
                scan_keys(search, buf_str(&content), name, separator, counts);
        else
                scan_sources_list(search, buf_str(&content), name);
}

static void scan_home_file(struct search *search, const char *below, char separator, key_test *counts) {
        cleanup(free_ptr) char *path = search->policy->home ? path_join(search->policy->home, below) : NULL;
        scan_file(search, path, separator, counts);
}

static void scan_system_file(struct search *search, const char *absolute, char separator, key_test *counts) {
        cleanup(free_ptr) char *path = str_format("%s%s", search->root, absolute);
        scan_file(search, path, separator, counts);
}

static void scan_variable(struct search *search, const char *name) {
        const char *value = getenv(name);
        if (value)
                add_urls(search, str_of(value), &(struct place){ .name = name });
}

static void find_npm(struct search *search) {
        scan_variable(search, "npm_config_registry");
        scan_variable(search, "NPM_CONFIG_REGISTRY");
        scan_home_file(search, ".npmrc", '=', is_npm_key);
        scan_system_file(search, "/etc/npmrc", '=', is_npm_key);
        scan_system_file(search, "/usr/etc/npmrc", '=', is_npm_key);
        scan_system_file(search, "/usr/local/etc/npmrc", '=', is_npm_key);
}

static void find_pip(struct search *search) {
        const char *config = getenv("XDG_CONFIG_HOME"), *named = getenv("PIP_CONFIG_FILE");

        scan_variable(search, "PIP_INDEX_URL");
        scan_variable(search, "PIP_EXTRA_INDEX_URL");
        scan_variable(search, "UV_INDEX_URL");
        scan_variable(search, "UV_DEFAULT_INDEX");

        if (named && named[0] == '/')
                scan_file(search, named, '=', is_pip_key);

        cleanup(free_ptr) char *xdg = config && config[0] == '/' ? path_join(config, "pip/pip.conf") : NULL;
        if (xdg)
                scan_file(search, xdg, '=', is_pip_key);
        else
                scan_home_file(search, ".config/pip/pip.conf", '=', is_pip_key);

        scan_home_file(search, ".pip/pip.conf", '=', is_pip_key);
        scan_system_file(search, "/etc/pip.conf", '=', is_pip_key);
}

static void find_cargo(struct search *search) {
        const char *given = getenv("CARGO_HOME");
        cleanup(free_ptr) char *named = given && given[0] == '/' ? path_join(given, "config.toml") : NULL;
        scan_file(search, named, '=', is_cargo_key);
        scan_home_file(search, ".cargo/config.toml", '=', is_cargo_key);
        scan_home_file(search, ".cargo/config", '=', is_cargo_key);
}

static void find_go(struct search *search) {
        scan_variable(search, "GOPROXY");
        scan_home_file(search, ".config/go/env", '=', is_go_key);
}

static void find_apt(struct search *search) {
        scan_system_file(search, "/etc/apt/sources.list", 0, NULL);
        cleanup(free_ptr) char *directory = str_format("%s/etc/apt/sources.list.d", search->root);
        DIR *d = directory ? opendir(directory) : NULL;
        struct dirent *entry;

        for (unsigned n = 0; d && n < FILES_MAX && (entry = readdir(d)); n++) {
                struct str name = str_of(entry->d_name);
                cleanup(free_ptr) char *path = path_join(directory, entry->d_name);

                if (str_ends(name, STR(".list")))
                        scan_file(search, path, 0, NULL);
                else if (str_ends(name, STR(".sources")))
                        scan_file(search, path, ':', is_deb822_key);
        }

        if (d)
                closedir(d);
}

static void (*const finders[MIRROR_KINDS])(struct search *s) = {
        [MIRROR_NPM] = find_npm, [MIRROR_PIP] = find_pip, [MIRROR_CARGO] = find_cargo,
        [MIRROR_APT] = find_apt, [MIRROR_GO] = find_go,
};

/* Of what an entry names: a group, and the groups that it stands for. */
static int mirrors_find_for(struct policy *policy, struct str entry, const char *root, struct err *err) {
        const struct group *group = group_is_reference(entry) ? group_find(entry, NULL) : NULL;

        if (!group)
                return 0;

        for (const char *const *pattern = group->patterns; *pattern; pattern++) {
                int r = mirrors_find_for(policy, str_of(*pattern), root, err);
                if (r < 0)
                        return r;
        }

        if (finders[group->mirror]) {
                struct search search = { .policy = policy, .group = group->name, .root = root };

                finders[group->mirror](&search);
                if (search.status < 0)
                        return err_set(err, -search.status, "out of memory");
        }

        return 0;
}

int mirrors_find(struct policy *policy, const char *root, struct err *err) {
        for (size_t i = 0; i < policy->network.allow.n; i++) {
                int r = mirrors_find_for(policy, str_of(policy->network.allow.p[i].text), root, err);
                if (r < 0)
                        return r;
        }
        return 0;
}
