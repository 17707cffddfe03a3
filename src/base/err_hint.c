/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err_hint.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

/* By the text too: a code may have got lost on the way from another process. */
static bool err_is(const struct err *err, int code) {
        return err->code == code || strstr(err->text, strerror(code));
}

const char *err_hint(const struct err *err) {
        if (err && err->code && err_is(err, EMFILE))
                return ". This process may have no more open files: raise the limit (ulimit -n 256) and start again";
        if (err && err->code && err_is(err, ENFILE))
                return ". This system has no more open files: end something, or raise the limit (sysctl fs.file-max)";

        return "";
}
