/* SPDX-License-Identifier: Apache-2.0 */
/* bailey guest: the life of named sandboxes that last. */
#include "cli/verb_guest_internal.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/emit.h"
#include "base/log.h"
#include "cli/exit.h"
#include "guest/account/guest_account.h"
#include "guest/guest_disk.h"
#include "guest/guest_jobs.h"
#include "guest/guest_life.h"
#include "guest/guest_mend.h"
#include "guest/guest_pack.h"
#include "guest/guest_settings.h"
#include "guest/guest_start.h"
#include "guest/recipe/recipe.h"
#include "verbs/policy_options.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { GRACE_S = 10, STILL_MS = 3600 * 1000 };

int guest_open(const struct call *call, struct guests *guests, struct guest *guest, struct err *err) {
        int r = guests_open(guests, err);

        if (r == 0)
                r = guest_find(guests, call->argv[0], guest, err);
        return exit_of_guest(r, err);
}

int guest_open_held(const struct call *call, struct guests *guests, struct guest *guest, struct err *err) {
        int code = guest_open(call, guests, guest, err);

        if (code != EXIT_OK || guest->fd < 0)
                return code;
        return exit_of_guest(guest_hold(guests, guest, HOLD_MS, err), err);
}

/*
 * create
 */
enum { CREATE_ACCOUNT, CREATE_DISK, CREATE_IDLE, CREATE_FROM, CREATE_CLONE, CREATE_RECIPE, CREATE_ROWS };
static const struct option create_rows[] = {
        [CREATE_ACCOUNT] = { .flag = "account",
                             .type = OPTION_FLAG,
                             .help = "give it an account of its own on this machine (once, by sudo)" },
        [CREATE_DISK] = { .flag = "disk",
                          .type = OPTION_SIZE,
                          .metavar = "SIZE",
                          .help = "how much its home may take; one that takes more is frozen; no limit of its own "
                                  "without" },
        [CREATE_IDLE] = { .flag = "idle",
                          .type = OPTION_DURATION,
                          .metavar = "TIME",
                          .min = 0,
                          .max = INT64_MAX / 2,
                          .help = "a running guest ends when nothing was asked of it for so long" },
        [CREATE_FROM] = { .flag = "from",
                          .type = OPTION_STRING,
                          .metavar = "GUEST:SNAPSHOT",
                          .help = "begin with the home that this snapshot has" },
        [CREATE_CLONE] = { .flag = "clone",
                           .type = OPTION_STRING,
                           .metavar = "URL",
                           .help = "clone this repository into its home, from inside" },
        [CREATE_RECIPE] = { .flag = "recipe",
                            .type = OPTION_LIST,
                            .metavar = "RECIPE",
                            .help = "provision it by this recipe; see recipes" },
};
static_assert(sizeof create_rows / sizeof *create_rows == CREATE_ROWS, "one row each");
static const struct option_table create_table = { "This guest", create_rows, CREATE_ROWS };

/* Options of the policy, kept with the guest. */
static int wish_settings(const struct call *call, struct guest_wish *wish) {
        for (size_t i = 0; i < call->options.values.n; i++) {
                const struct option_value *value = &call->options.values.p[i];
                const char *flag = value->option->flag;
                if (flag && guest_setting_row(flag) == value->option &&
                    vec_push(&wish->settings, ((struct guest_setting){ value->option, value->text })) < 0)
                        return -ENOMEM;
        }

        return 0;
}

static int create_from(struct guests *guests, struct guest *guest, const char *from, struct err *err) {
        cleanup(guest_done) struct guest source = GUEST_NONE;
        cleanup(free_ptr) char *name = str_dup(str_of(from));
        char *colon = name ? strrchr(name, ':') : NULL;

        if (!colon) {
                err_blame(err, ERR_USAGE);
                return err_set(err, EINVAL, "--from wants GUEST:SNAPSHOT");
        }

        *colon = '\0';
        int r = guest_find(guests, name, &source, err);
        if (r == 0)
                r = guest_hold(guests, guest, HOLD_MS, err);
        if (r == 0)
                r = guest_restore(guests, guest, &source, colon + 1, err);

        guest_let_go(guest);
        return r;
}

