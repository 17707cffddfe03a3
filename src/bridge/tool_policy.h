/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The policy of the sandbox that a bridged tool runs in, as text: made from the tool's entry, and from what the outer
 * policy takes away, which holds for the tool as well. Pure.
 *
 * The tool gets: a home of its own that is forgotten, a directory of Bailey's own that it cannot write, its hosts, its
 * credentials by the vault, its files for reading. Of the workspace it sees nothing, all of it for reading, or the
 * objects and refs of its repository and nothing else of it.
 */
#include "base/buf.h"
#include "policy/policy.h"

struct tool_place_facts {
        const char *directory; /* where the tool is at home: empty, or a repository of Bailey's own */
        const char *program;   /* what is run */
        const char *git;       /* the workspace's repository (".git"), NULL: there is none, or it is not used */
};

int tool_policy_write(const struct policy *outer, const struct bridge_tool *tool, const struct tool_place_facts *facts,
                      struct buf *out);
/* Settings of the repository of Bailey's own: no hook, no filter, no alias; the credential by what the vault gave. */
extern const char tool_policy_git_config[];
