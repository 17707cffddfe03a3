/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What may be signed. git gives gpg the object as it will be stored, without the signature: it is read as
 * git-fsck(1) reads it, so that a signature for a commit or a tag can be one for nothing else: no mail, no package, no
 * certificate of a push.
 */
#include "base/str.h"

enum sign_payload { SIGN_OTHER, SIGN_COMMIT, SIGN_TAG };

enum sign_payload sign_payload_kind(struct str bytes);
const char *sign_payload_name(enum sign_payload kind);

/* The arguments with which git signs: --status-fd=2 -bsau KEY. *ret_key is a plain word; false: it is another call. */
bool sign_gpg_parse(const struct str *words, size_t n, struct str *ret_key);
