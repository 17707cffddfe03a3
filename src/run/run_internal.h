/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Between the files of one run's supervisor: run.c (its life), run_plan.c (from options to the plan), run_network.c
 * (the gateway's side of it). Everything in the struct is undone by run.c. */
#include "control/terminal.h"
#include "kept/git_copies.h"
#include "kept/guard_registry.h"
#include "kept/home.h"
#include "kept/overlays.h"
#include "plan/plan.h"
#include "policy/load.h"
#include "roles/gateway_process.h"
#include "roles/vault_session.h"
#include "run/run.h"
#include "run/run_env.h"
#include "run/run_files.h"
#include "run/run_limits.h"
#include "run/run_report.h"
#include "run/run_tmpdir.h"
#include "run/terminal_state.h"
#include "sandbox/linux/denials.h"
#include "sandbox/sandbox.h"
#include "store/audit_keep.h"

#include <poll.h>
#include <signal.h>

enum { RUN_ID_LENGTH = 12 };

struct run {
        const struct run_request *q;
        char id[RUN_ID_LENGTH + 1];
        struct policy *policy;
        struct policy *network; /* judges connections in its place: a newer one came by the link */
        struct path_rules *rules;
        struct plan_host host;
        struct run_env env;
        struct plan *plan;
        struct overlay_run overlay; /* with --overlay */
        struct home home;           /* of the sandbox's own */
        uint64_t home_filled_us;    /* wall clock: whatever is written in it later is not Bailey's */
        struct sandbox sandbox;
        struct denials denials;
        struct guards guards;
        struct git_copies git;
        struct terminal terminal;
        struct terminal_state terminal_before;
        bool terminal_saved;
        struct audit *audit;
        char *audit_path;
        struct gateway_process *gateway;
        struct live *control; /* NULL without namespaces */
        struct vault_session vault;
        struct run_report report;
        struct cgroup_met met; /* limits of the whole sandbox that were reached */
        struct run_files_share files;
        int published[PLAN_LISTENERS_MAX];
        sigset_t mask_before;
        int signals;
        uint64_t deadline_ns; /* 0: none */
        uint64_t term_ns;     /* when a command that was asked to end is ended; 0: it was not asked */
        enum run_end end;
        int status;
        bool ended;
        bool degraded;
        struct err no_namespaces; /* why */
        struct run_tmpdir tmpdir; /* degraded */
        bool preview;             /* only the plan is wanted: nothing is made */
        bool emptied;             /* nothing of the sandbox lives but init */
        bool torn_down;
};

/* From options to the plan. r->end says whose fault a failure is. */
int run_plan_make(struct run *r, struct err *e);

/* The listeners, while there is no gateway; then what it wants. */
size_t run_network_watch(const struct run *r, struct pollfd fds[static GATEWAY_POLL_MAX], int *timeout);
int run_network_step(struct run *r, const struct pollfd *fds, size_t n, struct err *e);
/* The gateway's last word, and its end. */
void run_network_end(struct run *r);
/* Connections are judged by this policy from now on, which it takes; what the sandbox sees of files was settled when it
 * began. `judged`, which it takes as well: see gateway_process_when_judged(). */
int run_network_use(struct run *r, struct policy *p, int judged, struct err *e);
