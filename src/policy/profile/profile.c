/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/profile/profile.h"

#include "base/cleanup.h"
#include "base/paths/path.h"

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

/* Where the program is: as it was named, or the first of that name in PATH. NULL: nowhere. */
static char *program_find(const char *program) {
        const char *path = getenv("PATH");
        struct str rest = str_of(text_or(path, "/usr/local/bin:/usr/bin:/bin")), directory;

        if (strchr(program, '/'))
                return realpath(program, NULL);

        while (str_split(&rest, ':', &directory)) {
                cleanup(free_ptr) char *file =
                    str_format("%.*s%s%s", STR_FMT(directory), directory.n ? "/" : "", program);

                if (file && access(file, X_OK) == 0)
                        return realpath(file, NULL);
        }

        return NULL;
}

static bool program_is_in(const char *program, const char *workspace) {
        cleanup(free_ptr) char *real = program_find(program);

        return real && path_is_within(real, workspace);
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
