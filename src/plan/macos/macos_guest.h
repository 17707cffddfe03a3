/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Guests of macOS: accounts of their own for agents, as data. Each step is a program with its words, a text for a file,
 * and the step that undoes it. Pure; sandbox/darwin/darwin_guest.c carries it out. Never yet run on a Mac.
 *
 * An account is made by dscl with numbers that are free, hidden, without a password, in a group of its own and out of
 * `staff`. The user may enter its home (an access list), it may not enter the user's. pf lets it reach the gateway's
 * ports on loopback and nothing else, by its number; the profile (plan/macos/seatbelt.h) closes what pf cannot see:
 * names are looked up by a daemon with a number of its own.
 */
#include "base/buf.h"
#include "base/err.h"
#include "base/vec.h"

enum { GUEST_WORDS_MAX = 16, GUEST_ID_FIRST = 600, GUEST_ID_LAST = 999 };

struct guest_request {
        const char *user;     /* who owns it */
        const char *name;     /* of the guest: letters, digits and '-' */
        unsigned uid, gid;    /* free ones: guest_free_id() */
        uint16_t ports[3];    /* of the gateway, 0: none */
        const char *launcher; /* what the user may start as the guest: an absolute path; NULL: nothing */
};

struct guest_step {
        const char *words[GUEST_WORDS_MAX]; /* NULL-terminated: the program first */
        const char *undo[GUEST_WORDS_MAX];  /* the same; empty: nothing to undo */
        const char *file, *content;         /* written before the program runs, for root alone; or NULL */
        const char *what;                   /* for people: "make the account" */
        bool may_fail;                      /* when undoing, and where it is only a courtesy */
};

struct guest_plan {
        VEC(char *) strings;
        VEC(struct guest_step) steps;
};

int guest_plan_create(const struct guest_request *request, struct guest_plan **ret, struct err *err);
/* The steps of it that load the firewall, alone. */
int guest_plan_firewall(const struct guest_request *request, struct guest_plan **ret, struct err *err);
int guest_plan_delete(const struct guest_request *request, struct guest_plan **ret, struct err *err);
void guest_plan_free(struct guest_plan *plan);
void guest_plan_freep(struct guest_plan **plan);

/* One line for each step, as a shell would take it. */
int guest_plan_text(const struct guest_plan *plan, struct buf *out);

/* The rules of pf for its anchor, and the line of /etc/pf.conf without which they would be ignored in silence. */
int guest_pf_rules(const struct guest_request *request, struct buf *out);
bool guest_pf_conf_has_anchor(struct str pf_conf);
/* A line for sudoers: the user may start the launcher as the guest, and end all that it runs; nothing else. */
int guest_sudoers(const struct guest_request *request, const char *launcher, struct buf *out);

/* The first number from GUEST_ID_FIRST on that `dscl . -list /Users UniqueID` does not name. 0: none is free, or the
 * text is not what dscl prints. */
unsigned guest_free_id(struct str listing);
