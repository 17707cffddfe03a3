/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Judging a command. Every simple command that could run is judged, wherever it stands: in pipelines, branches,
 * functions, substitutions inside words, redirection targets and here-documents (syntax_walk.c), and in every directory
 * in which it could (where.c). A call is first looked through (unwrap.c: env, sudo, sh -c, find -exec ...), then
 * compared with the rules (rules.c). The worst decision stays, with the rule and the segment it came from.
 *
 * What several parts do together is seen through facts: each part says what it does (downloads, runs what it reads),
 * and the pipeline that holds them draws the conclusion.
 *
 * Nothing here trusts a guess. Text that does not parse, a command name that only the running shell knows, and anything
 * beyond the limits of depth and work are "not understood", which asks a person.
 */
#include "shell/classify.h"

#include "base/cleanup.h"
#include "shell/call.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

const char *sh_decision_name(enum sh_decision decision) {
        static const char *const names[] = { "allow", "sandboxed", "escalated", "forbidden" };
        return names[decision];
}

bool sh_decision_from(const char *name, enum sh_decision *ret) {
        static const struct {
                const char *name;
                enum sh_decision decision;
        } names[] = { { "allow", SH_ALLOW },        { "sandboxed", SH_SANDBOXED }, { "escalated", SH_ESCALATED },
                      { "escalate", SH_ESCALATED }, { "forbidden", SH_FORBIDDEN }, { "forbid", SH_FORBIDDEN } };

        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
                if (str_eq(str_of(name), str_of(names[i].name))) {
                        *ret = names[i].decision;
                        return true;
                }

        return false;
}

/* --- calls ---------------------------------------------------------------------------------------------------------
 */

/* It prints the names of files that it found, or words that stand here. */
static bool lists_names(const struct sh_call *call) {
        static const char *const always[] = { "find", "gfind",  "fd",    "fdfind", "ls",     "du", "tree",
                                              "echo", "printf", "pgrep", "seq",    "locate", NULL };
        if (word_in(call->name, always))
                return true;

        if (str_is(call->name, "git"))
                return call_has_word(call, "ls-files") || call_has_word(call, "ls-tree") ||
                       call_has_word(call, "diff") || call_has_word(call, "status") || call_has_word(call, "branch") ||
                       call_has_word(call, "check-ignore");

        if (str_is(call->name, "rg"))
                return call_has_any(call, WORDS("-l", "--files", "--files-with-matches"));

        return str_is(call->name, "grep") && call_has_any(call, WORDS("-l", "-L", "--files-with-matches"));
}

static bool prints_environment(const struct sh_call *call) {
        static const char *const alone[] = { "env", "printenv", "set", "export", "declare", NULL };

        if (!word_in(call->name, alone))
                return false;
        return call->n == 1 || (call->n == 2 && call->p[1].text.n > 0 && call->p[1].text.p[0] == '-');
}

static void note_facts(struct judge *judge, const struct sh_call *call) {
        static const char *const downloads[] = { "curl", "wget", "fetch", "aria2c", "lynx",   "links", "http", "https",
                                                 "xh",   "w3m",  "nc",    "ncat",   "netcat", "socat", "ftp",  NULL };
        static const char *const pipes[] = { "nc", "ncat", "netcat", "socat", "telnet", "openssl", NULL };

        if (word_in(call->name, downloads))
                judge->facts |= FACT_DOWNLOADS;
        if (word_in(call->name, pipes))
                judge->facts |= FACT_NETWORK_PIPE;
        if (prints_environment(call))
                judge->facts |= FACT_ENVIRONMENT;
        if ((call->pipe_facts & FACT_ENVIRONMENT) && (word_in(call->name, downloads) || word_in(call->name, pipes)))
                judge_find(judge, FINDING_ENVIRONMENT_LEAVES);
        if (lists_names(call))
                judge->facts |= FACT_LISTS;
        if (str_is(call->name, "history"))
                judge->facts |= FACT_HISTORY;

        for (size_t i = 1; i < call->n; i++)
                if (call->p[i].text.n && place_of(call->p[i]) == PLACE_ROOT)
                        judge->facts |= FACT_NAMES_ROOT;

        bool hands_on = judge->in_pipe || str_is(call->name, "find") || str_is(call->name, "gfind");
        for (size_t i = 1; hands_on && i < call->n; i++) {
                if (names_credential(call->p[i]))
                        judge->facts |= FACT_NAMES_SECRET;
                if (str_find(call->p[i].text, '!') >= 0)
                        judge->facts |= FACT_COMMANDS;
        }
}

/* What later commands in the same list depend on. */
static void classify_remember(struct judge *judge, const struct sh_call *call) {
        if (where_is_cd(call->name))
                where_cd(judge, call);
        if ((str_is(call->name, ".") || str_is(call->name, "source")) && call->n > 1 &&
            str_ends(call->p[1].text, STR("bin/activate")))
                judge->venv = true;
}

static bool name_is_known(struct judge *judge, const struct sh_arg *name) {
        if (!name->unknown && !name->pattern && name->text.n > 0)
                return true;
        judge_not_understood(judge, "which program runs is known only when it runs");
        return false;
}

