/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Namespaces and mounts, tried as the launcher uses them: inside a user namespace of our own, as an ordinary user may.
 * That unshare() succeeds is not enough: Ubuntu's AppArmor restriction grants the namespace and takes away every
 * capability in it, so each trial goes on to do one thing that needs the capability.
 */
#include "base/cleanup.h"
#include "base/fd.h"
#include "sandbox/linux/probe/probe_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* The same on every architecture; Debian 12's headers lack some of them on some. */
enum { SYS_OPEN_TREE = 428, SYS_MOVE_MOUNT = 429, SYS_MOUNT_SETATTR = 442 };
enum { TREE_CLONE = 1, TREE_CLOEXEC = O_CLOEXEC, MOVE_F_EMPTY_PATH = 4 };
struct mount_attributes {
        uint64_t set, clear, propagation, userns_fd;
};
#define ATTRIBUTE_RDONLY 1ULL

/* The root of a chroot is no mount point, and the kernel makes no user namespace there. */
static bool inside_chroot(void) {
        cleanup(close_fd) int fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
        cleanup(buf_done) struct buf text = BUF(1 << 20);
        if (fd < 0 || fd_read_all(fd, &text) < 0)
                return false;

        struct str rest = buf_str(&text), line, word;
        while (str_split(&rest, '\n', &line)) {
                bool found = true;
                for (int field = 0; field < 5 && found; field++)
                        found = str_split(&line, ' ', &word);
                if (found && str_is(word, "/"))
                        return false;
        }

        return true;
}

static void explain_user_ns(struct probe_result *result, const char *step) {
        int error = errno;
        if (error == ENOSPC || error == EUSERS)
                result_fail(result, PROBE_BLOCKED, CAUSE_USERNS_LIMIT, error, step);
        else if (error == EINVAL)
                result_fail(result, PROBE_MISSING, CAUSE_NOT_BUILT, error, step);
        else if (read_number("/proc/sys/kernel/unprivileged_userns_clone") == 0 && geteuid() != 0)
                result_fail(result, PROBE_BLOCKED, CAUSE_USERNS_SYSCTL, error, step);
        else if (error == EPERM && inside_chroot())
                result_fail(result, PROBE_BLOCKED, CAUSE_CHROOT, error, step);
        else
                result_error(result, error, step);
}

static bool apparmor_restricts(void) {
        return read_number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == 1;
}

static bool write_text(const char *path, const char *text) {
        cleanup(close_fd) int fd = open(path, O_WRONLY | O_CLOEXEC);
        return fd >= 0 && fd_write_all(fd, text, strlen(text)) == 0;
}

bool map_to_root(struct probe_result *result, unsigned uid, unsigned gid) {
        char uids[32], gids[32];

        (void)snprintf(uids, sizeof uids, "0 %u 1", uid);
        (void)snprintf(gids, sizeof gids, "0 %u 1", gid);
        const char *failed;
        if (!write_text("/proc/self/setgroups", "deny"))
                failed = "write to /proc/self/setgroups";
        else if (!write_text("/proc/self/uid_map", uids))
                failed = "write to /proc/self/uid_map";
        else if (!write_text("/proc/self/gid_map", gids))
                failed = "write to /proc/self/gid_map";
        else
                failed = NULL;

        int error = errno;

        if (!failed)
                return true;

        if ((error == EPERM || error == EACCES) && apparmor_restricts())
                result_fail(result, PROBE_BLOCKED, CAUSE_APPARMOR, error, failed);
        else
                result_error(result, error, failed);

        return false;
}

void try_user_ns(struct probe_result *result) {
        if (unshare(CLONE_NEWUSER) < 0) {
                explain_user_ns(result, "unshare(CLONE_NEWUSER)");
                return;
        }

        /* A namespace in which we may do nothing is none. */
        if (unshare(CLONE_NEWNS) < 0 && errno == EPERM) {
                if (apparmor_restricts())
                        result_fail(result, PROBE_BLOCKED, CAUSE_APPARMOR, EPERM,
                                    "no capabilities in the new namespace");
                else
                        result_error(result, EPERM, "no capabilities in the new namespace");

                return;
        }

        result_works(result, NULL);
}

