/* SPDX-License-Identifier: Apache-2.0 */
/* The call for a scope, byte for byte, and managers that answer badly or not at all. */
#include "sandbox/linux/scope.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "sandbox/linux/dbus.h"

#include "../child.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

/* Made by an encoder of its own, in another language, from the D-Bus specification. */
static const char hello_golden[] =
    "6c01000100000000010000006d00000001016f00150000002f6f72672f667265656465736b746f702f44427573000000"
    "02017300140000006f72672e667265656465736b746f702e4442757300000000030173000500000048656c6c6f000000"
    "06017300140000006f72672e667265656465736b746f702e4442757300000000";

static const char start_golden[] =
    "6c0100013801000002000000b600000001016f00190000002f6f72672f667265656465736b746f702f73797374656d64"
    "310000000000000002017300200000006f72672e667265656465736b746f702e73797374656d64312e4d616e61676572"
    "0000000000000000030173001200000053746172745472616e7369656e74556e69740000000000000601730018000000"
    "6f72672e667265656465736b746f702e73797374656d6431000000000000000008016700107373612873762961287361"
    "28737629290000000e0000006261696c65792d782e73636f70650000040000006661696c000000000801000000000000"
    "0400000050494473000261750000000004000000921000000800000044656c6567617465000162000100000000000000"
    "0b0000004465736372697074696f6e00017300000e0000004261696c65792073616e64626f7800000b000000436f6c6c"
    "6563744d6f6465000173000012000000696e6163746976652d6f722d6661696c6564000000000000080000005461736b"
    "734d617800017400a400000000000000090000004d656d6f72794d617800017400000000000000000000400600000000"
    "0d0000004d656d6f7279537761704d61780001740000000000000000000000001200000043505551756f746150657253"
    "6563555365630001740000000000000060e31600000000000000000000000000";

static const struct plan_group limits = { .memory = 100 << 20, .processes = 100, .cpu_percent = 150 };

static void assert_bytes(const struct buf *got, const char *hex) {
        assert_int_equal(got->n * 2, strlen(hex));
        for (size_t i = 0; i < got->n; i++)
                if ((unsigned char)got->p[i] != ascii_hex(hex[2 * i]) * 16 + ascii_hex(hex[2 * i + 1]))
                        fail_msg("byte %zu is %02x, not %.2s", i, (unsigned char)got->p[i], hex + 2 * i);
}

static void call_is_as_specified(void **state) {
        (void)state;
        struct dbus_out o = DBUS_OUT;
        assert_int_equal(scope_call(&o, 2, "bailey-x.scope", 4242, &limits), 0);
        assert_bytes(&o.bytes, start_golden);
        buf_done(&o.bytes);
        struct dbus_out hello = DBUS_OUT;
        dbus_begin(&hello, &(struct dbus_call){ .serial = 1,
                                                .destination = "org.freedesktop.DBus",
                                                .path = "/org/freedesktop/DBus",
                                                .interface = "org.freedesktop.DBus",
                                                .member = "Hello" });
        assert_int_equal(dbus_end(&hello), 0);
        assert_bytes(&hello.bytes, hello_golden);
        buf_done(&hello.bytes);
}

/* An error for call 2, as a bus sends it: reply serial, error name, signature, body "no". */
#define NAME "org.freedesktop.DBus.Error.ServiceUnknown"
static const char error_reply[] = "l\3\1\1\7\0\0\0\3\0\0\0\107\0\0\0"
                                  "\5\1u\0\2\0\0\0"
                                  "\4\1s\0\51\0\0\0" NAME "\0\0\0\0\0\0\0"
                                  "\10\1g\0\1s\0\0"
                                  "\2\0\0\0no\0";
static const char return_reply[] = "l\2\1\1\0\0\0\0\3\0\0\0\10\0\0\0\5\1u\0\2\0\0\0";
static const char return_big[] = "B\2\1\1\0\0\0\0\0\0\0\3\0\0\0\10\5\1u\0\0\0\0\2";
#define BYTES(literal) str_n(literal, sizeof(literal) - 1)

