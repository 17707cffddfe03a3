/* SPDX-License-Identifier: Apache-2.0 */
/* What a process gives up before the command runs: identity outside, capabilities, system calls, files, resources. */
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/paths/path.h"
#include "plan/landlock.h"
#include "sandbox/linux/step.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

static int write_file(const char *path, const char *content, struct err *err) {
        cleanup(close_fd) int fd = open(path, O_WRONLY | O_CLOEXEC);
        if (fd < 0)
                return err_errno(err, "identity: open %s", path);
        int r = fd_write_all(fd, content, strlen(content));
        if (r < 0)
                return err_set(err, -r, "identity: write %s: %s", path, strerror(-r));

        return 0;
}

/* The same numbers inside as outside, and only those: a file looks the same from both sides. */
int apply_identity(unsigned uid, unsigned gid, struct err *err) {
        char map[64];
        int r = write_file("/proc/self/setgroups", "deny", err);

        snprintf(map, sizeof map, "%u %u 1", uid, uid);
        if (r == 0)
                r = write_file("/proc/self/uid_map", map, err);

        snprintf(map, sizeof map, "%u %u 1", gid, gid);
        if (r == 0)
                r = write_file("/proc/self/gid_map", map, err);

        return r;
}

int apply_hostname(const struct plan *plan, struct err *err) {
        if (plan->hostname && sethostname(plan->hostname, strlen(plan->hostname)) < 0)
                return err_errno(err, "hostname");
        return 0;
}

int confine_exec(struct err *err) {
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
                return err_errno(err, "privileges: no_new_privs");

        /* From the first on; the first number that the kernel does not know ends the list. */
        for (unsigned long cap = 0; cap < 64; cap++)
                if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0) {
                        if (errno == EINVAL && cap > 0)
                                break;
                        if (errno == EPERM) /* without capabilities already: nothing to drop, nothing to gain */
                                break;
                        return err_errno(err, "privileges: bounding set");
                }

        if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 && errno != EINVAL)
                return err_errno(err, "privileges: ambient set");

        return 0;
}

int confine_capabilities(uint32_t keep, struct err *err) {
        struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
        struct __user_cap_data_struct kept[2] = { { .permitted = keep } };
        if (syscall(SYS_capset, &header, kept) < 0)
                return err_errno(err, "privileges: capabilities");
        return 0;
}

int confine_syscalls(const struct plan *plan, enum confine_scope scope, struct err *err) {
        struct sock_fprog program = { (unsigned short)(plan->seccomp.n / sizeof(struct sock_filter)),
                                      (struct sock_filter *)plan->seccomp.p };
        unsigned long flags = scope == CONFINE_PROCESS ? SECCOMP_FILTER_FLAG_TSYNC : 0;
        long r = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
        if (r > 0)
                return err_set(err, EBUSY, "system call filter: thread %ld has another one", r);
        if (r < 0)
                return err_errno(err, "system call filter");

        return 0;
}

struct ruleset_attr { /* the kernel's struct landlock_ruleset_attr, as of ABI 6 */
        uint64_t handled_access_fs, handled_access_net, scoped;
};
struct path_attr {
        uint64_t allowed_access;
        int32_t parent_fd;
} __attribute__((packed));
struct port_attr {
        uint64_t allowed_access, port;
};
enum { RULE_PATH_BENEATH = 1, RULE_NET_PORT = 2 };
#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#define SYS_landlock_add_rule 445
#endif

static int add_path(int ruleset, const struct plan_landlock_rule *rule, struct err *err) {
        cleanup(close_fd) int fd = open(rule->path, O_PATH | O_CLOEXEC);
        if (fd < 0 && (errno == ENOENT || errno == EACCES))
                return 0; /* gone since the host was looked at, or closed to us: rules only grant, nothing is lost */
        if (fd < 0)
                return err_errno(err, "landlock: open %s", rule->path);

        struct path_attr attr = { rule->access, fd };
        if (syscall(SYS_landlock_add_rule, ruleset, RULE_PATH_BENEATH, &attr, 0) < 0)
                return err_errno(err, "landlock: rule for %s", rule->path);

        return 0;
}

/*
 * If the broker makes all changes, the command itself can make none: neither by a call that the filter does not hand
 * over, nor by changing a path in its memory before the kernel reads it. Devices and /proc it opens itself, unless
 * something is protected there.
 *
 * Truncating is left out. At every open(), also for reading, the kernel finds out whether the descriptor may truncate,
 * and climbs until a rule of each domain that handles this says yes: in a domain that never does, up to the root. A
 * call can truncate without a descriptor for writing in two ways. truncate() is always the broker's, and an open() of
 * this kind is never left to the caller (open_by_caller() in broker_open.c).
 */
int confine_landlock_own(const struct plan *plan, int *ret_fd, struct err *err) {
        const uint64_t left_out = LANDLOCK_READ | LANDLOCK_FS_TRUNCATE;
        const uint64_t changes = LANDLOCK_WRITE & ~left_out & plan->landlock.handled_fs;
        const uint64_t device = LANDLOCK_FS_WRITE_FILE & changes;
        const struct plan_landlock_rule rules[] = { { "/dev", device }, { "/proc", device } };

        /* Nor does it send signals to the broker, which is above this domain. */
        struct ruleset_attr attr = { changes, 0, plan->landlock.scoped & LANDLOCK_SCOPED_SIGNAL };
        size_t size = attr.scoped ? sizeof attr : 8;
        int r = 0;

        *ret_fd = -1;
        if (!(plan->flags & PLAN_NATIVE))
                return 0;

        cleanup(close_fd) int fd = (int)syscall(SYS_landlock_create_ruleset, &attr, size, 0);
        if (fd < 0)
                return err_errno(err, "landlock: ruleset of changes");

        for (size_t i = 0; i < 2 && r == 0; i++)
                r = add_path(fd, &rules[i], err);

        if (r == 0)
                *ret_fd = take_fd(&fd);

        return r;
}

