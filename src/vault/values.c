/* SPDX-License-Identifier: Apache-2.0 */
#include "vault/values.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "policy/match/pattern.h"
#include "vault/aws.h"
#include "vault/form.h"
#include "vault/source.h"
#include "vault/stand_in.h"

#include <errno.h>

enum { HTTPS = 443 };

struct value {
        struct secret *text; /* NULL: none */
        struct aws aws;      /* sigv4: parts of the text */
        char *stand_ins[PARTS];
        bool seeded[1 + VAULT_OLD_MAX];
        uint8_t seeds[1 + VAULT_OLD_MAX][VAULT_DIGEST_BYTES];
        struct pattern *hosts;
};

struct values {
        const struct vault_mapping *mappings;
        size_t n;
        struct value *list;
        struct vault_page *page;
        int page_fd;
        uint64_t last_serial;
};

void values_free(struct values *values) {
        if (!values)
                return;

        for (size_t i = 0; values->list && i < values->n; i++) {
                secret_free(values->list[i].text);
                for (size_t k = 0; k < PARTS; k++)
                        free(values->list[i].stand_ins[k]);
                free(values->list[i].hosts);
        }

        free(values->list);
        vault_page_close(values->page);
        close_fd(&values->page_fd);
        free(values);
}

static void values_freep(struct values **values) {
        values_free(*values);
}

static int parse_hosts(struct value *value, const struct vault_mapping *mapping, struct err *err) {
        value->hosts = calloc(mapping->n_hosts, sizeof *value->hosts);
        if (!value->hosts)
                return err_set(err, ENOMEM, "no memory for the credentials");

        for (uint32_t i = 0; i < mapping->n_hosts; i++) {
                struct pattern *pattern = &value->hosts[i];
                int r = pattern_parse(str_of(mapping->hosts[i]), pattern, err);
                if (r < 0)
                        return r;
                if (!pattern->has_port)
                        pattern->port_first = pattern->port_last = HTTPS;
        }

        return 0;
}

int values_new(const struct vault_mapping *mappings, size_t n, struct values **ret, struct err *err) {
        cleanup(values_freep) struct values *v = calloc(1, sizeof *v);
        if (!v)
                return err_set(err, ENOMEM, "no memory for the credentials");

        *v = (struct values){ .mappings = mappings, .n = n, .page_fd = -1 };
        v->list = calloc(n ? n : 1, sizeof *v->list);
        if (!v->list)
                return err_set(err, ENOMEM, "no memory for the credentials");

        /* Not the numbers of a vault before this one. */
        v->last_serial = clock_wall_us();
        int r = vault_page_new(n, &v->page, &v->page_fd, err);
        for (size_t i = 0; r == 0 && i < n; i++)
                r = parse_hosts(&v->list[i], &mappings[i], err);

        if (r == 0)
                *ret = take_ptr(&v);

        return r;
}

int values_page(const struct values *values) {
        return values->page_fd;
}

bool values_has(const struct values *values, uint32_t mapping) {
        return values->list[mapping].text != NULL;
}

bool values_has_all(const struct values *values, uint32_t *ret_missing) {
        for (uint32_t i = 0; i < values->n; i++)
                if (!values_has(values, i) && !values->mappings[i].optional) {
                        *ret_missing = i;
                        return false;
                }
        return true;
}

uint64_t values_serial(const struct values *values, uint32_t mapping) {
        return atomic_load(&values->page->serials[mapping]);
}

static struct str part_of(const struct value *value, enum vault_part part) {
        switch (part) {
        case PART_KEY_ID:
                return value->aws.key_id;
        case PART_SECRET_KEY:
                return value->aws.secret_key;
        case PART_SESSION_TOKEN:
                return value->aws.session_token;
        default:
                return value->aws.key_id.n == 0 && value->text ? secret_value(value->text) : STR("");
        }
}

/* A new value that is the stand-in itself, or is inside it, would make the stand-in a secret. */
static int check_stand_ins(const struct value *value, const struct vault_mapping *mapping, struct err *err) {
        for (int part = 0; part < PARTS; part++) {
                const char *stand_in = value->stand_ins[part];
                struct str real = part_of(value, (enum vault_part)part);
                if (stand_in && real.n > 0 && !stand_in_is_apart(str_of(stand_in), real, str_of(mapping->prefix)))
                        return err_set(err, EINVAL, "it is the stand-in that the sandbox was given");
        }
        return 0;
}

