/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Between the files of one run's supervisor: run.c (its life), run_plan.c (from options to the plan), run_network.c
 * (the gateway's side of it). Everything in the struct is undone by run.c. */
#include "base/processes/rest.h"
#include "control/session.h"
#include "kept/git_copies.h"
#include "kept/guard_registry.h"
#include "kept/home.h"
#include "kept/overlays.h"
#include "plan/plan.h"
#include "policy/load.h"
#include "roles/host_programs.h"
#include "run/bridge/run_bridge.h"
#include "run/bridge/run_browser.h"
#include "run/run_disk.h"
#include "run/run_env.h"
#include "run/run_files.h"
#include "run/run_grants.h"
#include "run/run_held.h"
#include "run/run_limits.h"
#include "run/run_ratchet.h"
#include "run/run_report.h"
#include "run/run_request.h"
#include "run/run_tmpdir.h"
#include "run/terminal_state.h"
#include "sandbox/denials.h"
#include "sandbox/named.h"
#include "sandbox/sandbox.h"
#include "store/audit_keep.h"

/* The life of a run. An error in any state leads to ENDING: the sandbox ends first, then the error is reported. */
enum run_state {
        RUN_PREPARING,  /* init exists, or not even that, and has no plan */
        RUN_SETTING_UP, /* init applies the plan; nothing of the command runs */
        RUN_RUNNING,    /* init was told to go */
        RUN_ENDING,     /* the sandbox is gone or going, and what was made is undone */
        RUN_STATES
};

struct run {
        const struct run_request *q;
        char *shown[3]; /* a guest's command, as people know it: guest NAME */
        struct session
            session;          /* its control is NULL without namespaces, unless the kernel says for certain who asks */
        enum run_state state; /* changed by run_set_state() alone */
        struct rest rest;
        struct path_rules *rules;
        struct plan_host host;
        struct run_env env;
        struct plan *plan;
        struct overlay_run overlay; /* with --overlay */
        struct home home;           /* of the sandbox's own */
        uint64_t home_filled_us;    /* wall clock: whatever is written in it later is not Bailey's */
        struct sandbox sandbox;
        struct denials denials;
        struct named named;
        struct guards guards;
        struct git_copies git;
        struct terminal_state terminal_before;
        bool terminal_saved;
        struct host_programs programs;
        struct run_bridge bridge;
        struct run_browser browser;
        struct run_ratchet ratchet;
        struct run_grants grants; /* paths that were opened while it runs */
        struct run_held held;     /* opens that wait for a person */
        struct run_report report;
        struct run_disk disk;   /* of a guest */
        struct sandbox_met met; /* limits of the whole sandbox that were reached */
        struct run_files_share files;
        int published[PLAN_LISTENERS_MAX];
        char *mark;       /* where it is marked that this program needs a gateway soon; NULL: nowhere */
        bool marked;      /* it was */
        uint64_t term_ns; /* when a command that was asked to end is ended; CLOCK_NEVER: it was not asked */
        enum run_end end;
        int status;
        bool degraded;
        struct err no_namespaces; /* why */
        struct run_tmpdir tmpdir; /* degraded */
        bool preview;             /* only the plan is wanted: nothing is made */
        bool emptied;             /* nothing of the sandbox lives but init */
};

/* From options to the plan. run->end says whose fault a failure is. */
int run_plan_make(struct run *run, struct err *err);

/* The command starts: a gateway may soon be needed. */
void run_network_begin(struct run *run);
/* A part of the session's poller: the listeners, while there is no gateway. The first connection makes one. */
void run_network_watch(void *run, struct poller *poller);
int run_network_step(void *run, struct poller *poller, struct err *err);
/* What the gateway reports. */
void run_network_event(void *run, const struct event *ev, const struct snapshot_rule *rule);
/* The gateway's last word, and its end. */
void run_network_end(struct run *run);
/* Connections are judged by this policy from now on, which it takes; what the sandbox sees of files was settled when it
 * began. heard->judged, which it takes as well: see gateway_process_when_judged(). */
int run_network_use(void *run, const struct link_heard *heard, struct err *err);
