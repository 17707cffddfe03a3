/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A call is a `bailey guest` of its own: it opens the database, puts in order what was interrupted, and speaks to the
 * guest's agent. Nothing of that is in the program that loads this library.
 */
#include "api/api_guest_internal.h"
#include "api/api_program.h"
#include "api/api_report.h"
#include "api/config.h"
#include "api/plain.h"
#include "base/cleanup.h"
#include "base/clock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OWN_STATUS = 118, OWN_FIRST = 120, OWN_LAST = 125, LIST_MAX = 64 << 20 };
/* The codes of bailey(1). */
enum { STATUS_NO = 1, STATUS_USAGE = 2, STATUS_CONFIG = 3, STATUS_UNAVAILABLE = 4 };

struct bailey_guests {
        char *program;
};

typedef VEC(const char *) word_list;

static void word_list_done(word_list *words) {
        vec_done(words);
}

int bailey_guests_new(const char *executable, bailey_guests **ret, struct bailey_error *error) {
        cleanup(free_ptr) char *base = getcwd(NULL, 0);
        bailey_guests *guests;

        if (!ret)
                return report_null(error);
        guests = calloc(1, sizeof *guests);
        if (!guests)
                return report_memory(error);

        int r = program_find(executable, base ? base : "/", &guests->program, error);
        if (r != BAILEY_OK) {
                free(guests);
                return r;
        }

        *ret = guests;
        return BAILEY_OK;
}

void bailey_guests_free(bailey_guests *guests) {
        if (!guests)
                return;
        free(guests->program);
        free(guests);
}

/*
 * One call.
 */
static int words_add(word_list *words, const char *const *more) {
        int r = 0;

        for (size_t i = 0; more && more[i] && r == 0; i++)
                r = vec_push(words, more[i]);
        return r;
}

/* What it said last, without its name in front. */
static struct str words_of_failure(const bailey_result *result) {
        size_t n = 0;
        const char *text = bailey_result_stderr(result, &n);
        struct str said = str_n(text, n);

        while (said.n && said.p[said.n - 1] == '\n')
                said.n--;
        for (size_t at = said.n; at > 0; at--)
                if (said.p[at - 1] == '\n') {
                        said = str_skip(said, at);
                        break;
                }
        return said;
}

static bool failure_is_own(struct str said) {
        return str_starts(said, STR("bailey: error: "));
}

/* "bailey: error: guest start: the sentence" */
static struct str failure_sentence(struct str said) {
        if (!failure_is_own(said))
                return said;
        said = str_skip(said, strlen("bailey: error: "));
        const char *colon = str_starts(said, STR("guest ")) ? memmem(said.p, said.n, ": ", 2) : NULL;
        return colon ? str_skip(said, (size_t)(colon - said.p) + 2) : said;
}

/* What is not there, and was never promised: another status than that of a machine that lacks something it has not. */
static bool failure_names_nothing(struct str said) {
        static const char *const phrases[] = { "there is no guest",  "there is no snapshot", "has no such job",
                                               "was not granted to", "does not offer port",  "there is no recipe" };

        for (size_t i = 0; i < sizeof phrases / sizeof *phrases; i++)
                if (memmem(said.p, said.n, phrases[i], strlen(phrases[i])))
                        return true;
        return false;
}

static int guest_failure(int status, struct str said, struct bailey_error *error) {
        char text[1024];
        enum bailey_code code = BAILEY_E_SYSTEM;

        if (status == STATUS_NO || status == STATUS_USAGE)
                code = BAILEY_E_ARGUMENT;
        else if (status == STATUS_CONFIG)
                code = BAILEY_E_CONFIG;
        else if (status == STATUS_UNAVAILABLE)
                code = BAILEY_E_PLATFORM;
        if (failure_names_nothing(said))
                code = BAILEY_E_ARGUMENT;

        said = failure_sentence(said);
        report_escape(text, sizeof text, said.n ? said : STR("bailey guest said nothing"));
        return report(error, code, "%s", text);
}

static bool value_is_variable(const struct option_value *value) {
        return strcmp(value->option->key, "process.env.set") == 0;
}

