/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fd.h"

#include "../child.h"
#include <unistd.h>

#include "../cmocka_all.h"
#include "base/cleanup.h"
#include "base/fd_stream.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>

static int count_open(void) {
        DIR *d = opendir("/proc/self/fd");
        int n = 0;
        while (d && readdir(d))
                n++;
        if (d)
                closedir(d);
        return n;
}

static bool is_open(int fd) {
        return fcntl(fd, F_GETFD) >= 0;
}

static void pair(int kind, int ends[static 2]) {
        assert_int_equal(socketpair(AF_UNIX, kind | SOCK_CLOEXEC, 0, ends), 0);
}

static void closes_once_and_keeps_errno(void **state) {
        (void)state;
        int fd = open("/dev/null", O_RDONLY | O_CLOEXEC), number = fd;
        errno = 4711;
        close_fd(&fd);
        assert_int_equal(fd, -1);
        assert_false(is_open(number));
        errno = 4711;
        close_fd(&fd);
        assert_int_equal(errno, 4711);
}

static void flags_are_changed(void **state) {
        (void)state;
        cleanup(close_fd) int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        assert_int_equal(fd_set_nonblocking(fd, true), 0);
        assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
        assert_int_equal(fd_set_nonblocking(fd, false), 0);
        assert_false(fcntl(fd, F_GETFL) & O_NONBLOCK);
        assert_int_equal(fd_set_nonblocking(-1, true), -EBADF);
}

/* Who ends with messages unread leaves an error before what it said. */
static void last_words_are_heard(void **state) {
        static const int kinds[] = { SOCK_SEQPACKET, SOCK_STREAM, SOCK_SEQPACKET | SOCK_NONBLOCK };

        (void)state;
        for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
                char word[8];
                size_t n_fds = 0;
                int ends[2];

                pair(kinds[i], ends);
                assert_int_equal(send(ends[0], "unread", 6, 0), 6);
                assert_int_equal(send(ends[1], "why", 3, 0), 3);
                close(ends[1]);
                assert_int_equal(fd_receive(ends[0], word, sizeof word, NULL, 0, &n_fds), 3);
                assert_memory_equal(word, "why", 3);
                assert_true(fd_receive(ends[0], word, sizeof word, NULL, 0, &n_fds) == 0);
                close(ends[0]);
        }
}

static void close_from_child(void *forced) {
        int low = open("/dev/null", O_RDONLY | O_CLOEXEC);
        for (int i = 0; i < 300; i++) /* more than one listing holds */
                CHECK(fcntl(low, F_DUPFD_CLOEXEC, 10) >= 10);
        CHECK(fcntl(low, F_DUPFD_CLOEXEC, 900) == 900);
        struct rlimit lower = { 64, 64 }; /* what is above a lowered limit is still open */
        CHECK(setrlimit(RLIMIT_NOFILE, &lower) == 0);
        CHECK(!forced || deny_syscall(SYS_close_range, ENOSYS) == 0);
        CHECK(fd_close_from(10) == 0);
        CHECK(is_open(low));
        for (int fd = 10; fd < 1000; fd++)
                CHECK(!is_open(fd));
}

static void closes_from(void **state) {
        (void)state;
        bool forced = true;
        assert_child_succeeds(close_from_child, NULL);
        assert_child_succeeds(close_from_child, &forced);
}

static void reads_whole(void **state) {
        (void)state;
        int p[2];
        char got[8] = { 0 };
        assert_int_equal(pipe2(p, O_CLOEXEC), 0);
        assert_int_equal(fd_write_all(p[1], "12345678", 8), 0);
        assert_int_equal(fd_read_exact(p[0], got, 5), 0);
        assert_memory_equal(got, "12345", 5);
        close_fd(&p[1]);
        assert_int_equal(fd_read_exact(p[0], got, 4), -EPIPE);
        close_fd(&p[0]);
        assert_int_equal(fd_read_exact(-1, got, 1), -EBADF);
        assert_int_equal(fd_write_all(-1, got, 1), -EBADF);
        assert_int_equal(fd_write_all(-1, NULL, 0), 0);
}

static void on_alarm(int number) {
        (void)number;
}

