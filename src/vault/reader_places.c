/* SPDX-License-Identifier: Apache-2.0 */
#include "vault/reader_places.h"

#include "base/cleanup.h"
#include "base/paths/path.h"
#include "base/str.h"
#include "vault/source.h"
#include "vault/write_back.h"

#include <stdio.h>
#include <stdlib.h>

void reader_directory(const char *file, char ret[static PATH_MAX]) {
        (void)snprintf(ret, PATH_MAX, "%s", file);
        char *slash = strrchr(ret, '/');
        if (slash)
                slash[slash == ret ? 1 : 0] = '\0';
}

/* Takes the text; NULL is no memory. */
static int add_path(reader_paths *list, char *path) {
        if (!path)
                return -ENOMEM;

        for (size_t i = 0; i < list->n; i++)
                if (strcmp(list->p[i], path) == 0) {
                        free(path);
                        return 0;
                }

        if (vec_push(list, path) == 0)
                return 0;
        free(path);
        return -ENOMEM;
}

/* The file, there or not, in its directory, and that directory. One that cannot be found adds nothing: the reading
 * fails with its own words. */
static int add_in_place(reader_paths *list, const char *file) {
        char named[PATH_MAX], place[PATH_MAX];

        reader_directory(file, named);
        if (!realpath(named, place))
                return 0;

        cleanup(free_ptr) char *name = str_dup(path_basename(file));
        if (!name)
                return -ENOMEM;
        int r = add_path(list, path_join(place, name));
        return r < 0 ? r : add_path(list, str_dup(str_of(place)));
}

/* At its own name, and where that leads. */
static int add_read(struct reader_places *places, const char *file) {
        char target[PATH_MAX];
        int r = add_in_place(&places->read, file);

        if (r < 0 || !realpath(file, target))
                return r;
        return add_in_place(&places->read, target);
}

static int add_directory(reader_paths *list, const char *file) {
        char named[PATH_MAX], place[PATH_MAX];

        reader_directory(file, named);
        return realpath(named, place) ? add_path(list, str_dup(str_of(place))) : 0;
}

/* Where its name is, and where that leads: what is replaced is the file, not a link to it. */
static int add_written(struct reader_places *places, const char *file) {
        char named[PATH_MAX], place[PATH_MAX], target[PATH_MAX], lock[RENEW_LOCK_PATH_MAX];
        int r = add_directory(&places->written, file);

        if (r == 0 && realpath(file, target))
                r = add_directory(&places->written, target);
        if (r < 0 || !renew_lock_of_agent(file, lock))
                return r;

        reader_directory(lock, named);
        if (!realpath(named, place))
                return 0;

        cleanup(free_ptr) char *name = str_dup(path_basename(lock));
        if (!name)
                return -ENOMEM;
        return add_path(&places->written, path_join(place, name));
}

static int add_mapping(const struct vault_start *start, const struct vault_mapping *mapping,
                       struct reader_places *places) {
        char file[PATH_MAX];

        if (!source_path(start, mapping->source, file, sizeof file) || file[0] == '\0')
                return 0;

        int r = add_read(places, file);
        if (r < 0 || mapping->answer[0] == '\0')
                return r;
        return add_written(places, file);
}

int reader_places_of(const struct vault_start *start, const struct vault_mapping *mappings, struct reader_places *ret,
                     struct err *err) {
        struct reader_places places = { 0 };
        char lock_dir[PATH_MAX];
        int r = 0;

        for (uint32_t i = 0; r == 0 && i < start->n_mappings; i++)
                r = add_mapping(start, &mappings[i], &places);
        if (r == 0 && places.written.n && start->lock_dir[0] && realpath(start->lock_dir, lock_dir))
                r = add_path(&places.written, str_dup(str_of(lock_dir)));
        if (r < 0) {
                reader_places_done(&places);
                return err_memory(err);
        }

        *ret = places;
        return 0;
}

static void paths_done(reader_paths *list) {
        for (size_t i = 0; i < list->n; i++)
                free(list->p[i]);
        vec_done(list);
}

void reader_places_done(struct reader_places *places) {
        paths_done(&places->read);
        paths_done(&places->written);
}
