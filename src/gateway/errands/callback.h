/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * `bailey-gateway callback`: the port of one sign-in's callback on this host (bridge/callback_message.h), in a process
 * of its own, without any right.
 *
 * Requests from a browser, or from anything else on this machine, are parsed and judged (bridge/callback_request.h).
 * One of them is carried inside. Only the status of the response is used: a page made by the sandbox could send a
 * person's browser anywhere, with any data.
 */
#include "base/err.h"

int callback_main(struct err *err);
