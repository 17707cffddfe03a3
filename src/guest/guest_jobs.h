/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Jobs: commands in a guest that go on when whoever started them is gone. A keeper outside, one process for each,
 * holds the connection, writes the output to a file of the host user's and the status to the database. When the keeper
 * dies, the job ends; when the guest ends, the keeper does.
 */
#include "guest/guest_exec.h"

enum { JOB_LOG_MAX = 64 << 20 };

/* Returns when it runs. 126 and 127 in *ret_status, with the reason in err, when it could not be executed; else 0. */
int guest_job_start(struct guests *guests, const struct guest *guest, const struct guest_command *command,
                    uint64_t *ret_number, int *ret_status, struct err *err);
/* The file with its output, open for reading. -ENOENT. */
int guest_job_log(const struct guest *guest, uint64_t number, int *ret_fd, struct err *err);
