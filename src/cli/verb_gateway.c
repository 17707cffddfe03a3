/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/gateway_service.h"

#include "base/cleanup.h"
#include "base/emit.h"
#include "base/log.h"
#include "cli/frame.h"
#include "verbs/policy_options.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

enum { ROW_HTTP, ROW_SOCKS, ROW_DNS, ROW_FROM, ROW_HOSTS, ROW_CA_BUNDLE, ROW_WORKERS, ROW_JSON, ROW_DIE, GATEWAY_ROWS };
static const struct option rows[] = {
        [ROW_HTTP] = { .flag = "http",
                       .type = OPTION_LIST,
                       .metavar = "ADDR:PORT",
                       .help = "listen for HTTP and CONNECT; port 0 takes a free one" },
        [ROW_SOCKS] = { .flag = "socks", .type = OPTION_LIST, .metavar = "ADDR:PORT", .help = "listen for SOCKS5" },
        [ROW_DNS] = { .flag = "dns",
                      .type = OPTION_LIST,
                      .metavar = "ADDR:PORT",
                      .help = "listen for DNS over UDP and TCP" },
        [ROW_FROM] = { .flag = "from",
                       .type = OPTION_LIST,
                       .metavar = "ADDR|NET",
                       .help = "serve only clients at this address or in this network, one container for instance; by "
                               "default whoever can reach a listener" },
        [ROW_HOSTS] = { .flag = "hosts",
                        .type = OPTION_PATH,
                        .metavar = "FILE",
                        .help = "take these names' addresses from a file in the form of /etc/hosts" },
        [ROW_CA_BUNDLE] = { .flag = "ca-bundle",
                            .type = OPTION_PATH,
                            .metavar = "FILE",
                            .help = "trust these roots too, besides the system's" },
        [ROW_WORKERS] = { .flag = "workers",
                          .type = OPTION_INTEGER,
                          .metavar = "N",
                          .min = 1,
                          .max = 64,
                          .help = "threads at most; another one starts when those that run have no time left; default: "
                                  "one for each processor" },
        [ROW_JSON] = { .flag = "json", .type = OPTION_FLAG, .help = "print one JSON object when ready" },
        [ROW_DIE] = { .flag = "die-with-parent",
                      .type = OPTION_FLAG,
                      .help = "end when the program that started this one has ended, also by a crash" },
};
static_assert(sizeof rows / sizeof *rows == GATEWAY_ROWS, "one row each");
static const struct option_table table = { "Gateway", rows, GATEWAY_ROWS };

enum { LIST_MAX = 32 };

static int gateway_collect(const struct option_values *values, unsigned row, const char *ret[LIST_MAX + 1],
                           struct err *err) {
        size_t n = 0;
        for (size_t i = 0; i < values->values.n; i++) {
                if (values->values.p[i].option != &rows[row])
                        continue;
                if (n == LIST_MAX)
                        return err_set(err, EINVAL, "more than %d times --%s", LIST_MAX, rows[row].flag);
                ret[n++] = values->values.p[i].text;
        }

        ret[n] = NULL;
        return 0;
}

/* The first HTTP listener: the API proxy is there, too. */
static const char *http_address(const struct service_info *info) {
        for (size_t i = 0; i < info->n_listeners; i++)
                if (strcmp(info->listeners[i].kind, "http") == 0)
                        return info->listeners[i].address;
        return NULL;
}

static void emit_base_urls(struct emit *json, const struct service_info *info) {
        const char *address = http_address(info);

        for (const char *const *v = address ? info->base_urls : NULL; v && *v; v++) {
                size_t n = strcspn(*v, "=");
                cleanup(free_ptr) char *name = str_dup(str_first(str_of(*v), n));
                cleanup(free_ptr) char *url = str_format("http://%s%s", address, *v + n + 1);
                if (name && url)
                        emit_put_text(json, name, url);
        }
}

