/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs/supervise_job.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "control/command_room.h"
#include "control/link.h"
#include "egress/gateway_service.h"
#include "roles/listen.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SIGNALLED = 128 };

/* Nobody reads notices here: important events are sent as messages. */
static void speak_less(void) {
        const struct log_settings quiet = { .level = LOG_ERROR, .fd = STDERR_FILENO, .program = "bailey" };
        log_setup(&quiet);
}

static int read_variable(struct supervise_request *ret, struct err *err) {
        cleanup(free_ptr) char *block = str_dup(str_of(getenv(SUPERVISE_VARIABLE)));
        if (!block)
                return err_memory(err);
        unsetenv(SUPERVISE_VARIABLE); /* the command does not see it */
        return supervise_decode(str_of(block), ret, err);
}

static int read_descriptor(struct supervise_request *ret, struct err *err) {
        cleanup(buf_done) struct buf block = BUF(SUPERVISE_BYTES_MAX);
        cleanup(close_fd) int fd = SUPERVISE_FD_REQUEST;
        int type = 0;
        socklen_t n = sizeof type;
        if (getsockopt(SUPERVISE_FD_LINK, SOL_SOCKET, SO_TYPE, &type, &n) < 0 || type != SOCK_SEQPACKET)
                return err_set(err, EBADF,
                               "this is for libbailey; programs are run with `bailey run` or `bailey exec`");

        if (fd_close_from(SUPERVISE_FD_REQUEST + 1) < 0) /* whatever the program left open */
                return err_errno(err, "cannot close inherited descriptors");

        int r = fd_read_all(fd, &block);
        if (r < 0)
                return err_set(err, -r, "cannot read the request: %s", strerror(-r));

        return supervise_decode(buf_str(&block), ret, err);
}

static struct judged judged_of(const struct supervise_request *request) {
        char *const *texts = request->judged.p;
        return (struct judged){ .decision = texts[JUDGED_DECISION],
                                .rule = texts[JUDGED_RULE],
                                .reason = texts[JUDGED_REASON],
                                .segment = texts[JUDGED_SEGMENT],
                                .command = texts[JUDGED_COMMAND],
                                .by = texts[JUDGED_BY][0] ? texts[JUDGED_BY] : NULL };
}

/* A command before it runs: asked about, or only recorded. */
static enum run_end command_job(const struct supervise_request *supervise_request, const struct policy_request *policy,
                                const struct link *link, int *ret_status, struct err *err) {
        cleanup(room_outcome_done) struct room_outcome room = { 0 };
        cleanup(free_ptr) char **argv = calloc(supervise_request->argv.n + 1, sizeof *argv);
        if (!argv || !link || chdir(supervise_request->cwd ? supervise_request->cwd : supervise_request->base) < 0) {
                err_errno(err, "cannot look at %s",
                          supervise_request->cwd ? supervise_request->cwd : supervise_request->base);
                return RUN_FAILED;
        }

        for (size_t i = 0; i < supervise_request->argv.n; i++)
                argv[i] = supervise_request->argv.p[i];

        const struct room_request request = { .policy = policy,
                                              .argv = argv,
                                              .judged = judged_of(supervise_request),
                                              .link = link->fd,
                                              .runs = supervise_request->job == SUPERVISE_RECORD };
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

static enum run_end run_job(const struct supervise_request *supervise_request, const struct policy_request *policy,
                            const struct link *link, int *ret_status, bool *ret_signalled, struct err *err) {
        cleanup(free_ptr) char **argv = calloc(supervise_request->argv.n + 1, sizeof *argv);
        if (!argv || chdir(supervise_request->cwd ? supervise_request->cwd : supervise_request->base) < 0) {
                err_errno(err, "cannot start in %s",
                          supervise_request->cwd ? supervise_request->cwd : supervise_request->base);
                return RUN_FAILED;
        }

        for (size_t i = 0; i < supervise_request->argv.n; i++)
                argv[i] = supervise_request->argv.p[i];

        const struct judged judged = supervise_request->judged.n ? judged_of(supervise_request) : (struct judged){ 0 };
        const struct run_request request = { .argv = argv,
                                             .hosts_file = supervise_request->hosts_file,
                                             .ca_bundle = supervise_request->ca_bundle,
                                             .quiet = true,
                                             .starts_here = supervise_request->cwd != NULL,
                                             .policy = policy,
                                             .ret_signalled = ret_signalled,
                                             .judged = supervise_request->judged.n ? &judged : NULL,
                                             .link = link };

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

static enum run_end gateway_job(const struct supervise_request *request, const struct policy_request *policy,
                                const struct link *link, struct err *err) {
        const char *http[] = { request->http, NULL }, *socks[] = { request->socks, NULL };
        const struct service_settings settings = {
                .policy = policy,
                .link = link,
                .http = http,
                .socks = socks,
                .hosts_file = request->hosts_file,
                .log_level = LOG_ERROR,
                .on_ready = on_ready,
                .on_message = on_message,
                .arg = (void *)(uintptr_t)link,
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
        cleanup(supervise_request_done) struct supervise_request request = { 0 };
        cleanup(link_settings_done) struct link_settings settings = { 0 };
        bool by_variable = getenv(SUPERVISE_VARIABLE) != NULL;
        struct link socket = { .fd = SUPERVISE_FD_LINK, .request = &request }, *link = by_variable ? NULL : &socket;
        enum run_end end = RUN_BAD_POLICY;
        bool signalled = false;

        speak_less();
        int r = by_variable ? read_variable(&request, err) : read_descriptor(&request, err);
        if (r == 0 && link && fcntl(link->fd, F_SETFD, FD_CLOEXEC) < 0)
                r = err_errno(err, "cannot keep the socket to ourselves");

        socket.asks = request.asks != NULL;
        socket.asks_all = request.asks && strcmp(request.asks, SUPERVISE_ASKS_ALL) == 0;
        if (r >= 0)
                r = link_settings_read(&request, &settings, err);
        if (r == 0) {
                if (request.job == SUPERVISE_RUN)
                        end = run_job(&request, &settings.policy, link, ret_status, &signalled, err);
                else if (request.job >= SUPERVISE_COMMAND)
                        end = command_job(&request, &settings.policy, link, ret_status, err);
                else
                        end = gateway_job(&request, &settings.policy, link, err);
        }

        if (link)
                tell_end(link, end, *ret_status, signalled || (request.job != SUPERVISE_RUN && *ret_status > SIGNALLED),
                         err);

        return end;
}