void try_uid_map(struct probe_result *result) {
        unsigned uid = geteuid(), gid = getegid();

        if (unshare(CLONE_NEWUSER) < 0) {
                result_fail(result, PROBE_BLOCKED, CAUSE_NEEDS_USERNS, errno, "unshare(CLONE_NEWUSER)");
                return;
        }

        if (!map_to_root(result, uid, gid))
                return;

        if (geteuid() == 0 && getegid() == 0)
                result_works(result, NULL);
        else
                result_fail(result, PROBE_BLOCKED, CAUSE_UNEXPECTED, 0, "the map was accepted and had no effect");
}

bool enter_user_ns(struct probe_result *result, int flags) {
        unsigned uid = geteuid(), gid = getegid();

        if (unshare(CLONE_NEWUSER) < 0) {
                result_fail(result, PROBE_BLOCKED, CAUSE_NEEDS_USERNS, errno, "unshare(CLONE_NEWUSER)");
                return false;
        }

        if (!map_to_root(result, uid, gid))
                return false;
        if (flags == 0 || unshare(flags) == 0)
                return true;

        int error = errno;
        if (error == EINVAL)
                result_fail(result, PROBE_MISSING, CAUSE_NOT_BUILT, error, "unshare");
        else if (error == ENOSPC)
                result_fail(result, PROBE_BLOCKED, CAUSE_NS_LIMIT, error, "unshare");
        else if (error == EPERM && apparmor_restricts())
                result_fail(result, PROBE_BLOCKED, CAUSE_APPARMOR, error, "unshare");
        else
                result_error(result, error, "unshare");

        return false;
}

/* A private /tmp to build in. Mounts of a user namespace's own mount namespace reach nobody else. */
static bool private_tmp(struct probe_result *result) {
        if (!enter_user_ns(result, CLONE_NEWNS))
                return false;
        if (mount("bailey-probe", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, "size=64k") == 0)
                return true;
        result_error(result, errno, "mount of a tmpfs on /tmp");
        return false;
}

void try_mount_ns(struct probe_result *result) {
        if (private_tmp(result))
                result_works(result, NULL);
}

/* First process of a new pid namespace: it must see itself as pid 1. */
static int first_process(void (*act)(struct probe_result *), struct probe_result *result) {
        pid_t pid = fork();
        if (pid < 0) {
                result_error(result, errno, "fork into the new pid namespace");
                return -1;
        }

        if (pid == 0) {
                if (getpid() != 1)
                        _exit(255);

                struct probe_result inner = { .state = PROBE_WORKS };
                if (act)
                        act(&inner);

                if (inner.state == PROBE_WORKS)
                        _exit(0);

                int code = inner.error & 127;
                _exit(code ? code : 254);
        }

        int status = 0;
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
                ;

        return WIFEXITED(status) ? WEXITSTATUS(status) : 254;
}

void try_pid_ns(struct probe_result *result) {
        if (!enter_user_ns(result, CLONE_NEWPID))
                return;
        int status = first_process(NULL, result);
        if (status == 0)
                result_works(result, NULL);
        else if (status > 0)
                result_fail(result, PROBE_BLOCKED, CAUSE_UNEXPECTED, 0, "the first process is not pid 1");
}

static void mount_proc(struct probe_result *result) {
        if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
                result_error(result, errno, "mount of /proc");
}

void try_proc(struct probe_result *result) {
        if (!enter_user_ns(result, CLONE_NEWPID | CLONE_NEWNS))
                return;

        int status = first_process(mount_proc, result);
        if (status == 0)
                result_works(result, NULL);
        else if (status == EPERM)
                result_fail(result, PROBE_BLOCKED, CAUSE_PROC_COVERED, EPERM, "mount of /proc");
        else if (status > 0)
                result_fail(result, PROBE_BLOCKED, CAUSE_UNEXPECTED, status < 128 ? status : 0, "mount of /proc");
}

