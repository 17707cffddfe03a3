/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From options to the plan: the policy is loaded, the vault opened, the host surveyed, the environment built. For a
 * look at the plan (`preview`) the same way is gone and nothing is made. Init waits for two things meanwhile, and is
 * told the first of them, which kind of network there is, as soon as the policy says so.
 */
#include "run/run_internal.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "control/live.h"
#include "control/own_records.h"
#include "policy/own_commands.h"
#include "policy/served.h"
#include "run/run_certificates.h"
#include "run/run_env.h"
#include "run/run_git.h"
#include "run/run_home.h"
#include "run/run_listen.h"
#include "run/run_own.h"
#include "run/run_programs.h"
#include "run/run_stdio.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* Without namespaces: a directory instead of the private /tmp, and two listeners on the host's own loopback. */
static int make_degraded_places(struct run *r, struct err *e) {
        int s = survey_neighbours(&r->host, e);
        if (s < 0)
                return s;
        s = run_tmpdir_make(&r->tmpdir, r->session.id, e);
        if (s < 0)
                return s;
        r->host.tmpdir = r->tmpdir.path;
        if (plan_network(r->session.policy) == NETWORK_NONE)
                return 0;
        s = run_listen_loopback(&r->host.http_port, &r->sandbox.listeners[0], e);
        r->sandbox.n_listeners = s == 0 ? 1 : 0;
        if (s == 0)
                s = run_listen_loopback(&r->host.socks_port, &r->sandbox.listeners[1], e);
        r->sandbox.n_listeners += s == 0 ? 1 : 0;
        return s;
}

/* Where the workspace's changes go, with --overlay. For a look at the plan nothing is made. */
static int make_overlay(struct run *r, bool degraded, struct err *e) {
        if (!r->session.policy->filesystem.overlay)
                return 0;
        if (degraded)
                return err_set(e, EOPNOTSUPP,
                               "--overlay needs namespaces, which this machine does not give; see `bailey doctor`");
        int s = r->preview ? 0 : overlays_new(r->session.id, r->session.policy->workspace, &r->overlay, e);
        r->host.overlay_upper = r->preview ? "UPPER" : r->overlay.upper;
        r->host.overlay_work = r->preview ? "WORK" : r->overlay.work;
        return s;
}

/* For learning: the network open, so that one run shows all that is reached; files as they are, with refusals told. */
static void observe(struct policy *p) {
        if (p->mode != MODE_READ_ONLY)
                p->mode = MODE_FULL_NETWORK;
        p->process.trace_denials = true;
}

/* Before the plan: what the sandbox is given instead of secrets is part of it. */
static int open_vault(struct run *r, struct err *e) {
        const struct vault_session_request q = { .policy = r->session.policy,
                                                 .id = r->session.id,
                                                 .roots = r->q->ca_bundle,
                                                 .environment = environ,
                                                 .preview = r->preview };
        return vault_session_open(r->session.vault, &q, e);
}

static int run_plan_build(struct run *r, struct err *e) {
        const struct plan_request request = {
                .policy = r->session.policy,
                .rules = r->rules,
                .host = &r->host,
                .id = r->session.id,
                .argv = (const char *const *)r->q->argv,
                .env = (const char *const *)r->env.block,
        };
        int s = plan_build(&request, &r->plan, e);

        if (s == -EACCES) /* it cannot start where it was asked to */
                r->end = RUN_REFUSED;
        return s;
}

/* Whether a command may start without namespaces. */
static int check_degraded(struct run *r, struct err *e) {
        const char *outer = getenv("BAILEY_SANDBOX");

        if (r->session.policy->process.allow_degraded)
                return 0;
        r->end = RUN_UNAVAILABLE;
        if (!outer)
                return err_set(e, r->no_namespaces.code,
                               "%s. `bailey doctor` says why and what helps; with --allow-degraded the command runs "
                               "with less protection",
                               err_text(&r->no_namespaces));
        return err_set(e, r->no_namespaces.code,
                       "this is already inside the sandbox %s, which lets no other one be made: run the command "
                       "without `bailey run`, it is confined here. %s",
                       outer,
                       r->host.landlock_abi
                           ? "With --allow-degraded another one starts, which protects less"
                           : "Sandboxes of other programs need --nesting with the outer one; with that, Bailey starts "
                             "with --allow-degraded");
}

