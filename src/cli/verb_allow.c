/* SPDX-License-Identifier: Apache-2.0 */
/* allow and deny: answers and rules from another terminal. */
#include "base/cleanup.h"
#include "cli/verb.h"
#include "cli/verb_sandboxes.h"
#include "egress/egress.h"
#include "guest/guest_mend.h"
#include "guest/guest_place.h"

#include <assert.h>
#include <errno.h>

enum {
        DECIDE_SANDBOX,
        DECIDE_SCOPE,
        DECIDE_COMMAND,
        DECIDE_PUSH,
        DECIDE_PAGE,
        DECIDE_CALL,
        DECIDE_ACCESS,
        DECIDE_PATH,
        DECIDE_WRITE,
        DECIDE_FORGET,
        DECIDE_WORKSPACE,
        DECIDE_GUEST,
        DECIDE_CONTAINER,
        DECIDE_ROWS
};
static const char *const scopes[] = { "once", "sandbox", "workspace", "always", NULL };
static const struct option rows[] = {
        [DECIDE_SANDBOX] = { .flag = "sandbox",
                             .letter = 's',
                             .type = OPTION_STRING,
                             .metavar = "ID",
                             .help = "only this running sandbox, by its id or the beginning of it, or a guest by its "
                                     "name" },
        [DECIDE_SCOPE] = { .flag = "scope",
                           .type = OPTION_CHOICE,
                           .metavar = "SCOPE",
                           .choices = scopes,
                           .fallback = "sandbox",
                           .help = "how far it reaches" },
        [DECIDE_COMMAND] = { .flag = "command",
                             .type = OPTION_FLAG,
                             .help = "the answer is for the command that waits in the sandbox with this id, or "
                                     "ID/NUMBER as "
                                     "\"bailey pending\" has it" },
        [DECIDE_PUSH] = { .flag = "push",
                          .type = OPTION_FLAG,
                          .help = "the answer is for the push that waits in the sandbox with this id" },
        [DECIDE_PAGE] = { .flag = "page",
                          .type = OPTION_FLAG,
                          .help = "the answer is for the page that the sandbox with this id wants opened" },
        [DECIDE_CALL] = { .flag = "call",
                          .type = OPTION_FLAG,
                          .help =
                              "the answer is for the call of a bridged tool that waits in the sandbox with this id" },
        [DECIDE_ACCESS] = { .flag = "access",
                            .type = OPTION_FLAG,
                            .help = "the answer is for what the agent in the sandbox with this id asks for" },
        [DECIDE_PATH] = { .flag = "path",
                          .type = OPTION_FLAG,
                          .help = "the word is a path, which is opened for reading in the sandbox that runs" },
        [DECIDE_WRITE] = { .flag = "write", .type = OPTION_FLAG, .help = "with --path: for writing as well; a file" },
        [DECIDE_FORGET] = { .flag = "forget",
                            .type = OPTION_FLAG,
                            .help = "take back the rule with this very pattern instead" },
        [DECIDE_WORKSPACE] = { .flag = "workspace",
                               .letter = 'w',
                               .type = OPTION_PATH,
                               .metavar = "DIR",
                               .help = "the workspace of --scope workspace, instead of the one that is waited in" },
        [DECIDE_GUEST] = { .flag = "guest",
                           .letter = 'g',
                           .type = OPTION_STRING,
                           .metavar = "NAME",
                           .help = "this guest, whether it runs or not: remembered for it, and for nobody else" },
        [DECIDE_CONTAINER] = { .flag = "container",
                               .type = OPTION_STRING,
                               .metavar = "NAME",
                               .help =
                                   "this container behind \"bailey egress\", whether it runs or not: remembered for "
                                   "it (--scope sandbox: until it ends), and for nobody else" },
};
static_assert(sizeof rows / sizeof *rows == DECIDE_ROWS, "one row each");
static const struct option_table table = { "Options", rows, DECIDE_ROWS };

