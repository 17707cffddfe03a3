/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/show.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/emit.h"
#include "base/escape.h"
#include "policy/apply.h"
#include "policy/expand.h"
#include "policy/keys.h"
#include "policy/show_mappings.h"

#include <errno.h>
#include <inttypes.h>

enum { ORIGIN_COLUMN = 56 };

struct shower {
        struct buf *out;
        const struct policy *policy;
        unsigned flags;
        int status; /* the first failure */
};

static void show_put(struct shower *shower, const char *text) {
        if (shower->status == 0)
                shower->status = buf_add(shower->out, text);
}

/* --- values that are the same for both forms --- */

static bool named_like_a_secret(struct str name) {
        static const char *const ends[] = { "TOKEN", "SECRET", "PASSWORD", "PASSWD", "KEY", "CREDENTIALS" };
        for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
                if (name.n >= strlen(ends[i]) &&
                    str_eq_nocase(str_skip(name, name.n - strlen(ends[i])), str_of(ends[i])))
                        return true;
        return false;
}

/* Hides what must not be on a screen. Heap text, NULL when out of memory. */
static char *shown_value(enum policy_row row, const char *text) {
        struct str s = str_of(text);
        ptrdiff_t at = str_rfind(s, '@'), slashes = str_find(s, '/'), equals = str_find(s, '=');
        if (row == ROW_UPSTREAM_PROXY && at >= 0 && slashes >= 0 && slashes + 2 <= at)
                return str_format("%.*s***%s", (int)slashes + 2, text, text + at);
        if (row == ROW_ENV && equals >= 0 && named_like_a_secret(str_first(s, (size_t)equals)))
                return str_format("%.*s=***", (int)equals, text);
        return str_dup(s);
}

static const char *origin_of(const struct policy *policy, enum policy_row row) {
        return text_or(policy->origins[row], "default");
}

/* Calls back for each entry of a list row, ports and files among them. */
typedef void entry_function(struct shower *s, const char *text, const char *origin, const char *reason);

/* As the option takes it. NULL when out of memory. */
static char *port_text(const struct port_map *map, bool publish) {
        if (!publish)
                return str_format("%u", map->inside);
        if (!map->addr)
                return str_format("%u:%u", map->outside, map->inside);
        if (strchr(map->addr, ':'))
                return str_format("[%s]:%u:%u", map->addr, map->outside, map->inside);

        return str_format("%s:%u:%u", map->addr, map->outside, map->inside);
}

static void each_port(struct shower *shower, enum policy_row row, entry_function *each) {
        bool publish = row == ROW_PUBLISH;
        size_t n = publish ? shower->policy->network.publish.n : shower->policy->network.host_ports.n;
        for (size_t i = 0; i < n; i++) {
                const struct port_map *map =
                    publish ? &shower->policy->network.publish.p[i] : &shower->policy->network.host_ports.p[i];
                cleanup(free_ptr) char *text = port_text(map, publish);
                if (text)
                        each(shower, text, map->origin, NULL);
                else
                        shower->status = -ENOMEM;
        }
}

static void each_file(struct shower *shower, enum policy_row row, entry_function *each) {
        bool allow = row == ROW_ALLOW_FILE;
        size_t n = allow ? shower->policy->network.allow_files.n : shower->policy->network.deny_files.n;
        for (size_t i = 0; i < n; i++) {
                const struct pattern_file *file =
                    allow ? &shower->policy->network.allow_files.p[i] : &shower->policy->network.deny_files.p[i];
                each(shower, file->path, file->origin, NULL);
        }
}

struct expanded {
        struct shower *shower;
        entry_function *f;
        const char *reason;
};

static int on_expanded(void *context, struct str pattern, struct str origin, struct err *err) {
        struct expanded *expanded = context;
        (void)err;
        cleanup(free_ptr) char *text = str_dup(pattern), *from = str_dup(origin);
        if (!text || !from)
                return -ENOMEM;
        expanded->f(expanded->shower, text, from, expanded->reason);
        return 0;
}

static void each_entry(struct shower *shower, enum policy_row row, entry_function *each) {
        const origin_texts *list = policy_row_list(shower->policy, row);

        if (row == ROW_PUBLISH || row == ROW_HOST_PORT)
                each_port(shower, row, each);
        else if (row == ROW_ALLOW_FILE || row == ROW_DENY_FILE)
                each_file(shower, row, each);

        for (size_t i = 0; list && shower->status == 0 && i < list->n; i++) {
                struct expanded expanded = { .shower = shower, .f = each, .reason = list->p[i].reason };
                cleanup(free_ptr) char *text = shown_value(row, list->p[i].text);
                if (!text)
                        shower->status = -ENOMEM;
                else if ((shower->flags & POLICY_SHOW_EXPAND) && (row == ROW_ALLOW || row == ROW_DENY))
                        shower->status =
                            expand_entry(shower->policy, &list->p[i], row == ROW_ALLOW, on_expanded, &expanded, NULL);
                else
                        each(shower, text, list->p[i].origin, list->p[i].reason);
        }
}

