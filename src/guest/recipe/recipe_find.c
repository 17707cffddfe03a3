/* SPDX-License-Identifier: Apache-2.0 */
/* Where recipes are: built in, in two directories, or in a file that somebody names. */
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/paths/path.h"
#include "conf/dirs.h"
#include "conf/suggest.h"
#include "guest/recipe/recipe_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SYSTEM_PLACE "/etc/bailey/recipes"
#define SUFFIX ".yaml"
enum { PLACES = 2, TEXT_MAX = 4 << 20, NAME_LONGEST = 64, CHAIN_MAX = 64 };

bool recipe_name_is_good(struct str name) {
        for (size_t i = 0; i < name.n; i++)
                if (!ascii_is_alnum(name.p[i]) && (name.p[i] != '-' || i == 0))
                        return false;
        return name.n > 0 && name.n <= NAME_LONGEST;
}

void recipe_list_done(recipe_list *list) {
        for (size_t i = 0; i < list->n; i++)
                recipe_done(&list->p[i]);
        vec_done(list);
}

static void places_done(char *(*places)[PLACES]) {
        for (size_t i = 0; i < PLACES; i++)
                free((*places)[i]);
}

/* The user's first; NULL for one that there is not. */
static int places_find(char *ret[static PLACES], struct err *err) {
        cleanup(free_ptr) char *config = NULL;
        int r = dirs_config(&config);

        if (r < 0 && r != -ENOENT)
                return err_memory(err);

        ret[0] = config ? path_join(config, "recipes") : NULL;
        ret[1] = str_dup(STR(SYSTEM_PLACE));

        if ((config && !ret[0]) || !ret[1])
                return err_memory(err);

        return 0;
}

static const struct recipe_built_in *built_in_find(const char *name) {
        for (size_t i = 0; i < n_recipes_built_in; i++)
                if (strcmp(name, recipes_built_in[i].name) == 0)
                        return &recipes_built_in[i];
        return NULL;
}

static int file_find(const char *name, char **ret, struct err *err) {
        cleanup(places_done) char *places[PLACES] = { NULL };
        int r = places_find(places, err);

        *ret = NULL;

        for (size_t i = 0; i < PLACES && r == 0; i++) {
                cleanup(free_ptr) char *path = places[i] ? str_format("%s/%s" SUFFIX, places[i], name) : NULL;

                if (places[i] && !path)
                        return err_memory(err);
                if (path && access(path, F_OK) == 0) {
                        *ret = take_ptr(&path);
                        return 0;
                }
        }

        return r;
}

/* Its commands run inside, but it says what may be reached: a file that anybody can write is nobody's word. */
static int file_read(const char *path, struct buf *ret, struct err *err) {
        cleanup(close_fd) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        struct stat st;

        if (fd < 0 || fstat(fd, &st) < 0)
                return err_errno(err, "cannot open the recipe %s", path);
        if (!S_ISREG(st.st_mode))
                return err_set(err, EINVAL, "the recipe %s is not a regular file", path);
        if (st.st_mode & S_IWOTH)
                return err_set(err, EPERM, "the recipe %s can be written by everybody (chmod o-w %s)", path, path);

        int r = fd_read_all(fd, ret);
        if (r < 0)
                return err_set(err, -r, "cannot read the recipe %s: %s", path, strerror(-r));

        return 0;
}

static int name_unknown(const char *name, struct err *err) {
        struct suggestion near = suggest_for(str_of(name));
        cleanup(recipe_texts_done) recipe_texts names = { 0 };

        if (recipe_names(&names, NULL) == 0)
                for (size_t i = 0; i < names.n; i++)
                        suggest_offer(&near, names.p[i]);

        err_blame(err, ERR_UNAVAILABLE);
        return err_set(err, ENOENT, "there is no recipe %s%s", show(str_of(name)).text,
                       near.best ? suggest_text(&near, "").text
                                 : "; `bailey guest recipes` lists them, and a file is named with its path");
}

static bool word_is_path(const char *word) {
        return strchr(word, '/') || str_ends(str_of(word), STR(SUFFIX));
}

