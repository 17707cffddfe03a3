/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Groups that stand for more than hosts: "@github-read" and "@github-contribute OWNER/NAME" in network.allow become
 * rules for REST and GraphQL and entries for git, as a person would write them; the same for GitLab.
 */
#include "policy/policy.h"

/* The i-th one's name and what it is for, for lists; NULL behind the last. */
const char *forge_name(size_t i, const char **ret_help);
/* Whether it begins with the name of such a group. */
bool forge_is_reference(struct str text);
int check_forge(struct str text, struct err *err);
/* Adds what all of them in network.allow stand for; their origin says whence. */
int forges_expand(struct policy *policy, struct err *err);