/* --- text --- */

static void put_indent(struct shower *shower, unsigned depth) {
        while (depth-- > 0)
                show_put(shower, "  ");
}

/* Plain where YAML takes it for text, else in double quotes, whose escapes are those of JSON. */
static void put_scalar(struct shower *shower, const char *text) {
        bool plain = *text && (ascii_is_alnum(*text) || *text == '/');
        for (const char *c = text; *c && plain; c++)
                plain = ascii_is_alnum(*c) || strchr("-_./", *c);
        if (plain)
                show_put(shower, text);
        else if (shower->status == 0)
                shower->status = escape_json(shower->out, str_of(text));
}

/* The comment at the end of a line that began at `start`. */
static void put_origin(struct shower *shower, size_t start, const char *origin) {
        show_put(shower, " ");
        while (shower->status == 0 && shower->out->n - start < ORIGIN_COLUMN)
                show_put(shower, " ");
        show_put(shower, "# ");
        if (shower->status == 0)
                shower->status = escape_text(shower->out, str_of(origin), 256);
        show_put(shower, "\n");
}

static void put_list_entry(struct shower *shower, const char *text, const char *origin, const char *reason) {
        size_t start = shower->out->n;

        show_put(shower, reason ? "      - { host: " : "      - ");
        put_scalar(shower, text);

        if (reason) {
                show_put(shower, ", reason: ");
                if (shower->status == 0)
                        shower->status = escape_json(shower->out, str_of(reason));
                show_put(shower, " }");
        }

        put_origin(shower, start, origin);
}

static void put_map_entry(struct shower *shower, const char *text, const char *origin, const char *reason) {
        (void)reason;
        size_t start = shower->out->n;
        const char *equals = strchr(text, '=');
        show_put(shower, "      ");

        if (shower->status == 0)
                shower->status = buf_printf(shower->out, "%.*s: ", (int)(equals ? equals - text : 0), text);

        put_scalar(shower, equals ? equals + 1 : "");
        put_origin(shower, start, origin);
}

static bool has_entries(const struct shower *shower, enum policy_row row);

static void put_row(struct shower *shower, enum policy_row row, struct str name, unsigned depth) {
        const struct option *o = &policy_rows[row];
        size_t start = shower->out->n;

        put_indent(shower, depth);
        if (shower->status == 0)
                shower->status = buf_printf(shower->out, "%.*s:", STR_FMT(name));

        if (option_repeats(o)) {
                if (has_entries(shower, row))
                        show_put(shower, "\n");
                else
                        show_put(shower, o->type == OPTION_MAP ? " {}\n" : " []\n");

                each_entry(shower, row, o->type == OPTION_MAP ? put_map_entry : put_list_entry);
                return;
        }

        cleanup(free_ptr) char *text = NULL;
        int r = policy_row_text(shower->policy, row, &text);
        if (r < 0 || !text) {
                if (r < 0)
                        shower->status = r;
                return;
        }

        cleanup(free_ptr) char *shown = shown_value(row, text);
        show_put(shower, " ");
        put_scalar(shower, text_or(shown, ""));
        put_origin(shower, start, origin_of(shower->policy, row));
}

static void put_field(struct shower *shower, const struct record_field *field, const void *record) {
        const void *place = (const char *)record + field->offset;
        const origin_texts *list = place;
        char duration[24];

        switch (field->kind) {
        case FIELD_TEXT:
                put_scalar(shower, *(char *const *)place);
                return;
        case FIELD_BOOL:
                show_put(shower, *(const bool *)place ? "true" : "false");
                return;
        case FIELD_SWITCH:
                show_put(shower, *(const uint8_t *)place == SWITCH_ON ? "true" : "false");

                return;
        case FIELD_U64:
                clock_duration_text(*(const uint64_t *)place, duration);
                show_put(shower, duration);
                return;
        case FIELD_U32:
                if (shower->status == 0)
                        shower->status = buf_printf(shower->out, "%" PRIu32, *(const uint32_t *)place);

                return;
        case FIELD_TEXTS:
                show_put(shower, "[");

                for (size_t i = 0; i < list->n; i++) {
                        show_put(shower, i ? ", " : "");
                        put_scalar(shower, list->p[i].text);
                }

                show_put(shower, "]");
        }
}

