/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The parts of a policy file that have structure: request rules, commands, credentials, agents, monitor. Each is
 * described by a table of its fields; reading, checking, freeing and printing go by the table.
 */
#include "conf/node.h"
#include "policy/policy.h"

/* FIELD_SWITCH is an enum policy_switch in one byte. */
enum field_kind { FIELD_TEXT, FIELD_TEXTS, FIELD_BOOL, FIELD_U32, FIELD_U64, FIELD_SWITCH };

struct record_field {
        struct option option; /* key is the field's name, "a.b" for b in a mapping a; type, range, choices and help as
                                 for any option */
        enum field_kind kind;
        size_t offset;
        bool required;
        int (*check)(struct str text, struct err *e);
};

struct record {
        const char *key; /* "network.rules" */
        const char *help;
        bool named; /* a mapping from names to records; else a list of records */
        size_t name_offset;
        const struct record_field *fields;
        size_t n_fields;
        size_t size, origin_offset;
        size_t list_offset;  /* of the vector in struct policy */
        size_t apart_offset; /* of a second one, which loading fills from the first; 0: there is none */
        enum option_trust trust;
        /* With TRUST_LESS_NARROWS: the field that decides, and the last of its choices that takes something away. */
        size_t decides, last_narrowing;
        int (*check)(const void *record, struct err *e);
};

enum { POLICY_RECORDS = 8 };
extern const struct record policy_records[POLICY_RECORDS];

/* Reads one record from a mapping and adds it. `name` is empty unless the record is named. *ret_widens says whether an
 * untrusted file may hold it. Errors carry the place. */
int record_read(struct policy *policy, const struct record *record, const struct document *document,
                const struct node *node, bool *ret_widens, struct err *err);
/* The records of one kind in the policy, those that are kept apart last; for printing. */
size_t record_count(const struct policy *policy, const struct record *record);
const void *record_at(const struct policy *policy, const struct record *record, size_t i);
void policy_records_done(struct policy *policy);
