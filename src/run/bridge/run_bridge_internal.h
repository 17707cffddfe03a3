/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Between the files of the bridge. */
#include "bridge/tool_call.h"
#include "run/run_internal.h"

/* The program outside, links resolved. Heap text; NULL with `err` set: there is none. */
char *bridge_program(const struct bridge_tool *tool, const struct policy *policy, struct err *err);
/* Where the tool is at home; of one that works on the workspace's objects, a repository with Bailey's settings. */
int bridge_home(const struct run *run, const struct bridge_tool *tool, char **ret_directory, char **ret_git,
                struct err *err);

struct bridge_start {
        const struct bridge_tool *tool;
        const struct tool_call *call;
        struct str directory; /* the caller's */
        int fds[SHIM_FDS];
};
/* Where and what it is: the program, and the directory that it starts in. */
struct bridge_place {
        char *program, *home, *git, *directory;
};
int bridge_place_find(const struct run *run, const struct bridge_start *start, struct bridge_place *ret,
                      struct err *err);
void bridge_place_done(struct bridge_place *place);
/* The tool's sandbox. On success the call has process and link. */
int bridge_start(const struct run *run, const struct bridge_start *start, struct bridge_call *ret, struct err *err);

/* What is needed to start a call later. */
struct bridge_held {
        const struct bridge_tool *tool;
        struct tool_call call;
        char *directory, *typed;
        int fds[SHIM_FDS];
};
/* The descriptors, and what was judged, are its own from now on. NULL: without memory. */
struct bridge_held *bridge_held_new(const struct bridge_start *start, struct tool_call *judged, const char *typed);
void bridge_held_free(struct bridge_held *held);
struct bridge_start bridge_held_start(const struct bridge_held *held);

/* Runs what was judged, or has it wait for a ratchet, or refuses it: with a record. by: who agreed to it, or NULL. */
void bridge_call_begin(struct run *run, struct bridge_call *call, const struct bridge_start *start,
                       struct tool_call *judged, const char *typed, const char *by);
/* Nobody has agreed yet. True: the call waits for an answer, or was refused. False: a person agreed to such calls. */
bool bridge_ask(struct run *run, struct bridge_call *call, const struct bridge_start *start, struct tool_call *judged,
                const char *typed);
/* Nobody waits for an answer any more. */
void bridge_ask_drop(struct run *run, struct bridge_call *call);
void bridge_ask_watch(const struct run *run, struct poller *poller);
/* Those whose time is over are refused. */
void bridge_ask_step(struct run *run);
void bridge_decided_done(struct run_bridge *bridge);

/* SUPERVISE_STOOD of the tool's sandbox. False: it cannot stand, and must end. */
bool bridge_stood(struct run *run, struct bridge_call *call, uint64_t stand, int error);
/* A call that was to stand is gone. */
void bridge_stand_without(struct run *run);

/* SUPERVISE_ASK and SUPERVISE_ASK_GONE of the tool's sandbox. */
struct supervise_message;
void bridge_relay(struct run *run, struct bridge_call *call, const struct supervise_message *message);
void bridge_relay_drop(struct run *run, struct bridge_call *call);

/* The last word to who called. */
void bridge_call_answer(struct bridge_call *call, enum shim_kind kind, int number, const char *text);
void bridge_call_free(struct run *run, struct bridge_call *call);
/* Where the system has programs; NULL: there is none of this name. Heap text. */
char *bridge_find_program(const char *name);
/* What is run outside for the sandbox must not be in its reach. */
int bridge_check_closed(const struct run *run, const char *path, const char *what, struct err *err);