static void answers_are_read(void **state) {
        (void)state;
        struct dbus_message m;
        assert_int_equal(dbus_parse(BYTES(error_reply), &m), sizeof error_reply - 1);
        assert_true(m.type == DBUS_ERROR && m.reply_to == 2 && str_is(m.error, NAME));
        assert_int_equal(dbus_parse(BYTES(return_reply), &m), sizeof return_reply - 1);
        assert_true(m.type == DBUS_RETURN && m.reply_to == 2);
        assert_int_equal(dbus_parse(BYTES(return_big), &m), sizeof return_big - 1);
        assert_true(m.type == DBUS_RETURN && m.reply_to == 2);
        for (size_t n = 0; n < sizeof error_reply - 1; n++)
                assert_int_equal(dbus_parse(str_n(error_reply, n), &m), 0);
}

/* Each is the well-formed answer with one byte changed. */
static void malformed_answers_are_refused(void **state) {
        (void)state;
        static const struct {
                size_t at;
                char value;
                int result;
        } cases[] = {
                { 0, 'x', -EBADMSG },                           /* byte order */
                { 1, 0, -EBADMSG },                             /* type */
                { 3, 2, -EBADMSG },                             /* version */
                { 6, 1, -EMSGSIZE },                            /* 64 KiB of body more */
                { 7, '\377', -EMSGSIZE },  { 8, 0, -EBADMSG },  /* serial 0 */
                { 12, 0x46, -EBADMSG },                         /* fields end within the last one */
                { 12, 9, -EBADMSG },                            /* within the second */
                { 15, '\377', -EMSGSIZE }, { 16, 0, -EBADMSG }, /* field 0 */
                { 16, 9, -EBADMSG },                            /* no reply serial */
                { 17, 2, -EBADMSG },                            /* signature's length */
                { 18, 'v', -EBADMSG },                          /* a type that no field has */
                { 18, 's', -EBADMSG },                          /* the serial as a text */
                { 20, 0, -EBADMSG },                            /* answer to call 0 */
                { 24, 7, -EBADMSG },                            /* an error without a name */
                { 26, 'u', -EBADMSG },                          /* the name as a number */
                { 28, 0x28, -EBADMSG },                         /* name is one shorter: no zero after it */
                { 31, '\177', -EBADMSG },                       /* name of 2 GiB */
                { 32, 0, -EBADMSG },                            /* a zero within the name */
                { 32, '\33', -EBADMSG },                        /* what a terminal would obey */
        };
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                char bytes[sizeof error_reply];
                struct dbus_message m;
                memcpy(bytes, error_reply, sizeof bytes);
                bytes[cases[i].at] = cases[i].value;
                ssize_t r = dbus_parse(str_n(bytes, sizeof bytes - 1), &m);
                if (r != cases[i].result)
                        fail_msg("byte %zu as %d: %zd", cases[i].at, cases[i].value, r);
        }
}

/* A manager that says these things, one after each thing that it hears, and then stays silent or hangs up. */
struct stand_in {
        char root[64];
        int listener;
        struct str says[3];
        bool hangs_up;
        bool is_endless; /* repeats what it said last */
        int result;
        struct err e;
};

static void serve(const struct stand_in *s) {
        char heard[4096];
        cleanup(close_fd) int fd = accept(s->listener, NULL, NULL);
        for (size_t i = 0; fd >= 0 && i < 3 && s->says[i].p; i++) {
                struct pollfd p = { .fd = fd, .events = POLLIN };
                if (poll(&p, 1, 10000) <= 0 || read(fd, heard, sizeof heard) <= 0 ||
                    send(fd, s->says[i].p, s->says[i].n, MSG_NOSIGNAL) < 0)
                        return;
        }
        while (s->is_endless && send(fd, s->says[1].p, s->says[1].n, MSG_NOSIGNAL) >= 0)
                ;
        if (!s->hangs_up)
                (void)poll(NULL, 0, 20000);
}

