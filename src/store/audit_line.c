/* SPDX-License-Identifier: Apache-2.0 */
#include "store/audit_line.h"

#include "base/cleanup.h"
#include "base/escape.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>

/* Six strings from the event and the rule's two, each byte of which may become six, and the fixed part. */
static_assert(6 * 6 * EVENT_TEXT_MAX + 2048 < AUDIT_LINE_MAX, "the longest event fits into a line");

bool audit_id_valid(const char *id) {
        size_t n = 0;
        while (id[n] && (ascii_is_alnum(id[n]) || id[n] == '-' || id[n] == '_'))
                n++;
        return n > 0 && n < AUDIT_ID_MAX && id[n] == '\0';
}

/*
 * Writing. Room for the longest line that the event can make is reserved at once, and each step checks against its end:
 * this runs for every request, and the checks are all that is left of it besides copying.
 */
struct put {
        struct buf *out;
        char *at, *end;
        int r; /* the first failure; later steps do nothing */
};

enum { FIXED_MAX = 1024 }; /* names, numbers, digests and punctuation of one line */

static void put_begin(struct put *put, struct buf *out, size_t escaped) {
        *put = (struct put){ .out = out, .r = buf_reserve(out, FIXED_MAX + 6 * escaped) };
        if (put->r == 0) {
                put->at = out->p + out->n;
                put->end = put->at + FIXED_MAX + 6 * escaped;
        }
}

static inline void put_str(struct put *put, struct str s) {
        if ((size_t)(put->end - put->at) < s.n) {
                put->r = -EMSGSIZE;
                put->end = put->at; /* nothing fits any more */
                return;
        }

        if (s.n)
                memcpy(put->at, s.p, s.n);

        put->at += s.n;
}

#define put(p, literal) put_str(p, STR(literal))

static void put_number(struct put *put, uint64_t n) {
        char digits[20];
        size_t at = sizeof digits;
        do
                digits[--at] = (char)('0' + n % 10);
        while ((n /= 10) > 0);
        put_str(put, str_n(digits + at, sizeof digits - at));
}

static bool is_plain(struct str s) {
        for (size_t i = 0; i < s.n; i++)
                if ((unsigned char)s.p[i] < 0x20 || (unsigned char)s.p[i] >= 0x7f || s.p[i] == '"' || s.p[i] == '\\')
                        return false;
        return true;
}

/* For names from tables, and for what was found to be plain: nothing in them needs escaping. */
static void put_quoted(struct put *p, struct str s) {
        put(p, "\"");
        put_str(p, s);
        put(p, "\"");
}

static void put_name(struct put *put, const char *name) {
        put_quoted(put, str_of(name));
}

static void put_json(struct put *put, struct str s) {
        if (is_plain(s)) {
                put_quoted(put, s);
                return;
        }

        cleanup(buf_done) struct buf escaped = BUF(AUDIT_LINE_MAX);
        int r = escape_json(&escaped, s);
        if (r == 0)
                put_str(put, buf_str(&escaped));
        else if (put->r == 0)
                put->r = r;
}

static void put_json_or_null(struct put *p, struct str s) {
        if (s.n)
                put_json(p, s);
        else
                put(p, "null");
}

static void put_names(struct put *p, struct str comma_separated) {
        struct str name;
        bool first = true;

        put(p, "[");

        while (comma_separated.n > 0 && str_split(&comma_separated, ',', &name)) {
                if (!first)
                        put(p, ",");
                first = false;
                put_json(p, name);
        }

        put(p, "]");
}

/* Most lines of a batch share their second: its text is made once. */
static void put_time(struct put *p, struct audit_head *head, uint64_t wall_us) {
        if (head->second != wall_us / 1000000 || head->text[0] == '\0') {
                clock_text(wall_us, head->text);
                head->second = wall_us / 1000000;
        }

        uint32_t us = (uint32_t)(wall_us % 1000000);
        for (size_t i = 0; i < 6; i++, us /= 10)
                head->text[25 - i] = (char)('0' + us % 10);

        put(p, "{\"ts\":\"");
        put_str(p, str_n(head->text, 27));
}
static_assert(CLOCK_TEXT_MAX == 28, "put_time() writes the microseconds in place");

