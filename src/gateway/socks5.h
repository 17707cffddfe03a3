/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A SOCKS5 client: CONNECT without authentication. Theory in socks5.c. */
#include "gateway/worker.h"

/* Takes the client over, also when it fails. */
int socks5_start(const struct client *client);
