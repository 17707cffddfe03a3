/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gateway parses every hostile byte, so it is built to be worth nothing to whoever takes it over. When this has
 * run, what is left are the sockets it was given, new connections to IPv4 and IPv6 addresses, pipes, timers, threads
 * and its own memory. The policy it judges by is sealed.
 *
 * Layers, each sufficient for most of it: no capabilities and none to gain (NO_NEW_PRIVS); not dumpable, no core file;
 * Landlock without a single rule, so that no file can be reached; a seccomp allow-list. A system call on no list ends
 * the process, which the supervisor sees (SIGSYS) and records. Calls that libraries make to look around (open, stat,
 * readlink
 * ...) fail softly instead: there is nothing to be seen.
 *
 * RLIMIT_NPROC is not used: it counts all processes of the user, while the filter says exactly "threads, no processes".
 * In sanitizer builds the last two layers are left out, since their run-time opens files and traces the process at its
 * end.
 */
#include "gateway/confine/gateway_confine.h"

#include "base/cleanup.h"
#include "base/processes/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * The filter. Names that an architecture does not have are negative numbers in libseccomp and are passed over.
 */
static const int allowed[] = {
        /* descriptors that are open already */
        SCMP_SYS(read),
        SCMP_SYS(readv),
        SCMP_SYS(pread64),
        SCMP_SYS(write),
        SCMP_SYS(writev),
        SCMP_SYS(close),
        SCMP_SYS(dup),
        SCMP_SYS(dup3),
        SCMP_SYS(lseek),
        SCMP_SYS(fstat),
        SCMP_SYS(pipe2),
        SCMP_SYS(splice),
        SCMP_SYS(tee),
        /* connections */
        SCMP_SYS(accept),
        SCMP_SYS(accept4),
        SCMP_SYS(connect),
        SCMP_SYS(shutdown),
        SCMP_SYS(getsockname),
        SCMP_SYS(getpeername),
        SCMP_SYS(getsockopt),
        SCMP_SYS(recvfrom),
        SCMP_SYS(recvmsg),
        SCMP_SYS(recvmmsg),
        SCMP_SYS(sendto),
        SCMP_SYS(sendmsg),
        SCMP_SYS(sendmmsg),
        /* waiting */
        SCMP_SYS(epoll_create1),
        SCMP_SYS(epoll_ctl),
        SCMP_SYS(epoll_wait),
        SCMP_SYS(epoll_pwait),
        SCMP_SYS(epoll_pwait2),
        SCMP_SYS(eventfd2),
        SCMP_SYS(timerfd_create),
        SCMP_SYS(timerfd_settime),
        SCMP_SYS(timerfd_gettime),
        SCMP_SYS(poll),
        SCMP_SYS(ppoll),
        SCMP_SYS(select),
        SCMP_SYS(pselect6),
        SCMP_SYS(nanosleep),
        SCMP_SYS(clock_nanosleep),
        SCMP_SYS(restart_syscall),
        /* time and chance */
        SCMP_SYS(clock_gettime),
        SCMP_SYS(clock_getres),
        SCMP_SYS(gettimeofday),
        SCMP_SYS(time),
        SCMP_SYS(getrandom),
        /* memory, but nothing executable: see conditions */
        SCMP_SYS(brk),
        SCMP_SYS(munmap),
        SCMP_SYS(mremap),
        SCMP_SYS(madvise),
        /* threads */
        SCMP_SYS(futex),
        SCMP_SYS(set_robust_list),
        SCMP_SYS(rseq),
        SCMP_SYS(membarrier),
        SCMP_SYS(sched_yield),
        SCMP_SYS(sched_getaffinity),
        SCMP_SYS(getcpu),
        SCMP_SYS(exit),
        SCMP_SYS(exit_group),
        /* signals to itself */
        SCMP_SYS(rt_sigaction),
        SCMP_SYS(rt_sigprocmask),
        SCMP_SYS(rt_sigreturn),
        SCMP_SYS(sigaltstack),
        SCMP_SYS(signalfd4),
        /* questions about itself */
        SCMP_SYS(getpid),
        SCMP_SYS(gettid),
        SCMP_SYS(getppid),
        SCMP_SYS(getuid),
        SCMP_SYS(geteuid),
        SCMP_SYS(getgid),
        SCMP_SYS(getegid),
        SCMP_SYS(getrusage),
        SCMP_SYS(getrlimit),
        SCMP_SYS(sysinfo),
        SCMP_SYS(uname),
};

