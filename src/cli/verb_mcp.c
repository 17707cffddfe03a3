/* SPDX-License-Identifier: Apache-2.0 */
/* bailey mcp: a server of the Model Context Protocol on standard input and output. */
#include "verbs/mcp.h"

#include "bailey/bailey.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "cli/verb.h"
#include "verbs/mcp_ask.h"
#include "verbs/mcp_tools.h"
#include "verbs/policy_options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { MCP_ASK, MCP_WANT, MCP_REASON, MCP_WAIT, MCP_OPTIONS };
static const struct option rows[] = {
        [MCP_ASK] = { .flag = "ask",
                      .type = OPTION_STRING,
                      .metavar = "HOST[:PORT]",
                      .help =
                          "no server: inside a sandbox, ask for this host once; 0: allowed, 1: refused, 2: no answer" },
        [MCP_WANT] = { .flag = "want",
                       .type = OPTION_STRING,
                       .metavar = "WHAT",
                       .help = "as --ask, for \"read /PATH\", \"write /PATH\" or \"run COMMAND\"" },
        [MCP_REASON] = { .flag = "reason",
                         .type = OPTION_STRING,
                         .metavar = "TEXT",
                         .help = "what the person who is asked reads as your reason" },
        [MCP_WAIT] = { .flag = "wait",
                       .type = OPTION_INTEGER,
                       .metavar = "SECONDS",
                       .min = 1,
                       .max = 600,
                       .fallback = "50",
                       .help = "how long --ask waits" },
};
static const struct option_table table = { "Asking by hand", rows, MCP_OPTIONS };

static int ask_once(const struct call *call, const char *host, const char *want, struct err *err) {
        unsigned seconds = (unsigned)option_get_number(&call->options, &rows[MCP_WAIT]);
        const char *reason = option_get(&call->options, &rows[MCP_REASON]);
        struct mcp_answered said;
        char target[300];

        if (host && !mcp_target(str_of(host), target, sizeof target)) {
                err_set(err, EINVAL, "'%s' is not HOST or HOST:PORT", host);
                return EXIT_USAGE;
        }

        if (want && mcp_agreed(want)) {
                printf("a person has agreed to it before\n");
                return (int)MCP_ALLOWED;
        }

        struct mcp_question question = { .reason = reason && *reason ? reason : NULL, .timeout_seconds = seconds };
        if (host)
                question.target = target;
        else
                question.wants = want;

        if (mcp_ask(&question, &said, err) < 0)
                return EXIT_UNAVAILABLE;

        printf("%s\n", said.text);
        return (int)said.what;
}

/* 1: answered; 0: nobody reads any more. */
static int mcp_reply(struct mcp *mcp, struct buf *line, bool skipping, struct err *err) {
        cleanup(buf_done) struct buf out = BUF(2 * MCP_REPLY_MAX);
        int r = skipping ? mcp_answer_too_long(&out) : mcp_answer(mcp, buf_str(line), &out);

        buf_clear(line);
        if (r < 0)
                return err_memory(err);

        return fd_write_all(STDOUT_FILENO, out.p, out.n) == 0;
}

/* Lines are answered one after the other; one that is too long is skipped and said so. The last one may end with the
 * input. */
static int mcp_serve(struct mcp *mcp, struct err *err) {
        cleanup(buf_done) struct buf line = BUF(MCP_LINE_MAX + 1);
        bool skipping = false;
        char bytes[65536];
        ssize_t n;

        while ((n = read(STDIN_FILENO, bytes, sizeof bytes)) != 0) {
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return err_errno(err, "standard input");

                struct str rest = str_n(bytes, (size_t)n);
                while (rest.n) {
                        ptrdiff_t end = str_find(rest, '\n');
                        struct str piece = end < 0 ? rest : str_first(rest, (size_t)end);

                        rest = str_skip(rest, piece.n + (end >= 0));
                        if (!skipping && (line.n + piece.n > MCP_LINE_MAX || buf_append(&line, piece) < 0))
                                skipping = true;
                        if (end < 0)
                                continue;

                        int r = mcp_reply(mcp, &line, skipping, err);
                        if (r <= 0)
                                return r;
                        skipping = false;
                }
        }

        if (!skipping && line.n == 0)
                return 0;

        int r = mcp_reply(mcp, &line, skipping, err);
        return r < 0 ? r : 0;
}

static int mcp_run(const struct call *call, struct err *err) {
        const char *host = option_get(&call->options, &rows[MCP_ASK]),
                   *want = option_get(&call->options, &rows[MCP_WANT]);
        char self[4096];
        ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);

        if (host || want)
                return ask_once(call, host, want, err);

        if (n < 0) {
                err_errno(err, "this program cannot find itself");
                return EXIT_SYSTEM;
        }

        self[n] = '\0';
        cleanup(mcp_toolbox_done) struct mcp_toolbox box = { .options = &call->options,
                                                             .program = self,
                                                             .inside = getenv("SANDBOX_RUNTIME") != NULL };
        struct mcp mcp = { .tools = mcp_tools(&box), .version = bailey_version() };

        return mcp_serve(&mcp, err) < 0 ? EXIT_SYSTEM : EXIT_OK;
}

const struct verb verb_mcp = {
        .name = "mcp",
        .group = GROUP_POLICY,
        .synopsis = "[OPTIONS]",
        .help = "serve the Model Context Protocol: run, check, explain and ask",
        .about =
            "An agent starts this as an MCP server: JSON-RPC 2.0 on standard input and output, one message per line. "
            "Its tools: run (a command in a sandbox, as bailey exec does it), check (what the classifier says), why "
            "(which rule decides about a host or a path) and request_access (a person is asked for a host).\n\n"
            "It works inside a sandbox too. There it may only ask: request_access asks the gateway for a connection, "
            "which becomes a question where the policy asks, and nothing inside can answer it; run refuses.\n\n"
            "It ends when its input ends.",
        .tables = { &table, &policy_table_general },
        .max_words = 0,
        .run = mcp_run,
};