static void put_verdict(struct put *p, const struct event *ev, const struct snapshot_rule *rule) {
        if (ev->allowed)
                put(p, ",\"allowed\":true,\"rule\":");
        else
                put(p, ",\"allowed\":false,\"rule\":");

        put_json_or_null(p, rule ? rule->text : STR(""));

        if (rule && rule->origin.n) {
                put(p, ",\"origin\":");
                put_json(p, rule->origin);
        }

        if (rule && ev->allowed && rule->list != LIST_DENY) {
                put(p, ",\"whitelist_matched\":");
                put_json(p, rule->text);
        }

        put(p, ",\"reason\":");
        put_name(p, reason_code((enum reason)ev->reason));

        if (rule && rule->reason.n > 0) {
                put(p, ",\"because\":");
                put_json(p, rule->reason);
        }
}

static void put_count(struct put *p, const struct event *ev) {
        if (ev->count > 1) {
                put(p, ",\"count\":");
                put_number(p, ev->count);
        }
}

/* "REF OLD NEW"; whatever else the gateway says becomes a ref without ids. */
static void put_ref(struct put *p, struct str line) {
        struct str ref = { 0 }, before = { 0 }, after = { 0 };

        (void)(str_split(&line, ' ', &ref) && str_split(&line, ' ', &before) && str_split(&line, ' ', &after));
        put(p, "{\"ref\":");
        put_json(p, ref);
        put(p, ",\"old\":");
        put_json_or_null(p, str_is(before, "-") ? STR("") : before);
        put(p, ",\"new\":");
        put_json_or_null(p, str_is(after, "-") ? STR("") : after);
        put(p, "}");
}

/* What a request of git or GraphQL would do (ipc/event.h). */
static void put_act(struct put *p, struct str act) {
        struct str head = { 0 }, first = { 0 }, second = { 0 }, line;
        bool graphql, more = false;

        (void)str_split(&act, '\n', &head);
        (void)(str_split(&head, ' ', &first) && str_split(&head, ' ', &second));
        graphql = str_is(first, "graphql");
        if (graphql)
                put(p, ",\"graphql\":{\"operation\":");
        else
                put(p, ",\"git\":{\"service\":");
        put_json(p, graphql ? second : first);
        if (!graphql) {
                put(p, ",\"repository\":");
                put_json(p, second);
        }
        if (graphql)
                put(p, ",\"fields\":[");
        else
                put(p, ",\"refs\":[");
        while (act.n > 0 && str_split(&act, '\n', &line)) {
                if (more)
                        put(p, ",");
                more = true;
                if (graphql)
                        put_json(p, line);
                else
                        put_ref(p, line);
        }
        put(p, "]}");
}

static void put_network(struct put *p, const struct event *ev, const struct snapshot_rule *rule) {
        put(p, ",\"method\":");
        put_json_or_null(p, ev->method);
        put(p, ",\"scheme\":");
        put_name(p, event_scheme_name((enum event_scheme)ev->scheme));
        put(p, ",\"domain\":");
        put_json_or_null(p, ev->domain);
        put(p, ",\"port\":");
        put_number(p, ev->port);
        put(p, ",\"path\":");
        put_json_or_null(p, ev->path);
        put(p, ",\"addr\":");

        if (ev->addr.family == ADDR_NONE)
                put(p, "null");
        else {
                char text[ADDR_TEXT_MAX];

                addr_text(&ev->addr, text);
                put_name(p, text);
        }

        put_verdict(p, ev, rule);
        put(p, ",\"status\":");
        put_number(p, ev->status);
        put(p, ",\"bytes_in\":");
        put_number(p, ev->bytes_in);
        put(p, ",\"bytes_out\":");
        put_number(p, ev->bytes_out);
        put(p, ",\"duration_ms\":");
        put_number(p, ev->duration_us / 1000);

        uint32_t us = (uint32_t)(ev->duration_us % 1000);
        const char fraction[] = { '.', (char)('0' + us / 100), (char)('0' + us / 10 % 10), (char)('0' + us % 10) };
        put_str(p, str_n(fraction, sizeof fraction));
        put(p, ",\"via\":");
        put_name(p, event_via_name((enum event_via)ev->via));
        put(p, ",\"swapped\":");
        put_names(p, ev->swapped);
        if (ev->act.n)
                put_act(p, ev->act);
        put(p, ",\"connection\":");
        put_number(p, ev->connection);
        put_count(p, ev);
}