int confine_landlock(const struct plan *plan, int *ret_fd, struct err *err) {
        *ret_fd = -1;
        if (!plan->landlock.abi)
                return 0;

        struct ruleset_attr attr = { plan->landlock.handled_fs, plan->landlock.handled_net, plan->landlock.scoped };

        /* An older kernel knows a shorter struct; what it does not know is zero in the plan. */
        size_t size = 8;
        if (plan->landlock.abi >= 6)
                size = sizeof attr;
        else if (plan->landlock.abi >= 4)
                size = 16;

        cleanup(close_fd) int fd = (int)syscall(SYS_landlock_create_ruleset, &attr, size, 0);
        if (fd < 0)
                return err_errno(err, "landlock: ruleset");

        int r = 0;
        for (size_t i = 0; i < plan->landlock.rules.n && r == 0; i++)
                r = add_path(fd, &plan->landlock.rules.p[i], err);

        for (size_t i = 0; i < plan->landlock.ports.n && r == 0; i++) {
                struct port_attr port = { plan->landlock.ports.p[i].access, plan->landlock.ports.p[i].port };
                if (syscall(SYS_landlock_add_rule, fd, RULE_NET_PORT, &port, 0) < 0)
                        r = err_errno(err, "landlock: rule for port %u", plan->landlock.ports.p[i].port);
        }

        if (r == 0)
                *ret_fd = take_fd(&fd);

        return r;
}

/* Since Linux 6.14 each pid namespace has its own pid_max. Before, this very file was the whole host's: hands off. */
static bool own_pid_max(void) {
        struct utsname utsname;
        struct str rest, part;
        uint64_t major = 0, minor = 0;

        if (uname(&utsname) < 0)
                return false;

        rest = str_of(utsname.release);
        if (!str_split(&rest, '.', &part) || !str_to_u64(part, 1000, &major) || !str_split(&rest, '.', &part))
                return false;

        (void)str_to_u64(part, 1000, &minor); /* "6.14-rc1" gives 0: then only the limit of ordinary users holds */
        return major > 6 || (major == 6 && minor >= 14);
}

void limit_processes_of_root(const struct plan *plan) {
        enum { RESERVED = 300 /* numbers that are not used again after the first round */ };

        if (plan->uid != 0 || !own_pid_max())
                return;

        for (size_t i = 0; i < plan->limits.n; i++) {
                if (plan->limits.p[i].resource != RLIMIT_NPROC || plan->limits.p[i].value > 1000000)
                        continue;

                char text[32];
                int n = snprintf(text, sizeof text, "%" PRIu64, plan->limits.p[i].value + RESERVED);
                cleanup(close_fd) int fd = open("/proc/sys/kernel/pid_max", O_WRONLY | O_CLOEXEC);
                if (fd >= 0) /* read-only in some containers: then their own limit has to do */
                        (void)fd_write_all(fd, text, (size_t)n);
        }
}

/* Instances of inotify are counted for each account of the host, 128 as a rule: one sandbox must not take them all from
 * the programs outside. The sandbox's own user namespace counts them too, and has a limit of its own. */
void limit_watchers(void) {
        cleanup(buf_done) struct buf text = BUF(64);
        uint64_t all = 0;

        if (path_read_file("/proc/sys/fs/inotify/max_user_instances", 32, &text, NULL) < 0 ||
            !str_to_u64(str_trim(str_first(buf_str(&text), text.n ? text.n - 1 : 0)), INT32_MAX, &all) || all < 2)
                return;

        char half[32];
        int n = snprintf(half, sizeof half, "%" PRIu64, all / 2);
        cleanup(close_fd) int fd = open("/proc/sys/user/max_inotify_instances", O_WRONLY | O_CLOEXEC);
        if (fd >= 0) /* read-only in some containers */
                (void)fd_write_all(fd, half, (size_t)n);
}

int confine_limits(const struct plan *plan, struct err *err) {
        for (size_t i = 0; i < plan->limits.n; i++) {
                struct rlimit now, limit = { plan->limits.p[i].value, plan->limits.p[i].value };

                if (plan->limits.p[i].resource == RLIMIT_CPU)
                        limit.rlim_max++; /* SIGXCPU first, which says why; SIGKILL a second later */
                if (getrlimit(plan->limits.p[i].resource, &now) < 0)
                        return err_errno(err, "limits: read %u", plan->limits.p[i].resource);

                /* A hard limit that is lower already stays: raising it is a privilege. */
                if (now.rlim_max != RLIM_INFINITY && now.rlim_max < limit.rlim_max)
                        limit.rlim_max = now.rlim_max;
                if (limit.rlim_cur > limit.rlim_max)
                        limit.rlim_cur = limit.rlim_max;
                if (setrlimit(plan->limits.p[i].resource, &limit) < 0)
                        return err_errno(err, "limits: set %u", plan->limits.p[i].resource);
        }

        return 0;
}