/* Settings of a policy are the guest's own affair; a variable is for one command. */
static int options_check(const bailey_options *options, struct bailey_error *error) {
        for (size_t i = 0; options && i < options->values.values.n; i++) {
                const struct option_value *value = &options->values.values.p[i];

                if (strcmp(value->option->key, "process.timeout") != 0 && !value_is_variable(value))
                        return report(error, BAILEY_E_CONFIG,
                                      "%s is a setting of the guest's own policy, not of one call", value->option->key);
        }
        return BAILEY_OK;
}

static int guest_call(const bailey_guests *guests, const word_list *words, const bailey_options *options, uint64_t most,
                      bailey_result **ret, struct bailey_error *error) {
        cleanup(result_freep) bailey_result *result = NULL;
        cleanup(word_list_done) word_list argv = { 0 };
        int r = options_check(options, error);

        if (r != BAILEY_OK)
                return r;
        if (vec_push(&argv, "bailey") < 0 || vec_push(&argv, "guest") < 0 || words_add(&argv, words->p) < 0 ||
            vec_push(&argv, NULL) < 0 ||
            result_new(options && options->has_limit ? options->output_limit : most, &result) < 0)
                return report_memory(error);

        const struct child_plan plan = { .path = guests->program,
                                         .argv = (char *const *)(uintptr_t)argv.p,
                                         .envp = environ,
                                         .input = options ? options->input : -1,
                                         .capture = true };
        struct plain_call call = { .plan = &plan, .result = result, .stop = { -1, -1 } };
        if (options)
                call.timeout_ns = options->timeout_ms * NS_PER_MS;
        if (options && options->cancel)
                call.stop[0] = options->cancel->fd;

        uint64_t began = clock_ns();
        r = plain_child(&call, NULL, error);
        result->duration_ns = clock_ns() - began;
        result->sandboxed = true;

        if (r == BAILEY_OK || r == BAILEY_E_TIMEOUT)
                *ret = take_ptr(&result);
        return r;
}

int guest_verb(const bailey_guests *guests, const char *const *first, const char *const *more, bailey_result **ret,
               struct bailey_error *error) {
        cleanup(word_list_done) word_list words = { 0 };
        cleanup(result_freep) bailey_result *result = NULL;

        if (!guests)
                return report_null(error);
        if (words_add(&words, first) < 0 || words_add(&words, more) < 0 || vec_push(&words, NULL) < 0)
                return report_memory(error);

        int r = guest_call(guests, &words, NULL, LIST_MAX, &result, error);
        if (r != BAILEY_OK || !result)
                return r;
        if (result->exit_code != 0)
                return guest_failure(result->exit_code, words_of_failure(result), error);

        if (ret)
                *ret = take_ptr(&result);
        return BAILEY_OK;
}

/*
 * Life.
 */
/* "create --idle=1h -- NAME": no option can be taken for a name, and no name for an option. */
static int guest_verb_with_options(const bailey_guests *guests, const char *verb, const char *name,
                                   const char *const *options, struct bailey_error *error) {
        cleanup(word_list_done) word_list words = { 0 };

        if (!name)
                return report_null(error);
        if (words_add(&words, options) < 0 || vec_push(&words, "--") < 0 || vec_push(&words, name) < 0 ||
            vec_push(&words, NULL) < 0)
                return report_memory(error);

        return guest_verb(guests, (const char *const[]){ verb, NULL }, words.p, NULL, error);
}

int bailey_guest_create(bailey_guests *guests, const char *name, const char *const *options,
                        struct bailey_error *error) {
        return guest_verb_with_options(guests, "create", name, options, error);
}

int bailey_guest_set(bailey_guests *guests, const char *name, const char *const *options, struct bailey_error *error) {
        return guest_verb_with_options(guests, "set", name, options, error);
}

int bailey_guest_start(bailey_guests *guests, const char *name, struct bailey_error *error) {
        if (!name)
                return report_null(error);
        return guest_verb(guests, (const char *const[]){ "start", "--", name, NULL }, NULL, NULL, error);
}

int bailey_guest_stop(bailey_guests *guests, const char *name, struct bailey_error *error) {
        if (!name)
                return report_null(error);
        return guest_verb(guests, (const char *const[]){ "stop", "--", name, NULL }, NULL, NULL, error);
}

int bailey_guest_delete(bailey_guests *guests, const char *name, struct bailey_error *error) {
        if (!name)
                return report_null(error);
        return guest_verb(guests, (const char *const[]){ "delete", "--force", "--", name, NULL }, NULL, NULL, error);
}

/*
 * Commands and jobs.
 */