/* A writer and a reader of a large block, both interrupted all the time. */
static void survives_signals(void **state) {
        (void)state;
        enum { BYTES = 4 << 20 };
        int p[2];
        assert_int_equal(pipe2(p, O_CLOEXEC), 0);
        unsigned char *block = malloc(BYTES), *got = malloc(BYTES);
        assert_true(block && got);
        for (size_t i = 0; i < BYTES; i++)
                block[i] = (unsigned char)(i * 7 + i / 251);
        struct sigaction action = { .sa_handler = on_alarm }; /* no SA_RESTART */
        sigaction(SIGALRM, &action, NULL);
        const struct itimerval often = { { 0, 200 }, { 0, 200 } };
        pid_t writer = fork();
        if (writer == 0) {
                setitimer(ITIMER_REAL, &often, NULL);
                _exit(fd_write_all(p[1], block, BYTES) == 0 ? 0 : 1);
        }
        setitimer(ITIMER_REAL, &often, NULL);
        int r = fd_read_exact(p[0], got, BYTES), status = -1;
        const struct itimerval off = { 0 };
        setitimer(ITIMER_REAL, &off, NULL);
        assert_int_equal(r, 0);
        assert_int_equal(waitpid(writer, &status, 0), writer);
        assert_int_equal(status, 0);
        assert_memory_equal(block, got, BYTES);
        free(block);
        free(got);
        close_fd(&p[0]);
        close_fd(&p[1]);
}

static void reads_all_up_to_the_maximum(void **state) {
        (void)state;
        char block[100];
        memset(block, 'x', sizeof block);
        static const struct {
                size_t max;
                int result;
        } rows[] = { { 99, -EMSGSIZE }, { 100, 0 }, { 101, 0 }, { 0, -EMSGSIZE } };
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
                int p[2];
                cleanup(buf_done) struct buf into = BUF(rows[i].max);
                assert_int_equal(pipe2(p, O_CLOEXEC), 0);
                assert_int_equal(fd_write_all(p[1], block, sizeof block), 0);
                close_fd(&p[1]);
                assert_int_equal(fd_read_all(p[0], &into), rows[i].result);
                if (rows[i].result == 0)
                        assert_int_equal(into.n, sizeof block);
                close_fd(&p[0]);
        }
}

