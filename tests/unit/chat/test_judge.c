/* SPDX-License-Identifier: Apache-2.0 */
/* Who counts, and how often; the clock is the test's. */
#include "../cmocka_all.h"
#include "base/clock.h"
#include "chat/chat_judge.h"

#include <stdio.h>

static struct origin_text names[] = { { .text = (char *)"alice" }, { .text = (char *)"7" } };
static const origin_texts approvers = { .p = names, .n = 2 };
static const struct chat_order answer = { .verb = CHAT_ALLOW, .code = "ab23cd45" }, list = { .verb = CHAT_PS };

static struct chat_said said(const char *id) {
        return (struct chat_said){ .id = str_of(id), .sender = STR("alice"), .in_room = true, .time_s = 1000 };
}

static enum chat_ruling hear(struct chat_judge *judge, struct chat_said what, const struct chat_order *order) {
        const char *who;

        return chat_judge_hear(judge, &what, order, NS_PER_SECOND, 1000, &who);
}

static void each_part_is_needed(void **state) {
        (void)state;
        struct chat_judge judge;
        struct chat_said what;

        chat_judge_init(&judge, &approvers);
        assert_int_equal(hear(&judge, said("1"), &answer), CHAT_COUNTS);
        assert_int_equal(hear(&judge, said("1"), &answer), CHAT_TWICE);
        assert_int_equal(hear(&judge, said(""), &answer), CHAT_NO_ID);
#define CASE(number, field, value, ruling)                                                                             \
        what = said(number);                                                                                           \
        what.field = value;                                                                                            \
        assert_int_equal(hear(&judge, what, &answer), ruling)
        CASE("2", sender, STR("mallory"), CHAT_NO_APPROVER);
        CASE("3", sender, STR("Alice"), CHAT_NO_APPROVER);
        CASE("4", sender, STR(""), CHAT_NO_APPROVER);
        CASE("5", in_room, false, CHAT_OTHER_ROOM);
        CASE("6", edited, true, CHAT_EDITED);
        CASE("7", forwarded, true, CHAT_FORWARDED);
        CASE("8", bot, true, CHAT_BOT);
        what = said("9");
        what.sender = STR("somebody");
        what.sender_alt = STR("7");
        assert_int_equal(hear(&judge, what, &answer), CHAT_COUNTS);
        what = said("10");
        what.time_s = 1000 - CHAT_STALE_S - 1;
        assert_int_equal(hear(&judge, what, &list), CHAT_STALE);
        what.id = STR("11"); /* an answer may be late: its code says whether it still counts */
        assert_int_equal(hear(&judge, what, &answer), CHAT_COUNTS);
}

static void what_was_refused_stays_seen(void **state) {
        (void)state;
        struct chat_judge judge;
        struct chat_said what = said("1");

        chat_judge_init(&judge, &approvers);
        what.in_room = false;
        assert_int_equal(hear(&judge, what, &answer), CHAT_OTHER_ROOM);
        assert_int_equal(hear(&judge, said("1"), &answer), CHAT_TWICE);
        for (unsigned i = 2; i < CHAT_SEEN_MAX; i++) {
                char id[16];

                snprintf(id, sizeof id, "%u", i);
                (void)hear(&judge, said(id), &answer);
        }
        assert_int_equal(hear(&judge, said("1"), &answer), CHAT_TWICE);
}

static void too_often(void **state) {
        (void)state;
        struct chat_judge judge;
        const char *who;

        chat_judge_init(&judge, &approvers);
        for (unsigned i = 0; i < CHAT_ORDERS_PER_MINUTE + 2; i++) {
                char id[16];

                snprintf(id, sizeof id, "%u", i);
                assert_int_equal(hear(&judge, said(id), &answer),
                                 i < CHAT_ORDERS_PER_MINUTE ? CHAT_COUNTS : CHAT_TOO_OFTEN);
        }
        struct chat_said later = said("later");
        assert_int_equal(chat_judge_hear(&judge, &later, &answer, 62 * NS_PER_SECOND, 1000, &who), CHAT_COUNTS);
        assert_string_equal(who, "alice");
}

static void wrong_codes_lock(void **state) {
        (void)state;
        struct chat_judge judge;
        struct chat_said other = said("o");
        const char *who;

        chat_judge_init(&judge, &approvers);
        for (unsigned i = 0; i + 1 < CHAT_WRONG_CODES_MAX; i++)
                assert_false(chat_judge_wrong_code(&judge, "alice", NS_PER_SECOND));
        chat_judge_right_code(&judge, "alice"); /* in a row is what counts */
        for (unsigned i = 0; i + 1 < CHAT_WRONG_CODES_MAX; i++)
                assert_false(chat_judge_wrong_code(&judge, "alice", NS_PER_SECOND));
        assert_true(chat_judge_wrong_code(&judge, "alice", NS_PER_SECOND));
        assert_int_equal(hear(&judge, said("1"), &answer), CHAT_LOCKED);
        other.sender = STR("7");
        assert_int_equal(hear(&judge, other, &answer), CHAT_COUNTS);
        struct chat_said later = said("later");
        assert_int_equal(chat_judge_hear(&judge, &later, &answer, (CHAT_LOCKED_S + 2) * NS_PER_SECOND, 1000, &who),
                         CHAT_COUNTS);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(each_part_is_needed),
                cmocka_unit_test(what_was_refused_stays_seen),
                cmocka_unit_test(too_often),
                cmocka_unit_test(wrong_codes_lock),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
