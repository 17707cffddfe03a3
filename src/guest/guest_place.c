/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/guest_place.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/paths/path.h"
#include "conf/dirs.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { NAME_MOST = 32, INFO_MOST = 4096 };

static const char *const kind_names[] = { "rootless", "account", "own" };
static_assert(sizeof kind_names / sizeof *kind_names == GUEST_KINDS, "one name each");

static int no_memory(struct err *err) {
        return err_set(err, ENOMEM, "out of memory");
}

const char *guest_kind_name(enum guest_kind kind) {
        return kind_names[kind];
}

static bool kind_parse(const char *text, enum guest_kind *ret) {
        for (unsigned i = 0; i < GUEST_KINDS; i++)
                if (strcmp(text, kind_names[i]) == 0) {
                        *ret = (enum guest_kind)i;
                        return true;
                }
        return false;
}

void guests_close(struct guests *guests) {
        guests_db_close(guests->db);
        free(guests->top);
        *guests = (struct guests){ 0 };
}

void guest_done(struct guest *guest) {
        guest_row_done(&guest->row);
        free(guest->directory);
        free(guest->home);
        close_fd(&guest->fd);
        close_fd(&guest->lock);
        *guest = GUEST_NONE;
}

int guest_check_name(const char *name, struct err *err) {
        size_t n = strlen(name);
        bool good = n > 0 && n <= NAME_MOST && ascii_is_alnum(name[0]);

        for (size_t i = 0; i < n && good; i++)
                good = ascii_is_alnum(name[i]) || strchr("-_.", name[i]);

        if (good)
                return 0;

        err_blame(err, ERR_USAGE);
        return err_set(
            err, EINVAL,
            "a guest's name has 1 to %d letters, digits, '-', '_' and '.', and begins with a letter or digit",
            NAME_MOST);
}

/* Inside, a guest has the number of whoever made it, as the account's entry in /etc/passwd expects. Root has none to
 * give away. */
static struct sandbox_ids ids_of(const struct guest_row *row, enum guest_kind kind) {
        struct sandbox_ids ids = { .uid = row->uid, .gid = row->gid };
        bool named = kind == GUEST_ACCOUNT;

        if (named || geteuid() == 0)
                ids.inner_uid = row->uid;
        else
                ids.inner_uid = geteuid();
        if (named || getegid() == 0)
                ids.inner_gid = row->gid;
        else
                ids.inner_gid = getegid();
        return ids;
}

