/* SPDX-License-Identifier: Apache-2.0 */
#include "conf/option.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "conf/suggest.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

/*
 * Values are text until somebody needs the number: the text is what a person wrote and what is shown back. A row's
 * check runs once, when the value is set; readers convert text that is known to be good.
 */

const char *option_name(const struct option *option) {
        if (option->flag)
                return option->flag;

        if (option->key)
                return option->key;

        if (option->env)
                return option->env;

        return "";
}

static const struct {
        const char *text;
        bool value;
} booleans[] = { { "true", true }, { "false", false }, { "yes", true }, { "no", false },
                 { "on", true },   { "off", false },   { "1", true },   { "0", false } };

static bool parse_flag(struct str s, uint64_t *ret) {
        for (size_t i = 0; i < sizeof booleans / sizeof booleans[0]; i++)
                if (str_is(s, booleans[i].text)) {
                        *ret = booleans[i].value;
                        return true;
                }
        return false;
}

static const struct {
        const char *suffix;
        uint64_t bytes;
} size_units[] = {
        { "", 1 },
        { "B", 1 },
        { "K", 1 << 10 },
        { "KiB", 1 << 10 },
        { "KB", 1000 },
        { "M", 1 << 20 },
        { "MiB", 1 << 20 },
        { "MB", 1000000 },
        { "G", 1 << 30 },
        { "GiB", 1 << 30 },
        { "GB", 1000000000 },
        { "T", 1ULL << 40 },
        { "TiB", 1ULL << 40 },
        { "TB", 1000000000000 },
};

static bool parse_size(struct str s, uint64_t *ret) {
        size_t digits = 0;
        while (digits < s.n && ascii_is_digit(s.p[digits]))
                digits++;

        struct str suffix = str_trim(str_skip(s, digits));

        for (size_t i = 0; i < sizeof size_units / sizeof size_units[0]; i++) {
                uint64_t number;

                if (!str_eq_nocase(suffix, str_of(size_units[i].suffix)))
                        continue;
                if (!str_to_u64(str_first(s, digits), INT64_MAX / size_units[i].bytes, &number))
                        return false;

                *ret = number * size_units[i].bytes;
                return true;
        }

        return false;
}

static bool parse_choice(const struct option *option, struct str s, uint64_t *ret) {
        for (uint64_t i = 0; option->choices[i]; i++)
                if (str_is(s, option->choices[i])) {
                        *ret = i;
                        return true;
                }
        return false;
}

static bool parse_number(const struct option *option, struct str text, uint64_t *ret) {
        switch (option->type) {
        case OPTION_FLAG:
                return parse_flag(text, ret);
        case OPTION_INTEGER:
                return str_to_u64(text, INT64_MAX, ret);
        case OPTION_SIZE:
                return parse_size(text, ret);
        case OPTION_DURATION:
                return clock_parse_duration(text, ret) && *ret <= INT64_MAX;
        case OPTION_CHOICE:
                return parse_choice(option, text, ret);
        default:
                return false;
        }
}

/* Describes the accepted values in the error for a bad one. */
static const char *const expected[] = {
        [OPTION_FLAG] = "true or false",
        [OPTION_STRING] = "text",
        [OPTION_INTEGER] = "a whole number",
        [OPTION_SIZE] = "a size such as 512MiB, 2GiB or a number of bytes",
        [OPTION_DURATION] = "a duration such as 500ms, 10s, 5m or 2h",
        [OPTION_CHOICE] = "a choice",
        [OPTION_PATH] = "a path",
        [OPTION_LIST] = "text",
        [OPTION_PATHS] = "a path",
        [OPTION_MAP] = "NAME=VALUE",
};
static_assert(sizeof expected / sizeof expected[0] == OPTION_TYPES, "every type says what it accepts");

static int refuse_choice(const struct option *option, struct str text, struct err *err) {
        struct suggestion suggestion = suggest_for(text);
        cleanup(buf_done) struct buf all = BUF(512);

        for (size_t i = 0; option->choices[i]; i++) {
                suggest_offer(&suggestion, option->choices[i]);
                buf_printf(&all, "%s%s", i ? ", " : "", option->choices[i]);
        }

        return err_set(err, EINVAL, "%s is not one of %.*s%s", show(text).text, STR_FMT(buf_str(&all)),
                       suggest_text(&suggestion, "").text);
}

