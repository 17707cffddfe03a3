/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A request that a browser sends to the port of a sign-in's callback (bridge/page.h). Pure.
 *
 * One request is carried inside: a GET for the path that was announced, to the host that was announced, with the state
 * that was announced. What goes inside is written anew and has nothing of the browser but the request's target: cookies
 * of the loopback address belong to other programs of this machine.
 */
#include "base/buf.h"
#include "bridge/page.h"

enum { CALLBACK_HEAD_MAX = 16384 };

enum callback_verdict {
        CALLBACK_CARRY,
        CALLBACK_MORE,   /* the head is not whole yet */
        CALLBACK_FORM,   /* it is no request of HTTP/1.0 or 1.1 that can be read in one way */
        CALLBACK_METHOD, /* not GET */
        CALLBACK_HOST,   /* for another host or port: a page that leads here by a name of its own */
        CALLBACK_PATH,   /* nobody announced it */
        CALLBACK_STATE,  /* of another sign-in, or made up */
        CALLBACK_SECOND, /* the callback was carried already */
        CALLBACK_LATE,   /* the time is over */
        CALLBACK_VERDICTS
};

/* CALLBACK_CARRY: `out` has what is sent inside. */
enum callback_verdict callback_judge(struct str head, const struct page_callback *callback, struct buf *out);
/* For people and the record. */
const char *callback_verdict_text(enum callback_verdict verdict);
