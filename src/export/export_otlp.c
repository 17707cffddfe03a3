/* SPDX-License-Identifier: Apache-2.0 */
/* OTLP/HTTP with JSON: one POST to /v1/logs for each batch, by the courier. 2xx is delivered. */
#include "base/cleanup.h"
#include "conf/json.h"
#include "export/export_internal.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

enum { REPLY_MS = 60000 };

/* "partialSuccess": what the collector got and did not take. */
static uint64_t rejected_of(struct str body) {
        cleanup(document_freep) struct document *document = NULL;
        uint64_t n = 0;

        if (!body.n || json_read(body, STR("reply"), &document, NULL) < 0)
                return 0;

        const struct node *root = document_root(document);
        const struct node *partial = root && root->kind == NODE_MAP ? node_get(root, STR("partialSuccess")) : NULL;
        const struct node *count =
            partial && partial->kind == NODE_MAP ? node_get(partial, STR("rejectedLogRecords")) : NULL;

        if (count && count->kind == NODE_SCALAR && str_to_u64(count->text, UINT32_MAX, &n))
                return n;

        return 0;
}

static void on_message(void *arg, const struct courier_message *message) {
        struct export *export = arg;
        char why[64];

        if (!export->request || (message->id && message->id != export->request))
                return;

        export->request = 0;

        if (message->kind == COURIER_REPLY && message->status / 100 == 2) {
                export->result->rejected += rejected_of(message->parts[0]);
                export_delivered(export);
                return;
        }

        if (message->kind == COURIER_REPLY)
                snprintf(why, sizeof why, "it answers with status %u", message->status);
        else
                snprintf(why, sizeof why, "%.*s", STR_FMT(str_first(message->parts[0], 60)));

        export_failed(export, why, message->retry_s);
}

int otlp_open(struct export *export, struct err *err) {
        char host[AUTHORITY_TEXT_MAX];

        authority_text(&export->target, host);
        const struct courier_token token = { "otlp", export->settings->token, host };
        const struct courier_settings settings = { .tokens = &token,
                                                   .n_tokens = export->settings->token ? 1 : 0,
                                                   .environment = environ,
                                                   .ca_bundle = export->ca,
                                                   .on_message = on_message,
                                                   .arg = export };

        return courier_process_start(&settings, &export->courier, err);
}

void otlp_step(struct export *export) {
        char url[AUTHORITY_TEXT_MAX + 16], host[AUTHORITY_TEXT_MAX];
        size_t bad = 0;

        if (export->request)
                return;

        buf_clear(&export->out);
        authority_text(&export->target, host);
        snprintf(url, sizeof url, "%s://%s", export->secure ? "https" : "http", host);

        if (form_otlp(&export->form, export->batch.lines.p, export->batch.lines.n, &export->out, &bad) < 0) {
                export_failed(export, "out of memory", 0);
                return;
        }

        if (!export->batch.again)
                export->result->rejected += bad;

        const struct courier_message message = {
                .kind = COURIER_REQUEST,
                .id = ++export->last_request,
                .limit_ms = REPLY_MS,
                .parts = { str_of(url), STR("POST /v1/logs"),
                           export->settings->token
                               ? STR("Content-Type: application/json\r\nAuthorization: Bearer {token:0}\r\n")
                               : STR("Content-Type: application/json\r\n"),
                           buf_str(&export->out) },
        };
        if (courier_process_send(export->courier, &message) < 0)
                export_failed(export, "the courier is not there", 0);
        else
                export->request = message.id;
}
