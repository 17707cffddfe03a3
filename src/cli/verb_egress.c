/* SPDX-License-Identifier: Apache-2.0 */
/* bailey egress: the gateway in the background, for containers and guests. */
#include "egress/egress.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "cli/verb.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void egress_say(void *arg, bool bad, const char *text) {
        (void)arg;
        fprintf(stderr, bad ? "bailey: egress: warning: %s\n" : "%s\n", text);
}

/* Yes by default; at the end of input: no. */
static bool egress_confirm(void *arg, const char *question) {
        char line[64];
        (void)arg;
        fprintf(stderr, "%s [Y/n] ", question);
        fflush(stderr);
        return fgets(line, sizeof line, stdin) && line[0] != 'n' && line[0] != 'N';
}

static const struct egress_talk quiet_talk = { .say = egress_say };

static int egress_put(const struct buf *out) {
        fwrite(text_or(out->p, ""), 1, out->n, stdout);
        return EXIT_OK;
}

/* --- setup --- */

enum { ROW_FROM_BITWARDEN, ROW_NO_BITWARDEN, ROW_PROJECT, ROW_TOKEN_ENV, ROW_WITHOUT, ROW_ROTATE, ROW_YES, SETUP_ROWS };
static const struct option setup_rows[] = {
        [ROW_FROM_BITWARDEN] = { .flag = "from-bitwarden",
                                 .type = OPTION_FLAG,
                                 .help = "read credentials with Bitwarden's bws, also those read from the environment "
                                         "so far" },
        [ROW_NO_BITWARDEN] = { .flag = "no-bitwarden",
                               .type = OPTION_FLAG,
                               .help = "read credentials from the environment, also those read from Bitwarden so far" },
        [ROW_PROJECT] = { .flag = "project",
                          .type = OPTION_STRING,
                          .metavar = "ID",
                          .help = "Bitwarden's project; needed once, with --from-bitwarden" },
        [ROW_TOKEN_ENV] = { .flag = "token-env",
                            .type = OPTION_STRING,
                            .metavar = "NAME",
                            .help = "the variable that has Bitwarden's token, if not BWS_ACCESS_TOKEN" },
        [ROW_WITHOUT] = { .flag = "without",
                          .type = OPTION_LIST,
                          .metavar = "NAME",
                          .help = "take this credential out, and do not look for it" },
        [ROW_ROTATE] = { .flag = "rotate-tokens",
                         .type = OPTION_FLAG,
                         .help = "make new stand-ins; containers that hold the old ones must be started again" },
        [ROW_YES] = { .flag = "yes", .letter = 'y', .type = OPTION_FLAG, .help = "ask nothing, agree to everything" },
};
static const struct option_table setup_table = { "Setup", setup_rows, SETUP_ROWS };

static int run_setup(const struct call *call, struct err *err) {
        const struct option_values *values = &call->options;
        bool yes = option_get_flag(values, &setup_rows[ROW_YES]);
        const struct option_value *value;
        size_t n = 0;
        cleanup(free_ptr) const char **without = calloc(values->values.n + 1, sizeof *without);
        if (!without) {
                err_memory(err);
                return EXIT_SYSTEM;
        }

        for (size_t i = 0; (value = option_next(values, &setup_rows[ROW_WITHOUT], &i));)
                without[n++] = value->text;

        const struct egress_setup setup = { .without = without,
                                            .from_bitwarden = option_get_flag(values, &setup_rows[ROW_FROM_BITWARDEN]),
                                            .no_bitwarden = option_get_flag(values, &setup_rows[ROW_NO_BITWARDEN]),
                                            .rotate_tokens = option_get_flag(values, &setup_rows[ROW_ROTATE]),
                                            .project = option_get(values, &setup_rows[ROW_PROJECT]),
                                            .token_env = option_get(values, &setup_rows[ROW_TOKEN_ENV]) };
        const struct egress_talk talk = { .say = egress_say, .confirm = yes ? NULL : egress_confirm };

        if (!yes && !isatty(STDIN_FILENO)) {
                err_set(err, ENOTTY, "standard input is no terminal, so nothing can be asked; give --yes to agree");
                return EXIT_USAGE;
        }

        if (egress_setup(&setup, &talk, err) < 0)
                return exit_of_error(err);

        return EXIT_OK;
}