/* What the tracer saw, or the classifier judged. */
static void put_access(struct put *p, const struct event *ev, const struct snapshot_rule *rule) {
        put(p, ",\"method\":");
        put_json_or_null(p, ev->method);
        put(p, ",\"path\":");
        put_json_or_null(p, ev->path);
        put_verdict(p, ev, rule);
        put_count(p, ev);
}

int audit_line_format(struct buf *out, struct audit_head *head, const struct event *ev,
                      const struct snapshot_rule *rule) {
        size_t texts = ev->domain.n + ev->method.n + ev->path.n + ev->swapped.n + ev->detail.n + 2 * ev->act.n;
        struct put p;

        put_begin(&p, out, texts + (rule ? 2 * rule->text.n + rule->origin.n : 0));
        put_time(&p, head, ev->wall_us);
        put(&p, "\",\"run_id\":");
        put_name(&p, head->run_id);
        put(&p, ",\"sandbox\":");
        put_name(&p, head->sandbox);
        put(&p, ",\"seq\":");
        put_number(&p, head->seq);
        put(&p, ",\"kind\":");
        put_name(&p, event_kind_name((enum event_kind)ev->kind));

        if (ev->kind == EVENT_FILE || ev->kind == EVENT_SYSCALL || ev->kind == EVENT_COMMAND ||
            ev->kind == EVENT_RATCHET)
                put_access(&p, ev, rule);
        else if (ev->kind != EVENT_NOTE)
                put_network(&p, ev, rule);

        if (ev->detail.n) {
                put(&p, ",\"detail\":");
                put_json(&p, ev->detail);
        }

        put(&p, ",\"prev\":");
        put_name(&p, head->prev);
        put(&p, "}");

        if (p.r == 0)
                out->n = (size_t)(p.at - out->p);

        return p.r;
}

/*
 * Reading: a scanner for flat objects of strings, numbers, booleans, null and arrays of strings. Strict: anything that
 * the writer never writes (spaces, nesting, duplicate fields, trailing bytes) is an error, since somebody else wrote
 * it.
 */
enum value_type { VALUE_STRING, VALUE_NUMBER, VALUE_BOOL, VALUE_NULL, VALUE_ARRAY };

/* Length of the string with its quotes, or 0. */
static size_t scan_string(struct str s) {
        if (s.n == 0 || s.p[0] != '"')
                return 0;

        for (size_t i = 1; i < s.n; i++) {
                unsigned char c = (unsigned char)s.p[i];
                if (c == '"')
                        return i + 1;
                if (c < 0x20)
                        return 0;

                if (c == '\\') {
                        char next = i + 1 < s.n ? s.p[i + 1] : 0;
                        size_t digits = next == 'u' ? 4 : 0;
                        if (!next || (!digits && !memchr("\"\\/bfnrt", next, 8)) || s.n - i < 2 + digits)
                                return 0;

                        for (size_t d = 0; d < digits; d++)
                                if (ascii_hex(s.p[i + 2 + d]) < 0)
                                        return 0;

                        i += 1 + digits;
                }
        }

        return 0;
}

static size_t scan_number(struct str s) {
        size_t n = 0, dots = 0;
        while (n < s.n && (ascii_is_digit(s.p[n]) || (s.p[n] == '.' && n > 0 && dots == 0)))
                dots += s.p[n++] == '.';
        if (n > 0 && s.p[n - 1] != '.')
                return n;

        return 0;
}

static size_t scan_array(struct str s) {
        if (s.n < 2 || s.p[0] != '[')
                return 0;

        size_t at = 1;
        if (s.p[at] == ']')
                return 2;

        for (;;) {
                size_t n = scan_string(str_skip(s, at));
                if (n == 0 || at + n >= s.n)
                        return 0;

                at += n;
                if (s.p[at] == ']')
                        return at + 1;
                if (s.p[at++] != ',')
                        return 0;
        }
}

