/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * `bailey chat`: forwards the questions of sandboxes to people in a chat, and takes their answers. A process of its
 * own, one for each user, over the control sockets; it can do nothing that `bailey allow`, `pause` and `kill` cannot.
 *
 * Three processes: this one knows sandboxes and people and speaks no HTTP; the courier (ipc/courier_messages.h)
 * connects and has no other right; the vault has the token, which this one never sees. No port is opened.
 *
 * chat/chat_judge.h decides which messages count, and each question has a code that is good for one answer. Messages
 * that do not count are recorded with the reason, in the log of this process (chat.jsonl beside the sandboxes' logs);
 * answers that count are in the sandbox's own log too, with the approver's name.
 */
#include "base/err.h"
#include "policy/policy.h"

struct chat_settings {
        const struct policy *policy;
        bool test; /* say hello in the room, and end */
        /* The id of a sandbox that runs, from its id, the beginning of it, or the name of a guest; heap text. */
        int (*resolve)(const char *word, char **ret, struct err *err);
        void (*on_ready)(void *arg, const char *service, const char *room);
        void *arg;
};

/* Whether approval.chat is whole; the error names the key and how it is written. */
int chat_check(const struct policy *policy, struct err *err);
/* Until SIGTERM or SIGINT; with `test`, until the message is there. -EBUSY: another one of this user is running. */
int chat_run(const struct chat_settings *settings, struct err *err);