static void meet(struct stand_in *s) {
        struct sockaddr_un a = { .sun_family = AF_UNIX };
        struct cgroup g = CGROUP_NONE;
        char path[80];
        snprintf(s->root, sizeof s->root, "/tmp/bailey-scope-XXXXXX");
        assert_non_null(mkdtemp(s->root));
        snprintf(path, sizeof path, "%s/systemd", s->root);
        assert_int_equal(mkdir(path, 0700), 0);
        snprintf(a.sun_path, sizeof a.sun_path, "%s/private", path);
        assert_int_equal(setenv("XDG_RUNTIME_DIR", s->root, 1), 0);
        unsetenv("DBUS_SESSION_BUS_ADDRESS");
        assert_false(scope_look());
        assert_int_equal(scope_join(getpid(), &limits, &g, &s->e), -ENOENT);
        s->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_int_equal(bind(s->listener, (struct sockaddr *)&a, sizeof a) | listen(s->listener, 1), 0);
        assert_true(scope_look());
        pid_t child = fork();
        if (child == 0) {
                serve(s);
                _exit(0);
        }
        close_fd(&s->listener);
        uint64_t begin = clock_ns();
        err_clear(&s->e);
        s->result = scope_join(getpid(), &limits, &g, &s->e);
        uint64_t took = clock_ns() - begin;
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        unlink(a.sun_path);
        rmdir(path);
        rmdir(s->root);
        assert_true(g.dir < 0 && took < 20 * NS_PER_SECOND); /* a second; a loaded machine has its time */
}

/* A machine under load may let the second pass before the manager has had its turn: then once more. */
static void try(struct stand_in *s, int expected, const char *text) {
        for (int turns = 0; turns < 10; turns++) {
                meet(s);
                if (s->result != -ETIMEDOUT || expected == -ETIMEDOUT)
                        break;
        }
        if (s->result != expected || !strstr(err_text(&s->e), text))
                fail_msg("%d: %s", s->result, err_text(&s->e));
}

#define SAY(literal) str_n(literal, sizeof(literal) - 1)
#define OK SAY("OK 0123456789abcdef0123456789abcdef\r\n")

static void bad_managers_change_nothing(void **state) {
        (void)state;
        char flood[70000];
        memset(flood, 'x', sizeof flood);
        try(&(struct stand_in){ .says = { { 0 } } }, -ETIMEDOUT, "did not answer");
        try(&(struct stand_in){ .hangs_up = true }, -ECONNRESET, "closed");
        try(&(struct stand_in){ .says = { SAY("REJECTED EXTERNAL\r\n") } }, -EACCES, "accept");
        try(&(struct stand_in){ .says = { str_n(flood, sizeof flood) } }, -EACCES, "accept");
        try(&(struct stand_in){ .says = { OK } }, -ETIMEDOUT, "did not answer");
        try(&(struct stand_in){ .says = { OK, str_n(flood, sizeof flood) } }, -EBADMSG, "malformed");
        try(&(struct stand_in){ .says = { OK, BYTES(error_reply) } }, -ECANCELED, "ServiceUnknown");
        try(&(struct stand_in){ .says = { OK, BYTES(return_reply) } }, -ETIMEDOUT, "did not move");
        try(&(struct stand_in){ .says = { OK, str_n(error_reply, 40) }, .hangs_up = true }, -ECONNRESET, "closed");
}

/* Answers to somebody else's call, without end. When the second is over, there is one more, or just none yet. */
static void endless_manager_is_left(void **state) {
        (void)state;
        static char other[24];
        memcpy(other, return_reply, sizeof other);
        other[20] = 9;
        static char many[24 * 1024];
        for (size_t i = 0; i < sizeof many; i += sizeof other)
                memcpy(many + i, other, sizeof other);
        struct stand_in s = { .says = { OK, str_n(many, sizeof many) }, .is_endless = true };
        meet(&s);
        if (s.result != -EMSGSIZE && s.result != -ETIMEDOUT)
                fail_msg("%d: %s", s.result, err_text(&s.e));
}

int main(void) {
        signal(SIGPIPE, SIG_IGN);
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(call_is_as_specified),          cmocka_unit_test(answers_are_read),
                cmocka_unit_test(malformed_answers_are_refused), cmocka_unit_test(bad_managers_change_nothing),
                cmocka_unit_test(endless_manager_is_left),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
