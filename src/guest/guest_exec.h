/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Commands in a running guest, from outside. Their input and output go through this process: nothing that the host has
 * open is handed in, and what comes out is bytes.
 */
#include "guest/guest_place.h"

struct guest_command {
        char *const *argv;
        const char *directory;  /* inside; NULL: the home */
        char *const *variables; /* NAME=VALUE; NULL: none */
        bool terminal;          /* a terminal inside, shown on ours */
        bool login;
        int input, output, errors;                      /* ours; -1: nothing, or nowhere */
        uint64_t output_max;                            /* 0: no limit; what is more is read and dropped */
        uint64_t timeout_ns;                            /* 0: none; then it is ended, and the result is -ETIMEDOUT */
        void (*on_output)(void *arg, struct str bytes); /* sees output and errors; NULL: nobody does */
        void *on_output_arg;
};

/* Until it ends. *ret_status as a shell has it; 126 and 127 where it could not be executed, with the reason in err and
 * a return of 0. -EPIPE: the guest ended. `started` (or NULL) is called when it runs. */
int guest_exec(const struct guest *guest, const struct guest_command *command, void (*started)(void *arg), void *arg,
               int *ret_status, struct err *err);

/* Whether the agent answers; waits as long as the guest is being started. */
int guest_ping(const struct guest *guest, struct err *err);
/* How many commands and jobs are at work in it, as its agent says; below 0: it does not say. */
int guest_sessions(const struct guest *guest);
int guest_ask_stop(const struct guest *guest, struct err *err);