static bool field_is_set(const struct record_field *field, const void *record) {
        const void *place = (const char *)record + field->offset;
        if (field->kind == FIELD_TEXT)
                return *(char *const *)place != NULL;

        if (field->kind == FIELD_TEXTS)
                return ((const origin_texts *)place)->n > 0;

        if (field->kind == FIELD_U64)
                return *(const uint64_t *)place != 0;

        if (field->kind == FIELD_SWITCH)
                return *(const uint8_t *)place != SWITCH_UNSET;

        return true;
}

/* "graphql" of "graphql.query"; empty: the field stands by itself. */
static struct str field_section(const struct record_field *field) {
        ptrdiff_t dot = str_find(str_of(field->option.key), '.');
        return str_first(str_of(field->option.key), dot < 0 ? 0 : (size_t)dot);
}

static void put_record(struct shower *shower, const struct record *record, const void *r, unsigned depth) {
        size_t start = shower->out->n;

        put_indent(shower, depth);
        show_put(shower, record->named ? *(char *const *)((const char *)r + record->name_offset) : "-");
        show_put(shower, record->named ? ": {" : " {");

        struct str open = { 0 }; /* the mapping that was begun */
        bool first = true;

        for (size_t i = 0; i < record->n_fields; i++) {
                const struct record_field *field = &record->fields[i];
                struct str section = field_section(field);

                if (!field_is_set(field, r))
                        continue;
                if (open.n > 0 && !str_eq(open, section))
                        show_put(shower, " }");

                show_put(shower, first ? " " : ", ");
                if (section.n > 0 && !str_eq(open, section) && shower->status == 0)
                        shower->status = buf_printf(shower->out, "%.*s: { ", STR_FMT(section));

                open = section;
                show_put(shower, field->option.key + (section.n ? section.n + 1 : 0));
                show_put(shower, ": ");
                put_field(shower, field, r);
                first = false;
        }

        show_put(shower, open.n > 0 ? " } }" : " }");
        put_origin(shower, start, *(char *const *)((const char *)r + record->origin_offset));
}

static void count_entry(struct shower *shower, const char *text, const char *origin, const char *reason) {
        (void)reason;
        (void)text;
        (void)origin;
        shower->flags = 1;
}

static bool has_entries(const struct shower *shower, enum policy_row row) {
        struct shower counter = { .policy = shower->policy };
        each_entry(&counter, row, count_entry);
        return counter.flags != 0;
}

/* Is there something to say about this key? */
static bool key_has_value(const struct shower *shower, size_t key) {
        bool all = shower->flags & POLICY_SHOW_DEFAULTS;

        if (!key_at(key))
                return false;
        if (key >= POLICY_ROWS)
                return record_count(shower->policy, &policy_records[key - POLICY_ROWS]) > 0;

        enum policy_row row = (enum policy_row)key;
        if (row == ROW_DENY_CIDRS && shower->policy->network.deny_cidrs_set)
                return true;
        if (option_repeats(&policy_rows[row]))
                return has_entries(shower, row);

        cleanup(free_ptr) char *text = NULL;
        return policy_row_text(shower->policy, row, &text) == 0 && text &&
               (all || shower->policy->origins[row] || row == ROW_MODE);
}

static bool section_has_value(const struct shower *shower, struct str prefix) {
        for (size_t i = 0; i < POLICY_KEYS; i++)
                if (key_component(key_at(i), prefix).n > 0 && key_has_value(shower, i))
                        return true;
        return false;
}

/* The first key with this component at this level: the others of a section come with it. */
static bool is_first(size_t key, struct str prefix, struct str part) {
        for (size_t i = 0; i < key; i++)
                if (str_eq(key_component(key_at(i), prefix), part))
                        return false;
        return true;
}

static void put_section(struct shower *shower, struct str prefix, unsigned depth) {
        for (size_t i = 0; i < POLICY_KEYS && shower->status == 0; i++) {
                struct str part = key_component(key_at(i), prefix);
                if (part.n == 0 || !is_first(i, prefix, part))
                        continue;

                bool leaf = prefix.n + part.n == strlen(key_at(i));
                if (!leaf) {
                        struct str below = str_n(key_at(i), prefix.n + part.n + 1);
                        if (!section_has_value(shower, below))
                                continue;

                        put_indent(shower, depth);
                        shower->status =
                            shower->status ? shower->status : buf_printf(shower->out, "%.*s:\n", STR_FMT(part));
                        put_section(shower, below, depth + 1);
                } else if (key_has_value(shower, i) && i < POLICY_ROWS) {
                        put_row(shower, (enum policy_row)i, part, depth);
                } else if (key_has_value(shower, i)) {
                        const struct record *record = &policy_records[i - POLICY_ROWS];

                        put_indent(shower, depth);
                        shower->status =
                            shower->status ? shower->status : buf_printf(shower->out, "%.*s:\n", STR_FMT(part));
                        for (size_t k = 0; k < record_count(shower->policy, record); k++)
                                put_record(shower, record, record_at(shower->policy, record, k), depth + 1);
                }
        }
}