/* What is approved for a guest is approved for the workspace that its home is. */
static int decide_guest(const char *name, struct guest *ret, struct err *err) {
        cleanup(guests_close) struct guests guests = { 0 };
        int r = guests_open(&guests, err);

        if (r < 0)
                return r;

        return guest_find(&guests, name, ret, err);
}

/* Not every path can be opened at once: a yes without a word more is remembered for the next start. */
static enum control_scope decide_scope(const struct option_values *values, const char *guest) {
        bool kept = option_get_flag(values, &rows[DECIDE_ACCESS]) || option_get(values, &rows[DECIDE_CONTAINER]);
        bool later = kept && !option_given(values, &rows[DECIDE_SCOPE]);

        return guest || later ? SCOPE_WORKSPACE : (enum control_scope)option_get_number(values, &rows[DECIDE_SCOPE]);
}

/* As for a guest, with a directory that stands for it. */
static int decide_container(const struct option_values *values, const char *name, char **ret_place, char **ret_whom,
                            struct err *err) {
        static const int others[] = { DECIDE_SANDBOX, DECIDE_COMMAND, DECIDE_PUSH,      DECIDE_PAGE, DECIDE_CALL,
                                      DECIDE_ACCESS,  DECIDE_PATH,    DECIDE_WORKSPACE, DECIDE_GUEST };

        for (size_t i = 0; i < sizeof others / sizeof *others; i++)
                if (option_given(values, &rows[others[i]]))
                        return err_set(err, EINVAL, "--container does not go with --%s", rows[others[i]].flag);

        if (decide_scope(values, NULL) == SCOPE_ALWAYS)
                return err_set(err, EINVAL, "--scope always is for every sandbox; for one container leave --scope out");

        return egress_container_place(name, ret_place, ret_whom, err);
}

static int decide_check_guest(const struct option_values *values, struct err *err) {
        static const int others[] = { DECIDE_SANDBOX, DECIDE_WORKSPACE };

        for (size_t i = 0; i < sizeof others / sizeof *others; i++)
                if (option_given(values, &rows[others[i]]))
                        return err_set(err, EINVAL, "--guest does not go with --%s", rows[others[i]].flag);

        return 0;
}

static const char *decide_workspace(const struct option_values *values, const char *place) {
        return place ? place : option_get(values, &rows[DECIDE_WORKSPACE]);
}

static int allow_decide(const struct call *call, bool deny, struct err *err) {
        cleanup(guest_done) struct guest guest = GUEST_NONE;
        cleanup(buf_done) struct buf out = BUF(1 << 20);
        const struct option_values *values = &call->options;
        const char *named = option_get(values, &rows[DECIDE_GUEST]),
                   *container = option_get(values, &rows[DECIDE_CONTAINER]);
        cleanup(free_ptr) char *place = NULL, *whom = NULL;

        if (container && decide_container(values, container, &place, &whom, err) < 0)
                return EXIT_USAGE;
        if (named && decide_check_guest(values, err) < 0)
                return EXIT_USAGE;
        if (named && decide_guest(named, &guest, err) < 0)
                return exit_of_error(err);

        const struct decide_request request = {
                .deny = deny,
                .command = option_get_flag(values, &rows[DECIDE_COMMAND]),
                .access = option_get_flag(values, &rows[DECIDE_ACCESS]),
                .push = option_get_flag(values, &rows[DECIDE_PUSH]),
                .page = option_get_flag(values, &rows[DECIDE_PAGE]),
                .call = option_get_flag(values, &rows[DECIDE_CALL]),
                .path = option_get_flag(values, &rows[DECIDE_PATH]),
                .write = option_get_flag(values, &rows[DECIDE_WRITE]),
                .forget = option_get_flag(values, &rows[DECIDE_FORGET]),
                .target = call->argv[0],
                .sandbox = option_get(values, &rows[DECIDE_SANDBOX]),
                .scope = decide_scope(values, named),
                .workspace = decide_workspace(values, named ? guest.home : place),
                .guest = named != NULL,
                .whom = whom,
        };
        int r = sandboxes_decide(&request, &out, err);
        int printed = sandboxes_print(&out); /* some may have been told before one said no */

        if (r < 0)
                return exit_of_order(r);

        return printed;
}

