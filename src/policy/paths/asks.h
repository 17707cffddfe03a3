/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Places that a person may be asked about (filesystem.ask): no rule grants what is there, and a program that opens it
 * waits for an answer. What is denied or protected stays closed, whoever is asked.
 */
#include "policy/paths/paths.h"

/* The entry that covers this path, which is absolute and normalised, or NULL. */
const struct origin_text *asks_covering(const struct policy *policy, const char *path);

/* The rules for the real home, which the sandbox's own covers otherwise: what is denied there stays denied. */
int asks_compile_real(struct policy *policy, struct path_rules **ret, struct err *err);

/* Whether a person is asked when a program opens this path for reading; `rules` are the policy's own. A negative errno
 * if that cannot be known. */
int asks_about_reading(struct policy *policy, const struct path_rules *rules, const char *path, struct err *err);
