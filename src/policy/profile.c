/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/profile.h"

#include "base/cleanup.h"
#include "base/path.h"
#include "conf/dirs.h"
#include "conf/suggest.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define SYSTEM_PLACE "/etc/bailey/profiles"
#define SUFFIX ".yaml"

void profile_done(struct profile *profile) {
        free(profile->name);
        free(profile->path);
        policy_file_done(&profile->file);
        *profile = (struct profile){ 0 };
}

void profile_names_done(profile_names *names) {
        for (size_t i = 0; i < names->n; i++)
                free(names->p[i]);
        vec_done(names);
}

/* A name is part of a path: letters, digits and dashes. */
static bool name_is_good(struct str name) {
        enum { NAME_LONGEST = 64 };

        for (size_t i = 0; i < name.n; i++)
                if (!ascii_is_alnum(name.p[i]) && (name.p[i] != '-' || i == 0))
                        return false;
        return name.n > 0 && name.n <= NAME_LONGEST;
}

static const struct profile_built_in *built_in_find(struct str name) {
        for (size_t i = 0; i < n_profiles_built_in; i++)
                if (str_is(name, profiles_built_in[i].name))
                        return &profiles_built_in[i];
        return NULL;
}

/* The directories that are looked into, the user's first; NULL for one that there is not. */
enum { PLACES = 2 };
static int places_find(char *ret[static PLACES], struct err *err) {
        cleanup(free_ptr) char *config = NULL;
        int r = dirs_config(&config);

        if (r < 0 && r != -ENOENT)
                return err_memory(err);

        ret[0] = config ? path_join(config, "profiles") : NULL;
        ret[1] = str_dup(STR(SYSTEM_PLACE));

        return (config && !ret[0]) || !ret[1] ? err_memory(err) : 0;
}

static void places_done(char *(*places)[PLACES]) {
        for (size_t i = 0; i < PLACES; i++)
                free((*places)[i]);
}

/* The file of this name, or NULL in *ret: then it is built in or unknown. */
static int file_find(struct str name, char **ret, struct err *err) {
        cleanup(places_done) char *places[PLACES] = { NULL };
        int r = places_find(places, err);

        *ret = NULL;

        for (size_t i = 0; i < PLACES && r == 0; i++) {
                cleanup(free_ptr) char *path =
                    places[i] ? str_format("%s/%.*s" SUFFIX, places[i], STR_FMT(name)) : NULL;

                if (places[i] && !path)
                        return err_memory(err);
                if (path && access(path, F_OK) == 0) {
                        *ret = take_ptr(&path);
                        return 0;
                }
        }

        return r;
}

static int unknown_name(struct str name, struct err *err) {
        struct suggestion suggestion = suggest_for(name);
        cleanup(profile_names_done) profile_names names = { 0 };

        if (profile_list(&names, NULL) == 0)
                for (size_t i = 0; i < names.n; i++)
                        suggest_offer(&suggestion, names.p[i]);

        return err_set(err, ENOENT, "there is no profile %s%s", show(name).text,
                       suggestion.best ? suggest_text(&suggestion, "").text : "; `bailey profile ls` lists them");
}

int profile_check_name(struct str name, struct err *err) {
        cleanup(free_ptr) char *path = NULL;
        int r;

        if (str_is(name, PROFILE_NONE) || built_in_find(name))
                return 0;
        if (!name_is_good(name))
                return unknown_name(name, err);

        r = file_find(name, &path, err);
        if (r < 0)
                return r;

        return path ? 0 : unknown_name(name, err);
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
        const struct profile_built_in *built_in = built_in_find(name);
        int r;

        if (!name_is_good(name))
                return unknown_name(name, err);

        made.name = str_dup(name);
        if (!made.name)
                return err_memory(err);

        r = file_find(name, &made.path, err);
        if (r < 0)
                return r;
        if (!made.path && !built_in)
                return unknown_name(name, err);

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

        if (str_ends(name, STR(SUFFIX)))
                name.n -= strlen(SUFFIX);

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
 * All of them.
 */
static int names_add(profile_names *names, struct str name, struct err *err) {
        for (size_t i = 0; i < names->n; i++)
                if (str_is(name, names->p[i]))
                        return 0;

        char *copy = str_dup(name);
        if (!copy || vec_push(names, copy) < 0) {
                free(copy);
                return err_memory(err);
        }

        return 0;
}

static int names_add_place(profile_names *names, const char *place, struct err *err) {
        DIR *directory = place ? opendir(place) : NULL;
        int r = 0;

        for (struct dirent *entry; directory && r == 0 && (entry = readdir(directory));) {
                struct str name = str_of(entry->d_name);

                if (!str_ends(name, STR(SUFFIX)))
                        continue;

                name.n -= strlen(SUFFIX);
                if (name_is_good(name))
                        r = names_add(names, name, err);
        }

        if (directory)
                closedir(directory);

        return r;
}

static int names_compare(const void *a, const void *b) {
        return strcmp(*(char *const *)a, *(char *const *)b);
}

static int names_of_places(profile_names *names, struct err *err) {
        cleanup(places_done) char *places[PLACES] = { NULL };
        int r = places_find(places, err);

        for (size_t i = 0; i < PLACES && r == 0; i++)
                r = names_add_place(names, places[i], err);
        return r;
}

int profile_list(profile_names *ret, struct err *err) {
        cleanup(profile_names_done) profile_names names = { 0 };
        int r = names_of_places(&names, err);

        for (size_t i = 0; i < n_profiles_built_in && r == 0; i++)
                r = names_add(&names, str_of(profiles_built_in[i].name), err);

        if (r < 0)
                return r;

        qsort(names.p, names.n, sizeof *names.p, names_compare);
        *ret = names;
        names = (profile_names){ 0 };

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
        struct str rest = str_of(path ? path : "/usr/local/bin:/usr/bin:/bin"), directory;

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
        int r = names_of_places(&names, err);

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
                        r = *ret ? 0 : err_memory(err);
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

        return root && root->kind == NODE_MAP ? node_get(root, str_of(key)) : NULL;
}

const char *profile_text(const struct profile *profile, const char *key) {
        const struct node *node = profile_node(profile, key);

        return node && node->kind == NODE_SCALAR ? node->text.p : "";
}
