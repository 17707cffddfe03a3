/* SPDX-License-Identifier: Apache-2.0 */
#include "chat/chat.h"

#include "base/cleanup.h"
#include "base/escape.h"
#include "cli/verb.h"
#include "policy/load.h"
#include "verbs/sandboxes/sandbox_names.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>

enum { ROW_CHECK, ROW_TEST, CHAT_ROWS };
static const struct option rows[] = {
        [ROW_CHECK] = { .flag = "check",
                        .type = OPTION_FLAG,
                        .help = "only say whether the configuration is whole; nothing is started" },
        [ROW_TEST] = { .flag = "test", .type = OPTION_FLAG, .help = "say hello in the room and end" },
};
static_assert(sizeof rows / sizeof *rows == CHAT_ROWS, "one row each");
static const struct option_table table = { "Options", rows, CHAT_ROWS };

static void on_ready(void *arg, const char *service, const char *room) {
        cleanup(buf_done) struct buf text = BUF(2048);

        (void)arg;
        if (escape_text(&text, str_of(room), 250) == 0 && buf_text(&text))
                fprintf(stderr, "bailey: questions go to %s, %s\n", service, text.p);
}

static int chat_verb_run(const struct call *call, struct err *err) {
        cleanup(policy_freep) struct policy *policy = NULL;
        const struct policy_request request = { .command_line = &call->options, .network_only = true };
        int r;

        r = policy_load(&request, &policy, err);
        if (r < 0)
                return EXIT_CONFIG;

        r = chat_check(policy, err);
        if (r < 0)
                return EXIT_CONFIG;
        if (option_get_flag(&call->options, &rows[ROW_CHECK]))
                return EXIT_OK;

        const struct chat_settings settings = { .policy = policy,
                                                .test = option_get_flag(&call->options, &rows[ROW_TEST]),
                                                .resolve = names_sandbox,
                                                .on_ready = on_ready };
        r = chat_run(&settings, err);

        return r < 0 ? EXIT_SYSTEM : EXIT_OK;
}

const struct verb verb_chat = {
        .name = "chat",
        .group = GROUP_WATCH,
        .synopsis = "[OPTIONS]",
        .help = "ask people in a chat, and take their answers",
        .about =
            "Every question of every sandbox of this user goes to the room that approval.chat names (zulip, slack, "
            "telegram, matrix, ntfy, or a bridge of your own). Approvers answer with a button, or with \"/allow CODE "
            "[once|sandbox|workspace|always]\" and \"/deny CODE\"; \"/pending\", \"/ps\", \"/pause\", \"/resume\", "
            "\"/kill\" and \"/help\" work too. Each code is worth one answer. It runs until it is interrupted, opens "
            "no port, and never sees the token: the vault has it.\n"
            "docs/chat.md says how each service is set up. What was refused, and why, is in \"bailey log chat\".",
        .tables = { &table },
        .max_words = 0,
        .run = chat_verb_run,
};
