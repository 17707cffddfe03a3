/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The courier (ipc/courier_messages.h) as a program of the user's side sees it: one process, started with a vault
 * beside it when there are tokens, watched, and replaced when it dies.
 *
 *     courier_process_start(&settings, &c, err);      every token must have its value now
 *     courier_process_send(c, &message);
 *     courier_process_watch(c, poller), courier_process_step(c, poller): its side of a poller
 * (base/processes/poller.h); a step calls on_message courier_process_free(c);
 */
#include "base/err.h"
#include "base/processes/poller.h"
#include "ipc/courier_messages.h"

struct courier_process; /* opaque */

/* The vault's mapping number is the place in the list. */
struct courier_token {
        const char *name, *source; /* "env:NAME", "file:/PATH", ... */
        const char *host;          /* "HOST:PORT": the only place it goes to */
};

struct courier_settings {
        const struct courier_token *tokens;
        size_t n_tokens;
        char *const *environment; /* of the user */
        const char *ca_bundle;    /* absolute: roots beside the system's; NULL: none */
        /* COURIER_FAILED with id 0: the courier died, and with it everything that was under way. */
        void (*on_message)(void *arg, const struct courier_message *message);
        void (*on_notice)(void *arg, const char *text);
        void *arg;
};

int courier_process_start(const struct courier_settings *settings, struct courier_process **ret, struct err *err);
void courier_process_free(struct courier_process *courier);
void courier_process_freep(struct courier_process **courier);
/* -EPIPE while none runs, -EMSGSIZE. */
int courier_process_send(struct courier_process *courier, const struct courier_message *message);

void courier_process_watch(const struct courier_process *courier, struct poller *poller);
void courier_process_step(struct courier_process *courier, const struct poller *poller);
