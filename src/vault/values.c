/* SPDX-License-Identifier: Apache-2.0 */
#include "vault/values.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "policy/pattern.h"
#include "vault/aws.h"
#include "vault/fake.h"
#include "vault/form.h"
#include "vault/source.h"

#include <errno.h>

enum { HTTPS = 443 };

struct value {
        struct secret *text; /* NULL: none */
        struct aws aws;      /* sigv4: parts of the text */
        char *fakes[PARTS];
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

void values_free(struct values *v) {
        if (!v)
                return;
        for (size_t i = 0; v->list && i < v->n; i++) {
                secret_free(v->list[i].text);
                for (size_t k = 0; k < PARTS; k++)
                        free(v->list[i].fakes[k]);
                free(v->list[i].hosts);
        }
        free(v->list);
        vault_page_close(v->page);
        close_fd(&v->page_fd);
        free(v);
}

static void values_freep(struct values **v) {
        values_free(*v);
}

static int parse_hosts(struct value *value, const struct vault_mapping *m, struct err *e) {
        value->hosts = calloc(m->n_hosts, sizeof *value->hosts);
        if (!value->hosts)
                return err_set(e, ENOMEM, "no memory for the credentials");
        for (uint32_t i = 0; i < m->n_hosts; i++) {
                struct pattern *p = &value->hosts[i];
                int r = pattern_parse(str_of(m->hosts[i]), p, e);
                if (r < 0)
                        return r;
                if (!p->has_port)
                        p->port_first = p->port_last = HTTPS;
        }
        return 0;
}

int values_new(const struct vault_mapping *mappings, size_t n, struct values **ret, struct err *e) {
        cleanup(values_freep) struct values *v = calloc(1, sizeof *v);
        if (!v)
                return err_set(e, ENOMEM, "no memory for the credentials");
        *v = (struct values){ .mappings = mappings, .n = n, .page_fd = -1 };
        v->list = calloc(n ? n : 1, sizeof *v->list);
        if (!v->list)
                return err_set(e, ENOMEM, "no memory for the credentials");
        /* Not the numbers of a vault before this one. */
        v->last_serial = clock_wall_us();
        int r = vault_page_new(n, &v->page, &v->page_fd, e);
        for (size_t i = 0; r == 0 && i < n; i++)
                r = parse_hosts(&v->list[i], &mappings[i], e);
        if (r == 0)
                *ret = take_ptr(&v);
        return r;
}

int values_page(const struct values *v) {
        return v->page_fd;
}

bool values_has(const struct values *v, uint32_t mapping) {
        return v->list[mapping].text != NULL;
}

bool values_has_all(const struct values *v, uint32_t *ret_missing) {
        for (uint32_t i = 0; i < v->n; i++)
                if (!values_has(v, i) && !v->mappings[i].optional) {
                        *ret_missing = i;
                        return false;
                }
        return true;
}

uint64_t values_serial(const struct values *v, uint32_t mapping) {
        return atomic_load(&v->page->serials[mapping]);
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
static int check_fakes(const struct value *value, const struct vault_mapping *m, struct err *e) {
        for (int part = 0; part < PARTS; part++) {
                const char *fake = value->fakes[part];
                struct str real = part_of(value, (enum vault_part)part);
                if (fake && real.n > 0 && !fake_is_apart(str_of(fake), real, str_of(m->prefix)))
                        return err_set(e, EINVAL, "it is the stand-in that the sandbox was given");
        }
        return 0;
}

int values_set(struct values *v, uint32_t mapping, struct str value, enum value_change *ret, struct err *e) {
        struct value *old = &v->list[mapping];
        const struct vault_mapping *m = &v->mappings[mapping];
        int r = source_check(m, value, e);
        if (r < 0)
                return r;
        *ret = VALUE_SAME;
        if (old->text && secret_equal(secret_value(old->text), value))
                return 0;
        struct value new = *old;
        r = secret_new(value, &new.text, e);
        if (r < 0)
                return r;
        if (m->kind == MAPPING_SIGV4)
                r = aws_parse(secret_value(new.text), &new.aws, e);
        r = r < 0 ? r : check_fakes(&new, m, e);
        if (r < 0) {
                secret_free(new.text);
                return r;
        }
        secret_free(old->text);
        *old = new;
        atomic_store(&v->page->serials[mapping], ++v->last_serial);
        *ret = VALUE_CHANGED;
        return 0;
}

bool values_drop(struct values *v, uint32_t mapping) {
        struct value *value = &v->list[mapping];
        if (!value->text)
                return false;
        atomic_store(&v->page->serials[mapping], 0);
        secret_free(value->text);
        value->text = NULL;
        value->aws = (struct aws){ 0 };
        return true;
}

/* stand-ins */

int values_keep_fake(struct values *v, uint32_t mapping, enum vault_part part, struct str text, struct err *e) {
        bool sigv4 = v->mappings[mapping].kind == MAPPING_SIGV4;
        if (sigv4 == (part == PART_VALUE))
                return err_set(e, EINVAL, "credential '%s' has no such part", v->mappings[mapping].name);
        char *copy = str_dup(text);
        if (!copy)
                return err_set(e, ENOMEM, "no memory for a stand-in");
        free(v->list[mapping].fakes[part]);
        v->list[mapping].fakes[part] = copy;
        return 0;
}

void values_seed(struct values *v, uint32_t mapping, size_t ago, const uint8_t seed[static VAULT_DIGEST_BYTES]) {
        struct value *value = &v->list[mapping];

        value->seeded[ago] = true;
        memcpy(value->seeds[ago], seed, VAULT_DIGEST_BYTES);
}

/* One of the form that the mapping asks for, or of its value's; *ret stays NULL where there is nothing to stand for. */
static int shape_fake(const struct values *v, uint32_t mapping, enum vault_part part, struct fake_source *source,
                      char **ret, struct err *err) {
        const struct vault_mapping *m = &v->mappings[mapping];
        struct str real = part_of(&v->list[mapping], part);

        if (m->form[0] && part == PART_VALUE)
                return form_make(source, str_of(m->form), real, ret, err);
        if (real.n == 0)
                return 0;

        cleanup(free_ptr) char *fake = calloc(1, real.n + 1);
        if (!fake)
                return err_set(err, ENOMEM, "no memory for a stand-in");
        int r = fake_make(source, real, str_of(m->prefix), fake, err);
        if (r == 0)
                *ret = take_ptr(&fake);
        return r;
}

int values_old_fake(const struct values *v, uint32_t mapping, enum vault_part part, size_t ago, char **ret,
                    struct err *e) {
        const struct value *value = &v->list[mapping];
        struct fake_source source;

        *ret = NULL;
        if (ago == 0 || ago > VAULT_OLD_MAX || !value->seeded[ago])
                return 0;
        fake_source_seed(&source, value->seeds[ago], part);
        return shape_fake(v, mapping, part, &source, ret, e);
}

static bool is_taken(const struct values *v, const char *text) {
        for (size_t i = 0; i < v->n; i++)
                for (size_t k = 0; k < PARTS; k++)
                        if (v->list[i].fakes[k] && strcmp(v->list[i].fakes[k], text) == 0)
                                return true;
        return false;
}

static int make_fake(struct values *v, uint32_t mapping, enum vault_part part, struct err *e) {
        struct value *value = &v->list[mapping];
        struct fake_source source = FAKE_RANDOM;
        cleanup(free_ptr) char *fake = NULL;
        int r;

        if (value->fakes[part])
                return 0;
        if (value->seeded[0])
                fake_source_seed(&source, value->seeds[0], part);
        do {
                free(take_ptr(&fake));
                r = shape_fake(v, mapping, part, &source, &fake, e);
        } while (r == 0 && fake && is_taken(v, fake));
        if (r == 0)
                value->fakes[part] = take_ptr(&fake);
        return r;
}

int values_make_fakes(struct values *v, struct err *e) {
        for (uint32_t i = 0; i < v->n; i++)
                for (int part = 0; part < PARTS; part++) {
                        int r = make_fake(v, i, (enum vault_part)part, e);
                        r = r < 0 ? r : check_fakes(&v->list[i], &v->mappings[i], e);
                        if (r < 0)
                                return err_wrap(e, r, "credential '%s'", v->mappings[i].name);
                }
        return 0;
}

struct str values_fake(const struct values *v, uint32_t mapping, enum vault_part part) {
        return str_of(v->list[mapping].fakes[part]);
}

/* release */

static enum vault_refusal check_target(const struct values *v, uint32_t mapping, enum vault_kind_of_mapping kind,
                                       const struct authority *to) {
        if (mapping >= v->n || v->mappings[mapping].kind != (uint32_t)kind)
                return VAULT_NOT_MAPPED;
        bool known = false;
        for (uint32_t i = 0; i < v->mappings[mapping].n_hosts; i++)
                known |= pattern_matches(&v->list[mapping].hosts[i], &to->host, to->port);
        if (!known)
                return VAULT_WRONG_TARGET;
        return values_has(v, mapping) ? 0 : VAULT_NO_VALUE;
}

struct str values_current(const struct values *v, uint32_t mapping) {
        return v->list[mapping].text ? secret_value(v->list[mapping].text) : STR("");
}

enum vault_refusal values_renewable(const struct values *v, uint32_t mapping, const struct authority *to) {
        enum vault_refusal refused = check_target(v, mapping, MAPPING_VALUE, to);
        return refused == VAULT_NO_VALUE ? 0 : refused;
}

enum vault_refusal values_release(const struct values *v, uint32_t mapping, const struct authority *to,
                                  struct str *ret) {
        enum vault_refusal refused = check_target(v, mapping, MAPPING_VALUE, to);
        if (!refused)
                *ret = secret_value(v->list[mapping].text);
        return refused;
}

/* A key counts for one day. A gateway in hostile hands gets none for the days to come; clocks differ, and there is
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

enum vault_refusal values_signing_key(const struct values *v, uint32_t mapping, const struct authority *to,
                                      struct str date, struct str region, struct str service, struct str *ret_key_id,
                                      uint8_t ret_key[static VAULT_DIGEST_BYTES], struct str *ret_token) {
        enum vault_refusal refused = check_target(v, mapping, MAPPING_SIGV4, to);
        if (refused)
                return refused;
        if (!is_about_today(date))
                return VAULT_WRONG_TARGET;
        const struct aws *a = &v->list[mapping].aws;
        if (aws_signing_key(a->secret_key, date, region, service, ret_key, NULL) < 0)
                return VAULT_BROKEN;
        *ret_key_id = a->key_id;
        *ret_token = a->session_token;
        return 0;
}