/* A user's rule comes first: what it allows is not asked about, but what is forbidden stays so. */
static void judge_named(struct judge *judge, const struct sh_call *call) {
        const struct sh_rule *user = rules_match_user(judge->user, call);
        bool permitted = judge->permitted;

        if (user)
                judge_decide(judge, user->decision == SH_ALLOW && judge->plain_off ? SH_SANDBOXED : user->decision,
                             user);

        judge->permitted = permitted || (user && user->decision <= SH_SANDBOXED);
        judge_outputs(judge, call);
        judge_inner(judge, call);
        judge_script(judge, call);

        bool unwrapped = unwrap(judge, call);
        if (!unwrapped)
                rules_judge(judge, call);

        judge_hidden(judge, call, unwrapped && !is_interpreter(call->name));
        judge->permitted = permitted;
}

/* A call whose words are known; false: too deep or too much, already reported. */
static bool classify_call(struct judge *judge, const struct sh_arg *args, size_t n) {
        if (n == 0 || !judge_enter(judge))
                return false;

        if (name_is_known(judge, &args[0])) {
                struct sh_call call = { .p = args,
                                        .n = n,
                                        .segment = judge->segment,
                                        .redirects = judge->redirects,
                                        .pipe_facts = judge->pipe_facts,
                                        .inner_facts = judge->facts,
                                        .venv = judge->venv };

                call_name(&call);
                note_facts(judge, &call);
                if (call.name.n > 1 && call.name.p[0] == '!')
                        judge_find(judge, FINDING_HISTORY);
                if (judge->function.n && str_eq(call.name, judge->function) && (judge->in_pipe || judge->in_background))
                        judge_find(judge, FINDING_FORK_BOMB);

                judge_named(judge, &call);
                classify_remember(judge, &call);
        }

        judge_leave(judge);
        return true;
}

/* --- entry points --------------------------------------------------------------------------------------------------
 */

void sh_verdict_done(struct sh_verdict *verdict) {
        free(verdict->segment);
        free(verdict->detail);
        *verdict = (struct sh_verdict){ 0 };
}

static int classify_conclude(struct judge *judge, struct str whole, struct sh_verdict *ret) {
        struct str segment = judge->worst_segment.p ? judge->worst_segment : whole;
        struct sh_verdict verdict = { .decision = judge->decision };

        verdict.rule = judge->rule ? judge->rule->name : "";
        if (judge->rule)
                verdict.reason = judge->rule->reason;
        else if (judge->decision == SH_SANDBOXED)
                verdict.reason = "no rule is about it: it runs in the sandbox";
        else
                verdict.reason = "it does nothing";
        segment = str_first(str_trim(segment), SEGMENT_BYTES_MAX);
        for (size_t i = 0; i < segment.n; i++)
                if (segment.p[i] == '\0')
                        segment = str_first(segment, i);

        verdict.segment = str_dup(segment);
        verdict.detail = judge->detail[0] && judge->rule == &finding_rules[FINDING_NOT_UNDERSTOOD]
                             ? str_dup(str_of(judge->detail))
                             : NULL;
        arena_done(&judge->arena);

        if (!verdict.segment || judge->status == -ENOMEM) {
                sh_verdict_done(&verdict);
                *ret = (struct sh_verdict){ .decision = SH_ESCALATED, .rule = "", .reason = "out of memory" };
                return -ENOMEM;
        }

        *ret = verdict;
        return 0;
}

/* Where everything that finds another command comes back to. */
static const struct judge_again again = { .call = classify_call, .text = walk_text, .aside = walk_aside };

/* Where the command begins. "" stands for a place that is as plain as a workspace. */
static void judge_begin(struct judge *judge) {
        where_set(&judge->where, place_at_start(judge->setting));
        judge->failed = judge->where;
        judge->directory = judge->where.dirs[0];
}

int sh_classify(const struct sh_rules *rules, const struct sh_setting *setting, struct str command,
                struct sh_verdict *ret) {
        struct judge judge = { .again = &again,
                               .user = rules,
                               .setting = setting,
                               .arena = { .max = JUDGE_MEMORY_MAX },
                               .segment = command };

        judge_begin(&judge);
        judge_text(&judge, command);

        return classify_conclude(&judge, command, ret);
}

int sh_classify_argv(const struct sh_rules *rules, const struct sh_setting *setting, const struct str *argv, size_t n,
                     struct sh_verdict *ret) {
        struct judge judge = {
                .again = &again, .user = rules, .setting = setting, .arena = { .max = JUDGE_MEMORY_MAX }
        };
        struct sh_args args = { 0 };
        bool unknown;

        judge_begin(&judge);

        for (size_t i = 0; i < n; i++) {
                struct sh_arg arg = judge_arg(&judge, argv[i]);
                if (arg.text.n && arg.text.p[0] == '~') { /* no shell: the byte itself */
                        char *text = arena_get(&judge.arena, arg.text.n + 3);
                        if (!text)
                                break;

                        memcpy(text, "./", 2);
                        memcpy(text + 2, arg.text.p, arg.text.n);
                        arg.text = str_n(text, arg.text.n + 2);
                }

                if (sh_args_add(&judge, &args, arg) < 0)
                        break;
        }

        judge.segment = sh_args_join(&judge, args.p, args.n, &unknown);

        if (args.n < n || n == 0)
                judge_not_understood(&judge, n ? "too long to examine" : "there is no command");
        else
                judge_call(&judge, args.p, args.n);

        return classify_conclude(&judge, judge.segment, ret);
}

bool judge_example(const struct sh_rules *rules, const struct sh_rule *watch, struct str command) {
        struct judge judge = { .again = &again,
                               .user = rules,
                               .arena = { .max = JUDGE_MEMORY_MAX },
                               .where.n = 1,
                               .segment = command,
                               .watch = watch };
        judge_text(&judge, command);
        arena_done(&judge.arena);
        return judge.watched;
}
