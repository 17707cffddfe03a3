/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The gateway by itself, in the foreground: binds the listeners, loads the policy, supervises the process, until
 * SIGTERM or SIGINT. SIGHUP reads the policy again: everything is checked first, then the rules are swapped whole.
 * Where the CA is kept (`place`), other credentials, limits or an upstream proxy count too: a new vault and a new
 * gateway take over the listeners, and connections that are open end.
 */
#include "base/err.h"
#include "base/processes/poller.h"
#include "conf/option.h"

struct service_listener {
        const char *kind; /* "http", "socks", "dns" */
        char address[64]; /* "127.0.0.1:3128" */
};

struct service_info {
        const struct service_listener *listeners;
        size_t n_listeners;
        const char *audit, *run_id;
        int gateway_pid;
        const char *ca_bundle;        /* with credentials: what clients must trust; NULL: the gateway opens no TLS */
        const char *const *stand_ins; /* "K=V" for clients, NULL-terminated; NULL: none */
        const char *const *base_urls; /* "K=/PATH": with the address of an HTTP listener in front, for SDKs */
};

struct link;
struct policy_request;
struct vault_session_place;

/* Connections that somebody else accepts, at `address`, and hands over: SOCK_SEQPACKET, a descriptor each. */
struct service_handed {
        int fd; /* stays the caller's */
        const char *address;
};

struct service_settings {
        const struct option_values *options; /* of the policy */
        const struct policy_request *policy; /* not NULL: the policy comes from here, not from `options` */
        const char *name;                    /* as people know it: "gateway", "egress"; NULL: gateway */
        const struct link *link;             /* not NULL: the program that controls the service, which ends with it */
        /* Each NULL-terminated; "ADDRESS:PORT". */
        const char *const *http, *const *socks, *const *dns;
        const char *const
            *from; /* addresses and networks of the clients that it is for; none: anyone who can reach it */
        const struct service_handed *handed; /* NULL: none */
        const struct poller_part *part;      /* one more part of its loop; an error of its step ends the service */
        const char *container; /* not NULL: the one that it is for, ENGINE/NAME; it has a record of its own */
        const struct vault_session_place *place; /* not NULL: CA and stand-ins are kept there */
        const char *hosts_file, *ca_bundle;      /* NULL: none, the system's */
        unsigned workers;                        /* 0: number of processors */
        unsigned log_level;
        /* It accepts connections; again after the gateway was replaced. */
        void (*on_ready)(void *arg, const struct service_info *info);
        /* Something a person should know. */
        void (*on_message)(void *arg, bool bad, const char *text);
        /* SIGHUP was obeyed, or not; `ticket` is the number that came with it. What has changed, line by line, or why
         * everything is as before. May be NULL. */
        void (*on_reloaded)(void *arg, int ticket, bool ok, const char *text);
        void *arg;
};

/* Returns 0 after an orderly end. The error's kind says whose mistake it is. */
int gateway_service_run(const struct service_settings *settings, struct err *err);
