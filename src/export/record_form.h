/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A record as others want it. Pure. */
#include "base/buf.h"

struct export_form {
        const char *host;
        unsigned pid;
};

/* One message of RFC 5424, without framing: facility 13 (audit), severity warning for what was refused and info else;
 * run, sandbox, number and kind as structured data, the line itself as the message. With max, a line that makes it
 * longer is cut, and the structured data says so. -EBADMSG: the line is no record. */
int form_syslog(const struct export_form *form, struct str line, size_t max, struct buf *out);
/* A request of OTLP/HTTP (JSON) with these lines; those that are no records are counted and left out. */
int form_otlp(const struct export_form *form, const struct str *lines, size_t n, struct buf *out, size_t *ret_bad);
