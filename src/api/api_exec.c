/* SPDX-License-Identifier: Apache-2.0 */
#include "api/api_exec.h"

#include "api/api_report.h"
#include "api/approve.h"
#include "api/capture.h"
#include "api/plain.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/paths/path.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

/*
 * The request.
 */
int exec_directory(const struct state *state, const bailey_options *options, char **ret, struct bailey_error *error) {
        cleanup(free_ptr) char *directory = NULL;
        if (!options || !options->directory) {
                if ((*ret = str_dup(str_of(state->request.base))))
                        return BAILEY_OK;
                return report_memory(error);
        }

        int r = path_normalise(str_of(options->directory), state->request.base, &directory);
        if (r == -ENOMEM)
                return report_memory(error);
        if (r < 0)
                return report(error, BAILEY_E_ARGUMENT, "the directory is no path");
        if (access(directory, X_OK) < 0)
                return report(error, BAILEY_E_ARGUMENT, "cannot start in %s: %s", directory, strerror(errno));

        *ret = take_ptr(&directory);
        return BAILEY_OK;
}

int exec_block(const struct state *state, const struct exec_call *call, char **ret, struct bailey_error *error) {
        struct err why = { 0 };
        struct supervise_request own = { 0 };                   /* cwd, call and argv; the rest belongs to the state */
        bool asked = call->options && call->options->directory; /* else: where a run of this manager starts */
        int code = asked ? exec_directory(state, call->options, &own.cwd, error) : BAILEY_OK;
        int r = 0;
        for (size_t i = 0; r == 0 && call->argv[i]; i++)
                r = supervise_texts_add(&own.argv, str_of(call->argv[i]));

        if (r == 0 && call->options)
                r = config_texts(&call->options->values, &own.call);
        if (code == BAILEY_OK && r < 0)
                code = report_memory(error);

        if (code == BAILEY_OK) {
                struct supervise_request request = state->request;

                request.job = call->job;
                request.judged = call->judged ? *call->judged : (supervise_texts){ 0 };
                request.cwd = own.cwd;
                request.call = own.call;
                request.argv = own.argv;
                code =
                    supervise_encode(&request, ret, &why) < 0 ? report_err(error, BAILEY_E_ARGUMENT, &why) : BAILEY_OK;
        }

        supervise_request_done(&own);
        return code;
}

/*
 * Serving.
 */
void exec_answer(const struct state *state, int link, const struct supervise_message *question) {
        struct supervise_message message = { .kind = SUPERVISE_ANSWER, .id = question->id };
        if (state->on_request)
                message.number = state->on_request(state->request_arg, question->host, (uint16_t)question->number) == 1;
        (void)supervise_send(link, &message, NULL);
}

static void on_ask(void *arg, int link, const struct supervise_message *question) {
        exec_answer(arg, link, question);
}

int exec_end(const struct supervise_message *end, struct bailey_error *error) {
        static const enum bailey_code codes[] = {
                [RUN_ENDED] = BAILEY_OK,
                [RUN_BAD_POLICY] = BAILEY_E_CONFIG,
                [RUN_REFUSED] = BAILEY_E_CONFIG,
                [RUN_UNAVAILABLE] = BAILEY_E_PLATFORM,
                [RUN_TIMED_OUT] = BAILEY_E_TIMEOUT,
                [RUN_CANCELLED] = BAILEY_E_CANCELLED,
                [RUN_FAILED] = BAILEY_E_SYSTEM,
        };
        enum bailey_code code = end->number < RUN_ENDS ? codes[end->number] : BAILEY_E_SYSTEM;

        if (code == BAILEY_OK)
                return BAILEY_OK;

        return report(error, code, "%s", end->detail);
}

static int exec_conclude(struct capture *capture, struct bailey_error *error) {
        bailey_result *r = capture->result;

        if (capture->stopped)
                return report(error, BAILEY_E_CANCELLED, "the command was cancelled and ended");
        if (!capture->told)
                return report(error, BAILEY_E_SYSTEM, "bailey ended before the command did");

        int code = exec_end(&capture->end, error);
        r->signal = capture->end.signalled ? capture->end.status - 128 : 0;
        r->exit_code = capture->end.signalled ? -1 : capture->end.status;
        r->sandboxed = true;

        if (code == BAILEY_E_TIMEOUT)
                r->exit_code = -1;

        if (result_finish(r) < 0)
                return report_memory(error);

        return code;
}

