/* SPDX-License-Identifier: Apache-2.0 */
/* Signing with gpg: what is to be signed is read whole, looked at, asked about where the policy says so, and only then
 * is gpg started. Which keys there are is the supervisor's to say. */
#include "bridge/sign_payload.h"
#include "gateway/ssh/signing.h"
#include "gateway/ssh/ssh_session_internal.h"

#include <errno.h>
#include <stdio.h>

enum { GPG_STATUS = 2 };

void ssh_gpg_begin(struct ssh_session *session, const struct ssh_message *message) {
        struct str key;

        session->client.via = VIA_GPG;

        if (!sign_gpg_parse(message->words, message->n, &key)) {
                ssh_session_refuse_plain(session, ssh_session_no(REASON_SIGNING),
                                         "only git's own way to sign with gpg is passed on: --status-fd=2 -bsau KEY",
                                         GPG_STATUS);
                return;
        }

        (void)snprintf(session->key, sizeof session->key, "%.*s", STR_FMT(key));
        ssh_session_enter(session, SSH_PAYLOAD);
}

static void open_gpg(struct ssh_session *session) {
        struct ipc_message message = { .kind = IPC_TOOL, .number = IPC_TOOL_GPG };

        (void)snprintf(message.text, sizeof message.text, "%s", session->key);
        session->verdict = (struct verdict){ .decision = DECISION_ALLOW, .reason = REASON_ALLOWED, .rule = RULE_NONE };
        if (program_open(&session->call, &message) < 0)
                ssh_session_refuse_plain(session, ssh_session_no(REASON_LIMIT), NULL, GPG_STATUS);
        else
                ssh_session_enter(session, SSH_OPENING);
}

static void on_answered(struct gate_call *call, enum decision decision, int error) {
        struct ssh_session *session = link_owner(call, struct ssh_session, hold);

        (void)error;
        ssh_session_enter(session, SSH_PAYLOAD);

        if (decision == DECISION_ALLOW)
                open_gpg(session);
        else
                ssh_session_refuse_plain(session, ssh_session_no(REASON_ASK), "nobody agreed to this signature",
                                         GPG_STATUS);

        ssh_session_run(session);
}

static void ask_about_signature(struct ssh_session *session, enum sign_payload kind) {
        char text[GATE_QUESTION_MAX];

        (void)snprintf(text, sizeof text, "signature of %s by the gpg key %s", sign_payload_name(kind), session->key);
        if (signing_ask(session->worker, &session->hold, text, VIA_GPG, on_answered) < 0)
                ssh_session_refuse_plain(session, ssh_session_no(REASON_LIMIT), NULL, GPG_STATUS);
        else
                ssh_session_enter(session, SSH_HELD);
}

void ssh_gpg_payload(struct ssh_session *session) {
        enum sign_payload kind;
        int r;

        while ((r = ssh_flow_read(session, SSH_PAYLOAD_MAX + 1)) > 0)
                ;

        if (r < 0) {
                ssh_session_end(session);
                return;
        }

        if (!session->client_ended && session->in.n <= SSH_PAYLOAD_MAX)
                return;

        if (session->in.n > SSH_PAYLOAD_MAX)
                kind = SIGN_OTHER;
        else
                kind = sign_payload_kind(buf_str(&session->in));
        if (kind == SIGN_OTHER)
                ssh_session_refuse_plain(session, ssh_session_no(REASON_SIGNING),
                                         "this is neither a commit nor a tag: nothing else is signed for a sandbox",
                                         GPG_STATUS);
        else if (session->worker->gateway->start.ask_signing)
                ask_about_signature(session, kind);
        else
                open_gpg(session);
}