static void print_json(const struct service_info *info) {
        static const char *const kinds[] = { "http", "socks", "dns" };
        cleanup(buf_done) struct buf out = BUF(65536);
        struct emit j = emit_to(&out);

        emit_open(&j, '{');
        emit_put_text(&j, "event", "ready");
        emit_put_number(&j, "pid", (uint64_t)getpid());
        emit_put_number(&j, "gateway_pid", (uint64_t)info->gateway_pid);
        emit_put_text(&j, "run_id", info->run_id);

        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
                emit_key(&j, kinds[k]);
                emit_open(&j, '[');

                for (size_t i = 0; i < info->n_listeners; i++)
                        if (strcmp(info->listeners[i].kind, kinds[k]) == 0)
                                emit_text(&j, info->listeners[i].address);

                emit_close(&j);
        }

        emit_put_text(&j, "audit", info->audit);
        emit_put_text(&j, "ca_bundle", info->ca_bundle);
        emit_key(&j, "env");
        emit_open(&j, '{');

        for (const char *const *v = info->stand_ins; v && *v; v++) {
                cleanup(free_ptr) char *name = str_dup(str_first(str_of(*v), strcspn(*v, "=")));
                if (name)
                        emit_put_text(&j, name, *v + strlen(name) + 1);
        }

        emit_base_urls(&j, info);
        emit_close(&j);
        emit_close(&j);

        if (emit_status(&j) == 0)
                printf("%.*s\n", STR_FMT(buf_str(&out)));
}

static void on_ready(void *arg, const struct service_info *info) {
        const struct call *call = arg;
        if (option_get_flag(&call->options, &rows[ROW_JSON]))
                print_json(info);
        else {
                for (size_t i = 0; i < info->n_listeners; i++)
                        printf("%-6s %s\n", info->listeners[i].kind, info->listeners[i].address);

                printf("%-6s %s\n", "audit", info->audit);
                if (info->ca_bundle)
                        printf("%-6s %s\n", "ca", info->ca_bundle);

                for (const char *const *v = info->stand_ins; v && *v; v++)
                        printf("%-6s %s\n", "env", *v);

                const char *address = http_address(info);
                for (const char *const *v = address ? info->base_urls : NULL; v && *v; v++)
                        printf("%-6s %.*s=http://%s%s\n", "env", (int)strcspn(*v, "="), *v, address,
                               *v + strcspn(*v, "=") + 1);

                printf("ready\n");
        }

        fflush(stdout);
}

static void on_message(void *arg, bool bad, const char *text) {
        (void)arg;
        if (bad)
                log_warning("gateway: %s", text);
        else
                log_notice("gateway: %s", text);
}

static int gateway_run(const struct call *call, struct err *err) {
        const char *http[LIST_MAX + 1], *socks[LIST_MAX + 1], *dns[LIST_MAX + 1], *from[LIST_MAX + 1];
        const struct option_values *values = &call->options;
        if (gateway_collect(values, ROW_HTTP, http, err) < 0 || gateway_collect(values, ROW_SOCKS, socks, err) < 0 ||
            gateway_collect(values, ROW_DNS, dns, err) < 0 || gateway_collect(values, ROW_FROM, from, err) < 0)
                return EXIT_USAGE;

        enum log_level level = LOG_NOTICE;
        const char *name = option_get(values, global_option(GLOBAL_LOG_LEVEL));
        if (name)
                (void)log_level_parse(name, &level);

        const struct service_settings settings = {
                .options = values,
                .http = http,
                .socks = socks,
                .dns = dns,
                .from = from,
                .hosts_file = option_get(values, &rows[ROW_HOSTS]),
                .ca_bundle = option_get(values, &rows[ROW_CA_BUNDLE]),
                .workers = option_given(values, &rows[ROW_WORKERS])
                               ? (unsigned)option_get_number(values, &rows[ROW_WORKERS])
                               : 0,
                .log_level = level,
                .on_ready = on_ready,
                .on_message = on_message,
                .arg = (void *)call,
        };
        if (option_get_flag(values, &rows[ROW_DIE]) && frame_die_with_parent(SIGTERM, err) < 0)
                return EXIT_SYSTEM;

        if (gateway_service_run(&settings, err) < 0)
                return exit_of_error(err);

        return EXIT_OK;
}

const struct verb verb_gateway = {
        .name = "gateway",
        .group = GROUP_EGRESS,
        .synopsis = "[OPTIONS] --http ADDR:PORT",
        .help = "run the gateway alone, in the foreground",
        .about =
            "Judges and relays what programs send to it by HTTP, CONNECT, SOCKS5 and DNS, by the network part of the "
            "policy. "
            "Point programs at it with \"bailey env\".\n"
            "It listens on loopback addresses, or on the address of a container bridge. SIGHUP reads the policy again: "
            "a policy with a mistake leaves the old rules in place, and tunnels that new rules refuse are closed. "
            "SIGTERM and SIGINT end it.",
        .tables = { &table, &policy_table_general, &policy_table_network, &policy_table_process, &policy_table_limits },
        .max_words = 0,
        .run = gateway_run,
};
