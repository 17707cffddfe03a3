/* SPDX-License-Identifier: Apache-2.0 */
/* The table of verbs. To add one: write cli/verb_NAME.c with its `const struct verb verb_NAME`, then two lines here. */
#include "cli/verb.h"

extern const struct verb verb_allow;
extern const struct verb verb_apply;
extern const struct verb verb_bridge;
extern const struct verb verb_chat;
extern const struct verb verb_check;
extern const struct verb verb_completion;
extern const struct verb verb_deny;
extern const struct verb verb_diff;
extern const struct verb verb_discard;
extern const struct verb verb_doctor;
extern const struct verb verb_egress;
extern const struct verb verb_env;
extern const struct verb verb_events;
extern const struct verb verb_exec;
extern const struct verb verb_export;
extern const struct verb verb_gateway;
extern const struct verb verb_guest;
extern const struct verb verb_guest_agent;
extern const struct verb verb_guest_connect;
extern const struct verb verb_guest_short;
extern const struct verb verb_help;
extern const struct verb verb_home;
extern const struct verb verb_hook;
extern const struct verb verb_import;
extern const struct verb verb_init;
extern const struct verb verb_kept;
extern const struct verb verb_kill;
extern const struct verb verb_learn;
extern const struct verb verb_log;
extern const struct verb verb_man_page;
extern const struct verb verb_mcp;
extern const struct verb verb_policy;
extern const struct verb verb_profile;
extern const struct verb verb_prove_inside;
extern const struct verb verb_ps;
extern const struct verb verb_relay;
extern const struct verb verb_report;
extern const struct verb verb_trust;
extern const struct verb verb_pause;
extern const struct verb verb_pending;
extern const struct verb verb_plan;
extern const struct verb verb_reload;
extern const struct verb verb_resume;
extern const struct verb verb_run;
extern const struct verb verb_secrets;
extern const struct verb verb_supervise;
extern const struct verb verb_ui;
extern const struct verb verb_version;
extern const struct verb verb_why;

const struct verb *const verbs[] = {
        /* GROUP_RUN */
        &verb_run,
        &verb_exec,
        &verb_plan,
        &verb_learn,
        &verb_diff,
        &verb_apply,
        &verb_discard,
        &verb_kept,
        &verb_home,
        &verb_guest,
        /* GROUP_POLICY */
        &verb_init,
        &verb_import,
        &verb_policy,
        &verb_profile,
        &verb_bridge,
        &verb_why,
        &verb_check,
        &verb_hook,
        &verb_mcp,
        &verb_trust,
        &verb_secrets,
        /* GROUP_WATCH */
        &verb_ps,
        &verb_pending,
        &verb_allow,
        &verb_deny,
        &verb_events,
        &verb_pause,
        &verb_resume,
        &verb_reload,
        &verb_kill,
        &verb_log,
        &verb_report,
        &verb_ui,
        &verb_chat,
        &verb_export,
        /* GROUP_EGRESS */
        &verb_egress,
        &verb_gateway,
        &verb_env,
        &verb_relay,
        /* GROUP_HELP */
        &verb_doctor,
        &verb_version,
        &verb_help,
        /* hidden (man/meson.build makes a page for each verb above this line) */
        &verb_completion,
        &verb_man_page,
        &verb_guest_agent,
        &verb_guest_connect,
        &verb_guest_short,
        &verb_prove_inside,
        &verb_supervise,
        NULL,
};
const size_t n_verbs = sizeof verbs / sizeof verbs[0] - 1;
