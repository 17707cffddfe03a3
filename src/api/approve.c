/* SPDX-License-Identifier: Apache-2.0 */
#include "api/approve.h"

#include "api/api_exec.h"
#include "api/api_report.h"
#include "api/capture.h"
#include "api/commands.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/escape.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

static_assert((int)BAILEY_ALLOW == SH_ALLOW && (int)BAILEY_SANDBOXED == SH_SANDBOXED &&
                  (int)BAILEY_ESCALATED == SH_ESCALATED && (int)BAILEY_FORBIDDEN == SH_FORBIDDEN,
              "the same decisions");

enum { COMMAND_MAX = 4 << 20, RECORDED = 2048 };

static int classify_in(const struct state *state, const struct sh_setting *setting,
                       const struct approve_command *command, struct sh_verdict *ret) {
        size_t n = 0;

        if (command->text)
                return sh_classify(state->rules, setting, str_of(command->text), ret);

        while (command->argv[n])
                n++;

        cleanup(free_ptr) struct str *words = calloc(n + 1, sizeof *words);
        if (!words)
                return -ENOMEM;

        for (size_t i = 0; i < n; i++)
                words[i] = str_of(command->argv[i]);

        return sh_classify_argv(state->rules, setting, words, n, ret);
}

/* The command as a person reads it: for argv, words quoted for a shell. */
static int approve_spell(const struct approve_command *command, struct buf *out) {
        if (command->text)
                return buf_add(out, command->text);

        int r = 0;
        for (size_t i = 0; r == 0 && command->argv[i]; i++) {
                if (i)
                        r = buf_add_char(out, ' ');
                else
                        r = 0;
                if (r >= 0)
                        r = escape_shell(out, str_of(command->argv[i]));
        }

        return r;
}

/* Any byte of a text that the program wrote may be missing its end. */
static void verdict_terminate(struct bailey_verdict *verdict) {
        verdict->rule[sizeof verdict->rule - 1] = '\0';
        verdict->reason[sizeof verdict->reason - 1] = '\0';
}

static void verdict_fill(const struct sh_verdict *verdict, struct bailey_verdict *ret) {
        *ret = (struct bailey_verdict){ .decision = (enum bailey_decision)verdict->decision };
        snprintf(ret->rule, sizeof ret->rule, "%s", verdict->rule);
        snprintf(ret->reason, sizeof ret->reason, "%s", verdict->reason);
        report_escape(ret->segment, sizeof ret->segment, str_of(verdict->segment));
        report_escape(ret->detail, sizeof ret->detail, str_of(verdict->detail));
}

/* The program's own word. A decision that is none is the strictest, and what Bailey forbids stays forbidden. */
static int ask_classifier(const struct classifier *who, const struct approve_command *approve_command,
                          struct bailey_verdict *room, struct sh_verdict *verdict, struct bailey_error *error) {
        cleanup(buf_done) struct buf command = BUF(COMMAND_MAX);
        int r = approve_spell(approve_command, &command);
        const char *text = r < 0 ? NULL : buf_text(&command);

        if (r == -EMSGSIZE)
                return report(error, BAILEY_E_ARGUMENT, "the command is too long for the program's classifier");
        if (!text)
                return report_memory(error);
        if (verdict->decision == SH_FORBIDDEN)
                return BAILEY_OK;

        verdict_fill(verdict, room);
        who->fn(who->arg, text, room);
        verdict_terminate(room);

        bool is_decision = (unsigned)room->decision <= BAILEY_FORBIDDEN;
        verdict->decision = is_decision ? (enum sh_decision)room->decision : SH_FORBIDDEN;
        verdict->rule = room->rule;
        verdict->reason = room->reason;

        return BAILEY_OK;
}

