/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The capability probe: tables of names, and the child in which an item is tried. The child reports over a pipe; one
 * that dies, hangs or says nothing is itself a result. Its namespaces, mounts and filters end with it.
 */
#include "sandbox/linux/probe/probe.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "sandbox/linux/probe/probe_internal.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])
enum { TRY_SECONDS = 5 };

static const struct {
        const char *name;
        probe_try_fn *try;
} items[] = {
        [PROBE_USER_NS] = { "user-namespace", try_user_ns },
        [PROBE_UID_MAP] = { "uid-map", try_uid_map },
        [PROBE_MOUNT_NS] = { "mount-namespace", try_mount_ns },
        [PROBE_PID_NS] = { "pid-namespace", try_pid_ns },
        [PROBE_NET_NS] = { "network-namespace", try_net_ns },
        [PROBE_IPC_NS] = { "ipc-namespace", try_ipc_ns },
        [PROBE_UTS_NS] = { "uts-namespace", try_uts_ns },
        [PROBE_CGROUP_NS] = { "cgroup-namespace", try_cgroup_ns },
        [PROBE_PROC] = { "own-proc", try_proc },
        [PROBE_REDIRECT] = { "nft-redirect", try_redirect },
        [PROBE_LANDLOCK] = { "landlock", try_landlock },
        [PROBE_SECCOMP] = { "seccomp", try_seccomp },
        [PROBE_NOTIFY] = { "seccomp-notify", try_notify },
        [PROBE_OVERLAY] = { "overlayfs", try_overlay },
        [PROBE_CGROUP] = { "cgroup-v2", try_cgroup },
        [PROBE_MOUNT_API] = { "mount-api", try_mount_api },
        [PROBE_OPENAT2] = { "openat2", try_openat2 },
        [PROBE_CLONE3] = { "clone3", try_clone3 },
        [PROBE_PIDFD] = { "pidfd", try_pidfd },
        [PROBE_MEMFD_SECRET] = { "memfd-secret", try_memfd_secret },
        [PROBE_YAMA] = { "yama", try_yama },
};
static_assert(COUNT(items) == PROBE_ITEMS, "one row per item");

static const char *const state_names[] = { "untried", "works", "missing", "blocked" };
static_assert(COUNT(state_names) == PROBE_STATES, "one name per state");

static const char *const cause_names[] = {
        [CAUSE_NONE] = "none",
        [CAUSE_NOT_BUILT] = "not-built",
        [CAUSE_NO_MODULE] = "no-module",
        [CAUSE_USERNS_SYSCTL] = "userns-sysctl",
        [CAUSE_USERNS_LIMIT] = "userns-limit",
        [CAUSE_NS_LIMIT] = "namespace-limit",
        [CAUSE_APPARMOR] = "apparmor",
        [CAUSE_CHROOT] = "chroot",
        [CAUSE_SECCOMP] = "seccomp",
        [CAUSE_NEEDS_USERNS] = "needs-user-namespace",
        [CAUSE_LSM_ORDER] = "lsm-order",
        [CAUSE_PROC_COVERED] = "proc-covered",
        [CAUSE_CGROUP_V1] = "cgroup-v1",
        [CAUSE_NOT_DELEGATED] = "not-delegated",
        [CAUSE_NO_SCOPE] = "no-scope",
        [CAUSE_SECRETMEM] = "secretmem-off",
        [CAUSE_OFF] = "switched-off",
        [CAUSE_PERMISSION] = "permission",
        [CAUSE_UNEXPECTED] = "unexpected",
};
static_assert(COUNT(cause_names) == PROBE_CAUSES, "one name per cause");

const char *probe_item_name(enum probe_item item) {
        return item < PROBE_ITEMS ? items[item].name : "?";
}
const char *probe_state_name(enum probe_state state) {
        return state < PROBE_STATES ? state_names[state] : "?";
}
const char *probe_cause_name(enum probe_cause cause) {
        return cause < PROBE_CAUSES ? cause_names[cause] : "?";
}

void result_works(struct probe_result *result, const char *detail) {
        *result = (struct probe_result){ .state = PROBE_WORKS };
        (void)snprintf(result->detail, sizeof result->detail, "%s", text_or(detail, ""));
}

void result_fail(struct probe_result *result, enum probe_state state, enum probe_cause cause, int error,
                 const char *step) {
        *result = (struct probe_result){ .state = (uint8_t)state, .cause = (uint8_t)cause, .error = error };
        (void)snprintf(result->detail, sizeof result->detail, "%s", text_or(step, ""));
}

