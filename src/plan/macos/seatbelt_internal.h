/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Shared by the files that make a Seatbelt profile. */
#include "plan/macos/seatbelt.h"
#include "policy/macos.h"

/* A literal over 1025 bytes makes the whole profile invalid (sandbox-runtime); pieces stay well below. */
enum { SEATBELT_STRING_MAX = 900 };
/* sandbox_init() was seen to crash above about 17,770 rules (nono); each filter counts here. */
enum { SEATBELT_FILTERS_MAX = 12000 };

/* Rows that every profile has, or that a group adds. */
struct seatbelt_row {
        unsigned when; /* enum seatbelt_when, or a group's bits shifted by SEATBELT_WHEN_GROUP */
        const char *section, *why, *operations;
        const struct seatbelt_filter *filters; /* NULL: the default of the operation */
};

enum seatbelt_when {
        SEATBELT_ALWAYS = 0,
        SEATBELT_READS_OPEN = 1,
        SEATBELT_READS_CLOSED = 2,
        SEATBELT_NETWORK = 4,
        SEATBELT_WHEN_GROUP = 8,
};

extern const struct seatbelt_row seatbelt_rows[];
extern const size_t seatbelt_rows_n;

/* Paths that macOS closes, that a group opens, or where programs are: they stand among the policy's own. */
enum seatbelt_place_kind {
        SEATBELT_HIDES,    /* not to be read */
        SEATBELT_KEEPS,    /* not to be written */
        SEATBELT_SHOWS,    /* to be read */
        SEATBELT_GIVES,    /* to be written, unless the mode is read-only */
        SEATBELT_PROGRAMS, /* to be read, where the sandbox has a home of its own */
};
struct seatbelt_place {
        unsigned group; /* 0: always */
        enum seatbelt_place_kind kind;
        const char *path; /* "~/..." or absolute and canonical */
        const char *why;
};
extern const struct seatbelt_place seatbelt_places[];
extern const size_t seatbelt_places_n;

/* Text that lives as long as the profile. NULL when out of memory. */
const char *seatbelt_keep(struct seatbelt *seatbelt, char *taken);
const char *seatbelt_format(struct seatbelt *seatbelt, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A rule, then its filters: each goes to the rule that was begun last. 0 or -ENOMEM. */
int seatbelt_begin(struct seatbelt *seatbelt, bool allows, const char *section, const char *operations,
                   const char *why);
int seatbelt_filter(struct seatbelt *seatbelt, enum seatbelt_filter_kind kind, const char *text, const char *why);
/* The same in a conjunction with the filter before it. */
int seatbelt_and(struct seatbelt *seatbelt, enum seatbelt_filter_kind kind, const char *text, bool negated);
int seatbelt_note(struct seatbelt *seatbelt, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Heap text: the path in the form that the kernel compares. NULL when out of memory. */
char *seatbelt_canonical(const char *path);
/* The other spelling of a canonical path in /private/tmp, /private/var or /private/etc; NULL where there is none, or
 * when out of memory (*ret_failed). */
char *seatbelt_alias(const char *path, bool *ret_failed);

/* Regular expressions, anchored at both ends. A glob holds for what is below its matches as well, with `below`.
 * `fold` from this byte on lets letters match in both cases; SIZE_MAX: nowhere. -EMSGSIZE: too long for the language.
 */
int seatbelt_regex_glob(struct str glob, size_t fold, bool below, struct buf *out);
/* The same for a plain path, without the anchors. */
int seatbelt_regex_path(struct str path, bool fold, struct buf *out);

/* A path, in both spellings; what the language cannot hold becomes a parameter. */
int seatbelt_filter_path(struct seatbelt *seatbelt, enum seatbelt_filter_kind kind, const char *path, const char *why);
/* The same as a condition on the filter before it. */
int seatbelt_filter_except(struct seatbelt *seatbelt, const char *path);

/* One filter in one spelling. */
int seatbelt_filter_one(struct seatbelt *seatbelt, enum seatbelt_filter_kind kind, const char *path);

/* The deepest directory around the path that may be written, NULL for none. */
const char *seatbelt_writable_around(const struct path_rules *rules, const char *path);
/* The path, which lies below `root`, with letters below it in both cases. As the other expressions. */
int seatbelt_regex_below(const char *root, const char *path, const char *end, struct buf *out);

/* What a rule says, by its flags. */
enum seatbelt_says { SEATBELT_READ, SEATBELT_WRITE, SEATBELT_NO_READ, SEATBELT_NO_WRITE };
enum seatbelt_says seatbelt_says(const struct path_rule *rule);
#define SEATBELT_SECTION_FILES "files"
#define SEATBELT_READING "file-read* file-map-executable process-exec*"
#define SEATBELT_WRITING "file-write* network-bind network-outbound"

/* The parts, in their order. `rules` are all that hold on this Mac, canonical. */
int seatbelt_add_late(struct seatbelt *seatbelt, const struct seatbelt_request *request, const struct path_rules *rules,
                      struct err *err);
int seatbelt_add_moves(struct seatbelt *seatbelt, const struct path_rules *rules, bool fold, struct err *err);

int seatbelt_add_rows(struct seatbelt *seatbelt, const struct seatbelt_request *request, unsigned groups);
int seatbelt_add_files(struct seatbelt *seatbelt, const struct seatbelt_request *request, unsigned groups,
                       struct err *err);
int seatbelt_add_network(struct seatbelt *seatbelt, const struct seatbelt_request *request, unsigned groups,
                         struct err *err);
