/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * How much of the disk a guest takes, and how much it may (run/run_disk.h watches it while it runs). What was measured
 * last lies beside the home, in the file disk: whoever lists guests need not walk through their homes. The file limit
 * beside it is made anew with each limit that is set: its supervisor sees that, and need not ask the database.
 */
#include "guest/guest_place.h"
#include "run/run_disk.h"

/* Walks through its home with every right over it. */
int guest_disk_measure(const struct guest *guest, struct disk_usage *ret, struct err *err);

/* What was found last. False: nothing is known. */
bool guest_disk_seen(const struct guest *guest, struct run_disk_news *ret);
void guest_disk_write(const struct guest *guest, const struct run_disk_news *news);

/* Before a start: whether it may write, by what its home takes now and by what the host has left. */
int guest_disk_check(const struct guest *guest, struct run_disk_news *ret, struct err *err);

/* After another limit was kept: a supervisor of this guest looks at it within two seconds. */
int guest_disk_limit_changed(const struct guest *guest, struct err *err);

/* For the supervisor of a run. */
extern const struct run_disk_calls guest_disk_calls;

/* 0 where a command may go in. A frozen one says why and what to do: -EDQUOT. `ret_clean`: it was started to
 * be cleaned, and is. */
int guest_disk_enter(const struct guest *guest, bool *ret_clean, struct err *err);
