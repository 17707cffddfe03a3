/* SPDX-License-Identifier: Apache-2.0 */
/* Nothing is remembered on macOS yet, since nothing runs that asks: no command was agreed to before. */
#include "store/state.h"

#include <errno.h>

int state_open(struct state **ret, struct err *err) {
        *ret = NULL;
        return err_set(err, ENOTSUP, "answers are not remembered on macOS");
}

void state_closep(struct state **s) {
        *s = NULL;
}

int state_command(struct state *s, const char *workspace, const char *rule, const char *command, enum state_answer *ret,
                  struct err *err) {
        (void)s;
        (void)workspace;
        (void)rule;
        (void)command;
        *ret = STATE_NO_ANSWER;
        return err_set(err, ENOTSUP, "answers are not remembered on macOS");
}
