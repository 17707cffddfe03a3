/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What a caller asks of run_command() (run/run.h). The parts of a run read it; none of them starts one. */
#include "base/err.h"
#include "conf/option.h"
#include "ipc/supervise_messages.h"

#include <stdbool.h>

struct judged;
struct learn;
struct link;
struct policy_request;
struct run_disk_start;
struct sandbox_ids;

/* A guest (src/guest): a home that lasts, perhaps an identity of its own, and an agent inside that starts what is asked
 * for. */
struct run_guest {
        const char *name;
        const char *home;              /* on the host; $HOME inside */
        const struct sandbox_ids *ids; /* NULL: it is this user */
        const char *program;           /* on the host; shown inside as RUN_GUEST_PROGRAM */
        const char *groups;            /* on the host; shown inside as /etc/group. NULL: the host's own */
        int listener;                  /* who connects here is handed to the agent */
        int agent;                     /* the other end of its standard input */
        const struct run_disk_start *disk;
        /* Makes a place in its home for something to be mounted at: a directory, or an empty file. */
        int (*make_point)(void *arg, const char *path, bool directory, struct err *err);
        void *arg;
        int firewall; /* events of packets that its uid sent outside; -1: it has no such firewall */
};
#define RUN_GUEST_PROGRAM "/run/bailey-guest"

struct run_request {
        const struct option_values *options; /* rows of the policy's tables; others are ignored */
        char *const *argv;                   /* NULL-terminated */
        const char *hosts_file;              /* static names for the gateway, NULL for none */
        const char *ca_bundle;               /* roots that the gateway trusts, NULL for the system's */
        bool quiet;                          /* no summary at the end */
        bool starts_here;                    /* the command starts in the current directory, or not at all */
        struct learn *learn;                 /* not NULL: run observed (run/learn.h), and collect there */
        const struct policy_request *policy; /* not NULL: the policy comes from here, not from `options` */
        const struct judged *judged;         /* not NULL: goes into the record: what the classifier and people said */
        const supervise_texts *places;       /* not NULL: what another run closed for its credentials; pairs */
        const char *id, *audit_path;         /* not NULL: the name and the record that a question before it had */
        const struct run_guest *guest;       /* not NULL: this is the run of a guest */
        bool *ret_signalled;     /* not NULL: whether a signal ended the command, which its status leaves open */
        const struct link *link; /* not NULL: the program that controls the run (control/link.h) */
};
