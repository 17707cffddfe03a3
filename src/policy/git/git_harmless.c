/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/git/git_harmless.h"

enum { VALUE_MAX = 512 };

enum value_kind {
        VALUE_CHOICE, /* one of a few words */
        VALUE_TEXT,   /* a name, shown to people */
        VALUE_URL,    /* of a server: no path of this host, no program */
        VALUE_REFS,   /* refs/..., with a plus before it perhaps */
        VALUE_FETCH,  /* refs/..., to be kept among those of remotes */
        VALUE_REMOTE, /* the name of a remote, not its address */
        VALUE_BRANCH, /* the name of a branch */
        VALUE_TREE,   /* of a submodule: its working tree, upwards and down again */
};

static const struct known {
        const char *section, *key;
        bool named; /* the section has a name in quotes */
        enum value_kind kind;
        unsigned use;
        const char *values[4];
} table[] = {
        { "core", "repositoryformatversion", false, VALUE_CHOICE, GIT_NEW, { "0", "1" } },
        { "core", "filemode", false, VALUE_CHOICE, GIT_NEW, { "true", "false" } },
        { "core", "bare", false, VALUE_CHOICE, GIT_NEW, { "false" } },
        { "core", "logallrefupdates", false, VALUE_CHOICE, GIT_NEW, { "true", "false" } },
        { "core", "ignorecase", false, VALUE_CHOICE, GIT_NEW, { "true", "false" } },
        { "core", "precomposeunicode", false, VALUE_CHOICE, GIT_NEW, { "true", "false" } },
        { "core", "symlinks", false, VALUE_CHOICE, GIT_NEW, { "true", "false" } },
        { "core", "worktree", false, VALUE_TREE, GIT_MODULE, { NULL } },
        { "extensions", "objectformat", false, VALUE_CHOICE, GIT_NEW, { "sha1", "sha256" } },
        { "extensions", "refstorage", false, VALUE_CHOICE, GIT_NEW, { "files", "reftable" } },
        { "user", "name", false, VALUE_TEXT, GIT_NEW | GIT_CARRIED, { NULL } },
        { "user", "email", false, VALUE_TEXT, GIT_NEW | GIT_CARRIED, { NULL } },
        { "remote", "url", true, VALUE_URL, GIT_NEW | GIT_CARRIED, { NULL } },
        { "remote", "pushurl", true, VALUE_URL, GIT_NEW, { NULL } },
        { "remote", "fetch", true, VALUE_REFS, GIT_NEW, { NULL } },
        { "remote", "fetch", true, VALUE_FETCH, GIT_CARRIED, { NULL } },
        { "remote", "gh-resolved", true, VALUE_CHOICE, GIT_CARRIED, { "base" } },
        { "branch", "remote", true, VALUE_REMOTE, GIT_NEW | GIT_CARRIED, { NULL } },
        { "branch", "pushremote", true, VALUE_REMOTE, GIT_NEW | GIT_CARRIED, { NULL } },
        { "branch", "merge", true, VALUE_REFS, GIT_NEW | GIT_CARRIED, { NULL } },
        { "branch", "rebase", true, VALUE_CHOICE, GIT_CARRIED, { "true", "false", "merges" } },
        { "branch", "description", true, VALUE_TEXT, GIT_CARRIED, { NULL } },
        { "branch", "vscode-merge-base", true, VALUE_BRANCH, GIT_CARRIED, { NULL } },
        { "branch", "gh-merge-base", true, VALUE_BRANCH, GIT_CARRIED, { NULL } },
        { "submodule", "url", true, VALUE_URL, GIT_NEW | GIT_CARRIED, { NULL } },
        { "submodule", "active", true, VALUE_CHOICE, GIT_NEW | GIT_CARRIED, { "true", "false" } },
        { "submodule", "update", true, VALUE_CHOICE, GIT_CARRIED, { "checkout", "rebase", "merge", "none" } },
        { "pull", "rebase", false, VALUE_CHOICE, GIT_CARRIED, { "true", "false", "merges" } },
        { "pull", "ff", false, VALUE_CHOICE, GIT_CARRIED, { "true", "false", "only" } },
        { "push", "default", false, VALUE_CHOICE, GIT_CARRIED, { "simple", "current", "upstream", "nothing" } },
        { "push", "autosetupremote", false, VALUE_CHOICE, GIT_CARRIED, { "true", "false" } },
        { "fetch", "prune", false, VALUE_CHOICE, GIT_CARRIED, { "true", "false" } },
        { "lfs", "repositoryformatversion", false, VALUE_CHOICE, GIT_CARRIED, { "0" } },
        { "lfs", "locksverify", true, VALUE_CHOICE, GIT_CARRIED, { "true", "false" } },
};
enum { KNOWN = sizeof table / sizeof *table };

/* Text that needs no quotes and continues on no other line. */
static bool is_plain(struct str value) {
        for (size_t i = 0; i < value.n; i++)
                if ((unsigned char)value.p[i] < ' ' || value.p[i] == 0x7f || strchr("\"\\#;", value.p[i]))
                        return false;
        return value.n > 0 && value.n <= VALUE_MAX && value.p[0] != ' ' && value.p[value.n - 1] != ' ';
}

/* Letters, digits and these. */
static bool is_made_of(struct str value, const char *others) {
        for (size_t i = 0; i < value.n; i++) {
                char c = value.p[i];
                if (!ascii_is_alnum(c) && (c == '\0' || !strchr(others, c)))
                        return false;
        }
        return value.n > 0 && value.p[0] != '-';
}