static const struct verb verb_setup = {
        .name = "setup",
        .synopsis = "[OPTIONS]",
        .help = "find credentials, make CA and stand-ins",
        .about =
            "Looks for the variables of known providers in this environment (or for secrets of these names in "
            "Bitwarden), asks about each, reads each once, and makes a CA and the stand-ins that containers are given. "
            "Warns about credentials that cannot be covered.\n\n"
            "What was set up before stays: stand-ins (unless --rotate-tokens), sources (unless --from-bitwarden or "
            "--no-bitwarden) and settings.",
        .tables = { &setup_table },
        .max_words = 0,
        .run = run_setup,
};

/* --- start, stop, restart, reload, disable --- */

static int start_service(struct err *err) {
        int r = egress_start(&quiet_talk, err);
        if (r < 0)
                return exit_of_error(err);
        printf(r == 1 ? "it runs already\n" : "started\n");
        return EXIT_OK;
}

static int stop_service(struct err *err) {
        int r = egress_stop(&quiet_talk, err);
        if (r < 0)
                return exit_of_error(err);
        printf(r == 1 ? "it does not run\n" : "stopped\n");
        return EXIT_OK;
}

static int run_start(const struct call *call, struct err *err) {
        (void)call;
        return start_service(err);
}

static int run_stop(const struct call *call, struct err *err) {
        (void)call;
        return stop_service(err);
}

static int run_restart(const struct call *call, struct err *err) {
        (void)call;
        int r = stop_service(err);
        if (r == EXIT_OK)
                return start_service(err);

        return r;
}

static int run_reload(const struct call *call, struct err *err) {
        (void)call;
        if (egress_reload(&quiet_talk, err) < 0)
                return exit_of_error(err);
        printf("reloaded\n");
        return EXIT_OK;
}

static int run_disable(const struct call *call, struct err *err) {
        (void)call;
        if (egress_disable(&quiet_talk, err) < 0)
                return exit_of_error(err);
        printf("disabled\n");
        return EXIT_OK;
}

static const struct verb verb_start = {
        .name = "start",
        .synopsis = "[OPTIONS]",
        .help = "start it in the background",
        .about =
            "Returns when it listens. When it runs already, that is no error. When it cannot start, the end of its "
            "log is shown and nothing stays behind.\n\nThe process gets an environment from an allow list and what "
            "the credentials' sources need, without proxy variables.",
        .run = run_start,
};
static const struct verb verb_stop = {
        .name = "stop",
        .synopsis = "[OPTIONS]",
        .help = "end it",
        .about = "Asks it to end, and ends it by force when it takes too long. A process that merely has its number is "
                 "never signalled.",
        .run = run_stop,
};
static const struct verb verb_restart = {
        .name = "restart", .synopsis = "[OPTIONS]", .help = "stop it, then start it", .run = run_restart
};
static const struct verb verb_reload = {
        .name = "reload",
        .synopsis = "[OPTIONS]",
        .help = "make changed settings count, without a break",
        .about =
            "Returns when the new settings count, and says what has changed. Hosts, credentials and limits do, and "
            "secrets are read again; where credentials or limits have changed, open connections end. When something is "
            "wrong with the settings, or a new credential cannot be read, everything stays as it was and the reason is "
            "shown. Port, bridge, hosts and ca_bundle need a restart, and so does a credential from a variable that "
            "was not set when the service was started.",
        .run = run_reload,
};
static const struct verb verb_disable = {
        .name = "disable",
        .synopsis = "[OPTIONS]",
        .help = "stop it, and let nobody start it until it is set up again",
        .run = run_disable,
};

/* --- status, config, docker-args --- */

enum { ROW_JSON, ROW_SHOW_TOKENS, STATUS_ROWS };
static const struct option status_rows[] = {
        [ROW_JSON] = { .flag = "json", .type = OPTION_FLAG, .help = "print one JSON object" },
        [ROW_SHOW_TOKENS] = { .flag = "show-tokens", .type = OPTION_FLAG, .help = "print stand-ins in full" },
};
static const struct option_table status_table = { "Output", status_rows, STATUS_ROWS };

