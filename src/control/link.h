/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The supervisor's end of ipc/supervise_messages.h: the program that started this job through libbailey. It hears about
 * questions, refusals and ends; it answers, sends new policies, and the job ends with it.
 */
#include "ipc/supervise_messages.h"
#include "policy/load.h"

struct link {
        int fd;
        const struct supervise_request *request; /* the options of the call in it hold for new policies too */
        bool asks;                               /* questions about hosts are for the other side */
        bool asks_all;                           /* all other questions as well */
};

/* The layers of a request as the loader wants them. Borrows from the request; ->policy points into the struct. */
struct link_settings {
        struct option_values config, call;
        struct policy_request policy;
};
int link_settings_read(const struct supervise_request *request, struct link_settings *ret, struct err *err);
void link_settings_done(struct link_settings *settings);

enum link_word { LINK_NOTHING, LINK_GONE, LINK_ANSWER, LINK_POLICY, LINK_STAND };
struct link_heard {
        uint64_t id;
        bool allow;            /* LINK_STAND: it is to stand still */
        struct policy *policy; /* LINK_POLICY: the listener's now, and so is `judged` */
        int judged;            /* -1, or for gateway_process_when_judged() */
};
/* The next message. A malformed message is LINK_GONE; a policy that cannot be loaded is LINK_NOTHING: the old one
 * stays, and the other side learns it because `judged` is closed. */
enum link_word link_hear(const struct link *link, struct link_heard *ret);

/* Whether the question with this text (IPC_ASK) is the other side's. */
bool link_answers(const struct link *link, const char *text);
/* A question; if it cannot be asked, the answer is no. */
bool link_ask(const struct link *link, uint64_t id, const struct authority *target, const char *text);
void link_ask_gone(const struct link *link, uint64_t id, bool expired);
/* After LINK_STAND, with its id: the sandbox stands still, or does not for this reason. */
void link_stood(const struct link *link, uint64_t id, int error);
void link_ready(const struct link *link, uint16_t http_port, uint16_t socks_port);
void link_notice(const struct link *link, const char *lost);
/* Something that was refused; its kind is filled in. */
void link_violation(const struct link *link, const struct supervise_message *violation);
void link_end(const struct link *link, enum run_end end, int status, bool signalled, const char *why);
