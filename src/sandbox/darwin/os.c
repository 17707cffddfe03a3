/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/darwin/os.h"

#include "base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <libproc.h>
#include <limits.h>
#include <stdio.h>
#include <sys/event.h>
#include <sys/resource.h>
#include <sys/sysctl.h>
#include <sys/time.h>
#include <unistd.h>

/* Exported by libSystem and in no header outside Apple's own SDK. */
int sandbox_init_with_parameters(const char *profile, uint64_t flags, const char *const parameters[], char **error);
void sandbox_free_error(char *error);
int sandbox_check(pid_t pid, const char *operation, int type, ...);

int ptrace(int request, pid_t pid, char *address, int data);
enum { PT_DENY_ATTACH = 31 };

bool os_is_confined(void) {
        return sandbox_check(getpid(), NULL, 0) != 0;
}

static void read_sysctl(const char *name, char *ret, size_t size) {
        size_t n = size;

        if (sysctlbyname(name, ret, &n, NULL, 0) != 0)
                snprintf(ret, size, "?");
        ret[size - 1] = '\0';
}

void os_version(char ret_version[static 32], char ret_machine[static 32]) {
        read_sysctl("kern.osproductversion", ret_version, 32);
        read_sysctl("hw.machine", ret_machine, 32);
}

bool os_tells_case(const char *path) {
        return pathconf(path, _PC_CASE_SENSITIVE) == 1;
}

char *os_canonical(const char *path) {
        char real[PATH_MAX];
        int fd = open(path, O_RDONLY | O_CLOEXEC | O_SYMLINK);
        bool known = fd >= 0 && fcntl(fd, F_GETPATH, real) == 0;

        if (fd >= 0)
                close(fd);
        return known || realpath(path, real) ? str_dup(str_of(real)) : NULL;
}

char *os_temporary(void) {
        char path[PATH_MAX];
        size_t n = confstr(_CS_DARWIN_USER_TEMP_DIR, path, sizeof path);

        return n > 0 && n < sizeof path ? os_canonical(path) : NULL;
}

int os_harden(const struct macos_launch *launch) {
        static const int resources[] = { [MACOS_LIMIT_PROCESSES] = RLIMIT_NPROC,
                                         [MACOS_LIMIT_FILES] = RLIMIT_NOFILE,
                                         [MACOS_LIMIT_CPU] = RLIMIT_CPU,
                                         [MACOS_LIMIT_CORE] = RLIMIT_CORE };

        for (size_t i = 0; i < launch->limits.n; i++) {
                const struct macos_limit *limit = &launch->limits.p[i];
                const struct rlimit value = { .rlim_cur = limit->value, .rlim_max = limit->value };

                if (setrlimit(resources[limit->kind], &value) < 0)
                        return -errno;
        }
        return ptrace(PT_DENY_ATTACH, 0, NULL, 0) < 0 ? -errno : 0;
}

int os_confine(const char *profile, const struct seatbelt *parameters, struct err *e) {
        cleanup(free_ptr) const char **pairs = calloc(parameters->parameters.n * 2 + 1, sizeof *pairs);
        char *error = NULL;

        if (!pairs)
                return err_memory(e);
        for (size_t i = 0; i < parameters->parameters.n; i++) {
                pairs[2 * i] = parameters->parameters.p[i].name;
                pairs[2 * i + 1] = parameters->parameters.p[i].value;
        }
        if (sandbox_init_with_parameters(profile, 0, pairs, &error) == 0)
                return 0;
        err_set(e, EPERM, "macOS refuses the profile: %s", text_or(error, "no reason given"));
        if (error)
                sandbox_free_error(error);
        return -EPERM;
}

size_t os_children(pid_t pid, pid_t *ret, size_t most) {
        int n = proc_listchildpids(pid, ret, (int)(most * sizeof *ret));

        return n < 0 ? 0 : (size_t)n;
}

int os_wait_exit(pid_t pid, int milliseconds) {
        const struct timespec limit = { .tv_sec = milliseconds / 1000, .tv_nsec = milliseconds % 1000 * 1000000L };
        struct kevent change, event;
        int queue = kqueue();

        if (queue < 0)
                return 0;
        EV_SET(&change, pid, EVFILT_PROC, EV_ADD | EV_ONESHOT, NOTE_EXIT | NOTE_FORK, 0, NULL);
        int n = kevent(queue, &change, 1, &event, 1, &limit);
        bool gone = (n < 0 && errno == ESRCH) || (n == 1 && event.flags & EV_ERROR && event.data == ESRCH);
        bool ended = n == 1 && !(event.flags & EV_ERROR) && event.fflags & NOTE_EXIT;

        close(queue);
        return gone || ended;
}

bool os_is_root(void) {
        return geteuid() == 0;
}

const char *os_tools(void) {
        return NULL;
}
