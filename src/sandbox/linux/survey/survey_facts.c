/* SPDX-License-Identifier: Apache-2.0 */
/* What every survey does: adds facts, fails when a look told nothing, and forgets. Portable, as are the files about
 * repositories and links: scripts/macos-rules builds them for macOS, too. */
#include "sandbox/linux/survey/survey_internal.h"

#include "base/cleanup.h"
#include "base/paths/path.h"

#include <errno.h>
#include <stdlib.h>

int survey_doubt(struct err *err, int error, const char *path) {
        if (path_error_answers(error))
                return 0;

        return err_set(err, error, "cannot look at %s: %s", path, strerror(error));
}

int survey_add(struct plan_host *h, struct plan_path path, struct err *err) {
        cleanup(free_ptr) char *copy = strdup(path.path), *link = path.link ? strdup(path.link) : NULL;
        bool whole = copy && (link || !path.link);

        path.path = copy;
        path.link = link;
        if (!whole || vec_push(&h->paths, path) < 0)
                return err_memory(err);

        take_ptr(&copy);
        take_ptr(&link);

        return 0;
}

/* The copies that belong to a list, and the list. */
#define facts_free_texts(list)                                                                                         \
        do {                                                                                                           \
                for (size_t i = 0; i < (list)->n; i++)                                                                 \
                        free((char *)(list)->p[i]);                                                                    \
                vec_done(list);                                                                                        \
        } while (0)

static void paths_forget(struct plan_host *h) {
        for (size_t i = 0; i < h->paths.n; i++) {
                free((char *)h->paths.p[i].path);
                free((char *)h->paths.p[i].link);
        }
        vec_done(&h->paths);

        for (size_t i = 0; i < h->root_links.n; i++) {
                free((char *)h->root_links.p[i].path);
                free((char *)h->root_links.p[i].target);
        }
        vec_done(&h->root_links);

        for (size_t i = 0; i < h->entries.n; i++)
                free((char *)h->entries.p[i].path);
        vec_done(&h->entries);

        for (size_t i = 0; i < h->marks.n; i++)
                free((char *)h->marks.p[i].pattern);
        vec_done(&h->marks);
}

/* What stands in another thing's place. */
static void laid_forget(struct plan_host *h) {
        for (size_t i = 0; i < h->covers.n; i++) {
                free((char *)h->covers.p[i].path);
                free((char *)h->covers.p[i].source);
        }
        vec_done(&h->covers);

        for (size_t i = 0; i < h->copies.n; i++) {
                free((char *)h->copies.p[i].path);
                free((char *)h->copies.p[i].source);
        }
        vec_done(&h->copies);

        for (size_t i = 0; i < h->home.laid.n; i++) {
                free((char *)h->home.laid.p[i].path);
                free((char *)h->home.laid.p[i].source);
                free((char *)h->home.laid.p[i].upper);
                free((char *)h->home.laid.p[i].work);
                free((char *)h->home.laid.p[i].between);
        }
        vec_done(&h->home.laid);
}

void survey_done(struct plan_host *h) {
        paths_forget(h);
        laid_forget(h);
        facts_free_texts(&h->sockets);
        facts_free_texts(&h->asks);
        facts_free_texts(&h->git_configs);
        facts_free_texts(&h->git_known);
        facts_free_texts(&h->git_files);
        facts_free_texts(&h->git_hooks);
        facts_free_texts(&h->git_trees);
        vec_done(&h->devices);
        vec_done(&h->system_dirs);

        free((char *)h->cwd);
        free((char *)h->resolv_conf);
        free((char *)h->terminal);
        *h = (struct plan_host){ 0 };
}
