/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * WebSocket (RFC 6455), the client's side: frames in and out, and the proof in the answer to the upgrade. No
 * extensions. Strict: what a server must not send (a mask, a reserved bit, a fragmented control frame, a length that
 * is not in its shortest form) is refused.
 */
#include "base/buf.h"

enum websocket_opcode {
        WEBSOCKET_MORE = 0,
        WEBSOCKET_TEXT = 1,
        WEBSOCKET_BINARY = 2,
        WEBSOCKET_CLOSE = 8,
        WEBSOCKET_PING = 9,
        WEBSOCKET_PONG = 10,
};

struct websocket_frame {
        uint8_t opcode; /* enum websocket_opcode */
        bool last;      /* of its message */
        struct str payload;
};

#define WEBSOCKET_KEY_MAX 25 /* base64 of 16 bytes, terminated */
#define WEBSOCKET_PROOF_MAX 29

/* The first frame of `in`. 1: got one, *ret_used bytes long; 0: it is not all here; -EBADMSG; -EMSGSIZE: longer than
 * max. */
int websocket_read(struct str in, size_t max, struct websocket_frame *ret, size_t *ret_used);
/* One whole frame with this mask. */
int websocket_write(struct buf *out, enum websocket_opcode opcode, struct str payload, const unsigned char mask[4]);

void websocket_key(const unsigned char random[16], char ret[static WEBSOCKET_KEY_MAX]);
/* What the server must answer to this key. */
void websocket_proof(const char *key, char ret[static WEBSOCKET_PROOF_MAX]);