/* Calls that are refused with an error that the caller takes for an ordinary one. */
static const struct {
        int call, error;
} softly[] = {
        { SCMP_SYS(open), ENOENT },
        { SCMP_SYS(openat), ENOENT },
        { SCMP_SYS(openat2), ENOENT },
        { SCMP_SYS(stat), ENOENT },
        { SCMP_SYS(lstat), ENOENT },
        { SCMP_SYS(statx), ENOENT },
        { SCMP_SYS(access), ENOENT },
        { SCMP_SYS(faccessat), ENOENT },
        { SCMP_SYS(faccessat2), ENOENT },
        { SCMP_SYS(readlink), ENOENT },
        { SCMP_SYS(readlinkat), ENOENT },
        { SCMP_SYS(getcwd), ENOENT },
        { SCMP_SYS(getdents64), ENOENT },
        { SCMP_SYS(statfs), ENOENT },
        { SCMP_SYS(clone3), ENOSYS }, /* its flags are behind a pointer; libraries then use clone */
        { SCMP_SYS(socketpair), EAFNOSUPPORT },
        { SCMP_SYS(bind), EACCES },
        { SCMP_SYS(listen), EACCES },
        { SCMP_SYS(mlock), EPERM },
        { SCMP_SYS(sched_setaffinity), EPERM },
};

/* Calls that are allowed when one or two arguments are right; other arguments end the process (`fatal`) or give EPERM.
 * Values are compared in all 64 bits: what the kernel would cut off does not match. */
