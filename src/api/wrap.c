/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A command that the caller starts. The job travels in an environment variable and not in a descriptor: a descriptor
 * that a child must inherit would be inherited by whatever else the program starts at that moment, and not every way to
 * start a process can hand one on. `bailey supervise` takes the variable out before anything else; the command never
 * sees it.
 */
#include "api/api_exec.h"
#include "api/api_report.h"
#include "api/approve.h"
#include "base/cleanup.h"

#include <stdlib.h>

struct wrapped {
        char *program, *variable;
        const char *argv[3];
        const char **envp;
        char **copies; /* of the environment, NULL-terminated */
};

static void wrapped_free(struct wrapped *wrapped) {
        if (!wrapped)
                return;

        for (size_t i = 0; wrapped->copies && wrapped->copies[i]; i++)
                free(wrapped->copies[i]);

        free(wrapped->copies);
        free(wrapped->envp);
        free(wrapped->program);
        free(wrapped->variable);
        free(wrapped);
}
CLEANUP_PTR(struct wrapped, wrapped_free)

static int copy_env(struct wrapped *wrapped, const char *const *envp) {
        size_t n = 0;
        while (envp[n])
                n++;

        wrapped->copies = calloc(n + 1, sizeof *wrapped->copies);
        wrapped->envp = calloc(n + 2, sizeof *wrapped->envp);
        if (!wrapped->copies || !wrapped->envp)
                return -1;

        size_t used = 0;

        for (size_t i = 0; i < n; i++) {
                if (strncmp(envp[i], SUPERVISE_VARIABLE "=", sizeof SUPERVISE_VARIABLE) == 0)
                        continue;
                if (!(wrapped->copies[used] = str_dup(str_of(envp[i]))))
                        return -1;

                wrapped->envp[used] = wrapped->copies[used];
                used++;
        }

        wrapped->envp[used] = wrapped->variable;
        return 0;
}

static int wrap_make(const bailey_manager *manager, const struct state *state, const struct bailey_command *command,
                     const bailey_options *options, const supervise_texts *judged, struct wrapped **ret,
                     struct bailey_error *error) {
        cleanup(wrapped_freep) struct wrapped *w = calloc(1, sizeof *w);
        cleanup(free_ptr) char *block = NULL;
        const struct exec_call call = { .argv = command->argv, .options = options, .judged = judged };

        if (!w)
                return report_memory(error);

        int r = exec_block(state, &call, &block, error);
        if (r != BAILEY_OK)
                return r;

        if (strlen(block) > SUPERVISE_VARIABLE_MAX)
                return report(error, BAILEY_E_CONFIG,
                              "the command and its policy are larger than %d bytes; put long lists of hosts into a "
                              "file (network.allow_file, network.deny_file)",
                              SUPERVISE_VARIABLE_MAX);

        w->program = str_dup(str_of(state->program));
        w->variable = str_format(SUPERVISE_VARIABLE "=%s", block);
        const char *const *envp = command->envp ? command->envp : (const char *const *)manager->env;
        if (!w->program || !w->variable || copy_env(w, envp) < 0)
                return report_memory(error);

        w->argv[0] = "bailey";
        w->argv[1] = "supervise";
        *ret = take_ptr(&w);

        return BAILEY_OK;
}

/* argv[0] may differ from path, as of a login shell: what is executed is the path. */
static const char **words_of(const struct bailey_command *command) {
        size_t n = 0;
        while (command->argv[n])
                n++;
        const char **words = calloc(n + 1, sizeof *words);
        for (size_t i = 0; words && i < n; i++)
                words[i] = i ? command->argv[i] : command->path;
        return words;
}

static int wrap_command(bailey_manager *manager, const struct state *state, struct bailey_command *command,
                        const bailey_options *options, struct bailey_error *error) {
        cleanup(free_ptr) const char **words = words_of(command);
        cleanup(approve_judged_done) supervise_texts judged = { 0 };
        struct wrapped *wrapped = NULL;

        if (!words)
                return report_memory(error);

        struct bailey_command own = *command;
        own.argv = words;
        int r = state_check_call(state, options, error);
        if (r == BAILEY_OK)
                r = approve(manager, state, &(struct approve_command){ .argv = words }, options, &judged, error);
        if (r != BAILEY_OK || !manager->sandboxed)
                return r;

        r = wrap_make(manager, state, &own, options, &judged, &wrapped, error);
        if (!wrapped)
                return r;

        command->path = wrapped->program;
        command->argv = wrapped->argv;
        command->envp = wrapped->envp;
        command->memory = wrapped;

        return BAILEY_OK;
}

int bailey_manager_wrap(bailey_manager *manager, struct bailey_command *command, const bailey_options *options,
                        struct bailey_error *error) {
        cleanup(state_unrefp) struct state *s = NULL;

        if (!manager || !command || !command->path || !command->argv || !command->argv[0])
                return report_null(error);
        if (command->memory)
                return report(error, BAILEY_E_ARGUMENT, "the command is wrapped already");

        int r = manager_enter(manager, &s, error);
        if (r != BAILEY_OK)
                return r;

        r = wrap_command(manager, s, command, options, error);
        manager_leave(manager);

        return r;
}

void bailey_command_done(struct bailey_command *command) {
        if (!command || !command->memory)
                return;
        wrapped_free(command->memory);
        *command = (struct bailey_command){ 0 };
}
