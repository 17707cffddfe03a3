/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Whether a host has signed: keys and signatures in the forms of ssh (RFC 4253, 5656, 8332, 8709). Ed25519, ECDSA over
 * the NIST curves, and RSA with SHA-2; others do not verify.
 */
#include "base/str.h"

bool hostkey_verifies(struct str key, struct str data, struct str signature);
