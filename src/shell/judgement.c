/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One judgement: the worst decision so far, the limits of depth and work, and the words that are collected on the way.
 * Everything that looks at a command says here what it has found. None of it looks further by itself: a substitution in
 * a word goes back to the walk (struct judge_again).
 */
#include "shell/call.h"

#include "base/buf.h"
#include "base/cleanup.h"

#include <errno.h>
#include <stdio.h>

enum { JOINED_BYTES_MAX = 1 << 20 };

/* --- findings ----------------------------------------------------------------------------------------------------- */

void judge_decide(struct judge *judge, enum sh_decision decision, const struct sh_rule *rule) {
        if (rule && rule == judge->watch)
                judge->watched = true;
        if (judge->permitted && decision != SH_FORBIDDEN && decision != SH_ALLOW)
                return;
        if (decision < judge->decision || (decision == judge->decision && (judge->rule || !rule)))
                return;

        judge->decision = decision;
        judge->rule = rule;

        /* a copy: the segment may lie in a tree that goes away before the end */
        judge->worst_segment = arena_copy(&judge->arena, str_first(judge->segment, SEGMENT_BYTES_MAX));
}

void judge_hit(struct judge *judge, const struct sh_rule *rule) {
        judge_decide(judge, rule->decision, rule);
}

void judge_find(struct judge *judge, enum sh_finding finding) {
        judge_hit(judge, &finding_rules[finding]);
}

void judge_not_understood(struct judge *judge, const char *why) {
        const struct sh_rule *before = judge->rule;
        judge_find(judge, FINDING_NOT_UNDERSTOOD);
        if (judge->rule == &finding_rules[FINDING_NOT_UNDERSTOOD] && judge->rule != before)
                snprintf(judge->detail, sizeof judge->detail, "%s", why);
}

bool judge_enter(struct judge *judge) {
        if (judge->depth >= JUDGE_DEPTH_MAX || judge->steps >= JUDGE_STEPS_MAX) {
                judge_not_understood(judge, "too deeply nested or too long to examine");
                return false;
        }
        judge->depth++;
        judge->steps++;
        return true;
}

bool judge_goes_on(const struct judge *judge) {
        return judge->depth < JUDGE_DEPTH_MAX && judge->steps < JUDGE_STEPS_MAX;
}

struct sh_arg judge_arg(const struct judge *judge, struct str text) {
        return (struct sh_arg){
                .text = text, .unknown = str_has_nul(text), .under = judge->directory, .setting = judge->setting
        };
}

void judge_leave(struct judge *judge) {
        judge->depth--;
}

/* Variables that name programs or files which programs run, and those that change nothing of that kind. */
static const char *const environment_runs[] = {
        "PATH",
        "BASH_ENV",
        "ENV",
        "IFS",
        "SHELLOPTS",
        "BASHOPTS",
        "PROMPT_COMMAND",
        "PS4",
        "PAGER",
        "MANPAGER",
        "EDITOR",
        "VISUAL",
        "BROWSER",
        "SHELL",
        "LESSOPEN",
        "LESSCLOSE",
        "PERL5OPT",
        "PERL5DB",
        "RUBYOPT",
        "PYTHONSTARTUP",
        "PYTHONHOME",
        "JAVA_TOOL_OPTIONS",
        "_JAVA_OPTIONS",
        "GCONV_PATH",
        "CDPATH",
        "HOME",
        "SSH_ASKPASS",
        "SUDO_ASKPASS",
        "HISTFILE",
        "RIPGREP_CONFIG_PATH",
        "PYTHONBREAKPOINT",
        "LESS",
        "TAR_OPTIONS",
        "RSYNC_RSH",
        "CVS_RSH",
        "MAKEFLAGS",
        "BASH_FUNC",
        NULL,
};
static const char *const environment_plain[] = {
        "LANG",        "LC_ALL",           "TZ",    "NO_COLOR",       "CI",       "TERM",     "COLUMNS",
        "FORCE_COLOR", "PYTHONUNBUFFERED", "DEBUG", "RUST_BACKTRACE", "NODE_ENV", "RUST_LOG", "PYTHONDONTWRITEBYTECODE",
        NULL
};

