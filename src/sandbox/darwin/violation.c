/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text of a denial: "Sandbox: NAME(PID) deny(N) OPERATION TARGET", and the run's tag on the next line. A name may
 * hold "(1) deny(1) " itself, so the last place where the form holds before the target would be a program's to choose;
 * the kernel writes the name first and cuts it at 32 bytes, so the first is taken.
 */
#include "sandbox/darwin/violation.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "conf/json_walk.h"

static const char *const noise[] = { "/private/var/run/mDNSResponder", "com.apple.diagnosticd", "com.apple.analyticsd",
                                     "/dev/dtracehelper" };

static void copy_text(char *to, size_t size, struct str from) {
        size_t n = from.n < size - 1 ? from.n : size - 1;

        for (size_t i = 0; i < n; i++)
                to[i] = from.p[i] ? from.p[i] : '?';
        to[n] = '\0';
}

/* "(123) deny(1) " at the front: the number, and what follows. */
static bool take_deny(struct str text, uint32_t *ret_pid, struct str *ret_rest) {
        ptrdiff_t close = str_find(text, ')');
        uint64_t pid = 0;

        if (close < 2 || text.p[0] != '(' || !str_to_u64(str_n(text.p + 1, (size_t)close - 1), UINT32_MAX, &pid))
                return false;

        text = str_skip(text, (size_t)close + 1);
        if (!str_starts(text, STR(" deny(")))
                return false;

        text = str_skip(text, 6);
        close = str_find(text, ')');
        if (close < 1 || close > 10 || (size_t)close + 1 >= text.n || text.p[close + 1] != ' ')
                return false;

        for (ptrdiff_t i = 0; i < close; i++)
                if (!ascii_is_digit(text.p[i]))
                        return false;

        *ret_pid = (uint32_t)pid;
        *ret_rest = str_skip(text, (size_t)close + 2);

        return true;
}

static bool is_operation(struct str text) {
        for (size_t i = 0; i < text.n; i++)
                if (!ascii_is_alnum(text.p[i]) && text.p[i] != '-' && text.p[i] != '*')
                        return false;
        return text.n > 0 && text.n < sizeof((struct violation *)NULL)->operation;
}

static bool parse_message(struct str text, struct violation *ret) {
        struct str rest;

        if (!str_starts(text, STR("Sandbox: ")))
                return false;

        text = str_skip(text, 9);
        for (size_t i = 1; i < text.n; i++) {
                if (text.p[i] != '(' || !take_deny(str_skip(text, i), &ret->pid, &rest))
                        continue;

                ptrdiff_t blank = str_find(rest, ' ');
                struct str operation = blank < 0 ? rest : str_first(rest, (size_t)blank);
                if (!is_operation(operation))
                        return false;

                copy_text(ret->process, sizeof ret->process, str_first(text, i));
                copy_text(ret->operation, sizeof ret->operation, operation);
                copy_text(ret->target, sizeof ret->target, blank < 0 ? STR("") : str_skip(rest, (size_t)blank + 1));
                return true;
        }

        return false;
}

static bool is_noise(const struct violation *violation) {
        for (size_t i = 0; i < sizeof noise / sizeof *noise; i++)
                if (str_starts(str_of(violation->target), str_of(noise[i])))
                        return true;
        return false;
}

/* The tag is the whole last line of the message: a target that ends with it is not enough. */
static bool split_tag(struct str message, const char *tag, struct str *ret_first) {
        ptrdiff_t end = str_rfind(message, '\n');

        if (end < 0 || !str_is(str_trim(str_skip(message, (size_t)end + 1)), tag))
                return false;
        ptrdiff_t first = str_find(message, '\n');
        *ret_first = str_first(message, (size_t)first);
        return true;
}

enum violation_line violation_parse(struct str line, const char *tag, struct violation *ret) {
        cleanup(buf_done) struct buf message = BUF(VIOLATION_LINE_MAX);
        struct str first;

        if (str_starts(line, STR("Filtering the log data")))
                return VIOLATION_READY;
        if (line.n == 0 || line.n > VIOLATION_LINE_MAX || json_find(line, STR("/eventMessage"), &message) < 0)
                return VIOLATION_OTHER;
        if (!split_tag(buf_str(&message), tag, &first) || !parse_message(first, ret))
                return VIOLATION_OTHER;

        return is_noise(ret) ? VIOLATION_NOISE : VIOLATION_FOUND;
}