enum { SOFT, FATAL };
static const struct condition {
        int call, fatal;
        unsigned n;
        struct scmp_arg_cmp args[2];
} conditions[] = {
#define EQUALS(index, value)                                                                                           \
        { .arg = (index), .op = SCMP_CMP_EQ, .datum_a = (scmp_datum_t)(value) }
#define MASKED(index, mask, value)                                                                                     \
        { .arg = (index), .op = SCMP_CMP_MASKED_EQ, .datum_a = (scmp_datum_t)(mask), .datum_b = (scmp_datum_t)(value) }
        { SCMP_SYS(mmap), FATAL, 1, { MASKED(2, PROT_EXEC, 0) } },
        { SCMP_SYS(mprotect), FATAL, 1, { MASKED(2, PROT_EXEC, 0) } },
        { SCMP_SYS(clone), FATAL, 1, { MASKED(0, CLONE_THREAD | CLONE_VM, CLONE_THREAD | CLONE_VM) } },
        { SCMP_SYS(socket), SOFT, 1, { EQUALS(0, AF_INET) } },
        { SCMP_SYS(socket), SOFT, 1, { EQUALS(0, AF_INET6) } },
        { SCMP_SYS(newfstatat), SOFT, 1, { EQUALS(3, AT_EMPTY_PATH) } }, /* what fstat() is on some architectures */
        { SCMP_SYS(prctl), SOFT, 1, { EQUALS(0, PR_SET_NAME) } },
        { SCMP_SYS(prlimit64), SOFT, 2, { EQUALS(0, 0), EQUALS(2, 0) } }, /* reading its own */
        /* not F_SETOWN and O_ASYNC, which send signals to others */
        { SCMP_SYS(fcntl), SOFT, 1, { EQUALS(1, F_GETFL) } },
        { SCMP_SYS(fcntl), SOFT, 2, { EQUALS(1, F_SETFL), MASKED(2, O_ASYNC, 0) } },
        { SCMP_SYS(fcntl), SOFT, 1, { EQUALS(1, F_GETFD) } },
        { SCMP_SYS(fcntl), SOFT, 1, { EQUALS(1, F_SETFD) } },
        { SCMP_SYS(fcntl), SOFT, 1, { EQUALS(1, F_DUPFD_CLOEXEC) } },
        { SCMP_SYS(fcntl), SOFT, 1, { EQUALS(1, F_SETPIPE_SZ) } },
        { SCMP_SYS(fcntl), SOFT, 1, { EQUALS(1, F_GETPIPE_SZ) } },
        { SCMP_SYS(fcntl), SOFT, 1, { EQUALS(1, F_GET_SEALS) } },
        { SCMP_SYS(ioctl), SOFT, 1, { EQUALS(1, FIONREAD) } },
        { SCMP_SYS(ioctl), SOFT, 1, { EQUALS(1, FIONBIO) } },
        { SCMP_SYS(ioctl), SOFT, 1, { EQUALS(1, TIOCOUTQ) } },
        /* socket options by name: none that loads programs into the kernel */
        { SCMP_SYS(setsockopt), SOFT, 2, { EQUALS(1, SOL_SOCKET), EQUALS(2, SO_KEEPALIVE) } },
        { SCMP_SYS(setsockopt), SOFT, 2, { EQUALS(1, SOL_SOCKET), EQUALS(2, SO_LINGER) } },
        { SCMP_SYS(setsockopt), SOFT, 2, { EQUALS(1, SOL_SOCKET), EQUALS(2, SO_REUSEADDR) } },
        { SCMP_SYS(setsockopt), SOFT, 2, { EQUALS(1, SOL_SOCKET), EQUALS(2, SO_SNDBUF) } },
        { SCMP_SYS(setsockopt), SOFT, 2, { EQUALS(1, SOL_SOCKET), EQUALS(2, SO_RCVBUF) } },
        { SCMP_SYS(setsockopt), SOFT, 2, { EQUALS(1, SOL_SOCKET), EQUALS(2, SO_RCVLOWAT) } },
        { SCMP_SYS(setsockopt), SOFT, 2, { EQUALS(1, IPPROTO_IPV6), EQUALS(2, IPV6_V6ONLY) } },
        { SCMP_SYS(setsockopt), SOFT, 2, { EQUALS(1, IPPROTO_TCP), EQUALS(2, TCP_NODELAY) } },
        { SCMP_SYS(setsockopt), SOFT, 2, { EQUALS(1, IPPROTO_TCP), EQUALS(2, TCP_CORK) } },
        { SCMP_SYS(setsockopt), SOFT, 2, { EQUALS(1, IPPROTO_TCP), EQUALS(2, TCP_QUICKACK) } },
        { SCMP_SYS(setsockopt), SOFT, 2, { EQUALS(1, IPPROTO_TCP), EQUALS(2, TCP_KEEPIDLE) } },
        { SCMP_SYS(setsockopt), SOFT, 2, { EQUALS(1, IPPROTO_TCP), EQUALS(2, TCP_KEEPINTVL) } },
        { SCMP_SYS(setsockopt), SOFT, 2, { EQUALS(1, IPPROTO_TCP), EQUALS(2, TCP_KEEPCNT) } },
        { SCMP_SYS(setsockopt), SOFT, 2, { EQUALS(1, IPPROTO_TCP), EQUALS(2, TCP_USER_TIMEOUT) } },
        { SCMP_SYS(setsockopt), SOFT, 2, { EQUALS(1, IPPROTO_TCP), EQUALS(2, TCP_NOTSENT_LOWAT) } },
        { SCMP_SYS(setsockopt), SOFT, 2, { EQUALS(1, IPPROTO_TCP), EQUALS(2, TCP_FASTOPEN_CONNECT) } },
#undef EQUALS
#undef MASKED
};

#define COUNT(table) (sizeof(table) / sizeof *(table))

static void filter_release(scmp_filter_ctx *filter) {
        if (*filter)
                seccomp_release(*filter);
}

/*
 * Two filters, since libseccomp cannot say "allow with these arguments, else this error" in one whose default is to end
 * the process. The kernel asks both and takes the stricter answer.
 *
 *   calls      which system calls there are at all; anything else ends the process
 *   arguments  which arguments the calls with soft conditions may have; others give EPERM
 */
static int add_conditions(scmp_filter_ctx filter, int fatal, bool checked) {
        int r = 0;
        for (size_t i = 0; r == 0 && i < COUNT(conditions); i++) {
                const struct condition *condition = &conditions[i];
                if (condition->call >= 0 && condition->fatal == fatal)
                        r = seccomp_rule_add_array(filter, SCMP_ACT_ALLOW, condition->call, checked ? condition->n : 0,
                                                   condition->args);
        }

        return r;
}

