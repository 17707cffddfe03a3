/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Reading a secret from where it is. Runs in a process of its own that ends afterwards (vault/reader.c), so what is
 * left in its memory goes with it.
 */
#include "base/err.h"
#include "ipc/vault_messages.h"

/* The source as it may be shown: a command's arguments are left out. */
#define SOURCE_LABEL_MAX 160
void source_label(const char *source, char ret[static SOURCE_LABEL_MAX]);

/* Whether reading it means running a program. */
bool source_runs_program(const char *source);
/* The file that is read, or "" for sources that are no file. False when its name is too long. */
bool source_path(const struct vault_start *start, const char *source, char *ret, size_t size);
/* Whether it changes by itself without anything that could be watched. */
bool source_must_be_polled(const char *source);

/* At most VAULT_SECRET_MAX bytes into ret; line ends after the value are not part of it. environment: for programs. */
int source_read(const struct vault_start *start, const struct vault_mapping *mapping, char *const *environment,
                char *ret, size_t *ret_n, struct err *err);
/* Whether the file is one that was closed to the sandbox when it started. A link may lead elsewhere since then, and
 * what it leads to now could be read inside. -EPERM: it is another, and the error says what to do. */
int source_check_place(const struct vault_mapping *mapping, const char *path, struct err *err);
/* What every value must be: long enough, not too long, printable ASCII without line breaks (sigv4: the three parts). */
int source_check(const struct vault_mapping *mapping, struct str value, struct err *err);
