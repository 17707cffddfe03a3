/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A repository that the sandbox made where there was none. It should be of use afterwards, but git obeys its
 * configuration and runs its hooks, outside as well. So the configuration is not judged and kept, it is written anew:
 * from the few settings that `git init` makes and that say nothing but what they seem to say. Whatever else stands in
 * it, or is not understood at once, is left out. Git reads what is written here, not what was parsed here: how it would
 * have understood the original does not matter.
 */
#include "sandbox/linux/guard.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CONFIG_MAX = 65536, VALUE_MAX = 256 };

static const struct setting {
        const char *section, *key;
        const char *values[3]; /* none: a name, see is_plain() */
} settings[] = {
        { "core", "repositoryformatversion", { "0", "1" } },
        { "core", "filemode", { "true", "false" } },
        { "core", "bare", { "false" } },
        { "core", "logallrefupdates", { "true", "false" } },
        { "core", "ignorecase", { "true", "false" } },
        { "core", "precomposeunicode", { "true", "false" } },
        { "core", "symlinks", { "true", "false" } },
        { "extensions", "objectformat", { "sha1", "sha256" } },
        { "extensions", "refstorage", { "files", "reftable" } },
        { "user", "name", { NULL } },
        { "user", "email", { NULL } },
};
enum { SETTINGS = sizeof settings / sizeof *settings };

/* Text that needs no quotes and continues on no other line. */
static bool is_plain(struct str value) {
        for (size_t i = 0; i < value.n; i++)
                if ((unsigned char)value.p[i] < ' ' || value.p[i] == 0x7f || strchr("\"\\#;", value.p[i]))
                        return false;
        return value.n > 0 && value.n <= VALUE_MAX;
}

static bool is_harmless(const struct setting *s, struct str value) {
        if (!s->values[0])
                return is_plain(value);
        for (size_t i = 0; s->values[i]; i++)
                if (str_is(value, s->values[i]))
                        return true;
        return false;
}

static const struct setting *find_setting(struct str section, struct str key) {
        for (size_t i = 0; i < SETTINGS; i++)
                if (str_eq_nocase(section, str_of(settings[i].section)) && str_eq_nocase(key, str_of(settings[i].key)))
                        return &settings[i];
        return NULL;
}

/* The harmless part of it; *ret_more says that there was more. */
static int filter(struct str text, struct buf *out, bool *ret_more) {
        struct str line, section = { 0 };
        const char *written = NULL; /* the section that the output is in */
        int r = 0;
        while (r == 0 && str_split(&text, '\n', &line)) {
                struct str key;
                line = str_trim(line);
                if (line.n == 0 || line.p[0] == '#' || line.p[0] == ';')
                        continue;
                if (line.p[0] == '[') {
                        bool whole = line.n > 2 && str_find(line, ']') == (ptrdiff_t)line.n - 1;
                        section = whole ? str_n(line.p + 1, line.n - 2) : (struct str){ 0 };
                        *ret_more |= !whole;
                        continue;
                }
                bool pair = str_find(line, '=') > 0 && str_split(&line, '=', &key);
                const struct setting *s = pair ? find_setting(section, str_trim(key)) : NULL;
                struct str value = str_trim(line);
                if (!s || !is_harmless(s, value)) {
                        *ret_more = true;
                        continue;
                }
                if (!written || strcmp(written, s->section) != 0)
                        r = buf_printf(out, "[%s]\n", s->section);
                written = s->section;
                if (r == 0)
                        r = buf_printf(out, "\t%s = %.*s\n", s->key, STR_FMT(value));
        }
        return r;
}

static int write_new(int dir, const char *name, struct str content) {
        cleanup(close_fd) int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
        return fd < 0 ? -errno : fd_write_all(fd, content.p, content.n);
}

int guard_git_config(int dir, const char *name) {
        cleanup(buf_done) struct buf text = BUF(CONFIG_MAX), harmless = BUF(2 * CONFIG_MAX);
        cleanup(close_fd) int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        struct stat st;
        bool more = false;
        if (fd < 0)
                return -errno;
        if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
                return -EINVAL;
        int r = fd_read_all(fd, &text);
        if (r == 0)
                r = filter(buf_str(&text), &harmless, &more);
        if (r < 0)
                return r;
        if (unlinkat(dir, name, 0) < 0)
                return -errno;
        r = harmless.n ? write_new(dir, name, buf_str(&harmless)) : 0;
        return r < 0 ? r : more;
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
