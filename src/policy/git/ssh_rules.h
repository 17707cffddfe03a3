/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The sections `ssh` and `signing` of a policy: whether the sandbox has ssh, gpg or an agent at all, and the checks of
 * an entry.
 */
#include "policy/policy.h"

/* For policy/apply.c: texts that a person wrote. */
int check_ssh_user(struct str text, struct err *err);
int check_ssh_path(struct str text, struct err *err);
int check_ssh_host(struct str text, struct err *err);
int check_ssh_key(struct str text, struct err *err);
int check_gpg_key(struct str text, struct err *err);

/* HOST or HOST:PORT, 22 without one. */
int ssh_host_parse(struct str text, struct authority *ret, struct err *err);

/* There is something inside that stands for ssh or gpg; for the agent. */
bool policy_has_shim(const struct policy *policy);
bool policy_has_agent(const struct policy *policy);
/* A name that git may log in with. */
bool policy_ssh_user(const struct policy *policy, struct str user);
/* How the policy writes this key of gpg, if it names it; NULL: it does not. */
const char *policy_gpg_key(const struct policy *policy, struct str key);
