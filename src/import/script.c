/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A region is a loop or a function, from its head to its end. An end that is seen too late does no harm: more is looked
 * at, and a list may be refused for what comes after it. So "do" counts wherever it stands, and "done" only as a
 * command, outside quotes, comments and here-documents.
 */
#include "import/script.h"

#include "base/bounds.h"

#include <strings.h>

enum { REGION_BYTES_MAX = 32 << 10, WORK_BYTES_MAX = 64 << 20, VARIABLES_DEEP = 4 };

static const char *const refusals[] = { "DROP", "REJECT", "block", "deny", "0.0.0.0", "127.0.0.1 ",
                                        /* what becomes of a packet is in a variable, or it is taken back */
                                        "-j $", "-j \"$", "--jump $", "--jump \"$", "ipset del", "-D OUTPUT",
                                        "add blackhole", "add prohibit", "add unreachable", NULL };
static const char *const refusing_names[] = { "BLOCK",   "DENY",     "DENIED", "FORBID", "BANNED",  "REJECT",
                                              "DROPPED", "DISALLOW", "REFUSE", "BLACK",  "EXCLUDE", NULL };
static const char *const allowing_names[] = { "ALLOW", "PERMIT", "WHITELIST", "TRUSTED", "ACCEPT", NULL };

/* --- words --- */

/* Whether one of the words is in the text, in either case. */
static bool has_any(struct str text, const char *const *words) {
        for (; *words; words++)
                for (size_t i = 0, n = strlen(*words); i + n <= text.n; i++)
                        if (ascii_lower(text.p[i]) == ascii_lower(**words) && strncasecmp(text.p + i, *words, n) == 0)
                                return true;
        return false;
}

/* The same, without lines that are comments. */
static bool has_refusal(struct str text) {
        struct str line;

        while (str_split(&text, '\n', &line)) {
                struct str trimmed = str_trim(line);

                if ((trimmed.n == 0 || trimmed.p[0] != '#') && has_any(trimmed, refusals))
                        return true;
        }

        return false;
}

enum name_kind { NAME_VARIABLE, NAME_COMMAND };

static bool is_name_char(char c, enum name_kind kind) {
        return ascii_is_alnum(c) || c == '_' || (c == '-' && kind == NAME_COMMAND);
}

/* The next name at or behind *at, which is set behind it, wherever it stands. */
static bool next_name(struct str text, enum name_kind kind, size_t *at, struct str *ret) {
        while (*at < text.n && !is_name_char(text.p[*at], kind))
                ++*at;

        size_t start = *at;
        while (*at < text.n && is_name_char(text.p[*at], kind))
                ++*at;

        *ret = str_n(text.p + start, *at - start);
        return ret->n > 0;
}

static bool has_name(struct str text, const char *name) {
        struct str found;

        for (size_t at = 0; next_name(text, NAME_COMMAND, &at, &found);)
                if (str_is(found, name))
                        return true;
        return false;
}

/* --- the shell's own words --- */

struct scan {
        struct str text;
        size_t at;
        char quote;
        struct str here; /* the word that ends a here-document, which begins on the next line */
        bool command;    /* a word that comes now is a command */
};

static char scan_at(const struct scan *scan, size_t ahead) {
        return scan->at + ahead < scan->text.n ? scan->text.p[scan->at + ahead] : '\0';
}

static void skip_here(struct scan *scan) {
        struct str rest = str_skip(scan->text, scan->at), line;

        while (str_split(&rest, '\n', &line)) {
                scan->at = min_of(scan->at + line.n + 1, scan->text.n);

                while (line.n > 0 && line.p[0] == '\t')
                        line = str_skip(line, 1);
                if (line.n > 0 && line.p[line.n - 1] == '\r')
                        line = str_first(line, line.n - 1);
                if (str_eq(line, scan->here))
                        break;
        }

        scan->here = STR("");
}

/* Behind "<<": the word, with or without quotes. */
static void take_here(struct scan *scan) {
        struct str name;

        while (strchr("- \t\\\"'", scan_at(scan, 0)) && scan->at < scan->text.n)
                scan->at++;

        size_t start = scan->at;
        while (scan->at < scan->text.n && !strchr(" \t\r\n;&|()<>\"'", scan->text.p[scan->at]))
                scan->at++;

        name = str_n(scan->text.p + start, scan->at - start);
        if (name.n > 0)
                scan->here = name;
        if (strchr("\"'", scan_at(scan, 0)) && scan->at < scan->text.n)
                scan->at++;
}

