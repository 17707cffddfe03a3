/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One command by libbailey, for the integration tests:
 *
 *     api-run PROGRAM [KEY=VALUE ...] [--answer yes|no] [--hosts FILE] [--then KEY=VALUE] -- COMMAND ...
 *
 * --then: when the file "update" is in the current directory, the config gets that too; the file goes when it judges.
 * Prints "CODE EXIT SIGNAL SANDBOXED", the notice, one line for each violation, an empty line, and the output.
 */
#include <bailey/bailey.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct update {
        bailey_manager *manager;
        bailey_config *config;
        const char *setting;
};

static int fail(const char *what, const struct bailey_error *e) {
        printf("%d\n%s: %s\n", (int)e->code, what, e->message);
        return 1;
}

static int set(bailey_config *config, const char *setting, struct bailey_error *e) {
        char key[64];
        const char *value = strchr(setting, '=') + 1;

        snprintf(key, sizeof key, "%.*s", (int)(value - setting - 1), setting);
        return bailey_config_set(config, key, value, e);
}

static int answer(void *arg, const char *host, uint16_t port) {
        fprintf(stderr, "asked: %s %u\n", host, port);
        return strcmp(arg, "yes") == 0;
}

static void *update_later(void *arg) {
        struct update *update = arg;
        struct bailey_error e = { 0 };

        for (int i = 0; i < 600 && access("update", F_OK) < 0; i++)
                usleep(100000);
        if (set(update->config, update->setting, &e) != BAILEY_OK ||
            bailey_manager_update(update->manager, update->config, &e) != BAILEY_OK)
                fprintf(stderr, "update: %s\n", e.message);
        (void)unlink("update");
        return NULL;
}

static int read_words(char **words, bailey_config *config, const char **then, struct bailey_error *e) {
        int n = 0, r = BAILEY_OK;

        for (; r == BAILEY_OK && words[n] && strcmp(words[n], "--") != 0; n++)
                if (strcmp(words[n], "--answer") == 0)
                        r = bailey_config_on_request(config, answer, words[++n], e);
                else if (strcmp(words[n], "--hosts") == 0)
                        r = bailey_config_hosts_file(config, words[++n], e);
                else if (strcmp(words[n], "--then") == 0)
                        *then = words[++n];
                else
                        r = set(config, words[n], e);
        return r == BAILEY_OK ? n + 1 : -1;
}

static void print_result(int code, const bailey_result *result) {
        size_t n = 0;
        const char *out = bailey_result_stdout(result, &n);

        printf("%d %d %d %d\nnotice: %s\n", code, bailey_result_exit_code(result), bailey_result_signal(result),
               bailey_result_sandboxed(result), bailey_result_notice(result));
        for (size_t i = 0; i < bailey_result_violations(result); i++) {
                const struct bailey_violation *violation = bailey_result_violation(result, i);
                printf("%s %s %llu\n", violation->operation, violation->target, (unsigned long long)violation->count);
        }
        printf("\n%.*s", (int)n, out);
}

int main(int argc, char **argv) {
        struct bailey_error e = { 0 };
        struct update update = { 0 };
        bailey_result *result = NULL;
        bailey_options *options = NULL;
        pthread_t thread;

        if (argc < 4 || bailey_config_new(NULL, &update.config, &e) != BAILEY_OK ||
            bailey_config_executable(update.config, argv[1], &e) != BAILEY_OK)
                return fail("config", &e);
        int n = read_words(argv + 2, update.config, &update.setting, &e);
        if (n < 0)
                return fail("config", &e);
        if (bailey_manager_new(update.config, &update.manager, &e) != BAILEY_OK)
                return fail("manager", &e);
        if (update.setting && pthread_create(&thread, NULL, update_later, &update) != 0)
                return 1;

        if (bailey_options_new(&options, &e) != BAILEY_OK || bailey_options_classify(options, 0, &e) != BAILEY_OK)
                return fail("options", &e);
        int code = bailey_manager_exec_args(update.manager, (const char *const *)argv + 2 + n, options, &result, &e);
        if (update.setting)
                pthread_join(thread, NULL);
        if (result)
                print_result(code, result);
        else
                fail("exec", &e);

        int status = result ? 0 : 1;
        bailey_result_free(result);
        bailey_options_free(options);
        bailey_manager_free(update.manager);
        bailey_config_free(update.config);
        return status;
}