static size_t scan_value(struct str s, enum value_type *ret_type) {
        static const struct {
                struct str text;
                enum value_type type;
        } words[] = { { { "true", 4 }, VALUE_BOOL }, { { "false", 5 }, VALUE_BOOL }, { { "null", 4 }, VALUE_NULL } };

        for (size_t i = 0; i < sizeof words / sizeof *words; i++)
                if (str_starts(s, words[i].text)) {
                        *ret_type = words[i].type;
                        return words[i].text.n;
                }

        if (s.n && s.p[0] == '"') {
                *ret_type = VALUE_STRING;
                return scan_string(s);
        }

        if (s.n && s.p[0] == '[') {
                *ret_type = VALUE_ARRAY;
                return scan_array(s);
        }

        *ret_type = VALUE_NUMBER;
        return scan_number(s);
}

enum field_form { FORM_TEXT, FORM_NUMBER, FORM_MILLISECONDS, FORM_BOOL, FORM_NAMES };

static const struct field {
        const char *key;
        enum field_form form;
        size_t offset;
        bool needed;
} fields[] = {
#define F(key, form, needed)                                                                                           \
        { #key, form, offsetof(struct audit_record, key), needed }
        F(ts, FORM_TEXT, true),
        F(run_id, FORM_TEXT, true),
        F(sandbox, FORM_TEXT, true),
        F(seq, FORM_NUMBER, true),
        F(kind, FORM_TEXT, true),
        F(method, FORM_TEXT, false),
        F(scheme, FORM_TEXT, false),
        F(domain, FORM_TEXT, false),
        F(port, FORM_NUMBER, false),
        F(path, FORM_TEXT, false),
        F(addr, FORM_TEXT, false),
        F(allowed, FORM_BOOL, false),
        F(rule, FORM_TEXT, false),
        F(origin, FORM_TEXT, false),
        F(reason, FORM_TEXT, false),
        F(status, FORM_NUMBER, false),
        F(bytes_in, FORM_NUMBER, false),
        F(bytes_out, FORM_NUMBER, false),
        { "duration_ms", FORM_MILLISECONDS, offsetof(struct audit_record, duration_us), false },
        F(via, FORM_TEXT, false),
        F(swapped, FORM_NAMES, false),
        F(connection, FORM_NUMBER, false),
        F(count, FORM_NUMBER, false),
        F(detail, FORM_TEXT, false),
        F(prev, FORM_TEXT, true),
#undef F
};
enum { FIELDS = sizeof fields / sizeof *fields };
static_assert(FIELDS <= 32, "one bit for each field");

static bool store_number(struct str value, enum field_form form, uint64_t *ret) {
        struct str whole = value, fraction = { 0 };
        ptrdiff_t dot = str_find(value, '.');
        if ((dot >= 0) != (form == FORM_MILLISECONDS))
                return false;

        if (dot >= 0) {
                whole = str_first(value, (size_t)dot);
                fraction = str_skip(value, (size_t)dot + 1);
        }

        uint64_t n, us = 0;
        if (!str_to_u64(whole, UINT64_MAX, &n) || (dot >= 0 && (fraction.n != 3 || !str_to_u64(fraction, 999, &us))))
                return false;

        *ret = form == FORM_MILLISECONDS ? n * 1000 + us : n;
        return true;
}

static bool store_value(const struct field *field, enum value_type type, struct str value, struct audit_record *ret) {
        void *at = (char *)ret + field->offset;

        switch (field->form) {
        case FORM_TEXT:
                if (type == VALUE_NULL)
                        return !field->needed;
                if (type == VALUE_STRING)
                        *(struct str *)at = str_n(value.p + 1, value.n - 2);

                return type == VALUE_STRING;
        case FORM_NAMES:
                if (type == VALUE_ARRAY)
                        *(struct str *)at = str_n(value.p + 1, value.n - 2);
                return type == VALUE_ARRAY;
        case FORM_NUMBER:
        case FORM_MILLISECONDS:
                return type == VALUE_NUMBER && store_number(value, field->form, at);
        case FORM_BOOL:
                *(bool *)at = value.p[0] == 't';
                ret->has_allowed = true;

                return type == VALUE_BOOL;
        }

        return false;
}

/* Takes `"key":value` off the front. */
static int take_field(struct str *rest, struct str *ret_key, struct str *ret_value, enum value_type *ret_type) {
        size_t key = scan_string(*rest);
        if (key < 3 || key >= rest->n || rest->p[key] != ':')
                return -EBADMSG;

        struct str after = str_skip(*rest, key + 1);
        size_t value = scan_value(after, ret_type);
        if (value == 0)
                return -EBADMSG;

        *ret_key = str_n(rest->p + 1, key - 2);
        *ret_value = str_first(after, value);
        *rest = str_skip(after, value);

        return 0;
}

int audit_line_parse(struct str line, struct audit_record *ret, struct err *err) {
        struct audit_record record = { 0 };
        uint32_t seen = 0;

        if (line.n < 2 || line.p[0] != '{' || line.p[line.n - 1] != '}')
                return err_set(err, EBADMSG, "the line is not a JSON object");

        struct str rest = str_n(line.p + 1, line.n - 2), key, value;

        for (;;) {
                enum value_type type;

                if (take_field(&rest, &key, &value, &type) < 0)
                        return err_set(err, EBADMSG, "malformed at byte %zu", (size_t)(rest.p - line.p) + 1);

                for (size_t i = 0; i < FIELDS; i++) {
                        if (!str_is(key, fields[i].key))
                                continue;
                        if (seen & 1U << i)
                                return err_set(err, EBADMSG, "the field \"%s\" is there twice", fields[i].key);

                        seen |= 1U << i;

                        if (!store_value(&fields[i], type, value, &record))
                                return err_set(err, EBADMSG, "the field \"%s\" has a value of another form",
                                               fields[i].key);
                }

                if (rest.n == 0)
                        break;
                if (rest.p[0] != ',')
                        return err_set(err, EBADMSG, "malformed at byte %zu", (size_t)(rest.p - line.p) + 1);

                rest = str_skip(rest, 1);
        }

        for (size_t i = 0; i < FIELDS; i++)
                if (fields[i].needed && !(seen & 1U << i))
                        return err_set(err, EBADMSG, "the field \"%s\" is missing", fields[i].key);

        if (record.prev.n != 2 * DIGEST_BYTES)
                return err_set(err, EBADMSG, "\"prev\" is not a SHA-256 digest");

        *ret = record;
        return 0;
}

static int append_utf8(struct buf *out, uint32_t c) {
        char b[4];

        if (c < 0x80)
                return buf_add_char(out, (char)c);

        if (c < 0x800) {
                b[0] = (char)(0xc0 | c >> 6);
                b[1] = (char)(0x80 | (c & 0x3f));
                return buf_append(out, str_n(b, 2));
        }

        b[0] = (char)(0xe0 | c >> 12);
        b[1] = (char)(0x80 | (c >> 6 & 0x3f));
        b[2] = (char)(0x80 | (c & 0x3f));

        return buf_append(out, str_n(b, 3));
}

int audit_unescape(struct buf *out, struct str s) {
        static const char letters[] = "bfnrt", meanings[] = "\b\f\n\r\t";
        int r = 0;
        while (r == 0 && s.n > 0) {
                const char *backslash = memchr(s.p, '\\', s.n);
                size_t plain = backslash ? (size_t)(backslash - s.p) : s.n;

                r = buf_append(out, str_first(s, plain));
                s = str_skip(s, plain);
                if (s.n < 2 || r < 0)
                        return r;

                if (s.p[1] == 'u' && s.n >= 6) {
                        uint32_t c = 0;

                        for (size_t i = 2; i < 6; i++)
                                c = c << 4 | (uint32_t)(ascii_hex(s.p[i]) & 15);

                        r = append_utf8(out, c);
                        s = str_skip(s, 6);
                        continue;
                }

                const char *letter = memchr(letters, s.p[1], sizeof letters - 1);
                r = buf_add_char(out, letter ? meanings[letter - letters] : s.p[1]);
                s = str_skip(s, 2);
        }

        return r;
}

bool audit_time(struct str ts, uint64_t *ret_us) {
        uint64_t seconds_us, us;

        if (ts.n != CLOCK_TEXT_MAX - 1 || !clock_parse_text(ts, &seconds_us))
                return false;
        if (!str_to_u64(str_n(ts.p + 20, 6), 999999, &us))
                return false;

        *ret_us = seconds_us + us;
        return true;
}
