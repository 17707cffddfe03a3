/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The vault as the supervisor sees it: one process, started before the sandbox (which gets its stand-ins from it),
 * watched, and replaced when it dies. While there is none, the gateway refuses requests that need it. The next one has
 * the same CA and the same stand-ins, so programs inside notice nothing else.
 *
 *     vault_process_new(&settings, &v, e);
 *     vault_process_start(v, e);                  waits until it serves; or _begin(), other work, _await()
 *     vault_process_stand_in(v, i, PART_VALUE) ...
 *     vault_process_watch() and _step() in a part of a poller, round by round
 *     vault_process_free(v);
 *
 * Not thread-safe; the thread that steps must live as long as the vault (PDEATHSIG is bound to it).
 */
#include "base/err.h"
#include "ipc/vault_messages.h"
#include "policy/mappings.h"
#include "roles/role.h"
#include "store/stand_ins.h"

#include <sys/types.h>

struct vault_process; /* opaque */

enum vault_notice {
        VAULT_NOTICE_READY,        /* it serves; gateways can be connected, after a restart they must be */
        VAULT_NOTICE_DIED,         /* without being asked; text says how */
        VAULT_NOTICE_CANNOT_START, /* a new one could not be started, or said why it cannot work */
        VAULT_NOTICE_CHANGED,      /* a source has a new value, which counts from now on */
        VAULT_NOTICE_GONE,         /* a source has no value any more: requests that need it are refused */
        VAULT_NOTICE_KEPT,         /* a source could not be read again; the value before stays */
};

struct vault_settings {
        const mappings *mappings; /* borrowed; must outlive the process */
        char *const *places;      /* by mapping: vault_mapping.place; borrowed until _new() returns. NULL: none */
        const char *sandbox_id;   /* part of the CA's name */
        const char *ca_dir;       /* where the CA is kept; NULL: as long as this object lives */
        /* The key and place that stand-ins are derived from; borrowed until it has begun to start. NULL: they are
         * random. */
        const struct stand_ins *stand_ins;
        const char *place;
        enum vault_ca ca;
        unsigned log_level;
        char *const *environment; /* of the user: sources env:NAME, and what commands are given of it */
        const char *program;      /* NULL: where it is installed */
        void (*on_notice)(void *arg, enum vault_notice notice, const char *text);
        void *arg;
};

int vault_process_new(const struct vault_settings *settings, struct vault_process **ret, struct err *err);
/* A stand-in of before, to be kept; before the start. */
int vault_process_keep_stand_in(struct vault_process *process, uint32_t mapping, enum vault_part part,
                                const char *text);
/* Starts it and waits until it serves. Every source must have a value, or this is an error that names it. */
int vault_process_start(struct vault_process *process, struct err *err);
/* The same in two parts: it takes milliseconds, on another processor. */
int vault_process_begin(struct vault_process *process, struct err *err);
int vault_process_await(struct vault_process *process, struct err *err);
void vault_process_free(struct vault_process *process);
void vault_process_freep(struct vault_process **process);

struct str vault_process_ca(const struct vault_process *process); /* DER */
/* NULL where the mapping has no such part. */
const char *vault_process_stand_in(const struct vault_process *process, uint32_t mapping, enum vault_part part);
/* Stand-ins of before rotations: of the mapping the i-th, NULL beyond the last. */
const char *vault_process_old(const struct vault_process *process, uint32_t mapping, size_t i);
/* One more of them; before the start. Those that are one too many are passed over. */
int vault_process_add_old(struct vault_process *process, uint32_t mapping, struct str text);
/* The gateway's ends of n new channels, or none: 0 while no vault serves. */
uint32_t vault_process_connect_all(struct vault_process *process, int *ret_fds, uint32_t n);
/* Every source is read again. */
void vault_process_reload(struct vault_process *process);

/* Its side of a poller (base/processes/poller.h). */
void vault_process_watch(const struct vault_process *process, struct poller *poller);
void vault_process_step(struct vault_process *process, const struct poller *poller);
