/* SPDX-License-Identifier: Apache-2.0 */
#include "chat/chat_judge.h"

#include "base/clock.h"
#include "base/random.h"
#include "base/secrets/digest.h"

#include <assert.h>
#include <stdio.h>

static const char *const ruling_texts[] = {
        [CHAT_COUNTS] = "it counts",
        [CHAT_NO_APPROVER] = "the sender is not one of approval.chat.approvers",
        [CHAT_OTHER_ROOM] = "it was said in another room",
        [CHAT_EDITED] = "a message that was edited is no answer",
        [CHAT_FORWARDED] = "a message that was passed on is no answer",
        [CHAT_BOT] = "a bot said it",
        [CHAT_TWICE] = "the same message came before",
        [CHAT_NO_ID] = "the service gave it no id",
        [CHAT_TOO_OFTEN] = "too many orders within a minute",
        [CHAT_LOCKED] = "the sender quoted too many wrong codes",
        [CHAT_STALE] = "it is too old, and has no code",
};
static_assert(sizeof ruling_texts / sizeof *ruling_texts == CHAT_RULINGS, "a text for each ruling");

const char *chat_ruling_text(enum chat_ruling ruling) {
        return ruling_texts[ruling];
}

void chat_judge_init(struct chat_judge *judge, const origin_texts *approvers) {
        *judge = (struct chat_judge){ .approvers = approvers };
        random_bytes(&judge->key, sizeof judge->key);
}

/* The approver, as the list names them; services that have two names for an account may be given either. */
static const char *find_approver(const struct chat_judge *judge, const struct chat_said *said) {
        for (size_t i = 0; i < judge->approvers->n; i++) {
                struct str known = str_of(judge->approvers->p[i].text);

                if ((said->sender.n && str_eq(said->sender, known)) ||
                    (said->sender_alt.n && str_eq(said->sender_alt, known)))
                        return judge->approvers->p[i].text;
        }

        return NULL;
}

/* True when this id was here before. Kept as 64 bits of a keyed digest: ids are anybody's, and long. */
static bool note_id(struct chat_judge *judge, struct str id) {
        unsigned char digest[DIGEST_BYTES];
        uint64_t mark;

        digest_hmac(str_n(&judge->key, sizeof judge->key), id, digest);
        memcpy(&mark, digest, sizeof mark);

        for (size_t i = 0; i < CHAT_SEEN_MAX && i < judge->n_seen; i++)
                if (judge->seen[i] == mark)
                        return true;

        judge->seen[judge->n_seen++ % CHAT_SEEN_MAX] = mark;
        return false;
}

static struct chat_sender *find_sender(struct chat_judge *judge, const char *name) {
        for (size_t i = 0; i < CHAT_SENDERS_MAX && i < judge->n_senders; i++)
                if (strncmp(judge->senders[i].name, name, sizeof judge->senders[i].name - 1) == 0)
                        return &judge->senders[i];

        struct chat_sender *sender = &judge->senders[judge->n_senders++ % CHAT_SENDERS_MAX];
        *sender = (struct chat_sender){ 0 };
        snprintf(sender->name, sizeof sender->name, "%s", name);

        return sender;
}

static bool is_too_often(struct chat_sender *sender, uint64_t now_ns) {
        if (!sender->minute_ns || now_ns - sender->minute_ns >= 60 * NS_PER_SECOND) {
                sender->minute_ns = now_ns;
                sender->orders = 0;
        }
        return ++sender->orders > CHAT_ORDERS_PER_MINUTE;
}

enum chat_ruling chat_judge_hear(struct chat_judge *judge, const struct chat_said *said, const struct chat_order *order,
                                 uint64_t now_ns, uint64_t now_s, const char **ret_sender) {
        const char *name = find_approver(judge, said);
        struct chat_sender *sender;

        *ret_sender = name;
        if (said->bot)
                return CHAT_BOT;
        if (said->edited)
                return CHAT_EDITED;
        if (said->forwarded)
                return CHAT_FORWARDED;
        if (!said->id.n)
                return CHAT_NO_ID;
        if (note_id(judge, said->id))
                return CHAT_TWICE;
        if (!name)
                return CHAT_NO_APPROVER;
        if (!said->in_room)
                return CHAT_OTHER_ROOM;

        sender = find_sender(judge, name);
        if (now_ns < sender->locked_ns)
                return CHAT_LOCKED;
        if (is_too_often(sender, now_ns))
                return CHAT_TOO_OFTEN;
        if (!order->code[0] && said->time_s && said->time_s + CHAT_STALE_S < now_s)
                return CHAT_STALE;

        return CHAT_COUNTS;
}

bool chat_judge_wrong_code(struct chat_judge *judge, const char *name, uint64_t now_ns) {
        struct chat_sender *sender = find_sender(judge, name);

        if (++sender->wrong < CHAT_WRONG_CODES_MAX)
                return false;
        sender->wrong = 0;
        sender->locked_ns = now_ns + CHAT_LOCKED_S * NS_PER_SECOND;
        return true;
}

void chat_judge_right_code(struct chat_judge *judge, const char *name) {
        find_sender(judge, name)->wrong = 0;
}
