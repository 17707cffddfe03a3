/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The server of the control protocol: a listener and a few clients inside the supervisor's poll loop. It reads lines,
 * parses them, checks that hello came first, and hands requests to its owner; it decides nothing itself. Bounded for
 * each client: one request at a time, CONTROL_LINE_MAX bytes of input, CONTROL_OUT_MAX bytes that wait to be read.
 */
#include "base/processes/poller.h"
#include "control/protocol.h"

struct control_server; /* opaque */

enum { CONTROL_CLIENTS_MAX = 32, CONTROL_OUT_MAX = 1 << 20 };

/* What became of a request. */
enum control_done {
        CONTROL_REPLIED, /* the reply is in `out` */
        CONTROL_LATER,   /* control_server_reply() follows; the client's further requests wait */
};

struct control_handler {
        /* Every request but hello. `ticket` names the client for a later reply, `by` is what it calls itself. */
        enum control_done (*handle)(void *arg, const struct control_request *q, uint64_t ticket, const char *by,
                                    struct buf *out);
        /* Optional: somebody was turned away, or dropped. */
        void (*note)(void *arg, const char *text);
        void *arg;
};

/* In the directory that control_make_directory() made. */
int control_server_new(const char *id, const char *version_text, const struct control_handler *handler,
                       struct control_server **ret, struct err *err);
/* Says its last words (what is written goes out as far as it can without waiting) and removes the socket. */
void control_server_free(struct control_server *server);

/* Its side of a poller (base/processes/poller.h); both accept NULL. */
void control_server_watch(const struct control_server *server, struct poller *poller);
void control_server_step(struct control_server *server, const struct poller *poller);

/* Is anybody listening to events? If not there is no need to write any. */
bool control_server_watched(const struct control_server *server);
/* One whole line to every subscriber. One that does not keep up gets an error and is dropped. */
void control_server_publish(struct control_server *server, struct str line);
/* The reply to a request that was CONTROL_LATER; a ticket whose client is gone is no error. */
void control_server_reply(struct control_server *server, uint64_t ticket, struct str line);
