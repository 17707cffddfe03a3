/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/wire/packet_wire.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <netinet/in.h>

static const char udp4[] = "\x45\0\0\x1d\0\1\0\0\x40\x11\0\0\xc6\x12\0\1\x08\x08\x08\x08"
                           "\x9c\x40\1\xbb\0\x09\0\0x";
static const char icmp6[] = "\x60\0\0\0\0\x08\x3a\x40\xfd\0\xba\x11\0\0\0\0\0\0\0\0\0\0\0\1"
                            "\x20\1\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x09\x80\0\0\0\0\0\0\0";
/* Hop-by-hop options, then a first fragment of UDP. */
static const char options6[] = "\x60\0\0\0\0\x1a\0\x40\xfd\0\xba\x11\0\0\0\0\0\0\0\0\0\0\0\1"
                               "\x20\1\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x09"
                               "\x2c\0\0\0\0\0\0\0"
                               "\x11\0\0\1\0\0\0\0"
                               "\x9c\x40\x14\xe9\0\x0a\0\0hi";
#define BYTES(literal) str_n(literal, sizeof literal - 1)

static void packets_say_where_they_go(void **state) {
        struct packet p;
        char text[ADDR_TEXT_MAX];
        (void)state;

        assert_true(packet_parse(BYTES(udp4), &p));
        assert_int_equal(p.protocol, IPPROTO_UDP);
        assert_int_equal(p.port, 443);
        addr_text(&p.to, text);
        assert_string_equal(text, "8.8.8.8");
        assert_true(str_eq(p.payload, STR("x")));

        assert_true(packet_parse(BYTES(icmp6), &p));
        assert_int_equal(p.protocol, IPPROTO_ICMPV6);
        assert_false(p.has_port);
        addr_text(&p.to, text);
        assert_string_equal(text, "2001:db8::9");

        assert_true(packet_parse(BYTES(options6), &p));
        assert_int_equal(p.protocol, IPPROTO_UDP);
        assert_int_equal(p.port, 5353);
        assert_true(str_eq(p.payload, STR("hi")));
}

static void what_is_cut_off_is_not_guessed(void **state) {
        struct packet p;
        (void)state;

        for (size_t n = 0; n < 20; n++)
                assert_false(packet_parse(str_n(udp4, n), &p));
        assert_true(packet_parse(str_n(udp4, 20), &p));
        assert_false(p.has_port);
        for (size_t n = 0; n < 40; n++)
                assert_false(packet_parse(str_n(icmp6, n), &p));

        char later[sizeof udp4];
        memcpy(later, udp4, sizeof udp4);
        later[7] = 9; /* a later piece: what follows is no header */
        assert_true(packet_parse(str_n(later, sizeof udp4 - 1), &p));
        assert_false(p.has_port);

        assert_false(packet_parse(STR("\x95"), &p));
}

struct message {
        uint32_t length;
        uint16_t type, flags;
        uint32_t serial, port;
        uint8_t family, version;
        uint16_t resource;
        uint16_t payload_length, payload_type;
        char payload[32];
        uint16_t serial_length, serial_type;
        uint8_t packet_serial[4];
        uint16_t uid_length, uid_type;
        uint8_t uid[4];
};

static struct message message_new(void) {
        struct message m = { .length = sizeof m,
                             .type = 4 << 8,
                             .payload_length = 4 + sizeof udp4 - 1,
                             .payload_type = 9,
                             .serial_length = 8,
                             .serial_type = 12,
                             .packet_serial = { 0, 0, 1, 2 },
                             .uid_length = 8,
                             .uid_type = 11,
                             .uid = { 0, 1, 0, 5 } };
        memcpy(m.payload, udp4, sizeof udp4 - 1);
        return m;
}

static void messages_are_taken_one_by_one(void **state) {
        struct message two[2] = { message_new(), message_new() };
        struct packet_log log;
        (void)state;

        struct str rest = str_n(two, sizeof two);
        for (int i = 0; i < 2; i++) {
                assert_int_equal(packet_log_next(&rest, &log), 1);
                assert_int_equal(log.serial, 258);
                assert_true(log.has_uid);
                assert_int_equal(log.uid, 65541);
                assert_true(str_eq(log.bytes, BYTES(udp4)));
        }
        assert_int_equal(packet_log_next(&rest, &log), 0);

        two[0].type = 3; /* of another kind */
        rest = str_n(two, sizeof two);
        assert_int_equal(packet_log_next(&rest, &log), 1);
        assert_int_equal(packet_log_next(&rest, &log), 0);
}

static void lengths_that_lie_are_refused(void **state) {
        struct packet_log log;
        (void)state;

        for (uint32_t length = 0; length < 16; length++) {
                struct message m = message_new();
                m.length = length;
                struct str rest = str_n(&m, sizeof m);
                assert_int_equal(packet_log_next(&rest, &log), -EBADMSG);
        }
        struct message m = message_new();
        m.length = sizeof m + 1;
        struct str rest = str_n(&m, sizeof m);
        assert_int_equal(packet_log_next(&rest, &log), -EBADMSG);

        m = message_new();
        m.payload_length = 3;
        rest = str_n(&m, sizeof m);
        assert_int_equal(packet_log_next(&rest, &log), -EBADMSG);
        m.payload_length = sizeof m;
        rest = str_n(&m, sizeof m);
        assert_int_equal(packet_log_next(&rest, &log), -EBADMSG);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(packets_say_where_they_go),
                cmocka_unit_test(what_is_cut_off_is_not_guessed),
                cmocka_unit_test(messages_are_taken_one_by_one),
                cmocka_unit_test(lengths_that_lie_are_refused),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
