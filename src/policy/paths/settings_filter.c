/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/paths/settings_filter.h"

#include "base/cleanup.h"
#include "base/emit.h"
#include "conf/json.h"
#include "policy/git/gitconfig.h"
#include "policy/match/glob.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

const struct home_settings home_settings[] = {
        { ".gitconfig", home_filter_git, "git: who commits, and how it behaves" },
        { ".config/git/config", home_filter_git, "git: who commits, and how it behaves" },
        { ".config/git/ignore", home_filter_lines, "git: what it ignores everywhere" },
        { ".npmrc", home_filter_npm, "npm: registries" },
        { ".config/pip/pip.conf", home_filter_pip, "pip: indexes" },
        { ".pip/pip.conf", home_filter_pip, "pip: indexes" },
        { ".cargo/config.toml", home_filter_cargo, "cargo: registries" },
        { ".claude.json", home_filter_claude, "Claude Code: its theme" },
};
const size_t n_home_settings = sizeof home_settings / sizeof home_settings[0];

/* --- what filters share --- */

/* "section.key", or a glob of it. */
static bool is_listed(const char *const *list, struct str name) {
        for (; *list; list++)
                if (glob_match(str_of(*list), name))
                        return true;
        return false;
}

/* HOST or HOST:PORT, and nothing else: "user@host" has somebody's name, "a:b" without a port somebody's password. */
static bool is_plain_authority(struct str text) {
        ptrdiff_t colon = str_rfind(text, ':'), bracket = str_rfind(text, ']');

        if (str_find(text, '@') >= 0)
                return false;

        for (size_t i = (size_t)colon + 1; colon > bracket && i < text.n; i++)
                if (!ascii_is_digit(text.p[i]))
                        return false;

        return true;
}

/* Whether the text has a URL with a user or a password. */
static bool has_credentials(struct str text) {
        while (text.n > 3) {
                const char *found = memmem(text.p, text.n, "://", 3);
                size_t n = 0;

                if (!found)
                        return false;

                text = str_skip(text, (size_t)(found - text.p) + 3);
                while (n < text.n && !strchr("/?# \t\"'", text.p[n]))
                        n++;

                if (!is_plain_authority(str_first(text, n)))
                        return true;
        }

        return false;
}

/* Without what editors of another system leave at the end. */
static struct str trim_line(struct str line) {
        if (line.n > 0 && line.p[line.n - 1] == '\r')
                line.n--;
        return str_trim(line);
}

/* Control characters have no place in a setting, and could end a line. */
static bool is_printable(struct str text) {
        for (size_t i = 0; i < text.n; i++)
                if ((unsigned char)text.p[i] < ' ' && text.p[i] != '\t')
                        return false;
        return true;
}

static bool is_harmless_value(struct str value) {
        return is_printable(value) && !has_credentials(value);
}

/* --- git --- */

static const char *const git_keys[] = { "user.name",
                                        "user.email",
                                        "init.defaultbranch",
                                        "core.autocrlf",
                                        "core.eol",
                                        "core.safecrlf",
                                        "core.quotepath",
                                        "core.abbrev",
                                        "core.whitespace",
                                        "core.precomposeunicode",
                                        "color.*",
                                        "column.*",
                                        "pull.rebase",
                                        "pull.ff",
                                        "push.default",
                                        "push.autosetupremote",
                                        "push.followtags",
                                        "fetch.prune",
                                        "fetch.prunetags",
                                        "fetch.parallel",
                                        "merge.conflictstyle",
                                        "merge.ff",
                                        "merge.renames",
                                        "diff.algorithm",
                                        "diff.renames",
                                        "diff.colormoved",
                                        "diff.mnemonicprefix",
                                        "rebase.autosquash",
                                        "rebase.autostash",
                                        "rebase.updaterefs",
                                        "rerere.enabled",
                                        "branch.sort",
                                        "branch.autosetuprebase",
                                        "tag.sort",
                                        "log.date",
                                        "log.abbrevcommit",
                                        "status.*",
                                        "commit.verbose",
                                        "commit.cleanup",
                                        "help.autocorrect",
                                        "advice.*",
                                        "submodule.recurse",
                                        "grep.*",
                                        "blame.*",
                                        "format.pretty",
                                        "feature.manyfiles",
                                        "index.version",
                                        "protocol.version",
                                        "safe.directory",
                                        "alias.*",
                                        "url.insteadof",
                                        "url.pushinsteadof",
                                        NULL };

/* An alias with '!' is a command for the shell; one with -c sets what is not on the list. */
static bool git_alias_fits(struct str value) {
        value = str_trim(value);
        return value.n > 0 && value.p[0] != '!' && value.p[0] != '-';
}

