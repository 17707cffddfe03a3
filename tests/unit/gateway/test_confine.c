/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A gateway in other hands: each forbidden act is tried twice in a process of its own, free and confined. It must work
 * free (or the test proves nothing) and fail confined. What the gateway lives on must work confined as well.
 */
#include "gateway/confine/gateway_confine.h"

#include "base/fd.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../cmocka_all.h"

enum { PATIENCE_MS = 60000 }; /* ends what hangs */

static char directory[] = "/tmp/bailey-test-confine-XXXXXX";
static char key_file[64], new_file[64], socket_file[64];
static int tcp_listener, sealed;
static struct sockaddr_in tcp_address;
static pid_t victim; /* a child that sleeps */
static char victim_memory[16] = "in the parent";

/* Each returns 0 on success, else an errno. */
static int result(long r) {
        return r < 0 ? errno : 0;
}

static int reads_the_ca_key(void) {
        char c;
        int fd = open(key_file, O_RDONLY | O_CLOEXEC);
        return fd < 0 ? errno : result(read(fd, &c, 1));
}
static int reads_passwords(void) {
        return result(open("/etc/passwd", O_RDONLY | O_CLOEXEC));
}
static int reads_memory_of_itself_by_proc(void) {
        return result(open("/proc/self/mem", O_RDWR | O_CLOEXEC));
}
static int opens_by_openat2(void) {
        struct {
                uint64_t flags, mode, resolve;
        } how = { O_RDONLY, 0, 0 };
        return result(syscall(SYS_openat2, AT_FDCWD, key_file, &how, sizeof how));
}
static int creates_a_file(void) {
        return result(open(new_file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
}
static int removes_a_file(void) {
        return result(unlinkat(AT_FDCWD, new_file, 0));
}
static int makes_a_directory(void) {
        char path[80];
        snprintf(path, sizeof path, "%s/d%d", directory, (int)getpid());
        int r = result(mkdirat(AT_FDCWD, path, 0700));
        rmdir(path);
        return r;
}
static int executes(void) {
        char *argv[] = { (char *)"true", NULL };
        execve("/bin/true", argv, NULL);
        return errno;
}
static int forks(void) {
        pid_t pid = fork();
        if (pid == 0)
                _exit(0);
        return result(pid);
}
static int traces(void) {
        return result(ptrace(PTRACE_SEIZE, victim, NULL, NULL));
}
static int reads_memory_of_others(void) {
        char copy[sizeof victim_memory];
        struct iovec here = { copy, sizeof copy }, there = { victim_memory, sizeof victim_memory };
        return result(process_vm_readv(victim, &here, 1, &there, 1, 0));
}
static int signals_others(void) {
        return result(kill(victim, SIGCONT));
}
static int signals_others_by_a_descriptor(void) {
        int p[2];
        if (pipe2(p, O_CLOEXEC) < 0)
                return errno;
        return result(fcntl(p[0], F_SETOWN, victim));
}
static int reaches_unix_sockets(void) {
        struct sockaddr_un a = { .sun_family = AF_UNIX };
        snprintf(a.sun_path, sizeof a.sun_path, "%s", socket_file);
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        return fd < 0 ? errno : result(connect(fd, (struct sockaddr *)&a, sizeof a));
}
static int makes_netlink_sockets(void) {
        return result(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 0));
}
static int listens(void) {
        struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof a) < 0)
                return errno;
        return result(listen(fd, 1));
}
static int attaches_a_program_to_a_socket(void) {
        struct {
                uint16_t code;
                uint8_t jt, jf;
                uint32_t k;
        } accept_all = { 6, 0, 0, ~0U };
        struct {
                unsigned short n;
                void *p;
        } program = { 1, &accept_all };
        int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        return result(setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program));
}
static int makes_memory_executable(void) {
        return mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED ? errno : 0;
}
static int turns_memory_executable(void) {
        void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        return result(mprotect(p, 4096, PROT_READ | PROT_EXEC));
}
static int becomes_dumpable(void) {
        return result(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0));
}
static int changes_limits_of_others(void) {
        struct rlimit limit;
        return result(prlimit(victim, RLIMIT_NOFILE, NULL, &limit));
}
static int makes_anonymous_files(void) {
        return result(memfd_create("x", MFD_CLOEXEC));
}
static int unshares(void) {
        return result(syscall(SYS_unshare, 0x00000400 /* CLONE_FILES: harmless, and works for everybody */));
}

