/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A digest of everything that a policy says, with the places where it says so: two policies with the same digest are
 * the same policy. For a sandbox that was made from one, and starts its command when the other was read.
 */
#include "base/digest.h"
#include "policy/policy.h"

void policy_digest(const struct policy *policy, unsigned char ret[static DIGEST_BYTES]);
