/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * `bailey-gateway webhook`: one POST to a URL of the user's own configuration, in a process of its own, so that the
 * supervisor speaks no HTTP and no TLS. The message is on descriptor 0, the URL (often a secret) on descriptor 3; what
 * the server replied is printed to descriptor 1, if it is small and the status is a success. Exit status: 0 delivered,
 * 1 not.
 */
#include "base/err.h"

int webhook_main(struct err *err);
