/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One call: a process, two pipes and a link are served by the thread that called, until all three have ended. What the
 * command writes is kept up to the limit and read beyond it, so that it never waits for us and we never grow.
 *
 * Ending early (cancelled, closed): our half of the link is shut, upon which the supervisor kills the sandbox and ends
 * in its turn; one that does not within the patience below is killed itself, and the sandbox with it (its init
 * watches).
 */
#include "api/exec.h"

#include "api/approve.h"
#include "api/child.h"
#include "api/plain.h"
#include "api/report.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/path.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PATIENCE_MS = 5000 };

/*
 * The request.
 */
int exec_directory(const struct state *s, const bailey_options *o, char **ret, struct bailey_error *e) {
        cleanup(free_ptr) char *directory = NULL;
        if (!o || !o->directory)
                return (*ret = str_dup(str_of(s->request.base))) ? BAILEY_OK : report_memory(e);
        int r = path_normalise(str_of(o->directory), s->request.base, &directory);
        if (r < 0)
                return r == -ENOMEM ? report_memory(e) : report(e, BAILEY_E_ARGUMENT, "the directory is no path");
        if (access(directory, X_OK) < 0)
                return report(e, BAILEY_E_ARGUMENT, "cannot start in %s: %s", directory, strerror(errno));
        *ret = take_ptr(&directory);
        return BAILEY_OK;
}

int exec_block(const struct state *s, const struct exec_call *c, char **ret, struct bailey_error *e) {
        struct err why = { 0 };
        struct supervise_request own = { 0 }; /* cwd, call and argv; the rest belongs to the state */
        int code = exec_directory(s, c->options, &own.cwd, e);
        int r = 0;
        for (size_t i = 0; r == 0 && c->argv[i]; i++)
                r = supervise_texts_add(&own.argv, str_of(c->argv[i]));
        if (r == 0 && c->options)
                r = config_texts(&c->options->values, &own.call);
        if (code == BAILEY_OK && r < 0)
                code = report_memory(e);
        if (code == BAILEY_OK) {
                struct supervise_request q = s->request;
                q.job = SUPERVISE_RUN;
                q.cwd = own.cwd;
                q.call = own.call;
                q.argv = own.argv;
                code = supervise_encode(&q, ret, &why) < 0 ? report_err(e, BAILEY_E_ARGUMENT, &why) : BAILEY_OK;
        }
        supervise_request_done(&own);
        return code;
}

/*
 * Serving.
 */
struct service {
        bailey_manager *manager;
        const struct state *state;
        struct child child;
        bailey_result *result;
        int cancel;           /* -1: none */
        uint64_t kill_at_ns;  /* not 0: it is being ended, and has this long */
        enum bailey_code why; /* CANCELLED when we ended it */
        bool linked;          /* the link has not ended */
        bool told;            /* `end` is there */
        struct supervise_message end;
};

void exec_answer(const struct state *s, int link, const struct supervise_message *question) {
        struct supervise_message m = { .kind = SUPERVISE_ANSWER, .id = question->id };
        if (s->on_request)
                m.number = s->on_request(s->request_arg, question->host, (uint16_t)question->number) == 1;
        else if (s->asks_elsewhere)
                return;
        (void)supervise_send(link, &m, -1);
}

static void hear(struct service *s) {
        struct supervise_message m;
        int fd = -1, r = supervise_receive(s->child.link, &m, &fd);
        close_fd(&fd);
        if (r == -EAGAIN)
                return;
        if (r <= 0) {
                s->linked = false;
                return;
        }
        const struct bailey_violation v = {
                .operation = m.host, .target = m.target, .rule = m.rule, .detail = m.detail, .count = m.number
        };
        switch (m.kind) {
        case SUPERVISE_ASK:
                exec_answer(s->state, s->child.link, &m);
                break;
        case SUPERVISE_VIOLATION:
                (void)result_add_violation(s->result, &v); /* without memory the list is shorter; the audit is whole */
                break;
        case SUPERVISE_END:
                s->end = m;
                s->told = true;
                break;
        default:
                break;
        }
}

static void end_early(struct service *s) {
        if (s->kill_at_ns)
                return;
        s->why = BAILEY_E_CANCELLED;
        s->kill_at_ns = clock_ns() + PATIENCE_MS * NS_PER_MS;
        shutdown(s->child.link, SHUT_WR);
}

/* After the end was told, pipes that stay open are somebody else's: they do not keep us. */
static int time_left(struct service *s) {
        if (s->told && !s->kill_at_ns)
                s->kill_at_ns = clock_ns() + PATIENCE_MS * NS_PER_MS;
        if (!s->kill_at_ns)
                return -1;
        uint64_t now = clock_ns();
        return now < s->kill_at_ns ? (int)((s->kill_at_ns - now) / NS_PER_MS) + 1 : 0;
}

static void serve(struct service *s) {
        struct child *c = &s->child;
        while (c->out >= 0 || c->err >= 0 || s->linked) {
                bool ending = s->kill_at_ns != 0;
                struct pollfd fds[] = {
                        { .fd = c->out, .events = POLLIN },
                        { .fd = c->err, .events = POLLIN },
                        { .fd = s->linked ? c->link : -1, .events = POLLIN },
                        { .fd = ending ? -1 : s->cancel, .events = POLLIN },
                        { .fd = ending ? -1 : s->manager->closing, .events = POLLIN },
                };
                int wait = time_left(s);
                if (wait == 0)
                        return;
                if (poll(fds, sizeof fds / sizeof *fds, wait) < 0)
                        continue; /* a signal */
                if (fds[0].revents && !output_read(&s->result->out, c->out))
                        close_fd(&c->out);
                if (fds[1].revents && !output_read(&s->result->err, c->err))
                        close_fd(&c->err);
                if (fds[3].revents || fds[4].revents)
                        end_early(s);
                else if (fds[2].revents)
                        hear(s);
        }
}