int recipe_text(const char *word, struct buf *ret, char **ret_path, struct err *err) {
        cleanup(free_ptr) char *path = NULL;
        const struct recipe_built_in *built_in = NULL;
        int r = 0;

        if (word_is_path(word)) {
                path = realpath(word, NULL);
                if (!path)
                        return err_errno(err, "cannot open the recipe %s", word);
        } else if (!recipe_name_is_good(str_of(word)))
                return name_unknown(word, err);
        else
                r = file_find(word, &path, err);

        if (r == 0 && !path && !(built_in = built_in_find(word)))
                return name_unknown(word, err);
        if (r == 0)
                r = built_in ? buf_add(ret, built_in->text) : file_read(path, ret, err);
        if (r < 0)
                return r;

        *ret_path = take_ptr(&path);
        return 0;
}

struct chain {
        const char *words[CHAIN_MAX];
        size_t n;
};

static int open_one(const char *word, recipe_list *list, struct chain *chain, struct err *err) {
        cleanup(buf_done) struct buf text = BUF(TEXT_MAX);
        cleanup(recipe_done) struct recipe recipe = { 0 };
        cleanup(free_ptr) char *path = NULL;

        for (size_t i = 0; i < chain->n; i++)
                if (strcmp(chain->words[i], word) == 0)
                        return err_set(err, ELOOP, "the recipe %s needs itself, by way of %s", word,
                                       chain->words[chain->n - 1]);

        if (chain->n == CHAIN_MAX)
                return err_set(err, ELOOP, "recipes need each other more than %d deep", CHAIN_MAX);

        int r = recipe_text(word, &text, &path, err);
        if (r == 0)
                r = recipe_parse(buf_str(&text), path ? path : word, &recipe, err);
        if (r < 0)
                return r;

        if (!word_is_path(word)) { /* known by its name, wherever it lies */
                free(recipe.name);
                recipe.name = str_dup(str_of(word));
                if (!recipe.name)
                        return err_memory(err);
        }

        for (size_t i = 0; i < list->n; i++)
                if (strcmp(list->p[i].name, recipe.name) == 0)
                        return 0;

        chain->words[chain->n++] = word;
        for (size_t i = 0; i < recipe.needs.n && r == 0; i++)
                r = open_one(recipe.needs.p[i], list, chain, err);

        chain->n--;
        if (r < 0)
                return r;
        if (vec_push(list, recipe) < 0)
                return err_memory(err);

        recipe = (struct recipe){ 0 };
        return 0;
}

int recipe_open(const char *word, recipe_list *list, struct err *err) {
        struct chain chain = { .n = 0 };

        return open_one(word, list, &chain, err);
}

/*
 * Names.
 */
static int name_add(recipe_texts *names, struct str name) {
        if (!recipe_name_is_good(name))
                return 0;

        for (size_t i = 0; i < names->n; i++)
                if (str_is(name, names->p[i]))
                        return 0;

        char *copy = str_dup(name);
        if (copy && vec_push(names, copy) == 0)
                return 0;

        free(copy);
        return -ENOMEM;
}

static int place_names(const char *place, recipe_texts *names) {
        DIR *list = opendir(place);
        int r = 0;

        for (const struct dirent *entry; list && r == 0 && (entry = readdir(list));) {
                struct str name = str_of(entry->d_name);
                if (str_ends(name, STR(SUFFIX)))
                        r = name_add(names, str_first(name, name.n - strlen(SUFFIX)));
        }

        if (list)
                closedir(list);

        return r;
}

static int names_compare(const void *a, const void *b) {
        return strcmp(*(char *const *)a, *(char *const *)b);
}

int recipe_names(recipe_texts *ret, struct err *err) {
        cleanup(recipe_texts_done) recipe_texts names = { 0 };
        cleanup(places_done) char *places[PLACES] = { NULL };
        int r = places_find(places, err);

        if (r < 0)
                return r;

        for (size_t i = 0; i < n_recipes_built_in && r == 0; i++)
                r = name_add(&names, str_of(recipes_built_in[i].name));

        for (size_t i = 0; i < PLACES && r == 0; i++)
                r = places[i] ? place_names(places[i], &names) : 0;

        if (r < 0)
                return err_memory(err);
        if (names.n)
                qsort(names.p, names.n, sizeof *names.p, names_compare);

        *ret = names;
        names = (recipe_texts){ 0 };

        return 0;
}