/* Past what is no word. False: a word begins here. */
static bool skip_other(struct scan *scan) {
        char c = scan_at(scan, 0);

        if (scan->quote) {
                if (c == '\\' && scan->quote == '"')
                        scan->at++;
                else if (c == scan->quote)
                        scan->quote = '\0';
        } else if (c == '\\') {
                scan->at++;
        } else if (c == '"' || c == '\'') {
                scan->quote = c;
                scan->command = false;
        } else if (c == '#') {
                while (scan->at + 1 < scan->text.n && scan_at(scan, 1) != '\n')
                        scan->at++;
        } else if (c == '<' && scan_at(scan, 1) == '<' && scan_at(scan, 2) == '<') {
                scan->at += 2;
        } else if (c == '<' && scan_at(scan, 1) == '<') {
                scan->at += 2;
                take_here(scan);
                return true;
        } else if (c == '\n' || strchr(";&|()`", c)) {
                scan->command = true;
        } else if (!strchr(" \t\r<>", c)) {
                return false;
        }

        scan->at++;
        if (c == '\n' && !scan->quote && scan->here.n > 0)
                skip_here(scan);

        return true;
}

/* *ret_command: it stands where commands do. */
static bool next_word(struct scan *scan, struct str *ret, bool *ret_command) {
        static const char *const before_commands[] = { "do",    "then",  "else", "elif", "if",
                                                       "while", "until", "{",    "!",    "time" };

        while (scan->at < scan->text.n && skip_other(scan))
                ;
        if (scan->at >= scan->text.n)
                return false;

        size_t start = scan->at;
        while (scan->at < scan->text.n && !strchr(" \t\r\n;&|()<>`\"'\\", scan->text.p[scan->at]))
                scan->at++;

        *ret = str_n(scan->text.p + start, scan->at - start);
        *ret_command = scan->command;

        scan->command = false;
        for (size_t i = 0; i < sizeof before_commands / sizeof *before_commands; i++)
                scan->command |= str_is(*ret, before_commands[i]);

        return true;
}

/* From `at` to the end of the line in which the first `open` is closed. Empty: it is not, or too far away. */
static struct str find_region(struct script *script, size_t at, const char *open, const char *close) {
        struct scan scan = { .text = str_first(str_skip(script->text, at), REGION_BYTES_MAX), .command = true };
        struct str word;
        bool command;
        size_t depth = 0;

        script->work += scan.text.n;

        while (next_word(&scan, &word, &command)) {
                bool closes = command && str_is(word, close) && depth > 0 && scan_at(&scan, 0) != ')';

                depth += str_is(word, open);
                depth -= closes;
                if (!closes || depth > 0)
                        continue;

                while (scan.at < scan.text.n && scan.text.p[scan.at] != '\n')
                        scan.at++;
                return str_first(scan.text, scan.at);
        }

        return STR("");
}

/* --- functions --- */

static void add_function(struct script *script, struct str name, size_t at) {
        struct str body = find_region(script, at, "{", "}");

        if (script->n == SCRIPT_FUNCTIONS_MAX) {
                script->too_many = true;
                return;
        }

        script->functions[script->n++] = (struct script_function){
                .name = name,
                .body = body.n > 0 ? body : str_skip(script->text, at),
                .refuses = body.n == 0 || has_refusal(body),
        };
}

/* Whether the text names a function of the script; if so desired, one that refuses. */
static bool calls_function(const struct script *script, struct str text, bool refusing) {
        struct str name;

        for (size_t at = 0; next_name(text, NAME_COMMAND, &at, &name);)
                for (size_t i = 0; i < script->n; i++)
                        if ((script->functions[i].refuses || !refusing) && str_eq(name, script->functions[i].name))
                                return true;
        return false;
}

void script_read(struct str text, struct script *ret) {
        struct scan scan = { .text = text, .command = true };
        struct str word;
        bool command, keyword = false, changed = true;

        *ret = (struct script){ .text = text };

        while (!ret->too_many && next_word(&scan, &word, &command)) {
                struct str rest = str_trim(str_first(str_skip(text, scan.at), 64));
                bool brackets = rest.n > 0 && rest.p[0] == '(' && str_starts(str_trim(str_skip(rest, 1)), STR(")"));

                if (keyword || (command && brackets))
                        add_function(ret, word, scan.at);
                keyword = command && str_is(word, "function");
        }

        while (changed) {
                changed = false;

                for (size_t i = 0; i < ret->n; i++) {
                        struct script_function *function = &ret->functions[i];

                        if (!function->refuses && calls_function(ret, function->body, true))
                                changed = function->refuses = true;
                }
        }
}

/* --- lists --- */

/* A variable, and the region in which it was looked at already. */
struct variable {
        struct str name, seen;
        unsigned deep; /* variables that were set from each other on the way to this one */
};

static enum list_fate variable_fate(struct script *script, const struct variable *variable, bool *ret_used);

static bool is_assignment(struct str rest) {
        return (str_starts(rest, STR("=")) && !str_starts(rest, STR("=="))) || str_starts(rest, STR("+="));
}

