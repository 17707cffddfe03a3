/* SPDX-License-Identifier: Apache-2.0 */
#include "kept/git_unfinished.h"

#include <string.h>

static bool is_listed(struct str text, const char *const *list) {
        for (size_t i = 0; list[i]; i++)
                if (str_is(text, list[i]))
                        return true;
        return false;
}

static bool has_only(struct str text, const char *marks) {
        for (size_t i = 0; i < text.n; i++)
                if (!ascii_is_alnum(text.p[i]) && (!text.p[i] || !strchr(marks, text.p[i])))
                        return false;
        return true;
}

static bool is_number(struct str text) {
        uint64_t number;

        return str_to_u64(text, UINT32_MAX, &number);
}

/* As git reads a file of one line. */
static struct str first_line(struct str text) {
        if (str_ends(text, STR("\n")))
                text.n--;
        if (str_ends(text, STR("\r")))
                text.n--;
        return text;
}

/* --- the list of a rebase --- */

/* As git reads a line: blanks, the command or its letter, a blank. */
static bool step_harmless(struct str line) {
        while (line.n && (line.p[0] == ' ' || line.p[0] == '\t'))
                line = str_skip(line, 1);

        for (size_t i = 0; i < 2; i++) {
                struct str word = i ? STR("x") : STR("exec");

                if (str_starts(line, word) && (line.n == word.n || strchr(" \t\r", line.p[word.n])))
                        return false;
        }

        return true;
}

/* --- how to merge --- */

/* Git runs `git-merge-NAME`, and a name with a slash is a path from the working tree. */
static bool is_strategy(struct str text) {
        static const char *const own[] = { "ort", "recursive", "resolve", "octopus", "ours", "subtree", NULL };

        return is_listed(text, own);
}

/* Of the strategy `resolve` every option is one of `git read-tree`, which has one that names a file to write. */
static bool is_merge_option(struct str text) {
        static const char *const plain[] = { "ours",
                                             "theirs",
                                             "patience",
                                             "histogram",
                                             "minimal",
                                             "renormalize",
                                             "no-renormalize",
                                             "no-renames",
                                             "find-renames",
                                             "subtree",
                                             "ignore-space-change",
                                             "ignore-all-space",
                                             "ignore-space-at-eol",
                                             "ignore-cr-at-eol",
                                             NULL };
        static const char *const valued[] = { "find-renames=", "rename-threshold=", "diff-algorithm=", "subtree=",
                                              NULL };

        if (is_listed(text, plain))
                return true;

        for (size_t i = 0; valued[i]; i++)
                if (str_starts(text, str_of(valued[i])))
                        return has_only(str_skip(text, strlen(valued[i])), "._/%-");

        return false;
}

static bool strategy_harmless(struct str text) {
        return is_strategy(first_line(text));
}

/* Words with `--` before them; newer versions of git put each in quotes. */
static bool options_harmless(struct str text) {
        struct str rest = first_line(text), word;

        while (str_split(&rest, ' ', &word)) {
                if (word.n >= 2 && word.p[0] == '"' && word.p[word.n - 1] == '"')
                        word = str_n(word.p + 1, word.n - 2);
                if (str_starts(word, STR("--")))
                        word = str_skip(word, 2);
                if (word.n && !is_merge_option(word))
                        return false;
        }

        return true;
}

/* --- the rest --- */

/* One argument of `git am`, whatever it says. */
static bool signing_harmless(struct str text) {
        text = first_line(text);
        return text.n == 0 || str_starts(text, STR("-S")) || str_is(text, "--gpg-sign") ||
               str_starts(text, STR("--gpg-sign=")) || str_is(text, "--no-gpg-sign");
}

static bool is_apply_option(struct str word) {
        static const char *const valued[] = { "--whitespace=", "--directory=", "--exclude=", "--include=", NULL };

        if (str_is(word, "--reject") || str_is(word, "--ignore-space-change") || str_is(word, "--ignore-whitespace"))
                return true;
        if (str_starts(word, STR("-C")) || str_starts(word, STR("-p")))
                return is_number(str_skip(word, 2));

        for (size_t i = 0; valued[i]; i++)
                if (str_starts(word, str_of(valued[i])))
                        return true;

        return false;
}

/* Options of `git apply`, each in single quotes. Another one of them names a file to write. */
static bool apply_harmless(struct str text) {
        text = first_line(text);

        while ((text = str_trim(text)).n) {
                if (text.p[0] != '\'')
                        return false;

                text = str_skip(text, 1);
                ptrdiff_t end = str_find(text, '\'');
                if (end < 0 || !is_apply_option(str_first(text, (size_t)end)))
                        return false;

                text = str_skip(text, (size_t)end + 1);
                if (text.n && text.p[0] != ' ')
                        return false;
        }

        return true;
}

static bool is_setting(struct str key, struct str value) {
        static const char *const plain[] = { "no-commit",
                                             "allow-empty",
                                             "allow-empty-message",
                                             "drop-redundant-commits",
                                             "keep-redundant-commits",
                                             "signoff",
                                             "record-origin",
                                             "allow-ff",
                                             "edit",
                                             "allow-rerere-auto",
                                             "mainline",
                                             "default-msg-cleanup",
                                             NULL };

        if (str_is(key, "strategy"))
                return is_strategy(value);
        if (str_is(key, "strategy-option"))
                return is_merge_option(value);
        if (str_is(key, "gpg-sign"))
                return has_only(value, " ._@<>+-:/~!");

        return is_listed(key, plain) && has_only(value, "-");
}

/* A configuration, of which only lines stay as git itself writes them: nothing in them leads to the next line. */
static bool setting_harmless(struct str line) {
        struct str key, value = str_trim(line);

        if (value.n == 0 || str_is(value, "[options]"))
                return true;
        if (!str_split(&value, '=', &key))
                return false;

        return is_setting(str_trim(key), str_trim(value));
}

const struct unfinished_file unfinished_files[] = {
        { "rebase-merge", "git-rebase-todo", true, step_harmless },
        { "rebase-merge", "strategy", false, strategy_harmless },
        { "rebase-merge", "strategy_opts", false, options_harmless },
        { "rebase-merge", "gpg_sign_opt", false, signing_harmless },
        { "rebase-apply", "gpg_sign_opt", false, signing_harmless },
        { "rebase-apply", "apply-opt", false, apply_harmless },
        { "sequencer", "opts", true, setting_harmless },
};
const size_t unfinished_count = sizeof unfinished_files / sizeof *unfinished_files;

bool unfinished_harmless(const struct unfinished_file *file, struct str text) {
        struct str line;

        if (!file->by_line)
                return file->harmless(text);

        while (str_split(&text, '\n', &line))
                if (!file->harmless(line))
                        return false;

        return true;
}

bool unfinished_directory(struct str name) {
        for (size_t i = 0; i < unfinished_count; i++)
                if (str_is(name, unfinished_files[i].directory))
                        return true;
        return false;
}
