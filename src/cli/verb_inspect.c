/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/verb_inspect.h"

#include "base/cleanup.h"
#include "base/emit.h"
#include "base/escape.h"
#include "base/fd.h"
#include "verbs/bridges.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

int inspect_open(const struct call *call, const char *file, struct inspector **ret, struct err *err) {
        if (inspector_new(&call->options, file, ret, err) < 0)
                return exit_of_error(err);

        return EXIT_OK;
}

/* "  label   text", escaped: names and origins may come from anywhere. */
static void print_line(const char *label, const char *text) {
        cleanup(buf_done) struct buf out = BUF(16384);
        if (text && *text && escape_text(&out, str_of(text), 2048) == 0)
                printf("  %-8s %.*s\n", label, STR_FMT(buf_str(&out)));
}

static void print_lines(const char *label, const char *lines) {
        for (struct str rest = str_of(lines), one; str_split(&rest, '\n', &one);) {
                cleanup(free_ptr) char *text = str_dup(one);
                print_line(label, text);
        }
}

static void print_headline(const char *asked, const struct inspect_verdict *verdict, bool color) {
        cleanup(buf_done) struct buf name = BUF(65536);
        const char *paint = verdict->allowed ? "\033[32m" : "\033[31m";

        if (escape_text(&name, str_of(text_or(verdict->target, asked)), 4096) < 0)
                return;

        printf("%.*s: ", STR_FMT(buf_str(&name)));
        if (color)
                printf("%s%s\033[0m", paint, verdict->decision);
        else
                fputs(verdict->decision, stdout);

        if (verdict->is_path)
                putchar('\n');
        else
                printf(", %s\n", verdict->reason);
}

void inspect_print(const char *asked, const struct inspect_verdict *verdict, bool color) {
        print_headline(asked, verdict, color);
        print_line("why", verdict->text);
        print_line("detail", verdict->detail);
        print_line("rule", verdict->rule);
        print_line("because", verdict->because);
        print_line("in", verdict->list);
        print_line("from", verdict->origin);

        if (verdict->needs_request)
                print_line("note", "the rule names methods or paths: requests that cannot be seen are refused");

        print_lines("note", verdict->notes);
        print_lines("ratchet", verdict->ratchets);
        print_line("change", verdict->change);
}

void inspect_emit(struct emit *json, const char *asked, const struct inspect_verdict *verdict) {
        emit_open(json, '{');
        emit_put_text(json, "asked", asked);
        emit_put_text(json, verdict->is_path ? "path" : "target", verdict->target);

        emit_put_bool(json, "allowed", verdict->allowed);
        emit_put_text(json, "decision", verdict->decision);
        emit_put_text(json, "reason", verdict->reason);
        emit_put_text(json, "text", verdict->text);
        emit_put_text(json, "detail", verdict->detail);

        emit_put_text(json, "rule", verdict->rule);
        emit_put_text(json, "because", verdict->because);
        emit_put_text(json, "list", verdict->list);
        emit_put_text(json, "origin", verdict->origin);

        emit_put_bool(json, "needs_request", verdict->needs_request);
        emit_put_text(json, "change", verdict->change);
        emit_put_text(json, "ratchets", verdict->ratchets);
        emit_put_text(json, "notes", verdict->notes);
        emit_close(json);
}

int inspect_write(const struct buf *out, struct err *err) {
        fflush(stdout);
        int r = fd_write_all(STDOUT_FILENO, out->p, out->n);
        if (r < 0)
                err_set(err, -r, "cannot write to standard output");
        return r < 0 ? EXIT_SYSTEM : EXIT_OK;
}

int inspect_write_json(const struct emit *json, struct buf *out, struct err *err) {
        if (emit_status(json) < 0 || buf_add_char(out, '\n') < 0) {
                err_memory(err);
                return EXIT_SYSTEM;
        }

        return inspect_write(out, err);
}

enum { TOOL_WORDS = 128 };

int inspect_tool_call(const struct call *call, const char *asked, bool json, struct err *err) {
        cleanup(free_ptr) char *text = str_dup(str_of(asked));
        cleanup(buf_done) struct buf out = BUF(65536);
        enum bridge_outcome outcome = BRIDGE_REFUSED;
        char *words[TOOL_WORDS], *rest = text;
        size_t n = 0;

        for (char *word; n < TOOL_WORDS && (word = strsep(&rest, " "));)
                if (*word)
                        words[n++] = word;

        if (n == 0)
                return EXIT_SYSTEM;

        int r = bridges_check(&call->options, words[0], words + 1, n - 1, json, &outcome, &out, err);
        int status = r < 0 ? exit_of_error(err) : inspect_write(&out, err);

        return status != EXIT_OK || outcome != BRIDGE_REFUSED ? status : EXIT_NO;
}
