/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Names in git's world, as a policy and a request write them: repositories ("github.com/acme/app") and refs
 * ("refs/heads/main"). Each is parsed once into a canonical form; what cannot be, matches nothing. Pure, for every
 * transport.
 *
 *     github.com/acme/app          one repository; a ".git" at its end says nothing and is dropped
 *     github.com/acme/ followed by a star: every repository of acme; by two: also those below
 *     git.corp.example:2222/x      at this port alone; without one https is at 443
 *
 * Ref patterns begin with "refs/"; '*' stays within a part, '**' as a whole part stands for any number of parts.
 */
#include "base/err.h"
#include "policy/match/host.h"

#define GIT_PATH_MAX 512
#define GIT_REF_MAX 1024

struct git_name {
        struct host host;
        uint16_t port; /* 0: none was written */
        size_t path_n;
        char path[GIT_PATH_MAX + 1]; /* without '/' at its ends, without ".git" */
};

/* HOST[:PORT]/PATH as a person writes it, stars included. -EINVAL with the reason and what to write instead. */
int git_name_parse(struct str text, struct git_name *ret, struct err *err);
/* A path as a request has it, without '/' at its ends: only letters, digits and a few marks, no part that is empty or
 * made of dots. On success *ret is the part without ".git". */
bool git_path_parse(struct str text, struct str *ret);

/* A full ref name, by the rules of git-check-ref-format(1), below refs/. */
bool git_ref_is_valid(struct str ref);
/* A ref pattern; one that no ref can match is refused, with what to write instead. */
int git_ref_check_pattern(struct str text, struct err *err);
/* In short forms "agent/x" means refs/heads/agent/x. Heap text, or NULL. */
char *git_ref_expand(struct str text);

/* The more of its beginning a pattern spells out, the higher; without a star highest of all. */
size_t git_path_rank(struct str pattern);
/* In lower case (ASCII). `out` has room for GIT_PATH_MAX bytes. */
struct str git_path_fold(struct str path, char *out);
