/* SPDX-License-Identifier: Apache-2.0 */
/* git reads its settings from the command line too, and many of them name programs to run. */
#include "shell/rules/question.h"

static bool harmless_setting(struct str setting) {
        static const char *const prefixes[] = { "user.",
                                                "color.",
                                                "advice.",
                                                "init.defaultBranch=",
                                                "core.quotepath=",
                                                "core.quotePath=",
                                                "commit.gpgsign=false",
                                                "tag.gpgsign=false",
                                                "core.abbrev=",
                                                "log.",
                                                "safe.directory=",
                                                "core.pager=cat",
                                                "core.autocrlf=",
                                                "core.longpaths=",
                                                "pull.rebase=",
                                                "merge.conflictstyle=",
                                                "diff.algorithm=",
                                                "diff.renames=",
                                                "core.fileMode=",
                                                "gc.auto=",
                                                "protocol.version=",
                                                "http.version=",
                                                "fetch.prune=",
                                                "push.default=",
                                                "core.commentChar=",
                                                "rebase.autoStash=",
                                                "status.",
                                                "column.",
                                                NULL };
        for (const char *const *p = prefixes; *p; p++)
                if (str_starts(setting, str_of(*p)))
                        return true;

        return false;
}

static size_t subcommand_at(const struct sh_call *call) {
        size_t at = call_subcommand_index(call);
        return at ? at : call->n;
}

bool git_runs_setting(const struct sh_call *call) {
        size_t sub = subcommand_at(call);
        struct str verb = call_subcommand(call);

        for (size_t i = 1; i < call->n; i++) {
                struct str a = call->p[i].text;
                bool clone_setting = str_is(verb, "clone") && (str_is(a, "-c") || str_is(a, "--config"));
                if (((i < sub && str_is(a, "-c")) || clone_setting) && i + 1 < call->n) {
                        if (call->p[i + 1].unknown || !harmless_setting(call->p[i + 1].text))
                                return true;
                        i++;
                } else if (i < sub && (str_starts(a, STR("--exec-path=")) || str_starts(a, STR("--config-env"))))
                        return true;
                else if (str_starts(a, STR("ext::")))
                        return true;
                else if (a.n && call->p[i].unknown && i < sub)
                        return true;
        }

        return call_has_any(call, WORDS("--ext-diff", "--upload-pack", "--receive-pack", "--open-files-in-pager",
                                        "--extcmd", "--tool", "--textconv")) ||
               (str_is(verb, "grep") && call_has_option(call, "-O")) || str_is(verb, "difftool") ||
               str_is(verb, "mergetool") || (str_is(verb, "bisect") && call_has_word(call, "run")) ||
               (str_is(verb, "submodule") && call_has_word(call, "foreach")) ||
               ((str_is(verb, "push") || str_is(verb, "rebase") || str_is(verb, "archive")) &&
                (call_has_option(call, "--exec") || (str_is(verb, "rebase") && call_has_option(call, "-x"))));
}

bool git_rewrites(const struct sh_call *call) {
        static const char *const always[] = { "rebase",     "filter-branch", "filter-repo", "replace",
                                              "update-ref", "prune",         "fast-import", NULL };
        struct str verb = call_subcommand(call);
        if (word_in(verb, always))
                return !call_has_any(call, WORDS("--abort", "--show-current-patch"));
        if (str_is(verb, "commit"))
                return call_has_option(call, "--amend");
        if (str_is(verb, "reset"))
                return call_has_any(call, WORDS("--hard", "--merge", "--keep"));
        if (str_is(verb, "branch"))
                return call_has_any(call, WORDS("-D", "-f", "--force"));
        if (str_is(verb, "tag"))
                return call_has_any(call, WORDS("-d", "--delete", "-f", "--force"));
        if (str_is(verb, "clean"))
                return !call_has_any(call, WORDS("-n", "--dry-run"));
        if (str_is(verb, "reflog"))
                return call_has_word(call, "expire") || call_has_word(call, "delete");
        if (str_is(verb, "stash"))
                return call_has_word(call, "drop") || call_has_word(call, "clear");
        if (str_is(verb, "gc"))
                return call_has_option(call, "--prune");
        if (str_is(verb, "worktree"))
                return call_has_word(call, "remove") && call_has_option(call, "--force");

        return false;
}