/* Inside, so that nothing of the repository is read by a program out here. */
static int create_clone(struct guests *guests, struct guest *guest, const char *url, struct err *err) {
        char *argv[] = { (char *)"git", (char *)"clone", (char *)"--", (char *)url, NULL };
        const struct guest_command command = {
                .argv = argv, .input = -1, .output = STDERR_FILENO, .errors = STDERR_FILENO
        };
        int status = 0;
        int r = guest_hold(guests, guest, HOLD_MS, err);

        if (r == 0)
                r = guest_start(guests, guest, NULL, err);
        if (r == 0)
                r = guest_exec(guest, &command, NULL, NULL, &status, err);
        if (r < 0)
                return r;

        if (status)
                return err_set(err, EIO,
                               "the guest is there, but git clone failed inside it (status %d): bailey guest exec %s "
                               "-- git clone %s",
                               status, guest->row.name, url);

        return 0;
}

/* The guest is there, whatever comes of this. */
static int create_provision(const struct call *call, struct guests *guests, struct guest *guest, struct err *err) {
        const struct option_value *value;
        char **words = calloc(call->options.values.n + 1, sizeof *words);
        struct provision_request request = { .words = words };
        int r = 0;

        if (!words)
                r = err_memory(err);

        for (size_t i = 0; words && (value = option_next(&call->options, &create_rows[CREATE_RECIPE], &i));)
                words[request.n++] = value->text;

        if (r == 0)
                r = guest_hold(guests, guest, HOLD_MS, err);
        if (r == 0)
                r = guest_provision_words(guests, guest, &request, err);

        guest_let_go(guest);
        free(words);

        return r;
}

/* A recipe that cannot be read is found before anything is made. */
static int create_check_recipes(const struct call *call, struct err *err) {
        cleanup(recipe_list_done) recipe_list list = { 0 };
        const struct option_value *value;
        int r = 0;

        for (size_t i = 0; r == 0 && (value = option_next(&call->options, &create_rows[CREATE_RECIPE], &i));)
                r = recipe_open(value->text, &list, err);
        return r;
}

static int run_create(const struct call *call, struct err *err) {
        cleanup(guests_close) struct guests guests = { 0 };
        cleanup(guest_done) struct guest guest = GUEST_NONE;
        const struct option_values *values = &call->options;
        struct guest_wish wish = { .name = call->argv[0],
                                   .account = option_get_flag(values, &create_rows[CREATE_ACCOUNT]),
                                   .disk = option_get_number(values, &create_rows[CREATE_DISK]),
                                   .idle_s = option_get_number(values, &create_rows[CREATE_IDLE]) / NS_PER_SECOND };
        const char *from = option_get(values, &create_rows[CREATE_FROM]),
                   *url = option_get(values, &create_rows[CREATE_CLONE]);
        char note[ERR_TEXT_MAX] = "";
        int helper = 0;
        int r = 0;

        if (wish.account)
                r = guest_account_helper(&helper, err);

        if (r == 0)
                r = create_check_recipes(call, err);
        if (r == 0)
                r = guests_open(&guests, err);

        guests.helper = helper;
        if (r == 0)
                r = wish_settings(call, &wish) < 0 ? err_memory(err) : 0;
        if (r == 0)
                r = guest_settings_check(&guests, values, err);
        if (r == 0)
                r = guest_create(&guests, &wish, &guest, note, err);
        if (r == 0 && note[0])
                log_warning("%s", note);
        if (r == 0 && from)
                r = create_from(&guests, &guest, from, err);
        if (r == 0 && option_given(values, &create_rows[CREATE_RECIPE]))
                r = create_provision(call, &guests, &guest, err);
        if (r == 0 && url)
                r = create_clone(&guests, &guest, url, err);

        vec_done(&wish.settings);
        if (r == 0)
                printf("%s: %s, %s\n", guest.row.name, guest_kind_name(guest.kind), guest.home);

        return exit_of_guest(r, err);
}

static const struct verb verb_create = {
        .name = "create",
        .synopsis = "[OPTIONS] NAME",
        .help = "make a guest",
        .about = "The guest has a home of its own and, where you have subordinate ids (/etc/subuid), a user id of its "
                 "own: it "
                 "can neither read nor signal anything of yours, and you read and write everything of its. Without "
                 "subordinate ids it has your user id, and the sandbox alone is between you; the command says so. With "
                 "--account it has an account on this machine, which root makes: sudo bailey guest create --account "
                 "NAME.\n\n"
                 "Options of the policy are kept with the guest and hold for each start.",
        .tables = { &create_table, &policy_table_general, &policy_table_network, &policy_table_files,
                    &policy_table_process, &policy_table_limits },
        .min_words = 1,
        .max_words = 1,
        .run = run_create,
};

