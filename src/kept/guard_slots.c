/* SPDX-License-Identifier: Apache-2.0 */
/* Opening the registry of guards, and reading its slots. */
#include "kept/guard_registry_internal.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/files/listing.h"
#include "base/paths/path.h"
#include "base/processes/process.h"
#include "conf/dirs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

void registry_done(struct registry *registry) {
        guard_table_done(&registry->table);
        close_fd(&registry->lock);
        close_fd(&registry->dir);
}

/* -ENOENT: there is no place for it. */
static int registry_error(int error) {
        return path_error_answers(error) || error == EROFS ? -ENOENT : -error;
}

int registry_open(struct registry *ret, bool make) {
        cleanup(free_ptr) char *state = NULL, *path = NULL;

        if (dirs_state(&state) < 0)
                return -ENOENT;

        path = path_join(state, "guards");
        if (!path)
                return -ENOMEM;

        ret->dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (ret->dir < 0 && make && path_make_private_dir(path, NULL) == 0)
                ret->dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (ret->dir < 0)
                return registry_error(errno);

        ret->lock = openat(ret->dir, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (ret->lock < 0)
                return registry_error(errno);

        while (flock(ret->lock, LOCK_EX) < 0)
                if (errno != EINTR)
                        return -errno;

        guard_table_read(&ret->table, ret->dir, make);
        return 0;
}

enum { DYING_MS = 3000 }; /* for what was killed to be gone */

/* A slot that nobody else has locked, and whose first process has ended, is of a run that is over. -ENOENT: there is
 * none that is ours. */
static int slot_open(const struct registry *registry, int number, struct slot *ret) {
        char name[16];
        struct stat st;

        snprintf(name, sizeof name, "%d", number);
        *ret = (struct slot){ .number = number, .bytes = BUF(SLOT_READ_MAX) };
        ret->fd = openat(registry->dir, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
        if (ret->fd < 0)
                return path_error_answers(errno) ? -ENOENT : -errno;
        if (fstat(ret->fd, &st) < 0)
                return -errno;

        ret->live = flock(ret->fd, LOCK_EX | LOCK_NB) < 0;
        if (st.st_size == 0)
                return 0;

        if (st.st_size < SLOT_READ_MAX)
                (void)buf_reserve(&ret->bytes, (size_t)st.st_size + 1); /* in one read; without memory that says so */

        int r = fd_read_all(ret->fd, &ret->bytes);
        if (r < 0)
                return r;

        r = slot_parse(ret);

        /* Nothing of its own sandbox but init lives: the kernel need not be waited for, which ends its namespaces. */
        bool own = r == 0 && ret->id && registry->over && strcmp(ret->id, registry->over) == 0;
        if (r == 0 && !own && !ret->live && ret->first)
                ret->live = process_outlives(ret->first, ret->first_started, DYING_MS);
        if (ret->live)
                close_fd(&ret->fd); /* there may be more of them than descriptors */

        return r;
}

/* The cheapest look at a slot. */
static bool is_locked(const struct registry *registry, int number) {
        char name[16];

        snprintf(name, sizeof name, "%d", number);
        cleanup(close_fd) int fd = openat(registry->dir, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC);

        return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK;
}

static bool is_left_out(const struct registry *registry, struct guard_reach *reach, int number) {
        if (guard_reach_wants(reach, number))
                return false;

        return !guard_reach_doubts(reach, number) || is_locked(registry, number);
}

int registry_read(const struct registry *registry, struct guard_reach *reach, slots *ret) {
        cleanup(listing_close) struct listing *dir = listing_open(registry->dir, ".");
        int r = 0;

        if (!dir)
                return -errno;

        for (const struct dirent64 *entry; r == 0 && (entry = listing_next(dir));) {
                uint64_t number;
                struct slot slot;

                if (!str_to_u64(str_of(entry->d_name), SLOTS_MAX, &number))
                        continue;
                if (reach && is_left_out(registry, reach, (int)number))
                        continue;

                int opened = slot_open(registry, (int)number, &slot);
                if (opened < 0) {
                        slot_done(&slot);
                        if (opened != -ENOENT)
                                r = opened; /* then we do not know where other sandboxes write */
                        continue;
                }

                if (!slot.live)
                        guard_row_clear(registry->dir, &registry->table, (int)number);
                else if (reach)
                        guard_reach_heard(reach, (int)number);

                r = vec_push(ret, slot);
        }

        return r == 0 ? -listing_error(dir) : r;
}

int registry_reach(struct guard_reach *reach, const struct registry *registry, const struct guards *guards) {
        int r = 0;

        reach->table = &registry->table;
        reach->own = -1;
        for (size_t i = 0; i < guards->roots.n && r == 0; i++)
                r = guard_reach_add(reach, guards->roots.p[i]);

        return r;
}

bool roots_have(const char *path, const char *const *roots, size_t n) {
        for (size_t i = 0; i < n; i++)
                if (path_is_within(path, roots[i]))
                        return true;
        return false;
}

bool slots_write_to(const slots *all, const char *path) {
        for (size_t i = 0; i < all->n; i++)
                if (all->p[i].live && roots_have(path, all->p[i].roots.p, all->p[i].roots.n))
                        return true;
        return false;
}

bool slot_is_over(const struct slot *slot) {
        return !slot->live && slot->id;
}