static const struct option containers_rows[] = {
        { .flag = "json", .type = OPTION_FLAG, .help = "print a JSON list" },
};
static const struct option_table containers_table = { "Output", containers_rows, 1 };

static int run_status(const struct call *call, struct err *err) {
        cleanup(buf_done) struct buf out = BUF(8 << 20);
        bool running = false;
        if (egress_status(option_get_flag(&call->options, &status_rows[ROW_JSON]),
                          option_get_flag(&call->options, &status_rows[ROW_SHOW_TOKENS]), &out, &running, err) < 0)
                return exit_of_error(err);
        egress_put(&out);
        return running ? EXIT_OK : EXIT_NO;
}

static const struct verb verb_status = {
        .name = "status",
        .synopsis = "[OPTIONS]",
        .help = "whether it runs, where it listens, what it stands in for",
        .about = "No secret is shown; stand-ins only in part.\n\nExit code 0: it runs; 1: it does not.",
        .tables = { &status_table },
        .run = run_status,
};

static int run_config(const struct call *call, struct err *err) {
        cleanup(buf_done) struct buf out = BUF(8 << 20);
        if (egress_config(call->argv, &out, err) < 0)
                return exit_of_error(err);

        return egress_put(&out);
}

static const struct verb verb_config = {
        .name = "config",
        .synopsis = "[KEY=VALUE...]",
        .help = "change settings, print them",
        .about =
            "enabled, enforce_on_docker (true: what would undo the gateway is an error), fail_on_uncovered_providers "
            "(true: no start while a provider of models cannot be covered), allow_env_fallback (true: the environment "
            "stands in for what Bitwarden does not have), extra_allowed_hosts, allow_private and deny_cidrs (lists, "
            "separated by commas; deny_cidrs=null is the built-in list, only an explicit list changes it), port (0: a "
            "free one), bridge (auto, none, or the private address of a container bridge), hosts and ca_bundle "
            "(files), credential_source (env or bitwarden), bitwarden_project and bitwarden_token_env. The whole is "
            "checked before anything "
            "is written.",
        .max_words = -1,
        .run = run_config,
};

enum { ROW_LINES, DOCKER_ROWS };
static const struct option docker_rows[] = {
        [ROW_LINES] = { .flag = "lines", .type = OPTION_FLAG, .help = "one argument on each line, not quoted" },
};
static const struct option_table docker_table = { "Output", docker_rows, DOCKER_ROWS };

static int run_docker_args(const struct call *call, struct err *err) {
        cleanup(buf_done) struct buf out = BUF(8 << 20);
        if (egress_docker_args(call->argv, option_get_flag(&call->options, &docker_rows[ROW_LINES]), &quiet_talk, &out,
                               err) < 0)
                return exit_of_error(err);
        return egress_put(&out);
}

static const struct verb verb_docker_args = {
        .name = "docker-args",
        .synopsis = "[OPTIONS] [-- YOUR-ARGUMENTS...]",
        .help = "print arguments that put a container behind the gateway",
        .about =
            "For docker run and podman run: the network, a resolver that does not answer, the CA's certificates, proxy "
            "variables and stand-ins. One line, quoted for a shell:\n\n"
            "eval \"docker run -e CI=1 $(bailey egress docker-args -- -e CI=1) IMAGE COMMAND\"\n\n"
            "The words after -- are the arguments that you give yourself. One that would undo the gateway's is an "
            "error "
            "(a warning when enforce_on_docker is off). The network must have no other way out, and is made once: "
            "docker network create --internal bailey-egress. Engines take the last of two equal arguments, so let "
            "these "
            "follow your own. A container in it reaches the gateway, what else listens on this host's address there, "
            "and other containers in it.",
        .tables = { &docker_table },
        .max_words = -1,
        .flags = VERB_COMMAND,
        .run = run_docker_args,
};

