/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cgroup v2: limits need a group below our own that we may make, with the memory and pids controllers in it. A group is
 * really made and removed again; no process is moved.
 */
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/path.h"
#include "sandbox/linux/probe_try.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TEXT_MAX = 1 << 20 };

static int read_text(const char *path, struct buf *into) {
        cleanup(close_fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
        return fd < 0 ? -errno : fd_read_all(fd, into);
}

/* Where cgroup2 is mounted: the fifth word of its line in mountinfo, the type is the first after " - ". */
static char *cgroup2_mount(void) {
        cleanup(buf_done) struct buf text = BUF(TEXT_MAX);
        if (read_text("/proc/self/mountinfo", &text) < 0)
                return NULL;
        struct str rest = buf_str(&text), line;
        while (str_split(&rest, '\n', &line)) {
                struct str words = line, word, where = { 0 };
                int field = 0;
                while (str_split(&words, ' ', &word)) {
                        if (++field == 5)
                                where = word;
                        if (field > 5 && str_is(word, "-"))
                                break;
                }
                if (str_split(&words, ' ', &word) && str_is(word, "cgroup2"))
                        return str_dup(where);
        }
        return NULL;
}

/* Our own group, as a path below the mount: the line "0::/path". */
static char *own_group(const char *mount) {
        cleanup(buf_done) struct buf text = BUF(TEXT_MAX);
        if (read_text("/proc/self/cgroup", &text) < 0)
                return NULL;
        struct str rest = buf_str(&text), line;
        while (str_split(&rest, '\n', &line))
                if (str_starts(line, STR("0::/"))) {
                        cleanup(free_ptr) char *below = str_dup(str_skip(line, 4));
                        return below ? path_join(mount, below) : NULL;
                }
        return NULL;
}

static bool has_word(struct str words, const char *wanted) {
        struct str word;
        while (str_split(&words, ' ', &word))
                if (str_is(str_trim(word), wanted))
                        return true;
        return false;
}

/* memory and pids must be among the group's controllers. */
static bool has_controllers(const char *group, struct probe_result *r) {
        cleanup(buf_done) struct buf text = BUF(TEXT_MAX);
        cleanup(free_ptr) char *path = path_join(group, "cgroup.controllers");
        if (!path || read_text(path, &text) < 0) {
                result_fail(r, PROBE_MISSING, CAUSE_CGROUP_V1, errno, "cgroup.controllers");
                return false;
        }
        struct str words = buf_str(&text);
        if (words.n > 0 && words.p[words.n - 1] == '\n')
                words.n--;
        if (has_word(words, "memory") && has_word(words, "pids"))
                return true;
        bool v1 = access("/sys/fs/cgroup/memory", F_OK) == 0;
        char detail[96];
        (void)snprintf(detail, sizeof detail, "controllers here: %.*s", words.n ? (int)words.n : 4,
                       words.n ? words.p : "none");
        result_fail(r, PROBE_BLOCKED, v1 ? CAUSE_CGROUP_V1 : CAUSE_NOT_DELEGATED, 0, detail);
        return false;
}

void try_cgroup(struct probe_result *r) {
        cleanup(free_ptr) char *mount = cgroup2_mount();
        cleanup(free_ptr) char *group = mount ? own_group(mount) : NULL;
        if (!group) {
                bool v1 = access("/sys/fs/cgroup/memory", F_OK) == 0;
                result_fail(r, PROBE_MISSING, v1 ? CAUSE_CGROUP_V1 : CAUSE_NOT_BUILT, ENOENT, "no cgroup2 mount");
                return;
        }
        if (!has_controllers(group, r))
                return;
        char name[48];
        (void)snprintf(name, sizeof name, "bailey-probe-%d", (int)getpid());
        cleanup(free_ptr) char *child = path_join(group, name);
        if (!child || mkdir(child, 0700) < 0) {
                int error = child ? errno : ENOMEM;
                result_fail(r, PROBE_BLOCKED, CAUSE_NOT_DELEGATED, error, "mkdir below our own cgroup");
                return;
        }
        if (rmdir(child) < 0)
                result_error(r, errno, "rmdir of the trial cgroup");
        else
                result_works(r, NULL);
}
