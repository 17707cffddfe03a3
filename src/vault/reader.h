/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The reader: a second process of the vault, made before there is anything to protect. It keeps the rights that the
 * vault gives up (files, programs, watching) and has none of the vault's data (the CA, values in use). Each reading of
 * a source happens in a process of its own with a time limit, all at once if need be; the value passes through and is
 * wiped.
 */
#include "base/err.h"
#include "ipc/vault_messages.h"

#include <sys/types.h>

struct reader { /* the vault's side */
        int sock;
        pid_t pid;
};

/* 0 with sock -1 when no source needs it. */
int reader_start(const struct vault_start *start, const struct vault_mapping *mappings, struct reader *ret,
                 struct err *err);
/* "NAME=VALUE" for programs that are run from now on. */
int reader_variable(const struct reader *reader, struct str variable, struct err *err);
/* The value or the failure follows; -EAGAIN cannot happen as long as each mapping is asked for once at a time. */
int reader_ask(const struct reader *reader, uint32_t mapping, struct err *err);

/* A sign-in is renewed: `leader` is the mapping of its refresh token. READ_LOCKED follows when nobody else renews it,
 * after what its file has now. */
int reader_lock(const struct reader *reader, uint32_t leader, struct err *err);
void reader_unlock(const struct reader *reader, uint32_t leader);
/* Back into the file, by write_back(): READ_WRITTEN follows (text: "" or why not), after what its file has now when
 * that is newer. Locks it if need be, and unlocks it. */
int reader_write(const struct reader *reader, uint32_t leader, struct str old, struct str lines, uint64_t expires_in,
                 struct err *err);

enum reading_kind { READ_VALUE, READ_LOCKED, READ_WRITTEN };
struct reading {
        enum reading_kind kind;
        uint32_t mapping;
        bool found;
        struct str text; /* the value, or why there is none; in `room` */
};
/* What was read, asked for or because a file changed. `room`: VAULT_MESSAGE_MAX bytes, to be wiped. 1: got one,
 * 0: the reader has ended, -EAGAIN: nothing there, -EBADMSG. */
int reader_receive(const struct reader *reader, size_t n_mappings, char *room, struct reading *ret);
