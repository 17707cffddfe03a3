/* SPDX-License-Identifier: Apache-2.0 */
/* Notes of repositories: written before anything is made or moved, or nothing is. */
#include "sandbox/linux/broker/made/repos.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/files/tree.h"
#include "base/paths/path.h"

#include "../cmocka_all.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

struct fixture {
        char root[64], guard[96];
        int record;
        struct plan_guard guards[1];
        struct plan plan;
        struct notes *notes;
        struct repos *repos;
};

static int setup(void **state) {
        static struct fixture f;
        char *made;

        snprintf(f.root, sizeof f.root, "/tmp/repos.XXXXXX");
        made = mkdtemp(f.root);
        assert_non_null(made);
        snprintf(f.guard, sizeof f.guard, "%s/.envrc", f.root);
        f.record = memfd_create("record", MFD_CLOEXEC);
        assert_int_equal(write(f.record, "head", 4), 4);
        f.guards[0] = (struct plan_guard){ .path = f.guard, .why = "built in", .root = f.root };
        f.plan.guards.p = f.guards;
        f.plan.guards.n = 1;
        assert_int_equal(notes_new(f.record, &f.notes), 0);
        assert_int_equal(repos_new(&f.plan, f.notes, &f.repos), 0);
        *state = &f;
        return 0;
}

static int teardown(void **state) {
        struct fixture *f = *state;

        repos_freep(&f->repos);
        notes_freep(&f->notes);
        close(f->record);
        return tree_remove(AT_FDCWD, f->root);
}

static const char *path_of(const struct fixture *f, const char *name) {
        static char path[PATH_MAX];

        snprintf(path, sizeof path, "%s/%s", f->root, name);
        return path;
}

static bool record_has(const struct fixture *f, const char *name) {
        struct stat st;
        char wanted[PATH_MAX + 8];
        size_t n = (size_t)snprintf(wanted, sizeof wanted, "made%c%s/%s", '\0', f->root, name) + 1;

        assert_int_equal(fstat(f->record, &st), 0);
        cleanup(free_ptr) char *text = calloc(1, (size_t)st.st_size + 1);
        assert_non_null(text);
        assert_int_equal(pread(f->record, text, (size_t)st.st_size, 0), st.st_size);
        return memmem(text, (size_t)st.st_size, wanted, n) != NULL;
}

static void make_repository(const struct fixture *f, const char *name) {
        assert_int_equal(mkdir(path_of(f, name), 0700), 0);
        char objects[PATH_MAX + 16];
        snprintf(objects, sizeof objects, "%s/objects", path_of(f, name));
        assert_int_equal(repos_founding(f->repos, objects), 0);
        assert_int_equal(mkdir(objects, 0700), 0);
        repos_made(f->repos, objects, false);
}

static void noted_before_it_is_made(void **state) {
        struct fixture *f = *state;

        assert_int_equal(repos_founding(f->repos, path_of(f, ".git")), 0);
        assert_true(record_has(f, ".git"));
        assert_int_equal(mkdir(path_of(f, "x"), 0700), 0);
        assert_int_equal(repos_founding(f->repos, path_of(f, "x/refs")), 0);
        assert_true(record_has(f, "x"));

        assert_int_equal(mkdir(path_of(f, "z"), 0700), 0);
        assert_int_equal(repos_founding(f->repos, path_of(f, "z/.GIT")), 0);
        assert_true(record_has(f, "z/.GIT"));
        assert_int_equal(repos_founding(f->repos, path_of(f, "z/head")), 0);
        assert_true(record_has(f, "z"));
}

/* What was there is not the sandbox's, whatever call was tried on it. */
static void what_is_there_is_not_noted(void **state) {
        struct fixture *f = *state;

        assert_int_equal(mkdir(path_of(f, "y"), 0700), 0);
        assert_int_equal(mkdir(path_of(f, "y/.git"), 0700), 0);
        assert_int_equal(repos_founding(f->repos, path_of(f, "y/.git")), 0);
        assert_false(record_has(f, "y/.git"));
}

static void moved_places_are_noted_first(void **state) {
        struct fixture *f = *state;
        cleanup(free_ptr) char *from = strdup(path_of(f, "a")), *to = strdup(path_of(f, "b"));

        make_repository(f, "a");
        assert_int_equal(notes_moving(f->notes, from, to, false), 0);
        assert_true(record_has(f, "a") && record_has(f, "b"));
        notes_not_moved(f->notes);
        assert_true(record_has(f, "a") && !record_has(f, "b"));

        assert_int_equal(notes_moving(f->notes, from, to, false), 0);
        notes_moved(f->notes, from, to, false);
        assert_true(!record_has(f, "a") && record_has(f, "b"));
        assert_int_equal(notes_moving(f->notes, from, to, true), 0); /* the other way round */
        notes_moved(f->notes, from, to, true);
        assert_true(record_has(f, "a") && !record_has(f, "b"));
}

