/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Carries out the plans of plan/macos/macos_guest.h. All of it as root. Never yet run on a Mac. */
#include "plan/macos/macos_guest.h"
#include "sandbox/darwin/darwin_tool.h"

struct guest_world {
        struct tool tool;
        const char *files; /* before the paths of files that are written, for tests; NULL: none */
};

/* A step that fails undoes those before it, in reverse order, and says which it was. The token that pfctl -E printed is
 * in *ret_token: without it pf stays on for ever. */
int guest_create(const struct guest_world *world, const struct guest_request *request, char **ret_token,
                 struct err *err);
/* 0 where neither the account nor the number is taken, -EEXIST where one is. */
int guest_check_free(const struct guest_world *world, const struct guest_request *request, struct err *err);
/* A number that neither an account nor a group has; 0 is an error. */
int guest_find_id(const struct guest_world *world, unsigned *ret, struct err *err);
/* After a start of the machine: the rules are loaded again, and pf is wanted with a new token. */
int guest_load_firewall(const struct guest_world *world, const struct guest_request *request, char **ret_token,
                        struct err *err);
/* Every step is tried; the first failure is reported. `token` may be NULL. */
int guest_delete(const struct guest_world *world, const struct guest_request *request, const char *token,
                 struct err *err);

/* "Token : 123" in what pfctl -E prints, as heap text; NULL without one. */
char *guest_pf_token(struct str printed);
