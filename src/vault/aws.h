/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Credentials of AWS: three values in one text, and the signing key that is derived from the secret one. Pure.
 */
#include "base/err.h"
#include "ipc/vault_messages.h"

struct aws {
        struct str key_id, secret_key, session_token; /* the last may be empty */
};

/* Lines NAME=VALUE as `aws configure export-credentials --format env` prints them or as a credentials file has them
 * (`export`, spaces, quotes and the case of names do not matter; other lines are passed over). What is returned points
 * into the text. Messages never hold any of it. */
int aws_parse(struct str text, struct aws *ret, struct err *err);

/* The key with which requests of this day, region and service are signed (Signature Version 4). */
int aws_signing_key(struct str secret_key, struct str date, struct str region, struct str service,
                    uint8_t ret[static VAULT_DIGEST_BYTES], struct err *err);
