/* SPDX-License-Identifier: Apache-2.0 */
#include "vault/reader_places.h"

#include "base/cleanup.h"
#include "base/files/tree.h"
#include "base/paths/path.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../cmocka_all.h"

static char top[PATH_MAX];

static int set_up(void **state) {
        char made[] = "/tmp/bailey-places-XXXXXX";

        (void)state;
        return mkdtemp(made) && realpath(made, top) ? 0 : -1;
}

static int tear_down(void **state) {
        (void)state;
        return tree_remove(AT_FDCWD, top);
}

static const char *at(const char *name) {
        static char texts[4][PATH_MAX];
        static unsigned next;
        char *text = texts[next++ % 4];

        snprintf(text, PATH_MAX, "%.2000s/%.2000s", top, name);
        return text;
}

static bool has(const reader_paths *list, const char *path) {
        for (size_t i = 0; i < list->n; i++)
                if (strcmp(list->p[i], path) == 0)
                        return true;
        return false;
}

static void make_file(const char *name) {
        struct err e = { 0 };
        assert_int_equal(path_replace_file(at(name), STR("x"), 0600, &e), 0);
}

/* A link in the way, and one at the end; a file that is not there yet; what has no file. */
static void files_are_named_as_the_kernel_does(void **state) {
        static struct vault_start start;
        static struct vault_mapping mappings[5];
        cleanup(reader_places_done) struct reader_places places = { 0 };
        struct err e = { 0 };

        (void)state;
        assert_int_equal(mkdir(at("real"), 0700), 0);
        assert_int_equal(mkdir(at("elsewhere"), 0700), 0);
        assert_int_equal(symlink("real", at("way")), 0);
        make_file("real/key");
        make_file("elsewhere/target");
        assert_int_equal(symlink("../elsewhere/target", at("real/link")), 0);

        start.n_mappings = 5;
        snprintf(mappings[0].source, sizeof mappings[0].source, "file:%.2000s", at("way/key"));
        snprintf(mappings[1].source, sizeof mappings[1].source, "file:%.2000s", at("way/link"));
        snprintf(mappings[2].source, sizeof mappings[2].source, "file:%.2000s", at("way/later"));
        snprintf(mappings[3].source, sizeof mappings[3].source, "env:KEY");
        snprintf(mappings[4].source, sizeof mappings[4].source, "file:%.2000s", at("nowhere/key"));
        assert_int_equal(reader_places_of(&start, mappings, &places, &e), 0);

        assert_true(has(&places.read, at("real/key")));
        assert_true(has(&places.read, at("real/link")));
        assert_true(has(&places.read, at("real/later")));
        assert_true(has(&places.read, at("real")));
        assert_true(has(&places.read, at("elsewhere/target")));
        assert_true(has(&places.read, at("elsewhere")));
        assert_int_equal(places.read.n, 6);
        assert_int_equal(places.written.n, 0);
}

/* The file of a sign-in is replaced, under the lock of its agent and under ours. */
static void a_sign_in_is_written_where_it_is(void **state) {
        static struct vault_start start;
        static struct vault_mapping mapping;
        cleanup(reader_places_done) struct reader_places places = { 0 };
        struct err e = { 0 };

        (void)state;
        assert_int_equal(mkdir(at(".claude"), 0700), 0);
        assert_int_equal(mkdir(at("locks"), 0700), 0);
        start.n_mappings = 1;
        snprintf(start.lock_dir, sizeof start.lock_dir, "%s", at("locks"));
        snprintf(mapping.source, sizeof mapping.source, "json:%.2000s#/claudeAiOauth/accessToken",
                 at(".claude/.credentials.json"));
        snprintf(mapping.answer, sizeof mapping.answer, "access_token");
        assert_int_equal(reader_places_of(&start, &mapping, &places, &e), 0);

        assert_true(has(&places.read, at(".claude/.credentials.json")));
        assert_true(has(&places.written, at(".claude")));
        assert_true(has(&places.written, at(".claude.lock")));
        assert_true(has(&places.written, at("locks")));
        assert_int_equal(places.written.n, 3);

        /* kept elsewhere, with a link in its place */
        reader_places_done(&places);
        assert_int_equal(mkdir(at("dotfiles"), 0700), 0);
        make_file("dotfiles/claude.json");
        assert_int_equal(symlink("../dotfiles/claude.json", at(".claude/.credentials.json")), 0);
        assert_int_equal(reader_places_of(&start, &mapping, &places, &e), 0);
        assert_true(has(&places.written, at("dotfiles")));
        assert_true(has(&places.written, at(".claude")));
        assert_int_equal(places.written.n, 4);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(files_are_named_as_the_kernel_does, set_up, tear_down),
                cmocka_unit_test_setup_teardown(a_sign_in_is_written_where_it_is, set_up, tear_down),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
