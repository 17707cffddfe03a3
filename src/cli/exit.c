/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/exit.h"

#include <assert.h>

static_assert(EXIT_PASSING + EXIT_USAGE == 120 && EXIT_PASSING + EXIT_TIMEOUT == 124 &&
                  EXIT_PASSING + EXIT_SYSTEM == 125,
              "the rows below, and timeout(1)'s custom");

const struct exit_row exit_rows[] = {
        { "0", "done; the answer is yes" },
        { "1", "the answer is no: denied, not valid, not whole, degraded" },
        { "2", "the command line is wrong" },
        { "3", "a policy or configuration file is wrong" },
        { "4", "not available on this machine, or no such thing" },
        { "5", "refused: forbidden, not approved, or not trusted" },
        { "6", "out of time" },
        { "7", "the system or a part of Bailey failed" },
        { "10, 20", "check, exec: the command needs an approval (and has none), is forbidden" },
        { "120 to 125", "run, exec, learn: Bailey's own 2 to 7, so that they are not taken for the command's" },
        { "126, 127", "run, exec, learn: the command cannot be executed, was not found" },
        { "128+n", "run, exec, learn: the command died of signal n" },
};
const size_t n_exit_rows = sizeof exit_rows / sizeof exit_rows[0];

int exit_of_error(const struct err *err) {
        static const int codes[] = {
                [ERR_SYSTEM] = EXIT_SYSTEM,   [ERR_NO] = EXIT_NO,           [ERR_USAGE] = EXIT_USAGE,
                [ERR_CONFIG] = EXIT_CONFIG,   [ERR_REFUSED] = EXIT_REFUSED, [ERR_UNAVAILABLE] = EXIT_UNAVAILABLE,
                [ERR_TIMEOUT] = EXIT_TIMEOUT,
        };
        static_assert(sizeof codes / sizeof *codes == ERR_KINDS, "one exit code for each kind of error");

        return codes[err->kind];
}
