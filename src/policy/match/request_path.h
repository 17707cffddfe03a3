/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * How servers read the path of a request. A path rule is useful only if the server reads the path that was judged, so a
 * path that some server resolves to another one (dot segments in any spelling, merged slashes, bytes that are no UTF-8)
 * matches no rule. Some servers cut off a parameter after ';', or everything after an encoded '?' or '#'. That makes a
 * second reading, and a rule must allow both.
 */
#include "base/str.h"

#define REQUEST_READINGS_MAX 3

struct request_readings {
        size_t n; /* 0: no rule about paths can match */
        struct str at[REQUEST_READINGS_MAX];
        char *memory;
};

/* path: without the query. The readings point into it, or into memory that request_readings_done() frees. */
void request_readings_of(struct str path, struct request_readings *ret);
void request_readings_done(struct request_readings *readings);

/* Where a server may look for a reading: escapes undone, in lower case, without slashes at its end. out has room for
 * all of the reading; it is what the result points into. */
struct str request_path_fold(struct str reading, char *out);

/* The same without a suffix (".json"), which many servers take for the wanted form of the answer. */
struct str request_path_without_suffix(struct str folded);
