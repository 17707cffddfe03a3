/* SPDX-License-Identifier: Apache-2.0 */
/* bailey guest ports, and the connector inside. */
#include "guest/guest_ports.h"

#include "base/cleanup.h"
#include "base/emit.h"
#include "cli/verb_guest_internal.h"
#include "guest/recipe/recipe.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define SETTING "publish"

enum { PORTS_PUBLISH, PORTS_CLOSE, PORTS_JSON, PORTS_ROWS };
static const struct option ports_rows[] = {
        [PORTS_PUBLISH] = { .flag = "publish",
                            .letter = 'p',
                            .type = OPTION_LIST,
                            .metavar = "PORT:PORT",
                            .help = "offer a port of the guest (second) on 127.0.0.1 (first), now and at every start" },
        [PORTS_CLOSE] = { .flag = "close",
                          .type = OPTION_LIST,
                          .metavar = "PORT",
                          .help = "do not offer this port of 127.0.0.1 any more" },
        [PORTS_JSON] = { .flag = "json", .type = OPTION_FLAG, .help = "print for programs" },
};
static_assert(sizeof ports_rows / sizeof *ports_rows == PORTS_ROWS, "one row each");
static const struct option_table ports_table = { "Options", ports_rows, PORTS_ROWS };

static bool port_number(struct str text, uint16_t *ret) {
        uint64_t port;

        if (!str_to_u64(text, UINT16_MAX, &port) || port == 0)
                return false;
        *ret = (uint16_t)port;
        return true;
}

/* "8080:80", or with 127.0.0.1 before it. */
static bool map_parse(const char *text, uint16_t *ret_outside, uint16_t *ret_inside) {
        struct str rest = str_of(text), first;

        if (str_starts(rest, STR("127.0.0.1:")))
                rest = str_skip(rest, 10);
        return str_split(&rest, ':', &first) && port_number(first, ret_outside) && port_number(rest, ret_inside);
}

static int port_publish(struct guests *guests, const struct guest *guest, const char *text, struct err *err) {
        uint16_t outside, inside;
        char kept[32];

        if (!map_parse(text, &outside, &inside)) {
                err_blame(err, ERR_USAGE);
                return err_set(err, EINVAL,
                               "'%s': --publish wants two ports, outside and inside, as 8080:80; other addresses than "
                               "127.0.0.1 are for --publish of create and start",
                               text);
        }

        snprintf(kept, sizeof kept, "%u:%u", outside, inside);
        int r = 0;

        if (guest_is_running(guest))
                r = guest_port_open(guests, guest, outside, inside, err);

        if (r == 0)
                r = guests_db_remove_setting(guests->db, guest->row.id, SETTING, kept, err);
        if (r < 0)
                return r;

        return guests_db_add_setting(guests->db, guest->row.id, SETTING, kept, err);
}

struct ports_seen {
        uint16_t wanted; /* 0: all */
        bool running;
        struct emit *j;
        recipe_texts *found;
};

static int port_find(void *arg, const char *flag, const char *text) {
        struct ports_seen *seen = arg;
        uint16_t outside, inside;

        if (strcmp(flag, SETTING) != 0 || !map_parse(text, &outside, &inside) || outside != seen->wanted)
                return 0;

        char *copy = str_dup(str_of(text));
        if (copy && vec_push(seen->found, copy) == 0)
                return 0;

        free(copy);
        return -ENOMEM;
}

static int port_close(struct guests *guests, const struct guest *guest, const char *text, struct err *err) {
        cleanup(recipe_texts_done) recipe_texts found = { 0 };
        struct ports_seen seen = { .found = &found };

        if (!port_number(str_of(text), &seen.wanted)) {
                err_blame(err, ERR_USAGE);
                return err_set(err, EINVAL, "'%s' is not a port", text);
        }

        int r = guests_db_settings(guests->db, guest->row.id, port_find, &seen, err);
        for (size_t i = 0; i < found.n && r == 0; i++)
                r = guests_db_remove_setting(guests->db, guest->row.id, SETTING, found.p[i], err);

        if (r < 0)
                return r;

        int closed = guest_port_close(guest, seen.wanted, err);
        if (closed < 0)
                return closed;
        if (found.n == 0 && !closed)
                return err_set(err, ENOENT, "%s does not offer port %s", guest->row.name, text);
        if (!closed && guest_is_running(guest))
                printf("port %s is offered until %s stops\n", text, guest->row.name);

        return 0;
}

