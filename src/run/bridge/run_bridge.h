/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Calls of bridged tools, of one run. A program inside (src/shim) connects to the socket that init made and handed out;
 * each connection is one call. The call is judged by the tool's grammar (bridge/tool_call.h), written down, and run by
 * `bailey supervise` in a sandbox of its own, with the caller's standard descriptors. Nothing of what the tool reads or
 * writes passes through here.
 *
 * A call is WAITING (connected, nothing said), HELD (it is a trigger of a ratchet, which closes first), ASKED (a
 * person is asked about it, or about the page that it names: run_browser.h), RUNNING, or ENDING (nobody waits for it
 * any more: its sandbox is told to end by the end of the link, and its process is waited for). At most BRIDGE_CALLS run
 * at once; who comes later waits in the socket's queue.
 *
 * Parts: run_bridge.c (calls and their end), run_bridge_ask.c (those that a person must agree to), run_bridge_start.c
 * (the tool's sandbox), run_bridge_place.c (what is there before the command runs: programs, directories),
 * run_bridge_relay.c (what the tool's sandbox asks), run_bridge_stand.c (freezing).
 */
#include "base/err.h"
#include "base/vec.h"
#include "bridge/shim_message.h"

#include <stdbool.h>
#include <sys/types.h>

struct buf;
struct policy;
struct poller;
struct run;

enum { BRIDGE_CALLS = 24 };

enum bridge_call_state {
        BRIDGE_FREE,
        BRIDGE_WAITING,
        BRIDGE_HELD,  /* judged; a ratchet closes first */
        BRIDGE_ASKED, /* a person is asked, about the call or about the page that it names */
        BRIDGE_RUNNING,
        BRIDGE_ENDING
};
struct bridge_asked;
struct bridge_held;
struct bridge_page;

/* What the tool's own sandbox asks: a person hears of it from the run that called. */
struct bridge_relayed {
        uint64_t id, theirs; /* the run's number of it, and that of the tool's gateway */
};

struct bridge_call {
        enum bridge_call_state state;
        int caller; /* the connection */
        int link;   /* to the tool's supervisor */
        int pidfd;
        pid_t pid;
        const char *tool; /* the policy's text */
        struct bridge_held *held;
        struct bridge_asked *asked;
        struct bridge_page *page; /* run_browser.h */
        bool narrowed;            /* a ratchet ends it */
        int last_signal;          /* that was handed on; 0: none */
        uint64_t since_ns;        /* when it connected */
        bool to_stand;            /* it was told to stand still, and neither says that it does nor is gone */
        bool waits;               /* held because everything stands still, not by a ratchet */
        VEC(struct bridge_relayed) relayed;
};

/* What a person said about a call, for the rest of the run. */
struct bridge_decided {
        const char *tool; /* the policy's text */
        char *words, *directory;
        bool allow;
};

struct run_bridge {
        int listener, epoll;
        char *shim;      /* the program that stands for tools */
        char *directory; /* of Bailey's own, where tools are at home */
        char *packet;    /* SHIM_BYTES_MAX */
        struct bridge_call calls[BRIDGE_CALLS];
        size_t n_calls;
        bool full;                          /* somebody waits for a place */
        bool standing, stood_self;          /* all are to stand still; the sandbox itself does */
        uint64_t stand;                     /* how often they were told to */
        int self_error;                     /* why the sandbox itself does not */
        uint64_t last_question;             /* id of a page, a call or a tool's question that a person was asked */
        VEC(struct bridge_decided) decided; /* answers for the rest of the run */
};
#define RUN_BRIDGE_NONE ((struct run_bridge){ .listener = -1, .epoll = -1 })

/* Before the plan: programs are found, places are made. Nothing to do where no tool is bridged. */
int run_bridge_prepare(struct run *run, struct err *err);
/* Which calls ask, a line for each tool that has some. */
int run_bridge_describe(const struct policy *policy, struct buf *out);
/* The socket has come with the sandbox's listeners, as the last of them; before it, those for callbacks. */
void run_bridge_listen(struct run *run);
/* In the supervisor's loop; `run` is a struct run. */
void run_bridge_watch(void *run, struct poller *poller);
int run_bridge_step(void *run, struct poller *poller, struct err *err);
/* A ratchet has closed: calls of tools that it does not leave are ended. */
void run_bridge_narrow(struct run *run);
bool run_bridge_is_narrow(const struct run *run);
/* live_parts.call_decided */
void run_bridge_decided(void *run, uint64_t id, bool allow, bool kept, const char *by);
/* live_parts.tool_decided */
void run_bridge_tool_decided(void *run, uint64_t id, bool allow);
/* Ratchets have closed: calls that waited for it run. */
void run_bridge_released(struct run *run);
/* The sandbox is frozen: so are its tools, which may share its terminal; and goes on. */
void run_bridge_stand(struct run *run);
void run_bridge_go_on(struct run *run);
/* The sandbox itself stands, or does not. When its tools do as well, live_frozen() is told. */
void run_bridge_stood(struct run *run, int error);
/* Ends every call, and waits for the end. */
void run_bridge_end(struct run *run);
void run_bridge_done(struct run_bridge *bridge);