static int run_allow(const struct call *call, struct err *err) {
        return allow_decide(call, false, err);
}

static int run_deny(const struct call *call, struct err *err) {
        return allow_decide(call, true, err);
}

#define SCOPES                                                                                                         \
        "HOST is what --allow of \"bailey run\" takes: a name, *.name, an address or network, each with an optional "  \
        ":PORT, or a @group.\n"                                                                                        \
        "Scopes: once answers the connections that wait now; sandbox (the default) holds until the sandbox ends; "     \
        "workspace and always are remembered, and work also when nothing runs. Without --sandbox, once and sandbox "   \
        "are for the sandboxes that wait for HOST, or for the only one that runs; workspace is for the sandboxes in "  \
        "one directory (--workspace, or that of the sandbox that waits, or the current "                               \
        "one), and always for all.\n"                                                                                  \
        "With --container the rule is for that container behind \"bailey egress\" alone (NAME, or docker/NAME and "    \
        "podman/NAME where both engines have one), and is remembered for it; \"bailey egress containers\" shows the "  \
        "lists.\n"                                                                                                     \
        "Remembered rules are shown by \"bailey policy show\" with the day on which they were approved; --forget "     \
        "takes back the one for the workspace and the one for all; with --guest and --container, that of this guest "  \
        "or container alone.\n"                                                                                        \
        "With --command the word is the id of a sandbox, as \"bailey pending\" shows it, in which an escalated "       \
        "command of \"bailey exec\" or of a program waits before it runs. workspace and always are remembered for "    \
        "this very command under this very rule; --forget --command 'COMMAND' takes that back.\n"                      \
        "With --push the word is the id of a sandbox in which a push waits, since its policy says ask: push. The "     \
        "answer is for this one push.\n"                                                                               \
        "With --page the word is the id of a sandbox that wants a page opened in your browser (see browser in "        \
        "bailey-policy(5)). The answer is for this one page.\n"                                                        \
        "With --call the word is the id of a sandbox that waits with a call of a bridged tool, since its policy says " \
        "ask (see bridge in bailey-policy(5)). once is for this call, every other scope for this very call until the " \
        "sandbox ends; nothing is remembered beyond that.\n"                                                           \
        "With --path the word is a path of this machine: it is opened for reading in the sandbox that runs, at the "   \
        "same "                                                                                                        \
        "path, until the sandbox ends; --write opens a file for writing. What is denied or protected stays closed, "   \
        "and "                                                                                                         \
        "a directory is opened for writing at the next start only. workspace and always are remembered for later "     \
        "starts; --forget --path closes it again.\n"                                                                   \
        "With --access the word is the id of a sandbox whose agent asked for a path or a command by \"bailey mcp\", "  \
        "with its reason. The answer is told to the agent. A command passes from then on; a path is opened as with "   \
        "--path. Here workspace is the default of --scope; with once "                                                 \
        "and sandbox nothing is remembered. --forget --access 'read /PATH' takes a path back."

const struct verb verb_allow = {
        .name = "allow",
        .group = GROUP_WATCH,
        .synopsis = "[OPTIONS] HOST[:PORT] | --path PATH | --access|--push|... ID",
        .help = "let running sandboxes reach a host or a path, or answer them",
        .about = SCOPES " A deny wins over every allow.",
        .tables = { &table },
        .min_words = 1,
        .max_words = 1,
        .run = run_allow,
};

const struct verb verb_deny = {
        .name = "deny",
        .group = GROUP_WATCH,
        .synopsis = "[OPTIONS] HOST[:PORT] | --access|--push|--page|... ID",
        .help = "keep running sandboxes from a host, or answer that they may not",
        .about = SCOPES " Connections that a new deny refuses are closed.",
        .tables = { &table },
        .min_words = 1,
        .max_words = 1,
        .run = run_deny,
};
