/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a word of such a command leads. A place is safe when no step on the way to it (a directory, a link, the end of
 * a link) may be written inside. Of a script the first line counts, too.
 *
 * A pattern means what it matches in directories that the sandbox cannot write; one that it can write is refused as
 * soon as the pattern leads there, whatever is in it now.
 */
#include "policy/tools/own_places.h"

#include "base/bounds.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/paths/path.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINKS_MAX = 40, MATCHES_MAX = 4096 };

static const char *environment_value(const struct own_check *check, struct str name) {
        for (char *const *v = check->environment; v && *v; v++)
                if (strncmp(*v, name.p, name.n) == 0 && (*v)[name.n] == '=')
                        return *v + name.n + 1;
        return NULL;
}

/* Those that the command gives it, then that of the environment: an assignment may hold for one command only. */
const char *own_value(const struct own_check *check, struct str name, size_t *at) {
        const char *outside = environment_value(check, name);
        bool is_set = false, changes = str_is(name, "PWD") || str_is(name, "OLDPWD");

        for (size_t i = 0; i < check->n_set; i++) {
                if (!str_is(name, check->set[i].name))
                        continue;
                is_set = true;
                if (i >= *at) {
                        *at = i + 1;
                        return check->set[i].value;
                }
        }

        if (*at <= OWN_SET_MAX && (outside || is_set)) {
                *at = OWN_SET_MAX + 1;
                return text_or(outside, "");
        }
        if (*at <= OWN_SET_MAX + 1 && changes) {
                *at = OWN_SET_MAX + 2;
                return OWN_UNKNOWN_TEXT;
        }

        return NULL;
}

int own_no_memory(const struct own_check *check) {
        return err_set(check->err, ENOMEM, "%s: not enough memory to check it", check->what);
}

static bool is_open(const struct own_check *check, const char *path) {
        return path_rules_host_access(check->rules, path, NULL) == PATH_WRITE;
}

/* The target of the link at `path`, absolute; false: it is none. */
static bool link_target(const char *path, char ret[static PATH_MAX]) {
        char target[PATH_MAX];
        ssize_t n = readlink(path, target, sizeof target - 1);
        if (n <= 0)
                return false;

        target[n] = '\0';

        const char *slash = strrchr(path, '/');
        cleanup(free_ptr) char *directory = str_dup(str_n(path, slash == path ? 1 : (size_t)(slash - path)));
        cleanup(free_ptr) char *whole = NULL;
        if (!directory || path_normalise(str_of(target), directory, &whole) < 0 || strlen(whole) >= PATH_MAX)
                return false;

        memcpy(ret, whole, strlen(whole) + 1);
        return true;
}

/* Whether a step on the way to this normalised path may be written inside. Each link is followed by hand: one in the
 * middle can be turned elsewhere, though its end is safe. */
static bool leads_into_open(const struct own_check *check, const char *path, unsigned links) {
        char step[PATH_MAX], target[PATH_MAX];
        size_t n = strlen(path);

        if (is_open(check, path))
                return true;
        if (n >= PATH_MAX || links == LINKS_MAX)
                return links == LINKS_MAX;

        for (size_t at = 1; at <= n; at++) {
                if (path[at] != '/' && path[at] != '\0')
                        continue;

                memcpy(step, path, at);
                step[at] = '\0';
                if (!link_target(step, target))
                        continue;

                cleanup(free_ptr) char *rest = str_format("%s%s", target, path + at);
                cleanup(free_ptr) char *whole = NULL;
                if (!rest || path_normalise(str_of(rest), "/", &whole) < 0)
                        return true;

                return leads_into_open(check, whole, links + 1);
        }

        return false;
}

/* The word with what is unknown in it as a pattern. */
static char *unknown_as_pattern(struct str word) {
        char *text = str_dup(word);

        for (size_t i = 0; text && text[i]; i++)
                if (text[i] == OWN_UNKNOWN)
                        text[i] = '*';

        return text;
}

static int refuse_unknown(const struct own_check *check, struct str word) {
        cleanup(free_ptr) char *text = unknown_as_pattern(word);

        return err_set(
            check->err, EINVAL,
            "%s runs outside the sandbox, and where '%.200s' in its command leads is known only when it runs. "
            "Write the path out, or put the command into a script that the sandbox may not write",
            check->what, text_or(text, "a word"));
}

static int refuse_place(const struct own_check *check, struct str word, const char *path) {
        cleanup(free_ptr) char *text = unknown_as_pattern(word), *place = unknown_as_pattern(str_of(path));

        return err_set(check->err, EINVAL,
                       "%s runs outside the sandbox, and '%.200s' in its command is (or leads through) a place that "
                       "the sandbox may write: %s. Put it where nothing inside can change it, or deny writing there",
                       check->what, text_or(text, "a word"), text_or(place, path));
}

