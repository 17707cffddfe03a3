/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The proof that denied is denied: a real sandbox is launched, and a program inside it (this one, by a hidden verb)
 * tries a list of acts that the policy refuses and some that it grants. Each refused act is also done outside, where it
 * must work: an act that fails everywhere proves nothing. Nothing leaves the machine.
 */
#include "base/err.h"
#include "base/vec.h"

#include <stdbool.h>

struct proof {
        char *name;    /* "read a denied file" */
        bool expected; /* whether the act must work inside */
        bool inside;   /* whether it did */
        bool outside;  /* whether it worked outside */
        char *detail;  /* what happened inside: "Permission denied" */
};
struct proofs {
        VEC(struct proof) list;
};
void proofs_done(struct proofs *proofs);
static inline bool proof_holds(const struct proof *proof) {
        return proof->inside == proof->expected && proof->outside;
}

/* -errno when the sandbox could not be launched or said nothing. */
int prove(struct proofs *ret, struct err *err);

/* The program inside: argv are the acts' arguments, the results go to the file. */
#define PROVE_VERB "prove-inside"
int prove_inside(int argc, char **argv);