int values_set(struct values *values, uint32_t mapping, struct str value, enum value_change *ret, struct err *err) {
        struct value *old = &values->list[mapping];
        const struct vault_mapping *vault_mapping = &values->mappings[mapping];
        int r = source_check(vault_mapping, value, err);
        if (r < 0)
                return r;

        *ret = VALUE_SAME;
        if (old->text && secret_equal(secret_value(old->text), value))
                return 0;

        struct value new = *old;
        r = secret_new(value, &new.text, err);
        if (r < 0)
                return r;
        if (vault_mapping->kind == MAPPING_SIGV4)
                r = aws_parse(secret_value(new.text), &new.aws, err);

        if (r >= 0)
                r = check_stand_ins(&new, vault_mapping, err);
        if (r < 0) {
                secret_free(new.text);
                return r;
        }

        secret_free(old->text);
        *old = new;
        atomic_store(&values->page->serials[mapping], ++values->last_serial);
        *ret = VALUE_CHANGED;

        return 0;
}

bool values_drop(struct values *values, uint32_t mapping) {
        struct value *value = &values->list[mapping];
        if (!value->text)
                return false;

        atomic_store(&values->page->serials[mapping], 0);
        secret_free(value->text);
        value->text = NULL;
        value->aws = (struct aws){ 0 };

        return true;
}

/* stand-ins */

int values_keep_stand_in(struct values *values, uint32_t mapping, enum vault_part part, struct str text,
                         struct err *err) {
        bool sigv4 = values->mappings[mapping].kind == MAPPING_SIGV4;
        if (sigv4 == (part == PART_VALUE))
                return err_set(err, EINVAL, "credential '%s' has no such part", values->mappings[mapping].name);

        char *copy = str_dup(text);
        if (!copy)
                return err_set(err, ENOMEM, "no memory for a stand-in");

        free(values->list[mapping].stand_ins[part]);
        values->list[mapping].stand_ins[part] = copy;

        return 0;
}

void values_seed(struct values *values, uint32_t mapping, size_t ago, const uint8_t seed[static VAULT_DIGEST_BYTES]) {
        struct value *value = &values->list[mapping];

        value->seeded[ago] = true;
        memcpy(value->seeds[ago], seed, VAULT_DIGEST_BYTES);
}

/* One of the form that the mapping asks for, or of its value's; *ret stays NULL where there is nothing to stand for. */
static int shape_stand_in(const struct values *values, uint32_t mapping, enum vault_part part,
                          struct stand_in_source *source, char **ret, struct err *err) {
        const struct vault_mapping *vault_mapping = &values->mappings[mapping];
        struct str real = part_of(&values->list[mapping], part);

        if (vault_mapping->form[0] && part == PART_VALUE)
                return form_make(source, str_of(vault_mapping->form), real, ret, err);
        if (real.n == 0)
                return 0;

        cleanup(free_ptr) char *stand_in = calloc(1, real.n + 1);
        if (!stand_in)
                return err_set(err, ENOMEM, "no memory for a stand-in");

        int r = stand_in_make(source, real, str_of(vault_mapping->prefix), stand_in, err);
        if (r == 0)
                *ret = take_ptr(&stand_in);

        return r;
}

int values_old_stand_in(const struct values *values, uint32_t mapping, enum vault_part part, size_t ago, char **ret,
                        struct err *err) {
        const struct value *value = &values->list[mapping];
        struct stand_in_source source;

        *ret = NULL;
        if (ago == 0 || ago > VAULT_OLD_MAX || !value->seeded[ago])
                return 0;

        stand_in_source_seed(&source, value->seeds[ago], part);
        return shape_stand_in(values, mapping, part, &source, ret, err);
}

static bool is_taken(const struct values *values, const char *text) {
        for (size_t i = 0; i < values->n; i++)
                for (size_t k = 0; k < PARTS; k++)
                        if (values->list[i].stand_ins[k] && strcmp(values->list[i].stand_ins[k], text) == 0)
                                return true;
        return false;
}

