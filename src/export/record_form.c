/* SPDX-License-Identifier: Apache-2.0 */
#include "export/record_form.h"

#include "base/emit.h"
#include "store/audit_line.h"

#include <errno.h>
#include <stdio.h>

enum { FACILITY_AUDIT = 13, SEVERITY_WARNING = 4, SEVERITY_INFO = 6, OTLP_INFO = 9, OTLP_WARN = 13 };

static bool was_refused(const struct audit_record *record) {
        return record->has_allowed && !record->allowed;
}

/* 0, or -EBADMSG: no record. */
static int record_read(struct str line, struct audit_record *ret, uint64_t *ret_us) {
        if (audit_line_parse(line, ret, NULL) < 0 || !audit_time(ret->ts, ret_us))
                return -EBADMSG;
        if (ret->ts.p[19] == '.' && ret->ts.p[ret->ts.n - 1] == 'Z')
                return 0; /* it goes out as it is */

        return -EBADMSG;
}

/*
 * Syslog.
 */
/* Values of structured data: quotes, backslashes and brackets are escaped there. */
static int put_param(struct buf *out, const char *name, struct str value) {
        int r = buf_printf(out, " %s=\"", name);

        for (size_t i = 0; r == 0 && i < value.n && i < 200; i++) {
                if (value.p[i] == '"' || value.p[i] == '\\' || value.p[i] == ']')
                        r = buf_add_char(out, '\\');
                if (r == 0)
                        r = buf_add_char(out, value.p[i]);
        }

        if (r < 0)
                return r;

        return buf_add_char(out, '"');
}

/* Header fields are printable ASCII without blanks, and bounded; "-" where there is nothing. */
static int put_field(struct buf *out, struct str text, size_t max) {
        size_t from = out->n;
        int r = 0;

        for (size_t i = 0; r == 0 && i < text.n && i < max; i++)
                if (text.p[i] > 0x20 && text.p[i] < 0x7f)
                        r = buf_add_char(out, text.p[i]);

        if (r == 0 && out->n == from)
                r = buf_add_char(out, '-');
        if (r < 0)
                return r;

        return buf_add_char(out, ' ');
}

int form_syslog(const struct export_form *form, struct str line, size_t max, struct buf *out) {
        struct audit_record record = { 0 };
        size_t from = out->n;
        uint64_t at_us;
        int r;

        r = record_read(line, &record, &at_us);
        if (r < 0)
                return r;

        int severity = was_refused(&record) ? SEVERITY_WARNING : SEVERITY_INFO;
        r = buf_printf(out, "<%d>1 %.*s ", FACILITY_AUDIT * 8 + severity, STR_FMT(record.ts));
        if (r == 0)
                r = put_field(out, str_of(form->host), 255);
        if (r == 0)
                r = buf_printf(out, "bailey %u ", form->pid);
        if (r == 0)
                r = put_field(out, record.kind, 32);
        if (r == 0)
                r = buf_add(out, "[bailey@32473");
        if (r == 0)
                r = put_param(out, "run", record.run_id);
        if (r == 0)
                r = put_param(out, "sandbox", record.sandbox);
        if (r == 0)
                r = buf_printf(out, " seq=\"%ju\"", (uintmax_t)record.seq);
        if (r < 0)
                return r;

        size_t left = max > out->n - from + 20 ? max - (out->n - from) - 20 : 0;
        if (max && line.n > left) {
                line = str_first(line, left);
                r = buf_add(out, " cut=\"1\"");
        }

        if (r == 0)
                r = buf_add(out, "] ");
        if (r < 0)
                return r;

        return buf_append(out, line);
}

/*
 * OTLP.
 */
static void put_attribute(struct emit *json, const char *key, struct str value) {
        emit_open(json, '{');
        emit_put_text(json, "key", key);
        emit_key(json, "value");
        emit_open(json, '{');
        emit_put_string(json, "stringValue", value);
        emit_close(json);
        emit_close(json);
}

static void put_record(struct emit *json, const struct audit_record *record, struct str line, uint64_t at_us) {
        bool refused = was_refused(record);
        char at[32], seq[32];

        snprintf(at, sizeof at, "%ju", (uintmax_t)at_us * 1000);
        snprintf(seq, sizeof seq, "%ju", (uintmax_t)record->seq);
        emit_open(json, '{');
        emit_put_text(json, "timeUnixNano", at);
        emit_put_number(json, "severityNumber", refused ? OTLP_WARN : OTLP_INFO);
        emit_put_text(json, "severityText", refused ? "WARN" : "INFO");
        emit_key(json, "body");
        emit_open(json, '{');
        emit_put_string(json, "stringValue", line);
        emit_close(json);
        emit_key(json, "attributes");
        emit_open(json, '[');
        put_attribute(json, "bailey.run", record->run_id);
        put_attribute(json, "bailey.sandbox", record->sandbox);
        put_attribute(json, "bailey.seq", str_of(seq));
        put_attribute(json, "bailey.kind", record->kind);
        emit_close(json);
        emit_close(json);
}

int form_otlp(const struct export_form *form, const struct str *lines, size_t n, struct buf *out, size_t *ret_bad) {
        struct emit j = emit_to(out);

        *ret_bad = 0;
        emit_open(&j, '{');
        emit_key(&j, "resourceLogs");
        emit_open(&j, '[');
        emit_open(&j, '{');
        emit_key(&j, "resource");
        emit_open(&j, '{');
        emit_key(&j, "attributes");
        emit_open(&j, '[');
        put_attribute(&j, "service.name", STR("bailey"));
        put_attribute(&j, "host.name", str_of(form->host));
        emit_close(&j);
        emit_close(&j);
        emit_key(&j, "scopeLogs");
        emit_open(&j, '[');
        emit_open(&j, '{');
        emit_key(&j, "scope");
        emit_open(&j, '{');
        emit_put_text(&j, "name", "bailey.audit");
        emit_close(&j);
        emit_key(&j, "logRecords");
        emit_open(&j, '[');

        for (size_t i = 0; i < n; i++) {
                struct audit_record record = { 0 };
                uint64_t at_us;

                if (record_read(lines[i], &record, &at_us) < 0)
                        ++*ret_bad;
                else
                        put_record(&j, &record, lines[i], at_us);
        }

        for (size_t i = 0; i < 6; i++)
                emit_close(&j);

        return emit_status(&j);
}
