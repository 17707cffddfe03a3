/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs and caches of the user, laid into the sandbox's own home. Every launch looks, so it is cheap: rows of one
 * directory stand together, the directory is opened once, and names that it lacks cost nothing.
 *
 * A cache is an overlay: the user's as the read-only lower layer, the upper layer in the own home. The kernel wants
 * each upper layer for one mount at a time. So the first run has the layers that are kept, by a lock; a run beside it
 * sees them read-only as they are, and has layers of its own, which go away with it.
 */
#include "kept/home_rows.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/files/names.h"
#include "base/files/tree.h"
#include "base/log.h"
#include "base/paths/path.h"
#include "policy/paths/home_table.h"
#include "policy/paths/paths_builtin.h"
#include "sandbox/survey.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

struct rows {
        struct home *home;
        const struct home_rows_request *q;
        struct plan_host *host;
        struct err *err;
        const char *at; /* the user's home, without links */
        int at_fd;
        char *parent;       /* the directory that was looked into last, below the home */
        struct names names; /* in it */
        struct names top;   /* in the home itself */
        bool parent_there;
};

/* --- which rows there are --- */

/* Whether the home has nothing by the first name of this path. */
static bool top_lacks(const struct rows *rows, struct str path) {
        struct str first;
        bool whole = str_split(&path, '/', &first);
        cleanup(free_ptr) char *name = whole ? str_dup(first) : NULL;

        return name && names_lack(&rows->top, name);
}

/* Looks into the directory of the row, unless the row before it lies there too. */
static int rows_enter(struct rows *rows, struct str parent) {
        if (rows->parent && str_is(parent, rows->parent))
                return 0;

        free(rows->parent);
        rows->parent = str_dup(parent);
        if (!rows->parent)
                return err_memory(rows->err);

        rows->parent_there = parent.n == 0;

        if (parent.n == 0) {
                rows->names = rows->top;
                return 0;
        }

        if (top_lacks(rows, parent))
                return 0;

        cleanup(close_fd) int fd = openat(rows->at_fd, rows->parent, O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC);
        rows->parent_there = fd >= 0;
        if (fd >= 0)
                names_read(&rows->names, fd);

        return 0;
}

static int rows_has(struct rows *rows, const char *path, bool *ret) {
        const char *slash = strrchr(path, '/');
        struct stat st;
        int r;

        *ret = false;
        r = rows_enter(rows, slash ? str_n(path, (size_t)(slash - path)) : STR(""));
        if (r < 0)
                return r;
        if (!rows->parent_there || names_lack(&rows->names, slash ? slash + 1 : path))
                return 0;

        *ret = fstatat(rows->at_fd, path, &st, 0) == 0 && S_ISDIR(st.st_mode);
        return 0;
}

/* Whether the list of secrets names the place, something in it, or something around it. */
static bool rows_is_secret(const struct rows *rows, const char *real) {
        if (!path_is_within(real, rows->at) || strcmp(real, rows->at) == 0)
                return false;

        const char *below = real + strlen(rows->at) + 1;

        for (size_t i = 0; i < builtin_deny_read_n; i++) {
                const char *secret = builtin_deny_read[i].path;
                if (secret[0] == '~' && (path_is_within(below, secret + 2) || path_is_within(secret + 2, below)))
                        return true;
        }

        return false;
}

/* Whether a rule of the policy covers the place: then the rule holds. A link lays nothing if it leads to the home,
 * above it or to a denied path, or if a sandbox could have made it. */
static bool rows_may_lay(const struct rows *rows, const char *path, const char *real) {
        const struct path_rule *rule = NULL;

        (void)path_rules_host_access(rows->q->rules, path, &rule);
        if ((rule && !rule->own) || rows_is_secret(rows, real))
                return false;
        if (strcmp(path, real) == 0)
                return true;

        bool denied = path_rules_host_access(rows->q->rules, real, &rule) == PATH_DENIED && rule && !rule->own;
        return !denied && !path_is_within(rows->at, real) &&
               !survey_link_planted(rows->q->rules, rows->q->policy->workspace, path, real);
}

