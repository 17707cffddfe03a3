/* SPDX-License-Identifier: Apache-2.0 */
/* pause, resume, reload, kill: one order to one sandbox. */
#include "cli/verb.h"
#include "cli/verb_sandboxes.h"

#include <stdio.h>

int sandboxes_print(const struct buf *out) {
        fwrite(text_or(out->p, ""), 1, out->n, stdout);
        return EXIT_OK;
}

static int order_run(const struct call *call, enum control_do what, const char *done, struct err *err) {
        char id[CONTROL_ID_MAX];
        int r = sandboxes_order(call->argv[0], what, id, err);
        if (r < 0)
                return exit_of_order(r);
        printf("%s: %s\n", id, done);
        return EXIT_OK;
}

static int run_kill(const struct call *call, struct err *err) {
        return order_run(call, CONTROL_KILL, "killed", err);
}

static int run_pause(const struct call *call, struct err *err) {
        return order_run(call, CONTROL_PAUSE, "paused", err);
}

static int run_resume(const struct call *call, struct err *err) {
        return order_run(call, CONTROL_RESUME, "running", err);
}

static int run_reload(const struct call *call, struct err *err) {
        return order_run(call, CONTROL_RELOAD, "has read its policy again", err);
}

const struct verb verb_kill = {
        .name = "kill",
        .group = GROUP_WATCH,
        .synopsis = "SANDBOX",
        .help = "end a sandbox and everything in it at once",
        .about = "The sandbox is named by its id, or the beginning of it, as \"bailey ps\" shows it; a guest that runs "
                 "also by its name. A word that could mean two sandboxes ends neither. \"bailey run\" ends with "
                 "status 137.",
        .min_words = 1,
        .max_words = 1,
        .run = run_kill,
};

const struct verb verb_pause = {
        .name = "pause",
        .group = GROUP_WATCH,
        .synopsis = "SANDBOX",
        .help = "freeze every process of a sandbox",
        .about = "Returns when they stand still. Connections stay open, and \"bailey resume\" lets them go on.",
        .min_words = 1,
        .max_words = 1,
        .run = run_pause,
};

const struct verb verb_resume = {
        .name = "resume",
        .group = GROUP_WATCH,
        .synopsis = "SANDBOX",
        .help = "let a paused sandbox go on",
        .min_words = 1,
        .max_words = 1,
        .run = run_resume,
};

const struct verb verb_reload = {
        .name = "reload",
        .group = GROUP_WATCH,
        .synopsis = "SANDBOX",
        .help = "let a running sandbox read its policy again",
        .about = "Rules about hosts, requests and credentials count at once; connections that a new rule refuses are "
                 "closed. What the "
                 "launch settled (files, mode, limits) stays as it is, and the sandbox says which settings count "
                 "later. A policy "
                 "that is not valid changes nothing, and the error says why. SIGHUP to \"bailey run\" does the same.",
        .min_words = 1,
        .max_words = 1,
        .run = run_reload,
};
