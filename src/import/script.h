/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What a shell script does with a list of hosts, as far as its words tell. It is not run, and not understood either: in
 * doubt a list is not one of hosts that are let through.
 */
#include "base/str.h"

enum { SCRIPT_FUNCTIONS_MAX = 32 };

enum list_fate {
        FATE_ALLOWED,
        FATE_REFUSED, /* its hosts are shut out */
        FATE_UNKNOWN,
};

struct script_function {
        struct str name, body;
        bool refuses;
};

struct script {
        struct str text;
        struct script_function functions[SCRIPT_FUNCTIONS_MAX];
        size_t n;
        bool too_many; /* functions */
        size_t work;   /* bytes that were looked at */
};
/* `text` must live as long. */
void script_read(struct str text, struct script *ret);

/* Of the list in the head of the loop that begins at this byte. */
enum list_fate script_loop_fate(struct script *script, size_t at);
/* Of what the variable holds. */
enum list_fate script_array_fate(struct script *script, struct str name);