/* --- addresses --- */

static bool split_port(struct str *host, uint16_t *port) {
        ptrdiff_t colon = str_find(*host, ':');
        uint64_t number;

        if (colon < 0)
                return true;
        if (!str_to_u64(str_skip(*host, (size_t)colon + 1), UINT16_MAX, &number) || number == 0)
                return false;

        *port = (uint16_t)number;
        *host = str_first(*host, (size_t)colon);

        return true;
}

/* A name before the host is a person's only with ssh; in other addresses it may be a token. */
static bool split_user(struct str *host, bool permitted) {
        ptrdiff_t at = str_find(*host, '@');

        if (at < 0)
                return true;
        if (!permitted || !is_made_of(str_first(*host, (size_t)at), "-._"))
                return false;

        *host = str_skip(*host, (size_t)at + 1);
        return true;
}

/* user@host:path */
static bool is_scp_address(struct str value, struct str *ret_host) {
        ptrdiff_t colon = str_find(value, ':');

        if (colon <= 0 || str_find(str_first(value, (size_t)colon), '@') < 0)
                return false;
        *ret_host = str_first(value, (size_t)colon);
        return split_user(ret_host, true) && is_made_of(*ret_host, "-.") &&
               is_made_of(str_skip(value, (size_t)colon + 1), "-._~/+");
}

bool git_harmless_address(struct str value, struct str *ret_host, uint16_t *ret_port) {
        static const struct {
                const char *text;
                uint16_t port;
        } schemes[] = { { "https://", 443 }, { "http://", 80 }, { "ssh://", 22 }, { "git://", 9418 } };

        for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
                struct str scheme = str_of(schemes[i].text), rest = str_skip(value, scheme.n);
                ptrdiff_t slash = str_find(rest, '/');

                if (!str_starts(value, scheme))
                        continue;
                if (slash <= 0)
                        return false;

                *ret_host = str_first(rest, (size_t)slash);
                *ret_port = schemes[i].port;
                return split_user(ret_host, schemes[i].port == 22) && split_port(ret_host, ret_port) &&
                       is_made_of(*ret_host, "-.") && is_made_of(str_skip(rest, (size_t)slash), "-._~/+@,=");
        }

        *ret_port = 22;
        return is_scp_address(value, ret_host);
}

/* --- other values --- */

static bool has_dots(struct str value) {
        for (size_t i = 0; i + 1 < value.n; i++)
                if (value.p[i] == '.' && value.p[i + 1] == '.')
                        return true;
        return false;
}

static bool is_tree(struct str value) {
        bool up = false;

        while (str_starts(value, STR("../"))) {
                value = str_skip(value, 3);
                up = true;
        }
        return up && !has_dots(value) && is_made_of(value, "-._/ ") && value.p[0] != '/';
}

static bool is_refs(struct str value) {
        if (str_starts(value, STR("+")))
                value = str_skip(value, 1);
        return str_starts(value, STR("refs/")) && is_made_of(value, "-._/*:+@");
}

/* What is fetched must not overwrite branches of one's own. */
static bool is_fetch(struct str value) {
        ptrdiff_t colon = str_find(value, ':');
        struct str to = colon < 0 ? STR("refs/remotes/") : str_skip(value, (size_t)colon + 1);

        return is_refs(value) && (str_starts(to, STR("refs/remotes/")) || str_starts(to, STR("refs/tags/")));
}

static bool is_choice(const struct known *known, struct str value) {
        for (size_t i = 0; i < sizeof known->values / sizeof *known->values && known->values[i]; i++)
                if (str_is(value, known->values[i]))
                        return true;
        return false;
}

static bool is_harmless_value(const struct known *known, struct str value) {
        struct str host;
        uint16_t port;

        if (!is_plain(value))
                return false;

        switch (known->kind) {
        case VALUE_CHOICE:
                return is_choice(known, value);
        case VALUE_URL:
                return git_harmless_address(value, &host, &port);
        case VALUE_REFS:
                return is_refs(value);
        case VALUE_FETCH:
                return is_fetch(value);
        case VALUE_REMOTE:
                return is_made_of(value, "-._");
        case VALUE_BRANCH:
                return is_made_of(value, "-._/") && !has_dots(value);
        case VALUE_TREE:
                return is_tree(value);
        case VALUE_TEXT:
                return true;
        }

        return false;
}

static const struct known *find_known(const struct gitconfig_setting *given, unsigned use) {
        for (size_t i = 0; i < KNOWN; i++) {
                const struct known *known = &table[i];

                if ((known->use & use) && known->named == (given->subsection.p != NULL) &&
                    git_setting_is(given, known->section, known->key))
                        return known;
        }

        return NULL;
}

bool git_setting_is(const struct gitconfig_setting *setting, const char *section, const char *key) {
        return str_is(setting->section, section) && str_is(setting->key, key);
}

bool git_harmless_key(const struct gitconfig_setting *setting, unsigned use) {
        const struct known *known = find_known(setting, use);

        return known && (!known->named || is_plain(setting->subsection));
}

bool git_harmless(const struct gitconfig_setting *setting, unsigned use) {
        const struct known *known = find_known(setting, use);

        return known && (!known->named || is_plain(setting->subsection)) && is_harmless_value(known, setting->value);
}
