/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * `bailey-gateway callback`: the port of one sign-in's callback on this host (bridge/callback_message.h), in a process
 * of its own, without any right.
 *
 * What a browser, or whoever else is on this machine, sends there is read and judged (bridge/callback_request.h). One
 * request is carried inside. What is answered inside is thrown away but for its status: a page of the sandbox's making,
 * in a person's browser, could lead that browser wherever it likes, and take with it what it likes.
 */
#include "base/err.h"

int callback_main(struct err *err);
