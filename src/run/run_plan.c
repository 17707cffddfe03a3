/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From options to the plan: the policy is loaded, the vault opened, the host surveyed, the environment built. A
 * `preview` takes the same path but creates nothing. Init waits for two messages meanwhile. The first, the kind of
 * network, is sent as soon as the policy is known.
 */
#include "run/run_internal.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "control/live.h"
#include "control/own_records.h"
#include "policy/paths/served.h"
#include "policy/tools/own_commands.h"
#include "run/bridge/run_own.h"
#include "run/run_certificates.h"
#include "run/run_env.h"
#include "run/run_git.h"
#include "run/run_home.h"
#include "run/run_listen.h"
#include "run/run_programs.h"
#include "run/run_sign_ins.h"
#include "run/run_stdio.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* Without namespaces: a directory instead of the private /tmp, and two listeners on the host's own loopback. */
static int make_degraded_places(struct run *run, struct err *err) {
        int s = survey_neighbours(&run->host, err);
        if (s < 0)
                return s;

        s = run_tmpdir_make(&run->tmpdir, run->session.id, err);
        if (s < 0)
                return s;

        run->host.tmpdir = run->tmpdir.path;
        if (plan_network(run->session.policy) == NETWORK_NONE)
                return 0;

        s = run_listen_loopback(&run->host.http_port, &run->sandbox.listeners[0], err);
        run->sandbox.n_listeners = s == 0 ? 1 : 0;
        if (s == 0)
                s = run_listen_loopback(&run->host.socks_port, &run->sandbox.listeners[1], err);

        run->sandbox.n_listeners += s == 0 ? 1 : 0;
        return s;
}

/* Where the workspace's changes go, with --overlay. For a look at the plan nothing is made. */
static int make_overlay(struct run *run, bool degraded, struct err *err) {
        if (!run->session.policy->filesystem.overlay)
                return 0;

        if (degraded)
                return err_set(err, EOPNOTSUPP,
                               "--overlay needs namespaces, which this machine does not give; see `bailey doctor`");

        int s = 0;
        if (!run->preview)
                s = overlays_new(run->session.id, run->session.policy->workspace, run->rules, &run->overlay, err);

        run->host.overlay_upper = run->preview ? "UPPER" : run->overlay.upper;
        run->host.overlay_work = run->preview ? "WORK" : run->overlay.work;

        return s;
}

/* For learning: the network open, so that one run shows all that is reached; files as they are, with refusals told. */
static void plan_observe(struct policy *policy) {
        if (policy->mode != MODE_READ_ONLY)
                policy->mode = MODE_FULL_NETWORK;
        policy->process.trace_denials = true;
}

/* Before the plan: what the sandbox is given instead of secrets is part of it. It starts first and is waited for last,
 * since it takes as long as everything in between. */
static struct vault_session_request vault_request(const struct run *run) {
        struct vault_session_request request = { .policy = run->session.policy,
                                                 .id = run->session.id,
                                                 .roots = run->q->ca_bundle,
                                                 .environment = environ,
                                                 .preview = run->preview };

        if (run->q->places) {
                request.judged = run->q->places->p;
                request.n_judged = run->q->places->n;
        }

        return request;
}

static int begin_vault(struct run *run, struct err *err) {
        const struct vault_session_request request = vault_request(run);

        return vault_session_begin(run->session.vault, &request, err);
}

/* A credential without a value is a mistake in the policy. */
static int finish_vault(struct run *run, struct err *err) {
        const struct vault_session_request request = vault_request(run);
        int r = vault_session_finish(run->session.vault, &request, err);

        if (r < 0)
                run->end = RUN_BAD_POLICY;
        return r;
}

static int run_plan_build(struct run *run, struct err *err) {
        const struct plan_request request = {
                .policy = run->session.policy,
                .rules = run->rules,
                .host = &run->host,
                .id = run->session.id,
                .argv = (const char *const *)run->q->argv,
                .env = (const char *const *)run->env.block,
        };
        int s = plan_build(&request, &run->plan, err);

        if (s == -EACCES) /* it cannot start where it was asked to */
                run->end = RUN_REFUSED;

        return s;
}

/* Whether a command may start without namespaces. */
static int check_degraded(struct run *run, struct err *err) {
        const char *outer = getenv("BAILEY_SANDBOX");

        if (run->session.policy->process.allow_degraded)
                return 0;

        run->end = RUN_UNAVAILABLE;

        if (!outer)
                return err_set(err, run->no_namespaces.code,
                               "%s. `bailey doctor` says why and what helps; with --allow-degraded the command runs "
                               "with less protection",
                               err_text(&run->no_namespaces));

        return err_set(err, run->no_namespaces.code,
                       "this is already inside the sandbox %s, which lets no other one be made: run the command "
                       "without `bailey run`, it is confined here. %s",
                       outer,
                       run->host.landlock_abi
                           ? "With --allow-degraded another one starts, which protects less"
                           : "Sandboxes of other programs need --nesting with the outer one; with that, Bailey starts "
                             "with --allow-degraded");
}

