/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/linux/cgroup.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/paths/path.h"
#include "base/random.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/magic.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define MOUNT "/sys/fs/cgroup"
#define PREFIX "bailey-"
enum { FILE_TEXT_MAX = 65536, END_WAIT_MS = 2000, SWEEP_EVERY = 16, CPU_PERIOD_US = 100000 };

static int read_at(int dir, const char *name, struct buf *into) {
        cleanup(close_fd) int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return -errno;

        return fd_read_all(fd, into);
}

static int write_at(int dir, const char *name, const char *text) {
        cleanup(close_fd) int fd = openat(dir, name, O_WRONLY | O_CLOEXEC);
        if (fd < 0)
                return -errno;

        return fd_write_all(fd, text, strlen(text));
}

static bool has_word(struct str words, const char *wanted) {
        struct str word;
        while (str_split(&words, ' ', &word))
                if (str_is(str_trim(word), wanted))
                        return true;
        return false;
}

/* The line "0::/path". One that begins with /.. is outside what we can see. */
int cgroup_path(pid_t pid, char ret[static PATH_MAX]) {
        char file[32];
        cleanup(buf_done) struct buf text = BUF(FILE_TEXT_MAX);
        struct str rest, line;

        if (pid)
                snprintf(file, sizeof file, "/proc/%d/cgroup", (int)pid);
        else
                snprintf(file, sizeof file, "/proc/self/cgroup");

        int r = read_at(AT_FDCWD, file, &text);
        for (rest = buf_str(&text); r == 0 && str_split(&rest, '\n', &line);) {
                if (!str_starts(line, STR("0::/")) || str_starts(line, STR("0::/..")))
                        continue;

                struct str below = str_skip(line, 3);
                int n = snprintf(ret, PATH_MAX, MOUNT "%.*s", STR_FMT(below));
                while (n > 0 && n < PATH_MAX && ret[n - 1] == '/')
                        ret[--n] = '\0';

                if (n > 0 && n < PATH_MAX)
                        return 0;

                return -ENAMETOOLONG;
        }

        if (r < 0)
                return r;

        return -ENOENT;
}

/* Controllers for the groups in this one: there already, or switched on now. */
static bool gives_controllers(int above) {
        cleanup(buf_done) struct buf text = BUF(FILE_TEXT_MAX);
        if (read_at(above, "cgroup.subtree_control", &text) < 0)
                return false;

        bool memory = has_word(buf_str(&text), "memory"), processes = has_word(buf_str(&text), "pids");
        if (!has_word(buf_str(&text), "cpu"))
                (void)write_at(above, "cgroup.subtree_control", "+cpu"); /* good to have */

        return (memory || write_at(above, "cgroup.subtree_control", "+memory") == 0) &&
               (processes || write_at(above, "cgroup.subtree_control", "+pids") == 0);
}

/* The group that ours is in; the root, whose processes do not count, holds other groups itself. */
static enum cgroup_lack open_above(int *ret_above, int *ret_home) {
        struct statfs fs;
        char own[PATH_MAX];

        if (statfs(MOUNT, &fs) < 0 || fs.f_type != CGROUP2_SUPER_MAGIC || cgroup_path(0, own) < 0)
                return CGROUP_NO_MOUNT;

