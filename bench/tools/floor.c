/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The floor of judging calls: runs a command whose calls are handed over by the same kind of filter that Bailey has,
 * and answered at once. Nothing is read of the caller, nothing is looked up or judged, and the kernel performs the
 * call as the caller asks. What a command takes in here, no judge in another process can better.
 *
 *   lab-floor changes COMMAND...   calls that change files: open() for writing, and names that come and go
 *   lab-floor opens COMMAND...     these, and every other open()
 *   lab-floor connects COMMAND...  calls that change files, and connect()
 *
 * Two more parts of a sandbox, alone. Nothing is handed over, and nobody waits:
 *
 *   lab-floor filter COMMAND...    a filter of 200 comparisons that lets every call pass
 *   lab-floor landlock COMMAND...  Landlock rules that allow everything
 */
#include "tool.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WAIT_KILLABLE = 1 << 5, CODE_MAX = 512, COMPARED = 200, NO_CALL = 5000, STATUS_SIGNAL = 128 };
#define NOTIFY_SET_FLAGS _IOW('!', 4, uint64_t)

struct code {
        struct sock_filter p[CODE_MAX];
        unsigned short n;
};

static void add(struct code *code, uint16_t what, uint32_t k, uint8_t yes, uint8_t no) {
        code->p[code->n++] = (struct sock_filter){ what, yes, no, k };
}

/* A call that changes names: handed over whatever its arguments are. */
static void hand_over(struct code *code, long number) {
        add(code, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)number, 0, 1);
        add(code, BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF, 0, 0);
}

static void hand_over_opens(struct code *code, long number, unsigned argument, bool all) {
        const uint32_t changes = O_WRONLY | O_RDWR | O_CREAT | O_TRUNC;

        if (all) {
                hand_over(code, number);
                return;
        }
        add(code, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)number, 0, 4);
        add(code, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, args[argument]), 0, 0);
        add(code, BPF_JMP | BPF_JSET | BPF_K, changes, 0, 1);
        add(code, BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF, 0, 0);
        add(code, BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0);
}

static int load_filter(bool opens, bool connects) {
        static const long names[] = {
#ifdef SYS_open
                SYS_unlink,   SYS_mkdir,   SYS_rename,    SYS_rmdir,  SYS_link,      SYS_symlink,  SYS_chmod,
#endif
                SYS_unlinkat, SYS_mkdirat, SYS_renameat2, SYS_linkat, SYS_symlinkat, SYS_fchmodat,
        };
        struct code code = { .n = 0 };

        add(&code, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, nr), 0, 0);
        hand_over_opens(&code, SYS_openat, 2, opens);
#ifdef SYS_open
        hand_over_opens(&code, SYS_open, 1, opens);
#endif
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
                hand_over(&code, names[i]);
        if (connects)
                hand_over(&code, SYS_connect);
        add(&code, BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0);

        struct sock_fprog program = { code.n, code.p };
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER | WAIT_KILLABLE,
                            &program);
}

/* Compares the call with numbers that no call has, and lets it pass. */
static int load_idle_filter(void) {
        struct code code = { .n = 0 };

        add(&code, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, nr), 0, 0);
        for (uint32_t i = 0; i < COMPARED; i++) {
                add(&code, BPF_JMP | BPF_JEQ | BPF_K, NO_CALL + i, 0, 1);
                add(&code, BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM, 0, 0);
        }
        add(&code, BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0);

        struct sock_fprog program = { code.n, code.p };
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
}

/* The rights of Landlock's first version, all of them, below the root. */
static int load_landlock(void) {
        const uint64_t rights = (LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1;
        struct landlock_ruleset_attr attr = { .handled_access_fs = rights };
        struct landlock_path_beneath_attr rule = { .allowed_access = rights };
        int rules = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof attr, 0);

        rule.parent_fd = open("/", O_PATH | O_CLOEXEC);
        if (rules < 0 || rule.parent_fd < 0 ||
            syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) < 0)
                return -1;
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        return (int)syscall(SYS_landlock_restrict_self, rules, 0);
}

_Noreturn static void run_alone(const char *what, char **argv) {
        int r = strcmp(what, "filter") == 0 ? load_idle_filter() : load_landlock();

        if (r < 0)
                tool_die("floor: %s: %s", what, strerror(errno));
        execvp(argv[0], argv);
        tool_die("floor: %s: %s", argv[0], strerror(errno));
}

_Noreturn static void answer_all(int notify) {
        for (;;) {
                struct seccomp_notif call = { 0 };
                struct seccomp_notif_resp answer = { .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE };

                if (ioctl(notify, SECCOMP_IOCTL_NOTIF_RECV, &call) < 0) {
                        if (errno == ENOENT || errno == EINTR)
                                continue; /* the caller was killed meanwhile */
                        _exit(1);
                }
                answer.id = call.id;
                (void)ioctl(notify, SECCOMP_IOCTL_NOTIF_SEND, &answer);
        }
}

_Noreturn static void run_command(int channel, const char *what, char **argv) {
        int notify = load_filter(strcmp(what, "opens") == 0, strcmp(what, "connects") == 0);
        char byte;

        if (write(channel, &notify, sizeof notify) != sizeof notify || read(channel, &byte, 1) != 1)
                _exit(127);
        fcntl(notify, F_SETFD, FD_CLOEXEC);
        execvp(argv[0], argv);
        _exit(127);
}

/* The judge: a process of its own, as Bailey's is. */
static pid_t start_judge(pid_t command, int number) {
        int pidfd = (int)syscall(SYS_pidfd_open, command, 0);
        int notify = number < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, pidfd, number, 0);
        pid_t judge;

        if (notify < 0)
                tool_die("floor: the filter does not load");
        (void)ioctl(notify, NOTIFY_SET_FLAGS, 1UL);
        judge = fork();
        if (judge == 0)
                answer_all(notify);
        close(notify);
        close(pidfd);
        return judge;
}

int main(int argc, char **argv) {
        const char *what = argc > 1 ? argv[1] : "";
        bool known = strcmp(what, "changes") == 0 || strcmp(what, "opens") == 0 || strcmp(what, "connects") == 0;
        int ends[2], number = -1, status = 1;
        pid_t command, judge;

        if (argc > 2 && (strcmp(what, "filter") == 0 || strcmp(what, "landlock") == 0))
                run_alone(what, argv + 2);
        if (argc < 3 || !known)
                tool_die("usage: lab-floor changes|opens|connects|filter|landlock COMMAND...");
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
                tool_die("floor: %s", strerror(errno));
        command = fork();
        if (command == 0)
                run_command(ends[1], what, argv + 2);
        close(ends[1]);
        if (command < 0 || read(ends[0], &number, sizeof number) != sizeof number)
                tool_die("floor: the command does not start");

        judge = start_judge(command, number);
        if (judge < 0 || write(ends[0], "g", 1) != 1)
                tool_die("floor: %s", strerror(errno));
        while (waitpid(command, &status, 0) < 0 && errno == EINTR)
                ;
        kill(judge, SIGKILL);
        (void)waitpid(judge, NULL, 0);
        return WIFEXITED(status) ? WEXITSTATUS(status) : STATUS_SIGNAL + WTERMSIG(status);
}
