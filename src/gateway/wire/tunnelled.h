/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The requests of a plain HTTP/1 client, followed one after another through an opaque tunnel: where each head begins
 * and ends, and which host it names. Pure; the caller compares hosts and moves bytes.
 */
#include "gateway/wire/http1.h"

enum requests_next {
        REQUESTS_MORE,   /* the head is not complete: call again with the same bytes and more */
        REQUESTS_HEAD,   /* a head: compare the host, then `pass` bytes belong to this request */
        REQUESTS_BODY,   /* `pass` more bytes belong to it */
        REQUESTS_SWITCH, /* a head that asks to leave HTTP (Upgrade, CONNECT) */
        REQUESTS_BAD,    /* not HTTP as it must be: close */
};

struct requests { /* zeroed at the start */
        uint64_t pass;
        uint32_t seen; /* heads so far */
        bool has_host; /* the last head names one */
        bool in_body;  /* inside a chunked body */
        struct http1_chunked chunked;
        struct http1_progress progress;
};

/* bytes: what has not been passed yet, from the beginning of a head or inside a chunked body. *ret_host is written when
 * has_host is set. */
enum requests_next requests_look(struct requests *requests, struct str bytes, size_t head_max, struct host *ret_host);
