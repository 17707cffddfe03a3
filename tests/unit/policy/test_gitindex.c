/* SPDX-License-Identifier: Apache-2.0 */
/* Indexes as git writes them (tests/fuzz/seeds/gitindex has real ones), and damaged ones. */
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/paths/path.h"
#include "policy/git/gitindex.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static int collect(struct str path, void *context) {
        return buf_printf(context, "%.*s\n", STR_FMT(path));
}

static void read_file(const char *name, struct buf *ret) {
        char path[512];
        snprintf(path, sizeof path, "%s/../fuzz/seeds/gitindex/%s", getenv("CASES"), name);
        assert_int_equal(path_read_file(path, 1 << 20, ret, NULL), 0);
}

static void links_are_found(void **state) {
        static const struct {
                const char *file;
                unsigned hash;
        } rows[] = { { "version2", 20 }, { "version3", 20 }, { "version4", 20 }, { "sha256", 32 } };

        (void)state;
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
                cleanup(buf_done) struct buf bytes = BUF(1 << 20), found = BUF(4096);
                read_file(rows[i].file, &bytes);
                assert_int_equal(gitindex_links(buf_str(&bytes), rows[i].hash, collect, &found), 0);
                if (!str_is(buf_str(&found), "deep/er/own\nown\nvendor/lib\n"))
                        fail_msg("%s: %.*s", rows[i].file, STR_FMT(buf_str(&found)));
        }
}

static void what_is_cut_off_is_refused(void **state) {
        cleanup(buf_done) struct buf bytes = BUF(1 << 20);

        (void)state;
        read_file("version4", &bytes);
        for (size_t n = 0; n < 200; n++) {
                cleanup(buf_done) struct buf found = BUF(4096);
                assert_int_equal(gitindex_links(str_n(bytes.p, n), 20, collect, &found), -EBADMSG);
        }
        assert_int_equal(gitindex_links(STR("nonsense, and long enough"), 20, collect, NULL), -EBADMSG);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(links_are_found),
                cmocka_unit_test(what_is_cut_off_is_refused),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
