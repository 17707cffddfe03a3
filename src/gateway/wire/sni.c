/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A ClientHello (RFC 8446 section 4.1.2) may be spread over several records and several reads. The handshake message is
 * put together from the records first, in place when one record holds it, and only a whole one is parsed.
 */
#include "gateway/wire/sni.h"

enum { RECORD_CHANGE_CIPHER = 20, RECORD_ALERT = 21, RECORD_HANDSHAKE = 22, RECORD_DATA = 23, RECORD_HEARTBEAT = 24 };
enum {
        RECORD_HEADER = 5,
        RECORD_SEALED_MIN = 16,
        RECORD_MAX = 16384,
        HANDSHAKE_CLIENT_HELLO = 1,
        HANDSHAKE_HEADER = 4
};
enum {
        EXTENSION_SERVER_NAME = 0,
        EXTENSION_ALPN = 16,
        EXTENSION_EARLY_DATA = 42,
        EXTENSION_ECH = 0xfe0d,
        NAME_TYPE_HOST = 0
};

static uint8_t byte_at(struct str s, size_t i) {
        return (uint8_t)s.p[i];
}

static uint16_t u16_at(struct str s, size_t i) {
        return (uint16_t)(byte_at(s, i) << 8 | byte_at(s, i + 1));
}

/* Takes a vector with a length of `width` bytes off the front. */
static bool take_vector(struct str *s, size_t width, struct str *ret) {
        if (s->n < width)
                return false;

        size_t n = width == 1 ? byte_at(*s, 0) : u16_at(*s, 0);
        if (s->n - width < n)
                return false;

        *ret = str_n(s->p + width, n);
        *s = str_skip(*s, width + n);

        return true;
}

/* One entry of type host_name: a second one, or another type, has no agreed meaning. */
static bool take_server_name(struct str extension, struct sni *ret) {
        struct str list, name;

        if (!take_vector(&extension, 2, &list) || extension.n > 0)
                return false;
        if (list.n < 1 || byte_at(list, 0) != NAME_TYPE_HOST)
                return false;

        list = str_skip(list, 1);
        if (!take_vector(&list, 2, &name) || list.n > 0 || name.n == 0 || name.n > 255)
                return false;

        memcpy(ret->name, name.p, name.n);
        ret->n = (uint8_t)name.n;

        return true;
}

/* Names behind their lengths, none empty. */
static bool take_protocols(struct str extension, struct sni *ret) {
        struct str list, name;

        if (!take_vector(&extension, 2, &list) || extension.n > 0 || list.n == 0)
                return false;

        while (list.n > 0) {
                if (!take_vector(&list, 1, &name) || name.n == 0)
                        return false;
                if (name.n + 1 > sizeof ret->protocols - ret->protocols_n)
                        continue;

                memcpy(ret->protocols + ret->protocols_n, name.p - 1, name.n + 1);
                ret->protocols_n += (uint16_t)(name.n + 1);
        }

        return true;
}

static enum sni_result parse_extensions(struct str list, struct sni *ret) {
        bool named = false, offered = false;

        while (list.n > 0) {
                if (list.n < 4)
                        return SNI_BAD;

                uint16_t type = u16_at(list, 0);
                struct str body;
                list = str_skip(list, 2);
                if (!take_vector(&list, 2, &body))
                        return SNI_BAD;
                if (type == EXTENSION_ECH)
                        ret->ech = true;
                if (type == EXTENSION_EARLY_DATA)
                        ret->early = true;

                if (type == EXTENSION_ALPN) {
                        if (offered || !take_protocols(body, ret))
                                return SNI_BAD;
                        offered = true;
                }

                if (type != EXTENSION_SERVER_NAME)
                        continue;
                if (named || !take_server_name(body, ret))
                        return SNI_BAD;

                named = true;
        }

        return named ? SNI_NAME : SNI_NONE;
}

/* The message without its handshake header. */
static enum sni_result parse_hello(struct str m, struct sni *ret) {
        struct str session, ciphers, compression, extensions;

        if (m.n < 34 || byte_at(m, 0) != 3)
                return SNI_BAD;

        m = str_skip(m, 34); /* version and random */
        if (!take_vector(&m, 1, &session) || session.n > 32)
                return SNI_BAD;
        if (!take_vector(&m, 2, &ciphers) || ciphers.n < 2 || ciphers.n % 2 != 0)
                return SNI_BAD;
        if (!take_vector(&m, 1, &compression) || compression.n == 0)
                return SNI_BAD;
        if (m.n == 0)
                return SNI_NONE;
        if (!take_vector(&m, 2, &extensions) || m.n > 0)
                return SNI_BAD;

        return parse_extensions(extensions, ret);
}

/* The handshake message's length with its header, or 0 while that is unknown, or SIZE_MAX when it cannot be a hello. */
static size_t message_length(struct str start) {
        if (start.n > 0 && byte_at(start, 0) != HANDSHAKE_CLIENT_HELLO)
                return SIZE_MAX;
        if (start.n < HANDSHAKE_HEADER)
                return 0;
        size_t n = (size_t)byte_at(start, 1) << 16 | u16_at(start, 2);
        return n > SNI_HELLO_MAX - HANDSHAKE_HEADER ? SIZE_MAX : n + HANDSHAKE_HEADER;
}