enum { ROW_ENV_JSON, ROW_BRIDGE, ROW_CERTIFICATES, ENV_ROWS };
static const struct option env_rows[] = {
        [ROW_ENV_JSON] = { .flag = "json", .type = OPTION_FLAG, .help = "print one JSON object" },
        [ROW_BRIDGE] = { .flag = "bridge",
                         .type = OPTION_FLAG,
                         .help = "for programs behind the container bridge, instead of on this host" },
        [ROW_CERTIFICATES] = { .flag = "certificates",
                               .type = OPTION_STRING,
                               .metavar = "DIR",
                               .help = "where the program sees the gateway's certificates (default: where they are)" },
};
static const struct option_table env_table = { "Output", env_rows, ENV_ROWS };

static int run_env(const struct call *call, struct err *err) {
        cleanup(buf_done) struct buf out = BUF(8 << 20);
        const struct egress_env query = { .json = option_get_flag(&call->options, &env_rows[ROW_ENV_JSON]),
                                          .for_containers = option_get_flag(&call->options, &env_rows[ROW_BRIDGE]),
                                          .certificates = option_get(&call->options, &env_rows[ROW_CERTIFICATES]) };

        if (egress_env(&query, &out, err) < 0)
                return exit_of_error(err);

        return egress_put(&out);
}

static const struct verb verb_env = {
        .name = "env",
        .synopsis = "[OPTIONS]",
        .help = "print variables that put a program behind the gateway",
        .about = "For backends that are no container engine: virtual machines, chroots, runners. Shells read it with "
                 "eval \"$(bailey egress env)\". --json prints address, port, environment, and the files that the "
                 "program must see (source on this host, target as it sees it). The variables lead to the gateway; "
                 "that there is no other way out is for the backend to ensure.",
        .tables = { &env_table },
        .run = run_env,
};

static int run_containers(const struct call *call, struct err *err) {
        cleanup(buf_done) struct buf out = BUF(8 << 20);

        if (egress_containers(option_get_flag(&call->options, &containers_rows[0]), &out, err) < 0)
                return exit_of_error(err);
        return egress_put(&out);
}

static const struct verb verb_containers = {
        .name = "containers",
        .synopsis = "[OPTIONS]",
        .help = "the containers behind it, and what each may reach",
        .about =
            "Every container of the network bailey-egress has a list of its own: the service's settings, and what was "
            "allowed or denied for it by \"bailey allow --container NAME HOST\" and \"bailey deny --container NAME "
            "HOST\". For one that is connected all rules that count now are shown, each with its origin; for the "
            "others those that are remembered for it.",
        .tables = { &containers_table },
        .run = run_containers,
};

static int run_contain(const struct call *call, struct err *err) {
        return egress_contain(call->argv[0], call->argv[1], call->argv[2], err) < 0 ? EXIT_SYSTEM : EXIT_OK;
}

static const struct verb verb_contain = {
        .name = "contain",
        .flags = VERB_HIDDEN,
        .synopsis = "ENGINE ADDRESS LISTENER",
        .help = "the gateway of one container, started by the service",
        .min_words = 3,
        .max_words = 3,
        .run = run_contain,
};

static int run_serve(const struct call *call, struct err *err) {
        return egress_serve(call->argv[0], err) < 0 ? EXIT_SYSTEM : EXIT_OK;
}

static const struct verb verb_serve = {
        .name = "serve",
        .flags = VERB_HIDDEN,
        .synopsis = "NONCE",
        .help = "the service itself, started by start",
        .min_words = 1,
        .max_words = 1,
        .run = run_serve,
};

static const struct verb *const subs[] = {
        &verb_setup,       &verb_start, &verb_stop,       &verb_restart, &verb_reload, &verb_status,  &verb_config,
        &verb_docker_args, &verb_env,   &verb_containers, &verb_disable, &verb_serve,  &verb_contain, NULL
};

const struct verb verb_egress = {
        .name = "egress",
        .group = GROUP_EGRESS,
        .synopsis = "setup|start|stop|status|config|containers|docker-args ...",
        .help = "the gateway in the background, for containers and guests",
        .about =
            "A gateway that belongs to the user and outlives the shell. Containers hold stand-ins; the gateway puts "
            "the real credentials into requests to the right hosts, and refuses every other host. Its state is in "
            "~/.local/state/bailey/egress, closed to others.",
        .subs = subs,
};
