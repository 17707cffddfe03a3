/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs/supervise.h"

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

/* Nobody reads notices here: what matters is told as a message. */
static void speak_less(void) {
        const struct log_settings quiet = { .level = LOG_ERROR, .fd = STDERR_FILENO, .program = "bailey" };
        log_setup(&quiet);
}

static int read_variable(struct supervise_request *ret, struct err *e) {
        cleanup(free_ptr) char *block = str_dup(str_of(getenv(SUPERVISE_VARIABLE)));
        if (!block)
                return err_memory(e);
        unsetenv(SUPERVISE_VARIABLE); /* the command does not see it */
        return supervise_decode(str_of(block), ret, e);
}

static int read_descriptor(struct supervise_request *ret, struct err *e) {
        cleanup(buf_done) struct buf block = BUF(SUPERVISE_BYTES_MAX);
        cleanup(close_fd) int fd = SUPERVISE_FD_REQUEST;
        int type = 0;
        socklen_t n = sizeof type;
        if (getsockopt(SUPERVISE_FD_LINK, SOL_SOCKET, SO_TYPE, &type, &n) < 0 || type != SOCK_SEQPACKET)
                return err_set(e, EBADF, "this is for libbailey; programs are run with `bailey run` or `bailey exec`");
        if (fd_close_from(SUPERVISE_FD_REQUEST + 1) < 0) /* whatever the program left open */
                return err_errno(e, "cannot close inherited descriptors");
        int r = fd_read_all(fd, &block);
        return r < 0 ? err_set(e, -r, "cannot read the request: %s", strerror(-r))
                     : supervise_decode(buf_str(&block), ret, e);
}

static struct judged judged_of(const struct supervise_request *q) {
        char *const *texts = q->judged.p;
        return (struct judged){ .decision = texts[JUDGED_DECISION],
                                .rule = texts[JUDGED_RULE],
                                .reason = texts[JUDGED_REASON],
                                .segment = texts[JUDGED_SEGMENT],
                                .command = texts[JUDGED_COMMAND],
                                .by = texts[JUDGED_BY][0] ? texts[JUDGED_BY] : NULL };
}

/* A command before it runs: asked about, or only recorded. */
static enum run_end command_job(const struct supervise_request *q, const struct policy_request *policy,
                                const struct link *link, int *ret_status, struct err *e) {
        cleanup(room_outcome_done) struct room_outcome room = { 0 };
        cleanup(free_ptr) char **argv = calloc(q->argv.n + 1, sizeof *argv);
        if (!argv || !link || chdir(q->cwd ? q->cwd : q->base) < 0) {
                err_errno(e, "cannot look at %s", q->cwd ? q->cwd : q->base);
                return RUN_FAILED;
        }
        for (size_t i = 0; i < q->argv.n; i++)
                argv[i] = q->argv.p[i];
        const struct room_request request = { .policy = policy,
                                              .argv = argv,
                                              .judged = judged_of(q),
                                              .link = link->fd,
                                              .runs = q->job == SUPERVISE_RECORD };
        if (room_wait(&request, &room, e) < 0)
                return RUN_FAILED;
        *ret_status = room.word == ROOM_APPROVED ? 0 : room.word == ROOM_NOBODY ? 2 : 1;
        err_set(e, EACCES, "%s", room.by); /* told with the end */
        return RUN_ENDED;
}

static enum run_end run_job(const struct supervise_request *q, const struct policy_request *policy,
                            const struct link *link, int *ret_status, bool *ret_signalled, struct err *e) {
        cleanup(free_ptr) char **argv = calloc(q->argv.n + 1, sizeof *argv);
        if (!argv || chdir(q->cwd ? q->cwd : q->base) < 0) {
                err_errno(e, "cannot start in %s", q->cwd ? q->cwd : q->base);
                return RUN_FAILED;
        }
        for (size_t i = 0; i < q->argv.n; i++)
                argv[i] = q->argv.p[i];
        const struct judged judged = q->judged.n ? judged_of(q) : (struct judged){ 0 };
        const struct run_request request = { .argv = argv,
                                             .hosts_file = q->hosts_file,
                                             .ca_bundle = q->ca_bundle,
                                             .quiet = true,
                                             .starts_here = q->cwd != NULL,
                                             .policy = policy,
                                             .ret_signalled = ret_signalled,
                                             .judged = q->judged.n ? &judged : NULL,
                                             .link = link };
        return run_command(&request, ret_status, e);
}

/*
 * A gateway: the ports are told as soon as it accepts.
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

static enum run_end gateway_job(const struct supervise_request *q, const struct policy_request *policy,
                                const struct link *link, struct err *e) {
        const char *http[] = { q->http, NULL }, *socks[] = { q->socks, NULL };
        const struct service_settings settings = {
                .policy = policy,
                .link = link,
                .http = http,
                .socks = socks,
                .hosts_file = q->hosts_file,
                .log_level = LOG_ERROR,
                .on_ready = on_ready,
                .on_message = on_message,
                .arg = (void *)(uintptr_t)link,
        };
        if (gateway_service_run(&settings, e) == 0)
                return RUN_ENDED;
        return e->kind == ERR_CONFIG ? RUN_BAD_POLICY : RUN_FAILED;
}

static void tell_end(const struct link *link, enum run_end end, int status, bool signalled, const struct err *e) {
        link_end(link, end, status, end == RUN_ENDED && signalled, e->code ? err_text(e) : NULL);
}

enum run_end supervise_job(int *ret_status, struct err *e) {
        cleanup(supervise_request_done) struct supervise_request q = { 0 };
        cleanup(link_settings_done) struct link_settings settings = { 0 };
        bool by_variable = getenv(SUPERVISE_VARIABLE) != NULL;
        struct link socket = { .fd = SUPERVISE_FD_LINK, .request = &q }, *link = by_variable ? NULL : &socket;
        enum run_end end = RUN_BAD_POLICY;
        bool signalled = false;
        speak_less();
        int r = by_variable ? read_variable(&q, e) : read_descriptor(&q, e);
        if (r == 0 && link && fcntl(link->fd, F_SETFD, FD_CLOEXEC) < 0)
                r = err_errno(e, "cannot keep the socket to ourselves");
        socket.asks = q.asks != NULL;
        r = r < 0 ? r : link_settings_read(&q, &settings, e);
        if (r == 0)
                end = q.job == SUPERVISE_RUN       ? run_job(&q, &settings.policy, link, ret_status, &signalled, e)
                      : q.job >= SUPERVISE_COMMAND ? command_job(&q, &settings.policy, link, ret_status, e)
                                                   : gateway_job(&q, &settings.policy, link, e);
        if (link)
                tell_end(link, end, *ret_status, signalled || (q.job != SUPERVISE_RUN && *ret_status > SIGNALLED), e);
        return end;
}