static void sealed_cannot_change(void **state) {
        (void)state;
        cleanup(close_fd) int fd = -1;
        struct err e = { 0 };
        char got[7] = { 0 };
        assert_int_equal(fd_sealed("test", STR("content"), &fd, &e), 0);
        assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
        assert_int_equal(fd_read_exact(fd, got, 7), 0);
        assert_memory_equal(got, "content", 7);
        assert_int_equal(pwrite(fd, "X", 1, 0), -1);
        assert_int_equal(errno, EPERM);
        assert_int_equal(ftruncate(fd, 3), -1);
        assert_int_equal(ftruncate(fd, 30), -1);
        assert_ptr_equal(mmap(NULL, 7, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
        assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
        struct stat st;
        assert_int_equal(fstat(fd, &st), 0);
        assert_int_equal(st.st_size, 7);
        cleanup(close_fd) int empty = -1;
        assert_int_equal(fd_sealed("empty", STR(""), &empty, &e), 0);
}

static void descriptors_travel(void **state) {
        (void)state;
        int ends[2], sent[3], got[3] = { -1, -1, -1 };
        size_t n = 99;
        char text[16];
        pair(SOCK_SEQPACKET, ends);
        for (int i = 0; i < 3; i++)
                sent[i] = open("/dev/null", O_RDONLY); /* without close-on-exec */
        assert_int_equal(fd_send(ends[0], STR("hello"), sent, 3), 0);
        assert_int_equal(fd_receive(ends[1], text, sizeof text, got, 3, &n), 5);
        assert_int_equal(n, 3);
        assert_memory_equal(text, "hello", 5);
        for (int i = 0; i < 3; i++) {
                struct stat a, b;
                assert_int_equal(fcntl(got[i], F_GETFD), FD_CLOEXEC);
                assert_true(fstat(sent[i], &a) == 0 && fstat(got[i], &b) == 0 && a.st_rdev == b.st_rdev);
                close_fd(&got[i]);
                close_fd(&sent[i]);
        }
        assert_int_equal(fd_send(ends[0], STR("bare"), NULL, 0), 0);
        assert_int_equal(fd_receive(ends[1], text, sizeof text, got, 3, &n), 4);
        assert_int_equal(n, 0);
        close_fd(&ends[0]);
        assert_int_equal(fd_receive(ends[1], text, sizeof text, got, 3, &n), 0);
        close_fd(&ends[1]);
}

static void too_many_descriptors_leak_none(void **state) {
        (void)state;
        int before = count_open(), ends[2], fds[64];
        pair(SOCK_SEQPACKET, ends);
        for (int i = 0; i < 64; i++)
                fds[i] = ends[0];
        static const size_t sent[] = { 3, 4, 64 };
        for (size_t i = 0; i < 3; i++) {
                int got[2] = { -1, -1 };
                size_t n = 99;
                char text[16];
                int now = count_open();
                assert_int_equal(fd_send(ends[0], STR("x"), fds, sent[i]), 0);
                assert_int_equal(fd_receive(ends[1], text, sizeof text, got, 2, &n), -ETOOMANYREFS);
                assert_int_equal(n, 99);
                assert_int_equal(got[0], -1); /* a second close by the caller's cleanup would hit a stranger */
                assert_int_equal(got[1], -1);
                assert_int_equal(count_open(), now);
        }
        assert_int_equal(fd_send(ends[0], STR("x"), fds, 65), -EINVAL);
        assert_int_equal(fd_send(ends[0], STR(""), fds, 1), -EINVAL);
        close_fd(&ends[0]);
        close_fd(&ends[1]);
        assert_int_equal(count_open(), before);
}

/* More descriptors in one message than fd_receive has room for at all: the kernel closes the rest. */
static void hostile_message_leaks_none(void **state) {
        (void)state;
        int before = count_open(), ends[2], got[8];
        pair(SOCK_SEQPACKET, ends);
        union {
                struct cmsghdr align;
                char bytes[CMSG_SPACE(sizeof(int) * 200)];
        } control = { 0 };
        char byte = 'x';
        struct iovec part = { &byte, 1 };
        struct msghdr m = {
                .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control
        };
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        *c = (struct cmsghdr){ .cmsg_level = SOL_SOCKET,
                               .cmsg_type = SCM_RIGHTS,
                               .cmsg_len = CMSG_LEN(sizeof(int) * 200) };
        for (int i = 0; i < 200; i++)
                memcpy(CMSG_DATA(c) + (size_t)i * sizeof(int), &ends[0], sizeof(int));
        assert_int_equal(sendmsg(ends[0], &m, 0), 1);
        size_t n;
        char text[4];
        assert_int_equal(fd_receive(ends[1], text, sizeof text, got, 8, &n), -ETOOMANYREFS);
        close_fd(&ends[0]);
        close_fd(&ends[1]);
        assert_int_equal(count_open(), before);
}

static void cut_payload_is_refused(void **state) {
        (void)state;
        int ends[2], got[1] = { -1 };
        size_t n;
        char text[4];
        pair(SOCK_SEQPACKET, ends);
        int before = count_open();
        assert_int_equal(fd_send(ends[0], STR("too long"), &ends[0], 1), 0);
        assert_int_equal(fd_receive(ends[1], text, sizeof text, got, 1, &n), -EMSGSIZE);
        assert_int_equal(got[0], -1);
        assert_int_equal(count_open(), before);
        close_fd(&ends[1]);
        assert_int_equal(fd_send(ends[0], STR("x"), NULL, 0), -EPIPE); /* and no SIGPIPE */
        close_fd(&ends[0]);
}

static void sealed_files_are_mapped(void **state) {
        (void)state;
        cleanup(close_fd) int sealed = -1, empty = -1, open_one = memfd_create("open", MFD_ALLOW_SEALING);
        struct str mapped = { 0 };
        struct err err = { 0 };
        size_t size = 0;

        assert_int_equal(fd_sealed("test", STR("content"), &sealed, &err), 0);
        assert_int_equal(fd_sealed("test", STR(""), &empty, &err), 0);
        assert_true(fd_is_sealed(sealed, &size));
        assert_int_equal(size, 7);
        assert_int_equal(fd_map_sealed(sealed, "the thing", 7, &mapped, &err), 0);
        assert_true(str_is(mapped, "content"));
        munmap((void *)(uintptr_t)mapped.p, mapped.n);

        assert_int_equal(fd_map_sealed(sealed, "the thing", 6, &mapped, &err), -EMSGSIZE);
        assert_int_equal(fd_map_sealed(empty, "the thing", 6, &mapped, &err), -EMSGSIZE);

        assert_int_equal(write(open_one, "content", 7), 7);
        assert_false(fd_is_sealed(open_one, &size));
        assert_int_equal(fd_map_sealed(open_one, "the thing", 7, &mapped, &err), -EPERM);
        assert_string_equal(err_text(&err), "the thing is not sealed: it could change while it is in use");
        assert_int_equal(fcntl(open_one, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW), 0); /* it could still shrink */
        assert_int_equal(fd_map_sealed(open_one, "the thing", 7, &mapped, &err), -EPERM);

        assert_int_equal(fd_map_sealed(-1, "the thing", 7, &mapped, &err), -EBADF);
}

/* --- the kernel has no memory for a moment --- */

static int failing_with; /* the next recvmsg(); 0: none */
ssize_t __real_recvmsg(int sock, struct msghdr *message, int flags);
ssize_t __wrap_recvmsg(int sock, struct msghdr *message, int flags);

ssize_t __wrap_recvmsg(int sock, struct msghdr *message, int flags) {
        int code = failing_with;

        failing_with = 0;
        if (!code)
                return __real_recvmsg(sock, message, flags);
        errno = code;
        return -1;
}

/* The message comes later, and the channel stays. */
static void a_lack_of_memory_passes(void **state) {
        static const int codes[] = { ENOMEM, ENOBUFS };

        (void)state;
        for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
                int packets[2], stream[2];
                char text[16];
                size_t n = 99;

                pair(SOCK_SEQPACKET | SOCK_NONBLOCK, packets);
                assert_int_equal(fd_send(packets[0], STR("one"), NULL, 0), 0);
                failing_with = codes[i];
                assert_int_equal(fd_receive(packets[1], text, sizeof text, NULL, 0, &n), -EAGAIN);
                assert_int_equal(fd_receive(packets[1], text, sizeof text, NULL, 0, &n), 3);

                pair(SOCK_STREAM | SOCK_NONBLOCK, stream);
                assert_int_equal(fd_stream_send(stream[0], STR("one"), NULL, 0), 0);
                failing_with = codes[i];
                assert_int_equal(fd_stream_receive(stream[1], text, sizeof text, NULL, 0, &n), -EAGAIN);
                assert_int_equal(fd_stream_receive(stream[1], text, sizeof text, NULL, 0, &n), 3);
                assert_int_equal(fd_stream_send(stream[1], STR("back"), NULL, 0), 0);

                for (int end = 0; end < 2; end++) {
                        close_fd(&packets[end]);
                        close_fd(&stream[end]);
                }
        }
}

/* --- messages over a stream (base/fd_stream.h) --- */

static void messages_over_a_stream_keep_their_ends(void **state) {
        (void)state;
        int ends[2], fd = open("/dev/null", O_RDONLY), got[2] = { -1, -1 }, before = count_open();
        size_t n = 99;
        char text[16];

        pair(SOCK_STREAM | SOCK_NONBLOCK, ends);
        assert_int_equal(fd_stream_receive(ends[1], text, sizeof text, got, 2, &n), -EAGAIN);
        assert_int_equal(fd_stream_send(ends[0], STR("one"), NULL, 0), 0);
        assert_int_equal(fd_stream_send(ends[0], STR("second"), &fd, 1), 0);
        assert_int_equal(fd_stream_send(ends[0], STR("third"), NULL, 0), 0);
        assert_int_equal(fd_stream_send(ends[0], STR(""), NULL, 0), -EINVAL);

        assert_int_equal(fd_stream_receive(ends[1], text, sizeof text, got, 2, &n), 3);
        assert_int_equal(n, 0);
        assert_memory_equal(text, "one", 3);
        assert_int_equal(fd_stream_receive(ends[1], text, sizeof text, got, 2, &n), 6);
        assert_int_equal(n, 1);
        assert_int_equal(fcntl(got[0], F_GETFD), FD_CLOEXEC);
        close_fd(&got[0]);
        assert_int_equal(fd_stream_receive(ends[1], text, sizeof text, got, 2, &n), 5);
        assert_int_equal(n, 0);
        close_fd(&ends[0]);
        assert_int_equal(fd_stream_receive(ends[1], text, sizeof text, got, 2, &n), 0);
        close_fd(&ends[1]);
        assert_int_equal(count_open(), before);
        close_fd(&fd);
}

/* More than a socket holds: the sender waits for room, the receiver for the rest. */
static void a_large_message_over_a_stream_arrives(void **state) {
        enum { LARGE = 1 << 20 };
        char *sent = malloc(LARGE), *got = malloc(LARGE);
        int ends[2];
        size_t n;

        (void)state;
        for (size_t i = 0; i < LARGE; i++)
                sent[i] = (char)(i * 7 + i / 4096);
        pair(SOCK_STREAM | SOCK_NONBLOCK, ends);
        pid_t child = fork();
        if (child == 0)
                _exit(fd_stream_send(ends[0], str_n(sent, LARGE), NULL, 0) == 0 ? 0 : 1);
        close_fd(&ends[0]);

        ssize_t length = -EAGAIN;
        for (int i = 0; i < 10000 && length == -EAGAIN; i++) {
                length = fd_stream_receive(ends[1], got, LARGE, NULL, 0, &n);
                if (length == -EAGAIN)
                        usleep(1000);
        }
        assert_int_equal(length, LARGE);
        assert_memory_equal(sent, got, LARGE);

        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
        close_fd(&ends[1]);
        free(sent);
        free(got);
}

/* After any of these nothing more is read: where a message begins is not known any more. */
static void a_stream_that_lost_its_place_ends(void **state) {
        static const struct {
                uint32_t length;
                const char *bytes;
                bool ends;
                ssize_t says;
        } cases[] = { { 0, "", false, -EMSGSIZE },
                      { 17, "12345678901234567", false, -EMSGSIZE },
                      { UINT32_MAX, "x", false, -EMSGSIZE },
                      { 8, "half", true, -EPIPE },
                      { 8, "half", false, -ETIMEDOUT } };

        (void)state;
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                int ends[2], fd = open("/dev/null", O_RDONLY), got[1] = { -1 }, before = count_open();
                size_t n = 99;
                char text[16];

                pair(SOCK_STREAM | SOCK_NONBLOCK, ends);
                assert_int_equal(fd_send(ends[0], str_n(&cases[i].length, sizeof cases[i].length), &fd, 1), 0);
                (void)!write(ends[0], cases[i].bytes, strlen(cases[i].bytes));
                if (cases[i].ends)
                        shutdown(ends[0], SHUT_WR);
                assert_int_equal(fd_stream_receive(ends[1], text, sizeof text, got, 1, &n), cases[i].says);
                assert_int_equal(fd_stream_receive(ends[1], text, sizeof text, got, 1, &n) <= 0, 1);
                assert_int_equal(fd_stream_send(ends[1], STR("more"), NULL, 0), -EPIPE);
                close_fd(&ends[0]);
                close_fd(&ends[1]);
                assert_int_equal(count_open(), before);
                close_fd(&fd);
        }
}

