/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/exit.h"

#include <assert.h>
#include <errno.h>

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

/* --- by number, where an error has no kind --- */

struct errno_code {
        int error, code;
};

static int code_of(const struct errno_code *rows, size_t n, int error) {
        for (size_t i = 0; i < n; i++)
                if (rows[i].error == error)
                        return rows[i].code;
        return EXIT_SYSTEM;
}

int exit_of_guest(int r, const struct err *err) {
        static const struct errno_code rows[] = {
                { ENOENT, EXIT_UNAVAILABLE }, { EOPNOTSUPP, EXIT_UNAVAILABLE },
                { EEXIST, EXIT_NO },          { EBUSY, EXIT_NO },
                { EINVAL, EXIT_NO },          { EALREADY, EXIT_NO },
                { EPERM, EXIT_REFUSED },      { EDQUOT, EXIT_REFUSED },
                { ETIMEDOUT, EXIT_TIMEOUT },
        };

        if (r >= 0)
                return EXIT_OK;
        if (err->kind != ERR_SYSTEM)
                return exit_of_error(err);

        return code_of(rows, sizeof rows / sizeof *rows, -r);
}

int exit_of_order(int r) {
        static const struct errno_code rows[] = {
                { EINVAL, EXIT_USAGE },           { ENOENT, EXIT_UNAVAILABLE }, { ECONNREFUSED, EXIT_UNAVAILABLE },
                { ECONNRESET, EXIT_UNAVAILABLE }, { EREMOTEIO, EXIT_REFUSED },  { EPERM, EXIT_REFUSED },
                { ETIMEDOUT, EXIT_TIMEOUT },
        };

        return code_of(rows, sizeof rows / sizeof *rows, -r);
}
