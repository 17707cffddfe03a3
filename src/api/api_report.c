/* SPDX-License-Identifier: Apache-2.0 */
#include "api/api_report.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err_hint.h"
#include "base/escape.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

const char *bailey_error_name(int code) {
        static const char *const names[] = {
                [-BAILEY_OK] = "ok",
                [-BAILEY_E_MEMORY] = "out-of-memory",
                [-BAILEY_E_ARGUMENT] = "bad-argument",
                [-BAILEY_E_CONFIG] = "config-invalid",
                [-BAILEY_E_PLATFORM] = "unsupported-platform",
                [-BAILEY_E_DEPENDENCY] = "dependency-missing",
                [-BAILEY_E_FORBIDDEN] = "forbidden-command",
                [-BAILEY_E_ESCALATED] = "escalated-command",
                [-BAILEY_E_CLOSED] = "manager-closed",
                [-BAILEY_E_PROXY] = "proxy-start-failed",
                [-BAILEY_E_TIMEOUT] = "timeout",
                [-BAILEY_E_CANCELLED] = "cancelled",
                [-BAILEY_E_SYSTEM] = "system",
        };
        return code <= 0 && code > -(int)(sizeof names / sizeof *names) ? names[-code] : "unknown";
}

int report(struct bailey_error *error, enum bailey_code code, const char *format, ...) {
        if (!error)
                return code;

        va_list args;
        va_start(args, format);
        *error = (struct bailey_error){ .code = code };
        vsnprintf(error->message, sizeof error->message, format, args);
        va_end(args);

        return code;
}

int report_err(struct bailey_error *error, enum bailey_code code, const struct err *from) {
        return report(error, from->code == ENOMEM ? BAILEY_E_MEMORY : code, "%s%s", err_text(from), err_hint(from));
}

void report_escape(char *to, size_t size, struct str text) {
        cleanup(buf_done) struct buf out = BUF(65536);
        to[0] = '\0';
        /* An escaped byte takes four at most; what is left out is said. */
        if (escape_text(&out, text, size / 2) == 0 && out.n)
                snprintf(to, size, "%.*s", STR_FMT(buf_str(&out)));
}
