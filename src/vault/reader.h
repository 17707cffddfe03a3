/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The reader: a second process of the vault, made before there is anything to protect. It has what the vault gives up
 * (files, programs, watching) and nothing of what the vault has (the CA, values that are in use). Each reading of a
 * source happens in a process of its own with a time limit, all at once if need be; the value passes through and is
 * wiped.
 */
#include "base/err.h"
#include "ipc/vault.h"

#include <sys/types.h>

struct reader { /* the vault's side */
        int sock;
        pid_t pid;
};

/* 0 with sock -1 when no source needs it. */
int reader_start(const struct vault_start *start, const struct vault_mapping *mappings, struct reader *ret,
                 struct err *e);
/* "NAME=VALUE" for programs that are run from now on. */
int reader_variable(const struct reader *r, struct str variable, struct err *e);
/* The value or the failure follows; -EAGAIN cannot happen as long as each mapping is asked for once at a time. */
int reader_ask(const struct reader *r, uint32_t mapping, struct err *e);

struct reading {
        uint32_t mapping;
        bool found;
        struct str text; /* the value, or why there is none; in `room` */
};
/* What was read, asked for or because a file changed. `room`: VAULT_MESSAGE_MAX bytes, to be wiped. 1: got one,
 * 0: the reader has ended, -EAGAIN: nothing there, -EBADMSG. */
int reader_receive(const struct reader *r, size_t n_mappings, char *room, struct reading *ret);
