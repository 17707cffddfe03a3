/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The options of a policy, for the tables of verbs: the same rows that the policy file and the variables are read by
 * (policy/options.c).
 */
#include "conf/option.h"

extern const struct option_table policy_table_general, policy_table_network, policy_table_files, policy_table_process,
    policy_table_limits;
