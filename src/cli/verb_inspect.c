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

int inspect_open(const struct call *call, const char *file, struct inspector **ret, struct err *e) {
        return inspector_new(&call->options, file, ret, e) < 0 ? exit_of_error(e) : EXIT_OK;
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

static void print_headline(const char *asked, const struct inspect_verdict *v, bool color) {
        cleanup(buf_done) struct buf name = BUF(65536);
        const char *paint = v->allowed ? "\033[32m" : "\033[31m";

        if (escape_text(&name, str_of(text_or(v->target, asked)), 4096) < 0)
                return;

        printf("%.*s: ", STR_FMT(buf_str(&name)));
        if (color)
                printf("%s%s\033[0m", paint, v->decision);
        else
                fputs(v->decision, stdout);

        if (v->is_path)
                putchar('\n');
        else
                printf(", %s\n", v->reason);
}

void inspect_print(const char *asked, const struct inspect_verdict *v, bool color) {
        print_headline(asked, v, color);
        print_line("why", v->text);
        print_line("detail", v->detail);
        print_line("rule", v->rule);
        print_line("because", v->because);
        print_line("in", v->list);
        print_line("from", v->origin);

        if (v->needs_request)
                print_line("note", "the rule names methods or paths: requests that cannot be seen are refused");

        print_lines("note", v->notes);
        print_lines("ratchet", v->ratchets);
        print_line("change", v->change);
}

void inspect_emit(struct emit *j, const char *asked, const struct inspect_verdict *v) {
        emit_open(j, '{');
        emit_put_text(j, "asked", asked);
        emit_put_text(j, v->is_path ? "path" : "target", v->target);
        emit_put_bool(j, "allowed", v->allowed);
        emit_put_text(j, "decision", v->decision);
        emit_put_text(j, "reason", v->reason);
        emit_put_text(j, "text", v->text);
        emit_put_text(j, "detail", v->detail);
        emit_put_text(j, "rule", v->rule);
        emit_put_text(j, "because", v->because);
        emit_put_text(j, "list", v->list);
        emit_put_text(j, "origin", v->origin);
        emit_put_bool(j, "needs_request", v->needs_request);
        emit_put_text(j, "change", v->change);
        emit_put_text(j, "ratchets", v->ratchets);
        emit_put_text(j, "notes", v->notes);
        emit_close(j);
}

int inspect_write(const struct buf *out, struct err *e) {
        fflush(stdout);
        int r = fd_write_all(STDOUT_FILENO, out->p, out->n);
        if (r < 0)
                err_set(e, -r, "cannot write to standard output");
        return r < 0 ? EXIT_SYSTEM : EXIT_OK;
}

enum { TOOL_WORDS = 128 };

int inspect_tool_call(const struct call *call, const char *asked, bool json, struct err *e) {
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

        int r = bridges_check(&call->options, words[0], words + 1, n - 1, json, &outcome, &out, e);
        int status = r < 0 ? exit_of_error(e) : inspect_write(&out, e);

        return status != EXIT_OK || outcome != BRIDGE_REFUSED ? status : EXIT_NO;
}
