/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The author of the policy is trusted; files that the sandbox can write are not. So nothing needs to be proved about a
 * command: it is enough to find every path that it names in an ordinary way. The text is split wherever a shell could
 * split it, quotes are removed, and quoted text is split again (sh -c '...'). So this finds at least the words that a
 * shell would see. Variables have the values that the command will get.
 *
 * A place is safe when no step on the way to it (a directory, a link, the end of a link) may be written inside. Of a
 * script the first line counts, too.
 */
#include "policy/tools/own_commands.h"

#include "base/bounds.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/paths/path.h"
#include "policy/paths/paths.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DEPTH_MAX = 8, LINKS_MAX = 40, WORD_MAX = 65536, BASES_MAX = 8 };

struct check {
        const struct path_rules *rules;
        const char *home;
        char *const *environment;
        const char *what; /* "credential 'x'", for the message */
        struct err *err;
        bool goes;              /* the command changes its directory */
        char *bases[BASES_MAX]; /* directories that it names so far: it may have gone there */
        size_t n_bases;
};

static const char *variable_value(const struct check *check, struct str name) {
        for (char *const *v = check->environment; v && *v; v++)
                if (strncmp(*v, name.p, name.n) == 0 && (*v)[name.n] == '=')
                        return *v + name.n + 1;
        return "";
}

/* places */