static enum sni_result sni_finish(struct str message, size_t length, struct sni *ret) {
        if (message.n > length)
                return SNI_BAD; /* nothing may follow before the server has spoken */
        return parse_hello(str_skip(message, HANDSHAKE_HEADER), ret);
}

/* Alerts and the like: some servers skip them in front of a ClientHello, which would hide its name. */
static bool is_other_record(uint8_t type) {
        return type == RECORD_CHANGE_CIPHER || type == RECORD_ALERT || type == RECORD_DATA || type == RECORD_HEARTBEAT;
}

enum sni_result sni_parse(struct str bytes, struct sni *ret) {
        char joined[SNI_HELLO_MAX];
        size_t n = 0;

        *ret = (struct sni){ 0 };
        if (bytes.n > 0 && is_other_record(byte_at(bytes, 0))) {
                if (bytes.n == 1)
                        return SNI_MORE;

                if (byte_at(bytes, 1) == 3)
                        return SNI_BAD;

                return SNI_NOT_TLS;
        }

        for (struct str rest = bytes;;) {
                if (rest.n > 0 && byte_at(rest, 0) != RECORD_HANDSHAKE)
                        return n == 0 ? SNI_NOT_TLS : SNI_BAD;
                if (rest.n > 1 && byte_at(rest, 1) != 3)
                        return n == 0 ? SNI_NOT_TLS : SNI_BAD;
                if (rest.n < RECORD_HEADER)
                        return SNI_MORE;

                size_t record = u16_at(rest, 3);
                if (byte_at(rest, 2) > 4 || record == 0 || record > RECORD_MAX)
                        return SNI_BAD;

                rest = str_skip(rest, RECORD_HEADER);
                struct str part = str_first(rest, record);

                /* What is here of this record counts even when the record is unfinished: it may already be wrong. */
                struct str message = part;

                if (n > 0) {
                        if (part.n > sizeof joined - n)
                                return SNI_BAD;
                        memcpy(joined + n, part.p, part.n);
                        message = str_n(joined, n + part.n);
                }

                size_t length = message_length(message);
                if (length == SIZE_MAX)
                        return SNI_BAD;
                if (part.n < record)
                        return SNI_MORE;

                if (length > 0 && message.n >= length) {
                        ret->bytes = (size_t)(rest.p + record - bytes.p);
                        return sni_finish(message, length, ret);
                }

                if (n == 0 && part.n > sizeof joined)
                        return SNI_BAD;
                if (n == 0)
                        memcpy(joined, part.p, part.n);

                n += part.n;
                rest = str_skip(rest, record);
        }
}

/* A handshake record is a ClientHello in the clear, or else encrypted (TLS 1.2, resumed): then it is at least as long
 * as a tag, and looks like a ClientHello (type, length, version) by chance once in some million times. Servers accept
 * hellos of more than 64 KiB and check no more of the version than this. */
static enum tls_next is_hello(struct str bytes, size_t record) {
        size_t head = RECORD_HEADER + (record < RECORD_SEALED_MIN ? 1 : HANDSHAKE_HEADER + 1);
        if (bytes.n < head)
                return TLS_MORE;
        if (byte_at(bytes, RECORD_HEADER) != HANDSHAKE_CLIENT_HELLO)
                return TLS_OVER;
        if (record < RECORD_SEALED_MIN)
                return TLS_HELLO;

        bool clear = byte_at(bytes, RECORD_HEADER + 1) <= 2 && byte_at(bytes, RECORD_HEADER + HANDSHAKE_HEADER) == 3;
        return clear ? TLS_HELLO : TLS_OVER;
}

enum tls_next tls_records_look(struct tls_records *records, struct str bytes, bool *ret_has_host,
                               struct host *ret_host) {
        struct sni sni;

        if (bytes.n < RECORD_HEADER)
                return TLS_MORE;

        uint8_t type = byte_at(bytes, 0);
        size_t record = u16_at(bytes, 3);
        records->pass = RECORD_HEADER + record;
        if (type == RECORD_CHANGE_CIPHER || type == RECORD_ALERT || (type == RECORD_DATA && records->early))
                return TLS_PASS; /* a warning ends nothing */
        if (type != RECORD_HANDSHAKE)
                return type == RECORD_DATA ? TLS_OVER : TLS_BAD;

        enum tls_next next = is_hello(bytes, record);
        if (next != TLS_HELLO)
                return next;

        switch (sni_parse(bytes, &sni)) {
        case SNI_MORE:
                return TLS_MORE;
        case SNI_NAME:
                *ret_has_host = true;
                return host_parse(str_n(sni.name, sni.n), ret_host, NULL) < 0 ? TLS_BAD : TLS_HELLO;
        case SNI_NONE:
                *ret_has_host = false;

                return TLS_HELLO;
        default:
                return TLS_BAD;
        }
}
