/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The smallest program on libbailey: run one shell command in a sandbox and show what came of it.
 *
 *     cc exec.c $(pkg-config --cflags --libs libbailey) -o exec && ./exec 'make test'
 */
#include <bailey/bailey.h>

#include <stdio.h>

static int fail(const struct bailey_error *e) {
        fprintf(stderr, "%s: %s\n", bailey_error_name(e->code), e->message);
        return 1;
}

/* A person decides about what the classifier escalates. */
static enum bailey_approval ask(void *arg, const struct bailey_question *q) {
        char answer[16];
        (void)arg;
        fprintf(stderr, "%s (%s)\nRun it? [y/N/s for this session] ", q->reason, q->rule);
        if (!fgets(answer, sizeof answer, stdin))
                return BAILEY_DENY;
        return answer[0] == 'y' ? BAILEY_APPROVE : answer[0] == 's' ? BAILEY_APPROVE_SESSION : BAILEY_DENY;
}

int main(int argc, char **argv) {
        struct bailey_error e;
        bailey_config *config = NULL;
        bailey_manager *manager = NULL;
        bailey_result *result = NULL;
        const char *text;
        size_t n, i;
        int status = 1;

        if (argc != 2) {
                fprintf(stderr, "usage: exec 'COMMAND'\n");
                return 2;
        }
        if (bailey_config_new("default", &config, &e) < 0 || bailey_config_on_approval(config, ask, NULL, &e) < 0 ||
            bailey_manager_new(config, &manager, &e) < 0) {
                fail(&e);
                goto out;
        }
        if (bailey_manager_exec(manager, argv[1], NULL, &result, &e) < 0) {
                fail(&e);
                goto out;
        }
        /* The length is written by the call: it must not stand in the same argument list. */
        text = bailey_result_stdout(result, &n);
        fwrite(text, 1, n, stdout);
        text = bailey_result_stderr(result, &n);
        fwrite(text, 1, n, stderr);

        for (i = 0; i < bailey_result_violations(result); i++) {
                const struct bailey_violation *v = bailey_result_violation(result, i);
                fprintf(stderr, "refused: %s %s: %s\n", v->operation, v->target, v->detail);
        }
        status = bailey_result_exit_code(result);
        if (bailey_result_signal(result))
                status = 128 + bailey_result_signal(result);
out:
        bailey_result_free(result);
        bailey_manager_free(manager);
        bailey_config_free(config);
        return status;
}
