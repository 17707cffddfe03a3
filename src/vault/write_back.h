/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Renewed tokens back into the file that a sign-in was read from, so that the agent outside stays signed in. Runs in
 * the vault's reader.
 *
 * One renews at a time: a lock among sandboxes, and the directory that the agent itself makes while it renews, where
 * the table of sign-ins names one.
 */
#include "base/err.h"
#include "ipc/vault_messages.h"

struct renew_lock {
        int fd;                      /* among sandboxes; -1: not held */
        char agent[4096];            /* the agent's own, when we made it; "" otherwise */
        uint64_t since_ns, touch_ns; /* asked for; the agent's is touched again then, or it counts as left behind */
};
enum { RENEW_LOCK_PATH_MAX = 4096 };
#define RENEW_LOCK ((struct renew_lock){ .fd = -1 })

/* Tries once. 1: held; 0: somebody else has it. An agent that does not let go for RENEW_PATIENCE is not waited for. */
int renew_lock_try(struct renew_lock *lock, const char *lock_dir, const char *file, struct err *err);
/* The directory that the agent makes beside its own, if this is one of the files that the table of sign-ins knows. */
bool renew_lock_of_agent(const char *file, char ret[static RENEW_LOCK_PATH_MAX]);
void renew_lock_touch(struct renew_lock *lock);
void renew_lock_release(struct renew_lock *lock);

struct write_back {
        const struct vault_mapping *mappings;
        uint32_t n, leader;
        struct str old;   /* of the leader: what was sent */
        struct str lines; /* "MEMBER VALUE" */
        uint64_t expires_in;
};
enum write_back_result {
        WRITE_BACK_DONE,
        WRITE_BACK_NEWER, /* the file has another refresh token by now: that one counts */
        WRITE_BACK_GONE,  /* there is no file any more */
};
/* Replaces the file whole: mode, owner and everything else in it stay. */
int write_back(const struct write_back *back, enum write_back_result *ret, struct err *err);

/* Mappings that are renewed together: "x" and "x.refresh". */
bool renew_same_group(const struct vault_mapping *mapping, const struct vault_mapping *vault_mapping);
/* The file of a mapping whose source is a member of one; "" for others. */
void renew_file(const struct vault_mapping *mapping, char ret[static 4096]);