static void bound_text(const struct option *option, int64_t value, char ret[static 24]) {
        if (option->type == OPTION_DURATION)
                clock_duration_text((uint64_t)value, ret);
        else
                snprintf(ret, 24, "%" PRId64, value);
}

static int check_number(const struct option *option, struct str text, struct err *err) {
        uint64_t number;

        if (!parse_number(option, text, &number))
                return err_set(err, EINVAL, "%s is not %s", show(text).text, expected[option->type]);

        bool bounded = option->min != 0 || option->max != 0;
        if (!bounded || ((int64_t)number >= option->min && (int64_t)number <= option->max))
                return 0;

        char low[24], high[24];
        bound_text(option, option->min, low);
        bound_text(option, option->max, high);

        return err_set(err, ERANGE, "%s is out of range: %s to %s", show(text).text, low, high);
}

static int check_map_entry(struct str text, struct err *err) {
        ptrdiff_t at = str_find(text, '=');
        if (at <= 0)
                return err_set(err, EINVAL, "%s is not NAME=VALUE", show(text).text);
        return 0;
}

int option_check(const struct option *option, struct str text, struct err *err) {
        uint64_t place;

        if (str_has_nul(text))
                return err_set(err, EINVAL, "%s contains a NUL byte", show(text).text);
        if (text.n == 0 && option->type != OPTION_STRING)
                return err_set(err, EINVAL, "a value is missing: %s is expected", expected[option->type]);

        switch (option->type) {
        case OPTION_CHOICE:
                return parse_choice(option, text, &place) ? 0 : refuse_choice(option, text, err);
        case OPTION_FLAG:
        case OPTION_INTEGER:
        case OPTION_SIZE:
        case OPTION_DURATION:
                return check_number(option, text, err);
        case OPTION_MAP:
                return check_map_entry(text, err);
        default:
                return 0;
        }
}

uint64_t option_number(const struct option *option, struct str text) {
        uint64_t number;
        if (parse_number(option, text, &number))
                return number;

        return 0;
}

void option_values_done(struct option_values *values) {
        for (size_t i = 0; i < values->values.n; i++) {
                free(values->values.p[i].text);
                free(values->values.p[i].origin);
        }
        vec_done(&values->values);
}

int option_set(struct option_values *values, const struct option *option, struct str text, const char *origin,
               struct err *err) {
        int r = option_check(option, text, err);
        if (r < 0)
                return err_wrap(err, r, "%s", origin);

        struct option_value value = { .option = option, .text = str_dup(text), .origin = str_dup(str_of(origin)) };
        if (!value.text || !value.origin || vec_push(&values->values, value) < 0) {
                free(value.text);
                free(value.origin);
                return err_memory(err);
        }

        return 0;
}

const struct option_value *option_next(const struct option_values *values, const struct option *option,
                                       size_t *cursor) {
        while (*cursor < values->values.n) {
                const struct option_value *value = &values->values.p[(*cursor)++];
                if (value->option == option)
                        return value;
        }
        return NULL;
}

const char *option_get(const struct option_values *values, const struct option *option) {
        for (size_t i = values->values.n; i-- > 0;)
                if (values->values.p[i].option == option)
                        return values->values.p[i].text;
        return option->fallback;
}

bool option_get_flag(const struct option_values *values, const struct option *option) {
        return option_get_number(values, option) != 0;
}

uint64_t option_get_number(const struct option_values *values, const struct option *option) {
        const char *text = option_get(values, option);
        if (text)
                return option_number(option, str_of(text));

        return 0;
}

bool option_given(const struct option_values *values, const struct option *option) {
        size_t i = 0;
        return option_next(values, option, &i) != NULL;
}

static bool row_is(const struct option *option, struct str name) {
        return (option->flag && str_is(name, option->flag)) || (option->key && str_is(name, option->key)) ||
               (option->env && str_is(name, option->env));
}

const struct option *option_find(const struct option_table *const *tables, size_t n_tables, struct str name) {
        for (size_t t = 0; t < n_tables; t++)
                for (size_t i = 0; i < tables[t]->n; i++)
                        if (row_is(&tables[t]->rows[i], name))
                                return &tables[t]->rows[i];
        return NULL;
}
