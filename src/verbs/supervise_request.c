/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs/supervise_request.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

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
        if (!fd_is_pair(SUPERVISE_FD_LINK))
                return err_set(err, EBADF,
                               "this is for libbailey; programs are run with `bailey run` or `bailey exec`");

        if (fd_close_from(SUPERVISE_FD_REQUEST + 1) < 0) /* whatever the program left open */
                return err_errno(err, "cannot close inherited descriptors");

        int r = fd_read_all(fd, &block);
        if (r < 0)
                return err_set(err, -r, "cannot read the request: %s", strerror(-r));

        return supervise_decode(buf_str(&block), ret, err);
}

int supervise_call_take(struct supervise_call *call, struct err *err) {
        bool by_variable = getenv(SUPERVISE_VARIABLE) != NULL;
        struct supervise_request *request = &call->request;

        speak_less();
        call->socket = (struct link){ .fd = SUPERVISE_FD_LINK, .request = request };
        call->link = by_variable ? NULL : &call->socket;

        int r = by_variable ? read_variable(request, err) : read_descriptor(request, err);
        if (r == 0 && call->link && fcntl(call->socket.fd, F_SETFD, FD_CLOEXEC) < 0)
                r = err_errno(err, "cannot keep the socket to ourselves");
        if (r < 0)
                return r;

        call->socket.asks = request->asks != NULL;
        call->socket.asks_all = request->asks && strcmp(request->asks, SUPERVISE_ASKS_ALL) == 0;
        return link_settings_read(request, &call->settings, err);
}

void supervise_call_done(struct supervise_call *call) {
        link_settings_done(&call->settings);
        supervise_request_done(&call->request);
}

char **supervise_call_enter(const struct supervise_call *call, struct err *err) {
        const struct supervise_request *request = &call->request;
        const char *place = text_or(request->cwd, request->base);
        char **argv = calloc(request->argv.n + 1, sizeof *argv);

        if (!argv || chdir(place) < 0) {
                err_errno(err, "cannot start in %s", place);
                free(argv);
                return NULL;
        }

        for (size_t i = 0; i < request->argv.n; i++)
                argv[i] = request->argv.p[i];
        return argv;
}

struct judged supervise_call_judged(const struct supervise_call *call) {
        char *const *texts = call->request.judged.p;

        if (call->request.judged.n == 0)
                return (struct judged){ 0 };

        return (struct judged){ .decision = texts[JUDGED_DECISION],
                                .rule = texts[JUDGED_RULE],
                                .reason = texts[JUDGED_REASON],
                                .segment = texts[JUDGED_SEGMENT],
                                .command = texts[JUDGED_COMMAND],
                                .by = texts[JUDGED_BY][0] ? texts[JUDGED_BY] : NULL };
}