int guest_of_row(const struct guests *guests, struct guest_row *row, struct guest *ret, struct err *err) {
        struct guest guest = GUEST_NONE;

        guest.row = *row;
        *row = (struct guest_row){ 0 };
        if (!kind_parse(guest.row.kind, &guest.kind) || !guest_state_parse(guest.row.state, &guest.state)) {
                int r = err_set(err, EBADMSG, "the guest %s is of a kind or in a state that is not known: %s, %s",
                                guest.row.name, guest.row.kind, guest.row.state);

                guest_done(&guest);
                return r;
        }

        if (!guest_state_parse(guest.row.before, &guest.before))
                guest.before = GUEST_STOPPED;

        guest.ids = ids_of(&guest.row, guest.kind);
        guest.directory = path_join(guests->top, guest.row.id);
        guest.home = guest.directory ? path_join(guest.directory, "home") : NULL;
        if (!guest.home) {
                guest_done(&guest);
                return no_memory(err);
        }

        guest.fd = open(guest.directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        *ret = guest;

        return 0;
}

int guest_find(struct guests *guests, const char *name, struct guest *ret, struct err *err) {
        cleanup(guest_row_done) struct guest_row row = { 0 };
        int r = guests_db_find(guests->db, name, &row, err);

        if (r == -ENOENT)
                err_blame(err, ERR_UNAVAILABLE);
        if (r < 0)
                return r;

        return guest_of_row(guests, &row, ret, err);
}

static int open_lock(const struct guest *guest, const char *name, struct err *err) {
        int fd = guest->fd < 0 ? -1 : openat(guest->fd, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

        if (fd < 0)
                return err_errno(err, "cannot open %s/%s", guest->directory, name);
        return fd;
}

int guest_hold(struct guests *guests, struct guest *guest, unsigned wait_ms, struct err *err) {
        const struct timespec pause = { .tv_nsec = 20 * 1000 * 1000 };
        uint64_t until = clock_ns() + (uint64_t)wait_ms * NS_PER_MS;
        cleanup(close_fd) int fd = open_lock(guest, "lock", err);

        if (fd < 0)
                return fd;

        while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
                if (errno != EWOULDBLOCK && errno != EINTR)
                        return err_errno(err, "cannot lock %s", guest->directory);
                if (clock_ns() >= until)
                        return err_set(err, EBUSY, "another command is at work on the guest %s; try again",
                                       guest->row.name);
                nanosleep(&pause, NULL);
        }

        /* It may have been changed or deleted meanwhile. */
        cleanup(free_ptr) char *id = strdup(guest->row.id);
        if (!id)
                return no_memory(err);

        guest_done(guest);
        int r = guest_find(guests, id, guest, err);
        if (r < 0)
                return r;

        guest->lock = take_fd(&fd);
        return 0;
}

void guest_let_go(struct guest *guest) {
        close_fd(&guest->lock);
}

bool guest_is_archived(const struct guest *guest) {
        return guest->state == GUEST_ARCHIVED || (guest->state == GUEST_BROKEN && guest->before == GUEST_ARCHIVED);
}

bool guest_is_running(const struct guest *guest) {
        cleanup(close_fd) int fd = guest->fd < 0 ? -1 : openat(guest->fd, "run.lock", O_RDWR | O_NOFOLLOW | O_CLOEXEC);

        return fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK;
}

int guest_take_run_lock(const struct guest *guest, int *ret_fd, struct err *err) {
        cleanup(close_fd) int fd = open_lock(guest, "run.lock", err);

        if (fd < 0)
                return fd;
        if (flock(fd, LOCK_EX | LOCK_NB) < 0)
                return err_set(err, EBUSY, "the guest %s runs already", guest->row.name);

        *ret_fd = take_fd(&fd);
        return 0;
}

/*
 * The file beside the home.
 */
int guest_write_info(const struct guest *guest, struct err *err) {
        cleanup(free_ptr) char *path = path_join(guest->directory, "info");
        cleanup(free_ptr) char *text =
            str_format("%s\n%s\n%u\n%u\n", guest->row.name, guest->row.kind, guest->row.uid, guest->row.gid);

        if (!path || !text)
                return no_memory(err);
        return path_replace_file(path, str_of(text), 0600, err);
}

static bool info_number(struct str text, uint32_t *ret) {
        uint64_t number;

        if (!str_to_u64(text, UINT32_MAX - 1, &number))
                return false;
        *ret = (uint32_t)number;
        return true;
}

/* 0: what the file says is in *ret; -ENOENT: there is none, or it says nothing that can be used. */
static int info_read(const char *directory, struct guest_row *ret) {
        cleanup(buf_done) struct buf text = BUF(INFO_MOST);
        cleanup(free_ptr) char *path = path_join(directory, "info");
        struct str rest, part[4];
        enum guest_kind kind;
        struct guest_row row = { 0 };
        size_t n = 0;

        if (!path || path_read_file(path, INFO_MOST, &text, NULL) < 0)
                return -ENOENT;

        rest = buf_str(&text);
        while (n < 4 && str_split(&rest, '\n', &part[n]))
                n++;

        if (n < 4 || !info_number(part[2], &row.uid) || !info_number(part[3], &row.gid))
                return -ENOENT;

        row.name = str_dup(part[0]);
        row.kind = str_dup(part[1]);
        if (!row.name || !row.kind || guest_check_name(row.name, NULL) < 0 || !kind_parse(row.kind, &kind)) {
                guest_row_done(&row);
                return -ENOENT;
        }

        *ret = row;
        return 0;
}

static int guests_take_over_one(struct guests *guests, const char *id, struct err *err) {
        cleanup(free_ptr) char *directory = path_join(guests->top, id);
        cleanup(free_ptr) char *home = directory ? path_join(directory, "home") : NULL;
        cleanup(guest_row_done) struct guest_row row = { 0 };

        if (!home)
                return no_memory(err);
        if (info_read(directory, &row) < 0)
                return 0;

        row.id = str_dup(str_of(id));
        row.state = str_dup(str_of(guest_state_name(access(home, F_OK) == 0 ? GUEST_STOPPED : GUEST_ARCHIVED)));
        row.doing = str_dup(STR(""));
        row.workspace = str_dup(STR(""));
        row.reason = str_dup(STR("taken over: the database was lost"));
        if (!row.id || !row.state || !row.doing || !row.workspace || !row.reason)
                return no_memory(err);

        int r = guests_db_add(guests->db, &row, err);
        if (r == -EEXIST)
                return 0;

        return r;
}

/* A new database beside guests that are there: the old one was lost or moved away. All of them or, for whoever is
 * killed meanwhile, no database: the next command begins again. */
static int guests_take_over(struct guests *guests, struct err *err) {
        cleanup(free_ptr) char *top = str_dup(str_of(guests->top));
        struct dirent **names = NULL;
        int n = top ? scandir(top, &names, NULL, alphasort) : -1, r = 0;

        for (int i = 0; i < n; i++) {
                if (r == 0 && names[i]->d_name[0] != '.')
                        r = guests_take_over_one(guests, names[i]->d_name, err);
                free(names[i]);
        }

        free(names);
        if (r < 0)
                return r;

        return guests_db_commit(guests->db, err);
}

bool guests_are_there(void) {
        cleanup(free_ptr) char *state = NULL;
        cleanup(free_ptr) char *path = dirs_state(&state) < 0 ? NULL : path_join(state, "guests.db");

        return path && access(path, F_OK) == 0;
}

int guests_open_as_is(struct guests *ret, struct err *err) {
        cleanup(free_ptr) char *state = NULL, *path = NULL;
        cleanup(guests_close) struct guests guests = { 0 };
        bool fresh = false;
        int r = dirs_state(&state);

        if (r == -ENOENT)
                return err_set(err, ENOENT, "there is no home directory to keep guests in");
        if (r < 0 || !(guests.top = path_join(state, "guests")) || !(path = path_join(state, "guests.db")))
                return no_memory(err);

        r = path_make_private_dir(guests.top, err);
        if (r < 0)
                return r;

        r = guests_db_open(path, &guests.db, &fresh, err);
        if (r < 0)
                return r;

        if (fresh)
                r = guests_take_over(&guests, err);
        else
                r = 0;
        if (r < 0)
                return r;

        *ret = guests;
        guests = (struct guests){ 0 };

        return 0;
}

void guests_pause(struct guests *guests) {
        guests_db_close(guests->db);
        guests->db = NULL;
}

int guests_resume(struct guests *guests, struct err *err) {
        struct guests again = { 0 };
        int r = guests_open_as_is(&again, err);

        if (r < 0)
                return r;

        guests->db = again.db;
        again.db = NULL;
        guests_close(&again);

        return 0;
}

/*
 * Steps.
 */
int guest_move(struct guests *guests, struct guest *guest, enum guest_step_kind step, const char *reason,
               const char *doing, const char *note, struct err *err) {
        enum guest_state to;
        int r = guest_step(step, guest->state, guest->before, guest->row.name, &to, err);

        if (r < 0)
                return r;

        const struct guest_change change = { .step = guest_step_name(step),
                                             .state = guest_state_name(to),
                                             .before = to == GUEST_BROKEN ? guest_state_name(guest->state) : NULL,
                                             .reason = text_or(reason, ""),
                                             .doing = text_or(doing, ""),
                                             .note = text_or(note, "") };
        r = guests_db_change(guests->db, guest->row.id, &change, err);
        if (r < 0)
                return r;

        if (to == GUEST_BROKEN)
                guest->before = guest->state;
        guest->state = to;

        return 0;
}

int guest_begin(struct guests *guests, struct guest *guest, enum guest_step_kind step, const char *note,
                struct err *err) {
        enum guest_state to;
        int r = guest_step(step, guest->state, guest->before, guest->row.name, &to, err);

        if (r < 0)
                return r;

        const struct guest_change change = { .step = guest_step_name(step),
                                             .doing = guest_step_name(step),
                                             .note = note ? note : "" };
        return guests_db_change(guests->db, guest->row.id, &change, err);
}