int policy_show_text(struct buf *out, const struct policy *policy, unsigned flags) {
        struct shower shower = { .out = out, .policy = policy, .flags = flags };
        show_put(&shower, "# workspace: ");
        if (shower.status == 0)
                shower.status = escape_text(out, str_of(policy->workspace), 4096);
        show_put(&shower, "\n");
        put_section(&shower, STR(""), 0);
        if (shower.status < 0)
                return shower.status;

        return show_mappings_text(out, policy);
}

/* --- JSON --- */

struct json_shower {
        struct shower shower; /* first: entry functions get a pointer to it */
        struct emit json;
};

static void emit_entry(struct shower *shower, const char *text, const char *origin, const char *reason) {
        struct emit *j = &((struct json_shower *)shower)->json;
        emit_open(j, '{');
        emit_put_text(j, "value", text);
        emit_put_text(j, "origin", origin);
        if (reason)
                emit_put_text(j, "reason", reason);
        emit_close(j);
}

static void emit_row(struct json_shower *shower, enum policy_row row) {
        const struct option *o = &policy_rows[row];
        struct emit *j = &shower->json;

        emit_key(j, o->key);

        if (option_repeats(o)) {
                emit_open(j, '[');
                each_entry(&shower->shower, row, emit_entry);
                emit_close(j);
                return;
        }

        cleanup(free_ptr) char *text = NULL;
        int r = policy_row_text(shower->shower.policy, row, &text);
        cleanup(free_ptr) char *shown = text ? shown_value(row, text) : NULL;
        if (r < 0 || (text && !shown))
                shower->shower.status = -ENOMEM;

        emit_entry(&shower->shower, shown, text ? origin_of(shower->shower.policy, row) : NULL, NULL);
}

static void emit_field(struct emit *json, const struct record_field *field, const void *record) {
        const void *place = (const char *)record + field->offset;
        const origin_texts *list = place;

        emit_key(json, field->option.key);

        switch (field->kind) {
        case FIELD_TEXT:
                emit_text(json, *(char *const *)place);
                return;
        case FIELD_BOOL:
                emit_bool(json, *(const bool *)place);
                return;
        case FIELD_SWITCH:
                if (*(const uint8_t *)place == SWITCH_UNSET)
                        emit_text(json, NULL);
                else
                        emit_bool(json, *(const uint8_t *)place == SWITCH_ON);

                return;
        case FIELD_U32:
                emit_number(json, *(const uint32_t *)place);
                return;
        case FIELD_U64: /* durations: in milliseconds, since JSON numbers are not exact beyond 2^53 */
                emit_number(json, *(const uint64_t *)place / NS_PER_MS);

                return;
        case FIELD_TEXTS:
                emit_open(json, '[');
                for (size_t i = 0; i < list->n; i++)
                        emit_text(json, list->p[i].text);

                emit_close(json);
        }
}

static void emit_records(struct json_shower *shower, const struct record *record) {
        struct emit *j = &shower->json;

        emit_key(j, record->key);
        emit_open(j, '[');

        for (size_t k = 0; k < record_count(shower->shower.policy, record); k++) {
                const char *r = record_at(shower->shower.policy, record, k);

                emit_open(j, '{');
                if (record->named)
                        emit_put_text(j, "name", *(char *const *)(r + record->name_offset));

                for (size_t i = 0; i < record->n_fields; i++)
                        emit_field(j, &record->fields[i], r);

                emit_put_text(j, "origin", *(char *const *)(r + record->origin_offset));
                emit_close(j);
        }

        emit_close(j);
}

int policy_show_json(struct buf *out, const struct policy *policy, unsigned flags) {
        struct json_shower shower = { .shower = { .out = out, .policy = policy, .flags = flags },
                                      .json = emit_to(out) };

        emit_open(&shower.json, '{');
        emit_put_text(&shower.json, "workspace", policy->workspace);

        for (unsigned row = 0; row < POLICY_ROWS; row++)
                if (policy_rows[row].key)
                        emit_row(&shower, (enum policy_row)row);

        for (size_t i = 0; i < POLICY_RECORDS; i++)
                emit_records(&shower, &policy_records[i]);

        show_mappings_json(&shower.json, policy);
        emit_close(&shower.json);

        if (shower.shower.status < 0)
                return shower.shower.status;

        return emit_status(&shower.json);
}