/* Brings the new namespace's loopback up, which only its owner may. */
void try_net_ns(struct probe_result *result) {
        if (!enter_user_ns(result, CLONE_NEWNET))
                return;

        cleanup(close_fd) int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        struct ifreq loopback = { .ifr_name = "lo", .ifr_flags = IFF_UP };

        if (fd < 0)
                result_error(result, errno, "socket");
        else if (ioctl(fd, SIOCSIFFLAGS, &loopback) < 0)
                result_error(result, errno, "bringing up the loopback interface");
        else
                result_works(result, NULL);
}

void try_ipc_ns(struct probe_result *result) {
        if (enter_user_ns(result, CLONE_NEWIPC))
                result_works(result, NULL);
}

void try_uts_ns(struct probe_result *result) {
        if (!enter_user_ns(result, CLONE_NEWUTS))
                return;
        if (sethostname("bailey-probe", 12) == 0)
                result_works(result, NULL);
        else
                result_error(result, errno, "sethostname");
}

void try_cgroup_ns(struct probe_result *result) {
        if (enter_user_ns(result, CLONE_NEWCGROUP))
                result_works(result, NULL);
}

void try_overlay(struct probe_result *result) {
        if (!private_tmp(result))
                return;

        static const char *const directories[] = { "/tmp/lower", "/tmp/upper", "/tmp/work", "/tmp/all" };
        for (size_t i = 0; i < sizeof directories / sizeof directories[0]; i++)
                if (mkdir(directories[i], 0700) < 0) {
                        result_error(result, errno, "mkdir");
                        return;
                }

        if (mount("overlay", "/tmp/all", "overlay", 0,
                  "lowerdir=/tmp/lower,upperdir=/tmp/upper,workdir=/tmp/work,userxattr") < 0) {
                if (errno == ENODEV)
                        result_fail(result, PROBE_MISSING, CAUSE_NO_MODULE, errno, "mount of an overlay");
                else if (errno == EINVAL) /* userxattr came with overlays in user namespaces, in 5.11 */
                        result_fail(result, PROBE_MISSING, CAUSE_NOT_BUILT, errno, "mount of an overlay");
                else
                        result_error(result, errno, "mount of an overlay");

                return;
        }

        cleanup(close_fd) int fd = open("/tmp/all/file", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        if (fd >= 0 && access("/tmp/upper/file", F_OK) == 0 && access("/tmp/lower/file", F_OK) < 0)
                result_works(result, NULL);
        else
                result_fail(result, PROBE_BLOCKED, CAUSE_UNEXPECTED, errno, "a write did not go to the upper layer");
}

void try_mount_api(struct probe_result *result) {
        if (!private_tmp(result))
                return;

        if (mkdir("/tmp/at", 0700) < 0) {
                result_error(result, errno, "mkdir");
                return;
        }

        struct mount_attributes read_only = { .set = ATTRIBUTE_RDONLY };
        cleanup(close_fd) int tree = (int)syscall(SYS_OPEN_TREE, AT_FDCWD, "/tmp", TREE_CLONE | TREE_CLOEXEC);
        if (tree < 0)
                result_error(result, errno, "open_tree");
        else if (syscall(SYS_MOUNT_SETATTR, tree, "", AT_EMPTY_PATH, &read_only, sizeof read_only) < 0)
                result_error(result, errno, "mount_setattr");
        else if (syscall(SYS_MOVE_MOUNT, tree, "", AT_FDCWD, "/tmp/at", MOVE_F_EMPTY_PATH) < 0)
                result_error(result, errno, "move_mount");
        else if (open("/tmp/at/file", O_WRONLY | O_CREAT | O_CLOEXEC, 0600) >= 0 || errno != EROFS)
                result_fail(result, PROBE_BLOCKED, CAUSE_UNEXPECTED, 0, "a read-only mount took a write");
        else
                result_works(result, NULL);
}
