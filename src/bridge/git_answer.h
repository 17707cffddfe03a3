/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Refusals in git's own words: what a server would say that does not take a push, or does not serve a repository, so
 * that git prints it and ends as it does then. The same bytes over HTTP and ssh.
 */
#include "base/buf.h"
#include "bridge/receive_pack.h"

/* The answer to a push. reason: one line for every ref that is refused; help: for the person, may have several lines.
 * -EOPNOTSUPP: the client did not ask to be told, so that it can only be cut off. */
int git_answer_push(struct buf *out, const struct receive_pack *head, struct str reason, struct str help);
/* In place of the list of refs; over HTTP with the line that names the service first. */
int git_answer_advertisement(struct buf *out, const char *service, bool http, struct str text);