static int make_stand_in(struct values *values, uint32_t mapping, enum vault_part part, struct err *err) {
        struct value *value = &values->list[mapping];
        struct stand_in_source source = STAND_IN_RANDOM;
        cleanup(free_ptr) char *stand_in = NULL;
        int r;

        if (value->stand_ins[part])
                return 0;
        if (value->seeded[0])
                stand_in_source_seed(&source, value->seeds[0], part);

        do {
                free(take_ptr(&stand_in));
                r = shape_stand_in(values, mapping, part, &source, &stand_in, err);
        } while (r == 0 && stand_in && is_taken(values, stand_in));

        if (r == 0)
                value->stand_ins[part] = take_ptr(&stand_in);

        return r;
}

int values_make_stand_ins(struct values *values, struct err *err) {
        for (uint32_t i = 0; i < values->n; i++)
                for (int part = 0; part < PARTS; part++) {
                        int r = make_stand_in(values, i, (enum vault_part)part, err);

                        if (r >= 0)
                                r = check_stand_ins(&values->list[i], &values->mappings[i], err);
                        if (r < 0)
                                return err_wrap(err, r, "credential '%s'", values->mappings[i].name);
                }

        return 0;
}

struct str values_stand_in(const struct values *values, uint32_t mapping, enum vault_part part) {
        return str_of(values->list[mapping].stand_ins[part]);
}

/* release */

static enum vault_refusal check_target(const struct values *values, uint32_t mapping, enum vault_kind_of_mapping kind,
                                       const struct authority *to) {
        if (mapping >= values->n || values->mappings[mapping].kind != (uint32_t)kind)
                return VAULT_NOT_MAPPED;

        bool known = false;
        for (uint32_t i = 0; i < values->mappings[mapping].n_hosts; i++)
                known |= pattern_matches(&values->list[mapping].hosts[i], &to->host, to->port);

        if (!known)
                return VAULT_WRONG_TARGET;

        if (values_has(values, mapping))
                return 0;

        return VAULT_NO_VALUE;
}

struct str values_current(const struct values *values, uint32_t mapping) {
        return values->list[mapping].text ? secret_value(values->list[mapping].text) : STR("");
}

enum vault_refusal values_renewable(const struct values *values, uint32_t mapping, const struct authority *to) {
        enum vault_refusal refused = check_target(values, mapping, MAPPING_VALUE, to);
        if (refused == VAULT_NO_VALUE)
                return 0;

        return refused;
}

enum vault_refusal values_release(const struct values *values, uint32_t mapping, const struct authority *to,
                                  struct str *ret) {
        enum vault_refusal refused = check_target(values, mapping, MAPPING_VALUE, to);
        if (!refused)
                *ret = secret_value(values->list[mapping].text);
        return refused;
}

/* A key counts for one day. A compromised gateway gets none for the days to come; clocks differ, and there is
 * midnight. */
static bool is_about_today(struct str date) {
        const uint64_t day_us = 86400ULL * 1000000, now = clock_wall_us();
        for (uint64_t at = now - day_us; at <= now + day_us; at += day_us) {
                char text[CLOCK_TEXT_MAX], day[] = "YYYYMMDD";

                clock_text(at, text); /* YYYY-MM-DDT... */
                memcpy(day, text, 4);
                memcpy(day + 4, text + 5, 2);
                memcpy(day + 6, text + 8, 2);

                if (str_is(date, day))
                        return true;
        }

        return false;
}

enum vault_refusal values_signing_key(const struct values *values, uint32_t mapping, const struct authority *to,
                                      struct str date, struct str region, struct str service, struct str *ret_key_id,
                                      uint8_t ret_key[static VAULT_DIGEST_BYTES], struct str *ret_token) {
        enum vault_refusal refused = check_target(values, mapping, MAPPING_SIGV4, to);
        if (refused)
                return refused;
        if (!is_about_today(date))
                return VAULT_WRONG_TARGET;

        const struct aws *aws = &values->list[mapping].aws;
        if (aws_signing_key(aws->secret_key, date, region, service, ret_key, NULL) < 0)
                return VAULT_BROKEN;

        *ret_key_id = aws->key_id;
        *ret_token = aws->session_token;

        return 0;
}
