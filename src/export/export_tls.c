/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Syslog over TLS (RFC 5425): messages framed by octet counting, one connection for each batch, by the courier, which
 * verifies the server's certificate. Delivered when the server has closed the connection after the last one.
 */
#include "export/export_internal.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

enum { BATCH_MS = 60000 };

static void tls_on_message(void *arg, const struct courier_message *message) {
        struct export *export = arg;
        char why[160];

        if (!export->request || (message->id && message->id != export->request))
                return;

        export->request = 0;

        if (message->kind == COURIER_REPLY) {
                export_delivered(export);
                return;
        }

        struct str text = str_first(message->parts[0], sizeof why - 1);
        if (text.n && text.p[text.n - 1] == '.') /* a sentence of its own, which becomes part of another */
                text.n--;

        snprintf(why, sizeof why, "%.*s", STR_FMT(text));
        export_failed(export, why, 0);
}

int syslog_tls_open(struct export *export, struct err *err) {
        const struct courier_settings settings = {
                .environment = environ, .ca_bundle = export->ca, .on_message = tls_on_message, .arg = export
        };

        return courier_process_start(&settings, &export->courier, err);
}

void syslog_tls_step(struct export *export) {
        char url[AUTHORITY_TEXT_MAX + 16], host[AUTHORITY_TEXT_MAX];
        uint64_t rejected = export->result->rejected;

        if (export->request)
                return;

        buf_clear(&export->out);

        if (syslog_fill_stream(export) < 0) {
                export_failed(export, "out of memory", 0);
                return;
        }

        if (export->batch.again)
                export->result->rejected = rejected; /* they were counted the first time */

        if (!export->out.n) {
                export_delivered(export);
                return;
        }

        authority_text(&export->target, host);
        snprintf(url, sizeof url, "https://%s", host);
        const char *name = export->settings->server_name;
        const struct courier_message message = { .kind = COURIER_REQUEST,
                                                 .flags = COURIER_BYTES,
                                                 .id = ++export->last_request,
                                                 .limit_ms = BATCH_MS,
                                                 .parts = { str_of(url), str_of(text_or(name, "")), STR(""),
                                                            buf_str(&export->out) } };
        if (courier_process_send(export->courier, &message) < 0)
                export_failed(export, "the courier is not there", 0);
        else
                export->request = message.id;
}
