/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The paths that a git configuration names: directories of hooks, programs, included files. Conditions of includes are
 * ignored, and every value of a repeated setting counts: a path that git might obey under some condition stays closed.
 *
 * A file that is not understood, or is too large, is closed as it is; git takes nothing from a file that it does not
 * understand either.
 */
#include "sandbox/linux/survey/survey_git_internal.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/files/listing.h"
#include "base/paths/path.h"
#include "policy/git/gitconfig.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PASSWD_MAX = 4 << 20 };

/* Git looks for what a relative name means from the top of the working tree that it works in. So one file may name
 * something else in each tree. */
struct reading {
        struct git_survey *g;
        const char *file; /* that is read */
        const char *tree; /* where relative names of programs begin */
};

static int no_memory(const struct git_survey *survey) {
        return err_set(survey->err, ENOMEM, "out of memory");
}

/* Where the account says that its home is; the user's own may be known by its variable alone. */
static char *home_of(const struct git_survey *survey, struct str name) {
        cleanup(buf_done) struct buf accounts = BUF(PASSWD_MAX);
        struct str rest, line, field;

        (void)path_read_file("/etc/passwd", PASSWD_MAX, &accounts, NULL);
        rest = buf_str(&accounts);

        while (str_split(&rest, '\n', &line)) {
                if (!str_split(&line, ':', &field) || !str_eq(field, name))
                        continue;
                for (int i = 0; i < 5 && str_split(&line, ':', &field); i++)
                        ;
                return str_dup(field);
        }

        if (survey->policy->home && str_is(name, text_or(getenv("USER"), "")))
                return strdup(survey->policy->home);

        return NULL;
}

/* `~/x` and `~name/x`, as git reads them. NULL: there is no such home. */
static char *expand_home(const struct git_survey *survey, struct str name) {
        cleanup(free_ptr) char *home = NULL;
        char *expanded = NULL;
        ptrdiff_t slash = str_find(name, '/');
        size_t n = slash < 0 ? name.n : (size_t)slash;

        if (name.p[0] != '~' || n < 2)
                return path_expand_home(name, survey->policy->home, &expanded) < 0 ? NULL : expanded;

        home = home_of(survey, str_n(name.p + 1, n - 1));
        if (home)
                return str_format("%s%.*s", home, STR_FMT(str_skip(name, n)));

        return NULL;
}

/* `~/x`, an absolute path, or one that begins at `base`. NULL where it is none. */
static char *resolve_name(const struct git_survey *survey, struct str name, const char *base) {
        char *path = NULL;

        if (str_starts(name, STR(":(optional)")))
                name = str_skip(name, sizeof ":(optional)" - 1);
        if (name.n == 0 || name.n >= PATH_MAX || memchr(name.p, '\0', name.n))
                return NULL;

        cleanup(free_ptr) char *expanded = expand_home(survey, name);
        if (!expanded)
                return NULL;

        if (path_normalise(str_of(expanded), base, &path) < 0)
                return NULL;

        return path;
}

/* The same for names that begin at the tree. */
static char *resolve_in_tree(struct reading *reading, struct str name) {
        if (name.n && name.p[0] != '/' && name.p[0] != '~')
                reading->g->relative = true;
        return resolve_name(reading->g, name, reading->tree);
}

static bool is_root_or_above(const struct git_survey *survey, const char *path) {
        return path_is_within(survey->policy->workspace, path);
}

/* Files that a word of a command names. One that is `spelled` as a path is a program that is yet to come, if there is
 * none. */
static int add_file(struct reading *reading, struct str word, bool spelled) {
        struct git_survey *survey = reading->g;
        cleanup(free_ptr) char *path = resolve_in_tree(reading, word);
        struct stat st;

        if (!path || is_root_or_above(survey, path))
                return 0;

        bool there = stat(path, &st) == 0;
        if (!there)
                git_doubt(survey, errno, path);
        if (!there && !spelled)
                return 0;
        if (there && !S_ISREG(st.st_mode))
                return 0;

        return git_protect(survey, path, "built in: git's configuration names it as a program");
}

static int add_file_in(const struct reading *reading, const char *base, struct str word, bool spelled) {
        struct reading there = { reading->g, reading->file, base };

        if (base)
                return add_file(&there, word, spelled);

        return 0;
}

/* What comes before it in the command is known to a shell alone: `$PWD/x`, `${HOME}/x`, `"$(git rev-parse
 * --show-toplevel)"/x`. The rest of such a word; empty for others. */
static struct str rest_of_expansion(struct str command, struct str word) {
        size_t at = (size_t)(word.p - command.p);
        char before = at > 0 ? word.p[-1] : ' ';
        bool quoted = at > 1 && strchr("\"'", before);
        ptrdiff_t slash = str_find(word, '/');

