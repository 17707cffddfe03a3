/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Sign-ins in the sandbox's own home: a copy of each file that credentials are read from, with stand-ins in the place
 * of every secret.
 */
#include "base/buf.h"
#include "kept/home.h"
#include "roles/vault_session.h"

/* Whether some credential is read from a file of that kind. */
bool run_sign_ins_any(const struct vault_session *vault);
/* Every file below the home directory that is a source of the vault's mappings. If one cannot be laid, that is reported
 * and the command runs without it. */
int run_sign_ins_lay(struct home *home, const struct policy *policy, const struct vault_session *vault,
                     struct err *err);

/* The copy of one file's text: the stand-in (by `stand_in`, NULL for none) where a secret is, "" where something looks
 * like one and has none, and everything else as it was. YAML becomes JSON, which is YAML, too. */
typedef const char *stand_in_for(void *arg, struct str pointer);
int sign_in_copy(struct str text, bool yaml, stand_in_for *stand_in, void *arg, struct buf *out, struct err *err);