int approve_classify(const struct state *state, const struct approve_command *command, const bailey_options *options,
                     struct bailey_verdict *room, struct sh_verdict *ret, struct bailey_error *error) {
        cleanup(commands_place_done) struct commands_place place = { 0 };
        cleanup(free_ptr) char *directory = NULL;
        const struct classifier *who = options && options->classifier.fn ? &options->classifier : &state->classifier;
        int r = exec_directory(state, options, &directory, error);

        if (r != BAILEY_OK)
                return r;

        commands_find_place(directory, state->workspace, &place);
        if (classify_in(state, &place.setting, command, ret) < 0)
                return report_memory(error);

        if (who->fn)
                return ask_classifier(who, command, room, ret, error);

        return BAILEY_OK;
}

static int approve_refuse(struct bailey_error *error, enum bailey_code code, const struct sh_verdict *verdict,
                          const char *what) {
        char segment[sizeof error->segment];

        report_escape(segment, sizeof segment, str_of(verdict->segment));
        report(error, code, "%s: %s (rule %s, in: %s)", what, verdict->reason, *verdict->rule ? verdict->rule : "none",
               segment);
        if (!error)
                return code;

        snprintf(error->rule, sizeof error->rule, "%s", verdict->rule);
        snprintf(error->reason, sizeof error->reason, "%s", verdict->reason);
        snprintf(error->segment, sizeof error->segment, "%s", segment);

        return code;
}

/*
 * The record, and people beyond this program.
 */
void approve_judged_done(supervise_texts *judged) {
        for (size_t i = 0; i < judged->n; i++)
                free(judged->p[i]);
        vec_done(judged);
}

static int approve_judge(supervise_texts *judged, const struct sh_verdict *verdict, const char *command) {
        const char *const texts[JUDGED_TEXTS] = { [JUDGED_DECISION] = sh_decision_name(verdict->decision),
                                                  [JUDGED_RULE] = verdict->rule,
                                                  [JUDGED_REASON] = verdict->reason,
                                                  [JUDGED_SEGMENT] = verdict->segment ? verdict->segment : "",
                                                  [JUDGED_COMMAND] = command,
                                                  [JUDGED_BY] = "" };
        int r = 0;
        for (size_t i = 0; r == 0 && i < JUDGED_TEXTS; i++)
                r = supervise_texts_add(judged, str_of(texts[i]));

        return r;
}

/* A record has no more of it, and a wrapped command has little room. */
static void approve_clip(const supervise_texts *judged) {
        const enum supervise_judged long_ones[] = { JUDGED_SEGMENT, JUDGED_COMMAND };
        for (size_t i = 0; i < 2; i++)
                if (strlen(judged->p[long_ones[i]]) > RECORDED)
                        judged->p[long_ones[i]][RECORDED] = '\0';
}

static int set_by(supervise_texts *judged, const char *by) {
        char *text = str_dup(str_of(by));
        if (!text)
                return -ENOMEM;
        free(judged->p[JUDGED_BY]);
        judged->p[JUDGED_BY] = text;
        return 0;
}

static void approve_nobody(void *arg, int link, const struct supervise_message *question) {
        (void)arg;
        (void)link;
        (void)question;
}

/* A job of its own: records what was refused, or has a person asked. False when there was no such job. */
static bool command_job(bailey_manager *manager, const struct state *state, const bailey_options *options,
                        enum supervise_job job, const supervise_texts *judged, struct supervise_message *ret) {
        static char name[] = "bailey", verb[] = "supervise";
        char *const argv[] = { name, verb, NULL };
        const char *const words[] = { judged->p[JUDGED_COMMAND], NULL };
        cleanup(free_ptr) char *block = NULL;
        cleanup(result_freep) bailey_result *nothing = NULL;
        const struct exec_call call = { .argv = words, .options = options, .job = job, .judged = judged };
        if (!state->program || result_new(0, &nothing) < 0 || exec_block(state, &call, &block, NULL) < 0)
                return false;

        struct capture capture = { .child = CHILD_NONE,
                                   .result = nothing,
                                   .stop = { manager->closing, options && options->cancel ? options->cancel->fd : -1 },
                                   .on_ask = approve_nobody };
        const struct child_plan plan = {
                .path = state->program, .argv = argv, .envp = manager->env, .block = block, .input = -1, .capture = true
        };
        if (child_start(&plan, &capture.child, NULL, NULL) != BAILEY_OK)
                return false;

        capture_serve(&capture);
        capture_done(&capture);
        *ret = capture.end;

        return capture.told && !capture.stopped && capture.end.number == RUN_ENDED;
}