/* The requests of a person, a file and the command line, as one policy. */
static int plan_load_policy(struct run *run, struct err *err) {
        struct policy_request request = { .command_line = run->q->options,
                                          .program = run->q->argv ? run->q->argv[0] : NULL };
        int r;

        if (run->q->policy)
                request = *run->q->policy;

        if (run->q->guest) {
                request.workspace = run->q->guest->home;
                request.guest = true;
                request.program = NULL; /* the agent has no profile; what it starts is not known yet */
        }

        r = policy_load(&request, &run->session.policy, err);
        if (r == 0 && run->q->learn)
                plan_observe(run->session.policy);
        if (r == 0 && run->sandbox.pid > 0)
                r = sandbox_network(&run->sandbox, plan_network(run->session.policy) != NETWORK_NONE, err);

        run->end = r == -EPERM ? RUN_REFUSED : RUN_BAD_POLICY;
        return r;
}

/* The part of the plan that depends on the policy alone, not on the host. */
static int plan_read_policy(struct run *run, struct err *err) {
        const struct policy *policy = run->session.policy;
        int r;

        r = own_commands_check(policy, environ, err);
        if (r < 0)
                return r;

        if (run->degraded && policy->process.allow_degraded) {
                r = policy_check_served(policy, PLACE_DEGRADED, err);
                if (r < 0)
                        return r;
        }

        r = begin_vault(run, err);
        if (r < 0)
                return r;

        return path_rules_compile(policy, &run->rules, err);
}

/* The home first: it is among what is looked at. */
static int plan_look_around(struct run *run, const char *controls, struct err *err) {
        int r;

        if (!run->preview) {
                r = guards_begin(&run->guards, run->rules, err);
                if (r < 0)
                        return r;
        }

        r = survey_host(run->session.policy, run->rules, controls, &run->host, err);
        if (r < 0)
                return r;

        r = guards_share(&run->guards, &run->host, err);
        if (r < 0)
                return r;

        return run->degraded ? check_degraded(run, err) : 0; /* before what only matters for a command that starts */
}

/* Bailey's own paths, and which of them the sandbox sees. */
static int plan_add_own(struct run *run, const char *controls, struct err *err) {
        const struct policy *policy = run->session.policy;
        int r;

        r = run_stdio(run->rules, run->host.landlock_abi > 0 && !policy->process.nesting, err);
        if (r < 0)
                return r;

        r = run_own(policy, run->q, run->rules, run->degraded, &run->host, err);
        if (r < 0)
                return r;

        r = own_records(policy, run->rules, run->preview ? NULL : run->session.id, &run->host, &run->session.audit_path,
                        err);
        if (r < 0)
                return r;

        r = live_hide(&run->host, controls, err);
        if (r < 0)
                return r;

        r = run_home_show(run, err);
        if (r < 0)
                return r;

        return run_bridge_prepare(run, err);
}

/* What is made for this run alone. */
static int plan_make_places(struct run *run, struct err *err) {
        const bool degraded = run->degraded;
        int r = degraded ? make_degraded_places(run, err) : 0;

        if (r == 0)
                r = make_overlay(run, degraded, err);
        if (r == 0)
                r = run_git_copy(run, err);
        if (r == 0 && !degraded)
                r = run_programs_show(run->session.policy, &run->host, err);
        if (r == 0 && !degraded)
                r = run_certificates_cover(run->session.vault, &run->host, err);
        if (r == 0)
                r = run_env(run->session.policy, &run->host, run->session.vault, run->session.id, &run->env, err);

        run->home_filled_us = clock_wall_us();
        return r;
}

int run_plan_make(struct run *run, struct err *err) {
        cleanup(free_ptr) char *controls = NULL;
        int r;

        r = plan_load_policy(run, err);
        if (r < 0)
                return r;

        r = plan_read_policy(run, err);
        if (r < 0)
                return r;

        run->end = RUN_FAILED;
        if (run_sign_ins_any(run->session.vault)) /* stand-ins are laid into the home */
                r = finish_vault(run, err);
        if (r == 0)
                r = run_home_open(run, err);
        if (r == 0 && !run->degraded)
                r = live_place(run->preview, &controls, err);
        if (r < 0)
                return r;

        r = plan_look_around(run, controls, err);
        if (r < 0)
                return r;

        r = plan_add_own(run, controls, err);
        if (r < 0)
                return r;

        run->host.namespaces = !run->degraded;
        run->host.has_terminal = run->session.terminal.fd >= 0;
        run->host.cwd_is_asked = run->q->starts_here;
        r = finish_vault(run, err);
        if (r < 0)
                return r;

        r = plan_make_places(run, err);
        if (r < 0)
                return r;

        r = run_plan_build(run, err);
        if (r < 0)
                return r;

        return guards_record(&run->guards, run->session.policy, run->rules, &run->host, run->plan, err);
}