        if (quoted)
                before = word.p[-2];
        if (slash < 0)
                return STR("");
        if (before == '$')
                return str_skip(word, (size_t)slash + 1);
        if (slash == 0 && (strchr(")}`", before) || (quoted && ascii_is_alnum(before))))
                return str_skip(word, 1);

        return STR("");
}

/* In the tree, in the home, and where the command has gone by then. */
static int add_word(struct reading *reading, struct str command, struct str word, const char *gone_to) {
        struct str rest = rest_of_expansion(command, word);
        bool spelled = str_find(word, '/') >= 0;
        int r = add_file(reading, word, spelled);

        if (r == 0)
                r = add_file_in(reading, gone_to, word, spelled);
        if (r == 0 && rest.n)
                r = add_file(reading, rest, true);
        if (r == 0 && rest.n)
                r = add_file_in(reading, reading->g->policy->home, rest, true);

        return r;
}

/* A name in quotes may have spaces in it. */
static int add_quoted(struct reading *reading, struct str command) {
        int r = 0;

        for (size_t i = 0; i < command.n && r == 0; i++) {
                if (command.p[i] != '"' && command.p[i] != '\'')
                        continue;

                struct str inside = str_skip(command, i + 1);
                ptrdiff_t end = str_find(inside, command.p[i]);
                if (end < 0)
                        break;

                inside = str_n(inside.p, (size_t)end);
                if (str_find(inside, ' ') >= 0)
                        r = add_file(reading, inside, false);
                i += (size_t)end + 1;
        }

        return r;
}

static int add_command(struct reading *reading, struct str command) {
        cleanup(free_ptr) char *gone_to = NULL;
        struct str word, rest = command;
        bool goes = false, has_gone = false;
        int r = add_quoted(reading, command);

        if (str_starts(rest, STR("ext::")))
                rest = str_skip(rest, 5);

        while (r == 0 && gitconfig_word(&rest, &word)) {
                struct str behind = has_gone ? rest_of_expansion(command, word) : STR("");

                r = add_word(reading, command, word, gone_to);
                if (goes || behind.n) { /* `cd x`, and `cd "$(git rev-parse --show-toplevel)/x"` */
                        free(gone_to);
                        gone_to = resolve_in_tree(reading, behind.n ? behind : word);
                }

                goes = str_is(word, "cd") || str_is(word, "pushd") || str_is(word, "-C");
                has_gone |= goes;
        }

        return r;
}

static int add_directory(struct reading *reading, struct str name) {
        struct git_survey *survey = reading->g;
        cleanup(free_ptr) char *path = resolve_in_tree(reading, name);
        int r;

        if (!path || is_root_or_above(survey, path))
                return 0;

        (void)git_first_time(survey, &survey->hooks, path);
        r = git_protect(survey, path, "built in: git's configuration names it as the place of hooks");
        if (r < 0)
                return r;

        return git_add_hooks(survey, path);
}

static int add_include(struct reading *reading, struct str name) {
        struct git_survey *survey = reading->g;
        cleanup(free_ptr) char *base = strdup(reading->file);
        char *slash = base ? strrchr(base, '/') : NULL;

        if (!slash)
                return no_memory(survey);

        slash[slash == base] = '\0';

        cleanup(free_ptr) char *path = resolve_name(survey, name, base);
        if (!path)
                return 0;

        int r = git_protect(survey, path, "built in: git's configuration includes it");
        if (r < 0)
                return r;

        return git_add_config(survey, path, reading->tree);
}

static int add_setting(const struct gitconfig_setting *setting, void *context) {
        struct reading *reading = context;

        switch (gitconfig_judge(setting)) {
        case GITCONFIG_INCLUDE:
                return add_include(reading, setting->value);
        case GITCONFIG_DIRECTORY:
                return add_directory(reading, setting->value);
        case GITCONFIG_COMMAND:
                return add_command(reading, setting->value);
        default:
                return 0;
        }
}

static int read_config(struct git_survey *survey, const char *file, const char *tree) {
        cleanup(buf_done) struct buf content = { 0 };
        struct reading reading = { survey, file, tree };
        struct err unread = { 0 };

        if (strcmp(file, "/dev/null") == 0)
                return 0; /* GIT_CONFIG_GLOBAL, of people who want none */

        if (survey->reads++ >= GIT_FILES_MAX) {
                survey->incomplete = true;
                return 0;
        }

        int r = path_read_file(file, GIT_FILE_SIZE_MAX, &content, &unread);
        if (r == -ENOENT || r == -ENOTDIR || r == -EACCES)
                return 0;
        if (r < 0 && survey_doubt(survey->err, -r, file) < 0)
                return r;

        if (r < 0) { /* not a file, or too large */
                survey->incomplete = true;
                return 0;
        }

        r = gitconfig_read(buf_str(&content), add_setting, &reading, &unread);
        if (r == -EBADMSG)
                return 0;

        return r;
}

