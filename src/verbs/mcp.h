/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A server of the Model Context Protocol on standard input and output: JSON-RPC 2.0, one message per line. An agent
 * calls its tools; every byte is taken for hostile. This half is the protocol and runs nothing itself: tools are called
 * through struct mcp_tools, so that the fuzzer has it without them (mcp_tools.c).
 *
 * States: new, until initialize; then ready. Only ping is answered before. A message that is no JSON, no request, too
 * long or too deep gets an error of JSON-RPC; notifications and stray replies get nothing; nothing ends the server but
 * the end of its input.
 */
#include "base/buf.h"
#include "conf/node.h"

#define MCP_LINE_MAX (1 << 20)
#define MCP_REPLY_MAX (16 << 20)

struct mcp_tools {
        /* Puts a JSON object into ret. *ret_failed: the tool says no, or could not; the object says why under "text".
         * -EINVAL with e: the arguments are wrong; -ENOENT: there is no such tool. */
        int (*call)(void *arg, struct str name, const struct node *arguments, struct buf *ret, bool *ret_failed,
                    struct err *e);
        void *arg;
};

struct mcp {
        struct mcp_tools tools;
        const char *version; /* of Bailey */
        bool ready;
};

/* One line without its line break. What is to be said, if anything, goes to out with its line break. -ENOMEM only. */
int mcp_answer(struct mcp *mcp, struct str line, struct buf *out);
/* For a line that was longer than MCP_LINE_MAX. */
int mcp_answer_too_long(struct buf *out);