static int git_add_quoted(struct buf *out, struct str text) {
        int r = buf_add_char(out, '"');

        for (size_t i = 0; i < text.n && r == 0; i++) {
                if (text.p[i] == '"' || text.p[i] == '\\')
                        r = buf_add_char(out, '\\');
                if (r == 0)
                        r = text.p[i] == '\t' ? buf_add(out, "\\t") : buf_add_char(out, text.p[i]);
        }

        if (r < 0)
                return r;

        return buf_add_char(out, '"');
}

static int git_each(const struct gitconfig_setting *setting, void *context) {
        char name[96];
        struct buf *out = context;
        int n = snprintf(name, sizeof name, "%.*s.%.*s", STR_FMT(setting->section), STR_FMT(setting->key));
        bool is_url = str_is(setting->section, "url");

        if (n < 0 || (size_t)n >= sizeof name || !is_listed(git_keys, str_of(name)) || (is_url && !setting->value.p) ||
            (setting->subsection.p && !is_url) || gitconfig_judge(setting) != GITCONFIG_OTHER)
                return 0;

        if (!is_harmless_value(setting->value) || !is_harmless_value(setting->subsection) ||
            (str_is(setting->section, "alias") && !git_alias_fits(setting->value)))
                return 0;

        int r = buf_printf(out, "[%.*s", STR_FMT(setting->section));
        if (r == 0 && setting->subsection.p) {
                r = buf_add_char(out, ' ');
                if (r >= 0)
                        r = git_add_quoted(out, setting->subsection);
        }

        if (r == 0)
                r = buf_printf(out, "]\n\t%.*s", STR_FMT(setting->key));

        if (r == 0 && setting->value.p) {
                r = buf_add(out, " = ");
                if (r >= 0)
                        r = git_add_quoted(out, setting->value);
        }

        if (r < 0)
                return r;

        return buf_add_char(out, '\n');
}

int home_filter_git(struct str text, struct buf *out) {
        int r = gitconfig_read(text, git_each, out, NULL);

        if (r == -EBADMSG)
                return 0; /* git reads no further either */

        return r;
}

/* --- npm --- */

static const char *const npm_keys[] = { "registry",
                                        "@*:registry",
                                        "strict-ssl",
                                        "cafile",
                                        "prefix",
                                        "fund",
                                        "audit",
                                        "progress",
                                        "loglevel",
                                        "color",
                                        "save-exact",
                                        "save-prefix",
                                        "engine-strict",
                                        "prefer-offline",
                                        "legacy-peer-deps",
                                        "fetch-retries",
                                        "fetch-timeout",
                                        "fetch-retry-*",
                                        "maxsockets",
                                        "init-author-name",
                                        "init-author-email",
                                        "init-author-url",
                                        "init-license",
                                        "init-version",
                                        "update-notifier",
                                        "node-linker",
                                        "shamefully-hoist",
                                        "auto-install-peers",
                                        "strict-peer-dependencies",
                                        NULL };

int home_filter_npm(struct str text, struct buf *out) {
        struct str line, key;
        int r = 0;

        while (r == 0 && str_split(&text, '\n', &line)) {
                line = trim_line(line);
                struct str value = line;

                if (line.n == 0 || line.p[0] == '#' || line.p[0] == ';' || str_find(line, '=') <= 0 ||
                    !str_split(&value, '=', &key))
                        continue;

                key = str_trim(key);
                value = str_trim(value);
                if (is_listed(npm_keys, key) && is_harmless_value(line) && str_find(key, '/') < 0)
                        r = buf_printf(out, "%.*s=%.*s\n", STR_FMT(key), STR_FMT(value));
        }

        return r;
}

/* --- pip --- */

static const char *const pip_keys[] = { "index-url",
                                        "extra-index-url",
                                        "trusted-host",
                                        "timeout",
                                        "retries",
                                        "default-timeout",
                                        "prefer-binary",
                                        "only-binary",
                                        "no-binary",
                                        "no-index",
                                        "find-links",
                                        "require-virtualenv",
                                        "disable-pip-version-check",
                                        "cert",
                                        NULL };

/* Values may go on in indented lines; each of them is judged by itself. */
int home_filter_pip(struct str text, struct buf *out) {
        struct str line, key;
        bool kept = false;
        int r = 0;

        while (r == 0 && str_split(&text, '\n', &line)) {
                bool goes_on = line.n > 0 && (line.p[0] == ' ' || line.p[0] == '\t');

                line = trim_line(line);
                if (line.n == 0 || line.p[0] == '#' || line.p[0] == ';')
                        continue;

                if (goes_on) {
                        if (kept && is_harmless_value(line))
                                r = buf_printf(out, "    %.*s\n", STR_FMT(line));
                        continue;
                }

                kept = false;

                if (line.p[0] == '[') {
                        if (is_printable(line))
                                r = buf_printf(out, "%.*s\n", STR_FMT(line));
                        continue;
                }

                struct str value = line;
                if (!str_split(&value, '=', &key))
                        continue;

                key = str_trim(key);
                value = str_trim(value);
                kept = is_listed(pip_keys, key);
                if (kept)
                        r = buf_printf(out, "%.*s = %.*s\n", STR_FMT(key),
                                       STR_FMT(is_harmless_value(value) ? value : STR("")));
        }

        return r;
}

