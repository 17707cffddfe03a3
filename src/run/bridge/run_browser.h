/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Pages that programs inside have opened in a person's browser, and the callback of a sign-in.
 *
 *     inside       xdg-open, open, $BROWSER: the shim, with one address
 *     here         the address is read (bridge/page.h), held against `browser.hosts` and the ratchets, and a person is
 *                  asked; a yes opens it with the host's own program
 *     the port     where the page names a callback to localhost, a process of its own (gateway/errands/callback.h)
 * listens on that port of this host. It carries one request inside, over a socket that init made there
 *
 * One callback is waited for at a time: a new page with one takes its place. The port closes with the flow, when its
 * time is over, and with the run.
 */
#include "base/err.h"
#include "bridge/callback_message.h"

#include <sys/types.h>

struct bridge_call;
struct plan;
struct poller;
struct run;
struct sandbox;
struct shim_call;

enum { BROWSER_PAGES_MAX = 4, BROWSER_PROGRAMS_MAX = 16 };

/* A page that waits for a person. */
struct bridge_page {
        uint64_t id, due_ns;
        struct page page;
};

struct run_browser {
        int inside[CALLBACK_INSIDE_MAX]; /* sockets of the sandbox's network */
        uint32_t n_inside;
        pid_t opened[BROWSER_PROGRAMS_MAX]; /* programs that open pages, until they have ended */
        struct {
                pid_t pid; /* 0: no callback is waited for */
                int fd;
                struct page_callback callback;
        } flow;
};
#define RUN_BROWSER_NONE ((struct run_browser){ .inside = { -1, -1 }, .flow.fd = -1 })

/* Before the plan: the program that opens pages is there, and out of the sandbox's reach. */
int run_browser_prepare(struct run *run, struct err *err);
/* Takes its sockets, which came with the sandbox's listeners, as the last of them. */
void run_browser_take(struct run_browser *browser, const struct plan *plan, struct sandbox *sandbox);

/* A call of one of browser_names. */
void run_browser_call(struct run *run, struct bridge_call *call, const struct shim_call *asked);
/* Who called is gone; frees the page. */
void run_browser_drop(struct run *run, struct bridge_call *call);
/* live_parts.page_decided */
void run_browser_decided(void *run, uint64_t id, bool allow, const char *by);

/* In the supervisor's loop; `run` is a struct run. */
void run_browser_watch(void *run, struct poller *poller);
int run_browser_step(void *run, struct poller *poller, struct err *err);
void run_browser_end(struct run *run);