static int command_variables(const bailey_options *options, word_list *words) {
        int r = 0;

        for (size_t i = 0; r == 0 && options && i < options->values.values.n; i++) {
                if (!value_is_variable(&options->values.values.p[i]))
                        continue;

                r = vec_push(words, "--set");
                if (r == 0)
                        r = vec_push(words, options->values.values.p[i].text);
        }

        return r;
}

static int command_words(const char *name, const char *const *argv, const bailey_options *options, bool job,
                         word_list *words) {
        int r = vec_push(words, "exec");

        if (r == 0 && job)
                r = vec_push(words, "--detach");
        if (r == 0)
                r = command_variables(options, words);
        if (r == 0 && options && options->directory) {
                r = vec_push(words, "--directory");
                if (r == 0)
                        r = vec_push(words, options->directory);
        }
        if (r == 0)
                r = vec_push(words, name);
        if (r == 0)
                r = vec_push(words, "--");
        if (r == 0)
                r = words_add(words, argv);
        if (r < 0)
                return r;

        return vec_push(words, NULL);
}

static int guest_command(const bailey_guests *guests, const char *name, const char *const *argv,
                         const bailey_options *options, bool job, bailey_result **ret, struct bailey_error *error) {
        cleanup(word_list_done) word_list words = { 0 };
        cleanup(result_freep) bailey_result *result = NULL;

        if (!guests || !name || !argv || !argv[0])
                return report_null(error);
        if (name[0] == '-')
                return report(error, BAILEY_E_ARGUMENT, "a guest's name does not begin with '-'");
        if (command_words(name, argv, options, job, &words) < 0)
                return report_memory(error);

        int r = guest_call(guests, &words, options, CONFIG_OUTPUT_LIMIT, &result, error);
        if (r == BAILEY_E_TIMEOUT)
                *ret = take_ptr(&result);
        if (r != BAILEY_OK || !result)
                return r;

        struct str said = words_of_failure(result);
        if (result->exit_code >= OWN_FIRST && result->exit_code <= OWN_LAST && failure_is_own(said))
                return guest_failure(result->exit_code - OWN_STATUS, said, error);
        *ret = take_ptr(&result);
        return BAILEY_OK;
}

int bailey_guest_exec(bailey_guests *guests, const char *name, const char *const *argv, const bailey_options *options,
                      bailey_result **ret, struct bailey_error *error) {
        if (!ret)
                return report_null(error);

        return guest_command(guests, name, argv, options, false, ret, error);
}

int bailey_guest_job(bailey_guests *guests, const char *name, const char *const *argv, const bailey_options *options,
                     uint64_t *ret_number, struct bailey_error *error) {
        cleanup(result_freep) bailey_result *result = NULL;
        uint64_t number = 0;

        if (!ret_number)
                return report_null(error);
        int r = guest_command(guests, name, argv, options, true, &result, error);
        if (r != BAILEY_OK || !result)
                return r;

        size_t n = 0;
        const char *text = bailey_result_stdout(result, &n);
        struct str printed = str_n(text, n);
        if (printed.n && printed.p[printed.n - 1] == '\n')
                printed.n--;
        if (result->exit_code != 0)
                return guest_failure(STATUS_NO, words_of_failure(result), error);
        if (!str_to_u64(printed, UINT64_MAX, &number))
                return report(error, BAILEY_E_SYSTEM, "bailey guest printed no number for the job");

        *ret_number = number;
        return BAILEY_OK;
}

int bailey_guest_log(bailey_guests *guests, const char *name, uint64_t job, const bailey_options *options,
                     bailey_result **ret, struct bailey_error *error) {
        cleanup(word_list_done) word_list words = { 0 };
        cleanup(result_freep) bailey_result *result = NULL;
        char number[32];

        if (!guests || !name || !ret)
                return report_null(error);
        snprintf(number, sizeof number, "%llu", (unsigned long long)job);
        if (words_add(&words, (const char *const[]){ "logs", "--raw", "--", name, number, NULL }) < 0 ||
            vec_push(&words, NULL) < 0)
                return report_memory(error);

        int r = guest_call(guests, &words, options, LIST_MAX, &result, error);
        if (r != BAILEY_OK || !result)
                return r;
        if (result->exit_code != 0)
                return guest_failure(result->exit_code, words_of_failure(result), error);

        *ret = take_ptr(&result);
        return BAILEY_OK;
}
