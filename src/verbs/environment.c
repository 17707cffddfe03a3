/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs/environment.h"

#include "base/cleanup.h"
#include "base/emit.h"
#include "base/escape.h"
#include "plan/env.h"
#include "policy/load.h"
#include "policy/match/host.h"
#include "roles/listen.h"

#include <errno.h>
#include <stdlib.h>

static int parse_gateway(const char *text, const char *flag, char address[static ADDR_TEXT_MAX + 2], uint16_t *ret_port,
                         struct err *err) {
        struct authority authority;

        if (authority_parse(str_of(text), 0, &authority, NULL) < 0 || authority.host.kind != HOST_ADDR)
                return err_set(err, EINVAL, "--%s takes the ADDR:PORT of a gateway, such as 127.0.0.1:3128", flag);

        struct endpoint at = { authority.host.addr, authority.port };
        char full[LISTEN_TEXT_MAX];
        listen_text(&at, full);

        struct str host = str_first(str_of(full), (size_t)str_rfind(str_of(full), ':'));
        memcpy(address, host.p, host.n);
        address[host.n] = '\0';
        *ret_port = authority.port;

        return 0;
}

/* The texts of a list as a NULL-terminated array; the texts stay the policy's. */
static const char **environment_texts(const origin_texts *list) {
        const char **array = calloc(list->n + 1, sizeof *array);
        for (size_t i = 0; array && i < list->n; i++)
                array[i] = list->p[i].text;
        return array;
}

static int print_shell(const struct env *env, struct buf *out) {
        int r = 0;
        for (size_t i = 0; i < env->entries.n && r == 0; i++) {
                const struct env_entry *entry = &env->entries.p[i];
                if (entry->action == ENV_STRIPPED &&
                    strspn(entry->name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") ==
                        strlen(entry->name))
                        r = buf_printf(out, "unset %s # %s\n", entry->name, entry->why);

                if (entry->action != ENV_SET && entry->action != ENV_CHANGED)
                        continue;

                r = buf_printf(out, "export %s=", entry->name);
                if (r >= 0)
                        r = escape_shell(out, str_of(entry->value));
                if (r >= 0)
                        r = buf_add_char(out, '\n');
        }

        return r;
}

static int print_json(const struct env *env, struct buf *out) {
        struct emit j = emit_to(out);

        emit_open(&j, '[');

        for (size_t i = 0; i < env->entries.n; i++) {
                const struct env_entry *entry = &env->entries.p[i];

                emit_open(&j, '{');
                emit_put_text(&j, "name", entry->name);
                emit_put_text(&j, "action", env_action_name(entry->action));
                emit_put_text(&j, "why", entry->why);

                if (entry->action != ENV_STRIPPED)
                        emit_put_text(&j, "value", entry->value);

                emit_close(&j);
        }

        emit_close(&j);
        int r = emit_status(&j);
        if (r < 0)
                return r;

        return buf_add_char(out, '\n');
}

int environment_show(const struct environment_request *environment_request, struct buf *out, struct err *err) {
        const struct policy_request request = { .command_line = environment_request->options, .network_only = true };
        char http[ADDR_TEXT_MAX + 2] = "", socks[ADDR_TEXT_MAX + 2] = "";
        struct env_input in = { .host = environment_request->host,
                                .sandbox_id = environment_request->sandbox_id,
                                .container = environment_request->container };

        err_blame(err, ERR_USAGE);
        int r =
            environment_request->http ? parse_gateway(environment_request->http, "http", http, &in.http_port, err) : 0;
        if (r == 0 && environment_request->socks)
                r = parse_gateway(environment_request->socks, "socks", socks, &in.socks_port, err);
        if (r == 0 && environment_request->http && environment_request->socks && strcmp(http, socks) != 0)
                r = err_set(err, EINVAL, "--http and --socks must name the same address");
        if (r < 0)
                return r;

        if (environment_request->http)
                in.proxy_address = http;
        else if (environment_request->socks)
                in.proxy_address = socks;
        else
                in.proxy_address = NULL;
        cleanup(free_ptr) char *self = realpath("/proc/self/exe", NULL);
        in.bailey = self;

        cleanup(policy_freep) struct policy *policy = NULL;
        err_blame(err, ERR_CONFIG);
        r = policy_load(&request, &policy, err);
        if (r < 0)
                return r;

        cleanup(free_ptr) const char **pass = environment_texts(&policy->process.env_pass),
                                     **set = environment_texts(&policy->process.env_set);
        if (!pass || !set)
                return err_memory(err);

        in.pass = pass;
        in.set = set;
        cleanup(env_done) struct env env = { 0 };
        r = env_build(&in, &env, err);
        if (r < 0)
                return r;

        if (environment_request->json)
                r = print_json(&env, out);
        else
                r = print_shell(&env, out);
        if (r < 0)
                return err_set(err, -r, "the environment is too large to print");

        return 0;
}
