/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs/doctor.h"

#include "bailey/version.h"
#include "base/cleanup.h"
#include "base/emit.h"
#include "base/log.h"
#include "cli/frame.h"
#include "cli/macos_differences.h"
#include "cli/verb_help.h"
#include "kept/guard_registry.h"
#include "verbs/prove.h"

#include <stdio.h>
#include <unistd.h>

enum { COLUMN = 12, TITLE = 20, JSON_MAX_BYTES = 65536 };

enum { DOCTOR_FOR, DOCTOR_JSON, DOCTOR_PROVE, DOCTOR_OPTIONS };
static const char *const systems[] = { "linux", "macos", NULL };
static const struct option rows[] = {
        [DOCTOR_FOR] = { .flag = "for",
                         .type = OPTION_CHOICE,
                         .metavar = "SYSTEM",
                         .choices = systems,
                         .fallback = "linux",
                         .help = "macos: what is otherwise there than on Linux" },
        [DOCTOR_JSON] = { .flag = "json", .type = OPTION_FLAG, .help = "print one JSON object" },
        [DOCTOR_PROVE] = { .flag = "prove",
                           .type = OPTION_FLAG,
                           .help = "launch a sandbox and show that what is denied is denied" },
};
static const struct option_table table = { "Options", rows, DOCTOR_OPTIONS };

static int print_json(const struct doctor_report *report, struct err *err) {
        cleanup(buf_done) struct buf out = BUF(JSON_MAX_BYTES);
        struct emit j = emit_to(&out);

        emit_open(&j, '{');
        emit_put_text(&j, "version", bailey_version());
        emit_put_text(&j, "mode", doctor_mode_name(report->mode));
        emit_put_text(&j, "kernel", report->kernel);
        emit_put_text(&j, "machine", report->machine);
        emit_put_number(&j, "uid", report->uid);
        emit_put_number(&j, "landlock_abi", report->landlock_abi);
        emit_key(&j, "items");
        emit_open(&j, '[');

        for (size_t i = 0; i < report->n; i++) {
                const struct doctor_row *row = &report->rows[i];

                emit_open(&j, '{');
                emit_put_text(&j, "name", row->name);
                emit_put_text(&j, "state", row->state);
                emit_put_bool(&j, "needed", row->needed);
                emit_put_text(&j, "cause", row->cause);
                emit_put_text(&j, "detail", row->detail);
                emit_put_text(&j, "lost", row->lost);
                emit_put_text(&j, "why", row->why);
                emit_put_text(&j, "fix", row->fix);
                emit_close(&j);
        }

        emit_close(&j);
        emit_close(&j);
        return verb_print_json(&j, &out, err);
}

static const char *doctor_paint(const struct doctor_row *row) {
        if (row->works)
                return "\033[32m";

        if (row->needed)
                return "\033[31m";

        return "\033[33m";
}

static void print_problem(const struct doctor_row *row) {
        if (row->follows) { /* said once, at user namespaces */
                int at = COLUMN + printf("%-*s ", TITLE, row->title);

                help_wrap(stdout, row->lost, at, at + 1);
                return;
        }

        printf("%s%s\n", row->title, row->needed ? " (needed for the full sandbox)" : "");
        const char *const labels[] = { "lost:", "why: ", "fix: " };
        const char *const texts[] = { row->lost, row->why, row->fix };

        for (size_t i = 0; i < sizeof labels / sizeof labels[0]; i++) {
                if (!texts[i])
                        continue;
                printf("%*s%s", COLUMN, "", labels[i]);
                help_wrap(stdout, texts[i], COLUMN + 5, COLUMN + 6);
        }

        if (*row->detail)
                printf("%*s(%s)\n", COLUMN + 6, "", row->detail);
}

/* First what works, then what does not. */
static void print_rows(const struct doctor_report *report, bool works, bool color) {
        size_t n = 0;
        for (size_t i = 0; i < report->n; i++) {
                const struct doctor_row *row = &report->rows[i];
                if (row->works != works)
                        continue;

                if (n++ == 0)
                        putchar('\n');
                if (color)
                        printf("  %s%-8s\033[0m  ", doctor_paint(row), row->state);
                else
                        printf("  %-8s  ", row->state);

                if (!works)
                        print_problem(row);
                else if (*row->detail)
                        printf("%-*s  %s (%s)\n", TITLE, row->title, row->gives, row->detail);
                else
                        printf("%-*s  %s\n", TITLE, row->title, row->gives);
        }
}

static void print_text(const struct doctor_report *report, bool color) {
        printf("Linux %s on %s, as %s (uid %u)\n", report->kernel, report->machine,
               report->uid == 0 ? "root" : "an ordinary user", report->uid);
        print_rows(report, true, color);
        print_rows(report, false, color);
        printf("\nMode: %s. %s.\n", doctor_mode_name(report->mode), doctor_mode_text(report->mode));
}

