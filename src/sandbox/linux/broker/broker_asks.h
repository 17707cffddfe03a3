/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Opens that wait for a person (filesystem.ask). An open that fails because nothing grants its path, at or below a
 * place that the policy names, is held: the broker keeps the call, asks the supervisor (broker_talk.h), and serves all
 * other calls meanwhile. The supervisor judges the path on the host, asks, and answers in one of these ways:
 *
 *     no        the call fails with the error that it would have had
 *     again     the path is mounted inside now: the call is performed again from its beginning, with all that is judged
 *     opened    a descriptor of exactly the object that was judged, for this call alone; nothing is mounted
 *
 * The path that is asked about is canonical as far as the sandbox can see: links that exist inside are followed, the
 * names beyond are taken as they are written. A path with ".." beyond what exists is not asked about.
 */
#include "sandbox/marks.h"

struct held;

/* The open of this text has failed: OP_ASKS with the path, flags and error in `held`, or the error itself. */
int asks_consider(struct held *held, int dirfd, const char *text, int flags, int error);
/* Asks and waits, without any lock. HELD_NO also where nobody can be asked, or the caller is gone. */
enum held_answer asks_await(struct held *held, int *ret_fd);
/* Judges what the supervisor opened as any other open, and passes it: a result of the call. */
int asks_pass(struct held *held, int *fd);
