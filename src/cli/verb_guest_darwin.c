/* SPDX-License-Identifier: Apache-2.0 */
/* bailey guest on macOS: accounts of their own for agents. What a guest of Linux has beside that is not there yet. */
#include "base/cleanup.h"
#include "cli/verb.h"
#include "verbs/macos/macos_guests.h"

#include <errno.h>
#include <stdio.h>

enum { LOG_S = 60 };

static const struct option plan_rows[] = {
        { .flag = "plan", .type = OPTION_FLAG, .help = "print the commands, and change nothing" },
};
static const struct option_table plan_table = { "This guest", plan_rows, 1 };

static int print_plan(int (*plan)(const char *, struct buf *, struct err *), const char *name, struct err *err) {
        cleanup(buf_done) struct buf out = BUF(1 << 20);
        int r = plan(name, &out, err);

        if (r == 0)
                printf("%.*s", STR_FMT(buf_str(&out)));
        return exit_of_guest(r, err);
}

static int run_create(const struct call *call, struct err *err) {
        struct macos_guest guest;

        if (option_get_flag(&call->options, &plan_rows[0]))
                return print_plan(macos_guests_plan_create, call->argv[0], err);

        int r = macos_guests_create(call->argv[0], &guest, err);
        if (r == 0)
                printf("%s: the account _bailey_%s with the number %u, of %s\n", guest.name, guest.name, guest.uid,
                       guest.user);
        return exit_of_guest(r, err);
}

static int run_delete(const struct call *call, struct err *err) {
        if (option_get_flag(&call->options, &plan_rows[0]))
                return print_plan(macos_guests_plan_delete, call->argv[0], err);

        int r = macos_guests_delete(call->argv[0], err);
        if (r == 0)
                printf("%s: deleted\n", call->argv[0]);
        return exit_of_guest(r, err);
}

static int run_start(const struct call *call, struct err *err) {
        int r = macos_guests_start(call->argv[0], err);

        if (r == 0)
                printf("%s: its firewall is loaded\n", call->argv[0]);
        return exit_of_guest(r, err);
}

static void guest_list_done(macos_guest_list *list) {
        vec_done(list);
}

static int run_ls(const struct call *call, struct err *err) {
        cleanup(guest_list_done) macos_guest_list list = { 0 };
        int r = macos_guests_list(&list, err);

        (void)call;
        for (size_t i = 0; r == 0 && i < list.n; i++)
                printf("%-20s %u  of %s%s\n", list.p[i].name, list.p[i].uid, list.p[i].user,
                       list.p[i].token[0] ? "" : "  (half made: delete it)");
        if (r == 0 && list.n == 0)
                printf("There are no guests.\n");
        return exit_of_guest(r, err);
}

static int run_exec(const struct call *call, struct err *err) {
        char *const *command = call->argv + 1;

        if (strcmp(command[0], "--") == 0)
                command++;
        if (!command[0]) {
                err_set(err, EINVAL, "there is no command");
                return EXIT_USAGE;
        }
        return exit_of_guest(macos_guests_exec(call->argv[0], command, err), err);
}

static const struct option log_rows[] = {
        { .flag = "for",
          .type = OPTION_INTEGER,
          .metavar = "SECONDS",
          .min = 1,
          .max = 86400,
          .help = "how long; 60 without" },
};
static const struct option_table log_table = { "This guest", log_rows, 1 };

static int run_logs(const struct call *call, struct err *err) {
        uint64_t seconds = option_get_number(&call->options, &log_rows[0]);

        return exit_of_guest(macos_guests_log(call->argv[0], seconds ? (unsigned)seconds : LOG_S, err), err);
}

static const struct verb verb_create = {
        .name = "create",
        .synopsis = "[--plan] NAME",
        .help = "make an account for an agent (by sudo)",
        .about = "A hidden account without a password, in a group of its own, with a home that you may enter; rules of "
                 "pf by which it reaches no network; lines of sudoers by which you may start programs as it. If a step "
                 "fails, those before it are undone.",
        .tables = { &plan_table },
        .min_words = 1,
        .max_words = 1,
        .run = run_create,
};
static const struct verb verb_ls = { .name = "ls", .synopsis = "", .help = "list the guests", .run = run_ls };
static const struct verb verb_start = {
        .name = "start",
        .flags = VERB_GUEST,
        .synopsis = "NAME",
        .help = "load its firewall again after the Mac was started (by sudo)",
        .min_words = 1,
        .max_words = 1,
        .run = run_start,
};
static const struct verb verb_exec = {
        .name = "exec",
        .flags = VERB_GUEST | VERB_COMMAND | VERB_PASSES_STATUS,
        .synopsis = "NAME [--] COMMAND [ARG...]",
        .help = "run a command as the guest, under a profile and without a network",
        .min_words = 2,
        .max_words = -1,
        .run = run_exec,
};
static const struct verb verb_logs = {
        .name = "logs",
        .flags = VERB_GUEST,
        .synopsis = "[--for SECONDS] NAME",
        .help = "print what the firewall refuses it (by sudo)",
        .tables = { &log_table },
        .min_words = 1,
        .max_words = 1,
        .run = run_logs,
};
static const struct verb verb_delete = {
        .name = "delete",
        .flags = VERB_GUEST,
        .synopsis = "[--plan] NAME",
        .help = "end what it runs, delete its account and its home (by sudo)",
        .tables = { &plan_table },
        .min_words = 1,
        .max_words = 1,
        .run = run_delete,
};

static const struct verb *const subs[] = { &verb_create, &verb_ls,     &verb_start, &verb_exec,
                                           &verb_logs,   &verb_delete, NULL };

const struct verb verb_guest = {
        .name = "guest",
        .group = GROUP_RUN,
        .synopsis = "VERB ...",
        .help = "keep accounts of their own for agents",
        .about = "Never yet run on a Mac. A guest is an account of its own, so nothing that it starts outlives its "
                 "deletion, and the files of other accounts are closed to it by their permissions. Commands run in it "
                 "under a profile, without a network.",
        .subs = subs,
        .run = NULL,
};
