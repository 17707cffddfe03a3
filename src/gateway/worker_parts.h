/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A worker with everything that runs on it: listeners, HTTP, credentials, the vault's client. Apart from worker.h,
 * which all of those use: a worker itself knows none of them.
 */
#include "gateway/worker.h"

/* Makes the worker and all that needs files; its thread is not started. */
int worker_new(struct gateway *gateway, unsigned index, struct policy_ref *ref, struct worker **ret, struct err *err);
/* Closes and reports everything that is open. On the thread that ran the loop, after it has stopped, or before. */
void worker_free(struct worker *worker);
