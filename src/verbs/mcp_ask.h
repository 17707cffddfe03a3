/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A question from inside a sandbox. There is one door for it, and it is the one that every connection takes: the
 * gateway's proxy is asked for a tunnel to the host. Where the policy asks, that becomes a question to a person, as any
 * connection would; nothing inside can answer it. No byte goes through the tunnel.
 */
#include "base/buf.h"
#include "base/err.h"

enum mcp_asked { MCP_ALLOWED, MCP_REFUSED, MCP_UNANSWERED };
struct mcp_answered {
        enum mcp_asked what;
        char text[1024]; /* what the gateway said, in its first line or its body */
};
struct mcp_question {
        const char *target; /* HOST:PORT, already checked; NULL: what is wanted is no host */
        const char *wants;  /* then "read /PATH", "write /PATH" or "run COMMAND" */
        bool back;          /* nobody is asked: was it agreed to before? */
        const char *reason; /* for the person who answers; NULL: none */
        unsigned timeout_seconds;
};
/* -ENXIO: there is no proxy to ask. -E2BIG: it is too long to be shown, so nobody is asked. */
int mcp_ask(const struct mcp_question *question, struct mcp_answered *ret, struct err *err);
/* Inside: whether a person has agreed to "run COMMAND", or to a path for later runs. */
bool mcp_agreed(const char *wants);
/* HOST or HOST:PORT of plain letters, digits, dots and dashes, as HOST:PORT. */
bool mcp_target(struct str given, char *ret, size_t size);
