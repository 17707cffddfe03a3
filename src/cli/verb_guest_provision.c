/* SPDX-License-Identifier: Apache-2.0 */
/* bailey guest provision, recipes. */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/emit.h"
#include "base/escape.h"
#include "base/log.h"
#include "cli/verb_guest_internal.h"
#include "guest/recipe/provision.h"
#include "store/progress.h"
#include "verbs/policy_options.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { TAIL_LINES = 12, LINE_SHOWN = 72, SHOWN_MOST = 64 << 10 };

/*
 * Progress: one line for each step; on a terminal the last line of the output stands below it meanwhile.
 */
struct steps {
        struct progress progress; /* for the dashboard */
        bool terminal;
        uint64_t began_ns;
        char line[LINE_SHOWN * 2];
        size_t n_line;
};

static void text_show(FILE *to, struct str text) {
        cleanup(buf_done) struct buf shown = BUF(SHOWN_MOST);

        if (escape_text(&shown, text, LINE_SHOWN * 4) == 0)
                fprintf(to, "%.*s", STR_FMT(buf_str(&shown)));
}

static void progress_begins(void *arg, const struct recipe *recipe, const struct recipe_step *step, size_t number,
                            size_t of) {
        struct steps *steps = arg;

        fprintf(stderr, "[%zu/%zu] ", number, of);
        text_show(stderr, str_of(recipe->name));
        fputs(": ", stderr);
        text_show(stderr, str_of(step->name));
        fputs(steps->terminal ? "\n" : " ... ", stderr);
        steps->began_ns = clock_ns();
        steps->n_line = 0;
        steps->progress.total = of;
        steps->progress.done = number - 1;
        progress_add(&steps->progress, 0);
}

static void progress_output(void *arg, struct str bytes) {
        struct steps *steps = arg;

        if (!steps->terminal)
                return;

        for (size_t i = 0; i < bytes.n; i++) {
                if (bytes.p[i] != '\n' && bytes.p[i] != '\r') {
                        if (steps->n_line < LINE_SHOWN)
                                steps->line[steps->n_line++] = bytes.p[i];
                        continue;
                }

                if (steps->n_line) {
                        fputs("\r\033[K    ", stderr);
                        text_show(stderr, str_n(steps->line, steps->n_line));
                        fflush(stderr);
                }

                steps->n_line = 0;
        }
}

static void tail_show(struct str tail) {
        size_t lines = 0, from = tail.n;

        while (from > 0 && lines <= TAIL_LINES)
                if (tail.p[--from] == '\n' && from + 1 < tail.n && ++lines > TAIL_LINES)
                        from++;

        struct str rest = str_skip(tail, lines > TAIL_LINES ? from : 0), line;
        while (str_split(&rest, '\n', &line)) {
                if (!line.n && !rest.n)
                        break;

                fputs("    ", stderr);
                text_show(stderr, line);
                fputc('\n', stderr);
        }
}

static void progress_ended(void *arg, const struct recipe_step *step, int result, struct str tail) {
        struct steps *steps = arg;
        uint64_t took = (clock_ns() - steps->began_ns) / (NS_PER_SECOND / 10);

        (void)step;
        if (steps->terminal)
                fputs("\r\033[K    ", stderr);

        fprintf(stderr, "%s, %ju.%ju s\n", result < 0 ? "failed" : "done", (uintmax_t)(took / 10),
                (uintmax_t)(took % 10));
        if (result < 0)
                tail_show(tail);
}

int guest_provision_words(struct guests *guests, struct guest *guest, const struct provision_request *request,
                          struct err *err) {
        cleanup(recipe_list_done) recipe_list recipes = { 0 };
        cleanup(free_ptr) char *what = str_format("%s: provisioning", guest->row.name);
        struct steps steps = { .terminal = isatty(STDERR_FILENO),
                               .progress = { .what = what, .unit = PROGRESS_STEPS, .silent = true, .note = -1 } };
        struct provision_result result = { 0 };
        const struct provision_watch watch = { &steps, progress_begins, progress_output, progress_ended };
        const struct provision_wish wish = {
                .recipes = &recipes, .again = request->again, .extra = request->extra, .watch = &watch
        };
        int r = 0;

        for (size_t i = 0; i < request->n && r == 0; i++)
                r = recipe_open(request->words[i], &recipes, err);

        if (r == 0) {
                progress_open(&steps.progress);
                r = guest_provision(guests, guest, &wish, &result, err);
                progress_close(&steps.progress);
        }

        if (r < 0)
                return r;

        printf("%s: %zu steps done, %zu were done before\n", guest->row.name, result.done, result.skipped);
        if (result.restart)
                log_notice("the variables hold from the guest's next start on");

        return 0;
}

/*
 * provision
 */
enum { PROVISION_AGAIN, PROVISION_LIST, PROVISION_HOSTS, PROVISION_CA_BUNDLE, PROVISION_ROWS };
static const struct option provision_rows[] = {
        [PROVISION_AGAIN] = { .flag = "again", .type = OPTION_FLAG, .help = "also do what was done before" },
        [PROVISION_LIST] = { .flag = "list", .type = OPTION_FLAG, .help = "list what was done, and do nothing" },
        [PROVISION_HOSTS] = { .flag = "hosts",
                              .type = OPTION_PATH,
                              .metavar = "FILE",
                              .help = "names that the gateway knows without asking, as in /etc/hosts" },
        [PROVISION_CA_BUNDLE] = { .flag = "ca-bundle",
                                  .type = OPTION_PATH,
                                  .metavar = "FILE",
                                  .help = "roots that the gateway trusts, instead of the system's" },
};
static_assert(sizeof provision_rows / sizeof *provision_rows == PROVISION_ROWS, "one row each");
static const struct option_table provision_table = { "Options", provision_rows, PROVISION_ROWS };