static int run_sandboxed(bailey_manager *manager, const struct state *state, const struct exec_call *call,
                         bailey_result *result, struct bailey_error *error) {
        cleanup(free_ptr) char *block = NULL;
        static char name[] = "bailey", verb[] = "supervise";
        char *const argv[] = { name, verb, NULL };
        const bailey_options *o = call->options;
        struct capture capture = { .child = CHILD_NONE,
                                   .result = result,
                                   .stop = { manager->closing, o && o->cancel ? o->cancel->fd : -1 },
                                   .on_ask = on_ask,
                                   .arg = (void *)(uintptr_t)state };
        int r = exec_block(state, call, &block, error);
        if (r != BAILEY_OK)
                return r;

        const struct child_plan plan = { .path = state->program,
                                         .argv = argv,
                                         .envp = manager->env,
                                         .block = block,
                                         .input = o ? o->input : -1,
                                         .capture = true };
        r = child_start(&plan, &capture.child, NULL, error);
        if (r != BAILEY_OK)
                return r;

        struct running running = { .link = capture.child.link };
        struct told told = manager_add(manager, &running, state);
        close_fd(&told.judged); /* the update has returned already */
        capture_serve(&capture);
        manager_remove(manager, &running); /* before the link is closed: updates are sent to it */
        capture_done(&capture);

        return exec_conclude(&capture, error);
}

int exec_run(bailey_manager *manager, const struct state *state, const struct exec_call *call, bailey_result **ret,
             struct bailey_error *error) {
        cleanup(result_freep) bailey_result *result = NULL;
        bool own = call->options && call->options->has_limit;
        if (result_new(own ? call->options->output_limit : state->output_limit, &result) < 0)
                return report_memory(error);

        uint64_t began = clock_ns();
        int r = manager->sandboxed ? run_sandboxed(manager, state, call, result, error)
                                   : plain_run(manager, state, call, result, error);
        result->duration_ns = clock_ns() - began;

        if (r == BAILEY_OK || r == BAILEY_E_TIMEOUT) /* then as far as it came */
                *ret = take_ptr(&result);

        return r;
}

/*
 * The two ways in.
 */
static int exec_command(bailey_manager *manager, const struct approve_command *command, const bailey_options *options,
                        bailey_result **ret, struct bailey_error *error) {
        cleanup(state_unrefp) struct state *s = NULL;
        int r = manager_enter(manager, &s, error);
        if (r != BAILEY_OK)
                return r;

        const char *shell = options && options->shell ? options->shell : s->shell;
        const char *const through[] = { shell, "-c", command->text, NULL };
        cleanup(approve_judged_done) supervise_texts judged = { 0 };
        const struct exec_call call = { .argv = command->text ? through : command->argv,
                                        .options = options,
                                        .judged = &judged };
        r = state_check_call(s, options, error);
        if (r == BAILEY_OK)
                r = approve(manager, s, command, options, &judged, error);

        bool recorded =
            r != BAILEY_OK || manager->sandboxed || approve_record_plain(manager, s, command, options, &judged);
        if (r == BAILEY_OK)
                r = exec_run(manager, s, &call, ret, error);
        if (r == BAILEY_OK && !recorded)
                result_add_notice(*ret, "; not recorded");

        manager_leave(manager);
        return r;
}

int bailey_manager_exec(bailey_manager *manager, const char *command, const bailey_options *options,
                        bailey_result **ret, struct bailey_error *error) {
        if (!manager || !command || !ret)
                return report_null(error);
        return exec_command(manager, &(struct approve_command){ .text = command }, options, ret, error);
}

int bailey_manager_exec_args(bailey_manager *manager, const char *const *argv, const bailey_options *options,
                             bailey_result **ret, struct bailey_error *error) {
        if (!manager || !argv || !argv[0] || !ret)
                return report_null(error);
        return exec_command(manager, &(struct approve_command){ .argv = argv }, options, ret, error);
}
