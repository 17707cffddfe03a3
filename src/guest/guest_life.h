/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* How guests come into being, change their name, and go. */
#include "conf/option.h"
#include "guest/guest_place.h"

#define GUEST_NOTE_KEEP "keep-home"

struct guest_setting {
        const struct option *row; /* of the policy's tables */
        const char *text;
};
struct guest_wish {
        const char *name;
        bool account;
        uint64_t idle_s;
        uint64_t disk;                      /* bytes that its home may take; 0: no limit of its own */
        VEC(struct guest_setting) settings; /* of the policy, laid below those of each start */
};

/* `note` (ERR_TEXT_MAX bytes) says what this kind of guest gives up, or is empty. */
int guest_create(struct guests *guests, const struct guest_wish *wish, struct guest *ret, char *note, struct err *err);
/* From wherever it was interrupted. */
int guest_create_finish(struct guests *guests, struct guest *guest, struct err *err);

/* With everything that belongs to it; the home stays with `keep`. It must not run. The caller holds it. */
int guest_delete(struct guests *guests, struct guest *guest, bool keep, struct err *err);
int guest_delete_finish(struct guests *guests, struct guest *guest, bool keep, struct err *err);

int guest_rename(struct guests *guests, struct guest *guest, const char *name, struct err *err);
/* Owner, modes and lists of everything in the home, and the state of one that was broken. */
int guest_fix(struct guests *guests, struct guest *guest, struct err *err);