static int port_show(void *arg, const char *flag, const char *text) {
        struct ports_seen *seen = arg;
        uint16_t outside = 0, inside = 0;

        if (strcmp(flag, SETTING) != 0)
                return 0;

        bool plain = map_parse(text, &outside, &inside);

        if (!seen->j) {
                printf("%-24s %s\n", text, seen->running ? "open" : "from its next start on");
                return 0;
        }

        emit_open(seen->j, '{');
        emit_put_text(seen->j, "publish", text);

        if (plain) {
                emit_put_number(seen->j, "outside", outside);
                emit_put_number(seen->j, "inside", inside);
        }

        emit_put_text(seen->j, "state", seen->running ? "open" : "closed");
        emit_close(seen->j);

        return 0;
}

static int ports_show(struct guests *guests, const struct guest *guest, bool json, struct err *err) {
        cleanup(buf_done) struct buf out = BUF(1 << 20);
        struct emit j = emit_to(&out);
        struct ports_seen seen = { .running = guest_is_running(guest), .j = json ? &j : NULL };

        if (json)
                emit_open(&j, '[');

        int r = guests_db_settings(guests->db, guest->row.id, port_show, &seen, err);
        if (json)
                emit_close(&j);
        if (r == 0 && json)
                printf("%.*s\n", STR_FMT(buf_str(&out)));

        return r;
}

static int run_ports(const struct call *call, struct err *err) {
        cleanup(guests_close) struct guests guests = { 0 };
        cleanup(guest_done) struct guest guest = GUEST_NONE;
        const struct option_value *value;
        int code = guest_open_held(call, &guests, &guest, err), r = 0;

        if (code != EXIT_OK)
                return code;

        for (size_t i = 0; r == 0 && (value = option_next(&call->options, &ports_rows[PORTS_CLOSE], &i));)
                r = port_close(&guests, &guest, value->text, err);

        for (size_t i = 0; r == 0 && (value = option_next(&call->options, &ports_rows[PORTS_PUBLISH], &i));)
                r = port_publish(&guests, &guest, value->text, err);

        bool changes = option_given(&call->options, &ports_rows[PORTS_CLOSE]) ||
                       option_given(&call->options, &ports_rows[PORTS_PUBLISH]);
        if (r == 0 && !changes)
                r = ports_show(&guests, &guest, option_get_flag(&call->options, &ports_rows[PORTS_JSON]), err);

        return exit_of_guest(r, err);
}

const struct verb verb_guest_ports = {
        .name = "ports",
        .flags = VERB_GUEST,
        .synopsis = "[OPTIONS] NAME",
        .help = "offer ports of a guest on this host's loopback, list and close them",
        .about = "What is published is offered at once if the guest runs, and at every start. Whoever may use this "
                 "host's loopback reaches the port.",
        .tables = { &ports_table },
        .min_words = 1,
        .max_words = 1,
        .run = run_ports,
};

static int run_connect(const struct call *call, struct err *err) {
        uint16_t port;

        if (!port_number(str_of(call->argv[0]), &port)) {
                err_set(err, EINVAL, "the word is a port");
                return EXIT_USAGE;
        }
        return guest_connect(port);
}

const struct verb verb_guest_connect = {
        .name = "guest-connect",
        .group = GROUP_RUN,
        .flags = VERB_HIDDEN,
        .synopsis = "PORT",
        .help = "connect standard input and output to a port, inside a guest",
        .min_words = 1,
        .max_words = 1,
        .run = run_connect,
};