static bool rows_known(const struct rows *rows, const char *path) {
        for (size_t i = 0; i < rows->host->home.laid.n; i++)
                if (path_is_within(path, rows->host->home.laid.p[i].path))
                        return true;
        return false;
}

/* --- layers of caches --- */

/* The kernel's option text has its own meaning for these. */
static bool spelling_fits(const char *path) {
        return !strpbrk(path, ":,\\");
}

static int layer_make(const struct home *home, const char *below, const char *name, char **ret, struct err *err) {
        cleanup(free_ptr) char *path = str_format("%s/%s/%s", home->directory, below, name);

        if (!path)
                return err_memory(err);

        if (access(path, F_OK) < 0) {
                int r = path_make_private_dir(path, err);
                if (r < 0)
                        return r;
        }

        *ret = take_ptr(&path);
        return 0;
}

/* An overlay that does not wait for the disk leaves a mark, since after a crash of the machine a part of what was
 * written may be missing. It is a cache: its users check the content, or fetch it again. */
static void layer_reuse(const char *work) {
        static const char *const levels[] = { "work", "work/incompat", "work/incompat/volatile" };
        cleanup(close_fd) int fd = open(work, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

        if (fd < 0)
                return;

        for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) /* the kernel closes them to everybody */
                if (fchmodat(fd, levels[i], 0700, 0) < 0)
                        return; /* no mark */

        (void)unlinkat(fd, "work/incompat/volatile/dirty", 0);
        (void)unlinkat(fd, "work/incompat/volatile", AT_REMOVEDIR);
        (void)unlinkat(fd, "work/incompat", AT_REMOVEDIR);
}

static int layers_make(struct rows *rows, const char *row, struct plan_laid *laid) {
        bool shared = rows->home->cache_lock >= 0 || rows->q->preview;
        cleanup(free_ptr) char *slug = str_dup(str_of(row));
        cleanup(free_ptr) char *kept = NULL, *below = NULL;
        int r;

        if (!slug)
                return err_memory(rows->err);

        for (char *c = slug; *c; c++)
                *c = *c == '/' ? '+' : *c;

        kept = str_format("caches/%s", slug);
        if (shared)
                below = str_format("caches/%s", slug);
        else
                below = str_format("layers/%s/%s", rows->q->run_id, slug);
        if (!kept || !below)
                return err_memory(rows->err);

        if (rows->q->preview) {
                laid->upper = str_format("%s/%s/upper", rows->home->directory, below);
                laid->work = str_format("%s/%s/work", rows->home->directory, below);
                return laid->upper && laid->work ? 0 : err_memory(rows->err);
        }

        r = layer_make(rows->home, below, "upper", (char **)&laid->upper, rows->err);
        if (r == 0)
                r = layer_make(rows->home, below, "work", (char **)&laid->work, rows->err);
        if (r == 0)
                layer_reuse(laid->work);
        if (r == 0 && !shared)
                r = layer_make(rows->home, kept, "upper", (char **)&laid->between, rows->err);

        return r;
}

/* --- laying --- */

static void laid_done(struct plan_laid *laid) {
        free((char *)laid->path);
        free((char *)laid->source);
        free((char *)laid->upper);
        free((char *)laid->work);
        free((char *)laid->between);
        *laid = (struct plan_laid){ 0 };
}

/* Without mounts: programs can be read where they are. */
static int rows_open(struct rows *rows, const char *real) {
        const struct plan_path open = { .path = real,
                                        .type = PLAN_PATH_DIR,
                                        .access = PATH_READ,
                                        .grants = true,
                                        .origin = "built in: programs in the home" };

        return survey_add(rows->host, open, rows->err);
}

