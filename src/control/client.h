/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A client of the control protocol: one connection, one request at a time, with a limit on how long a sandbox may take
 * to reply.
 */
#include "control/control_place.h"
#include "control/protocol.h"

struct control_client {
        int fd; /* -1: not connected */
        char id[CONTROL_ID_MAX];
        bool not_found; /* the last call was refused: there is no such thing */
        uint64_t last_id;
        struct buf in;
        size_t used; /* of `in`, handed out already */
};

/* Connects and says hello; `name` is what the client calls itself. As control_connect(), and -ETIMEDOUT when the
 * sandbox does not reply (its supervisor may be stopped). */
int control_client_open(const char *id, const char *name, struct control_client *ret, struct err *err);
void control_client_done(struct control_client *client);
/* Sends the request with an id of its own; the reply is one of the next messages. */
int control_client_send(struct control_client *client, const struct control_request *request, struct err *err);
/* Sends q with an id of its own and gives the reply. A reply that is not ok is -EREMOTEIO with its text in e. */
int control_client_call(struct control_client *client, const struct control_request *request,
                        struct control_message *ret, struct err *err);
/* The next message, an event after subscribe. 1: got one, 0: the sandbox ended, -EAGAIN: none within the time (-1: no
 * limit). */
int control_client_next(struct control_client *client, int timeout_ms, struct control_message *ret, struct err *err);

/* The running sandbox with this id, or whose id alone begins so. Heap text. */
int control_resolve(const char *prefix, char **ret, struct err *err);
