/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The policy's option tables, for verbs that take them. */
#include "policy/options.h"
