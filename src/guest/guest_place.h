/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Where guests are:
 *
 *     $XDG_STATE_HOME/bailey/guests.db           what is known about them (store/guests.h)
 *     $XDG_STATE_HOME/bailey/guests/ID/   home/        what the guest sees as $HOME; belongs to the guest
 *                                         info         name, kind and ids: a lost database is made again from these
 *                                         lock         held by whoever changes the guest
 *                                         run.lock     held by its supervisor: a guest runs as long as it is held
 *                                         socket       its supervisor's: commands come in here
 *                                         run.log      what its supervisor said
 *                                         firewall     of an account: the reader of its log
 * (guest/account/firewall_reader.h) disk         how much the home took when it was measured last group        what is
 * /etc/group inside jobs/        output of jobs snapshots/   LABEL.tar.zst archive.tar.zst
 *
 * Everything but home/ belongs to the host user and is closed to all others.
 */
#include "base/err.h"
#include "guest/guest_state.h"
#include "sandbox/sandbox.h"
#include "store/guests.h"

enum guest_kind {
        GUEST_ROOTLESS, /* a subordinate id of the host user */
        GUEST_ACCOUNT,  /* an account of its own */
        GUEST_OWN,      /* the host user's own id: files and processes are kept apart by the sandbox alone */
        GUEST_KINDS
};
const char *guest_kind_name(enum guest_kind kind);

#define GUEST_ARCHIVE_NAME "archive.tar.zst"

struct guests {
        struct guests_db *db;
        char *top;
        int helper; /* who makes and removes accounts (guest/account/guest_account.h); 0: nobody */
};
void guests_close(struct guests *guests);

struct guest {
        struct guest_row row;
        enum guest_kind kind;
        enum guest_state state, before;
        struct sandbox_ids ids; /* not for GUEST_OWN */
        char *directory, *home;
        int fd; /* of the directory; -1 where it is gone */
        int lock;
};
#define GUEST_NONE ((struct guest){ .fd = -1, .lock = -1 })
void guest_done(struct guest *guest);

/* Whether there is a database: this user has, or had, guests. Nothing is made. */
bool guests_are_there(void);
/* Opens the database and puts nothing in order: for callers that cannot wait, or must not change anything. All others:
 * guests_open() (guest/guest_mend.h). */
int guests_open_as_is(struct guests *ret, struct err *err);
/* Before a fork() whose child opens the database itself, and after it: SQLite's state in memory is for one process. */
void guests_pause(struct guests *guests);
int guests_resume(struct guests *guests, struct err *err);
/* By name or id. */
int guest_find(struct guests *guests, const char *name, struct guest *ret, struct err *err);
/* Of a row, which it takes. */
int guest_of_row(const struct guests *guests, struct guest_row *row, struct guest *ret, struct err *err);

/* Alone with it: nobody else changes it meanwhile. With `wait_ms` 0 -EBUSY at once. The row is read again. */
int guest_hold(struct guests *guests, struct guest *guest, unsigned wait_ms, struct err *err);
void guest_let_go(struct guest *guest);
/* Its home is packed away, also where something is broken about it. */
bool guest_is_archived(const struct guest *guest);
/* Whether a supervisor holds it. */
bool guest_is_running(const struct guest *guest);
/* Takes its place: from now on the guest counts as running, until the descriptor is closed. -EBUSY. */
int guest_take_run_lock(const struct guest *guest, int *ret_fd, struct err *err);

/* 0 for 1 to 32 letters, digits, '-', '_' and '.', the first a letter or digit. */
int guest_check_name(const char *name, struct err *err);
/* Name, kind and ids beside the home. */
int guest_write_info(const struct guest *guest, struct err *err);

/* One step of the table, in one transaction. `reason`, `doing` and `note` as in struct guest_change. */
int guest_move(struct guests *guests, struct guest *guest, enum guest_step_kind step, const char *reason,
               const char *doing, const char *note, struct err *err);
/* An operation begins: what it is stays in the row until it is finished. */
int guest_begin(struct guests *guests, struct guest *guest, enum guest_step_kind step, const char *note,
                struct err *err);