/* Paths that grow by being moved count as much as those that are new. */
static void moves_cannot_outgrow_the_record(void **state) {
        struct fixture *f = *state;
        char deep[3600], name[64];
        cleanup(free_ptr) char *from = strdup(path_of(f, "p"));
        int r = 0;

        assert_int_equal(mkdir(from, 0700), 0);
        for (int i = 0; i < 3000; i++) {
                snprintf(name, sizeof name, "p/%d", i);
                make_repository(f, name);
        }
        memset(deep, 'd', sizeof deep);
        for (size_t i = 0; i < sizeof deep; i += 200)
                deep[i] = '/';
        deep[sizeof deep - 1] = '\0';

        r = notes_moving(f->notes, from, deep, false);
        assert_int_equal(r, -EDQUOT);
        assert_true(record_has(f, "p/0") && record_has(f, "p/2999"));

        make_repository(f, "evil"); /* what is left goes on being noted where it goes */
        cleanup(free_ptr) char *evil = strdup(path_of(f, "evil")), *other = strdup(path_of(f, "other"));
        assert_int_equal(notes_moving(f->notes, evil, other, false), 0);
        notes_moved(f->notes, evil, other, false);
        assert_true(record_has(f, "other"));
}

static void nothing_goes_where_nobody_sweeps(void **state) {
        struct fixture *f = *state;
        char deep[PATH_MAX];
        cleanup(free_ptr) char *from = strdup(path_of(f, "a"));

        assert_int_equal(mkdir(from, 0700), 0);
        make_repository(f, "a/0123456789");
        memset(deep, 'd', sizeof deep);
        deep[0] = '/';
        deep[sizeof deep - 8] = '\0';
        assert_int_equal(notes_moving(f->notes, from, deep, false), -ENAMETOOLONG);
}

static void set_file_limit(rlim_t bytes) {
        struct rlimit limit;

        assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
        limit.rlim_cur = bytes;
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* As on a full disk: some of a note may fit, and then none of it stays. */
static void what_cannot_be_noted_is_refused(void **state) {
        struct fixture *f = *state;
        cleanup(free_ptr) char *from = strdup(path_of(f, "a")), *to = strdup(path_of(f, "b"));
        struct stat before, after;
        struct rlimit unlimited;

        make_repository(f, "a");
        assert_int_equal(fstat(f->record, &before), 0);
        assert_int_equal(getrlimit(RLIMIT_FSIZE, &unlimited), 0);
        (void)signal(SIGXFSZ, SIG_IGN);
        set_file_limit((rlim_t)before.st_size + 7);
        int founding = repos_founding(f->repos, path_of(f, "c/.git")), moving = notes_moving(f->notes, from, to, false);
        set_file_limit(unlimited.rlim_cur);

        assert_int_equal(founding, -EFBIG);
        assert_int_equal(moving, -EFBIG);
        assert_int_equal(fstat(f->record, &after), 0);
        assert_int_equal(after.st_size, before.st_size);
        assert_int_equal(repos_founding(f->repos, path_of(f, "c/.git")), 0);
        assert_true(record_has(f, "c/.git"));
}

/* As if the process were killed while it writes the list anew: at every byte, the record has every repository. */
static void a_list_that_is_cut_off_loses_nothing(void **state) {
        struct fixture *f = *state;
        const char longer[] = "b-that-is-a-good-deal-longer";
        cleanup(free_ptr) char *from = strdup(path_of(f, "a")), *to = strdup(path_of(f, longer));
        struct rlimit before, limit;
        struct stat whole;
        char name[64];

        assert_int_equal(mkdir(from, 0700), 0);
        for (int i = 0; i < 8; i++) {
                snprintf(name, sizeof name, "a/%d", i);
                make_repository(f, name);
                snprintf(name, sizeof name, "c%d", i);
                make_repository(f, name);
        }

        assert_int_equal(notes_moving(f->notes, from, to, false), 0);
        assert_int_equal(rename(from, to), 0);
        assert_int_equal(fstat(f->record, &whole), 0);
        assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
        assert_true(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);

        limit = (struct rlimit){ (rlim_t)whole.st_size / 3, before.rlim_max };
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
        notes_moved(f->notes, from, to, false);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);

        for (int i = 0; i < 8; i++) {
                snprintf(name, sizeof name, "c%d", i);
                assert_true(record_has(f, name));
                snprintf(name, sizeof name, "%s/%d", longer, i);
                assert_true(record_has(f, name));
        }

        /* When there is room again: work goes on, and what is not there any more is not in the list. */
        assert_true(record_has(f, "a/0"));
        assert_int_equal(repos_founding(f->repos, path_of(f, "d/.git")), 0);
        assert_true(record_has(f, "d/.git") && !record_has(f, "a/0"));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(noted_before_it_is_made, setup, teardown),
                cmocka_unit_test_setup_teardown(what_is_there_is_not_noted, setup, teardown),
                cmocka_unit_test_setup_teardown(moved_places_are_noted_first, setup, teardown),
                cmocka_unit_test_setup_teardown(moves_cannot_outgrow_the_record, setup, teardown),
                cmocka_unit_test_setup_teardown(nothing_goes_where_nobody_sweeps, setup, teardown),
                cmocka_unit_test_setup_teardown(a_list_that_is_cut_off_loses_nothing, setup, teardown),
                cmocka_unit_test_setup_teardown(what_cannot_be_noted_is_refused, setup, teardown),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