/* Nothing is done about a record that cannot be written: the command does not run in any case. */
static void approve_record(bailey_manager *manager, const struct state *state, const bailey_options *options,
                           supervise_texts *judged, const char *by) {
        struct supervise_message end;
        if (set_by(judged, by) == 0)
                (void)command_job(manager, state, options, SUPERVISE_COMMAND, judged, &end);
}

bool approve_record_plain(bailey_manager *manager, const struct state *state,
                          const struct approve_command *approve_command, const bailey_options *options,
                          supervise_texts *judged) {
        const struct sh_verdict nobody_judged = { .decision = SH_SANDBOXED, .rule = "", .reason = "not judged" };
        cleanup(buf_done) struct buf command = BUF(COMMAND_MAX);
        struct supervise_message end;

        if (judged->n == 0) {
                if (approve_spell(approve_command, &command) < 0 ||
                    approve_judge(judged, &nobody_judged, buf_text(&command)) < 0)
                        return false;
                approve_clip(judged);
        }

        return set_by(judged, "runs without a sandbox") == 0 &&
               command_job(manager, state, options, SUPERVISE_RECORD, judged, &end);
}

/*
 * Asking.
 */
static int ask_callback(bailey_manager *manager, const struct approver *who, const struct sh_verdict *verdict,
                        const char *command, struct str key, struct bailey_error *error) {
        static char yes[] = "approved";
        const struct bailey_question question = { .command = command,
                                                  .segment = verdict->segment ? verdict->segment : "",
                                                  .rule = verdict->rule,
                                                  .reason = verdict->reason };
        enum bailey_approval answer = who->fn(who->arg, &question);
        if (answer == BAILEY_APPROVE_SESSION && map_add(&manager->approved, key, yes) == -ENOMEM)
                return report_memory(error);

        if (answer == BAILEY_APPROVE || answer == BAILEY_APPROVE_SESSION)
                return BAILEY_OK;

        return approve_refuse(error, BAILEY_E_ESCALATED, verdict, "the command was not approved");
}

/* No callback: by the control socket and hooks, where the config names a way to ask. */
static int ask_elsewhere(bailey_manager *manager, const struct state *state, const bailey_options *options,
                         const struct sh_verdict *verdict, supervise_texts *judged, struct bailey_error *error) {
        static const char alone[] = "the command needs an approval, and nobody is there to be asked";
        struct supervise_message end = { 0 };
        bool asked = state->asks_commands || (options && config_sets(&options->values, "network.ask"));
        if (!asked) {
                approve_record(manager, state, options, judged, "nobody is there to be asked");
                return approve_refuse(error, BAILEY_E_ESCALATED, verdict, alone);
        }

        if (!command_job(manager, state, options, SUPERVISE_COMMAND, judged, &end) || end.status == 2)
                return approve_refuse(error, BAILEY_E_ESCALATED, verdict, alone);
        if (end.status == 0) {
                if (set_by(judged, end.detail) < 0)
                        return report_memory(error);
                return BAILEY_OK;
        }

        char what[ERR_TEXT_MAX + 64];
        snprintf(what, sizeof what, "the command was not approved (%s)", end.detail);

        return approve_refuse(error, BAILEY_E_ESCALATED, verdict, what);
}

