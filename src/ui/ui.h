/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The dashboard's server, `bailey ui`: a process of its own that shows running sandboxes, open questions and history in
 * a browser, and takes answers. It uses what every verb has: the control sockets, the audit logs and the index over
 * them, and the verbs themselves, which it starts for everything that is not live. It can do nothing that `bailey
 * allow`, `kill` and the others cannot, and what it does is on record as done by "control (bailey ui)".
 *
 * HTTP is read by the gateway's own parser (gateway/wire/http1.h), which is strict, bounded and fuzzed. A library
 * (libevent's evhttp, libmicrohttpd) would be a second parser with other leniencies, and evhttp would bring libevent
 * into `bailey`, whose start is measured in microseconds. Some dozens of connections on loopback need no more than
 * poll().
 *
 * Replies are not compressed: on loopback that costs more than it saves, and towards a phone the length of a compressed
 * reply would tell something of what is in it.
 *
 * ui/ui_gate.h says who is let in.
 */
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

/* A phone may be let in besides, on the local network: see ui/pairing.h. */
enum pair_event {
        PAIR_LINK,   /* the link, for one device, for two minutes */
        PAIR_PAIRED, /* the device's address */
        PAIR_ENDED,  /* why */
        PAIR_FAILED,
};
enum { UI_PAIR_SECONDS_MAX = 24 * 3600 };
struct ui_pair {
        const char *address; /* of this computer; NULL: the one that leads outside */
        uint64_t seconds;
        void (*on_event)(void *arg, enum pair_event event, const char *text);
        void *arg;
};

struct ui_settings {
        uint16_t port; /* 0: any */
        bool read_only;
        const struct ui_pair *pair; /* NULL: no pairing from the beginning */
        /* It listens. The link is good for one browser, for a minute. */
        void (*on_ready)(void *arg, const char *link);
        void *arg;
};

/* Serves until SIGTERM or SIGINT. -EBUSY: another one of this user is running. */
int ui_run(const struct ui_settings *settings, struct err *err);
/* A new link of the one that is running; heap text. -ENOENT: none is running. */
int ui_ask_link(char **ret, struct err *err);
/* Ends the one that is running, and waits for it. -ENOENT: none is running. */
int ui_ask_end(struct err *err);
/* -EINVAL: its address is none that a phone could reach. */
int ui_check_pair(const struct ui_pair *pair, struct err *err);
/* Has the one that is running pair a phone, until the pairing ends. -ENOENT: none is running. */
int ui_ask_pair(const struct ui_pair *pair, struct err *err);
