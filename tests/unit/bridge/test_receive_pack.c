/* SPDX-License-Identifier: Apache-2.0 */
/* Heads of pushes as git writes them, and heads that somebody else might read in another way. */
#include "bridge/git_answer.h"
#include "bridge/pktline.h"
#include "bridge/receive_pack.h"

#include "../cmocka_all.h"
#include "base/cleanup.h"

#include <errno.h>

#define ZERO "0000000000000000000000000000000000000000"
#define ONE "1111111111111111111111111111111111111111"
#define TWO "2222222222222222222222222222222222222222"
#define LONG_ONE ONE "111111111111111111111111"
#define LONG_ZERO ZERO "000000000000000000000000"
#define CAPS " report-status-v2 side-band-64k object-format=sha1 agent=git/2.39.5"

/* Lines one after the other, "" for a flush; a '|' stands for a NUL. */
static void write_lines(struct buf *out, const char *const *lines) {
        for (; *lines; lines++) {
                cleanup(free_ptr) char *line = str_dup(str_of(*lines));
                size_t n = strlen(line);
                for (size_t i = 0; i < n; i++)
                        line[i] = line[i] == '|' ? '\0' : line[i];
                assert_int_equal(n ? pktline_write(out, str_n(line, n)) : pktline_write_flush(out), 0);
        }
}

static int read_lines(const char *const *lines, struct receive_pack *ret, struct buf *bytes) {
        write_lines(bytes, lines);
        assert_int_equal(buf_append(bytes, STR("PACK")), 0);
        return receive_pack_read(buf_str(bytes), ret);
}

#define LINES(...) ((const char *const[]){ __VA_ARGS__, NULL })

static void heads_are_read(void **state) {
        cleanup(buf_done) struct buf bytes = BUF(1 << 20);
        cleanup(receive_pack_done) struct receive_pack head = { 0 };

        (void)state;
        assert_int_equal(
            read_lines(LINES("shallow " ONE, ZERO " " ONE " refs/heads/new|" CAPS " push-options atomic",
                             ONE " " TWO " refs/heads/main", ONE " " ZERO " refs/tags/v1\n", "", "ci.skip", ""),
                       &head, &bytes),
            1);
        assert_int_equal(head.updates.n, 3);
        assert_true(head.updates.p[0].creates && !head.updates.p[0].deletes);
        assert_true(!head.updates.p[1].creates && !head.updates.p[1].deletes);
        assert_true(head.updates.p[2].deletes && str_is(head.updates.p[2].ref, "refs/tags/v1"));
        assert_true(head.side_band && head.report_status_v2 && head.push_options && head.atomic && !head.certificate);
        assert_int_equal(head.options.n, 1);
        assert_int_equal(bytes.n - head.bytes, 4);

        /* Every beginning of it wants more, and the scan agrees about where it may end. */
        struct receive_pack_scan scan = { 0 };
        for (size_t n = 0; n < head.bytes; n++) {
                cleanup(receive_pack_done) struct receive_pack part = { 0 };
                assert_int_equal(receive_pack_read(str_n(bytes.p, n), &part), 0);
                (void)receive_pack_scan(&scan, str_n(bytes.p, n));
        }
        assert_int_equal(receive_pack_scan(&scan, str_n(bytes.p, head.bytes)), 1);
        assert_int_equal(scan.at, head.bytes);
}

static void other_heads_are_read(void **state) {
        (void)state;
        const char *const *const good[] = {
                LINES(""), /* what git sends to find out whether it may */
                LINES(LONG_ZERO " " LONG_ONE " refs/heads/x| object-format=sha256 report-status", ""),
                LINES("push-cert| report-status", "certificate version 0.1\n", "pusher x\n", "\n",
                      ONE " " TWO " refs/heads/main\n", "-----BEGIN PGP SIGNATURE-----\n", "abc\n",
                      "-----END PGP SIGNATURE-----\n", "push-cert-end\n", ""),
        };
        for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
                cleanup(buf_done) struct buf bytes = BUF(1 << 20);
                cleanup(receive_pack_done) struct receive_pack head = { 0 };
                if (read_lines(good[i], &head, &bytes) != 1)
                        fail_msg("%zu: %s", i, head.problem ? head.problem : "?");
        }
}

