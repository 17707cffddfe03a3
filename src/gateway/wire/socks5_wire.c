/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/wire/socks5_wire.h"

#include <errno.h>

enum { VERSION = 5, CONNECT = 1 };
enum { METHOD_NONE = 0, METHOD_PASSWORD = 2 };
enum { TYPE_V4 = 1, TYPE_NAME = 3, TYPE_V6 = 4 };

static uint8_t wire_byte(struct str s, size_t i) {
        return (uint8_t)s.p[i];
}

enum socks5_result socks5_greeting(struct str in, size_t *ret_used, struct socks5_methods *ret) {
        if (in.n >= 1 && wire_byte(in, 0) != VERSION)
                return SOCKS5_BAD;
        if (in.n < 2 || in.n < 2u + wire_byte(in, 1))
                return SOCKS5_MORE;

        size_t methods = wire_byte(in, 1);
        struct socks5_methods found = { 0 };
        for (size_t i = 0; i < methods; i++) {
                found.none |= wire_byte(in, 2 + i) == METHOD_NONE;
                found.password |= wire_byte(in, 2 + i) == METHOD_PASSWORD;
        }

        *ret_used = 2 + methods;
        *ret = found;

        return SOCKS5_OK;
}

/* A byte with a length, then that many. False: not there yet. */
static bool take_counted(struct str in, size_t *at, struct str *ret) {
        if (in.n <= *at || in.n - *at - 1 < wire_byte(in, *at))
                return false;
        *ret = str_n(in.p + *at + 1, wire_byte(in, *at));
        *at += 1 + ret->n;
        return true;
}

enum socks5_result socks5_password(struct str in, size_t *ret_used, struct str *ret_user, struct str *ret_password) {
        size_t at = 1;

        if (in.n >= 1 && wire_byte(in, 0) != SOCKS5_PASSWORD_VERSION)
                return SOCKS5_BAD;
        if (!take_counted(in, &at, ret_user) || !take_counted(in, &at, ret_password))
                return SOCKS5_MORE;

        *ret_used = at;
        return SOCKS5_OK;
}

/* Length of the address with its type byte and port, from the type byte on; 0: unknown type, SIZE_MAX: not there yet.
 */
static size_t address_bytes(struct str in, size_t at) {
        if (in.n <= at)
                return SIZE_MAX;

        switch (wire_byte(in, at)) {
        case TYPE_V4:
                return 1 + 4 + 2;
        case TYPE_V6:
                return 1 + 16 + 2;
        case TYPE_NAME:
                return in.n > at + 1 ? 2u + wire_byte(in, at + 1) + 2u : SIZE_MAX;
        default:
                return 0;
        }
}

static int read_host(struct str in, size_t at, struct host *ret, struct err *err) {
        struct addr addr = { 0 };

        switch (wire_byte(in, at)) {
        case TYPE_V4:
                addr.family = ADDR_V4;
                memcpy(addr.bytes, in.p + at + 1, 4);
                break;
        case TYPE_V6:
                addr.family = ADDR_V6;
                memcpy(addr.bytes, in.p + at + 1, 16);
                break;
        default:
                return host_parse(str_n(in.p + at + 2, wire_byte(in, at + 1)), ret, err);
        }

        host_from_addr(&addr, ret);
        return 0;
}

static enum socks5_result wire_say(enum socks5_reply code, enum socks5_reply *ret_reply) {
        *ret_reply = code;
        return SOCKS5_SAY;
}

enum socks5_result socks5_request(struct str in, size_t *ret_used, struct authority *ret, enum socks5_reply *ret_reply,
                                  struct err *err) {
        if ((in.n >= 1 && wire_byte(in, 0) != VERSION) || (in.n >= 3 && wire_byte(in, 2) != 0))
                return SOCKS5_BAD;

        size_t address = address_bytes(in, 3);
        if (address == SIZE_MAX)
                return SOCKS5_MORE;

        if (wire_byte(in, 1) != CONNECT) {
                err_set(err, EOPNOTSUPP, "SOCKS5 command %u is not supported, only CONNECT", wire_byte(in, 1));
                return wire_say(SOCKS5_BAD_COMMAND, ret_reply);
        }

        if (address == 0) {
                err_set(err, EAFNOSUPPORT, "SOCKS5 address type %u is unknown", wire_byte(in, 3));
                return wire_say(SOCKS5_BAD_ADDRESS_TYPE, ret_reply);
        }

        if (in.n < 3 + address)
                return SOCKS5_MORE;

        struct authority target = { .port = (uint16_t)(wire_byte(in, 3 + address - 2) << 8 |
                                                       wire_byte(in, 3 + address - 1)) };
        if (read_host(in, 3, &target.host, err) < 0)
                return wire_say(SOCKS5_DENIED, ret_reply);

        if (target.port == 0) {
                err_set(err, EINVAL, "port 0 cannot be connected to");
                return wire_say(SOCKS5_FAILURE, ret_reply);
        }

        *ret_used = 3 + address;
        *ret = target;

        return SOCKS5_OK;
}