        cleanup(close_fd) int here = open(own, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (strcmp(own, MOUNT) != 0)
                *strrchr(own, '/') = '\0';

        cleanup(close_fd) int above = open(own, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (here < 0 || above < 0 || faccessat(above, ".", W_OK, 0) < 0 ||
            faccessat(above, "cgroup.procs", W_OK, 0) < 0)
                return CGROUP_NOT_OURS;

        if (!gives_controllers(above))
                return CGROUP_NO_CONTROLLERS;

        *ret_home = openat(here, "cgroup.procs", O_WRONLY | O_CLOEXEC); /* without: see the sweep */
        *ret_above = take_fd(&above);

        return CGROUP_WORKS;
}

enum cgroup_lack cgroup_look(void) {
        int above = -1, home = -1;
        enum cgroup_lack lack = open_above(&above, &home);
        close_fd(&above);
        close_fd(&home);
        return lack;
}

/* Groups of supervisors that are gone, and whose init is too. One with processes in it cannot be removed. */
static void cgroup_sweep(int above) {
        int copy = openat(above, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *d = copy >= 0 ? fdopendir(copy) : NULL;
        if (!d) {
                close_fd(&copy);
                return;
        }

        for (struct dirent *entry; (entry = readdir(d));) {
                struct str rest = str_of(entry->d_name), number;
                uint64_t pid;

                if (!str_starts(rest, STR(PREFIX)))
                        continue;

                rest = str_skip(rest, strlen(PREFIX));
                if (str_split(&rest, '-', &number) && rest.n && str_to_u64(number, INT_MAX, &pid) && pid > 0 &&
                    kill((pid_t)pid, 0) < 0 && errno == ESRCH)
                        (void)unlinkat(above, entry->d_name, AT_REMOVEDIR);
        }

        closedir(d);
}

static bool at_the_top(int above) {
        struct stat st, top;
        return fstat(above, &st) == 0 && stat(MOUNT, &top) == 0 && st.st_ino == top.st_ino;
}

struct cgroup cgroup_make(void) {
        struct cgroup cgroup = CGROUP_NONE;
        uint32_t number = 0;

        if (open_above(&cgroup.above, &cgroup.home) != CGROUP_WORKS)
                return CGROUP_NONE;

        random_bytes(&number, sizeof number);

        /* In the root directory, which nobody may write to but by capability, init cannot do its part. */
        if (number % SWEEP_EVERY == 0 || at_the_top(cgroup.above))
                cgroup_sweep(cgroup.above);

        snprintf(cgroup.name, sizeof cgroup.name, PREFIX "%d-%08" PRIx32, (int)getpid(), number);
        if (mkdirat(cgroup.above, cgroup.name, 0700) == 0)
                cgroup.dir = openat(cgroup.above, cgroup.name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (cgroup.dir < 0)
                cgroup_remove(&cgroup);

        return cgroup;
}

static int limit_set(const struct cgroup *cgroup, const char *file, uint64_t value, struct err *err) {
        char text[32];
        snprintf(text, sizeof text, "%" PRIu64, value);
        int r = write_at(cgroup->dir, file, text);
        if (r < 0)
                return err_set(err, -r, "limits: cannot write %s of the sandbox's control group: %s", file,
                               strerror(-r));

        return 0;
}

int cgroup_limit(const struct cgroup *cgroup, const struct plan *plan, struct err *err) {
        int r = 0;

        if (cgroup->dir < 0)
                return 0;

        if (plan->group.memory) {
                r = limit_set(cgroup, "memory.max", plan->group.memory, err);
                (void)write_at(cgroup->dir, "memory.swap.max", "0"); /* not there without swap */
        }

        if (r == 0 && plan->group.processes)
                r = limit_set(cgroup, "pids.max", plan->group.processes + CGROUP_RESERVED_PROCESSES, err);

        if (r == 0 && plan->group.cpu_percent) {
                char text[48];

                snprintf(text, sizeof text, "%" PRIu64 " %u", plan->group.cpu_percent * (CPU_PERIOD_US / 100),
                         CPU_PERIOD_US);
                r = write_at(cgroup->dir, "cpu.max", text);
                if (r < 0)
                        r = err_set(err, -r, "limits: cannot write cpu.max of the sandbox's control group: %s",
                                    strerror(-r));
        }

        return r;
}

static bool is_set(const struct cgroup *cgroup, const char *file) {
        cleanup(buf_done) struct buf text = BUF(FILE_TEXT_MAX);
        return read_at(cgroup->dir, file, &text) == 0 && text.n > 0 && !str_starts(buf_str(&text), STR("max"));
}

const char *cgroup_missing(const struct cgroup *cgroup, const struct plan_group *limits) {
        if (limits->memory && !is_set(cgroup, "memory.max"))
                return "memory";
        if (limits->processes && !is_set(cgroup, "pids.max"))
                return "the number of processes";
        if (limits->cpu_percent && !is_set(cgroup, "cpu.max"))
                return "the share of processors";
        return NULL;
}

/* "KEY NUMBER" among the lines of a file; 0 without it. */
static uint64_t read_count(const struct cgroup *cgroup, const char *file, struct str key) {
        cleanup(buf_done) struct buf text = BUF(FILE_TEXT_MAX);
        struct str rest, line, word;
        uint64_t n = 0;

        if (read_at(cgroup->dir, file, &text) < 0)
                return 0;

        for (rest = buf_str(&text); str_split(&rest, '\n', &line);)
                if (str_split(&line, ' ', &word) && str_eq(word, key) && str_to_u64(line, UINT64_MAX, &n))
                        return n;

        return 0;
}

struct sandbox_met cgroup_met(const struct cgroup *cgroup) {
        struct sandbox_met met = { 0 };

        if (cgroup->dir >= 0) {
                met.memory = read_count(cgroup, "memory.events", STR("oom_kill"));
                met.processes = read_count(cgroup, "pids.events", STR("max"));
        }
        return met;
}

void cgroup_kill(const struct cgroup *cgroup) {
        if (cgroup->dir >= 0)
                (void)write_at(cgroup->dir, "cgroup.kill",
                               "1"); /* since 5.14; the sandbox's own namespace does the same */
}

static bool cgroup_populated(int dir) {
        cleanup(buf_done) struct buf text = BUF(FILE_TEXT_MAX);
        struct str rest, line;

        if (read_at(dir, "cgroup.events", &text) < 0)
                return false;

        for (rest = buf_str(&text); str_split(&rest, '\n', &line);)
                if (str_is(line, "populated 1"))
                        return true;

        return false;
}

/* The last process may still be on its way out. */
static void await_end(int dir) {
        for (int waited = 0; waited < END_WAIT_MS && cgroup_populated(dir); waited += 10)
                (void)poll(NULL, 0, 10);
}

void cgroup_remove(struct cgroup *cgroup) {
        if (cgroup->name[0] && unlinkat(cgroup->above, cgroup->name, AT_REMOVEDIR) < 0 && errno == EBUSY &&
            cgroup->dir >= 0) {
                await_end(cgroup->dir);
                (void)unlinkat(cgroup->above, cgroup->name, AT_REMOVEDIR);
        }

        close_fd(&cgroup->dir);
        close_fd(&cgroup->home);
        close_fd(&cgroup->above);
        cgroup->name[0] = '\0';
}

void cgroup_leave(const struct cgroup *cgroup) {
        if (cgroup->dir >= 0 && cgroup->home >= 0 && write(cgroup->home, "0", 1) == 1)
                (void)unlinkat(cgroup->above, cgroup->name, AT_REMOVEDIR);
}