static int print_proofs_json(const struct proofs *proofs, bool holds, struct err *err) {
        cleanup(buf_done) struct buf out = BUF(JSON_MAX_BYTES);
        struct emit j = emit_to(&out);

        emit_open(&j, '{');
        emit_put_bool(&j, "proved", holds);
        emit_key(&j, "acts");
        emit_open(&j, '[');

        for (size_t i = 0; i < proofs->list.n; i++) {
                const struct proof *proof = &proofs->list.p[i];

                emit_open(&j, '{');
                emit_put_text(&j, "act", proof->name);
                emit_put_bool(&j, "permitted", proof->expected);
                emit_put_bool(&j, "inside", proof->inside);
                emit_put_bool(&j, "outside", proof->outside);
                emit_put_text(&j, "detail", proof->detail);
                emit_put_bool(&j, "holds", proof_holds(proof));
                emit_close(&j);
        }

        emit_close(&j);
        emit_close(&j);
        return verb_print_json(&j, &out, err);
}

static const char *proof_word(const struct proof *proof) {
        if (!proof_holds(proof))
                return "WRONG";
        if (proof->expected)
                return "works";

        return "denied";
}

static void print_proofs(const struct proofs *proofs, bool color) {
        for (size_t i = 0; i < proofs->list.n; i++) {
                const struct proof *proof = &proofs->list.p[i];
                const char *paint = proof_holds(proof) ? "\033[32m" : "\033[31m";

                if (color)
                        printf("  %s%-7s\033[0m", paint, proof_word(proof));
                else
                        printf("  %-7s", proof_word(proof));

                printf("  %-42s inside: %s\n", proof->name, proof->detail);
                if (!proof->outside)
                        printf("%*sit did not work outside either, so this shows nothing\n", COLUMN, "");
        }
}

static int run_prove(const struct call *call, struct err *err) {
        cleanup(proofs_done) struct proofs proofs = { 0 };
        bool holds = true;

        if (prove(&proofs, err) < 0)
                return EXIT_UNAVAILABLE;

        for (size_t i = 0; i < proofs.list.n; i++)
                holds = holds && proof_holds(&proofs.list.p[i]);

        if (option_get_flag(&call->options, &rows[DOCTOR_JSON])) {
                if (print_proofs_json(&proofs, holds, err) != EXIT_OK)
                        return EXIT_SYSTEM;

                if (holds)
                        return EXIT_OK;

                return EXIT_NO;
        }

        puts("In a real sandbox just now; each denied act was also done outside, where it works:\n");
        print_proofs(&proofs, frame_color(call, STDOUT_FILENO));
        puts(holds ? "\nProved: what is denied is denied, what is allowed works." : "\nNot proved.");

        return holds ? EXIT_OK : EXIT_NO;
}

static void tell_swept(const char *id, const struct guard_found *found, void *context) {
        (void)context;
        log_notice("moved %s away, which the run %s left when it was killed; see `bailey kept`", found->path, id);
}

/* What runs that were killed left under protected names. */
static void sweep_left(void) {
        struct err why = { 0 };
        size_t left = 0;

        if (guards_sweep_left(tell_swept, NULL, &left, &why) < 0)
                log_error("%s", err_text(&why));

        if (left)
                log_notice(
                    "%zu protected paths of runs that are over are looked at when the sandboxes that write there end",
                    left);
}

static int doctor_run(const struct call *call, struct err *err) {
        const char *wanted = option_get(&call->options, &rows[DOCTOR_FOR]);

        if (wanted && strcmp(wanted, "macos") == 0)
                return macos_differences_print(option_get_flag(&call->options, &rows[DOCTOR_JSON]), err);

        if (option_get_flag(&call->options, &rows[DOCTOR_PROVE]))
                return run_prove(call, err);

        struct doctor_report report;
        sweep_left();
        doctor_examine(&report);

        if (!option_get_flag(&call->options, &rows[DOCTOR_JSON]))
                print_text(&report, frame_color(call, STDOUT_FILENO));
        else if (print_json(&report, err) != EXIT_OK)
                return EXIT_SYSTEM;

        static const int codes[] = {
                [DOCTOR_FULL] = EXIT_OK, [DOCTOR_DEGRADED] = EXIT_NO, [DOCTOR_NONE] = EXIT_UNAVAILABLE
        };
        return codes[report.mode];
}

const struct verb verb_doctor = {
        .name = "doctor",
        .group = GROUP_HELP,
        .synopsis = "[--prove] [--json]",
        .help = "say what this machine can do, and how to get the rest",
        .about =
            "Tries everything that a sandbox is built from, in processes of its own that leave nothing behind, "
            "and says what "
            "works, what is lost without the rest, why, and how to fix it. What runs that were killed left under "
            "protected names is moved away, as at the end of a run. Where there are guests with accounts, the firewall "
            "by uid is looked at: root compares the rules, others try their guests.\n\n"
            "With --prove it launches a sandbox instead, tries in it what a policy denies and what it allows, and "
            "shows the results; each denied act is done outside too, where it must work. Exit status then: 0 when "
            "everything is as it must be, 1 when something is not, 4 when no sandbox could be launched.\n\n"
            "Exit status: 0 when the full sandbox works, 1 when only less than that does (run then needs "
            "--allow-degraded), 4 when too little works.",
        .tables = { &table },
        .run = doctor_run,
};

static int run_prove_inside(const struct call *call, struct err *err) {
        (void)err;
        return prove_inside(call->argc, call->argv);
}

const struct verb verb_prove_inside = {
        .name = PROVE_VERB,
        .group = GROUP_HELP,
        .flags = VERB_HIDDEN,
        .synopsis = "WORK PLACE ALLOWED REFUSED RESULTS",
        .help = "what doctor --prove runs in its sandbox",
        .min_words = 5,
        .max_words = 5,
        .run = run_prove_inside,
};
