/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The values of the mappings: in secret memory, each with its serial on the page, its stand-ins, and the hosts it may
 * go to. Knows no sockets.
 */
#include "base/secrets/secret.h"
#include "ipc/vault_messages.h"

struct values; /* opaque */

/* The mappings are borrowed and were checked. */
int values_new(const struct vault_mapping *mappings, size_t n, struct values **ret, struct err *err);
void values_free(struct values *values);
int values_page(const struct values *values); /* the page's descriptor */

enum value_change { VALUE_SAME, VALUE_CHANGED };
/* A value of the source: checked, kept, and counting from now on; the serial changes only if the value did. */
int values_set(struct values *values, uint32_t mapping, struct str value, enum value_change *ret, struct err *err);
/* The source has none any more. False: it had none before. */
bool values_drop(struct values *values, uint32_t mapping);
bool values_has(const struct values *values, uint32_t mapping);
bool values_has_all(const struct values *values, uint32_t *ret_missing);
uint64_t values_serial(const struct values *values, uint32_t mapping);

/* The stand-in that the sandbox has already: kept instead of a new one. */
int values_keep_stand_in(struct values *values, uint32_t mapping, enum vault_part part, struct str text,
                         struct err *err);
/* What its stand-ins are made of, now (ago 0) and before each rotation; without one they are random. */
void values_seed(struct values *values, uint32_t mapping, size_t ago, const uint8_t seed[static VAULT_DIGEST_BYTES]);
/* Those of a part before the `ago`-th rotation back, as they would be today: heap text, NULL for none. */
int values_old_stand_in(const struct values *values, uint32_t mapping, enum vault_part part, size_t ago, char **ret,
                        struct err *err);
/* Stand-ins for every part that has none; all values must be there. */
int values_make_stand_ins(struct values *values, struct err *err);
struct str values_stand_in(const struct values *values, uint32_t mapping, enum vault_part part); /* "" for none */

/* The value as it is now, "" for none; it lives until the next change. Not for gateways. */
struct str values_current(const struct values *values, uint32_t mapping);
/* 0, or why a sign-in is not renewed at this host: it must be one of the mapping's. It may be without a value. */
enum vault_refusal values_renewable(const struct values *values, uint32_t mapping, const struct authority *to);
/* 0, or the enum vault_refusal: the value for this host and port; it lives until the next change. */
enum vault_refusal values_release(const struct values *values, uint32_t mapping, const struct authority *to,
                                  struct str *ret);
/* As above for AWS: key id, derived key and session token. */
enum vault_refusal values_signing_key(const struct values *values, uint32_t mapping, const struct authority *to,
                                      struct str date, struct str region, struct str service, struct str *ret_key_id,
                                      uint8_t ret_key[static VAULT_DIGEST_BYTES], struct str *ret_token);