/* --- cargo --- */

static const char *const cargo_keys[] = { "source.*.registry",
                                          "source.*.replace-with",
                                          "source.*.local-registry",
                                          "source.*.directory",
                                          "source.*.git",
                                          "source.*.branch",
                                          "source.*.tag",
                                          "source.*.rev",
                                          "registries.*.index",
                                          "registries.*.protocol",
                                          "registry.default",
                                          "net.retry",
                                          "net.offline",
                                          "http.timeout",
                                          "http.multiplexing",
                                          "http.cainfo",
                                          "http.check-revoke",
                                          "term.color",
                                          "term.verbose",
                                          "term.quiet",
                                          "build.jobs",
                                          "build.target",
                                          "build.incremental",
                                          NULL };

/* One line: a string without escapes, a number, true or false. Tables and lists within a line are left out. */
static bool cargo_value_fits(struct str value) {
        if (value.n >= 2 && (value.p[0] == '"' || value.p[0] == '\'') && value.p[value.n - 1] == value.p[0]) {
                struct str inner = str_n(value.p + 1, value.n - 2);
                return str_find(inner, value.p[0]) < 0 && str_find(inner, '\\') < 0 && is_harmless_value(inner);
        }

        for (size_t i = 0; i < value.n; i++)
                if (!ascii_is_alnum(value.p[i]) && value.p[i] != '_' && value.p[i] != '-' && value.p[i] != '.')
                        return false;

        return value.n > 0;
}

/* A comment ends a line, but not inside quotes. */
static struct str cargo_without_comment(struct str line) {
        char quote = '\0';

        for (size_t i = 0; i < line.n; i++) {
                if (quote) {
                        if (line.p[i] == quote)
                                quote = '\0';
                        continue;
                }

                if (line.p[i] == '"' || line.p[i] == '\'')
                        quote = line.p[i];
                else if (line.p[i] == '#')
                        return str_trim(str_first(line, i));
        }

        return line;
}

int home_filter_cargo(struct str text, struct buf *out) {
        char section[128] = "", name[256];
        struct str line, key;
        int r = 0;

        while (r == 0 && str_split(&text, '\n', &line)) {
                line = cargo_without_comment(trim_line(line));
                if (line.n == 0 || !is_printable(line))
                        continue;

                if (line.p[0] == '[') {
                        bool plain = line.n < sizeof section && line.p[line.n - 1] == ']' && line.p[1] != '[';

                        if (plain) {
                                snprintf(section, sizeof section, "%.*s", (int)line.n - 2, line.p + 1);
                                r = buf_printf(out, "%.*s\n", STR_FMT(line));
                        } else {
                                snprintf(section, sizeof section, "!");
                        }

                        continue;
                }

                struct str value = line;
                if (!str_split(&value, '=', &key))
                        continue;

                key = str_trim(key);
                value = str_trim(value);
                int n = snprintf(name, sizeof name, "%s%s%.*s", section, section[0] ? "." : "", STR_FMT(key));
                if (n > 0 && (size_t)n < sizeof name && is_listed(cargo_keys, str_of(name)) && cargo_value_fits(value))
                        r = buf_printf(out, "%.*s = %.*s\n", STR_FMT(key), STR_FMT(value));
        }

        return r;
}

/* --- Claude Code --- */

int home_filter_claude(struct str text, struct buf *out) {
        static const char *const keys[] = { "theme", "editorMode", "hasCompletedOnboarding", "lastOnboardingVersion" };
        cleanup(document_freep) struct document *document = NULL;
        const struct node *root;
        struct emit json = emit_to(out);
        size_t kept = 0;
        int r;

        r = json_read(text, STR(".claude.json"), &document, NULL);
        if (r == -ENOMEM)
                return r;
        if (r < 0)
                return 0;

        root = document_root(document);
        if (!root || root->kind != NODE_MAP)
                return 0;

        emit_open(&json, '{');

        for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
                const struct node *node = node_get(root, str_of(keys[i]));
                if (!node || node->kind != NODE_SCALAR || !is_harmless_value(node->text))
                        continue;

                kept++;

                if (node->quoted)
                        emit_put_text(&json, keys[i], node->text.p);
                else
                        emit_put_bool(&json, keys[i], str_is(node->text, "true"));
        }

        emit_close(&json);
        r = emit_status(&json);
        if (r == 0 && kept == 0)
                buf_clear(out);

        return r;
}

int home_filter_lines(struct str text, struct buf *out) {
        struct str line;
        int r = 0;

        while (r == 0 && str_split(&text, '\n', &line)) {
                line = trim_line(line);
                if (line.n > 0 && is_printable(line))
                        r = buf_printf(out, "%.*s\n", STR_FMT(line));
        }

        return r;
}
