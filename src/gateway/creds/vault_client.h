/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The vault, as one worker sees it: leaf certificates, secrets and signing keys, each asked for once and then cached
 * while it is valid.
 *
 *     struct tls_leaf *leaf = vault_leaf(v, host);
 *     if (!leaf)
 *             r = vault_ask_leaf(v, host, &call);      call.done(&call, 0): vault_leaf() has it now
 *
 * A secret is valid while its serial is the one on the page that the vault shares (ipc/vault_messages.h): after a
 * change the next request asks again, without any message in between. Equal questions at the same time are one
 * question. When the vault goes away all of them fail, secrets are wiped, and requests that need one are refused until
 * a new vault is there; leaves stay, since the CA does.
 */
#include "ipc/vault_messages.h"
#include "net/loop.h"
#include "net/tls.h"

struct vault_client;
struct past;

/* ns: how long an answer may take. past: where values are recorded before their use (gateway/creds/old_secrets.h), or
 * NULL. `keys` and `past` must outlive it. */
int vault_client_new(struct loop *loop, const struct tls_context *keys, struct past *past, uint64_t ns,
                     struct vault_client **ret);
void vault_client_free(struct vault_client *client);
/* Takes the descriptor: the vault from now on. One that was there before is forgotten. */
void vault_client_connect(struct vault_client *client, int fd);

/* Embedded in the caller's object. done is called once, never from inside vault_ask_...(), unless cancelled. error: 0,
 * -EACCES (the vault refuses this for that target), -ENOKEY (its source has no value now), -ETIMEDOUT, -EPIPE (no
 * vault), -ENOMEM. */
struct vault_call {
        struct link link;
        void (*done)(struct vault_call *c, int error);
};
static inline void vault_call_cancel(struct vault_call *call) {
        link_remove(&call->link);
}

/* What is here, or NULL: then it must be asked for. Valid until the callback returns. */
struct tls_leaf *vault_leaf(struct vault_client *client, const struct host *host);

struct vault_value {
        uint64_t serial;
        struct str bytes;
};
const struct vault_value *vault_value(struct vault_client *client, uint32_t mapping, const struct authority *to);

struct vault_scope { /* of an AWS signature */
        struct str date /* YYYYMMDD */, region, service;
};
struct vault_signing_key {
        uint64_t serial;
        struct str key_id, key /* 32 bytes */, token /* of the session, "" for none */;
};
const struct vault_signing_key *vault_signing_key(struct vault_client *client, uint32_t mapping,
                                                  const struct authority *to, const struct vault_scope *scope);

/* 0, or the error that done() would have been told. */
int vault_ask_leaf(struct vault_client *client, const struct host *host, struct vault_call *call);
int vault_ask_value(struct vault_client *client, uint32_t mapping, const struct authority *to, struct vault_call *call);
int vault_ask_signing_key(struct vault_client *client, uint32_t mapping, const struct authority *to,
                          const struct vault_scope *scope, struct vault_call *call);
/* A sign-in is renewed (gateway/creds/renew.h). Called before its refresh token is sent: nobody else sends it until
 * this ends with the new tokens or without, and the value is read again. */
int vault_ask_renew(struct vault_client *client, uint32_t mapping, const struct authority *to, struct vault_call *call);
/* The new tokens, copied: they are stored even if the caller goes away meanwhile. fresh: a new sign-in, which stays in
 * memory. */
int vault_ask_keep(struct vault_client *client, uint32_t mapping, const struct authority *to, struct str lines,
                   uint64_t expires_in, bool fresh, struct vault_call *call);
/* Nothing came of it. */
void vault_tell_leave(struct vault_client *client, uint32_t mapping);
/* The origin refused the value with this serial. */
void vault_tell_stale(struct vault_client *client, uint32_t mapping, uint64_t serial);
