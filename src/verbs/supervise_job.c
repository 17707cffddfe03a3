/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs/supervise_job.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "control/command_room.h"
#include "egress/gateway_service.h"
#include "roles/listen.h"
#include "verbs/supervise_request.h"

#include <errno.h>

enum { SIGNALLED = 128 };

/* A command before it runs: asked about, or only recorded. */
static enum run_end command_job(const struct supervise_call *call, int *ret_status, struct err *err) {
        cleanup(room_outcome_done) struct room_outcome room = { 0 };
        cleanup(free_ptr) char **argv = supervise_call_enter(call, err);
        if (!argv)
                return RUN_FAILED;
        if (!call->link) {
                err_set(err, EINVAL, "nobody would hear the answer");
                return RUN_FAILED;
        }

        const struct room_request request = { .policy = &call->settings.policy,
                                              .argv = argv,
                                              .judged = supervise_call_judged(call),
                                              .link = call->link->fd,
                                              .runs = call->request.job == SUPERVISE_RECORD };
        if (room_wait(&request, &room, err) < 0)
                return RUN_FAILED;

        if (room.word == ROOM_APPROVED)
                *ret_status = 0;
        else if (room.word == ROOM_NOBODY)
                *ret_status = 2;
        else
                *ret_status = 1;
        err_set(err, EACCES, "%s", room.by); /* told with the end */

        return RUN_ENDED;
}

static enum run_end run_job(const struct supervise_call *call, int *ret_status, bool *ret_signalled, struct err *err) {
        cleanup(free_ptr) char **argv = supervise_call_enter(call, err);
        if (!argv)
                return RUN_FAILED;

        const struct judged judged = supervise_call_judged(call);
        const struct run_request request = { .argv = argv,
                                             .hosts_file = call->request.hosts_file,
                                             .ca_bundle = call->request.ca_bundle,
                                             .quiet = true,
                                             .starts_here = call->request.cwd != NULL,
                                             .policy = &call->settings.policy,
                                             .ret_signalled = ret_signalled,
                                             .judged = call->request.judged.n ? &judged : NULL,
                                             .places = &call->request.places,
                                             .link = call->link };

        return run_command(&request, ret_status, err);
}

/*
 * A gateway: it reports the ports as soon as it accepts.
 */
static uint16_t port_of(const struct service_info *info, const char *kind) {
        for (size_t i = 0; i < info->n_listeners; i++) {
                struct endpoint at;
                if (strcmp(info->listeners[i].kind, kind) == 0 &&
                    listen_parse(str_of(info->listeners[i].address), &at, NULL) == 0)
                        return at.port;
        }
        return 0;
}

static void on_ready(void *arg, const struct service_info *info) {
        link_ready(arg, port_of(info, "http"), port_of(info, "socks"));
}

static void on_message(void *arg, bool bad, const char *text) {
        (void)arg;
        if (bad)
                log_error("gateway: %s", text);
}

static enum run_end gateway_job(const struct supervise_call *call, struct err *err) {
        const char *http[] = { call->request.http, NULL }, *socks[] = { call->request.socks, NULL };
        const struct service_settings settings = {
                .policy = &call->settings.policy,
                .link = call->link,
                .http = http,
                .socks = socks,
                .hosts_file = call->request.hosts_file,
                .log_level = LOG_ERROR,
                .on_ready = on_ready,
                .on_message = on_message,
                .arg = (void *)(uintptr_t)call->link,
        };
        if (gateway_service_run(&settings, err) == 0)
                return RUN_ENDED;

        if (err->kind == ERR_CONFIG)
                return RUN_BAD_POLICY;

        return RUN_FAILED;
}

static void tell_end(const struct link *link, enum run_end end, int status, bool signalled, const struct err *err) {
        link_end(link, end, status, end == RUN_ENDED && signalled, err->code ? err_text(err) : NULL);
}

enum run_end supervise_job(int *ret_status, struct err *err) {
        cleanup(supervise_call_done) struct supervise_call call = { 0 };
        enum run_end end = RUN_BAD_POLICY;
        bool signalled = false;

        if (supervise_call_take(&call, err) == 0) {
                if (call.request.job == SUPERVISE_RUN)
                        end = run_job(&call, ret_status, &signalled, err);
                else if (call.request.job >= SUPERVISE_COMMAND)
                        end = command_job(&call, ret_status, err);
                else
                        end = gateway_job(&call, err);
        }

        if (call.link)
                tell_end(call.link, end, *ret_status,
                         signalled || (call.request.job != SUPERVISE_RUN && *ret_status > SIGNALLED), err);

        return end;
}
