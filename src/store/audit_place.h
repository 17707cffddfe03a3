/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Where audit logs are when nobody says: one file per run in $XDG_STATE_HOME/bailey/audit
 * (~/.local/state/bailey/audit), so that runs at the same time never share one. The name begins with the time,
 * "20261115-031407-123456-ID.jsonl": the order of the names is the order of the runs, and there is no index that could
 * be wrong.
 */
#include "base/clock.h"
#include "store/audit_read.h"

/* Not created. */
int audit_directory(char **ret, struct err *err);
/* Makes the directory and the name for a new run. */
int audit_run_path(const char *run_id, char **ret, struct err *err);
/* The log of a service that outlives runs ("ui", "chat"): one file of that name. -EBUSY when one of its kind has it. */
int audit_open_service(const char *name, struct audit **ret, struct err *err);
/* The files of all runs, oldest first, without their rotated forms. An absent directory holds none. */
int audit_runs(audit_names *ret, struct err *err);
/* The log of the run (its id, or the beginning of one if only one begins so), of the latest run for NULL. */
int audit_find_run(const char *run_id, char **ret, struct err *err);
/* The id in the name of a run's log, as audit_run_path() made it. */
struct str audit_run_id(const char *path);