static bool is_open(const struct check *check, const char *path) {
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
static bool leads_into_open(const struct check *check, const char *path, unsigned links) {
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

static int refuse_place(const struct check *check, struct str word, const char *path) {
        return err_set(check->err, EINVAL,
                       "%s runs outside the sandbox, and '%.*s' in its command is (or leads through) a place that "
                       "the sandbox may write: %s. Put it where nothing inside can change it, or deny writing there",
                       check->what, (int)min_of(word.n, 200), word.p, path);
}

/* Of a script: what its first line names. */
static int check_interpreter(const struct check *check, struct str word, const char *path) {
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

static int add_base(struct check *check, const char *path) {
        struct stat st;

        if (!check->goes || stat(path, &st) < 0 || !S_ISDIR(st.st_mode))
                return 0;

        for (size_t i = 0; i < check->n_bases; i++)
                if (strcmp(check->bases[i], path) == 0)
                        return 0;

        if (check->n_bases == BASES_MAX)
                return err_set(check->err, E2BIG,
                               "%s changes its directory and names more than %d directories, so where its relative "
                               "paths lead cannot be checked: put it into a script outside of the workspace",
                               check->what, BASES_MAX);

        check->bases[check->n_bases] = strdup(path);
        if (!check->bases[check->n_bases])
                return err_set(check->err, ENOMEM, "%s: not enough memory to check it", check->what);

        check->n_bases++;
        return 0;
}

/* Where a command goes elsewhere (`cd && ws/tools/x`), a relative name begins at the home, or at a directory that was
 * named. It may name the next such directory: cd /srv; cd a. */
static int check_from_bases(struct check *check, struct str word) {
        size_t n = check->n_bases;

        for (size_t i = 0; check->goes && i <= n; i++) {
                const char *base = i < n ? check->bases[i] : check->home;
                cleanup(free_ptr) char *whole = NULL;

                if (!base || str_starts(word, STR("/")) || path_normalise(word, base, &whole) < 0)
                        continue;
                if (leads_into_open(check, whole, 0))
                        return refuse_place(check, word, whole);

                int r = add_base(check, whole);
                if (r < 0)
                        return r;
        }

        return 0;
}

static int check_path(const struct check *check, struct str word, const char *path) {
        if (leads_into_open(check, path, 0))
                return refuse_place(check, word, path);
        return check_interpreter(check, word, path);
}

/* A name without a slash: where the shell looks for it, a directory that is open must not come first. */
static int check_name(const struct check *check, struct str word) {
        struct str path = str_of(variable_value(check, STR("PATH"))), directory;
        cleanup(free_ptr) char *open_one = NULL;

        while (str_split(&path, ':', &directory)) {
                if (directory.n == 0 || directory.p[0] != '/')
                        continue; /* in "/", where the command runs */

                cleanup(free_ptr) char *text = str_format("%.*s/%.*s", STR_FMT(directory), STR_FMT(word));
                cleanup(free_ptr) char *whole = NULL;
                if (!text || path_normalise(str_of(text), "/", &whole) < 0)
                        continue;

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

/* cd, and what makes other programs go elsewhere: -C DIR, -CDIR, --chdir DIR, --chdir=DIR, os.chdir(). */
static bool is_going(struct str word) {
        static const char *const begins[] = { "-C", "--chdir", "--directory", "--working-directory", "--cwd" };

        for (size_t i = 0; i < sizeof begins / sizeof begins[0]; i++)
                if (str_starts(word, str_of(begins[i])))
                        return true;

        return str_is(word, "cd") || str_is(word, "pushd") || str_ends(word, STR("chdir")) || str_is(word, "-execdir");
}

static int check_name_or_base(struct check *check, struct str word) {
        int r = check_from_bases(check, word);
        if (r < 0)
                return r;

        return check_name(check, word);
}

static int check_place(struct check *check, struct str word) {
        cleanup(free_ptr) char *text = NULL, *whole = NULL;

        if (str_starts(word, STR("./")) || str_starts(word, STR("../")))
                return err_set(check->err, EINVAL,
                               "%s runs in \"/\", not in the workspace: write '%.*s' as a whole path, in a place that "
                               "the sandbox cannot write",
                               check->what, (int)min_of(word.n, 200), word.p);

        if (path_expand_home(word, check->home, &text) < 0)
                return 0;
        if (str_find(str_of(text), '/') < 0)
                return check_name_or_base(check, word);
        if (path_normalise(str_of(text), "/", &whole) < 0)
                return 0;

        int r = check_from_bases(check, str_of(text));
        if (r < 0)
                return r;

        r = add_base(check, whole);
        if (r < 0)
                return r;

        return check_path(check, word, whole);
}

/* A value without a slash is no program, but may be a directory: -Ctools. */
static int check_value(struct check *check, struct str value) {
        if (value.n == 0)
                return 0;
        if (str_find(value, '/') < 0 && value.p[0] != '~')
                return check_from_bases(check, value);

        return check_place(check, value);
}

/* What stands behind the '=' of an option, or behind its letter: --chdir=/opt, -I/opt/lib, -Ilib/x. Where the letters
 * end is not known (-isystem/opt), so a whole path inside is one that the option may mean, too. */
static int check_option(struct check *check, struct str option) {
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

static int check_word(struct check *check, struct str word) {
        if (word.n == 0)
                return 0;

        check->goes = check->goes || is_going(word);
        if (word.n > 1 && word.p[0] == '-')
                return check_option(check, word);

        return check_place(check, word);
}

/* words */

static bool is_cut(char ch) {
        return ch != '\0' && strchr(" \t\n;&|<>()`{}=,:!", ch) != NULL;
}

static bool is_name_char(char ch) {
        return ascii_is_alnum(ch) || ch == '_';
}

/* "$NAME" or "${NAME...}": its value is appended. Returns how many bytes of the text that is; 1: only a dollar. */
static size_t add_variable(const struct check *check, struct str text, struct buf *word) {
        size_t at = text.n > 1 && text.p[1] == '{' ? 2 : 1, end = at;

        while (end < text.n && is_name_char(text.p[end]))
                end++;

        if (end == at)
                return 1;

        (void)buf_append(word, str_of(variable_value(check, str_n(text.p + at, end - at))));
        return at == 2 && end < text.n && text.p[end] == '}' ? end + 1 : end;
}

static int check_text(struct check *check, struct str text, unsigned depth);

/* A word is whole: it is looked at, and once more inside if a shell could cut it further. */
static int end_word(struct check *check, struct buf *word, unsigned depth) {
        bool again = false;
        int r = check_word(check, buf_str(word));

        for (size_t i = 0; i < word->n; i++)
                again = again || is_cut(word->p[i]) || strchr("'\"\\$", word->p[i]);

        if (r == 0 && again && depth < DEPTH_MAX)
                r = check_text(check, buf_str(word), depth + 1);

        buf_clear(word);
        return r;
}

static int check_text(struct check *check, struct str text, unsigned depth) {
        cleanup(buf_done) struct buf word = BUF(WORD_MAX);
        char quote = '\0';
        int r = 0;

        for (size_t i = 0; r == 0 && i < text.n; i++) {
                char ch = text.p[i];
                if (quote && ch == quote) {
                        quote = '\0';
                } else if (!quote && (ch == '\'' || ch == '"')) {
                        quote = ch;
                } else if (quote != '\'' && ch == '\\' && i + 1 < text.n) {
                        (void)buf_add_char(&word, text.p[++i]);
                } else if (quote != '\'' && ch == '$') {
                        i += add_variable(check, str_skip(text, i), &word) - 1;
                } else if (!quote && is_cut(ch)) {
                        r = end_word(check, &word, depth);
                } else {
                        (void)buf_add_char(&word, ch);
                }
        }

        if (r < 0)
                return r;

        return end_word(check, &word, depth);
}

static int check_command(struct check *check, const char *command) {
        if (strlen(command) >= WORD_MAX)
                return err_set(check->err, E2BIG, "%s: its command is too long", check->what);

        check->goes = false;
        int r = check_text(check, str_of(command), 0);
        while (check->n_bases > 0)
                free(check->bases[--check->n_bases]);

        return r;
}

static const char *command_of(const char *source) {
        return source && strncmp(source, "exec:", 5) == 0 ? source + 5 : NULL;
}

/* "NAME=exec:COMMAND" of a tool. */
static const char *tool_command_of(const struct origin_text *word) {
        const char *equals = strchr(word->text, '=');

        if (equals)
                return command_of(equals + 1);

        return NULL;
}

static bool has_commands(const struct policy *policy) {
        bool any = policy->approval.command != NULL;

        for (size_t i = 0; i < policy->credentials.n; i++)
                any = any || command_of(policy->credentials.p[i].source);
        for (size_t i = 0; i < policy->tool_credentials.n; i++)
                any = any || command_of(policy->tool_credentials.p[i].source);
        for (size_t i = 0; i < policy->bridge.n; i++)
                for (size_t k = 0; k < policy->bridge.p[i].credentials.n; k++)
                        any = any || tool_command_of(&policy->bridge.p[i].credentials.p[k]);

        return any;
}

static int check_credentials(struct check *check, const struct credential *list, size_t n) {
        int r = 0;

        for (size_t i = 0; r == 0 && i < n; i++) {
                const char *command = command_of(list[i].source), *name = list[i].name;
                cleanup(free_ptr) char *what =
                    str_format("the command of credential '%s'", name ? name : list[i].provider);

                if (!command)
                        continue;

                check->what = what ? what : "the command of a credential";
                r = check_command(check, command);
        }

        return r;
}

/* Commands of a tool's credentials run outside as well, and the tool's own sandbox cannot tell what another one writes.
 */
static int check_tools(struct check *check, const struct policy *policy) {
        int r = 0;

        for (size_t i = 0; i < policy->bridge.n; i++) {
                const struct bridge_tool *tool = &policy->bridge.p[i];

                for (size_t k = 0; r == 0 && k < tool->credentials.n; k++) {
                        const char *command = tool_command_of(&tool->credentials.p[k]);
                        cleanup(free_ptr) char *what = str_format("the command of a credential of the tool '%s' (%s)",
                                                                  tool->name, tool->credentials.p[k].origin);

                        if (!command)
                                continue;

                        check->what = what ? what : "the command of a tool's credential";
                        r = check_command(check, command);
                }
        }

        return r;
}

int own_commands_check(const struct policy *policy, char *const *environment, struct err *err) {
        cleanup(path_rules_freep) struct path_rules *rules = NULL;
        struct check check = { .home = policy->home, .environment = environment, .err = err };

        if (!has_commands(policy))
                return 0;

        int r = path_rules_compile(policy, &rules, err);
        if (r < 0)
                return r;

        check.rules = rules;
        check.what = "approval.command";
        if (policy->approval.command)
                r = check_command(&check, policy->approval.command);

        if (r == 0)
                r = check_credentials(&check, policy->credentials.p, policy->credentials.n);
        if (r == 0)
                r = check_credentials(&check, policy->tool_credentials.p, policy->tool_credentials.n);
        if (r < 0)
                return r;

        return check_tools(&check, policy);
}