static bool is_plain(const struct git_survey *survey, const char *file) {
        for (size_t i = 0; i < survey->plain.n; i++)
                if (strcmp(survey->plain.p[i], file) == 0)
                        return true;
        return false;
}

int git_add_config(struct git_survey *survey, const char *file, const char *tree) {
        cleanup(free_ptr) char *once = str_format("%s\n%s", file, tree);
        bool outer = survey->relative;
        int r;

        if (!once)
                return no_memory(survey);
        if (!git_first_time(survey, &survey->files, once)) {
                survey->relative = true; /* it may be: then whoever includes it is read for every tree */
                return 0;
        }

        if (is_plain(survey, file))
                return 0;

        survey->relative = false;
        r = read_config(survey, file, tree);
        if (r == 0 && !survey->relative)
                (void)git_first_time(survey, &survey->plain, file);

        survey->relative |= outer;
        return r;
}

/* GIT_CONFIG_KEY_1 and GIT_CONFIG_VALUE_1: one setting of the shell that Bailey was started in. */
static int add_variable(struct reading *reading, unsigned number) {
        char name[sizeof "GIT_CONFIG_VALUE_" + 10];

        snprintf(name, sizeof name, "GIT_CONFIG_KEY_%u", number);
        const char *key = getenv(name);
        snprintf(name, sizeof name, "GIT_CONFIG_VALUE_%u", number);

        const char *value = getenv(name);
        if (!key || !value)
                return 0;

        cleanup(free_ptr) char *small = strdup(key);
        if (!small)
                return no_memory(reading->g);

        for (char *c = small; *c; c++)
                *c = ascii_lower(*c);

        ptrdiff_t first = str_find(str_of(small), '.'), last = str_rfind(str_of(small), '.');
        if (first < 0)
                return 0;

        struct gitconfig_setting setting = { .section = str_n(small, (size_t)first),
                                             .key = str_of(small + last + 1),
                                             .value = str_of(value) };
        if (last > first)
                setting.subsection = str_n(key + first + 1, (size_t)(last - first - 1));

        return add_setting(&setting, reading);
}

/* Git there obeys them as well, as long as that shell lives. */
static int add_variables(struct git_survey *survey, const char *tree) {
        struct reading reading = { survey, "/", tree }; /* git includes only whole paths from here */
        const char *count = getenv("GIT_CONFIG_COUNT");
        uint64_t n;

        if (!count)
                return 0;

        if (!str_to_u64(str_of(count), GIT_VARIABLES_MAX, &n)) {
                survey->incomplete = true;
                return 0;
        }

        for (unsigned i = 0; i < n; i++) {
                int r = add_variable(&reading, i);
                if (r < 0)
                        return r;
        }

        return 0;
}

/* As git looks for them. */
int git_add_own_config(struct git_survey *survey, const char *tree) {
        const char *global = getenv("GIT_CONFIG_GLOBAL"), *shared = getenv("GIT_CONFIG_SYSTEM");
        const char *config = getenv("XDG_CONFIG_HOME"), *home = survey->policy->home;
        cleanup(free_ptr) char *in_home = home ? path_join(home, ".gitconfig") : NULL;
        cleanup(free_ptr) char *in_config = NULL;

        if (!git_first_time(survey, &survey->trees, tree))
                return 0;

        if (config && config[0] == '/')
                in_config = path_join(config, "git/config");
        else if (home)
                in_config = path_join(home, ".config/git/config");

        const char *files[] = { text_or(shared, "/etc/gitconfig"), in_home, in_config };
        if (global) {
                files[1] = global;
                files[2] = NULL;
        }

        for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
                if (!files[i] || files[i][0] != '/')
                        continue;

                int r = 0;

                if (survey->trees.n == 1)
                        r = git_protect(survey, files[i], git_why);

                if (r == 0)
                        r = git_add_config(survey, files[i], tree);
                if (r < 0)
                        return r;
        }

        return add_variables(survey, tree);
}

/* Hooks may be links: what they lead to is what runs. */
int git_add_hooks(struct git_survey *survey, const char *directory) {
        cleanup(close_fd) int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return survey_doubt(survey->err, errno, directory);

        cleanup(listing_close) struct listing *hooks = listing_take(take_fd(&fd));
        int r = 0;

        if (!hooks)
                r = no_memory(survey);

        for (const struct dirent64 *entry; r == 0 && (entry = listing_next(hooks));)
                if (entry->d_type == DT_LNK || entry->d_type == DT_UNKNOWN)
                        r = git_protect_in(survey, directory, entry->d_name, "built in: a hook of git leads to it");

        if (r == 0 && listing_error(hooks))
                r = survey_doubt(survey->err, listing_error(hooks), directory);

        return r;
}