static bool is_blank_text(struct str text) {
        for (size_t i = 0; i < text.n; i++)
                if (text.p[i] != ' ' && text.p[i] != '\t' && text.p[i] != '\n')
                        return false;
        return true;
}

void judge_environment(struct judge *judge, struct str name, struct str value) {
        bool loads = str_is(name, "NODE_OPTIONS") && !str_starts(value, STR("--max"));
        bool git = str_starts(name, STR("GIT_")) && !str_starts(name, STR("GIT_AUTHOR_")) &&
                   !str_starts(name, STR("GIT_COMMITTER_")) && !str_is(name, "GIT_TERMINAL_PROMPT") &&
                   !(str_is(name, "GIT_PAGER") && str_is(value, "cat")) && !str_is(name, "GIT_OPTIONAL_LOCKS");
        bool blanks = str_is(name, "IFS") && is_blank_text(value); /* parts no fewer words than before */
        bool pager = (str_is(name, "PAGER") || str_is(name, "MANPAGER")) && str_is(value, "cat");
        if (((word_in(name, environment_runs) && !pager && !blanks) || loads || git || str_starts(name, STR("LD_")) ||
             str_starts(name, STR("DYLD_")) || str_starts(name, STR("BASH_FUNC_"))))
                judge_find(judge, FINDING_ENVIRONMENT);

        if (!word_in(name, environment_plain))
                judge->plain_off = true;
}

/* --- words -------------------------------------------------------------------------------------------------------- */

static void judge_part(struct judge *judge, const struct sh_part *part) {
        if (part->kind == SH_OPAQUE)
                judge_not_understood(judge, "backquotes whose content is no program");
        if (part->kind == SH_PARAMETER && part->word && str_is(part->word->raw, "@P"))
                judge_not_understood(judge, "a value that is expanded once more, like a prompt");
        if (part->list)
                judge_aside(judge, part->list);
        if (part->word)
                judge_words(judge, part->word);
}

void judge_words(struct judge *judge, const struct sh_word *words) {
        if (!judge_enter(judge))
                return;
        for (const struct sh_word *word = words; word; word = word->next)
                for (const struct sh_part *part = word->parts; part; part = part->next)
                        if (part->kind != SH_LITERAL && part->kind != SH_PATTERN)
                                judge_part(judge, part);
        judge_leave(judge);
}

unsigned judge_inner_facts(struct judge *judge, const struct sh_word *words) {
        unsigned before = judge->facts;
        judge->facts = 0;
        judge_words(judge, words);
        unsigned inner = judge->facts;
        judge->facts = before;
        return inner;
}

/* --- arguments ---------------------------------------------------------------------------------------------------- */

int sh_args_add(struct judge *judge, struct sh_args *to, struct sh_arg arg) {
        if (to->n == to->cap) {
                size_t cap = to->cap ? to->cap * 2 : 8;
                struct sh_arg *sh_arg = arena_get(&judge->arena, cap * sizeof *sh_arg);
                if (!sh_arg) {
                        judge_not_understood(judge, "too many arguments");
                        return -ENOMEM;
                }

                if (to->n)
                        memcpy(sh_arg, to->p, to->n * sizeof *sh_arg);

                to->p = sh_arg;
                to->cap = cap;
        }

        to->p[to->n++] = arg;
        return 0;
}

struct str sh_args_join(struct judge *judge, const struct sh_arg *args, size_t n, bool *ret_unknown) {
        cleanup(buf_done) struct buf text = BUF(JOINED_BYTES_MAX);
        int r = 0;

        *ret_unknown = false;

        for (size_t i = 0; i < n && r == 0; i++) {
                struct str s = args[i].text;

                if (i)
                        r = buf_add_char(&text, ' ');
                else
                        r = 0;
                for (size_t k = 0; k < s.n && r == 0; k++)
                        r = s.p[k] ? buf_add_char(&text, s.p[k]) : buf_add(&text, "${unknown}");

                *ret_unknown = *ret_unknown || args[i].unknown;
        }

        struct str copy = { 0 };
        if (r == 0)
                copy = arena_copy(&judge->arena, buf_str(&text));

        if (!copy.p) {
                *ret_unknown = true;
                return STR("");
        }

        return copy;
}
