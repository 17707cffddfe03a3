/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/profile/profile.h"

#include "base/cleanup.h"
#include "base/paths/path.h"

#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

void profile_done(struct profile *profile) {
        free(profile->name);
        free(profile->path);
        policy_file_done(&profile->file);
        *profile = (struct profile){ 0 };
}

/* Everything in it is tried on a policy that nobody uses. */
int profile_check(const struct profile *profile, struct err *err) {
        cleanup(policy_freep) struct policy *policy = calloc(1, sizeof *policy);
        const char *home = path_home();

        if (!policy || (home && !(policy->home = str_dup(str_of(home)))))
                return err_memory(err);
        return profile_apply(profile, policy, "check", err);
}

static int open_content(struct profile *profile, const struct profile_built_in *built_in, struct err *err) {
        cleanup(free_ptr) char *shown = str_format("profile %s", profile->name);

        if (!shown)
                return err_memory(err);
        if (profile->path)
                return policy_file_open(&profile->file, profile->path, profile->path, POLICY_FILE_REQUIRED, err);
        return policy_file_text(&profile->file, built_in->text, "/", shown, err);
}

int profile_open(struct str name, struct profile *ret, struct err *err) {
        cleanup(profile_done) struct profile made = { 0 };
        const struct profile_built_in *built_in = profile_built_in_find(name);
        int r;

        if (!profile_name_is_good(name))
                return profile_unknown(name, err);

        made.name = str_dup(name);
        if (!made.name)
                return err_memory(err);

        r = profile_file_find(name, &made.path, err);
        if (r < 0)
                return r;
        if (!made.path && !built_in)
                return profile_unknown(name, err);

        r = open_content(&made, built_in, err);
        if (r < 0)
                return r;

        *ret = made;
        made = (struct profile){ 0 };

        return 0;
}

int profile_open_file(const char *path, struct profile *ret, struct err *err) {
        cleanup(profile_done) struct profile made = { 0 };
        const char *slash = strrchr(path, '/');
        struct str name = str_of(slash ? slash + 1 : path);
        int r;

        if (str_ends(name, STR(PROFILE_SUFFIX)))
                name.n -= strlen(PROFILE_SUFFIX);

        made.name = str_dup(name);
        made.path = str_dup(str_of(path));
        if (!made.name || !made.path)
                return err_memory(err);

        r = policy_file_open(&made.file, path, path, POLICY_FILE_REQUIRED, err);
        if (r < 0)
                return r;

        *ret = made;
        made = (struct profile){ 0 };

        return 0;
}

/*
 * By the program.
 */
static bool has_word(const char *words, struct str wanted) {
        struct str rest = str_of(words), word;

        while (str_split(&rest, ',', &word))
                if (str_eq(str_trim(word), wanted))
                        return true;
        return false;
}

static bool profile_has_program(const struct profile *profile, struct str program) {
        const struct node *list = profile_node(profile, "programs");

        for (const struct node *node = list ? list->first : NULL; node; node = node->next)
                if (node->kind == NODE_SCALAR && str_eq(node->text, program))
                        return true;
        return false;
}

/* Where the program is: as it was named, or the first of that name in PATH, links not followed. NULL: nowhere. */
static char *program_find(const char *program) {
        const char *path = getenv("PATH");
        struct str rest = str_of(text_or(path, "/usr/local/bin:/usr/bin:/bin")), directory;

        if (strchr(program, '/'))
                return str_dup(str_of(program));

        while (str_split(&rest, ':', &directory)) {
                cleanup(free_ptr) char *file =
                    str_format("%.*s%s%s", STR_FMT(directory), directory.n ? "/" : "", program);

                if (file && access(file, X_OK) == 0)
                        return take_ptr(&file);
        }

        return NULL;
}

/* Replaces *ahead by what a link leads to and what comes behind it, or by only the latter. */
static void way_go_on(char **ahead, struct str target, size_t walked) {
        char *rest = str_format("%.*s%s%s", STR_FMT(target), target.n ? "/" : "", *ahead + walked);

        free(*ahead);
        *ahead = rest;
}

/* Whether the way to a file ends in the directory or has a link there: whoever writes such a link chooses the file.
 * True if it cannot be known. */