static const struct act {
        const char *name;
        int (*act)(void);
} forbidden[] = {
#define ACT(f)                                                                                                         \
        { #f, f }
        ACT(reads_the_ca_key),
        ACT(reads_passwords),
        ACT(reads_memory_of_itself_by_proc),
        ACT(opens_by_openat2),
        ACT(creates_a_file),
        ACT(removes_a_file),
        ACT(makes_a_directory),
        ACT(executes),
        ACT(forks),
        ACT(traces),
        ACT(reads_memory_of_others),
        ACT(signals_others),
        ACT(signals_others_by_a_descriptor),
        ACT(reaches_unix_sockets),
        ACT(makes_netlink_sockets),
        ACT(listens),
        ACT(attaches_a_program_to_a_socket),
        ACT(makes_memory_executable),
        ACT(turns_memory_executable),
        ACT(becomes_dumpable),
        ACT(changes_limits_of_others),
        ACT(makes_anonymous_files),
        ACT(unshares),
};

static int connects_and_accepts(void) {
        char c = 'x';
        int one = 1, client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (client < 0 || setsockopt(client, IPPROTO_TCP, 1 /* TCP_NODELAY */, &one, sizeof one) < 0)
                return errno;
        if (connect(client, (struct sockaddr *)&tcp_address, sizeof tcp_address) < 0 && errno != EINPROGRESS)
                return errno;
        int server = accept4(tcp_listener, NULL, NULL, SOCK_CLOEXEC);
        if (server < 0 || send(server, &c, 1, 0) != 1)
                return errno;
        int epoll = epoll_create1(EPOLL_CLOEXEC), p[2];
        struct epoll_event ev = { .events = EPOLLIN };
        if (epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, client, &ev) < 0 ||
            epoll_wait(epoll, &ev, 1, PATIENCE_MS) != 1)
                return errno ? errno : ETIMEDOUT;
        /* Smaller than it is: an account with more than 1,024 pipes may make none larger, confined or not. */
        if (pipe2(p, O_CLOEXEC) < 0 || fcntl(p[0], F_SETPIPE_SZ, 4096) < 0 ||
            splice(client, NULL, p[1], NULL, 1, 0) != 1)
                return errno;
        return result(read(p[0], &c, 1) == 1 ? 0 : -1);
}
static int connects_over_ipv6(void) {
        return result(socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
}
static void *thread(void *arg) {
        return arg;
}
static int makes_threads(void) {
        pthread_t t;
        int r = pthread_create(&t, NULL, thread, NULL);
        return r ? r : pthread_join(t, NULL);
}
static int uses_memory(void) {
        size_t n = 64 << 20;
        char *p = malloc(n);
        if (!p)
                return ENOMEM;
        memset(p, 1, n);
        free(p);
        return 0;
}
static int maps_a_passed_policy(void) {
        struct stat st;
        if (fcntl(sealed, F_GET_SEALS) < 0 || fstat(sealed, &st) < 0)
                return errno;
        return mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, sealed, 0) == MAP_FAILED ? errno : 0;
}
static int gets_random_bytes(void) {
        char b[16];
        return result(getrandom(b, sizeof b, 0));
}

static const struct act needed[] = {
        ACT(connects_and_accepts), ACT(connects_over_ipv6),   ACT(makes_threads),
        ACT(uses_memory),          ACT(maps_a_passed_policy), ACT(gets_random_bytes),
};

/* 0: it worked; an errno, or 1000 plus the signal that ended it. */
static int try_act(const struct act *a, bool confined) {
        pid_t pid = fork();
        if (pid == 0) {
                struct err e = { 0 };
                close(2); /* the filter names what it stops there */
                if (confined && confine_gateway(&e) < 0)
                        _exit(255);
                errno = 0;
                _exit(a->act());
        }
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (WIFSIGNALED(status))
                return 1000 + WTERMSIG(status);
        assert_int_not_equal(WEXITSTATUS(status), 255);
        return WEXITSTATUS(status);
}

