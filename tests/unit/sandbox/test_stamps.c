/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/named_stamps.h"

#include "../cmocka_all.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char place[] = "/tmp/bailey-stamps-XXXXXX";

static int make_place(void **state) {
        (void)state;
        return mkdtemp(place) && chdir(place) == 0 ? 0 : -1;
}

static int remove_place(void **state) {
        (void)state;
        (void)unlink("file");
        (void)unlink("link");
        (void)chdir("/");
        return rmdir(place);
}

static void write_file(const char *name, const char *text) {
        FILE *file = fopen(name, "we");

        assert_non_null(file);
        assert_true(fputs(text, file) >= 0);
        assert_int_equal(fclose(file), 0);
}

static struct stamps take(const char *path) {
        struct stamps stamps;

        stamps_begin(&stamps);
        assert_int_equal(stamps_add(&stamps, path), 0);
        return stamps;
}

/* Compares it with what is there now; `settled`: as if it were old by then. */
static bool is_same(struct stamps *older, bool settled, const char *path) {
        struct stamps newer = take(path);

        if (settled)
                older->begun_us = older->settled_us + 1;

        bool same = stamps_same(older, &newer);

        stamps_done(older);
        stamps_done(&newer);
        return same;
}

static void what_is_as_before_is_the_same(void **state) {
        (void)state;
        write_file("file", "one");

        struct stamps stamps = take("file");
        assert_true(is_same(&stamps, true, "file"));

        stamps = take("missing");
        assert_true(is_same(&stamps, true, "missing"));
}

static void a_change_is_not(void **state) {
        struct stamps stamps;

        (void)state;
        write_file("file", "one");
        stamps = take("file");
        write_file("file", "three");
        assert_false(is_same(&stamps, true, "file"));

        stamps = take("file");
        assert_int_equal(unlink("file"), 0);
        assert_false(is_same(&stamps, true, "file"));

        stamps = take("file");
        write_file("file", "");
        assert_false(is_same(&stamps, true, "file"));
}

/* The link stays as it is. */
static void what_a_link_leads_to_counts(void **state) {
        struct stamps stamps;

        (void)state;
        write_file("file", "one");
        assert_int_equal(symlink("file", "link"), 0);

        stamps = take("link");
        assert_true(is_same(&stamps, true, "link"));

        stamps = take("link");
        write_file("file", "three");
        assert_false(is_same(&stamps, true, "link"));
}

/* A further change might have the same stamp. */
static void what_just_changed_is_never_the_same(void **state) {
        const struct timespec whole[2] = { { .tv_sec = 1 }, { .tv_sec = 1 } };
        struct stamps stamps;

        (void)state;
        write_file("file", "one");
        stamps = take("file");
        assert_true(stamps.settled_us > stamps.begun_us);
        assert_false(is_same(&stamps, false, "file"));

        /* The time that counts is when the file was touched, not what somebody set. */
        assert_int_equal(utimensat(AT_FDCWD, "file", whole, 0), 0);
        stamps = take("file");
        assert_false(is_same(&stamps, false, "file"));
}

static void nothing_was_taken_yet(void **state) {
        struct stamps none = { 0 };

        (void)state;
        assert_false(is_same(&none, false, "missing"));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(what_is_as_before_is_the_same), cmocka_unit_test(a_change_is_not),
                cmocka_unit_test(what_a_link_leads_to_counts),   cmocka_unit_test(what_just_changed_is_never_the_same),
                cmocka_unit_test(nothing_was_taken_yet),
        };
        return cmocka_run_group_tests(tests, make_place, remove_place);
}