/*
 * start, stop
 */
enum { START_HOSTS, START_CA_BUNDLE, START_ROWS };
static const struct option start_rows[] = {
        [START_HOSTS] = { .flag = "hosts",
                          .type = OPTION_PATH,
                          .metavar = "FILE",
                          .help = "names that the gateway knows without asking, as in /etc/hosts" },
        [START_CA_BUNDLE] = { .flag = "ca-bundle",
                              .type = OPTION_PATH,
                              .metavar = "FILE",
                              .help = "roots that the gateway trusts, instead of the system's" },
};
static_assert(sizeof start_rows / sizeof *start_rows == START_ROWS, "one row each");
static const struct option_table start_table = { "This start", start_rows, START_ROWS };

static void command_say_cleaning(const struct guest *guest) {
        cleanup(buf_done) struct buf why = BUF(512);
        struct run_disk_news news;

        if (guest_disk_seen(guest, &news) && news.cleaning && run_disk_text(&news, &why) == 0)
                log_warning("%.*s: in %s files can be removed now, and not written", STR_FMT(buf_str(&why)),
                            guest->row.name);
}

static int run_start(const struct call *call, struct err *err) {
        cleanup(guests_close) struct guests guests = { 0 };
        cleanup(guest_done) struct guest guest = GUEST_NONE;
        int code = guest_open_held(call, &guests, &guest, err);

        if (code != EXIT_OK)
                return code;

        const struct guest_extra extra = { .options = &call->options,
                                           .hosts_file = option_get(&call->options, &start_rows[START_HOSTS]),
                                           .ca_bundle = option_get(&call->options, &start_rows[START_CA_BUNDLE]) };
        int r = guest_start(&guests, &guest, &extra, err);
        if (r == 0)
                printf("%s: running\n", guest.row.name);
        if (r == 0)
                command_say_cleaning(&guest);

        return exit_of_guest(r, err);
}

static const struct verb verb_start = {
        .name = "start",
        .flags = VERB_GUEST,
        .synopsis = "[OPTIONS] NAME",
        .help = "start a guest, which then runs without a terminal",
        .about =
            "The guest's sandbox stays until \"bailey guest stop\", until the machine ends, or until it was idle for "
            "as "
            "long as --idle of \"bailey guest create\" says. \"shell\" and \"exec\" start a guest that does not run. "
            "Options of the policy hold for this start alone.",
        .tables = { &start_table, &policy_table_general, &policy_table_network, &policy_table_files,
                    &policy_table_process, &policy_table_limits },
        .min_words = 1,
        .max_words = 1,
        .run = run_start,
};

static int run_stop(const struct call *call, struct err *err) {
        cleanup(guests_close) struct guests guests = { 0 };
        cleanup(guest_done) struct guest guest = GUEST_NONE;
        int code = guest_open(call, &guests, &guest, err);

        if (code != EXIT_OK)
                return code;

        bool ran = guest_is_running(&guest);
        int r = guest_stop(&guest, GRACE_S, err);
        if (r == 0)
                printf("%s: %s\n", guest.row.name, ran ? "stopped" : "did not run");

        return exit_of_guest(r, err);
}

static const struct verb verb_stop = {
        .name = "stop",
        .flags = VERB_GUEST,
        .synopsis = "NAME",
        .help = "end a guest and everything in it; its home stays",
        .min_words = 1,
        .max_words = 1,
        .run = run_stop,
};

/*
 * shell, exec
 */

/* A snapshot has frozen it. The process that takes the snapshot thaws it; if that was killed, we do. */
static int command_await(struct guests *guests, struct guest *guest, struct err *err) {
        int r = guest_hold(guests, guest, STILL_MS, err);

        if (r == 0)
                r = guest_mend(guests, guest, err);
        guest_let_go(guest);

        return exit_of_guest(r, err);
}

/* One that was started to be cleaned starts again when it is, unless somebody else is at work in it. */
static int command_check_disk(struct guest *guest, struct err *err) {
        bool clean = false;
        int r = guest_disk_enter(guest, &clean, err);

        if (r < 0 || !clean || guest_sessions(guest) != 0)
                return r;

        return guest_stop(guest, GRACE_S, err);
}

