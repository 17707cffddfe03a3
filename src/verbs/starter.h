/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A first policy for a project: `bailey init`. Looks at the files that say what a project is made of, at its git
 * remotes, and at the agents and tokens of this machine, and writes a .bailey.yaml in which every line says why it is
 * there.
 *
 * The project is not trusted: its files are read with limits and without following links, nothing in it is run, and
 * only names that are valid hosts go into the policy. A file that cannot be understood is an error, and nothing is
 * written.
 */
#include "base/buf.h"
#include "base/err.h"

struct starter {
        char *path;      /* the policy file, in the directory of the project */
        struct buf text; /* what would be in it */
        bool exists;     /* there is one already */
};
void starter_done(struct starter *starter);

/* Looks; writes nothing. `directory`: NULL for the current one. */
int starter_propose(const char *directory, struct starter *ret, struct err *err);
/* Writes it, and trusts what the person has just seen. `replace`: over what is there; else that is -EEXIST, also if it
 * came into being after the look. */
int starter_write(const struct starter *starter, bool replace, struct err *err);
