/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/guest_state.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

static const char *const state_names[] = {
        [GUEST_CREATING] = "creating", [GUEST_READY] = "ready",       [GUEST_RUNNING] = "running",
        [GUEST_STOPPED] = "stopped",   [GUEST_ARCHIVED] = "archived", [GUEST_DELETED] = "deleted",
        [GUEST_BROKEN] = "broken",
};
static_assert(sizeof state_names / sizeof *state_names == GUEST_STATES, "one name each");

#define IN(state) (1U << (state))
#define AT_REST (IN(GUEST_READY) | IN(GUEST_STOPPED))
#define SAME GUEST_STATES /* leads to where it came from */
#define BACK (GUEST_STATES + 1)

static const struct {
        const char *name;
        unsigned from; /* a bit for each state */
        unsigned to;
} steps[] = {
        [STEP_CREATED] = { "create", IN(GUEST_CREATING), GUEST_READY },
        [STEP_START] = { "start", AT_REST, GUEST_RUNNING },
        [STEP_END] = { "end", IN(GUEST_RUNNING), GUEST_STOPPED },
        [STEP_ARCHIVE] = { "archive", AT_REST, GUEST_ARCHIVED },
        [STEP_UNARCHIVE] = { "unarchive", IN(GUEST_ARCHIVED), GUEST_STOPPED },
        [STEP_RESTORE] = { "restore", AT_REST, SAME },
        [STEP_SNAPSHOT] = { "snapshot", AT_REST | IN(GUEST_RUNNING), SAME },
        [STEP_PROVISION] = { "provision", AT_REST | IN(GUEST_RUNNING), SAME },
        [STEP_DELETE] = { "delete", AT_REST | IN(GUEST_CREATING) | IN(GUEST_ARCHIVED) | IN(GUEST_BROKEN),
                          GUEST_DELETED },
        [STEP_BREAK] = { "break", AT_REST | IN(GUEST_CREATING) | IN(GUEST_RUNNING) | IN(GUEST_ARCHIVED), GUEST_BROKEN },
        [STEP_MEND] = { "mend", IN(GUEST_BROKEN), BACK },
};
static_assert(sizeof steps / sizeof *steps == GUEST_STEPS, "one row each");

const char *guest_state_name(enum guest_state state) {
        return state_names[state];
}

bool guest_state_parse(const char *text, enum guest_state *ret) {
        for (unsigned i = 0; i < GUEST_STATES; i++)
                if (strcmp(text, state_names[i]) == 0) {
                        *ret = (enum guest_state)i;
                        return true;
                }
        return false;
}

const char *guest_step_name(enum guest_step_kind step) {
        return steps[step].name;
}

static int step_refuse(enum guest_step_kind step, enum guest_state from, const char *name, struct err *err) {
        static const char *const ways[] = {
                [GUEST_CREATING] = "it is still being made; `bailey guest ls` finishes what was interrupted",
                [GUEST_READY] = "it does not run; `bailey guest start` starts it",
                [GUEST_RUNNING] = "it runs; `bailey guest stop` ends it",
                [GUEST_STOPPED] = "it does not run; `bailey guest start` starts it",
                [GUEST_ARCHIVED] = "it is archived; `bailey guest unarchive` brings it back",
                [GUEST_DELETED] = "it is deleted",
                [GUEST_BROKEN] = "it is broken; `bailey guest show` says why, `bailey guest fix` tries to mend it",
        };

        return err_set(err, from == GUEST_RUNNING ? EBUSY : EINVAL, "cannot %s the guest %s: %s", steps[step].name,
                       name, ways[from]);
}

int guest_step(enum guest_step_kind step, enum guest_state from, enum guest_state before, const char *name,
               enum guest_state *ret, struct err *err) {
        if (!(steps[step].from & IN(from)))
                return step_refuse(step, from, name, err);

        switch (steps[step].to) {
        case SAME:
                *ret = from;
                return 0;
        case BACK:
                *ret = before;
                return 0;
        default:
                *ret = (enum guest_state)steps[step].to;

                return 0;
        }
}
