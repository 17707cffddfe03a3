/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The tools of `bailey mcp`: check and why by the same functions as the verbs, run by `bailey exec`, request_access by
 * the gateway (mcp_ask.h). */
#include "base/vec.h"
#include "conf/option.h"
#include "verbs/mcp.h"

struct mcp_toolbox {
        const struct option_values *options;
        const char *program; /* this very program */
        bool inside;         /* of a sandbox */
        VEC(char *) agreed;  /* commands that a person said yes to; outside, where `run` runs them */
};
void mcp_toolbox_done(struct mcp_toolbox *box);
struct mcp_tools mcp_tools(struct mcp_toolbox *box);
