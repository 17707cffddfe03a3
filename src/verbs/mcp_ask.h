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
/* target: HOST:PORT, already checked. -ENXIO: there is no proxy to ask. */
int mcp_ask_host(const char *target, unsigned timeout_seconds, struct mcp_answered *ret, struct err *e);
/* HOST or HOST:PORT of plain letters, digits, dots and dashes, as HOST:PORT. */
bool mcp_target(struct str given, char *ret, size_t size);
