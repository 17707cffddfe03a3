/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Among the files of the registry of guards (kept/guard_registry.h). */
#include "kept/guard_registry.h"
#include "kept/guard_slot.h"
#include "kept/guard_table.h"

enum { SLOTS_MAX = 4096 };

struct registry {
        int dir, lock;
        const char *over; /* the run that asks, when nothing of it lives any more; NULL: none */
        struct guard_table table;
};
#define REGISTRY_NONE                                                                                                  \
        { .dir = -1, .lock = -1 }

/* guard_slots.c: locked until registry_done(). -ENOENT: there is no place for it. */
int registry_open(struct registry *ret, bool make);
void registry_done(struct registry *registry);
/* `reach` leaves out what it does not ask about; NULL: all. */
int registry_read(const struct registry *registry, struct guard_reach *reach, slots *ret);
/* What somebody who writes here needs to know of others. */
int registry_reach(struct guard_reach *reach, const struct registry *registry, const struct guards *guards);
bool roots_have(const char *path, const char *const *roots, size_t n);
/* Whether one that runs can write there. */
bool slots_write_to(const slots *all, const char *path);
bool slot_is_over(const struct slot *slot);

/* guard_left.c: moves away what is there under these names. */
int registry_sweep(const char *id, const struct plan_guard *guards, size_t n, bool late, guards_report *report,
                   void *context, struct err *err);
/* Of one that is over: what nobody writes to is swept, the rest waits. */
int registry_sweep_slot(const slots *all, struct slot *slot, bool late, guards_report *report, void *context,
                        size_t *left, struct err *err);
int registry_sweep_over(const slots *all, guards_report *report, void *context, size_t *left, struct err *err);
bool guards_same(const struct plan_guard *a, const struct plan_guard *b);
