/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * `bailey-gateway courier`: requests to services outside for a program of the user's side (ipc/courier_messages.h), in
 * a process of its own that can do nothing but connect. Parts: courier.c (life, messages), courier_exchange.c (one
 * request), courier_token.c (tokens from the vault).
 */
#include "base/err.h"

int courier_main(const char *ca_bundle, struct err *err);
