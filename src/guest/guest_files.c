/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/guest_files.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/files/tree.h"
#include "base/log.h"
#include "base/paths/path.h"
#include "base/vec.h"
#include "conf/dirs.h"
#include "guest/guest_grants.h"
#include "guest/guest_home.h"
#include "guest/guest_inside.h"
#include "store/progress.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int no_memory(struct err *err) {
        return err_set(err, ENOMEM, "out of memory");
}

/*
 * Copies.
 */
struct copy_work {
        const struct guest *guest;
        char *inside; /* below the home, "." for the home itself */
        int outside;  /* the directory of the host */
        char *outside_name;
        bool out;
        struct progress progress;
};

static void copy_work_done(struct copy_work *work) {
        free(work->inside);
        free(work->outside_name);
        close_fd(&work->outside);
}

/* The directory that the last name of the path is in, and that name. */
static int inside_parent(const struct copy_work *work, char **ret_name, int *ret_fd, struct err *err) {
        cleanup(close_fd) int home = openat(work->guest->fd, "home", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        cleanup(free_ptr) char *parent = str_dup(str_of(work->inside));
        char *slash = parent ? strrchr(parent, '/') : NULL;

        if (home < 0 || !parent)
                return err_errno(err, "cannot open %s", work->guest->home);

        *ret_name = str_dup(str_of(slash ? slash + 1 : work->inside));
        if (!*ret_name)
                return no_memory(err);
        if (slash)
                *slash = '\0';

        int fd = path_open_at(home, slash ? parent : ".", O_RDONLY | O_DIRECTORY, 0, PATH_BENEATH | PATH_NO_SYMLINKS);
        if (fd < 0)
                return err_set(err, -fd, "cannot open %s in the guest's home: %s (links are not followed)",
                               slash ? parent : ".", strerror(-fd));

        *ret_fd = fd;
        return 0;
}

/* A directory as the destination: the copy gets its source's name in it. */
static int enter_destination(int *dir, char **name, const char *source_name, struct err *err) {
        struct stat st;

        if (strcmp(*name, ".") != 0 && (fstatat(*dir, *name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(st.st_mode)))
                return 0;

        int fd = openat(*dir, *name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        char *copy = str_dup(str_of(source_name));
        if (fd < 0 || !copy) {
                free(copy);
                return err_errno(err, "cannot open %s", *name);
        }

        close_fd(dir);
        free(*name);
        *dir = fd;
        *name = copy;

        return 0;
}

static void tell_copied(void *arg, uint64_t bytes) {
        progress_add(arg, bytes);
}

static int copy_work(void *arg, struct err *err) {
        struct copy_work *work = arg;
        cleanup(free_ptr) char *inside_name = NULL;
        cleanup(close_fd) int inside = -1;
        int r = inside_parent(work, &inside_name, &inside, err);
        struct stat st;

        if (r == 0)
                r = work->out ? enter_destination(&work->outside, &work->outside_name, inside_name, err)
                              : enter_destination(&inside, &inside_name, work->outside_name, err);

        if (r < 0)
                return r;

        int from = work->outside, to = inside;
        const char *from_name = work->outside_name, *to_name = inside_name;
        if (work->out) {
                from = inside;
                from_name = inside_name;
                to = work->outside;
                to_name = work->outside_name;
        }

        if (fstatat(from, from_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return err_errno(err, "cannot copy %s", from_name);
        if (fstatat(to, to_name, &st, AT_SYMLINK_NOFOLLOW) == 0)
                return err_set(err, EEXIST, "%s is there already", to_name);

        r = tree_copy_whole(from, from_name, to, to_name, tell_copied, &work->progress);
        progress_clear(&work->progress);
        if (r == -E2BIG)
                return err_set(err, EINVAL, "cannot copy %s: its directories are nested too deeply", from_name);
        if (r == -EEXIST)
                return err_set(err, EEXIST,
                               "cannot copy %s: somebody else wrote to %s meanwhile, or names in it differ only by "
                               "case; nothing is left of the copy",
                               from_name, to_name);
        if (r < 0)
                return err_set(err, -r, "cannot copy %s: %s", from_name, strerror(-r));

        if (work->out)
                return 0;

        return guest_home_adopt_entry(work->guest, inside, inside_name, err);
}

static char *inside_path(const char *text) {
        cleanup(free_ptr) char *whole = NULL;

        if (strncmp(text, "~/", 2) == 0)
                text += 2;
        else if (strcmp(text, "~") == 0 || !text[0])
                text = ".";

        if (text[0] == '/' || path_normalise(str_of(text), "/", &whole) < 0)
                return NULL;

        return str_dup(str_of(whole[1] ? whole + 1 : "."));
}

/* One that is archived has no home: an empty one in its place would be taken for it. */
static int copy_check_state(const struct guest *guest, struct err *err) {
        if (guest->state == GUEST_READY || guest->state == GUEST_STOPPED || guest->state == GUEST_RUNNING)
                return 0;
        return err_set(err, EINVAL, "the guest %s is %s: there is no home to copy from or to", guest->row.name,
                       guest_state_name(guest->state));
}

/* With a note for the dashboard, as for packing. */
static int copy_shown(const struct guest *guest, struct copy_work *work, struct err *err) {
        cleanup(free_ptr) char *what = str_format("%s: copying", guest->row.name);

        if (!what)
                return err_memory(err);

        work->progress.what = what;
        progress_open(&work->progress);
        int r = guest_inside(guest, copy_work, work, err);
        progress_close(&work->progress);

        return r;
}

int guest_copy(const struct guest *guest, const struct guest_copy *copy, struct err *err) {
        cleanup(copy_work_done) struct copy_work work = {
                .guest = guest, .outside = -1, .out = copy->out, .progress = PROGRESS_NONE
        };
        cleanup(free_ptr) char *whole = NULL, *cwd = getcwd(NULL, 0);

        work.inside = inside_path(copy->inside);
        if (!work.inside) {
                err_blame(err, ERR_USAGE);
                return err_set(err, EINVAL, "%s: a path in a guest is relative to its home", copy->inside);
        }

        if (!cwd || path_normalise(str_of(copy->outside), cwd, &whole) < 0)
                return err_set(err, EINVAL, "%s is not a path", copy->outside);

        char *slash = strrchr(whole, '/');
        work.outside_name = str_dup(str_of(slash[1] ? slash + 1 : "."));
        if (!work.outside_name)
                return no_memory(err);

        slash[slash == whole ? 1 : 0] = '\0';
        work.outside = open(whole, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (work.outside < 0)
                return err_errno(err, "cannot open %s", whole);

        int r = copy_check_state(guest, err);
        if (r == 0)
                r = guest_home_make(guest, "home", err);
        if (r < 0)
                return r;

        return copy_shown(guest, &work, err);
}

/*
 * Grants.
 */
const char *grant_refusal(const char *path, const char *home, const char *state, const char *config) {
        static const char *const keys[] = { ".ssh",
                                            ".gnupg",
                                            ".aws",
                                            ".azure",
                                            ".kube",
                                            ".docker",
                                            ".netrc",
                                            ".pki",
                                            ".password-store",
                                            ".config/gcloud",
                                            ".config/gh",
                                            ".local/share/keyrings",
                                            ".mozilla",
                                            ".config/chromium" };
        char place[4096];

        if (strcmp(path, "/") == 0 || strcmp(path, home) == 0 || path_is_within(home, path))
                return "it is a whole home, or a directory around one";

        if (path_is_within(path, state) || path_is_within(state, path) || path_is_within(path, config) ||
            path_is_within(config, path))
                return "Bailey's own files lie there";

        for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
                snprintf(place, sizeof place, "%s/%s", home, keys[i]);
                if (path_is_within(path, place) || path_is_within(place, path))
                        return "keys and sign-ins lie there";
        }

        return NULL;
}

static int grant_check(const char *path, struct err *err) {
        cleanup(free_ptr) char *state = NULL, *config = NULL, *home = path_home() ? realpath(path_home(), NULL) : NULL;

        if (dirs_state(&state) < 0 || dirs_config(&config) < 0 || !home)
                return err_set(err, ENOENT, "there is no home directory");

        const char *why = grant_refusal(path, home, state, config);
        if (!why)
                return 0;

        err_blame(err, ERR_REFUSED);
        return err_set(err, EPERM, "%s cannot be granted: %s", path, why);
}

/* Those of the administrator, as /home may be one; root's own guests have root's number. */
static bool is_of_the_system(const char *link, const struct stat *st) {
        return strchr(link + 1, '/') == NULL || (st->st_uid == 0 && geteuid() != 0);
}

/* A link on the way that is not the administrator's. In a place that a guest may write it leads where the guest wants.
 */
static int grant_check_links(const char *path, const char *real, struct err *err) {
        cleanup(free_ptr) char *whole = NULL, *cwd = getcwd(NULL, 0);
        struct stat st;

        if (!cwd || path_normalise(str_of(path), cwd, &whole) < 0)
                return err_set(err, EINVAL, "%s is not a path", path);

        for (char *slash = strchr(whole + 1, '/');; slash = strchr(slash + 1, '/')) {
                if (slash)
                        *slash = '\0';
                if (lstat(whole, &st) == 0 && S_ISLNK(st.st_mode) && !is_of_the_system(whole, &st)) {
                        err_blame(err, ERR_REFUSED);
                        return err_set(err, ELOOP,
                                       "%s is a link, which a guest could have made: %s is where it leads; "
                                       "name that if you mean it",
                                       whole, real);
                }
                if (!slash)
                        return 0;
                *slash = '/';
        }
}

/* A grant around others or further inside. If it must go: why. */
struct overlap_row {
        char *path;
        bool write;
        const char *why;
};

/* What else was granted, around a path and below it. Lists follow all grants, not the last command. */
struct overlap {
        const struct guest *guest;
        const char *path;
        bool granted;                 /* the path itself */
        bool revoke;                  /* one that cannot be given does not hold up the others */
        VEC(struct overlap_row) rows; /* in the order of paths, so that the innermost around a path is the last */
        struct err *err;
};

static void overlap_done(struct overlap *overlap) {
        for (size_t i = 0; i < overlap->rows.n; i++)
                free(overlap->rows.p[i].path);
        vec_done(&overlap->rows);
}

static int overlap_find(void *arg, const struct guest_grant *grant) {
        struct overlap *overlap = arg;

        if (strcmp(grant->path, overlap->path) == 0)
                overlap->granted = true;
        return 0;
}

static int overlap_note(struct overlap *overlap, const struct guest_grant *grant, const char *why) {
        struct overlap_row row = { .path = str_dup(str_of(grant->path)), .write = grant->write, .why = why };

        if (row.path && vec_push(&overlap->rows, row) == 0)
                return 0;

        free(row.path);
        return no_memory(overlap->err);
}

/* EACCES: the guest closed a directory on the way, to which it may write by another grant. */
static bool is_out_of_reach(int error) {
        return error == EACCES || grant_is_gone(error);
}

/* Before anything is given: what is granted further inside can be looked at afterwards. */
static int overlap_look(void *arg, const struct guest_grant *grant) {
        const struct overlap *overlap = arg;
        int r = 0;

        if (path_is_within(grant->path, overlap->path))
                r = guest_grant_look(grant->path);

        if (r == 0 || is_out_of_reach(-r))
                return 0;
        return err_set(overlap->err, -r, "cannot look at %s, which is granted too: %s", grant->path, strerror(-r));
}

/* More than the innermost grant around it, if there is one. */
static bool overlap_is_wider(const struct overlap *overlap, const struct guest_grant *grant) {
        for (size_t i = overlap->rows.n; i-- > 0;) {
                const struct overlap_row *row = &overlap->rows.p[i];

                if (!row->why && path_is_within(grant->path, row->path))
                        return grant->write && !row->write;
        }

        return true;
}

/* A guest that may write around a grant can put something else of the host's in its place, and would keep that by it.
 * One that gives no more than what is around it stays, whatever is there now: without it the guest may do more. */
static int overlap_judge(struct overlap *overlap, const struct guest_grant *grant, const char **ret_why) {
        char object[GRANT_OBJECT_MAX];

        if (!overlap_is_wider(overlap, grant))
                return 0;

        int r = guest_grant_object(grant->path, object);
        if (r < 0 && !is_out_of_reach(-r) && !overlap->revoke)
                return err_set(overlap->err, -r, "cannot look at %s, which is granted too: %s", grant->path,
                               strerror(-r));

        if (r < 0 && !is_out_of_reach(-r))
                *ret_why = "what is there cannot be looked at";
        else if (r == 0 && !grant->object[0])
                *ret_why = "an older Bailey did not note what was granted, and something else may be in its place; "
                           "grant it again if you mean what is there";
        else if (r < 0 || strcmp(object, grant->object) != 0)
                *ret_why = "what was granted is gone, or something else is in its place";

        return 0;
}

/* In the order of paths: what is further inside comes later, and holds. */
static int overlap_inner(struct overlap *overlap, const struct guest_grant *grant) {
        const char *goes = NULL;
        struct err why = { 0 };
        int r = overlap_judge(overlap, grant, &goes);

        if (r == 0)
                r = overlap_note(overlap, grant, goes);
        if (r < 0 || goes || overlap->guest->kind == GUEST_OWN)
                return r;

        r = guest_grant_give_again(overlap->guest, grant->path, grant->write, &why);
        if (r == 0)
                return 0;
        if (!overlap->revoke && !is_out_of_reach(-guest_grant_look(grant->path)))
                return err_set(overlap->err, -r, "%s", err_text(&why));

        log_warning("%s: what was granted there is not given again: %s", grant->path, err_text(&why));
        return 0;
}

static int overlap_give(void *arg, const struct guest_grant *grant) {
        struct overlap *overlap = arg;
        struct err why = { 0 };

        if (strcmp(grant->path, overlap->path) == 0) {
                if (overlap->revoke)
                        return 0;
                return overlap_note(overlap, grant, NULL);
        }
        if (path_is_within(grant->path, overlap->path))
                return overlap_inner(overlap, grant);
        if (!overlap->revoke || !path_is_within(overlap->path, grant->path))
                return 0;

        int r = overlap_note(overlap, grant, NULL);
        if (r < 0 || overlap->guest->kind == GUEST_OWN || (access(overlap->path, F_OK) < 0 && grant_is_gone(errno)))
                return r;

        /* The guest may have replaced it. That must not keep what is being revoked. */
        if (guest_grant_give_again(overlap->guest, overlap->path, grant->write, &why) < 0)
                log_warning("%s: what was granted there is not given again: %s", grant->path, err_text(&why));
        return 0;
}

/* What is in the place of a grant further inside was never granted: the row goes, so that no later start gives it. */
static int overlap_settle(struct guests *guests, struct overlap *overlap, struct err *err) {
        const char *id = overlap->guest->row.id;
        int r = guests_db_grants(guests->db, id, overlap_give, overlap, err);

        for (size_t i = 0; r >= 0 && i < overlap->rows.n; i++) {
                const struct overlap_row *row = &overlap->rows.p[i];

                if (!row->why)
                        continue;
                r = guests_db_remove_grant(guests->db, id, row->path, err);
                log_warning("%s is granted no more: %s", row->path, row->why);
        }

        if (r < 0)
                return r;

        return 0;
}

int guest_grant(struct guests *guests, struct guest *guest, const char *path, bool write, struct err *err) {
        cleanup(free_ptr) char *real = realpath(path, NULL);
        char object[GRANT_OBJECT_MAX];

        if (!real)
                return err_errno(err, "cannot grant %s", path);

        int r = grant_check_links(path, real, err);
        if (r < 0)
                return r;
        r = grant_check(real, err);
        if (r < 0)
                return r;

        r = guest_grant_object(real, object);
        if (r < 0)
                return err_set(err, -r, "cannot grant %s: %s", path, strerror(-r));

        cleanup(overlap_done) struct overlap inner = { .guest = guest, .path = real, .err = err };
        r = guests_db_grants(guests->db, guest->row.id, overlap_look, &inner, err);
        if (r < 0)
                return r;

        /* The row first: what is in the lists can then always be taken back. */
        const struct guest_grant row = { .path = real, .write = write, .object = object };
        r = guests_db_add_grant(guests->db, guest->row.id, &row, err);
        if (r == 0 && guest->kind != GUEST_OWN)
                r = guest_grant_give(guest, real, write, err);
        if (r < 0)
                return r;

        return overlap_settle(guests, &inner, err);
}

static int grant_find(struct guests *guests, const struct guest *guest, const char *path, struct err *err) {
        struct overlap overlap = { .guest = guest, .path = path };
        int r = guests_db_grants(guests->db, guest->row.id, overlap_find, &overlap, err);

        if (r < 0)
                return r;

        return overlap.granted;
}

static int revoke_lists(struct guests *guests, struct guest *guest, const char *path, struct err *err) {
        cleanup(overlap_done) struct overlap overlap = { .guest = guest, .path = path, .revoke = true, .err = err };
        int r = 0;

        if (guest->kind != GUEST_OWN)
                r = guest_grant_take(guest, path, err);

        if (r < 0)
                return r;

        return overlap_settle(guests, &overlap, err);
}

/* The grant that is meant: as it was named, whatever is there now (nothing, or a link that the guest made and that
 * leads to another grant); otherwise where the path leads. 1 or 0, as grant_find(). */
static int revoke_find(struct guests *guests, const struct guest *guest, const char *path, char **ret,
                       struct err *err) {
        cleanup(free_ptr) char *cwd = getcwd(NULL, 0), *whole = NULL;

        if (!cwd || path_normalise(str_of(path), cwd, &whole) < 0)
                return err_set(err, EINVAL, "%s is not a path", path);

        int r = grant_find(guests, guest, whole, err);
        if (r != 0) {
                *ret = take_ptr(&whole);
                return r;
        }

        *ret = realpath(path, NULL);
        if (!*ret && errno != EACCES && !grant_is_gone(errno))
                return err_errno(err, "cannot revoke %s", path);
        if (!*ret)
                *ret = take_ptr(&whole);

        return grant_find(guests, guest, *ret, err);
}

int guest_revoke(struct guests *guests, struct guest *guest, const char *path, struct err *err) {
        cleanup(free_ptr) char *granted = NULL;
        int r = revoke_find(guests, guest, path, &granted, err);

        if (r < 0)
                return r;
        if (r == 0) {
                err_blame(err, ERR_UNAVAILABLE);
                return err_set(err, ENOENT, "%s was not granted to %s", granted, guest->row.name);
        }

        /* The row last: what is in the lists can always be taken back. */
        r = revoke_lists(guests, guest, granted, err);
        if (r < 0)
                return r;

        r = guests_db_remove_grant(guests->db, guest->row.id, granted, err);
        if (r < 0)
                return r;

        if (guest->kind != GUEST_OWN && guest_is_running(guest))
                log_warning("%s runs: files below %s that it has open stay open to it until it is stopped",
                            guest->row.name, granted);
        return 0;
}