/* What was approved is this very command under this very rule; another rule that wants to know asks again. */
static int approve_escalated(bailey_manager *manager, const struct state *state, const bailey_options *options,
                             bool is_text, const struct sh_verdict *verdict, supervise_texts *judged,
                             struct bailey_error *error) {
        const struct approver *who = options && options->has_approver ? &options->approver : &state->approver;
        cleanup(buf_done) struct buf key = BUF(COMMAND_MAX);
        const char *command = judged->p[JUDGED_COMMAND], *by = NULL;
        if (buf_printf(&key, "%c%s\n", is_text ? 's' : 'a', verdict->rule) < 0 || buf_add(&key, command) < 0)
                return report_memory(error);

        int r = BAILEY_OK;
        pthread_mutex_lock(&manager->asking);

        if (map_get(&manager->approved, buf_str(&key))) {
                by = "approved by the program for its session";
        } else if (who->fn) {
                r = ask_callback(manager, who, verdict, command, buf_str(&key), error);
                by = r == BAILEY_OK ? "approved by the program" : NULL;
        } else {
                r = ask_elsewhere(manager, state, options, verdict, judged, error);
        }

        pthread_mutex_unlock(&manager->asking);
        if (r == BAILEY_E_ESCALATED && who->fn)
                approve_record(manager, state, options, judged, "denied by the program");

        if (by && set_by(judged, by) < 0)
                return report_memory(error);

        return r;
}

int approve(bailey_manager *manager, const struct state *state, const struct approve_command *approve_command,
            const bailey_options *options, supervise_texts *ret_judged, struct bailey_error *error) {
        cleanup(sh_verdict_done) struct sh_verdict verdict = { 0 };
        cleanup(buf_done) struct buf command = BUF(COMMAND_MAX);
        struct bailey_verdict room;

        if (options && options->unclassified)
                return BAILEY_OK;

        int r = approve_classify(state, approve_command, options, &room, &verdict, error);
        if (r != BAILEY_OK)
                return r;

        r = approve_spell(approve_command, &command);
        const char *text = r < 0 ? NULL : buf_text(&command);
        if (r == -EMSGSIZE && verdict.decision < SH_ESCALATED)
                return BAILEY_OK; /* too long for the record, and nobody has to read it */

        if (r == -EMSGSIZE)
                return approve_refuse(error, verdict.decision == SH_FORBIDDEN ? BAILEY_E_FORBIDDEN : BAILEY_E_ESCALATED,
                                      &verdict, "the command is too long to ask about");

        if (!text || approve_judge(ret_judged, &verdict, text) < 0)
                return report_memory(error);

        if (verdict.decision == SH_FORBIDDEN) {
                approve_record(manager, state, options, ret_judged, "forbidden");
                return approve_refuse(error, BAILEY_E_FORBIDDEN, &verdict, "the command is forbidden");
        }

        if (verdict.decision == SH_ESCALATED)
                r = approve_escalated(manager, state, options, approve_command->text, &verdict, ret_judged, error);
        else
                r = BAILEY_OK;
        approve_clip(ret_judged);

        return r;
}

/*
 * Judging without running.
 */
static int approve_check(bailey_manager *manager, const struct approve_command *command, struct bailey_verdict *ret,
                         struct bailey_error *error) {
        cleanup(state_unrefp) struct state *s = NULL;
        cleanup(sh_verdict_done) struct sh_verdict verdict = { 0 };
        struct bailey_verdict room;
        int r = manager_enter(manager, &s, error);
        if (r != BAILEY_OK)
                return r;

        r = approve_classify(s, command, NULL, &room, &verdict, error);
        if (r == BAILEY_OK)
                verdict_fill(&verdict, ret);

        manager_leave(manager);
        return r;
}

int bailey_manager_check(bailey_manager *manager, const char *command, struct bailey_verdict *ret,
                         struct bailey_error *error) {
        if (!manager || !command || !ret)
                return report_null(error);
        return approve_check(manager, &(struct approve_command){ .text = command }, ret, error);
}

int bailey_manager_check_args(bailey_manager *manager, const char *const *argv, struct bailey_verdict *ret,
                              struct bailey_error *error) {
        if (!manager || !argv || !argv[0] || !ret)
                return report_null(error);
        return approve_check(manager, &(struct approve_command){ .argv = argv }, ret, error);
}

const char *bailey_decision_name(enum bailey_decision decision) {
        return decision <= BAILEY_FORBIDDEN ? sh_decision_name((enum sh_decision)decision) : NULL;
}
