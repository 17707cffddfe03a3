/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The practical limit of a launch: every kind of namespace, the root bound again and read-only, /proc and /tmp of its
 * own, one small filter, and the command, in one static program that reads nothing, records nothing and opens no
 * network.
 *
 *     box COMMAND ARGUMENT...
 */
#include "tool.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/mount.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FILTER_MAX = 64 };

static void must(long r, const char *what) {
        if (r < 0)
                tool_die("%s: %s", what, strerror(errno));
}

static void put(const char *path, const char *text) {
        int fd = open(path, O_WRONLY | O_CLOEXEC);
        must(fd, path);
        must(write(fd, text, strlen(text)), path);
        close(fd);
}

static void map_user(unsigned uid, unsigned gid) {
        char line[64];
        snprintf(line, sizeof line, "%u %u 1", uid, uid);
        put("/proc/self/uid_map", line);
        put("/proc/self/setgroups", "deny");
        snprintf(line, sizeof line, "%u %u 1", gid, gid);
        put("/proc/self/gid_map", line);
}

static void make_root(void) {
        struct mount_attr read_only = { .attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID };
        must(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), "private");
        must(mount("tmpfs", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777"), "tmpfs");
        must(mkdir("/tmp/root", 0755), "mkdir");
        must(mount("/", "/tmp/root", NULL, MS_BIND | MS_REC, NULL), "bind");
        must(syscall(SYS_mount_setattr, AT_FDCWD, "/tmp/root", AT_RECURSIVE, &read_only, sizeof read_only),
             "read-only");
        must(mount("tmpfs", "/tmp/root/tmp", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777"), "tmpfs");
        must(mount("proc", "/tmp/root/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL), "proc");
        must(chdir("/tmp/root"), "chdir");
        must(syscall(SYS_pivot_root, ".", "."), "pivot_root");
        must(umount2(".", MNT_DETACH), "umount");
        must(chdir("/"), "chdir");
}

static void filter(void) {
        static const unsigned refused[] = {
                SYS_ptrace,      SYS_mount,         SYS_umount2,         SYS_pivot_root,     SYS_setns,
                SYS_unshare,     SYS_bpf,           SYS_perf_event_open, SYS_add_key,        SYS_keyctl,
                SYS_request_key, SYS_init_module,   SYS_kexec_load,      SYS_delete_module,  SYS_finit_module,
                SYS_open_tree,   SYS_move_mount,    SYS_fsopen,          SYS_fsconfig,       SYS_fsmount,
                SYS_fspick,      SYS_mount_setattr, SYS_io_uring_setup,  SYS_io_uring_enter, SYS_swapon,
                SYS_reboot
        };
        struct sock_filter program[FILTER_MAX];
        unsigned short n = 0, count = sizeof refused / sizeof refused[0];
        program[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0);
        for (unsigned short i = 0; i < count; i++)
                program[n++] =
                    (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, refused[i], (unsigned char)(count - i), 0);
        program[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
        program[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
        struct sock_fprog whole = { n, program };
        must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs");
        must(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &whole), "filter");
}

int main(int argc, char **argv) {
        if (argc < 2)
                tool_die("usage: box COMMAND ARGUMENT...");
        unsigned uid = geteuid(), gid = getegid();
        unsigned long all =
            CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP | CLONE_NEWNET;
        long pid = syscall(SYS_clone, all | SIGCHLD, 0, 0, 0, 0);
        must(pid, "clone");
        if (pid == 0) {
                map_user(uid, gid);
                make_root();
                filter();
                execv(argv[1], argv + 1);
                tool_die("%s: %s", argv[1], strerror(errno));
        }
        int status;
        must(waitpid((pid_t)pid, &status, 0), "wait");
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
