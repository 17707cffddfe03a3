/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The report of one run, for a person who was not there: requests, verdicts, commands, credentials, answers and by
 * whom, changes. Made from the audit log alone (and, where the run had an overlay, from what is kept of it), with the
 * hash of the log's last record, so that it can be checked.
 *
 * Nearly every text in it was chosen by the program that the report is about. Each form has one function through which
 * all such text goes: report_html_text(), report_md_text(), emit_string().
 */
#include "base/buf.h"
#include "base/err.h"

enum report_form { REPORT_HTML, REPORT_MARKDOWN, REPORT_JSON, REPORT_FORMS };

struct report_request {
        const char *run;  /* id or the beginning of one; NULL: the latest */
        const char *file; /* not NULL: this log instead */
        enum report_form form;
};

/* The largest report that is made. Long lists are cut before, and the report says by how much. */
#define REPORT_MAX (32U << 20)

/* -ENOENT: there is no such log; -EBADMSG: a line cannot be read. A log that is not whole still gives a report, and the
 * report says so. */
int report_write(const struct report_request *request, struct buf *out, struct err *err);
