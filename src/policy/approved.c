/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/approved.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/paths/path.h"
#include "conf/dirs.h"
#include "conf/suggest.h"
#include "policy/apply.h"
#include "policy/check.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_MAX = 4 << 20 };
static const char head[] = "# Rules that you approved. Change them with bailey allow and bailey deny.\n";

void approved_done(struct approved *approved) {
        for (size_t i = 0; i < approved->rules.n; i++) {
                free(approved->rules.p[i].workspace);
                free(approved->rules.p[i].pattern);
        }
        vec_done(&approved->rules);
}

int approved_add(struct approved *approved, bool deny, const char *day, const char *workspace, const char *pattern) {
        struct approved_rule rule = { .deny = deny,
                                      .workspace = workspace ? str_dup(str_of(workspace)) : NULL,
                                      .pattern = str_dup(str_of(pattern)) };

        snprintf(rule.day, sizeof rule.day, "%s", day);

        if (!rule.pattern || (workspace && !rule.workspace) || vec_push(&approved->rules, rule) < 0) {
                free(rule.workspace);
                free(rule.pattern);
                return -ENOMEM;
        }

        return 0;
}

bool approved_is_path(struct str pattern) {
        return str_starts(pattern, STR("read /")) || str_starts(pattern, STR("write /"));
}

bool approved_has(const struct approved *approved, const char *workspace, const char *pattern) {
        for (size_t i = 0; i < approved->rules.n; i++) {
                const struct approved_rule *rule = &approved->rules.p[i];

                if (!rule->deny && (!rule->workspace || strcmp(rule->workspace, workspace) == 0) &&
                    strcmp(rule->pattern, pattern) == 0)
                        return true;
        }

        return false;
}

int approved_path(char **ret) {
        cleanup(free_ptr) char *state = NULL;
        int r = dirs_state(&state);
        if (r < 0)
                return r;
        *ret = path_join(state, "approved");
        if (!*ret)
                return -ENOMEM;

        return 0;
}

/* %XX back to bytes; a NUL or a broken escape is refused. */
static int approved_decode(struct str s, struct buf *out) {
        for (size_t i = 0; i < s.n; i++) {
                int r, high, low;

                if (s.p[i] != '%') {
                        r = buf_add_char(out, s.p[i]);
                } else {
                        if (i + 2 < s.n)
                                high = ascii_hex(s.p[i + 1]);
                        else
                                high = -1;
                        if (high >= 0)
                                low = ascii_hex(s.p[i + 2]);
                        else
                                low = -1;
                        if (low < 0 || high * 16 + low == 0)
                                return -EINVAL;

                        r = buf_add_char(out, (char)(high * 16 + low));
                        i += 2;
                }

                if (r < 0)
                        return r;
        }

        return 0;
}

static int approved_encode(const char *text, struct buf *out) {
        int r = 0;
        for (const char *c = text; *c && r == 0; c++)
                r = (unsigned char)*c <= 0x20 || *c == '%' || *c == 0x7f ? buf_printf(out, "%%%02X", (unsigned char)*c)
                                                                         : buf_add_char(out, *c);
        return r;
}

static bool is_day(struct str s) {
        static const char form[] = "dddd-dd-dd";
        for (size_t i = 0; i < sizeof form - 1; i++)
                if (s.n != sizeof form - 1 || (form[i] == 'd' ? !ascii_is_digit(s.p[i]) : s.p[i] != form[i]))
                        return false;
        return true;
}

