/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Between the files of `bailey guest`: verb_guest.c (life), verb_guest_show.c (looking), verb_guest_data.c (files). */
#include "cli/verb.h"
#include "guest/guest_place.h"
#include "guest/guest_start.h"

enum { HOLD_MS = 20000 }; /* how long a command waits for another one at work on its guest */

extern const struct verb verb_guest_ports, verb_guest_provision, verb_guest_recipes;
extern const struct verb verb_guest_ls, verb_guest_set, verb_guest_show, verb_guest_jobs, verb_guest_logs;
extern const struct verb verb_guest_snapshot, verb_guest_snapshots, verb_guest_restore, verb_guest_archive,
    verb_guest_unarchive, verb_guest_cp, verb_guest_grant, verb_guest_revoke, verb_guest_grants, verb_guest_ssh_config;

/* Opens the guests and the one that the first word names. Returns an exit code. */
int guest_open(const struct call *call, struct guests *guests, struct guest *guest, struct err *err);
/* The same, alone with it. */
int guest_open_held(const struct call *call, struct guests *guests, struct guest *guest, struct err *err);

/* Recipes by name or path, done to a guest that the caller holds, with progress on standard error. */
struct provision_request {
        char **words;
        size_t n;
        bool again;
        struct guest_extra extra;
};
int guest_provision_words(struct guests *guests, struct guest *guest, const struct provision_request *request,
                          struct err *err);
