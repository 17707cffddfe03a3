/* SPDX-License-Identifier: Apache-2.0 */
#include "ipc/supervise_messages.h"

#include "../cmocka_all.h"
#include "base/cleanup.h"
#include "base/fd.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

static void make(struct supervise_request *q) {
        *q = (struct supervise_request){ .job = SUPERVISE_RUN,
                                         .base = str_dup(STR("/srv")),
                                         .policy = str_dup(STR("")) };
        assert_int_equal(supervise_texts_add(&q->config, STR("network.allow=a.test")), 0);
        assert_int_equal(supervise_texts_add(&q->call, STR("mode=read-only")), 0);
        assert_int_equal(supervise_texts_add(&q->argv, STR("echo")), 0);
        assert_int_equal(supervise_texts_add(&q->argv, STR("")), 0);
        assert_int_equal(supervise_texts_add(&q->argv, STR("1:a,\n\xff")), 0); /* looks like a field itself */
}

static void blocks_come_back_whole(void **state) {
        cleanup(supervise_request_done) struct supervise_request q = { 0 }, got = { 0 };
        cleanup(free_ptr) char *block = NULL, *again = NULL;
        struct err e = { 0 };
        (void)state;
        make(&q);
        assert_int_equal(supervise_encode(&q, &block, &e), 0);
        assert_int_equal(supervise_decode(str_of(block), &got, &e), 0);
        assert_string_equal(got.base, "/srv");
        assert_string_equal(got.policy, "");
        assert_null(got.cwd);
        assert_int_equal(got.argv.n, 3);
        assert_string_equal(got.argv.p[2], "1:a,\n\xff");
        assert_string_equal(got.call.p[0], "mode=read-only");
        assert_int_equal(supervise_encode(&got, &again, &e), 0);
        assert_string_equal(block, again);
}

static void what_is_no_block_is_refused(void **state) {
        cleanup(supervise_request_done) struct supervise_request q = { 0 };
        cleanup(free_ptr) char *block = NULL;
        struct err e = { 0 };
        (void)state;
        make(&q);
        assert_int_equal(supervise_encode(&q, &block, &e), 0);
        struct supervise_request got = { 0 };
        for (size_t n = 0; n < strlen(block); n++) /* cut anywhere: refused, or it ended between two words */
                if (supervise_decode(str_n(block, n), &got, &e) == 0) {
                        assert_true(block[n - 1] == ',' && got.argv.n < 3);
                        supervise_request_done(&got);
                }
        static const char *const wrong[] = {
                "",
                "4:v5.0",
                "4:v5.9,5:b/srv,2:ax,",         /* no such job */
                "4:v5.0,4:bsrv,2:ax,",          /* not absolute */
                "4:v5.0,5:b/srv,",              /* no command */
                "4:v5.0,5:b/srv,5:b/srv,2:ax,", /* twice */
                "4:v5.0,5:b/srv,2:ax,2:zx,",    /* unknown */
                "4:v5.0,5:b/srv,2:ax,2:jx,",    /* judged by halves */
                "4:v5.2,5:b/srv,2:ax,",         /* not judged at all */
                "4:v5.0,5:b/srv,2:ax,2:fx,",    /* a file without its place */
                "4:v5.3,5:b/srv,2:ax,",
                "4:v5.0,5:b/srv,0:,2:ax,",
                "4:v5.0,5:b/srv,99999999999:ax,",
                "5:b/srv,4:v5.0,2:ax,",
        };
        for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
                assert_int_equal(supervise_decode(str_of(wrong[i]), &got, &e), -EBADMSG);
        assert_int_equal(supervise_decode(STR("4:v1.0,5:b/srv,2:ax,"), &got, &e), -EPROTO);
        assert_non_null(strstr(err_text(&e), "different versions"));
        assert_int_equal(supervise_decode(STR("4:v5.0,5:b/s\0v,2:ax,"), &got, &e), -EBADMSG);
}

static void messages(void **state) {
        int pair[2];
        struct supervise_fds fds = SUPERVISE_NO_FDS;
        struct supervise_message m = { .kind = SUPERVISE_END, .number = RUN_TIMED_OUT, .detail = "late" }, got;
        (void)state;
        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair), 0);
        const struct supervise_fds both = { pair[0], pair[1] };
        assert_int_equal(supervise_receive(pair[1], &got, &fds), -EAGAIN);
        assert_int_equal(supervise_send(pair[0], &m, NULL), 0);
        assert_int_equal(supervise_receive(pair[1], &got, &fds), 1);
        assert_true(got.kind == SUPERVISE_END && got.number == RUN_TIMED_OUT && fds.block == -1 && fds.judged == -1);
        assert_string_equal(got.detail, "late");
        /* Descriptors belong to a new policy, and to nothing else. */
        assert_int_equal(supervise_send(pair[0], &m, &both), 0);
        assert_int_equal(supervise_receive(pair[1], &got, &fds), -EBADMSG);
        m.kind = SUPERVISE_RELOAD;
        assert_int_equal(supervise_send(pair[0], &m, NULL), 0);
        assert_int_equal(supervise_receive(pair[1], &got, &fds), -EBADMSG);
        assert_int_equal(supervise_send(pair[0], &m, &both), 0);
        assert_int_equal(supervise_receive(pair[1], &got, &fds), 1);
        assert_true(fds.block >= 0 && fds.judged >= 0 && fds.block != fds.judged);
        supervise_fds_done(&fds);
        /* Whoever expects none gets none. */
        assert_int_equal(supervise_send(pair[0], &m, &both), 0);
        assert_int_equal(supervise_receive(pair[1], &got, NULL), -EBADMSG);
        m.kind = SUPERVISE_KINDS;
        assert_int_equal(supervise_send(pair[0], &m, NULL), 0);
        assert_int_equal(supervise_receive(pair[1], &got, &fds), -EBADMSG);
        m.kind = SUPERVISE_VIOLATION;
        memset(m.rule, 'x', sizeof m.rule); /* not terminated */
        assert_int_equal(supervise_send(pair[0], &m, NULL), 0);
        assert_int_equal(supervise_receive(pair[1], &got, &fds), -EBADMSG);
        assert_int_equal(write(pair[0], "short", 5), 5);
        assert_int_equal(supervise_receive(pair[1], &got, &fds), -EBADMSG);
        close(pair[0]);
        assert_int_equal(supervise_receive(pair[1], &got, &fds), 0);
        close(pair[1]);
}

/* The last word of a side that ended with something unread arrives. */
static void the_last_word(void **state) {
        int pair[2];
        struct supervise_fds fds = SUPERVISE_NO_FDS;
        struct supervise_message m = { .kind = SUPERVISE_ANSWER }, got;
        (void)state;
        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
        assert_int_equal(supervise_send(pair[0], &m, NULL), 0); /* never read */
        m.kind = SUPERVISE_END;
        assert_int_equal(supervise_send(pair[1], &m, NULL), 0);
        close(pair[1]);
        assert_int_equal(supervise_receive(pair[0], &got, &fds), 1);
        assert_int_equal(got.kind, SUPERVISE_END);
        assert_int_equal(supervise_receive(pair[0], &got, &fds), 0);
        close(pair[0]);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(blocks_come_back_whole),
                cmocka_unit_test(what_is_no_block_is_refused),
                cmocka_unit_test(messages),
                cmocka_unit_test(the_last_word),
        };
        return cmocka_run_group_tests_name("ipc/supervise", tests, NULL, NULL);
}
