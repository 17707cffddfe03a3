/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * SOCKS5 on the wire (RFC 1928, RFC 1929): pure, no allocation. Parsers take all bytes received so far and say whether
 * they are enough; the result depends only on the bytes, never on how they arrived.
 */
#include "base/buf.h"
#include "policy/match/host.h"

/* Of an answer to user and password. */
enum { SOCKS5_PASSWORD_VERSION = 1, SOCKS5_PASSWORD_GOOD = 0, SOCKS5_PASSWORD_WRONG = 1 };

enum socks5_reply {
        SOCKS5_SUCCEEDED,
        SOCKS5_FAILURE,
        SOCKS5_DENIED,
        SOCKS5_NET_UNREACHABLE,
        SOCKS5_HOST_UNREACHABLE,
        SOCKS5_REFUSED,
        SOCKS5_TTL_EXPIRED,
        SOCKS5_BAD_COMMAND,
        SOCKS5_BAD_ADDRESS_TYPE,
        SOCKS5_NO_METHOD = 0xff,
};

enum socks5_result {
        SOCKS5_MORE, /* not complete */
        SOCKS5_OK,
        SOCKS5_BAD, /* not SOCKS5: close without an answer */
        SOCKS5_SAY, /* understood and not possible: answer with the reply given, then close */
};

/* Longest greeting and request: both fit a buffer of this size. */
#define SOCKS5_MESSAGE_MAX 262

/* The client's methods that are known here. */
struct socks5_methods {
        bool none, password;
};
enum socks5_result socks5_greeting(struct str in, size_t *ret_used, struct socks5_methods *ret);
/* The client's user and password (RFC 1929), in `in`. It is at most twice SOCKS5_MESSAGE_MAX long. */
enum socks5_result socks5_password(struct str in, size_t *ret_used, struct str *ret_user, struct str *ret_password);
/* The client's request. SOCKS5_SAY: *ret_reply says what; `e` (may be NULL) says why. */
enum socks5_result socks5_request(struct str in, size_t *ret_used, struct authority *ret, enum socks5_reply *ret_reply,
                                  struct err *err);
/* The answer to a request, with the address and port of our end of the connection (zeros when a is NULL). */
int socks5_put_reply(struct buf *out, enum socks5_reply code, const struct addr *addr, uint16_t port);

/* For the other side: asking a proxy. */
int socks5_put_greeting(struct buf *out, bool with_password);
int socks5_put_password(struct buf *out, struct str user, struct str password);
int socks5_put_request(struct buf *out, const struct authority *target);
/* The proxy's choice of method: two bytes. */
enum socks5_result socks5_choice(struct str in, size_t *ret_used, uint8_t *ret_method);
enum socks5_result socks5_password_result(struct str in, size_t *ret_used);
/* The proxy's answer to a request. */
enum socks5_result socks5_answer(struct str in, size_t *ret_used, enum socks5_reply *ret_reply);
