/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Whether a chat message counts. It does when an approver said it, in the room of the questions, once, as a message of
 * their own that nobody changed or passed on, and not too often. The clock comes in as a value, so that tests have
 * theirs.
 *
 * This file does not know the questions: a code is good for one answer, and the caller keeps the codes.
 */
#include "base/vec.h"
#include "chat/words.h"

enum {
        CHAT_SEEN_MAX = 2048,  /* ids of messages that were heard */
        CHAT_SENDERS_MAX = 64, /* whose orders are counted */
        CHAT_ORDERS_PER_MINUTE = 30,
        CHAT_WRONG_CODES_MAX = 5, /* in a row; then nothing of theirs counts for a while */
        CHAT_LOCKED_S = 600,
        CHAT_STALE_S = 120, /* orders without a code are for now, not for later */
};

struct chat_sender {
        char name[128];
        uint64_t minute_ns; /* when the counted minute began */
        unsigned orders, wrong;
        uint64_t locked_ns; /* until then */
};

struct chat_judge {
        const origin_texts *approvers;
        uint64_t seen[CHAT_SEEN_MAX]; /* of ids, hashed with a key of our own */
        size_t n_seen;
        uint64_t key;
        struct chat_sender senders[CHAT_SENDERS_MAX];
        size_t n_senders;
};

enum chat_ruling {
        CHAT_COUNTS,
        CHAT_NO_APPROVER,
        CHAT_OTHER_ROOM,
        CHAT_EDITED,
        CHAT_FORWARDED,
        CHAT_BOT,
        CHAT_TWICE,
        CHAT_NO_ID,
        CHAT_TOO_OFTEN,
        CHAT_LOCKED,
        CHAT_STALE,
        CHAT_RULINGS
};
/* For people: "it was said before". */
const char *chat_ruling_text(enum chat_ruling ruling);

void chat_judge_init(struct chat_judge *judge, const origin_texts *approvers);
/* *ret_sender: as the approvers' list has it; NULL: nobody of it. now_s: of the wall clock. */
enum chat_ruling chat_judge_hear(struct chat_judge *judge, const struct chat_said *said, const struct chat_order *order,
                                 uint64_t now_ns, uint64_t now_s, const char **ret_sender);
/* A code that belongs to no question. True: from now on nothing of theirs counts for a while. */
bool chat_judge_wrong_code(struct chat_judge *judge, const char *sender, uint64_t now_ns);
void chat_judge_right_code(struct chat_judge *judge, const char *sender);
