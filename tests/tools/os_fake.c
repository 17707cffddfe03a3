/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sandbox/darwin/os.h on Linux, for bailey-as-macos. Nothing is confined: the profile goes into the file that
 * BAILEY_FAKE_PROFILE names, before the command becomes itself. "refuse" there: as if macOS refused it; "confined": as
 * if this process were in a sandbox already.
 */
#include "sandbox/darwin/os.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static bool fake_is(const char *word) {
        const char *said = getenv("BAILEY_FAKE_PROFILE");
        return said && strcmp(said, word) == 0;
}

bool os_is_confined(void) {
        return fake_is("confined");
}

bool os_tells_case(const char *path) {
        (void)path;
        return false;
}

char *os_canonical(const char *path) {
        char real[PATH_MAX];
        return realpath(path, real) ? str_dup(str_of(real)) : NULL;
}

char *os_temporary(void) {
        return os_canonical(text_or(getenv("TMPDIR"), "/tmp"));
}

int os_harden(const struct macos_launch *launch) {
        for (size_t i = 0; i < launch->limits.n; i++) {
                const struct rlimit value = { launch->limits.p[i].value, launch->limits.p[i].value };
                if (launch->limits.p[i].kind == MACOS_LIMIT_FILES && setrlimit(RLIMIT_NOFILE, &value) < 0)
                        return -errno;
        }
        return 0;
}

int os_confine(const char *profile, const struct seatbelt *parameters, struct err *e) {
        const char *to = getenv("BAILEY_FAKE_PROFILE");
        FILE *file = to && !fake_is("refuse") ? fopen(to, "we") : NULL;

        (void)parameters;
        if (!file)
                return err_set(e, EPERM, "macOS refuses the profile: as it was told to");
        (void)fputs(profile, file);
        return fclose(file) == 0 ? 0 : err_errno(e, "the profile");
}

size_t os_children(pid_t pid, pid_t *ret, size_t most) {
        char path[64];
        size_t n = 0;

        snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)pid);
        FILE *file = fopen(path, "re");
        for (int child; file && n < most && fscanf(file, "%d", &child) == 1;)
                ret[n++] = child;
        if (file)
                (void)fclose(file);
        return n;
}

int os_wait_exit(pid_t pid, int milliseconds) {
        siginfo_t info = { 0 };

        for (int waited = 0; waited < milliseconds; waited += 10) {
                if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || info.si_pid == pid)
                        return 1;
                (void)poll(NULL, 0, 10);
        }
        return 0;
}

/* A directory with fakes of the tools, in which everything may be changed. */
const char *os_tools(void) {
        return getenv("BAILEY_FAKE_TOOLS");
}

bool os_is_root(void) {
        return os_tools() != NULL;
}