/* Of a script: what its first line names. */
static int check_interpreter(const struct own_check *check, struct str word, const char *path) {
        char line[256];
        struct stat st;
        cleanup(close_fd) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
                return 0;

        ssize_t n = read(fd, line, sizeof line);
        if (n < 3 || line[0] != '#' || line[1] != '!')
                return 0;

        struct str rest = str_n(line + 2, (size_t)n - 2), first, name;
        (void)str_split(&rest, '\n', &first);

        while (str_split(&first, ' ', &name)) {
                cleanup(free_ptr) char *whole = NULL;
                if (name.n == 0 || name.p[0] != '/' || path_normalise(name, "/", &whole) < 0)
                        continue;
                if (leads_into_open(check, whole, 0))
                        return refuse_place(check, word, whole);
        }

        return 0;
}

static int add_base(struct own_check *check, const char *path) {
        struct stat st;

        if (!check->goes || stat(path, &st) < 0 || !S_ISDIR(st.st_mode))
                return 0;

        for (size_t i = 0; i < check->n_bases; i++)
                if (strcmp(check->bases[i], path) == 0)
                        return 0;

        if (check->n_bases == OWN_BASES_MAX)
                return err_set(check->err, E2BIG,
                               "%s changes its directory and names more than %d directories, so where its relative "
                               "paths lead cannot be checked: put it into a script outside of the workspace",
                               check->what, OWN_BASES_MAX);

        check->bases[check->n_bases] = strdup(path);
        if (!check->bases[check->n_bases])
                return own_no_memory(check);

        check->n_bases++;
        return 0;
}

static int check_path(struct own_check *check, struct str word, const char *path) {
        if (leads_into_open(check, path, 0))
                return refuse_place(check, word, path);

        int r = add_base(check, path);
        if (r < 0)
                return r;

        return check_interpreter(check, word, path);
}

static int check_pattern(struct own_check *check, struct str word, const char *path, size_t known);

/* One name that a part of a pattern matches; `rest` begins behind that part. */
static int check_match(struct own_check *check, struct str word, const char *directory, const char *name,
                       const char *rest) {
        const char *before = strcmp(directory, "/") == 0 ? "" : directory;
        const char *slash = name[0] ? "/" : "";
        cleanup(free_ptr) char *begin = str_format("%s%s%s", before, slash, name);
        cleanup(free_ptr) char *path = begin ? str_format("%s%s", begin, rest) : NULL;

        if (!path)
                return own_no_memory(check);
        if (++check->matches > MATCHES_MAX)
                return err_set(check->err, E2BIG,
                               "%s runs outside the sandbox, and the patterns in its command match more than %d names, "
                               "so where they lead cannot be checked: write the path out",
                               check->what, MATCHES_MAX);

        return check_pattern(check, word, path, strlen(begin));
}

/* Every place that the normalised path may mean. Its first `known` bytes are no pattern. */
static int check_pattern(struct own_check *check, struct str word, const char *path, size_t known) {
        const char *star = strpbrk(path + known, "*?[" OWN_UNKNOWN_TEXT), *part = star;
        if (!star)
                return check_path(check, word, path);

        while (part[-1] != '/')
                part--;

        const char *rest = star + strcspn(star, "/");
        cleanup(free_ptr) char *directory = str_dup(str_n(path, part - path > 1 ? (size_t)(part - path) - 1 : 1));
        struct str name = str_n(part, (size_t)(rest - part));
        cleanup(free_ptr) char *pattern = unknown_as_pattern(name);
        int flags = str_find(name, OWN_UNKNOWN) < 0 ? FNM_PERIOD : 0;
        if (!directory || !pattern)
                return own_no_memory(check);
        if (leads_into_open(check, directory, 0))
                return refuse_place(check, word, directory);

        int r = 0;
        if (str_is(name, OWN_UNKNOWN_TEXT) && rest[0] == '/') /* it may be empty */
                r = check_match(check, word, directory, "", rest);

        DIR *names = opendir(directory);

        for (struct dirent *entry; names && r == 0 && (entry = readdir(names));) {
                bool itself = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
                if (!itself && fnmatch(pattern, entry->d_name, flags) == 0)
                        r = check_match(check, word, directory, entry->d_name, rest);
        }

        if (names)
                closedir(names);

        return r < 0 ? r : check_path(check, word, path); /* without a match it is a name */
}

/* Where a command goes elsewhere (`cd && ws/tools/x`), a relative name begins at the root, at the home, or at a
 * directory that was named. It may name the next such directory: cd /srv; cd a. */
static int check_from_bases(struct own_check *check, struct str word) {
        size_t n = check->n_bases;

        if (!check->goes || str_starts(word, STR("/")))
                return 0;

        for (size_t i = 0; i <= n + 1; i++) {
                const char *base = i < n ? check->bases[i] : check->home;
                cleanup(free_ptr) char *whole = NULL;

                if (i == n + 1)
                        base = "/";
                if (!base || path_normalise(word, base, &whole) < 0)
                        continue;

                int r = check_pattern(check, word, whole, 0);
                if (r < 0)
                        return r;
        }

        return 0;
}