static void heads_that_could_be_read_otherwise_are_refused(void **state) {
        (void)state;
        const char *const *const refused[] = {
                LINES(ONE " " TWO " refs/heads/a| report-status", ONE " " TWO " refs/heads/b| push-options", ""),
                LINES(ONE " " TWO " refs/heads/a| report-status", ONE " " TWO " refs/heads/a", ""),
                LINES(ONE " " TWO " refs/heads/a| unheard-of", ""),
                LINES(ONE " " TWO " refs/heads/a| object-format=md5", ""),
                LINES(ZERO " " ZERO " refs/heads/a| report-status", ""),
                LINES(ONE " " TWO " HEAD| report-status", ""),
                LINES(ONE " " TWO " refs/heads/a..b| report-status", ""),
                LINES(ONE " " TWO " refs/heads/../../x| report-status", ""),
                LINES(ONE " " TWO " refs/heads/a\nb| report-status", ""),
                LINES(ONE " " TWO " refs/heads/a b| report-status", ""),
                LINES(ONE " " TWO " refs//heads/a| report-status", ""),
                LINES(ONE " " TWO " refs/heads/.a| report-status", ""),
                LINES(ONE " " TWO " refs/heads/a.lock| report-status", ""),
                LINES(ONE " " TWO " refs/heads/\033[2J| report-status", ""),
                LINES("ABCDEFABCDEFABCDEFABCDEFABCDEFABCDEFABCD " TWO " refs/heads/a| report-status", ""),
                LINES(ONE " " LONG_ONE " refs/heads/a| report-status", ""),
                LINES(LONG_ONE " " LONG_ONE " refs/heads/a| report-status", ""),
                LINES(ONE " " TWO " refs/heads/a| report-status", "shallow " ONE, ""),
                LINES("shallow x", ONE " " TWO " refs/heads/a| report-status", ""),
                LINES("push-cert", ""),
                LINES("push-cert| report-status", "certificate version 0.1\n", "\n", ONE " " TWO " refs/heads/a\n",
                      "push-cert-end\n", ""),
                LINES("push-cert| report-status", "certificate version 0.1\n", "\n", ONE " " TWO " refs/heads/a\n",
                      "-----BEGIN SSH SIGNATURE-----\n", "-----BEGIN SSH SIGNATURE-----\n", "push-cert-end\n", ""),
                LINES("push-cert| report-status", "certificate version 0.1\n", "\n", ONE " " TWO " refs/heads/a\n",
                      "-----BEGIN SSH SIGNATURE-----\n", "push-cert-end\n", ONE " " TWO " refs/heads/b", ""),
                LINES("command=push", ""),
                /* Git and others part capabilities at more than spaces: these would be push options, unseen. */
                LINES(ONE " " TWO " refs/heads/a| report-status agent=git/2\tpush-options", "", "x", ""),
                LINES(ONE " " TWO " refs/heads/a| report-status agent=git/2\npush-options", "", "x", ""),
                LINES(ONE " " TWO " refs/heads/a| session-id=1\rpush-options", "", "x", ""),
                LINES(ONE " " TWO " refs/heads/a| agent=a\302\240push-options", "", "x", ""),
                LINES("push-cert| agent=a\tpush-options", "certificate version 0.1\n", "\n",
                      ONE " " TWO " refs/heads/a\n", "-----BEGIN SSH SIGNATURE-----\n", "push-cert-end\n", ""),
        };
        for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
                cleanup(buf_done) struct buf bytes = BUF(1 << 20);
                cleanup(receive_pack_done) struct receive_pack head = { 0 };
                if (read_lines(refused[i], &head, &bytes) != -EBADMSG || !head.problem)
                        fail_msg("%zu", i);
        }
        static const char *const framed[] = { "0003", "fff1", "00zz", "PACK", "0001", "0002" };
        for (size_t i = 0; i < sizeof framed / sizeof *framed; i++) {
                cleanup(receive_pack_done) struct receive_pack head = { 0 };
                if (receive_pack_read(str_of(framed[i]), &head) != -EBADMSG)
                        fail_msg("%s", framed[i]);
        }
}

static void long_heads_are_refused(void **state) {
        cleanup(buf_done) struct buf bytes = BUF(4 << 20);
        cleanup(receive_pack_done) struct receive_pack head = { 0 };

        (void)state;
        for (unsigned i = 0; bytes.n <= RECEIVE_PACK_HEAD_MAX; i++) {
                char line[200];
                snprintf(line, sizeof line, ONE " " TWO " refs/heads/%u", i);
                assert_int_equal(pktline_write(&bytes, str_of(line)), 0);
        }
        assert_int_equal(receive_pack_read(buf_str(&bytes), &head), -EBADMSG);
        struct receive_pack_scan scan = { 0 };
        assert_int_equal(receive_pack_scan(&scan, buf_str(&bytes)), -EBADMSG);
}

static void refusals_are_gits_own(void **state) {
        cleanup(buf_done) struct buf bytes = BUF(1 << 20), out = BUF(1 << 20);
        cleanup(receive_pack_done) struct receive_pack head = { 0 };

        (void)state;
        assert_int_equal(read_lines(LINES(ONE " " TWO " refs/heads/main| report-status", ""), &head, &bytes), 1);
        assert_int_equal(git_answer_push(&out, &head, STR("policy"), STR("")), 0);
        assert_true(str_is(buf_str(&out), "000eunpack ok\n001eng refs/heads/main policy\n0000"));
        head.report_status = false;
        assert_int_equal(git_answer_push(&out, &head, STR("policy"), STR("")), -EOPNOTSUPP);
        buf_clear(&out);
        assert_int_equal(git_answer_advertisement(&out, "upload-pack", true, STR("no")), 0);
        assert_true(str_is(buf_str(&out), "001e# service=git-upload-pack\n0000000aERR no"));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(heads_are_read),
                cmocka_unit_test(other_heads_are_read),
                cmocka_unit_test(heads_that_could_be_read_otherwise_are_refused),
                cmocka_unit_test(long_heads_are_refused),
                cmocka_unit_test(refusals_are_gits_own),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
