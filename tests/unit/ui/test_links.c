/* SPDX-License-Identifier: Apache-2.0 */
/* Links: one session each, for a minute. And the ring that a page catches up from. */
#include "../cmocka_all.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "ui/ui_internal.h"

static struct str key_of(const char *link) {
        return str_of(strchr(link, '=') + 1);
}

static void a_link_is_used_once(void **state) {
        (void)state;
        cleanup(free_ptr) struct ui *ui = calloc(1, sizeof *ui);
        cleanup(free_ptr) char *link = NULL;

        assert_non_null(ui);
        assert_int_equal(links_make(ui, &link), 0);
        assert_int_equal(key_of(link).n, 64);
        assert_null(links_exchange(ui, STR("")));
        struct gate_session *session = links_exchange(ui, key_of(link));
        assert_non_null(session);
        assert_string_not_equal(session->cookie, session->header);
        assert_null(links_exchange(ui, key_of(link)));
}

static void a_link_grows_old(void **state) {
        (void)state;
        cleanup(free_ptr) struct ui *ui = calloc(1, sizeof *ui);
        cleanup(free_ptr) char *link = NULL, *other = NULL;

        assert_non_null(ui);
        assert_int_equal(links_make(ui, &link), 0);
        assert_int_equal(links_make(ui, &other), 0);
        for (size_t i = 0; i < UI_LINKS_MAX; i++)
                if (ui->links[i].key[0] && strcmp(ui->links[i].key, key_of(link).p) == 0) {
                        assert_in_range(ui->links[i].until_ns, clock_ns() + 50 * NS_PER_SECOND,
                                        clock_ns() + 60 * NS_PER_SECOND);
                        ui->links[i].until_ns = clock_ns();
                }
        assert_null(links_exchange(ui, key_of(link)));
        assert_non_null(links_exchange(ui, key_of(other)));
}

static void the_ring_forgets_the_oldest(void **state) {
        (void)state;
        cleanup(free_ptr) struct ring *ring = calloc(1, sizeof *ring);
        cleanup(free_ptr) char *large = calloc(1, RING_BYTES / 2);

        assert_non_null(ring);
        assert_non_null(large);
        ring_init(ring);
        for (int i = 0; i < RING_EVENTS + 10; i++)
                ring_add(ring, STR("x"));
        assert_int_equal(ring->first, 11);
        assert_null(ring_get(ring, 10).p);
        assert_true(str_is(ring_get(ring, 11), "x"));
        assert_null(ring_get(ring, ring->next).p);
        for (int i = 0; i < 3; i++)
                ring_add(ring, str_n(large, RING_BYTES / 2));
        assert_true(ring->bytes <= RING_BYTES);
        assert_int_equal(ring_get(ring, ring->next - 1).n, RING_BYTES / 2);
        ring_done(ring);
}

static void queries_are_decoded(void **state) {
        (void)state;
        cleanup(buf_done) struct buf text = BUF(64);
        const struct str query = STR("a=1&host=%3Cb%3e%20x&bad=%zz&nul=%00&empty=&last=%41");

        assert_string_equal(query_get(query, "host", &text), "<b> x");
        assert_string_equal(query_get(query, "last", &text), "A");
        assert_null(query_get(query, "bad", &text));
        assert_null(query_get(query, "nul", &text));
        assert_null(query_get(query, "empty", &text));
        assert_null(query_get(query, "ost", &text));
        assert_null(query_get(STR("x=%4"), "x", &text));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_link_is_used_once),
                cmocka_unit_test(a_link_grows_old),
                cmocka_unit_test(the_ring_forgets_the_oldest),
                cmocka_unit_test(queries_are_decoded),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
