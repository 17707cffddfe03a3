/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"

#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at) {
        (void)st;
        (void)kind;
        (void)at;
        return remove(path);
}

int fixture_setup(void **state) {
        struct fixture *f = calloc(1, sizeof *f);
        char path[PATH_MAX];
        if (!f)
                return -1;
        snprintf(f->directory, sizeof f->directory, "/var/tmp/bailey-api-XXXXXX");
        /* As above an ordinary home: a guest that is another user must get through to its own. */
        if (!mkdtemp(f->directory) || chmod(f->directory, 0711) < 0)
                return -1;
        snprintf(path, sizeof path, "%s/home", f->directory);
        mkdir(path, 0700);
        setenv("HOME", path, 1);
        setenv("PATH", "/usr/local/bin:/usr/bin:/bin", 1);
        snprintf(path, sizeof path, "%s/state", f->directory);
        setenv("XDG_STATE_HOME", path, 1);
        snprintf(path, sizeof path, "%s/work", f->directory);
        if (mkdir(path, 0700) < 0 || chdir(path) < 0 || bailey_config_new(NULL, &f->config, &f->e) != BAILEY_OK)
                return -1;
        const char *executable = getenv("BAILEY_TEST_EXECUTABLE");
        if (bailey_config_executable(f->config, executable ? executable : BAILEY_BUILT, &f->e) != BAILEY_OK)
                return -1;
        *state = f;
        return 0;
}

int fixture_teardown(void **state) {
        struct fixture *f = *state;
        bailey_manager_free(f->manager);
        bailey_config_free(f->config);
        if (chdir("/") < 0)
                return -1;
        int r = nftw(f->directory, remove_one, 16, FTW_DEPTH | FTW_PHYS);
        free(f);
        return r;
}

void fixture_start(struct fixture *f) {
        assert_ok(bailey_manager_new(f->config, &f->manager, &f->e));
}

void assert_says(struct fixture *f, const char *command, const bailey_options *o, const char *expected) {
        bailey_result *r = NULL;
        size_t n;
        assert_ok(bailey_manager_exec(f->manager, command, o, &r, &f->e));
        assert_string_equal(bailey_result_stdout(r, &n), expected);
        assert_int_equal(n, strlen(expected));
        bailey_result_free(r);
}
