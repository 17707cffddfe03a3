/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Whether a command may run: the classifier's word and, where it wants one, a person's. */
#include "api/manager.h"

/* One text for a shell, or the words of a command that runs without one. */
struct approve_command {
        const char *text;        /* NULL: argv */
        const char *const *argv; /* NULL-terminated */
};

/* o has the working directory and may be NULL. *room holds the verdict of the program's own classifier: *ret points
 * into it. */
int approve_classify(const struct state *state, const struct approve_command *command, const bailey_options *options,
                     struct bailey_verdict *room, struct sh_verdict *ret, struct bailey_error *error);
/* BAILEY_OK, or BAILEY_E_FORBIDDEN and BAILEY_E_ESCALATED with rule, reason and segment. The verdict is recorded: by
 * *ret_judged with the run that follows (empty: nobody judged it), or at once if there is none. */
int approve(bailey_manager *manager, const struct state *state, const struct approve_command *approve_command,
            const bailey_options *options, supervise_texts *ret_judged, struct bailey_error *error);
/* For a manager without a sandbox: that the command runs all the same goes on the record. False: it could not. */
bool approve_record_plain(bailey_manager *manager, const struct state *state,
                          const struct approve_command *approve_command, const bailey_options *options,
                          supervise_texts *judged);
void approve_judged_done(supervise_texts *judged);
