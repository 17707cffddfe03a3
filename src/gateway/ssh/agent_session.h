/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The ssh-agent inside: a filter in front of the user's own. It shows the keys that the policy names, and passes on two
 * kinds of requests: a login in a session that is bound to the key of an allowed host, and an SSHSIG in git's
 * namespace. That a session is bound is checked here (the host's signature over the session's identifier), whatever
 * the user's agent thinks of it. Keys cannot be added, removed, locked or forwarded. Each signature that is asked for
 * is on record.
 */
#include "gateway/worker.h"

int agent_session_start(const struct client *client);
/* All of a worker's, at its end. */
void agent_sessions_end(struct worker *worker);
