/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/recipe/provision_files.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "guest/guest_home.h"
#include "guest/guest_inside.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PART_NAME ".bailey-provision.part"
enum { TARGET_MAX = 4096 };

struct file_work {
        const struct guest *guest;
        const struct recipe_step *step;
};

/* The group bits are the mask of the access list, by which the host user comes in. */
static mode_t open_mode(const struct guest *guest, mode_t mode) {
        return guest->kind == GUEST_OWN ? mode : mode | (mode & 0700) >> 3;
}

/* One directory below an open one, made where it is missing. Returns its descriptor. */
static int directory_enter(const struct guest *guest, int parent, const char *name, struct err *err) {
        bool made = mkdirat(parent, name, open_mode(guest, 0700)) == 0;

        if (!made && errno != EEXIST)
                return err_errno(err, "cannot make the directory %s", name);

        if (made) {
                int r = guest_home_adopt_entry(guest, parent, name, err);
                if (r < 0)
                        return r;
        }

        int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 && (errno == ELOOP || errno == ENOTDIR))
                return err_set(err, ELOOP, "%s is a link or a file; links are not followed", name);

        if (fd < 0)
                return err_errno(err, "cannot open the directory %s", name);

        return fd;
}

/* The directory that the last name of the path is in; that name is in *ret_name. */
static int parent_open(const struct file_work *work, struct str *ret_name, struct err *err) {
        cleanup(close_fd) int dir = openat(work->guest->fd, "home", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        struct str rest = str_of(work->step->path), part;

        if (dir < 0)
                return err_errno(err, "cannot open %s", work->guest->home);

        while (str_split(&rest, '/', &part) && rest.n) {
                cleanup(free_ptr) char *name = str_dup(part);
                if (!name)
                        return err_memory(err);

                int next = directory_enter(work->guest, dir, name, err);
                if (next < 0)
                        return next;

                close_fd(&dir);
                dir = next;
        }

        *ret_name = part;
        return take_fd(&dir);
}

static int part_write(const struct file_work *work, int dir, struct err *err) {
        struct str text = str_of(work->step->text);

        (void)unlinkat(dir, PART_NAME, 0);
        cleanup(close_fd) int fd =
            openat(dir, PART_NAME, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, open_mode(work->guest, 0600));
        if (fd < 0)
                return err_errno(err, "cannot make a file beside it");

        int r = fd_write_all(fd, text.p, text.n);
        if (r == 0 && ((work->step->mode && fchmod(fd, work->step->mode) < 0) || fsync(fd) < 0))
                r = -errno;

        if (r < 0)
                return err_set(err, -r, "cannot write it: %s", strerror(-r));

        return 0;
}

/* From the directory of the link up to the home, and down again: it holds wherever the home is mounted. */
static int link_make(const struct file_work *work, int dir, struct err *err) {
        cleanup(buf_done) struct buf target = BUF(TARGET_MAX);
        int r = 0;

        for (const char *c = work->step->path; *c && r == 0; c++)
                if (*c == '/')
                        r = buf_add(&target, "../");

        if (r == 0)
                r = buf_add(&target, work->step->text);

        const char *text = r < 0 ? NULL : buf_text(&target);
        if (!text)
                return err_set(err, ENAMETOOLONG, "the link is too long");

        (void)unlinkat(dir, PART_NAME, 0);
        if (symlinkat(text, dir, PART_NAME) < 0)
                return err_errno(err, "cannot make the link");

        if (work->guest->kind != GUEST_OWN &&
            fchownat(dir, PART_NAME, work->guest->ids.inner_uid, work->guest->ids.inner_gid, AT_SYMLINK_NOFOLLOW) < 0)
                return err_errno(err, "cannot give the link to the guest");

        return 0;
}

static int part_place(const struct file_work *work, int dir, const char *name, struct err *err) {
        int r = work->step->kind == RECIPE_LINK ? link_make(work, dir, err) : part_write(work, dir, err);

        if (r == 0 && work->step->kind == RECIPE_FILE)
                r = guest_home_adopt_entry(work->guest, dir, PART_NAME, err);

        if (r == 0 && renameat(dir, PART_NAME, dir, name) < 0)
                r = errno == EISDIR ? err_set(err, EISDIR, "a directory of this name is there")
                                    : err_errno(err, "cannot put it in place");

        if (r < 0)
                (void)unlinkat(dir, PART_NAME, 0);

        return r;
}

static int file_work(void *arg, struct err *err) {
        const struct file_work *work = arg;
        struct str last = { 0 };
        cleanup(close_fd) int dir = parent_open(work, &last, err);

        if (dir < 0)
                return dir;

        cleanup(free_ptr) char *name = str_dup(last);
        if (!name)
                return err_memory(err);
        if (work->step->kind != RECIPE_DIRECTORY)
                return part_place(work, dir, name, err);

        int made = directory_enter(work->guest, dir, name, err);
        if (made < 0)
                return made;

        close(made);
        return 0;
}

int provision_file_step(const struct guest *guest, const struct recipe_step *step, struct err *err) {
        struct file_work work = { guest, step };
        int r = guest_home_make(guest, "home", err);

        if (r < 0)
                return r;

        return guest_inside(guest, file_work, &work, err);
}