static int command_open(const struct call *call, struct guests *guests, struct guest *guest, struct err *err) {
        int code = guest_open(call, guests, guest, err);

        if (code == EXIT_OK && guest->row.doing && guest->row.doing[0])
                code = command_await(guests, guest, err);
        if (code != EXIT_OK)
                return code;

        int r = 0;

        if (guest_is_running(guest))
                r = command_check_disk(guest, err);

        if (r < 0 || guest_is_running(guest))
                return exit_of_guest(r, err);

        r = guest_hold(guests, guest, HOLD_MS, err);
        if (r == 0)
                r = guest_start(guests, guest, NULL, err);
        if (r == 0)
                command_say_cleaning(guest);

        return exit_of_guest(r == -EALREADY ? 0 : r, err);
}

enum { EXEC_DETACH, EXEC_DIRECTORY, EXEC_ENV, EXEC_ROWS };
static const struct option exec_rows[] = {
        [EXEC_DETACH] = { .flag = "detach",
                          .letter = 'd',
                          .type = OPTION_FLAG,
                          .help = "as a job: it goes on when this terminal is closed; see jobs and logs" },
        [EXEC_DIRECTORY] = { .flag = "directory",
                             .letter = 'C',
                             .type = OPTION_STRING,
                             .metavar = "DIR",
                             .help = "where it starts, inside; the home otherwise" },
        [EXEC_ENV] = { .flag = "set", .type = OPTION_LIST, .metavar = "NAME=VALUE", .help = "a variable for it" },
};
static_assert(sizeof exec_rows / sizeof *exec_rows == EXEC_ROWS, "one row each");
static const struct option_table exec_table = { "This command", exec_rows, EXEC_ROWS };

static char **exec_variables(const struct call *call) {
        const struct option_value *value;
        const char *term = getenv("TERM");
        char **list = calloc(call->options.values.n + 2, sizeof *list);
        size_t n = 0;

        if (list && term)
                list[n++] = str_format("TERM=%s", term);

        for (size_t i = 0; list && (value = option_next(&call->options, &exec_rows[EXEC_ENV], &i));)
                if (strchr(value->text, '='))
                        list[n++] = str_dup(str_of(value->text));

        return list;
}

static void variables_free(char ***list) {
        for (char **p = *list; p && *p; p++)
                free(*p);
        free(*list);
}

static int exec_detached(struct guests *guests, const struct guest *guest, const struct guest_command *command,
                         struct err *err) {
        uint64_t number = 0;
        int status = 0;
        int r = guest_job_start(guests, guest, command, &number, &status, err);

        if (r < 0 || status) {
                if (r < 0)
                        return exit_of_guest(r, err);
                return status;
        }

        printf("%ju\n", (uintmax_t)number);
        return EXIT_OK;
}

static int exec_run(const struct call *call, char **argv, bool login, bool detach, struct err *err) {
        cleanup(guests_close) struct guests guests = { 0 };
        cleanup(guest_done) struct guest guest = GUEST_NONE;
        cleanup(variables_free) char **variables = exec_variables(call);
        int status = 0;
        int code = command_open(call, &guests, &guest, err);

        if (code != EXIT_OK)
                return code;

        const struct guest_command command = { .argv = argv,
                                               .directory = option_get(&call->options, &exec_rows[EXEC_DIRECTORY]),
                                               .variables = variables,
                                               .terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO),
                                               .login = login,
                                               .input = STDIN_FILENO,
                                               .output = STDOUT_FILENO,
                                               .errors = STDERR_FILENO };
        struct err ignored = { 0 };
        (void)guests_db_used(guests.db, guest.row.id, &ignored);

        if (detach)
                return exec_detached(&guests, &guest, &command, err);

        guests_close(&guests); /* it may take long */
        int r = guest_exec(&guest, &command, NULL, NULL, &status, err);

        if (r < 0)
                return exit_of_guest(r, err);

        return status;
}

static int run_exec(const struct call *call, struct err *err) {
        char **argv = call->argv + 1;

        if (*argv && strcmp(*argv, "--") == 0)
                argv++;

        if (!*argv) {
                err_set(err, EINVAL, "what is to be run? bailey guest exec NAME -- COMMAND [ARG...]");
                return EXIT_USAGE;
        }

        return exec_run(call, argv, false, option_get_flag(&call->options, &exec_rows[EXEC_DETACH]), err);
}