static int list_step(void *arg, const struct guest_provision *step) {
        char at[CLOCK_TEXT_MAX];

        (void)arg;
        clock_text(step->at_us, at);
        at[19] = '\0';
        printf("%s  %-7s ", at, step->ok ? "done" : "to do");
        text_show(stdout, str_of(step->recipe));
        fputs(": ", stdout);
        text_show(stdout, str_of(step->step));
        fputc('\n', stdout);

        return 0;
}

/* The recipes that the guest has had, each once. */
static int word_collect(void *arg, const struct guest_provision *step) {
        recipe_texts *words = arg;

        for (size_t i = 0; i < words->n; i++)
                if (strcmp(words->p[i], step->recipe) == 0)
                        return 0;

        char *copy = str_dup(str_of(step->recipe));
        if (copy && vec_push(words, copy) == 0)
                return 0;

        free(copy);
        return -ENOMEM;
}

static int run_provision(const struct call *call, struct err *err) {
        cleanup(guests_close) struct guests guests = { 0 };
        cleanup(guest_done) struct guest guest = GUEST_NONE;
        cleanup(recipe_texts_done) recipe_texts known = { 0 };
        const struct option_values *values = &call->options;
        struct provision_request request = {
                .words = call->argv + 1,
                .n = (size_t)call->argc - 1,
                .again = option_get_flag(values, &provision_rows[PROVISION_AGAIN]),
                .extra = { .options = values,
                           .hosts_file = option_get(values, &provision_rows[PROVISION_HOSTS]),
                           .ca_bundle = option_get(values, &provision_rows[PROVISION_CA_BUNDLE]) }
        };
        int code = guest_open_held(call, &guests, &guest, err);

        if (code != EXIT_OK)
                return code;
        if (option_get_flag(values, &provision_rows[PROVISION_LIST]))
                return exit_of_guest(guests_db_provision(guests.db, guest.row.id, list_step, NULL, err), err);

        int r = 0;

        if (!request.n)
                r = guests_db_provision(guests.db, guest.row.id, word_collect, &known, err);

        if (r == 0 && request.n == 0) {
                request.words = known.p;
                request.n = known.n;
        }

        if (r == 0 && request.n == 0) {
                err_set(err, EINVAL, "which recipe? `bailey guest recipes` lists them");
                return EXIT_USAGE;
        }

        if (r == 0)
                r = guest_provision_words(&guests, &guest, &request, err);

        return exit_of_guest(r, err);
}

const struct verb verb_guest_provision = {
        .name = "provision",
        .flags = VERB_GUEST,
        .synopsis = "[OPTIONS] NAME [RECIPE...]",
        .help = "do what recipes say to a guest: files, tools, commands",
        .about = "A recipe is a YAML file: the name of one that \"bailey guest recipes\" lists, or a path. Only steps "
                 "that are new, changed or failed are done; without a recipe those of all that the guest has had. "
                 "Commands run inside. The allow list of a recipe holds while its steps run and for nothing else, so "
                 "that a guest which runs must be stopped first. A step that fails leaves the guest as it is, and "
                 "usable. The format is in recipes/README.md.",
        .tables = { &provision_table, &policy_table_general, &policy_table_network, &policy_table_files,
                    &policy_table_process, &policy_table_limits },
        .min_words = 1,
        .max_words = -1,
        .run = run_provision,
};

/*
 * recipes
 */
enum { RECIPES_JSON, RECIPES_ROWS };
static const struct option recipes_rows[] = {
        [RECIPES_JSON] = { .flag = "json", .type = OPTION_FLAG, .help = "print for programs" },
};
static const struct option_table recipes_table = { "Options", recipes_rows, RECIPES_ROWS };

static int recipe_print(const char *name, struct err *err) {
        cleanup(buf_done) struct buf text = BUF(4 << 20);
        cleanup(free_ptr) char *path = NULL;
        int r = recipe_text(name, &text, &path, err);

        if (r == 0)
                printf("%.*s", STR_FMT(buf_str(&text)));
        return exit_of_guest(r, err);
}

static void recipe_row(const char *name, struct emit *json) {
        cleanup(recipe_list_done) recipe_list list = { 0 };
        struct err why = { 0 };
        const char *title = recipe_open(name, &list, &why) < 0 ? err_text(&why) : list.p[list.n - 1].title;

        if (!json) {
                printf("%-12s ", name);
                text_show(stdout, str_of(title));
                fputc('\n', stdout);
                return;
        }

        emit_open(json, '{');
        emit_put_text(json, "name", name);
        emit_put_text(json, "title", title);
        emit_close(json);
}

static int run_recipes(const struct call *call, struct err *err) {
        cleanup(recipe_texts_done) recipe_texts names = { 0 };
        cleanup(buf_done) struct buf out = BUF(16 << 20);
        struct emit j = emit_to(&out);
        bool json = option_get_flag(&call->options, &recipes_rows[RECIPES_JSON]);

        if (call->argc > 0)
                return recipe_print(call->argv[0], err);

        int r = recipe_names(&names, err);
        if (r < 0)
                return exit_of_guest(r, err);
        if (json)
                emit_open(&j, '[');

        for (size_t i = 0; i < names.n; i++)
                recipe_row(names.p[i], json ? &j : NULL);

        if (json) {
                emit_close(&j);
                printf("%.*s\n", STR_FMT(buf_str(&out)));
        }

        return EXIT_OK;
}

const struct verb verb_guest_recipes = {
        .name = "recipes",
        .synopsis = "[OPTIONS] [RECIPE]",
        .help = "list recipes for guests, or print one",
        .tables = { &recipes_table },
        .max_words = 1,
        .run = run_recipes,
};
