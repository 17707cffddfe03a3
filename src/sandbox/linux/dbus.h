/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * As much of D-Bus's wire format as one method call needs: calls are written, answers are read. Written by hand because
 * `bailey` is linked statically and light; a client library would bring more code than all of this sandbox has. Pure:
 * no sockets here (scope.c has them). Input comes from outside: every length is checked before it is used, and an
 * answer that is not well-formed is an error, never a guess.
 */
#include "base/buf.h"

#include <sys/types.h>

enum { DBUS_MESSAGE_MAX = 65536 };

/* A call that is being written; the first error stays until dbus_end(). */
struct dbus_out {
        struct buf bytes;
        size_t body; /* where it begins */
        int error;
};
#define DBUS_OUT ((struct dbus_out){ .bytes = BUF(DBUS_MESSAGE_MAX) })

struct dbus_call {
        uint32_t serial;
        const char *destination, *path, *interface, *member;
        const char *signature; /* of the arguments, NULL for none */
};
void dbus_begin(struct dbus_out *out, const struct dbus_call *call);
void dbus_put_u32(struct dbus_out *out, uint32_t value);
void dbus_put_u64(struct dbus_out *out, uint64_t value);
void dbus_put_string(struct dbus_out *out, const char *text);
void dbus_put_signature(struct dbus_out *out, const char *text);
/* Structures begin at a multiple of 8. */
void dbus_put_struct(struct dbus_out *out);
/* An array of what begins at multiples of `alignment`. */
struct dbus_array {
        size_t length_at, begin;
};
struct dbus_array dbus_array_begin(struct dbus_out *out, size_t alignment);
void dbus_array_end(struct dbus_out *out, struct dbus_array array);
/* 0 when the message is whole: then it is in o->bytes. */
int dbus_end(struct dbus_out *out);

enum dbus_type { DBUS_CALL = 1, DBUS_RETURN = 2, DBUS_ERROR = 3, DBUS_SIGNAL = 4 };

struct dbus_message {
        uint8_t type;      /* enum dbus_type, or one that is not known and to be passed over */
        uint32_t reply_to; /* DBUS_RETURN, DBUS_ERROR: serial of the call */
        struct str error;  /* DBUS_ERROR: its name, made of letters, digits, '.' and '_' */
};
/* The message at the front: its length, 0 when it is not whole yet, -EBADMSG when it is none, -EMSGSIZE when it is too
 * long. ret->error lies in `bytes`. */
ssize_t dbus_parse(struct str bytes, struct dbus_message *ret);