static int rows_lay(struct rows *rows, const char *row, enum home_row_kind kind) {
        cleanup(laid_done) struct plan_laid laid = { 0 };
        struct err in_the_way = { 0 };
        int r;

        laid.path = path_join(rows->at, row);
        if (!laid.path)
                return err_memory(rows->err);

        laid.source = realpath(laid.path, NULL);
        if (!laid.source)
                return errno == ENOMEM ? err_memory(rows->err) : 0;
        if (!rows_may_lay(rows, laid.path, laid.source) || rows_known(rows, laid.path))
                return 0;
        if (rows->q->degraded)
                return kind == HOME_TOOLCHAIN ? rows_open(rows, laid.source) : 0;

        if (kind == HOME_CACHE) {
                if (!spelling_fits(laid.source) || !spelling_fits(rows->home->directory))
                        return 0; /* then it is an ordinary directory of the own home */
                r = layers_make(rows, row, &laid);
                if (r < 0)
                        return r;
        }

        if (!rows->q->preview && home_make_point(rows->home, row, true, &in_the_way) < 0) {
                log_warning("%s", err_text(&in_the_way));
                return 0;
        }

        if (vec_push(&rows->host->home.laid, laid) < 0)
                return err_memory(rows->err);

        laid = (struct plan_laid){ 0 };
        return 0;
}

static int rows_lay_table(struct rows *rows) {
        for (size_t i = 0; i < n_home_rows; i++) {
                bool there;
                int r = rows_has(rows, home_rows[i].path, &there);
                if (r == 0 && there)
                        r = rows_lay(rows, home_rows[i].path, home_rows[i].kind);
                if (r < 0)
                        return r;
        }

        return 0;
}

/* Directories in which the user's shell looks for programs, and where npm keeps the targets of its own. */
static int rows_lay_search_path(struct rows *rows) {
        struct str rest = str_of(rows->q->search_path), part;
        int r = 0;

        while (r == 0 && str_split(&rest, ':', &part)) {
                cleanup(free_ptr) char *directory = NULL, *modules = NULL;
                struct stat st;

                if (part.n == 0 || part.p[0] != '/' || path_normalise(part, NULL, &directory) < 0 ||
                    strcmp(directory, rows->at) == 0 || !path_is_within(directory, rows->at) ||
                    stat(directory, &st) < 0 || !S_ISDIR(st.st_mode))
                        continue;

                r = rows_lay(rows, directory + strlen(rows->at) + 1, HOME_TOOLCHAIN);
                if (r < 0 || path_normalise(STR("../lib/node_modules"), directory, &modules) < 0)
                        continue;
                if (path_is_within(modules, rows->at) && stat(modules, &st) == 0 && S_ISDIR(st.st_mode))
                        r = rows_lay(rows, modules + strlen(rows->at) + 1, HOME_TOOLCHAIN);
        }

        return r;
}

/* Alone with the caches that are kept, or beside somebody. What runs that were killed left goes when nobody is here. */
static void caches_lock(struct home *home) {
        cleanup(close_fd) int fd = openat(home->fd, "caches.lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

        if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
                home->cache_lock = take_fd(&fd);
        if (home->cache_lock < 0 || faccessat(home->fd, "layers", F_OK, 0) < 0)
                return;
        if (flock(home->lock, LOCK_EX | LOCK_NB) == 0)
                (void)tree_remove(home->fd, "layers");

        (void)flock(home->lock, LOCK_SH);
}

int home_rows_show(struct home *home, const struct home_rows_request *request, struct plan_host *host,
                   struct err *err) {
        struct rows rows = { .home = home, .q = request, .host = host, .err = err, .at = request->policy->home_inside };
        int r = 0;

        rows.at_fd = open(rows.at, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (rows.at_fd < 0)
                return 0; /* no home of the user's: nothing to lay */

        names_read(&rows.top, rows.at_fd);
        if (!request->preview && !request->degraded)
                caches_lock(home);

        r = rows_lay_table(&rows);
        if (r == 0 && request->search_path)
                r = rows_lay_search_path(&rows);

        free(rows.parent);
        close_fd(&rows.at_fd);

        return r;
}

void home_layers_remove(struct home *home, const char *run_id) {
        if (!home->directory || home->fd < 0 || home->cache_lock >= 0)
                return;
        cleanup(close_fd) int layers = openat(home->fd, "layers", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (layers >= 0)
                (void)tree_remove(layers, run_id);
}
