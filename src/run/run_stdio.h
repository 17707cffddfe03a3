/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
#include "policy/paths/paths.h"

/* Refuses standard input, output and error that lead to a file which the rules close further than the redirection does.
 */
int run_stdio(const struct path_rules *rules, bool landlock, struct err *err);