/* What the text puts into variables has the fate of these. */
static bool passes_on_refused(struct script *script, struct str text, unsigned deep) {
        struct variable variable = { .seen = text, .deep = deep + 1 };
        bool used;

        for (size_t at = 0; next_name(text, NAME_VARIABLE, &at, &variable.name);)
                if (is_assignment(str_skip(text, at)) && variable_fate(script, &variable, &used) != FATE_ALLOWED)
                        return true;

        return false;
}

/* Whether a function around it has the name of one that refuses. */
static bool is_refused_around(const struct script *script, size_t at) {
        const char *p = script->text.p + at;

        for (size_t i = 0; i < script->n; i++) {
                struct str body = script->functions[i].body;

                if (p >= body.p && p < body.p + body.n && has_any(script->functions[i].name, refusing_names))
                        return true;
        }

        return false;
}

static enum list_fate loop_fate(struct script *script, size_t at, unsigned deep) {
        struct str region;

        if (script->too_many || script->work > WORK_BYTES_MAX || deep > VARIABLES_DEEP)
                return FATE_UNKNOWN;

        region = find_region(script, at, "do", "done");
        if (region.n == 0 || has_refusal(region) || calls_function(script, region, true) ||
            is_refused_around(script, at))
                return FATE_REFUSED;

        if (passes_on_refused(script, region, deep))
                return FATE_UNKNOWN;

        return FATE_ALLOWED;
}

enum list_fate script_loop_fate(struct script *script, size_t at) {
        return loop_fate(script, at, 0);
}

static bool has_loop(struct str line) {
        struct scan scan = { .text = line, .command = true };
        struct str word;
        bool command, found = false;

        while (!found && next_word(&scan, &word, &command))
                found = command && (str_is(word, "for") || str_is(word, "while") || str_is(word, "until") ||
                                    str_is(word, "select"));
        return found;
}

/* Of the variable's contents, by one line that names it. *ret_used: something is done with them. */
static enum list_fate line_fate(struct script *script, struct str line, unsigned deep, bool *ret_used) {
        if (has_loop(line)) {
                *ret_used = true;
                return loop_fate(script, (size_t)(line.p - script->text.p), deep);
        }

        if (has_refusal(line) || calls_function(script, line, true))
                return FATE_REFUSED;

        *ret_used |= calls_function(script, line, false);

        /* it goes by another name from here, into a loop that ends here, or into a list that began before */
        if (has_name(line, "-n") || has_name(line, "eval") || has_name(line, "done") || strchr("\"'$", line.p[0]))
                return FATE_UNKNOWN;
        if (passes_on_refused(script, line, deep))
                return FATE_UNKNOWN;

        return FATE_ALLOWED;
}

/* Whether the line names the variable, and not only to set it. */
static bool line_uses(struct str line, struct str variable) {
        struct str name;

        for (size_t at = 0; next_name(line, NAME_VARIABLE, &at, &name);)
                if (str_eq(name, variable) && !is_assignment(str_skip(line, at)))
                        return true;

        return false;
}

/* With those that it goes on in. */
static bool next_line(struct str *rest, struct str *ret) {
        struct str line;

        if (!str_split(rest, '\n', ret))
                return false;

        for (;;) {
                struct str trimmed = str_trim(*ret);

                bool goes_on = trimmed.n > 0 && trimmed.p[0] != '#' && strchr("\\|&", trimmed.p[trimmed.n - 1]);

                if (!goes_on || !str_split(rest, '\n', &line))
                        return true;

                *ret = str_n(ret->p, (size_t)(line.p + line.n - ret->p));
        }
}

static enum list_fate variable_fate(struct script *script, const struct variable *variable, bool *ret_used) {
        enum list_fate fate = FATE_ALLOWED;
        struct str rest = script->text, line, seen = variable->seen;

        *ret_used = false;

        while (fate != FATE_REFUSED && next_line(&rest, &line)) {
                struct str trimmed = str_trim(line);

                script->work += line.n;
                if (script->work > WORK_BYTES_MAX || variable->deep > VARIABLES_DEEP)
                        return FATE_UNKNOWN;
                if (trimmed.n == 0 || trimmed.p[0] == '#' || !line_uses(trimmed, variable->name))
                        continue;
                if (trimmed.p >= seen.p && trimmed.p < seen.p + seen.n)
                        continue;

                enum list_fate by_line = line_fate(script, trimmed, variable->deep, ret_used);
                if (by_line != FATE_ALLOWED)
                        fate = by_line;
        }

        return fate;
}

enum list_fate script_array_fate(struct script *script, struct str name) {
        const struct variable variable = { .name = name, .seen = STR("") };
        bool used = false;
        enum list_fate fate;

        if (has_any(name, refusing_names))
                return FATE_REFUSED;

        fate = variable_fate(script, &variable, &used);
        if (fate == FATE_ALLOWED && !used && !has_any(name, allowing_names))
                return FATE_UNKNOWN;

        return fate;
}