long read_number(const char *path) {
        cleanup(close_fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
        char text[32];
        ssize_t n = -1;

        if (fd >= 0)
                n = read(fd, text, sizeof text);

        if (n <= 0)
                return -1;

        uint64_t number = 0;
        struct str digits = str_n(text, text[n - 1] == '\n' ? (size_t)n - 1 : (size_t)n);

        if (!str_to_u64(digits, INT32_MAX, &number))
                return -1;

        return (long)number;
}

bool under_seccomp_filter(void) {
        return prctl(PR_GET_SECCOMP) == 2;
}

void result_error(struct probe_result *result, int error, const char *step) {
        switch (error) {
        case ENOSYS:
                if (under_seccomp_filter()) /* a container's filter says ENOSYS for what it does not know */
                        result_fail(result, PROBE_BLOCKED, CAUSE_SECCOMP, error, step);
                else
                        result_fail(result, PROBE_MISSING, CAUSE_NOT_BUILT, error, step);
                break;
        case ENODEV:
        case EOPNOTSUPP:
                result_fail(result, PROBE_MISSING, CAUSE_NOT_BUILT, error, step);
                break;
        case EPERM:
        case EACCES:
                result_fail(result, PROBE_BLOCKED, under_seccomp_filter() ? CAUSE_SECCOMP : CAUSE_PERMISSION, error,
                            step);
                break;
        default:
                result_fail(result, PROBE_MISSING, CAUSE_UNEXPECTED, error, step);
                break;
        }
}

static _Noreturn void probe_child(probe_try_fn *try, int report_fd) {
        struct probe_result result;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        signal(SIGSYS, SIG_DFL);
        result_fail(&result, PROBE_MISSING, CAUSE_UNEXPECTED, 0, "no result");
        try(&result);
        _exit(fd_write_all(report_fd, &result, sizeof result) < 0);
}

/* The child's report, within the time limit; false when it ended or hung without one. */
static bool read_report(int fd, struct probe_result *ret) {
        struct pollfd poller = { .fd = fd, .events = POLLIN };
        uint64_t deadline = clock_ns() + TRY_SECONDS * NS_PER_SECOND;

        for (;;) {
                uint64_t now = clock_ns();
                int left = now < deadline ? (int)((deadline - now) / NS_PER_MS) : 0;
                int n = poll(&poller, 1, left);
                if (n < 0 && errno == EINTR)
                        continue;

                return n > 0 && fd_read_exact(fd, ret, sizeof *ret) == 0;
        }
}

static bool probe_plausible(const struct probe_result *result) {
        return result->state > PROBE_UNTRIED && result->state < PROBE_STATES && result->cause < PROBE_CAUSES &&
               memchr(result->detail, 0, sizeof result->detail);
}

static void run_child(probe_try_fn *try, struct probe_result *result) {
        int pipe_fds[2];

        if (pipe2(pipe_fds, O_CLOEXEC) < 0) {
                result_fail(result, PROBE_BLOCKED, CAUSE_UNEXPECTED, errno, "pipe2");
                return;
        }

        cleanup(close_fd) int from = pipe_fds[0], to = pipe_fds[1];
        pid_t pid = fork();
        if (pid < 0) {
                result_fail(result, PROBE_BLOCKED, CAUSE_UNEXPECTED, errno, "fork");
                return;
        }

        if (pid == 0)
                probe_child(try, to);

        close_fd(&to);
        bool told = read_report(from, result);
        if (!told)
                kill(pid, SIGKILL);

        int status = 0;
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
                ;

        if (told && probe_plausible(result))
                return;

        if (WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS)
                result_fail(result, PROBE_BLOCKED, CAUSE_SECCOMP, 0, "killed by SIGSYS");
        else
                result_fail(result, PROBE_BLOCKED, CAUSE_UNEXPECTED, 0, "the trial process gave no answer");
}

const struct probe_result *probe_item(struct probe *probe, enum probe_item item) {
        struct probe_result *result = &probe->items[item];
        if (result->state == PROBE_UNTRIED)
                run_child(items[item].try, result);
        return result;
}

void probe_all(struct probe *probe) {
        for (unsigned i = 0; i < PROBE_ITEMS; i++)
                probe_item(probe, (enum probe_item)i);
}
