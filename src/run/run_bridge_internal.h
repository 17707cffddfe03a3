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
/* The tool's sandbox. On success the call has process and link. */
int bridge_start(const struct run *run, const struct bridge_start *start, struct bridge_call *ret, struct err *err);

/* The last word to who called. */
void bridge_call_answer(struct bridge_call *call, enum shim_kind kind, int number, const char *text);
void bridge_call_free(struct run *run, struct bridge_call *call);
/* Where the system has programs; NULL: there is none of this name. Heap text. */
char *bridge_find_program(const char *name);
/* What is run outside for the sandbox must not be in its reach. */
int bridge_check_closed(const struct run *run, const char *path, const char *what, struct err *err);
