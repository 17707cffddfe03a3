/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * One call of the program inside that stands for ssh or gpg (bridge/ssh_message.h).
 *
 * git over ssh: its command line is read (bridge/ssh_command.h) and judged by host, repository and service as over
 * https; then the supervisor starts the host's ssh, and bytes go both ways. Of a push the list of refs is read first
 * (gateway/examine.h): until it is judged, and a person has agreed where the policy asks, the server gets none of it. A
 * refusal is said in git's own words, and what the client still sends is thrown away.
 *
 * gpg: its command line must be the one that git uses to sign, and what is to be signed must be a commit or a tag
 * (bridge/sign_payload.h). It is read whole before gpg is started.
 */
#include "gateway/worker.h"

int ssh_session_start(const struct client *client);
/* All of a worker's, at its end. */
void ssh_sessions_end(struct worker *worker);