static int parse_line(struct str line, struct approved *ret, struct err *err) {
        struct str list = { 0 }, day = { 0 }, place = { 0 }, text = { 0 };
        cleanup(buf_done) struct buf workspace = BUF(65536);

        if (!str_split(&line, '\t', &list) || !str_split(&line, '\t', &day) || !str_split(&line, '\t', &place))
                return err_set(err, EINVAL, "a line has four fields");

        text = line;
        bool deny = str_is(list, "deny");
        if ((!deny && !str_is(list, "allow")) || !is_day(day))
                return err_set(err, EINVAL, "a line begins with allow or deny and a day");

        bool everywhere = str_is(place, "*");
        if (!everywhere && (place.n == 0 || place.p[0] != '/' || approved_decode(place, &workspace) < 0))
                return err_set(err, EINVAL, "%s is not a workspace", show(place).text);

        int r = 0;

        if (deny)
                r = check_denied_pattern(text, err);
        else if (!approved_is_path(text))
                r = check_host_pattern(text, err);

        if (r < 0)
                return r;

        cleanup(free_ptr) char *pattern = str_dup(text);
        char day_text[16];
        snprintf(day_text, sizeof day_text, "%.*s", STR_FMT(day));

        const char *where = everywhere ? NULL : buf_text(&workspace);
        if (!pattern || (!everywhere && !where) || approved_add(ret, deny, day_text, where, pattern) < 0)
                return err_memory(err);

        return 0;
}

int approved_parse(struct str text, const char *name, struct approved *ret, struct err *err) {
        struct str line;

        for (unsigned number = 1; str_split(&text, '\n', &line); number++) {
                if (line.n == 0 || line.p[0] == '#')
                        continue;
                int r = parse_line(line, ret, err);
                if (r < 0)
                        return err_wrap(err, r, "%s:%u", name, number);
        }

        return 0;
}

int approved_read(const char *path, struct approved *ret, struct err *err) {
        cleanup(buf_done) struct buf text = BUF(FILE_MAX);
        cleanup(close_fd) int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
        struct stat st;

        if (fd < 0) {
                /* Closed to us, as inside another sandbox: then nothing is approved here. */
                if (errno == ENOENT || errno == EACCES)
                        return 0;
                return err_errno(err, "cannot read the approved rules in %s", path);
        }

        if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 0022))
                return err_set(err, EPERM, "%s must be a file of yours that nobody else can write", path);

        int r = fd_read_all(fd, &text);
        if (r < 0)
                return err_set(err, -r, "cannot read the approved rules in %s", path);

        return approved_parse(buf_str(&text), path, ret, err);
}

int approved_format(const struct approved *approved, struct buf *out) {
        int r = buf_add(out, head);
        for (size_t i = 0; r == 0 && i < approved->rules.n; i++) {
                const struct approved_rule *rule = &approved->rules.p[i];

                r = buf_printf(out, "%s\t%s\t", rule->deny ? "deny" : "allow", rule->day);
                if (r == 0)
                        r = rule->workspace ? approved_encode(rule->workspace, out) : buf_add_char(out, '*');
                if (r == 0)
                        r = buf_printf(out, "\t%s\n", rule->pattern);
        }

        return r;
}

static int approved_apply_one(const struct approved_rule *rule, struct policy *policy, const char *origin,
                              struct err *err) {
        if (!rule->deny && approved_is_path(str_of(rule->pattern))) {
                enum policy_row row = rule->pattern[0] == 'r' ? ROW_READ : ROW_WRITE;

                return policy_apply(policy, row, str_of(strchr(rule->pattern, '/')), origin, "/", err);
        }
        return policy_apply(policy, rule->deny ? ROW_DENY : ROW_ALLOW, str_of(rule->pattern), origin, "/", err);
}

int approved_apply(const struct approved *approved, struct policy *policy, struct err *err) {
        for (size_t i = 0; i < approved->rules.n; i++) {
                const struct approved_rule *rule = &approved->rules.p[i];
                char origin[32];

                if (rule->workspace && strcmp(rule->workspace, policy->workspace) != 0)
                        continue;

                snprintf(origin, sizeof origin, "%s %s", rule->deny ? "denied" : "approved", rule->day);
                int r = approved_apply_one(rule, policy, origin, err);
                if (r < 0)
                        return err_wrap(err, r, "%s", origin);
        }

        return 0;
}
