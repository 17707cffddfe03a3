/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What prove tries, inside and outside alike. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct prove_world {
        const char *work;          /* the workspace */
        const char *place;         /* a directory of the test outside it */
        uint16_t allowed, refused; /* ports of a server outside */
        bool inside;
};

struct prove_act {
        const char *name;
        bool expected;                           /* inside */
        int (*run)(const struct prove_world *w); /* 0 or a negative errno */
};
extern const struct prove_act prove_acts[];
extern const size_t n_prove_acts;

#define PROVE_ALLOWED_NAME "allowed.prove.test"
#define PROVE_REFUSED_NAME "refused.prove.test"
#define PROVE_GREETING 'B'          /* what the server outside says to everybody who reaches it */
#define PROVE_SERVER "bailey-proof" /* the name of its process: at most 15 letters */