static const struct verb verb_exec = {
        .name = "exec",
        .flags = VERB_GUEST | VERB_COMMAND | VERB_PASSES_STATUS,
        .synopsis = "[OPTIONS] NAME [--] COMMAND [ARG...]",
        .help = "run a command in a guest",
        .about =
            "The command shares the guest's sandbox with everything else that runs in it: a server that one command "
            "starts is there for the next. It ends when this command is ended. The exit status is its own.\n\n"
            "With --detach it is a job: the number of it is printed, \"bailey guest jobs\" lists it, also after it "
            "ended, "
            "and \"bailey guest logs\" shows what it wrote, up to 64 MiB.",
        .tables = { &exec_table },
        .min_words = 2,
        .max_words = -1,
        .run = run_exec,
};

static int run_shell(const struct call *call, struct err *err) {
        char *argv[] = { (char *)(access("/bin/bash", X_OK) == 0 ? "/bin/bash" : "/bin/sh"), NULL };

        return exec_run(call, argv, true, false, err);
}

static const struct verb verb_shell = {
        .name = "shell",
        .flags = VERB_GUEST | VERB_PASSES_STATUS,
        .synopsis = "NAME",
        .help = "open a shell in a guest",
        .min_words = 1,
        .max_words = 1,
        .run = run_shell,
};

/*
 * rename, fix, delete
 */
static int run_rename(const struct call *call, struct err *err) {
        cleanup(guests_close) struct guests guests = { 0 };
        cleanup(guest_done) struct guest guest = GUEST_NONE;
        int code = guest_open_held(call, &guests, &guest, err);

        if (code != EXIT_OK)
                return code;
        return exit_of_guest(guest_rename(&guests, &guest, call->argv[1], err), err);
}

static const struct verb verb_rename = {
        .name = "rename",
        .flags = VERB_GUEST,
        .synopsis = "NAME NEW-NAME",
        .help = "give a guest another name",
        .min_words = 2,
        .max_words = 2,
        .run = run_rename,
};

static int run_fix(const struct call *call, struct err *err) {
        cleanup(guests_close) struct guests guests = { 0 };
        cleanup(guest_done) struct guest guest = GUEST_NONE;
        int helper = 0;
        int r = guest_account_helper(&helper, err);

        if (r < 0)
                return exit_of_guest(r, err);

        int code = guest_open_held(call, &guests, &guest, err);
        if (code != EXIT_OK)
                return code;

        guests.helper = helper;
        if (guest.kind == GUEST_ACCOUNT)
                r = guest_account_protect(&guests, &guest, err);
        if (r == 0)
                r = guest_fix(&guests, &guest, err);
        if (r == 0)
                printf("%s: %s\n", guest.row.name, guest_state_name(guest.state));

        return exit_of_guest(r, err);
}

static const struct verb verb_fix = {
        .name = "fix",
        .flags = VERB_GUEST,
        .synopsis = "NAME",
        .help = "open to you what a guest closed, and mend what is broken",
        .about =
            "Everything in the guest's home belongs to the guest again, its owner and you may read and write it, and "
            "set-id bits are gone. What the guest made in directories that you granted it belongs to you, and the "
            "guest "
            "may use it as before. Private keys of the guest are closed to you only by their mode; programs that "
            "insist "
            "on it want a chmod 600 inside afterwards. By sudo, the firewall of account "
            "guests is loaded again and the reader of its log started.",
        .min_words = 1,
        .max_words = 1,
        .run = run_fix,
};

enum { DELETE_KEEP, DELETE_FORCE, DELETE_ROWS };
static const struct option delete_rows[] = {
        [DELETE_KEEP] = { .flag = "keep-home", .type = OPTION_FLAG, .help = "leave its home where it is" },
        [DELETE_FORCE] = { .flag = "force",
                           .letter = 'f',
                           .type = OPTION_FLAG,
                           .help = "do not ask; stop it if it runs" },
};
static_assert(sizeof delete_rows / sizeof *delete_rows == DELETE_ROWS, "one row each");
static const struct option_table delete_table = { "Options", delete_rows, DELETE_ROWS };