static int add_allowed(scmp_filter_ctx filter) {
        int r = 0;
        for (size_t i = 0; r == 0 && i < COUNT(allowed); i++)
                if (allowed[i] >= 0)
                        r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, allowed[i], 0);
        return r;
}

static int add_soft(scmp_filter_ctx filter, bool refuse) {
        int r = 0;
        for (size_t i = 0; r == 0 && i < COUNT(softly); i++)
                if (softly[i].call >= 0)
                        r = seccomp_rule_add(filter,
                                             refuse ? SCMP_ACT_ERRNO((uint16_t)softly[i].error) : SCMP_ACT_ALLOW,
                                             softly[i].call, 0);
        return r;
}

static int fill_calls(scmp_filter_ctx filter) {
        int r = add_allowed(filter);
        if (r == 0)
                r = add_soft(filter, true);
        if (r == 0)
                r = add_conditions(filter, FATAL, true);
        if (r == 0)
                r = add_conditions(filter, SOFT, false);

        if (r == 0) /* abort() signals itself; nobody else can be signalled */
                r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(tgkill), 1,
                                     SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)getpid()));

        return r;
}

static int fill_arguments(scmp_filter_ctx filter) {
        int r = add_allowed(filter);
        if (r == 0)
                r = add_soft(filter, false);
        if (r == 0)
                r = add_conditions(filter, FATAL, false);
        if (r == 0)
                r = add_conditions(filter, SOFT, true);
        if (r == 0)
                r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(tgkill), 0);
        if (r == 0) /* to load the other one after this one */
                r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(seccomp), 0);

        return r;
}

static int make_filter(uint32_t otherwise, int (*fill)(scmp_filter_ctx), scmp_filter_ctx *ret, struct err *err) {
        cleanup(filter_release) scmp_filter_ctx filter = seccomp_init(otherwise);
        if (!filter)
                return err_set(err, ENOMEM, "cannot create the system call filter");

        int r = seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
        if (r == 0)
                r = seccomp_attr_set(filter, SCMP_FLTATR_CTL_NNP, 0); /* set already */
        if (r == 0)
                r = seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2); /* a tree, not a list */
        if (r == 0)
                r = fill(filter);
        if (r < 0)
                return err_set(err, -r, "cannot build the system call filter: %s", strerror(-r));

        *ret = take_ptr(&filter);
        return 0;
}

/* In builds for development the call is named before the process ends; in a release it ends at once. */
#ifdef BAILEY_RELEASE
#define ON_VIOLATION SCMP_ACT_KILL_PROCESS
static void name_violations(void) {
}
#else
#define ON_VIOLATION SCMP_ACT_TRAP
static void on_violation(int sig, siginfo_t *info, void *context) {
        (void)context;
        char text[] = "bailey-gateway: system call      is not permitted\n";
        int number = info->si_syscall;
        for (size_t at = 31; number > 0 && at > 27; at--, number /= 10)
                text[at] = (char)('0' + number % 10);

        (void)!write(STDERR_FILENO, text, sizeof text - 1);
        const struct sigaction standard = { .sa_handler = SIG_DFL };
        sigaction(sig, &standard, NULL);
        syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), sig);
}

static void name_violations(void) {
        const struct sigaction act = { .sa_sigaction = on_violation, .sa_flags = SA_SIGINFO | SA_NODEFER };
        sigaction(SIGSYS, &act, NULL);
}
#endif

static int restrict_calls(struct err *err) {
        cleanup(filter_release) scmp_filter_ctx calls = NULL, arguments = NULL;
        int r = make_filter(ON_VIOLATION, fill_calls, &calls, err);
        if (r == 0)
                r = make_filter(SCMP_ACT_ERRNO(EPERM), fill_arguments, &arguments, err);
        if (r < 0)
                return r;

        name_violations();
        r = seccomp_load(arguments);
        if (r == 0)
                r = seccomp_load(calls);

        if (r < 0)
                return err_set(err, -r, "cannot load the system call filter: %s", strerror(-r));

        return 0;
}

int confine_gateway(struct err *err) {
        int r = confine_privileges(err);
        if (r == 0 && !SANITIZED)
                r = confine_files(true, err); /* connecting is what it is for */
        if (r == 0 && !SANITIZED)
                r = restrict_calls(err);
        if (r < 0)
                return err_wrap(err, r, "while the gateway confined itself");

        return 0;
}
