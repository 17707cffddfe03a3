/* SPDX-License-Identifier: Apache-2.0 */
#include "ipc/event.h"

#include "base/cleanup.h"

#include <errno.h>

#include "../cmocka_all.h"

static struct event sample(void) {
        return (struct event){
                .wall_us = 1763175600123456,
                .connection = 7,
                .bytes_in = UINT64_MAX,
                .bytes_out = 2,
                .duration_us = 3,
                .rule = RULE_NONE,
                .generation = 9,
                .kind = EVENT_REQUEST,
                .via = VIA_HTTP,
                .scheme = SCHEME_HTTP,
                .reason = REASON_ALLOWED,
                .port = 65535,
                .status = 200,
                .allowed = true,
                .addr = { ADDR_V4, { 192, 0, 2, 1 } },
                .domain = STR("api.example.com"),
                .method = STR("GET"),
                .path = str_n("/a\0\n\"b", 6),
                .swapped = STR(""),
                .detail = STR("\x1b[31m"),
        };
}

static void assert_same(const struct event *a, const struct event *b) {
        assert_int_equal(a->wall_us, b->wall_us);
        assert_int_equal(a->connection, b->connection);
        assert_int_equal(a->bytes_in, b->bytes_in);
        assert_int_equal(a->bytes_out, b->bytes_out);
        assert_int_equal(a->duration_us, b->duration_us);
        assert_int_equal(a->rule, b->rule);
        assert_int_equal(a->generation, b->generation);
        assert_int_equal(a->kind, b->kind);
        assert_int_equal(a->via, b->via);
        assert_int_equal(a->scheme, b->scheme);
        assert_int_equal(a->reason, b->reason);
        assert_int_equal(a->port, b->port);
        assert_int_equal(a->status, b->status);
        assert_int_equal(a->allowed, b->allowed);
        assert_int_equal(a->addr.family, b->addr.family);
        assert_memory_equal(a->addr.bytes, b->addr.bytes, 16);
        assert_true(str_eq(a->domain, b->domain));
        assert_true(str_eq(a->method, b->method));
        assert_true(str_eq(a->path, b->path));
        assert_true(str_eq(a->swapped, b->swapped));
        assert_true(str_eq(a->detail, b->detail));
}

static void goes_there_and_back(void **state) {
        (void)state;
        cleanup(buf_done) struct buf b = BUF(EVENT_BATCH_MAX);
        struct event first = sample(), second = { .kind = EVENT_NOTE, .detail = STR("started") }, got;
        assert_int_equal(event_encode(&b, &first), 0);
        assert_int_equal(event_encode(&b, &second), 0);
        struct str batch = buf_str(&b);
        assert_int_equal(event_decode(&batch, &got), 1);
        assert_same(&first, &got);
        assert_int_equal(event_decode(&batch, &got), 1);
        assert_same(&second, &got);
        assert_int_equal(event_decode(&batch, &got), 0);
}

static void long_text_is_cut(void **state) {
        (void)state;
        char text[EVENT_TEXT_MAX + 100];
        memset(text, 'x', sizeof text);
        cleanup(buf_done) struct buf b = BUF(EVENT_BATCH_MAX);
        struct event ev = sample(), got;
        ev.domain = ev.method = ev.path = ev.swapped = ev.detail = str_n(text, sizeof text);
        assert_int_equal(event_encode(&b, &ev), 0);
        struct str batch = buf_str(&b);
        assert_int_equal(event_decode(&batch, &got), 1);
        assert_int_equal(got.domain.n, EVENT_TEXT_MAX);
        assert_int_equal(got.detail.n, EVENT_TEXT_MAX);
}

static void full_batch_stays_whole(void **state) {
        (void)state;
        cleanup(buf_done) struct buf b = BUF(1 << 20);
        struct event ev = sample(), got;
        int r, n = 0;
        while ((r = event_encode(&b, &ev)) == 0)
                n++;
        assert_int_equal(r, -EMSGSIZE);
        assert_true(b.n <= EVENT_BATCH_MAX && n > 400);
        struct str batch = buf_str(&b);
        while ((r = event_decode(&batch, &got)) == 1)
                n--;
        assert_int_equal(r, 0);
        assert_int_equal(n, 0);
}

static void sender_is_held_to_the_enums(void **state) {
        (void)state;
        cleanup(buf_done) struct buf b = BUF(EVENT_BATCH_MAX);
        struct event bad[] = { sample(), sample(), sample(), sample(), sample(), sample(), sample() };
        bad[0].kind = EVENT_KINDS;
        bad[1].via = VIAS;
        bad[2].scheme = SCHEMES;
        bad[3].reason = REASONS;
        bad[4].status = EVENT_STATUS_MAX + 1;
        bad[5].wall_us = UINT64_MAX;
        bad[6].addr.family = ADDR_V6 + 1;
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
                assert_int_equal(event_encode(&b, &bad[i]), -EINVAL);
        assert_int_equal(b.n, 0);
}

/* Each byte of a valid record replaced by each value: the decoder either refuses, or what it read encodes to those
 * bytes. */
static void every_changed_byte_is_seen(void **state) {
        (void)state;
        cleanup(buf_done) struct buf b = BUF(EVENT_BATCH_MAX), again = BUF(EVENT_BATCH_MAX);
        struct event ev = sample();
        assert_int_equal(event_encode(&b, &ev), 0);
        for (size_t i = 0; i < b.n; i++) {
                char original = b.p[i];
                for (int value = 0; value < 256; value++) {
                        b.p[i] = (char)value;
                        struct str batch = buf_str(&b);
                        struct event got;
                        int r = event_decode(&batch, &got);
                        if (r == -EBADMSG)
                                continue;
                        assert_int_equal(r, 1);
                        buf_clear(&again);
                        assert_int_equal(event_encode(&again, &got), 0);
                        assert_int_equal(again.n, b.n);
                        assert_memory_equal(again.p, b.p, b.n);
                }
                b.p[i] = original;
        }
}

static void every_cut_is_seen(void **state) {
        (void)state;
        cleanup(buf_done) struct buf b = BUF(EVENT_BATCH_MAX);
        struct event ev = sample(), got;
        assert_int_equal(event_encode(&b, &ev), 0);
        for (size_t n = 1; n < b.n; n++) {
                cleanup(free_ptr) char *copy = malloc(n); /* its own block, so that a sanitizer sees a read beyond it */
                assert_non_null(copy);
                memcpy(copy, b.p, n);
                struct str batch = str_n(copy, n);
                assert_int_equal(event_decode(&batch, &got), -EBADMSG);
        }
}

static void names(void **state) {
        (void)state;
        for (int k = 0; k < EVENT_KINDS; k++)
                assert_non_null(event_kind_name((enum event_kind)k));
        assert_null(event_kind_name(EVENT_KINDS));
        assert_null(event_via_name(VIAS));
        assert_null(event_scheme_name(SCHEMES));
        assert_string_equal(event_via_name(VIA_SOCKS5), "socks5");
        assert_string_equal(event_scheme_name(SCHEME_HTTPS), "https");
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(goes_there_and_back),
                cmocka_unit_test(long_text_is_cut),
                cmocka_unit_test(full_batch_stays_whole),
                cmocka_unit_test(sender_is_held_to_the_enums),
                cmocka_unit_test(every_changed_byte_is_seen),
                cmocka_unit_test(every_cut_is_seen),
                cmocka_unit_test(names),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