int exec_end(const struct supervise_message *end, struct bailey_error *e) {
        static const enum bailey_code codes[] = {
                [SUPERVISE_ENDED] = BAILEY_OK,
                [SUPERVISE_BAD_POLICY] = BAILEY_E_CONFIG,
                [SUPERVISE_UNAVAILABLE] = BAILEY_E_PLATFORM,
                [SUPERVISE_TIMED_OUT] = BAILEY_E_TIMEOUT,
                [SUPERVISE_CANCELLED] = BAILEY_E_CANCELLED,
                [SUPERVISE_FAILED] = BAILEY_E_SYSTEM,
        };
        enum bailey_code code = end->number < SUPERVISE_ENDS ? codes[end->number] : BAILEY_E_SYSTEM;
        return code == BAILEY_OK ? BAILEY_OK : report(e, code, "%s", end->detail);
}

static int conclude(struct service *s, struct bailey_error *e) {
        bailey_result *r = s->result;
        if (s->why == BAILEY_E_CANCELLED)
                return report(e, BAILEY_E_CANCELLED, "the command was cancelled and ended");
        if (!s->told)
                return report(e, BAILEY_E_SYSTEM, "bailey ended before the command did");
        int code = exec_end(&s->end, e);
        r->signal = s->end.signalled ? s->end.status - 128 : 0;
        r->exit_code = s->end.signalled ? -1 : s->end.status;
        r->sandboxed = true;
        return code == BAILEY_OK && result_finish(r) < 0 ? report_memory(e) : code;
}

static int run_sandboxed(bailey_manager *m, const struct state *state, const struct exec_call *c, bailey_result *result,
                         struct bailey_error *e) {
        cleanup(free_ptr) char *block = NULL;
        static char name[] = "bailey", verb[] = "supervise";
        char *const argv[] = { name, verb, NULL };
        struct service s = { .manager = m,
                             .state = state,
                             .child = CHILD_NONE,
                             .result = result,
                             .cancel = c->options && c->options->cancel ? c->options->cancel->fd : -1 };
        int r = exec_block(state, c, &block, e);
        if (r != BAILEY_OK)
                return r;
        const struct child_plan plan = { .path = state->program,
                                         .argv = argv,
                                         .envp = m->env,
                                         .block = block,
                                         .input = c->options ? c->options->input : -1,
                                         .capture = true };
        r = child_start(&plan, &s.child, NULL, e);
        if (r != BAILEY_OK)
                return r;
        struct running running = { .link = s.child.link };
        manager_add(m, &running, state);
        s.linked = true;
        serve(&s);
        manager_remove(m, &running); /* before the link is closed: updates are sent to it */
        (void)child_wait(&s.child, PATIENCE_MS);
        child_done(&s.child);
        return conclude(&s, e);
}

int exec_run(bailey_manager *m, const struct state *s, const struct exec_call *c, bailey_result **ret,
             struct bailey_error *e) {
        cleanup(result_freep) bailey_result *result = NULL;
        bool own = c->options && c->options->has_limit;
        if (result_new(own ? c->options->output_limit : s->output_limit, &result) < 0)
                return report_memory(e);
        uint64_t began = clock_ns();
        int r = m->sandboxed ? run_sandboxed(m, s, c, result, e) : plain_run(m, s, c, result, e);
        result->duration_ns = clock_ns() - began;
        if (r == BAILEY_OK)
                *ret = take_ptr(&result);
        return r;
}

/*
 * The two ways in.
 */
static int exec(bailey_manager *m, const struct approve_command *c, const bailey_options *o, bailey_result **ret,
                struct bailey_error *e) {
        cleanup(state_unrefp) struct state *s = NULL;
        int r = manager_enter(m, &s, e);
        if (r != BAILEY_OK)
                return r;
        const char *shell = o && o->shell ? o->shell : s->shell;
        const char *const through[] = { shell, "-c", c->text, NULL };
        const struct exec_call call = { .argv = c->text ? through : c->argv, .options = o };
        r = state_check_call(s, o, e);
        if (r == BAILEY_OK)
                r = approve(m, s, c, o, e);
        if (r == BAILEY_OK)
                r = exec_run(m, s, &call, ret, e);
        manager_leave(m);
        return r;
}

int bailey_manager_exec(bailey_manager *m, const char *command, const bailey_options *o, bailey_result **ret,
                        struct bailey_error *e) {
        if (!m || !command || !ret)
                return report_null(e);
        return exec(m, &(struct approve_command){ .text = command }, o, ret, e);
}

int bailey_manager_exec_args(bailey_manager *m, const char *const *argv, const bailey_options *o, bailey_result **ret,
                             struct bailey_error *e) {
        if (!m || !argv || !argv[0] || !ret)
                return report_null(e);
        return exec(m, &(struct approve_command){ .argv = argv }, o, ret, e);
}
