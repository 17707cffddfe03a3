/* SPDX-License-Identifier: Apache-2.0 */
/* Notes of long work: listed while their process lives, whatever is in them. */
#include "store/progress.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/files/lock_file.h"
#include "base/files/tree.h"
#include "base/paths/path.h"

#include "../child.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

static char place[40];

static int set_up(void **state) {
        (void)state;
        memcpy(place, "/tmp/test-progress-XXXXXX", 26);
        return mkdtemp(place) && setenv("XDG_STATE_HOME", place, 1) == 0 ? 0 : -1;
}

static int tear_down(void **state) {
        (void)state;
        return tree_remove(AT_FDCWD, place);
}

static void list_into(struct buf *out) {
        struct emit j = emit_to(out);

        emit_open(&j, '[');
        progress_list(&j);
        emit_close(&j);
        assert_int_equal(emit_status(&j), 0);
}

static void assert_listed(const char *text) {
        cleanup(buf_done) struct buf out = BUF(1 << 16);

        list_into(&out);
        assert_int_equal(buf_add_char(&out, '\0'), 0);
        if (text)
                assert_non_null(strstr(out.p, text));
        else
                assert_string_equal(out.p, "[]");
}

static void is_listed_while_it_lasts(void **state) {
        (void)state;
        struct progress progress = { .what = "one: \"packing\"", .total = 200, .silent = true, .note = -1 };

        assert_listed(NULL);
        progress_open(&progress);
        assert_listed("\"what\":\"one: \\\"packing\\\"\",\"unit\":\"bytes\"");
        assert_listed("\"done\":0,\"total\":200");
        progress_add(&progress, 50);
        assert_listed("\"done\":50,\"total\":200");
        progress_close(&progress);
        assert_listed(NULL);
}

static void open_and_die(void *argument) {
        (void)argument;
        struct progress progress = { .what = "dead", .silent = true, .note = -1 };

        progress_open(&progress);
        CHECK(progress.note >= 0);
}

static void a_dead_one_is_removed(void **state) {
        (void)state;
        cleanup(free_ptr) char *work = str_format("%s/bailey/work", place);

        assert_child_succeeds(open_and_die, NULL);
        assert_int_equal(access(work, F_OK), 0);
        assert_listed(NULL);
        assert_int_equal(rmdir(work), 0); /* it was the only one */
}

/* Whoever works on it may be somebody else by then. */
static void what_it_says_is_not_trusted(void **state) {
        (void)state;
        struct progress progress = { .what = "good", .silent = true, .note = -1 };
        static const char *const bad[] = { "}],\"sandboxes\":[{", "{\"what\":[],\"unit\":\"\"}", "{\"what\":1", "" };

        progress_open(&progress);
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
                char note[1024];

                memset(note, ' ', sizeof note);
                memcpy(note, bad[i], strlen(bad[i]));
                note[sizeof note - 1] = '\n';
                assert_int_equal(pwrite(progress.note, note, sizeof note, 0), sizeof note);
                assert_listed(NULL);
        }

        static const char wrong[] =
            "{\"what\":\"x\",\"unit\":\"<b>\",\"done\":-1,\"total\":9007199254740999,\"more\":1}";
        char note[1024];
        memset(note, ' ', sizeof note);
        memcpy(note, wrong, sizeof wrong - 1);
        note[sizeof note - 1] = '\n';
        assert_int_equal(pwrite(progress.note, note, sizeof note, 0), sizeof note);
        assert_listed("[{\"what\":\"x\",\"unit\":\"\",\"since_us\":0,\"done\":0,\"total\":0}]");
        progress_close(&progress);
}

static void nothing_without_a_place(void **state) {
        (void)state;
        struct progress progress = { .what = "nowhere", .silent = true, .note = -1 };

        assert_int_equal(setenv("XDG_STATE_HOME", "/proc/self/nothing", 1), 0);
        progress_open(&progress);
        assert_int_equal(progress.note, -1);
        progress_add(&progress, 1);
        progress_close(&progress);
        assert_listed(NULL);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(is_listed_while_it_lasts, set_up, tear_down),
                cmocka_unit_test_setup_teardown(a_dead_one_is_removed, set_up, tear_down),
                cmocka_unit_test_setup_teardown(what_it_says_is_not_trusted, set_up, tear_down),
                cmocka_unit_test_setup_teardown(nothing_without_a_place, set_up, tear_down),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
