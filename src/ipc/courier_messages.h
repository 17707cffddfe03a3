/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Between a program of the user's side and `bailey-gateway courier`, which makes its requests to services outside:
 * HTTP/1.1 and WebSocket, with TLS where the URL says so. The courier may only connect. Its client speaks neither HTTP
 * nor TLS and never sees a token.
 *
 * An argument names a file with roots beside the system's.
 *
 *   fd 3  a stream socket with the messages below
 *   fd 4  the channel to a vault, as a gateway's worker has it (ipc/vault_messages.h); /dev/null without tokens
 *
 * Tokens: where the first line or a header has {token:N}, the courier writes the value of the vault's mapping N, and
 * for {basic:N:USER} the value of HTTP's Basic scheme. The vault releases it only for the mapping's own host.
 *
 * A message is a head and up to four parts, one after the other. Either side takes a malformed one as the other's
 * failure.
 */
#include "base/buf.h"

enum courier_kind {
        /* to the courier */
        COURIER_REQUEST = 1, /* id, flags, limit_ms; parts: "https://HOST[:PORT]", "METHOD PATH", headers, body */
        COURIER_SEND,        /* id; part 0: a text message for a WebSocket that is open */
        COURIER_CANCEL,      /* id; nothing more is said about it */
        /* from the courier */
        COURIER_OPEN,   /* id: a stream of lines or a WebSocket is there */
        COURIER_DATA,   /* id; part 0: one line, or one text message */
        COURIER_REPLY,  /* id, status, retry_s; part 0: the body. It is over */
        COURIER_FAILED, /* id; part 0: why. It is over */
        COURIER_KINDS
};

enum courier_flags {
        COURIER_LINES = 1,     /* the body comes line by line as it arrives */
        COURIER_WEBSOCKET = 2, /* the connection becomes a WebSocket */
        COURIER_BYTES = 4, /* no HTTP: part 3 as it is over TLS, part 1 the name that the certificate must have ("": the
                              host's). COURIER_REPLY with status 200: it is there */
};

enum { COURIER_FD = 3, COURIER_FD_VAULT, COURIER_PARTS = 4, COURIER_PART_MAX = 1 << 20 };
#define COURIER_MESSAGE_MAX (COURIER_PARTS * (size_t)COURIER_PART_MAX + 4096)

struct courier_message {
        uint32_t kind, flags, status, retry_s;
        uint64_t id, limit_ms; /* limit_ms: for the whole of it, or without a byte where it is a stream */
        struct str parts[COURIER_PARTS];
};

/* Appends. -EMSGSIZE: a part or all of it is too long. */
int courier_write(struct buf *out, const struct courier_message *message);
/* The first message of `in`; its parts lie there. 1: got one, *ret_used bytes long; 0: it is not all here; -EBADMSG. */
int courier_read(struct str in, struct courier_message *ret, size_t *ret_used);