static int put_address(struct buf *out, const struct addr *addr, uint16_t port) {
        bool v6 = addr && addr->family == ADDR_V6;
        unsigned char bytes[1 + 16 + 2] = { v6 ? TYPE_V6 : TYPE_V4 };
        size_t n = v6 ? 16 : 4;

        if (addr && addr->family != ADDR_NONE)
                memcpy(bytes + 1, addr->bytes, n);

        bytes[1 + n] = (unsigned char)(port >> 8);
        bytes[2 + n] = (unsigned char)port;

        return buf_append(out, str_n(bytes, 3 + n));
}

int socks5_put_reply(struct buf *out, enum socks5_reply code, const struct addr *addr, uint16_t port) {
        unsigned char head[] = { VERSION, (unsigned char)code, 0 };
        int r = buf_append(out, str_n(head, sizeof head));
        if (r < 0)
                return r;

        return put_address(out, addr, port);
}

int socks5_put_greeting(struct buf *out, bool with_password) {
        unsigned char bytes[] = { VERSION, with_password ? 2 : 1, METHOD_NONE, METHOD_PASSWORD };
        return buf_append(out, str_n(bytes, with_password ? 4 : 3));
}

int socks5_put_password(struct buf *out, struct str user, struct str password) {
        if (user.n == 0 || user.n > 255 || password.n > 255)
                return -EINVAL;

        int r = buf_add_char(out, SOCKS5_PASSWORD_VERSION);
        if (r < 0)
                return r;

        r = buf_add_char(out, (char)user.n);
        if (r < 0)
                return r;

        r = buf_append(out, user);
        if (r < 0)
                return r;

        r = buf_add_char(out, (char)password.n);
        if (r < 0)
                return r;

        return buf_append(out, password);
}

int socks5_put_request(struct buf *out, const struct authority *target) {
        unsigned char head[] = { VERSION, CONNECT, 0 };
        int r = buf_append(out, str_n(head, sizeof head));
        if (r < 0)
                return r;
        if (target->host.kind == HOST_ADDR)
                return put_address(out, &target->host.addr, target->port);

        unsigned char type[] = { TYPE_NAME, target->host.name_n };
        unsigned char port[] = { (unsigned char)(target->port >> 8), (unsigned char)target->port };
        r = buf_append(out, str_n(type, sizeof type));
        if (r < 0)
                return r;

        r = buf_append(out, host_str(&target->host));
        if (r < 0)
                return r;

        return buf_append(out, str_n(port, sizeof port));
}

enum socks5_result socks5_choice(struct str in, size_t *ret_used, uint8_t *ret_method) {
        if (in.n >= 1 && wire_byte(in, 0) != VERSION)
                return SOCKS5_BAD;
        if (in.n < 2)
                return SOCKS5_MORE;
        *ret_used = 2;
        *ret_method = wire_byte(in, 1);
        return SOCKS5_OK;
}

enum socks5_result socks5_password_result(struct str in, size_t *ret_used) {
        if (in.n < 2)
                return SOCKS5_MORE;
        *ret_used = 2;
        return wire_byte(in, 1) == 0 ? SOCKS5_OK : SOCKS5_BAD;
}

enum socks5_result socks5_answer(struct str in, size_t *ret_used, enum socks5_reply *ret_reply) {
        if ((in.n >= 1 && wire_byte(in, 0) != VERSION) || (in.n >= 3 && wire_byte(in, 2) != 0))
                return SOCKS5_BAD;

        size_t address = address_bytes(in, 3);
        if (address == 0)
                return SOCKS5_BAD;
        if (address == SIZE_MAX || in.n < 3 + address)
                return SOCKS5_MORE;

        *ret_used = 3 + address;
        *ret_reply = (enum socks5_reply)wire_byte(in, 1);

        return SOCKS5_OK;
}