/* Nobody reads: what has not begun can be tried again, what has begun ends the channel. */
static void a_stream_without_a_reader_is_given_up(void **state) {
        static char block[65536];
        int ends[2], r;

        (void)state;
        pair(SOCK_STREAM | SOCK_NONBLOCK, ends);
        do
                r = fd_stream_send(ends[0], str_n(block, sizeof block), NULL, 0);
        while (r == 0);
        assert_true(r == -EAGAIN || r == -EPIPE);
        close_fd(&ends[0]);
        close_fd(&ends[1]);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(closes_once_and_keeps_errno),
                cmocka_unit_test(flags_are_changed),
                cmocka_unit_test(last_words_are_heard),
                cmocka_unit_test(closes_from),
                cmocka_unit_test(reads_whole),
                cmocka_unit_test(survives_signals),
                cmocka_unit_test(reads_all_up_to_the_maximum),
                cmocka_unit_test(sealed_cannot_change),
                cmocka_unit_test(descriptors_travel),
                cmocka_unit_test(too_many_descriptors_leak_none),
                cmocka_unit_test(hostile_message_leaks_none),
                cmocka_unit_test(cut_payload_is_refused),
                cmocka_unit_test(a_lack_of_memory_passes),
                cmocka_unit_test(messages_over_a_stream_keep_their_ends),
                cmocka_unit_test(a_large_message_over_a_stream_arrives),
                cmocka_unit_test(a_stream_that_lost_its_place_ends),
                cmocka_unit_test(a_stream_without_a_reader_is_given_up),
                cmocka_unit_test(sealed_files_are_mapped),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