static bool leads_through(const char *path, const char *directory) {
        enum { LINKS_MAX = 40 }; /* as the kernel has it */
        cleanup(free_ptr) char *at = getcwd(NULL, 0), *ahead = str_dup(str_of(path));

        for (size_t links = 0; at && ahead && links <= LINKS_MAX;) {
                cleanup(free_ptr) char *next = NULL;
                char target[PATH_MAX];
                size_t n = strcspn(ahead, "/");
                size_t walked = n + strspn(ahead + n, "/");

                if (walked == 0)
                        return path_is_within(at, directory);
                if (path_normalise(n ? (struct str){ ahead, n } : STR("/"), at, &next) < 0)
                        return true;

                ssize_t size = readlink(next, target, sizeof target);
                if (size >= 0 && path_is_within(next, directory))
                        return true;

                if (size >= 0) {
                        links++;
                        way_go_on(&ahead, (struct str){ target, (size_t)size }, walked);
                } else {
                        way_go_on(&ahead, STR(""), walked);
                        free(at);
                        at = take_ptr(&next);
                }
        }

        return true;
}

static bool program_is_in(const char *program, const char *workspace) {
        cleanup(free_ptr) char *found = program_find(program);

        return found && leads_through(found, workspace);
}

/* Files of the user or of the system, which may be about any program. Nearly always there are none. */
static int of_places(struct str program, char **ret, struct err *err) {
        cleanup(profile_names_done) profile_names names = { 0 };
        int r = profile_list_files(&names, err);

        for (size_t i = 0; i < names.n && r == 0 && !*ret; i++) {
                cleanup(profile_done) struct profile profile = { 0 };

                r = profile_open(str_of(names.p[i]), &profile, err);
                if (r == 0 && profile_has_program(&profile, program))
                        *ret = take_ptr(&names.p[i]);
        }

        return r;
}

int profile_of_program(const char *program, const char *workspace, char **ret, struct err *err) {
        const char *slash = strrchr(program, '/');
        struct str name = str_of(slash ? slash + 1 : program);
        int r;

        *ret = NULL;
        r = of_places(name, ret, err);
        for (size_t i = 0; i < n_profiles_built_in && r == 0 && !*ret; i++) {
                if (has_word(profiles_built_in[i].programs, name)) {
                        *ret = str_dup(str_of(profiles_built_in[i].name));
                        if (*ret)
                                r = 0;
                        else
                                r = err_memory(err);
                }
        }

        if (*ret && program_is_in(program, workspace)) {
                free(*ret);
                *ret = NULL;
        }

        return r;
}

/* Programs that start another one, which a later word names. */
static bool starts_others(struct str program, const char *next) {
        static const char *const always = "npx, pnpx, bunx, uvx, pipx, env, nice, nohup, node, python, python3";
        static const char *const with = "exec, dlx, tool, x";

        return has_word(always, program) ||
               (has_word("npm, pnpm, yarn, bun, uv", program) && has_word(with, str_of(next)));
}

/* "@anthropic-ai/claude-code@latest" is claude. */
static struct str plain_name(struct str word) {
        static const char *const endings[] = { "-code", "-cli", "-ai", "-chat" };
        ptrdiff_t slash = str_rfind(word, '/'), at;

        if (slash >= 0)
                word = str_skip(word, (size_t)slash + 1);
        at = str_find(word, '@');
        if (at > 0)
                word = str_first(word, (size_t)at);

        for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
                if (str_ends(word, str_of(endings[i])))
                        return str_first(word, word.n - strlen(endings[i]));
        return word;
}

static const char *built_in_of(struct str program) {
        for (size_t i = 0; program.n > 0 && i < n_profiles_built_in; i++)
                if (has_word(profiles_built_in[i].programs, program))
                        return profiles_built_in[i].name;
        return NULL;
}

/* What comes before the program that is to be started: an option, a setting, a number that an option takes, a verb. */
static bool comes_before(const char *word) {
        return word[0] == '-' || strchr(word, '=') || word[strspn(word, "0123456789")] == '\0' ||
               has_word("exec, dlx, tool, x, run", str_of(word));
}

const char *profile_hinted(char *const argv[]) {
        if (!argv[0])
                return NULL;

        const char *own = built_in_of(plain_name(str_of(argv[0])));
        if (own || !argv[1] || !starts_others(plain_name(str_of(argv[0])), argv[1]))
                return own;

        for (size_t i = 1; argv[i]; i++)
                if (!comes_before(argv[i]))
                        return built_in_of(plain_name(str_of(argv[i])));

        return NULL;
}

const struct node *profile_node(const struct profile *profile, const char *key) {
        const struct node *root = profile->file.document ? document_root(profile->file.document) : NULL;

        if (root && root->kind == NODE_MAP)
                return node_get(root, str_of(key));

        return NULL;
}

const char *profile_text(const struct profile *profile, const char *key) {
        const struct node *node = profile_node(profile, key);

        return node && node->kind == NODE_SCALAR ? node->text.p : "";
}