/* 0: go on. */
static int delete_ask(const struct call *call, const struct guest *guest, struct err *err) {
        char line[16];

        if (!guest_is_running(guest) || option_get_flag(&call->options, &delete_rows[DELETE_FORCE]))
                return 0;

        err_blame(err, ERR_REFUSED);
        if (!isatty(STDIN_FILENO))
                return err_set(err, EBUSY, "the guest %s runs: stop it first, or add --force", guest->row.name);

        fprintf(stderr, "The guest %s runs. End it and delete it with its home? (yes/no) ", guest->row.name);
        if (!fgets(line, sizeof line, stdin) || strcmp(line, "yes\n") != 0)
                return err_set(err, ECANCELED, "nothing was deleted");

        return 0;
}

static int delete_held(struct guests *guests, struct guest *guest, bool keep, struct err *err) {
        int r = guest_stop(guest, GRACE_S, err);

        if (r == 0 && guest->fd >= 0)
                r = guest_hold(guests, guest, HOLD_MS, err);
        if (r == 0 && guest->state == GUEST_RUNNING) /* its supervisor was killed */
                r = guest_move(guests, guest, STEP_END, "deleted", NULL, NULL, err);
        if (r < 0)
                return r;

        return guest_delete(guests, guest, keep, err);
}

static int run_delete(const struct call *call, struct err *err) {
        cleanup(guests_close) struct guests guests = { 0 };
        cleanup(guest_done) struct guest guest = GUEST_NONE;
        bool keep = option_get_flag(&call->options, &delete_rows[DELETE_KEEP]), packed = false;
        int helper = 0;
        int r = guest_account_helper(&helper, err);

        if (r == 0)
                r = guests_open_as_is(&guests, err);

        guests.helper = helper;
        if (r == 0)
                r = guest_find(&guests, call->argv[0], &guest, err);
        if (r == 0)
                r = delete_ask(call, &guest, err);
        if (r == 0) {
                packed = guest_is_archived(&guest);
                r = delete_held(&guests, &guest, keep, err);
        }

        if (r == 0 && keep && packed)
                printf("%s: deleted; its home stays packed in %s/%s\n", guest.row.name, guest.directory,
                       GUEST_ARCHIVE_NAME);
        else if (r == 0 && keep)
                printf("%s: deleted; its home stays in %s\n", guest.row.name, guest.home);
        else if (r == 0)
                printf("%s: deleted\n", guest.row.name);

        return exit_of_guest(r, err);
}

static const struct verb verb_delete = {
        .name = "delete",
        .flags = VERB_GUEST,
        .synopsis = "[OPTIONS] NAME",
        .help = "delete a guest, its home, its snapshots and its account",
        .tables = { &delete_table },
        .min_words = 1,
        .max_words = 1,
        .run = run_delete,
};

static const struct verb *const subs[] = {
        &verb_create,
        &verb_guest_ls,
        &verb_guest_show,
        &verb_guest_set,
        &verb_start,
        &verb_stop,
        &verb_shell,
        &verb_exec,
        &verb_guest_jobs,
        &verb_guest_logs,
        &verb_guest_ports,
        &verb_guest_provision,
        &verb_guest_recipes,
        &verb_guest_cp,
        &verb_guest_grant,
        &verb_guest_revoke,
        &verb_guest_grants,
        &verb_guest_snapshot,
        &verb_guest_snapshots,
        &verb_guest_restore,
        &verb_guest_archive,
        &verb_guest_unarchive,
        &verb_rename,
        &verb_fix,
        &verb_guest_ssh_config,
        &verb_delete,
        NULL,
};

const struct verb verb_guest = {
        .name = "guest",
        .group = GROUP_RUN,
        .synopsis = "VERB ...",
        .help = "keep named sandboxes that last, with a home and jobs of their own",
        .about =
            "A guest is a place where \"bailey run\" is one command: it has a name, a home, perhaps a user id of its "
            "own, "
            "and it keeps what it has. Everything in it runs in Bailey's sandbox, under one policy, with one record. A "
            "guest that was started survives the terminal.",
        .subs = subs,
        .run = NULL,
};

/* For hands that type it often. */
const struct verb verb_guest_short = {
        .name = "g",
        .group = GROUP_RUN,
        .flags = VERB_HIDDEN,
        .synopsis = "VERB ...",
        .help = "the same as guest",
        .subs = subs,
        .run = NULL,
};