static bool config_reads(const struct sh_call *call) {
        size_t at = call_subcommand_index(call);

        if (call_has_any(call, WORDS("--get", "--get-all", "--get-regexp", "--list", "-l", "--get-urlmatch")))
                return true;

        size_t words = 0;
        for (size_t i = at + 1; i < call->n; i++)
                words += call->p[i].text.n && call->p[i].text.p[0] != '-';

        bool verb = at + 1 < call->n && (str_is(call->p[at + 1].text, "get") || str_is(call->p[at + 1].text, "list"));
        return (words <= 1 && !call_has_any(call, WORDS("--unset", "-e", "--edit", "--unset-all"))) || verb;
}

bool git_sets_config(const struct sh_call *call) {
        if (!str_is(call_subcommand(call), "config"))
                return false;
        if (config_reads(call))
                return false;
        if (call_has_any(call, WORDS("--global", "--system", "--file", "-f", "-e", "--edit")))
                return true;

        for (size_t i = 1; i < call->n; i++)
                if (str_is(call->p[i].text, "user.name") || str_is(call->p[i].text, "user.email") ||
                    str_is(call->p[i].text, "init.defaultBranch") || str_is(call->p[i].text, "pull.rebase"))
                        return false;

        return true;
}

bool git_only_reads(const struct sh_call *call) {
        static const char *const readers[] = {
                "status",    "log",        "diff",          "show",          "rev-parse",  "describe",    "blame",
                "annotate",  "ls-files",   "ls-tree",       "cat-file",      "shortlog",   "rev-list",    "whatchanged",
                "name-rev",  "merge-base", "count-objects", "for-each-ref",  "show-ref",   "show-branch", "grep",
                "diff-tree", "diff-index", "diff-files",    "check-ignore",  "check-attr", "cherry",      "range-diff",
                "var",       "version",    "help",          "verify-commit", "ls-remote",  NULL,
        };
        struct str verb = call_subcommand(call);
        size_t sub = subcommand_at(call);
        for (size_t i = 1; i < sub; i++) { /* another repository's settings may run programs */
                struct str a = call->p[i].text;
                if (str_starts(a, STR("--git-dir")) || str_starts(a, STR("--work-tree")) || str_is(a, "-p") ||
                    str_is(a, "--paginate"))
                        return false;
        }

        if (call_has_any(call, WORDS("--output", "--ext-diff", "--textconv")) || git_runs_setting(call))
                return false;
        if (str_is(verb, "config"))
                return config_reads(call);

        const struct sh_arg *next = sub + 1 < call->n ? &call->p[sub + 1] : NULL;

        if (str_is(verb, "branch") || str_is(verb, "tag"))
                return !next ||
                       call_has_any(call, WORDS("-l", "--list", "-a", "-r", "-v", "--show-current", "--contains",
                                                "--merged", "--no-merged", "--points-at")) ||
                       str_is(next->text, "-vv");

        if (str_is(verb, "remote"))
                return !next || str_is(next->text, "-v") || str_is(next->text, "get-url") || str_is(next->text, "show");
        if (str_is(verb, "stash"))
                return next && (str_is(next->text, "list") || str_is(next->text, "show"));
        if (str_is(verb, "reflog"))
                return !next || str_is(next->text, "show");
        if (str_is(verb, "worktree") || str_is(verb, "submodule") || str_is(verb, "notes"))
                return next && (str_is(next->text, "list") || str_is(next->text, "status"));

        return word_in(verb, readers) || (verb.n == 0 && asks_version(call));
}
