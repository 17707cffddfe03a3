/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs/environment.h"

#include "base/cleanup.h"
#include "base/emit.h"
#include "base/escape.h"
#include "plan/env.h"
#include "policy/host.h"
#include "policy/load.h"
#include "roles/listen.h"

#include <errno.h>
#include <stdlib.h>

static int parse_gateway(const char *text, const char *flag, char address[static ADDR_TEXT_MAX + 2], uint16_t *ret_port,
                         struct err *e) {
        struct authority a;
        if (authority_parse(str_of(text), 0, &a, NULL) < 0 || a.host.kind != HOST_ADDR)
                return err_set(e, EINVAL, "--%s takes the ADDR:PORT of a gateway, such as 127.0.0.1:3128", flag);
        struct endpoint at = { a.host.addr, a.port };
        char full[LISTEN_TEXT_MAX];
        listen_text(&at, full);
        struct str host = str_first(str_of(full), (size_t)str_rfind(str_of(full), ':'));
        memcpy(address, host.p, host.n);
        address[host.n] = '\0';
        *ret_port = a.port;
        return 0;
}

/* The texts of a list as a NULL-terminated array; the texts stay the policy's. */
static const char **texts(const origin_texts *list) {
        const char **array = calloc(list->n + 1, sizeof *array);
        for (size_t i = 0; array && i < list->n; i++)
                array[i] = list->p[i].text;
        return array;
}

static int print_shell(const struct env *env, struct buf *out) {
        int r = 0;
        for (size_t i = 0; i < env->entries.n && r == 0; i++) {
                const struct env_entry *x = &env->entries.p[i];
                if (x->action == ENV_STRIPPED &&
                    strspn(x->name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") ==
                        strlen(x->name))
                        r = buf_printf(out, "unset %s # %s\n", x->name, x->why);
                if (x->action != ENV_SET && x->action != ENV_CHANGED)
                        continue;
                r = buf_printf(out, "export %s=", x->name);
                r = r < 0 ? r : escape_shell(out, str_of(x->value));
                r = r < 0 ? r : buf_add_char(out, '\n');
        }
        return r;
}

static int print_json(const struct env *env, struct buf *out) {
        struct emit j = emit_to(out);
        emit_open(&j, '[');
        for (size_t i = 0; i < env->entries.n; i++) {
                const struct env_entry *x = &env->entries.p[i];
                emit_open(&j, '{');
                emit_put_text(&j, "name", x->name);
                emit_put_text(&j, "action", env_action_name(x->action));
                emit_put_text(&j, "why", x->why);
                if (x->action != ENV_STRIPPED)
                        emit_put_text(&j, "value", x->value);
                emit_close(&j);
        }
        emit_close(&j);
        int r = emit_status(&j);
        return r < 0 ? r : buf_add_char(out, '\n');
}

int environment_show(const struct environment_request *q, struct buf *out, struct err *e) {
        const struct policy_request request = { .command_line = q->options, .network_only = true };
        char http[ADDR_TEXT_MAX + 2] = "", socks[ADDR_TEXT_MAX + 2] = "";
        struct env_input in = { .host = q->host, .sandbox_id = q->sandbox_id, .container = q->container };
        err_blame(e, ERR_USAGE);
        int r = q->http ? parse_gateway(q->http, "http", http, &in.http_port, e) : 0;
        if (r == 0 && q->socks)
                r = parse_gateway(q->socks, "socks", socks, &in.socks_port, e);
        if (r == 0 && q->http && q->socks && strcmp(http, socks) != 0)
                r = err_set(e, EINVAL, "--http and --socks must name the same address");
        if (r < 0)
                return r;
        in.proxy_address = q->http ? http : q->socks ? socks : NULL;
        cleanup(free_ptr) char *self = realpath("/proc/self/exe", NULL);
        in.bailey = self;

        cleanup(policy_freep) struct policy *p = NULL;
        err_blame(e, ERR_CONFIG);
        r = policy_load(&request, &p, e);
        if (r < 0)
                return r;
        cleanup(free_ptr) const char **pass = texts(&p->process.env_pass), **set = texts(&p->process.env_set);
        if (!pass || !set)
                return err_memory(e);
        in.pass = pass;
        in.set = set;
        cleanup(env_done) struct env env = { 0 };
        r = env_build(&in, &env, e);
        if (r < 0)
                return r;
        r = q->json ? print_json(&env, out) : print_shell(&env, out);
        return r < 0 ? err_set(e, -r, "the environment is too large to print") : 0;
}
