/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/egress_facts.h"
#include "base/cleanup.h"
#include "container/container_args.h"
#include "roles/listen.h"

#include <errno.h>
#include <stdlib.h>

void egress_facts_done(struct egress_facts *facts) {
        env_done(&facts->env);
}

int egress_facts_listener(struct egress_facts *ret, const struct egress_view *view, enum egress_reach reach,
                          struct err *err) {
        for (const struct node *node = egress_view_members(view->service, "http"); node; node = node->next) {
                struct endpoint at;

                if (listen_parse(node->text, &at, NULL) < 0)
                        continue;
                if ((addr_classify(&at.addr) == ADDR_CLASS_LOOPBACK) != (reach == EGRESS_FOR_THIS_HOST))
                        continue;

                addr_text(&at.addr, ret->address);
                ret->port = at.port;
                return 0;
        }

        if (reach == EGRESS_FOR_THIS_HOST)
                return err_set(err, ENOENT, "the gateway does not listen on loopback; see \"bailey egress status\"");

        return err_set(err, ENOENT,
                       "the gateway listens on loopback only, where no container reaches it. " EGRESS_MAKE_NETWORK);
}

/* The user's own values of variables that are appended to, as an environment; NULL-terminated. */
static int take_own_values(char *const *given, text_list *ret, struct err *err) {
        static const char *const names[] = { "NODE_OPTIONS", "JAVA_TOOL_OPTIONS" };
        int r = 0;

        if (vec_reserve(ret, sizeof names / sizeof *names + 1) < 0)
                r = err_memory(err);

        for (size_t i = 0; r == 0 && i < sizeof names / sizeof *names; i++) {
                cleanup(free_ptr) char *value = container_args_variable(given, names[i]);

                if (value)
                        r = text_list_take(ret, str_format("%s=%s", names[i], value), err);
        }

        if (r == 0)
                ret->p[ret->n] = NULL;

        return r;
}

static int take_stand_ins(struct egress_facts *facts, const struct egress_view *view, const char ***ret,
                          struct err *err) {
        const struct node *first = egress_view_members(view->service, "env");
        size_t n = 0;

        for (const struct node *v = first; v; v = v->next)
                n++;

        *ret = calloc(n + 1, sizeof **ret);
        if (!*ret)
                return err_memory(err);

        facts->n_stand_ins = 0;
        for (const struct node *v = first; v; v = v->next)
                (*ret)[facts->n_stand_ins++] = v->text.p;

        return 0;
}

/* Where SDKs find the API proxy: at the gateway's own port. Variables that the user sets are kept. */
static int take_base_urls(const struct egress_facts *facts, const struct egress_view *view, char *const *given,
                          text_list *ret, struct err *err) {
        int r = 0;

        if (vec_reserve(ret, 1) < 0)
                r = err_memory(err);

        for (const struct node *v = egress_view_members(view->service, "base_urls"); v && r == 0; v = v->next) {
                ptrdiff_t equals = str_find(v->text, '=');
                cleanup(free_ptr) char *name = equals > 0 ? str_dup(str_first(v->text, (size_t)equals)) : NULL;
                cleanup(free_ptr) char *own = name ? container_args_variable(given, name) : NULL;

                if (name && !own)
                        r = text_list_take(ret,
                                           str_format("%s=http://%s:%u%.*s", name, facts->address, facts->port,
                                                      STR_FMT(str_skip(v->text, (size_t)equals + 1))),
                                           err);
        }

        if (r == 0 && vec_reserve(ret, 1) < 0)
                r = err_memory(err);
        if (r == 0)
                ret->p[ret->n] = NULL;

        return r;
}

int egress_facts_variables(struct egress_facts *facts, const struct egress_view *view, char *const *given,
                           const char *ca_bundle, const char *java_store, struct err *err) {
        cleanup(free_ptr) const char **stand_ins = NULL;
        cleanup(text_list_done) text_list own = { 0 }, base_urls = { 0 };
        int r = take_stand_ins(facts, view, &stand_ins, err);
        if (r < 0)
                return r;

        r = take_own_values(given, &own, err);
        if (r < 0)
                return r;

        r = take_base_urls(facts, view, given, &base_urls, err);
        if (r < 0)
                return r;

        struct env_input in = { .host = own.p,
                                .sandbox_id = "egress",
                                .container = true,
                                .http_port = facts->port,
                                .proxy_address = facts->address,
                                .stand_ins = stand_ins,
                                .base_urls = (const char *const *)base_urls.p };

        facts->has_ca = egress_view_text(view->service, "ca_bundle").n > 0;
        if (facts->has_ca) {
                in.ca_bundle = ca_bundle;
                in.java_trust_store = java_store;
        }

        return env_build(&in, &facts->env, err);
}
