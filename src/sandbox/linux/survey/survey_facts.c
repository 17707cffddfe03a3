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

void survey_done(struct plan_host *h) {
        for (size_t i = 0; i < h->paths.n; i++) {
                free((char *)h->paths.p[i].path);
                free((char *)h->paths.p[i].link);
        }

        for (size_t i = 0; i < h->sockets.n; i++)
                free((char *)h->sockets.p[i]);

        for (size_t i = 0; i < h->root_links.n; i++) {
                free((char *)h->root_links.p[i].path);
                free((char *)h->root_links.p[i].target);
        }

        for (size_t i = 0; i < h->covers.n; i++) {
                free((char *)h->covers.p[i].path);
                free((char *)h->covers.p[i].source);
        }

        vec_done(&h->covers);
        for (size_t i = 0; i < h->git_configs.n; i++)
                free(h->git_configs.p[i]);

        vec_done(&h->git_configs);

        for (size_t i = 0; i < h->copies.n; i++) {
                free((char *)h->copies.p[i].path);
                free((char *)h->copies.p[i].source);
        }

        vec_done(&h->copies);
        for (size_t i = 0; i < h->marks.n; i++)
                free((char *)h->marks.p[i].pattern);

        vec_done(&h->marks);
        for (size_t i = 0; i < h->asks.n; i++)
                free((char *)h->asks.p[i]);

        vec_done(&h->asks);
        vec_done(&h->paths);
        vec_done(&h->sockets);
        vec_done(&h->devices);
        vec_done(&h->system_dirs);

        for (size_t i = 0; i < h->entries.n; i++)
                free((char *)h->entries.p[i].path);

        vec_done(&h->entries);
        for (size_t i = 0; i < h->git_known.n; i++)
                free((char *)h->git_known.p[i]);

        vec_done(&h->git_known);
        for (size_t i = 0; i < h->git_files.n; i++)
                free(h->git_files.p[i]);

        vec_done(&h->git_files);
        for (size_t i = 0; i < h->git_hooks.n; i++)
                free(h->git_hooks.p[i]);

        vec_done(&h->git_hooks);
        for (size_t i = 0; i < h->git_trees.n; i++)
                free(h->git_trees.p[i]);

        vec_done(&h->git_trees);
        vec_done(&h->root_links);

        for (size_t i = 0; i < h->home.laid.n; i++) {
                free((char *)h->home.laid.p[i].path);
                free((char *)h->home.laid.p[i].source);
                free((char *)h->home.laid.p[i].upper);
                free((char *)h->home.laid.p[i].work);
                free((char *)h->home.laid.p[i].between);
        }

        vec_done(&h->home.laid);
        free((char *)h->cwd);
        free((char *)h->resolv_conf);
        free((char *)h->terminal);
        *h = (struct plan_host){ 0 };
}
