/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A directory with a workspace and a home of its own, which is also the current one; a config and a manager in it.
 *
 * The executable is the one of this build, or BAILEY_TEST_EXECUTABLE: a test of the library under a sanitizer starts
 * the ordinary one.
 */
#include "../unit/cmocka_all.h"

#include <bailey/bailey.h>

struct fixture {
        char directory[64];
        bailey_config *config;
        bailey_manager *manager; /* NULL until fixture_start() */
        struct bailey_error e;
};

int fixture_setup(void **state);
int fixture_teardown(void **state);
/* A manager on fixture->config. */
void fixture_start(struct fixture *f);

#define assert_ok(call)                                                                                                \
        do {                                                                                                           \
                int got_code = (call);                                                                                 \
                if (got_code != BAILEY_OK)                                                                             \
                        fail_msg("%s: %s: %s", #call, bailey_error_name(got_code), f->e.message);                      \
        } while (0)
#define assert_code(call, code) assert_int_equal((call), (code))

/* Runs the command and checks what it wrote to standard output. */
void assert_says(struct fixture *f, const char *command, const bailey_options *o, const char *expected);
