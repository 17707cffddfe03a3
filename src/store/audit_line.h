/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * One line of the audit log: a flat JSON object whose fields stand in a fixed order. Writing and reading are here
 * together, so that what is written can be read. Everything untrusted is escaped; a line never contains a line break.
 */
#include "base/clock.h"
#include "base/secrets/digest.h"
#include "ipc/event.h"
#include "policy/judge/snapshot.h"

#define AUDIT_ID_MAX 32             /* run and sandbox ids, with the NUL: letters, digits, '-', '_' */
#define AUDIT_LINE_MAX (192 * 1024) /* the longest strings, each byte escaped, fit */

/* What is the same for all lines of a writer, and the place in the chain. */
struct audit_head {
        char run_id[AUDIT_ID_MAX], sandbox[AUDIT_ID_MAX];
        uint64_t seq;
        char prev[DIGEST_HEX_MAX]; /* of the line before */
        uint64_t second;           /* ts is made anew when the second changes: `text` belongs to it */
        char text[CLOCK_TEXT_MAX];
};

bool audit_id_valid(const char *id);

/* Appends the line without its line break; `rule` is what decided, or NULL. */
int audit_line_format(struct buf *out, struct audit_head *head, const struct event *ev,
                      const struct snapshot_rule *rule);

/* A line read back. Text is still escaped as in the file: audit_unescape() before it is compared or shown. */
struct audit_record {
        struct str ts, run_id, sandbox, kind, method, scheme, domain, path, addr, rule, origin, reason, via, swapped,
            detail, prev; /* p == NULL: null or not there */
        uint64_t seq, port, status, bytes_in, bytes_out, connection, count;
        uint64_t duration_us;
        bool allowed, has_allowed;
};

/* -EBADMSG for anything that audit_line_format() does not write: e says what. Unknown fields are passed over. */
int audit_line_parse(struct str line, struct audit_record *ret, struct err *err);
/* The bytes of a JSON string's inside. */
int audit_unescape(struct buf *out, struct str inside);
/* The time of a record in microseconds since 1970. False for text that is not a time of the log. */
bool audit_time(struct str ts, uint64_t *ret_us);