static void forbidden_acts_fail(void **state) {
        (void)state;
        for (size_t i = 0; i < sizeof forbidden / sizeof *forbidden; i++) {
                if (forbidden[i].act == removes_a_file)
                        close(open(new_file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
                int free_result = try_act(&forbidden[i], false), confined = try_act(&forbidden[i], true);
                if (free_result != 0)
                        fail_msg("%s does not work even without confinement (%d): nothing is shown", forbidden[i].name,
                                 free_result);
                if (confined == 0)
                        fail_msg("%s works under confinement", forbidden[i].name);
                if (confined > 1000 && confined != 1000 + SIGSYS)
                        fail_msg("%s ended by signal %d", forbidden[i].name, confined - 1000);
        }
}

static void needed_acts_work(void **state) {
        (void)state;
        for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
                int r = try_act(&needed[i], true);
                if (r != 0)
                        fail_msg("%s fails under confinement (%d)", needed[i].name, r);
        }
}

static void state_is_visible_from_outside(void **state) {
        (void)state;
        int p[2];
        assert_int_equal(pipe2(p, O_CLOEXEC), 0);
        pid_t pid = fork();
        if (pid == 0) {
                char ok = confine_gateway(NULL) == 0;
                (void)!write(p[1], &ok, 1);
                for (;;) {
                        struct timespec t = { 1, 0 };
                        nanosleep(&t, NULL);
                }
        }
        char ok = 0, path[64], line[256];
        assert_int_equal(read(p[0], &ok, 1), 1);
        assert_int_equal(ok, 1);
        snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
        FILE *f = fopen(path, "re");
        assert_non_null(f);
        int seen = 0;
        while (fgets(line, sizeof line, f)) {
                seen += strcmp(line, "NoNewPrivs:\t1\n") == 0;
                seen += strcmp(line, "Seccomp:\t2\n") == 0;
                seen += strcmp(line, "CapPrm:\t0000000000000000\n") == 0;
                seen += strcmp(line, "CapEff:\t0000000000000000\n") == 0;
        }
        fclose(f);
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        close(p[0]);
        close(p[1]);
        assert_int_equal(seen, 4);
}

static int set_up(void **state) {
        (void)state;
        struct sockaddr_un a = { .sun_family = AF_UNIX };
        socklen_t n = sizeof tcp_address;
        if (!mkdtemp(directory))
                return -1;
        snprintf(key_file, sizeof key_file, "%s/ca.key", directory);
        snprintf(new_file, sizeof new_file, "%s/new", directory);
        snprintf(socket_file, sizeof socket_file, "%s/sock", directory);
        int fd = open(key_file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        if (write(fd, "key", 3) != 3)
                return -1;
        close(fd);
        snprintf(a.sun_path, sizeof a.sun_path, "%s", socket_file);
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (bind(fd, (struct sockaddr *)&a, sizeof a) < 0 || listen(fd, 8) < 0)
                return -1;
        tcp_listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        tcp_address = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        if (bind(tcp_listener, (struct sockaddr *)&tcp_address, n) < 0 || listen(tcp_listener, 8) < 0 ||
            getsockname(tcp_listener, (struct sockaddr *)&tcp_address, &n) < 0)
                return -1;
        if (fd_sealed("policy", STR("bytes"), &sealed, NULL) < 0)
                return -1;
        victim = fork();
        if (victim == 0) {
                prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
                for (;;)
                        pause();
        }
        return 0;
}

static int tear_down(void **state) {
        (void)state;
        kill(victim, SIGKILL);
        waitpid(victim, NULL, 0);
        unlink(key_file);
        unlink(new_file);
        unlink(socket_file);
        return rmdir(directory);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(forbidden_acts_fail),
                cmocka_unit_test(needed_acts_work),
                cmocka_unit_test(state_is_visible_from_outside),
        };
        return cmocka_run_group_tests(tests, set_up, tear_down);
}
