/* SPDX-License-Identifier: Apache-2.0 */
#include "cases.h"

#include "../cmocka_all.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/paths/path.h"

#include <stdio.h>

static char *unescape(struct str s, size_t *ret_n) {
        char *out = malloc(s.n + 1);
        size_t n = 0;
        assert_non_null(out);
        for (size_t i = 0; i < s.n; i++) {
                if (s.p[i] != '\\' || i + 1 >= s.n) {
                        out[n++] = s.p[i];
                } else if (s.p[i + 1] == 's') {
                        out[n++] = ' ';
                        i++;
                } else if (s.p[i + 1] == 'x' && i + 3 < s.n) {
                        out[n++] = (char)(ascii_hex(s.p[i + 2]) << 4 | ascii_hex(s.p[i + 3]));
                        i += 3;
                } else {
                        out[n++] = s.p[++i];
                }
        }
        *ret_n = n;
        return out;
}

static bool is_blank(char c) {
        return c == ' ' || c == '\t';
}

static void split_fields(struct str line, struct case_line *c) {
        while (line.n > 0) {
                if (is_blank(line.p[0])) {
                        line = str_skip(line, 1);
                        continue;
                }
                if (line.p[0] == '#')
                        return;
                size_t n = 0;
                while (n < line.n && !is_blank(line.p[n]))
                        n++;
                assert_true(c->n < CASE_FIELDS_MAX);
                struct str raw = str_first(line, n), *field = &c->field[c->n++];
                if (str_is(raw, "\"\""))
                        raw = STR("");
                field->p = unescape(raw, &field->n);
                line = str_skip(line, n);
        }
}

void cases_run(const char *file, bool (*run)(const struct case_line *c, void *context), void *context) {
        const char *directory = getenv("CASES");
        cleanup(buf_done) struct buf text = BUF(1 << 20);
        struct err e = { 0 };
        assert_non_null(directory);
        cleanup(free_ptr) char *path = path_join(directory, file);
        if (path_read_file(path, 1 << 20, &text, &e) < 0)
                fail_msg("%s", err_text(&e));
        struct str rest = buf_str(&text), line;
        int failed = 0, run_count = 0;
        for (int number = 1; str_split(&rest, '\n', &line); number++) {
                struct case_line c = { .file = file, .line = number };
                for (size_t i = 0; i < CASE_FIELDS_MAX; i++)
                        c.field[i] = STR("");
                split_fields(line, &c);
                if (c.n > 0) {
                        run_count++;
                        failed += !run(&c, context);
                }
                for (size_t i = 0; i < c.n; i++)
                        free((char *)c.field[i].p);
        }
        assert_true(run_count > 0);
        if (failed)
                fail_msg("%s: %d of %d cases do not hold", file, failed, run_count);
}

bool case_failed(const struct case_line *c, const char *format, ...) {
        va_list args;
        va_start(args, format);
        fprintf(stderr, "%s:%d: ", c->file, c->line);
        vfprintf(stderr, format, args);
        fputc('\n', stderr);
        va_end(args);
        return false;
}
