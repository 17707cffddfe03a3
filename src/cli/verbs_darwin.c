/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs that `bailey` has on macOS: those that decide and explain, run, guests, and what looks at the traces. */
#include "cli/verb.h"

extern const struct verb verb_check;
extern const struct verb verb_completion;
extern const struct verb verb_doctor;
extern const struct verb verb_guest;
extern const struct verb verb_help;
extern const struct verb verb_import;
extern const struct verb verb_init;
extern const struct verb verb_kept;
extern const struct verb verb_log;
extern const struct verb verb_man_page;
extern const struct verb verb_plan;
extern const struct verb verb_policy;
extern const struct verb verb_profile;
extern const struct verb verb_run;
extern const struct verb verb_secrets;
extern const struct verb verb_supervise;
extern const struct verb verb_trust;
extern const struct verb verb_version;
extern const struct verb verb_why;

const struct verb *const verbs[] = {
        /* GROUP_RUN */
        &verb_run,
        &verb_plan,
        &verb_guest,
        &verb_kept,
        /* GROUP_POLICY */
        &verb_init,
        &verb_import,
        &verb_policy,
        &verb_profile,
        &verb_why,
        &verb_check,
        &verb_secrets,
        &verb_trust,
        /* GROUP_WATCH */
        &verb_log,
        /* GROUP_HELP */
        &verb_doctor,
        &verb_version,
        &verb_help,
        /* hidden */
        &verb_supervise,
        &verb_completion,
        &verb_man_page,
        NULL,
};
const size_t n_verbs = sizeof verbs / sizeof verbs[0] - 1;
