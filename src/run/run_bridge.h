/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Calls of bridged tools, of one run. A program inside (src/shim) connects to the socket that init made and handed out;
 * each connection is one call. The call is judged by the tool's grammar (bridge/tool_call.h), written down, and run by
 * `bailey supervise` in a sandbox of its own, with the caller's standard descriptors. Nothing of what the tool reads or
 * writes passes through here.
 *
 * A call is WAITING (connected, nothing said), HELD (it is a trigger of a ratchet, which closes first), ASKED (it is
 * about a page, run_browser.h, and a person is asked), RUNNING, or ENDING (nobody waits for it any more: its sandbox is
 * told to end by the end of the link, and its process is waited for). At most BRIDGE_CALLS run at once; who comes later
 * waits in the socket's queue.
 *
 * Parts: run_bridge.c (calls and their end), run_bridge_start.c (the tool's sandbox), run_bridge_place.c (what is there
 * before the command runs: programs, directories).
 */
#include "base/err.h"
#include "bridge/shim_message.h"

#include <stdbool.h>
#include <sys/types.h>

struct poller;
struct run;

enum { BRIDGE_CALLS = 24 };

enum bridge_call_state {
        BRIDGE_FREE,
        BRIDGE_WAITING,
        BRIDGE_HELD,  /* judged; a ratchet closes first */
        BRIDGE_ASKED, /* a page that a person is asked about */
        BRIDGE_RUNNING,
        BRIDGE_ENDING
};
struct bridge_held;
struct bridge_page;

struct bridge_call {
        enum bridge_call_state state;
        int caller; /* the connection */
        int link;   /* to the tool's supervisor */
        int pidfd;
        pid_t pid;
        const char *tool; /* the policy's text */
        struct bridge_held *held;
        struct bridge_page *page; /* run_browser.h */
        bool narrowed;            /* a ratchet ends it */
};

struct run_bridge {
        int listener, epoll;
        char *shim;      /* the program that stands for tools */
        char *directory; /* of Bailey's own, where tools are at home */
        char *packet;    /* SHIM_BYTES_MAX */
        struct bridge_call calls[BRIDGE_CALLS];
        size_t n_calls;
};
#define RUN_BRIDGE_NONE ((struct run_bridge){ .listener = -1, .epoll = -1 })

/* Before the plan: programs are found, places are made. Nothing to do where no tool is bridged. */
int run_bridge_prepare(struct run *run, struct err *err);
/* The socket has come with the sandbox's listeners, as the last of them; before it, those for callbacks. */
void run_bridge_listen(struct run *run);
/* In the supervisor's loop; `run` is a struct run. */
void run_bridge_watch(void *run, struct poller *poller);
int run_bridge_step(void *run, struct poller *poller, struct err *err);
/* A ratchet has closed: calls of tools that it does not leave are ended. */
void run_bridge_narrow(struct run *run);
bool run_bridge_is_narrow(const struct run *run);
/* Ratchets have closed: calls that waited for it run. */
void run_bridge_released(struct run *run);
/* Ends every call, and waits for the end. */
void run_bridge_end(struct run *run);
void run_bridge_done(struct run_bridge *bridge);
