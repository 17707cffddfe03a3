/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/guest_disk.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/paths/path.h"
#include "guest/guest_inside.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NEWS_MAX = 160 };

struct measuring {
        const struct guest *guest;
        struct disk_usage *shared; /* the worker is another process */
};

static void file_write(const char *path, const char *text) {
        cleanup(close_fd) int fd = open(path, O_WRONLY | O_CLOEXEC);

        if (fd >= 0)
                (void)fd_write_all(fd, text, strlen(text)); /* without it the walk says what is closed */
}

/* A guest with this user's own id may close directories to this user as well: a namespace gives the rights over them.
 */
static void measure_become_root(void) {
        unsigned uid = geteuid(), gid = getegid();
        char map[64];

        if (uid == 0 || unshare(CLONE_NEWUSER) < 0)
                return;

        file_write("/proc/self/setgroups", "deny");
        snprintf(map, sizeof map, "0 %u 1\n", gid);
        file_write("/proc/self/gid_map", map);
        snprintf(map, sizeof map, "0 %u 1\n", uid);
        file_write("/proc/self/uid_map", map);
}

static int measure_work(void *arg, struct err *err) {
        const struct measuring *measuring = arg;

        if (measuring->guest->kind == GUEST_OWN)
                measure_become_root();

        cleanup(close_fd) int home =
            openat(measuring->guest->fd, "home", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (home < 0)
                return err_errno(err, "cannot open %s", measuring->guest->home);

        int r = disk_usage_of_tree(home, measuring->shared);
        if (r < 0)
                return err_set(err, -r, "cannot measure %s: %s", measuring->guest->home, strerror(-r));

        return 0;
}

int guest_disk_measure(const struct guest *guest, struct disk_usage *ret, struct err *err) {
        struct disk_usage *shared =
            mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        struct measuring measuring = { .guest = guest, .shared = shared };

        if (shared == MAP_FAILED)
                return err_memory(err);

        int r = guest_inside(guest, measure_work, &measuring, err);
        if (r == 0)
                *ret = *shared;

        munmap(shared, sizeof *shared);
        return r;
}

/*
 * What was found last: "STATE BYTES ENTRIES LIMIT CLEANING".
 */
void guest_disk_write(const struct guest *guest, const struct run_disk_news *news) {
        cleanup(free_ptr) char *path = path_join(guest->directory, "disk");
        struct err ignored = { 0 };
        char text[NEWS_MAX];
        int n = snprintf(text, sizeof text, "%u %" PRIu64 " %" PRIu64 " %" PRIu64 " %d\n", (unsigned)news->state,
                         news->usage.bytes, news->usage.entries, news->limit, news->cleaning);

        if (path)
                (void)path_replace_file(path, str_n(text, (size_t)n), 0600, &ignored); /* it is for people who look */
}

bool guest_disk_seen(const struct guest *guest, struct run_disk_news *ret) {
        cleanup(close_fd) int fd = guest->fd < 0 ? -1 : openat(guest->fd, "disk", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        char text[NEWS_MAX];
        ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text);
        struct str rest = str_n(text, n > 0 ? (size_t)n - 1 : 0), field;
        uint64_t numbers[5];

        for (size_t i = 0; i < 5; i++)
                if (!str_split(&rest, ' ', &field) || !str_to_u64(field, UINT64_MAX, &numbers[i]))
                        return false;
        if (numbers[0] >= RUN_DISK_STATES)
                return false;

        *ret = (struct run_disk_news){ .state = (enum run_disk_state)numbers[0],
                                       .usage = { .bytes = numbers[1], .entries = numbers[2] },
                                       .limit = numbers[3],
                                       .cleaning = numbers[4] != 0 };
        return true;
}

int guest_disk_check(const struct guest *guest, struct run_disk_news *ret, struct err *err) {
        struct run_disk_news news = { .limit = guest->row.disk };
        struct disk_room room;
        int r = disk_room(guest->fd, &room);

        if (r < 0)
                return err_set(err, -r, "cannot see how much room there is for %s: %s", guest->home, strerror(-r));

        bool low = disk_is_low(&room);
        if (low || news.limit) {
                r = guest_disk_measure(guest, &news.usage, err);
                if (r < 0)
                        return r;
        }

        news.state = run_disk_judge(&news.usage, news.limit, low);
        news.cleaning = news.state != RUN_DISK_WELL;
        guest_disk_write(guest, &news);
        *ret = news;

        return 0;
}

/*
 * While it runs. The limit may have been changed meanwhile.
 */
static int supervisor_measure(void *arg, struct disk_usage *ret, uint64_t *limit, struct err *err) {
        const struct guest *guest = arg;
        cleanup(guests_close) struct guests guests = { 0 };
        cleanup(guest_done) struct guest now = GUEST_NONE;
        struct err ignored = { 0 };

        /* A database that cannot be read now leaves the limit as it is. */
        if (guests_open_as_is(&guests, &ignored) == 0 && guest_find(&guests, guest->row.id, &now, &ignored) == 0)
                *limit = now.row.disk;

        return guest_disk_measure(guest, ret, err);
}

int guest_disk_limit_changed(const struct guest *guest, struct err *err) {
        cleanup(free_ptr) char *path = path_join(guest->directory, "limit");

        if (!path)
                return err_memory(err);
        return path_replace_file(path, STR("changed\n"), 0600, err);
}

/* Whoever makes it anew makes another file at another time. */
static uint64_t supervisor_limit_stamp(void *arg) {
        const struct guest *guest = arg;
        struct stat st;

        if (guest->fd < 0 || fstatat(guest->fd, "limit", &st, AT_SYMLINK_NOFOLLOW) < 0)
                return 0;
        return (uint64_t)st.st_ctim.tv_sec * NS_PER_SECOND + (uint64_t)st.st_ctim.tv_nsec + (uint64_t)st.st_ino;
}

static void supervisor_tell(void *arg, const struct run_disk_news *news) {
        guest_disk_write(arg, news);
}

const struct run_disk_calls guest_disk_calls = { .measure = supervisor_measure,
                                                 .limit_stamp = supervisor_limit_stamp,
                                                 .tell = supervisor_tell };

static int enter_refuse(const struct guest *guest, const struct run_disk_news *news, struct err *err) {
        cleanup(buf_done) struct buf why = BUF(512);

        if (run_disk_text(news, &why) < 0)
                return err_memory(err);

        return err_set(
            err, EDQUOT,
            "the guest %s is frozen: %.*s. It goes on when files are removed (from here, in %s), or with "
            "a higher limit (bailey guest set --disk SIZE %s). To remove them from inside, stop it and enter "
            "it again: then it can delete and not write",
            guest->row.name, STR_FMT(buf_str(&why)), guest->home, guest->row.name);
}

int guest_disk_enter(const struct guest *guest, bool *ret_clean, struct err *err) {
        struct run_disk_news news;

        *ret_clean = false;
        if (!guest_disk_seen(guest, &news) || (news.state == RUN_DISK_WELL && !news.cleaning))
                return 0;
        if (!news.cleaning)
                return enter_refuse(guest, &news, err);

        news.limit = guest->row.disk;
        struct disk_room room;
        int r = disk_room(guest->fd, &room);
        if (r == 0)
                r = guest_disk_measure(guest, &news.usage, err);
        if (r < 0)
                return 0; /* it stays as it is */

        *ret_clean = run_disk_judge(&news.usage, news.limit, disk_is_low(&room)) == RUN_DISK_WELL;
        return 0;
}
