/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A repository that the sandbox made where there was none. It should be of use afterwards, but git obeys its
 * configuration and runs its hooks, outside as well. So the configuration is not judged and kept, it is written anew:
 * from the few settings that `git init`, `git clone` and `git remote` make and that say nothing but what they seem to
 * say. Whatever else stands in it, or is not understood at once, is left out. Git reads what is written here, not what
 * was parsed here: how it would have understood the original does not matter.
 */
#include "sandbox/linux/guard.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "policy/gitconfig.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CONFIG_MAX = 4 << 20, VALUE_MAX = 512 };

enum value_kind {
        VALUE_CHOICE, /* one of a few words */
        VALUE_TEXT,   /* a name, shown to people */
        VALUE_URL,    /* of a server: no path of this host, no program */
        VALUE_REFS,   /* refs/..., with a plus before it perhaps */
        VALUE_REMOTE, /* the name of a remote, not its address */
        VALUE_TREE,   /* of a submodule: its working tree, upwards and down again */
};

static const struct setting {
        const char *section, *key;
        bool named; /* the section has a name in quotes */
        enum value_kind kind;
        const char *values[3];
} settings[] = {
        { "core", "repositoryformatversion", false, VALUE_CHOICE, { "0", "1" } },
        { "core", "filemode", false, VALUE_CHOICE, { "true", "false" } },
        { "core", "bare", false, VALUE_CHOICE, { "false" } },
        { "core", "logallrefupdates", false, VALUE_CHOICE, { "true", "false" } },
        { "core", "ignorecase", false, VALUE_CHOICE, { "true", "false" } },
        { "core", "precomposeunicode", false, VALUE_CHOICE, { "true", "false" } },
        { "core", "symlinks", false, VALUE_CHOICE, { "true", "false" } },
        { "core", "worktree", false, VALUE_TREE, { NULL } },
        { "extensions", "objectformat", false, VALUE_CHOICE, { "sha1", "sha256" } },
        { "extensions", "refstorage", false, VALUE_CHOICE, { "files", "reftable" } },
        { "user", "name", false, VALUE_TEXT, { NULL } },
        { "user", "email", false, VALUE_TEXT, { NULL } },
        { "remote", "url", true, VALUE_URL, { NULL } },
        { "remote", "pushurl", true, VALUE_URL, { NULL } },
        { "remote", "fetch", true, VALUE_REFS, { NULL } },
        { "branch", "remote", true, VALUE_REMOTE, { NULL } },
        { "branch", "pushremote", true, VALUE_REMOTE, { NULL } },
        { "branch", "merge", true, VALUE_REFS, { NULL } },
        { "submodule", "url", true, VALUE_URL, { NULL } },
        { "submodule", "active", true, VALUE_CHOICE, { "true", "false" } },
};
enum { SETTINGS = sizeof settings / sizeof *settings };

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
                bool usual = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
                if (!usual && (c == '\0' || !strchr(others, c)))
                        return false;
        }
        return value.n > 0 && value.p[0] != '-';
}

/* https://host/path, or user@host:path. */
static bool is_address(struct str value) {
        static const char *const schemes[] = { "https://", "http://", "ssh://", "git://" };
        ptrdiff_t at = str_find(value, '@'), colon = str_find(value, ':');

        for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
                struct str scheme = str_of(schemes[i]);
                if (str_starts(value, scheme))
                        return is_made_of(str_skip(value, scheme.n), "-._~/:@%+[],=&?!");
        }
        if (at <= 0 || colon <= at)
                return false;
        struct str user = str_first(value, (size_t)at), host = str_n(value.p + at + 1, (size_t)(colon - at - 1));
        return is_made_of(user, "-._") && is_made_of(host, "-.") &&
               is_made_of(str_skip(value, (size_t)colon + 1), "-._~/%+");
}

static bool is_tree(struct str value) {
        bool up = false;

        while (str_starts(value, STR("../"))) {
                value = str_skip(value, 3);
                up = true;
        }
        for (size_t i = 0; i + 1 < value.n; i++)
                if (value.p[i] == '.' && value.p[i + 1] == '.')
                        return false;
        return up && is_made_of(value, "-._/ ") && value.p[0] != '/';
}

static bool is_choice(const struct setting *s, struct str value) {
        for (size_t i = 0; i < sizeof s->values / sizeof *s->values && s->values[i]; i++)
                if (str_is(value, s->values[i]))
                        return true;
        return false;
}

static bool is_harmless(const struct setting *s, struct str value, bool module) {
        if (!is_plain(value))
                return false;
        switch (s->kind) {
        case VALUE_CHOICE:
                return is_choice(s, value);
        case VALUE_URL:
                return is_address(value);
        case VALUE_REFS:
                if (str_starts(value, STR("+")))
                        value = str_skip(value, 1);
                return str_starts(value, STR("refs/")) && is_made_of(value, "-._/*:+");
        case VALUE_REMOTE:
                return is_made_of(value, "-._");
        case VALUE_TREE:
                return module && is_tree(value);
        default:
                return true;
        }
}

static const struct setting *find_setting(const struct gitconfig_setting *given) {
        for (size_t i = 0; i < SETTINGS; i++)
                if (str_is(given->section, settings[i].section) && str_is(given->key, settings[i].key) &&
                    (given->subsection.p != NULL) == settings[i].named)
                        return &settings[i];
        return NULL;
}

struct filtering {
        struct buf *out;
        bool module, more;
};

static int filter_setting(const struct gitconfig_setting *given, void *context) {
        struct filtering *f = context;
        const struct setting *s = find_setting(given);

        if (!s || !is_harmless(s, given->value, f->module) || (s->named && !is_plain(given->subsection))) {
                f->more = true;
                return 0;
        }
        if (s->named)
                return buf_printf(f->out, "[%s \"%.*s\"]\n\t%s = %.*s\n", s->section, STR_FMT(given->subsection),
                                  s->key, STR_FMT(given->value));
        return buf_printf(f->out, "[%s]\n\t%s = %.*s\n", s->section, s->key, STR_FMT(given->value));
}

int guard_git_filter(int dir, const char *name, bool module, struct buf *ret_harmless, bool *ret_more) {
        cleanup(buf_done) struct buf text = BUF(CONFIG_MAX);
        cleanup(close_fd) int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        struct filtering filtering = { .out = ret_harmless, .module = module };
        struct stat st;

        if (fd < 0)
                return -errno;
        if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_nlink != 1)
                return -EINVAL;

        int r = fd_read_all(fd, &text);
        if (r == 0)
                r = gitconfig_read(buf_str(&text), filter_setting, &filtering, NULL);
        *ret_more = filtering.more || r == -EBADMSG;
        return r == -EBADMSG ? 0 : r;
}

int guard_git_write(int dir, const char *name, const struct buf *harmless) {
        cleanup(close_fd) int fd = openat(dir, name, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

        if (fd < 0 || ftruncate(fd, 0) < 0) /* should this end here: an empty configuration is harmless, too */
                return -errno;
        return fd_write_all(fd, harmless->p, harmless->n);
}

bool guard_only_samples(int dir, const char *name) {
        cleanup(close_fd) int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
        if (!d)
                return false;
        fd = -1;
        bool only = true;
        for (struct dirent *entry; only && (entry = readdir(d));) {
                struct str file = str_of(entry->d_name);
                only = str_is(file, ".") || str_is(file, "..") || str_ends(file, STR(".sample"));
        }
        closedir(d);
        return only;
}
