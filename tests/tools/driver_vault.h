/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The vault's supervisor, as gateway-driver plays it. */
#include "base/str.h"

#include <sys/types.h>

struct driver_vault;

/* PROGRAM is bailey-vault. */
struct driver_vault *driver_vault_new(const char *program);
/* "NAME|HOST,HOST|SLOT|VALUE"; for the slot sigv4 the value is "AWS_ACCESS_KEY_ID=...,AWS_SECRET_ACCESS_KEY=..." and
 * perhaps ",AWS_SESSION_TOKEN=...". */
void driver_vault_credential(struct driver_vault *v, struct str text);
/* Starts it, prints "vault PID" and "fake NAME TEXT" for each stand-in
 * ("fake NAME.secret", "fake NAME.token" for the further parts of an AWS credential), and writes its CA's certificate,
 * PEM. */
void driver_vault_start(struct driver_vault *v, const char *ca_file);
void driver_vault_kill(struct driver_vault *v);
/* A new value: "NAME VALUE". */
void driver_vault_value(struct driver_vault *v, struct str line);
/* The gateway's end of a new channel. */
int driver_vault_connect(struct driver_vault *v);
/* The credential table, sealed. */
int driver_vault_table(struct driver_vault *v);
