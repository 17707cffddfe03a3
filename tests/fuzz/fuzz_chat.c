/* SPDX-License-Identifier: Apache-2.0 */
/* What a chat service sends. The first byte chooses the service, the second whether its session has begun. Whatever is
 * said, only the room's approver counts, and what a session keeps can be put into the next request. */
#include "base/cleanup.h"
#include "chat/chat_judge.h"
#include "fuzz.h"

static struct origin_text names[] = { { .text = (char *)"alice" } };
static const origin_texts approvers = { .p = names, .n = 1 };

static void on_said(void *arg, const struct chat_said *said) {
        struct chat_judge *judge = arg;
        struct chat_order order = { 0 };
        const char *who = NULL;
        int r = chat_order_parse(said->text, &order, NULL);

        if (r == 1)
                FUZZ_CHECK(order.verb > CHAT_DENY || chat_is_code(str_of(order.code)));
        enum chat_ruling ruling = chat_judge_hear(judge, said, &order, 1, 1000, &who);
        if (ruling == CHAT_COUNTS)
                FUZZ_CHECK(who && said->in_room && !said->bot && !said->edited && !said->forwarded && said->id.n &&
                           (str_is(said->sender, "alice") || str_is(said->sender_alt, "alice")));
}

static bool has_line_break(const struct buf *text) {
        return text->n && (str_find(buf_str(text), '\r') >= 0 || str_find(buf_str(text), '\n') >= 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        static struct chat_judge judge;
        struct chat_session session = { 0 };
        const struct chat_ears ears = { .said = on_said, .arg = &judge };

        if (size < 2)
                return 0;
        enum chat_kind kind = (enum chat_kind)(CHAT_ZULIP + data[0] % (CHAT_KINDS - 1));
        const struct chat_service *service = chat_service_of(kind);
        const struct chat_account account = { .kind = kind,
                                              .url = "https://chat.example.com",
                                              .account = "bot@example.com",
                                              .room = "agents/bailey",
                                              .approvers = &approvers,
                                              .has_token = true };
        struct str bytes = str_n(data + 2, size - 2);

        chat_judge_init(&judge, &approvers);
        if (data[1] % 2) {
                (void)chat_keep(session.queue, sizeof session.queue, STR("q1"));
                (void)chat_keep(session.cursor, sizeof session.cursor, STR("5"));
        }
        (void)service->hear(&account, &session, bytes, &ears);
        (void)chat_reply_is_refusal(bytes);
        FUZZ_CHECK(chat_retry_s(bytes, 0) <= 3600);

        cleanup(chat_call_done) struct chat_call call = CHAT_CALL;
        if (service->listen(&account, &session, &call) == 0)
                FUZZ_CHECK(!has_line_break(&call.url) && !has_line_break(&call.line));
        return 0;
}