/* A name without a slash: where the shell looks for it, a directory that is open must not come first. */
static int check_name_in(struct own_check *check, struct str word, struct str path) {
        cleanup(free_ptr) char *open_one = NULL;
        struct str directory;
        int r = 0;

        while (str_split(&path, ':', &directory)) {
                if (directory.n > 0 && directory.p[0] == OWN_UNKNOWN)
                        return refuse_unknown(check, directory);
                if (directory.n == 0 || directory.p[0] != '/')
                        continue; /* in "/", where the command runs */

                cleanup(free_ptr) char *text = str_format("%.*s/%.*s", STR_FMT(directory), STR_FMT(word));
                cleanup(free_ptr) char *whole = NULL;
                if (!text || path_normalise(str_of(text), "/", &whole) < 0)
                        continue;

                if (str_find(directory, OWN_UNKNOWN) >= 0)
                        r = check_pattern(check, word, whole, 0);
                if (r < 0)
                        return r;

                bool is_program = access(whole, X_OK) == 0;
                if (!open_one && leads_into_open(check, whole, 0))
                        open_one = str_dup(str_of(whole));
                if (is_program) {
                        if (open_one)
                                return refuse_place(check, word, open_one);
                        return check_interpreter(check, word, whole);
                }
        }

        return 0;
}

static int check_name(struct own_check *check, struct str word) {
        size_t at = 0;
        int r = 0;

        for (const char *path; r == 0 && (path = own_value(check, STR("PATH"), &at));)
                r = check_name_in(check, word, str_of(path));

        return r;
}

/* cd, and what makes other programs go elsewhere: -C DIR, -CDIR, --chdir DIR, --chdir=DIR, os.chdir(). */
static bool is_going(struct str word) {
        static const char *const begins[] = { "-C", "--chdir", "--directory", "--working-directory", "--cwd" };

        for (size_t i = 0; i < sizeof begins / sizeof begins[0]; i++)
                if (str_starts(word, str_of(begins[i])))
                        return true;

        return str_is(word, "cd") || str_is(word, "pushd") || str_ends(word, STR("chdir")) || str_is(word, "-execdir");
}

static int check_name_or_base(struct own_check *check, struct str word) {
        int r = check_from_bases(check, word);
        if (r < 0)
                return r;

        return check_name(check, word);
}

static int check_known(struct own_check *check, struct str word) {
        cleanup(free_ptr) char *text = NULL, *whole = NULL;

        if (str_starts(word, STR("./")) || str_starts(word, STR("../")))
                return err_set(check->err, EINVAL,
                               "%s runs in \"/\", not in the workspace: write '%.*s' as a whole path, in a place that "
                               "the sandbox cannot write",
                               check->what, (int)min_of(word.n, 200), word.p);

        if (path_expand_home(word, check->home, &text) < 0) {
                bool of_another = str_starts(word, STR("~")) && str_find(word, '/') >= 0;
                return of_another ? refuse_unknown(check, word) : 0;
        }

        if (str_find(str_of(text), '/') < 0)
                return check_name_or_base(check, word);
        if (path_normalise(str_of(text), "/", &whole) < 0)
                return 0;

        int r = check_from_bases(check, str_of(text));
        if (r < 0)
                return r;

        return check_pattern(check, word, whole, 0);
}

static int check_place(struct own_check *check, struct str word) {
        if (word.p[0] != OWN_UNKNOWN)
                return check_known(check, word);
        if (check->only_text || str_find(word, '/') < 0)
                return 0; /* a value, or a name that cannot be looked up */

        return refuse_unknown(check, word);
}

/* A value without a slash is no program, but may be a directory: -Ctools. */
static int check_value(struct own_check *check, struct str value) {
        if (value.n == 0)
                return 0;
        if (check->goes_next && value.p[0] == OWN_UNKNOWN)
                return refuse_unknown(check, value);
        if (str_find(value, '/') < 0 && value.p[0] != '~')
                return check_from_bases(check, value);

        return check_place(check, value);
}

/* What stands behind the '=' of an option, or behind its letter: --chdir=/opt, -I/opt/lib, -Ilib/x. Where the letters
 * end is not known (-isystem/opt), so a whole path inside is one that the option may mean, too. */
static int check_option(struct own_check *check, struct str option) {
        ptrdiff_t equals = str_find(option, '='), slash = str_find(option, '/');
        if (equals > 0)
                return check_value(check, str_skip(option, (size_t)equals + 1));
        if (option.n <= 2 || option.p[1] == '-')
                return 0;

        int r = check_value(check, str_skip(option, 2));
        if (r < 0 || slash <= 2 || option.p[slash - 1] == '.') /* -I../x was looked at as it stands */
                return r;

        return check_place(check, str_skip(option, (size_t)slash));
}

int own_check_word(struct own_check *check, struct str word) {
        bool option = word.n > 1 && word.p[0] == '-', target = check->goes_next;

        if (word.n == 0)
                return 0;
        if (target && word.p[0] == OWN_UNKNOWN)
                return refuse_unknown(check, word);

        check->goes_next = is_going(word) || (option && target); /* cd -P x */
        check->goes = check->goes || is_going(word);
        if (option)
                return check_option(check, word);

        return check_place(check, word);
}