int run_plan_make(struct run *r, struct err *e) {
        const bool degraded = r->degraded;
        cleanup(free_ptr) char *controls = NULL;
        struct policy_request request = r->q->policy
                                            ? *r->q->policy
                                            : (struct policy_request){ .command_line = r->q->options,
                                                                       .program = r->q->argv ? r->q->argv[0] : NULL };
        if (r->q->guest) {
                request.workspace = r->q->guest->home;
                request.guest = true;
                request.program = NULL; /* the agent has no profile; what it starts is not known yet */
        }
        int s = policy_load(&request, &r->session.policy, e);
        if (s == 0 && r->q->learn)
                observe(r->session.policy);
        if (s == 0 && r->sandbox.pid > 0)
                s = sandbox_network(&r->sandbox, plan_network(r->session.policy) != NETWORK_NONE, e);
        r->end = s == -EPERM ? RUN_REFUSED : RUN_BAD_POLICY;
        if (s == 0)
                s = own_commands_check(r->session.policy, environ, e);
        if (s == 0 && degraded && r->session.policy->process.allow_degraded)
                s = policy_check_served(r->session.policy, PLACE_DEGRADED, e);
        if (s == 0)
                s = open_vault(r, e);
        if (s == 0)
                s = path_rules_compile(r->session.policy, &r->rules, e);
        if (s == 0) {
                r->end = RUN_FAILED;
                s = run_home_open(r, e);
        }
        if (s == 0) {
                s = degraded ? 0 : live_place(r->preview, &controls, e);
        }
        if (s == 0 && !r->preview)
                s = guards_begin(&r->guards, r->rules, e);
        if (s == 0)
                s = survey_host(r->session.policy, r->rules, controls, &r->host, e);
        if (s == 0)
                s = guards_share(&r->guards, &r->host, e);
        if (s == 0)
                s = degraded ? check_degraded(r, e) : 0; /* before what only matters for a command that starts */
        if (s == 0)
                s = run_stdio(r->rules, r->host.landlock_abi > 0, e);
        if (s == 0)
                s = run_own(r->session.policy, r->q, r->rules, degraded, &r->host, e);
        if (s == 0)
                s = own_records(r->session.policy, r->rules, r->preview ? NULL : r->session.id, &r->host,
                                &r->session.audit_path, e);
        if (s == 0)
                s = live_hide(&r->host, controls, e);
        if (s == 0)
                s = run_home_show(r, e);
        if (s == 0)
                s = run_bridge_prepare(r, e);
        if (s < 0)
                return s;
        r->host.namespaces = !degraded;
        r->host.has_terminal = r->session.terminal.fd >= 0;
        r->host.cwd_is_asked = r->q->starts_here;
        if (degraded) {
                s = make_degraded_places(r, e);
        }
        if (s == 0)
                s = make_overlay(r, degraded, e);
        if (s == 0)
                s = run_git_copy(r, e);
        if (s == 0 && !degraded)
                s = run_programs_show(r->session.policy, &r->host, e);
        if (s == 0 && !degraded)
                s = run_certificates_cover(r->session.vault, &r->host, e);
        if (s == 0)
                s = run_env(r->session.policy, &r->host, r->session.vault, r->session.id, &r->env, e);
        r->home_filled_us = clock_wall_us();
        if (s == 0)
                s = run_plan_build(r, e);
        return s < 0 ? s : guards_record(&r->guards, r->plan, e);
}
