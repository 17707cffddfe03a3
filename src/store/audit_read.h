/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Reading audit logs: line by line, as they grow and are rotated, and the proof that a chain is whole.
 */
#include "base/vec.h"
#include "store/audit.h"

/* One file, from its beginning. A last line without its line break is not handed out: it is still being written. */
struct audit_reader {
        int fd;
        char *path;
        struct buf buffer;
        size_t used;   /* bytes of the buffer that were handed out */
        uint64_t line; /* number of the line handed out last, from 1 */
};

int audit_reader_open(struct audit_reader *reader, const char *path, struct err *err);
void audit_reader_done(struct audit_reader *reader);
/* 1: a line without its line break, valid until the next call; 0: no whole line (yet); negative: error. */
int audit_reader_next(struct audit_reader *reader, struct str *ret_line, struct err *err);
/* Bytes behind the last line break, once audit_reader_next() gave 0. */
size_t audit_reader_rest(const struct audit_reader *reader);
/* True when the path now names another file: this one was rotated and will not grow any more. */
bool audit_reader_rotated(const struct audit_reader *reader);

typedef VEC(char *) audit_names;
void audit_names_done(audit_names *names);
/* The files of a log that exist, oldest first: FILE.8 ... FILE.1 FILE. -ENOENT when there is none. */
int audit_files(const char *path, audit_names *ret, struct err *err);

struct audit_report {
        uint64_t records, files, first_seq, last_seq;
        char first_ts[CLOCK_TEXT_MAX], last_ts[CLOCK_TEXT_MAX];
        size_t torn;                    /* bytes of an unfinished last line */
        bool closed;                    /* the last record says that the writer ended in order */
        char last_hash[DIGEST_HEX_MAX]; /* SHA-256 of the last whole line: what the next one would name */
        uint64_t dropped; /* records before this one were dropped by rotation, and the log says so; 0: none */
};
/* 0: whole. -EBADMSG: broken, and e says where and how, *ret counts what was whole before. */
int audit_verify(const char *path, struct audit_report *ret, struct err *err);
