/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A request as credentials see it, whatever protocol it came over. All text belongs to the caller and stays where it
 * is for as long as the view is used.
 */
#include "base/str.h"

struct header_view {
        struct str name, value; /* value without white space around it */
};

struct request_view {
        bool secure; /* it will travel over TLS, to a host that has proved its name */
        struct str method;
        struct str target; /* path and query */
        struct str host;   /* as it will be written into Host or :authority */
        uint64_t now_s;    /* by the wall clock */
        size_t n_headers;
        const struct header_view *headers; /* all that the client sent, also those that end here, but not Host */
};

#define VIEW_NONE UINT32_MAX
/* Index of the only header of that name (lower case), or VIEW_NONE when there is none or more than one. */
uint32_t request_view_only(const struct request_view *view, const char *name);
/* How many there are. */
size_t request_view_count(const struct request_view *view, struct str name);
