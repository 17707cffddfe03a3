/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Parses a person's message as an order. Pure, and total: any text is an order, no order, or a malformed order.
 *
 *   /allow [HOST] CODE [once|sandbox|workspace|always]      /deny [HOST] CODE [SCOPE]
 *   /pending   /ps   /help                                  /pause SANDBOX [CODE]   /resume ...   /kill ...
 *
 * The slash is optional if there is a code: buttons omit it, and some services use the slash themselves.
 */
#include "base/err.h"
#include "chat/service.h"
#include "control/protocol.h"

enum chat_verb {
        CHAT_ALLOW,
        CHAT_DENY,
        CHAT_PENDING,
        CHAT_PS,
        CHAT_PAUSE,
        CHAT_RESUME,
        CHAT_KILL,
        CHAT_HELP,
        CHAT_VERBS
};
const char *chat_verb_name(enum chat_verb verb);

struct chat_order {
        enum chat_verb verb;
        char code[CHAT_CODE_MAX]; /* "": none */
        char name[264];           /* host or sandbox; "": none */
        enum control_scope scope; /* once, where none is given */
};

/* 1: an order, 0: not for us, -EINVAL with the reason: it was meant as one. */
int chat_order_parse(struct str text, struct chat_order *ret, struct err *err);
/* Whether the word has the form of a code. */
bool chat_is_code(struct str word);
