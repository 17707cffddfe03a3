/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the sandbox of a bridged tool asks: its gateway holds a push, as any gateway does. A person knows of the run
 * that called the tool, so the question is that run's: it is told on every way that the run's policy opens, under the
 * run's name, and the answer goes back over the link.
 */
#include "base/cleanup.h"
#include "control/live.h"
#include "ipc/gateway_messages.h"
#include "ipc/supervise_messages.h"
#include "run/bridge/run_bridge_internal.h"

#include <errno.h>

enum { RELAYED_MAX = 16 };

static void relay_answer(const struct bridge_call *call, uint64_t theirs, bool allow) {
        const struct supervise_message answer = { .kind = SUPERVISE_ANSWER, .id = theirs, .number = allow };

        if (call->link >= 0) /* who cannot be told refuses when the time is over */
                (void)supervise_send(call->link, &answer, NULL);
}

static void relayed_remove(struct bridge_call *call, size_t place) {
        call->relayed.p[place] = call->relayed.p[--call->relayed.n];
}

/* A host, with the asker's words or without, or an access that a tool wants: about neither a person was to be asked,
 * its entry in the policy says what it has. */
static bool is_about_rights(const char *text) {
        return text[0] == '\0' || str_starts(str_of(text), STR(ASK_BECAUSE)) ||
               str_starts(str_of(text), STR(ASK_WANTS)) || str_starts(str_of(text), STR(ASK_AGREED));
}

static int relay_ask(struct run *run, struct bridge_call *call, const struct supervise_message *message,
                     struct err *err) {
        const bool is_v6 = strchr(message->host, ':') != NULL;
        cleanup(free_ptr) char *name = str_format(is_v6 ? "[%s]" : "%s", message->host);
        struct bridge_relayed relayed = { .id = run->bridge.last_question + 1, .theirs = message->id };
        struct authority target = { .port = (uint16_t)message->number };
        int r;

        if (!name)
                return err_memory(err);
        if (!run->session.control)
                return err_set(err, EOPNOTSUPP, "nobody can be asked here");
        if (is_about_rights(message->target))
                return err_set(err, EPERM, "a tool's entry says which hosts and files it has");
        if (call->relayed.n >= RELAYED_MAX)
                return err_set(err, EBUSY, "%d questions of this call wait already", RELAYED_MAX);

        r = host_parse(str_of(name), &target.host, err);
        if (r < 0)
                return r;
        if (vec_push(&call->relayed, relayed) < 0)
                return err_memory(err);

        run->bridge.last_question++;
        r = live_ask_of_tool(run->session.control, relayed.id, call->tool, &target, message->target, err);
        if (r < 0)
                call->relayed.n--;

        return r;
}

static void relay_gone(struct run *run, struct bridge_call *call, uint64_t theirs, bool expired) {
        for (size_t i = 0; i < call->relayed.n; i++)
                if (call->relayed.p[i].theirs == theirs) {
                        uint64_t id = call->relayed.p[i].id;

                        relayed_remove(call, i);
                        live_own_gone(run->session.control, id, expired);
                        return;
                }
}

void bridge_relay(struct run *run, struct bridge_call *call, const struct supervise_message *message) {
        struct err why = { 0 };

        if (message->kind == SUPERVISE_ASK_GONE) {
                relay_gone(run, call, message->id, message->number == 1);
                return;
        }

        if (relay_ask(run, call, message, &why) == 0)
                return;

        relay_answer(call, message->id, false);
        if (run->session.audit)
                (void)audit_note(run->session.audit, "bridged %s asked, and was refused: %s", call->tool,
                                 err_text(&why));
}

void bridge_relay_drop(struct run *run, struct bridge_call *call) {
        while (call->relayed.n) {
                uint64_t id = call->relayed.p[--call->relayed.n].id;

                live_own_gone(run->session.control, id, false);
        }

        vec_done(&call->relayed);
}

void run_bridge_tool_decided(void *arg, uint64_t id, bool allow) {
        struct run *run = arg;

        for (size_t i = 0; i < BRIDGE_CALLS; i++) {
                struct bridge_call *call = &run->bridge.calls[i];

                for (size_t k = 0; k < call->relayed.n; k++)
                        if (call->relayed.p[k].id == id) {
                                relay_answer(call, call->relayed.p[k].theirs, allow);
                                relayed_remove(call, k);
                                return;
                        }
        }
}
