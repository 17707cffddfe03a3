/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/profile/profile_names.h"

#include "base/cleanup.h"
#include "base/paths/path.h"
#include "conf/dirs.h"
#include "conf/suggest.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define SYSTEM_PLACE "/etc/bailey/profiles"

void profile_names_done(profile_names *names) {
        for (size_t i = 0; i < names->n; i++)
                free(names->p[i]);
        vec_done(names);
}

bool profile_name_is_good(struct str name) {
        enum { NAME_LONGEST = 64 };

        for (size_t i = 0; i < name.n; i++)
                if (!ascii_is_alnum(name.p[i]) && (name.p[i] != '-' || i == 0))
                        return false;
        return name.n > 0 && name.n <= NAME_LONGEST;
}

const struct profile_built_in *profile_built_in_find(struct str name) {
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

        if ((config && !ret[0]) || !ret[1])
                return err_memory(err);

        return 0;
}

static void places_done(char *(*places)[PLACES]) {
        for (size_t i = 0; i < PLACES; i++)
                free((*places)[i]);
}

int profile_file_find(struct str name, char **ret, struct err *err) {
        cleanup(places_done) char *places[PLACES] = { NULL };
        int r = places_find(places, err);

        *ret = NULL;

        for (size_t i = 0; i < PLACES && r == 0; i++) {
                cleanup(free_ptr) char *path =
                    places[i] ? str_format("%s/%.*s" PROFILE_SUFFIX, places[i], STR_FMT(name)) : NULL;

                if (places[i] && !path)
                        return err_memory(err);
                if (path && access(path, F_OK) == 0) {
                        *ret = take_ptr(&path);
                        return 0;
                }
        }

        return r;
}

int profile_unknown(struct str name, struct err *err) {
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

        if (str_is(name, PROFILE_NONE) || profile_built_in_find(name))
                return 0;
        if (!profile_name_is_good(name))
                return profile_unknown(name, err);

        r = profile_file_find(name, &path, err);
        if (r < 0)
                return r;

        if (path)
                return 0;

        return profile_unknown(name, err);
}

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

                if (!str_ends(name, STR(PROFILE_SUFFIX)))
                        continue;

                name.n -= strlen(PROFILE_SUFFIX);
                if (profile_name_is_good(name))
                        r = names_add(names, name, err);
        }

        if (directory)
                closedir(directory);

        return r;
}

static int names_compare(const void *a, const void *b) {
        return strcmp(*(char *const *)a, *(char *const *)b);
}

int profile_list_files(profile_names *names, struct err *err) {
        cleanup(places_done) char *places[PLACES] = { NULL };
        int r = places_find(places, err);

        for (size_t i = 0; i < PLACES && r == 0; i++)
                r = names_add_place(names, places[i], err);
        return r;
}

int profile_list(profile_names *ret, struct err *err) {
        cleanup(profile_names_done) profile_names names = { 0 };
        int r = profile_list_files(&names, err);

        for (size_t i = 0; i < n_profiles_built_in && r == 0; i++)
                r = names_add(&names, str_of(profiles_built_in[i].name), err);

        if (r < 0)
                return r;

        if (names.n > 0)
                qsort(names.p, names.n, sizeof *names.p, names_compare);
        *ret = names;
        names = (profile_names){ 0 };

        return 0;
}
