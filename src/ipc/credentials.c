/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The block: a head, then for each mapping its texts, each with its length before it. It is read once, from front to
 * back, into structs that point into it; whatever does not fit exactly is refused, so there is one way to write a
 * table.
 */
#include "ipc/credentials.h"

#include "base/base64.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/map.h"
#include "base/secrets/needles.h"
#include "base/vec.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#define CREDENTIALS_MAGIC "BLYCRD03"
#define PORT_HTTPS 443

struct head {
        char magic[8];
        uint32_t size, n;
};

struct named_host { /* mappings of one exact name, whatever the port */
        VEC(uint32_t) mappings;
};

struct credentials {
        size_t n;
        struct credential_mapping *mappings;
        struct map names;               /* to struct named_host */
        struct credential_set patterns; /* mappings with hosts that are not exact names */
        struct needles *needles;
        void *mapped;
        size_t mapped_n;
};

/* --- slots --- */

/* What a stand-in may consist of: it stands in headers, variables and URLs. */
static bool is_visible(struct str s) {
        for (size_t i = 0; i < s.n; i++)
                if (s.p[i] <= ' ' || s.p[i] >= 0x7f)
                        return false;
        return true;
}

static bool is_token(struct str s) {
        static const char others[] = "!#$%&'*+-.^_`|~";
        for (size_t i = 0; i < s.n; i++)
                if (!ascii_is_alnum(s.p[i]) && (s.p[i] == '\0' || !strchr(others, s.p[i])))
                        return false;
        return s.n > 0;
}

/* Headers that frame, route or sign the request: what stands there is never a secret. */
static bool header_is_fit(struct str name) {
        static const char *const unfit[] = { "host",       "connection",      "content-length",   "transfer-encoding",
                                             "te",         "trailer",         "upgrade",          "expect",
                                             "keep-alive", "accept-encoding", "content-encoding", "range",
                                             "cookie" };
        for (size_t i = 0; i < sizeof unfit / sizeof *unfit; i++)
                if (str_eq_nocase(name, str_of(unfit[i])))
                        return false;

        return !str_eq_nocase(str_first(name, 6), STR("proxy-")) && !str_eq_nocase(str_first(name, 6), STR("x-amz-"));
}

static int parse_header_slot(struct str name, struct err *err) {
        if (!is_token(name))
                return err_set(err, EINVAL, "a slot is written as header:NAME, as in header:x-api-key");
        if (!header_is_fit(name))
                return err_set(err, EINVAL, "a secret cannot stand in the header '%.*s'", STR_FMT(name));

        return 0;
}

static int parse_query_slot(struct str name, struct err *err) {
        for (size_t i = 0; i < name.n; i++)
                if (!ascii_is_alnum(name.p[i]) && (name.p[i] == '\0' || !strchr("-._~", name.p[i])))
                        return err_set(err, EINVAL,
                                       "the name in query:NAME has letters, digits, '-', '.', '_' and '~' only");
        if (name.n <= 0)
                return err_set(err, EINVAL, "a slot is written as query:NAME, as in query:api_key");

        return 0;
}

/* "refresh_token@/oauth/token" */
static int parse_body_slot(struct str text, struct credential_slot *ret, struct err *err) {
        ptrdiff_t at = str_find(text, '@');
        struct str name = { 0 }, path = { 0 };

        if (at >= 0) {
                name = str_first(text, (size_t)at);
                path = str_skip(text, (size_t)at + 1);
        }

        if (parse_query_slot(name, NULL) < 0 || path.n == 0 || path.p[0] != '/' || !is_visible(path) ||
            str_find(path, '?') >= 0)
                return err_set(err, EINVAL,
                               "a slot in a body is written as body:NAME@PATH, as in "
                               "body:refresh_token@/oauth/token");

        *ret = (struct credential_slot){ .kind = SLOT_BODY, .name = name, .path = path };
        return 0;
}

int credential_slot_parse(struct str text, struct credential_slot *ret, struct err *err) {
        static const struct {
                const char *text;
                enum credential_slot_kind kind;
        } plain[] = { { "bearer", SLOT_BEARER },
                      { "basic", SLOT_BASIC },
                      { "basic:user", SLOT_BASIC_USER },
                      { "basic:password", SLOT_BASIC_PASSWORD },
                      { "path", SLOT_PATH },
                      { "sigv4", SLOT_SIGV4 } };

        for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
                if (str_is(text, plain[i].text)) {
                        *ret = (struct credential_slot){ .kind = (uint8_t)plain[i].kind };
                        return 0;
                }

        struct str name;
        int r;

        if (str_starts(text, STR("header:"))) {
                name = str_skip(text, 7);
                r = parse_header_slot(name, err);
        } else if (str_starts(text, STR("query:"))) {
                name = str_skip(text, 6);
                r = parse_query_slot(name, err);
        } else if (str_starts(text, STR("body:"))) {
                return parse_body_slot(str_skip(text, 5), ret, err);
        } else {
                return err_set(err, EINVAL,
                               "a slot is bearer, header:NAME, basic, basic:user, basic:password, query:NAME, "
                               "path, sigv4 or body:NAME@PATH");
        }

        if (r == 0)
                *ret = (struct credential_slot){ .kind = str_starts(text, STR("header:")) ? SLOT_HEADER : SLOT_QUERY,
                                                 .name = name };

        return r;
}

static int parse_slots(struct str text, struct credential_mapping *mapping, struct err *err) {
        struct str one;

        while (str_split(&text, ',', &one)) {
                if (mapping->n_slots == CREDENTIAL_SLOTS_MAX)
                        return err_set(err, E2BIG, "more than %d slots", CREDENTIAL_SLOTS_MAX);

                int r = credential_slot_parse(one, &mapping->slots[mapping->n_slots], err);
                if (r < 0)
                        return r;
                if ((mapping->slots[mapping->n_slots++].kind == SLOT_SIGV4) != (mapping->kind == MAPPING_SIGV4))
                        return err_set(err, EINVAL, "the slot sigv4 is for AWS credentials, and they have no other");
        }

        if (mapping->n_slots <= 0)
                return err_set(err, EINVAL, "no slot");

        return 0;
}

/* --- texts --- */

static bool is_variable(struct str s) {
        for (size_t i = 0; i < s.n; i++)
                if (!ascii_is_alnum(s.p[i]) && s.p[i] != '_')
                        return false;
        return s.n <= CREDENTIAL_ENV_MAX && (s.n == 0 || !ascii_is_digit(s.p[0]));
}

/* The name goes into the audit in a list with commas. */
static bool is_name(struct str s) {
        for (size_t i = 0; i < s.n; i++)
                if (!ascii_is_alnum(s.p[i]) && (s.p[i] == '\0' || !strchr("-_.", s.p[i])))
                        return false;
        return s.n > 0 && s.n <= CREDENTIAL_NAME_MAX;
}

static bool stand_in_is_fit(struct str s) {
        return s.n >= CREDENTIAL_STAND_IN_MIN && s.n <= CREDENTIAL_STAND_IN_MAX && is_visible(s);
}

static int check_texts(const struct credential_mapping *mapping, struct err *err) {
        if (mapping->kind >= MAPPING_KINDS)
                return err_set(err, EINVAL, "unknown kind");
        if (mapping->answer.n > CREDENTIAL_NAME_MAX || !is_visible(mapping->answer))
                return err_set(err, EINVAL, "the member of an answer is too long, or not visible");

        if (!is_name(mapping->name))
                return err_set(err, EINVAL, "the name has 1 to %d letters, digits, '-', '_' and '.' only",
                               CREDENTIAL_NAME_MAX);

        for (int i = 0; i < PARTS; i++) {
                bool aws = mapping->kind == MAPPING_SIGV4;
                bool wanted = aws ? i == PART_KEY_ID || i == PART_SECRET_KEY : i == PART_VALUE;
                bool possible = wanted || (aws && i == PART_SESSION_TOKEN);
                if ((wanted && mapping->stand_in[i].n == 0) ||
                    (!possible && (mapping->stand_in[i].n > 0 || mapping->env[i].n > 0)))
                        return err_set(err, EINVAL, "a part is missing, or there is one too many");

                if (mapping->stand_in[i].n > 0 && !stand_in_is_fit(mapping->stand_in[i]))
                        return err_set(err, EINVAL, "a stand-in has %d to %d visible ASCII characters",
                                       CREDENTIAL_STAND_IN_MIN, CREDENTIAL_STAND_IN_MAX);

                if (!is_variable(mapping->env[i]))
                        return err_set(err, EINVAL, "not the name of a variable");
        }

        return 0;
}

static int parse_host(struct str text, struct pattern *ret, struct err *err) {
        int r = pattern_parse(text, ret, err);
        if (r < 0)
                return r;
        if (ret->kind == PATTERN_NET && ret->net.bits != addr_bits(&ret->net.addr))
                return err_set(err, EINVAL, "a secret goes to hosts, not to networks");
        if (!ret->has_port)
                ret->port_first = ret->port_last = PORT_HTTPS;

        return 0;
}

/* --- writing --- */

static int put_text(struct buf *out, struct str s) {
        uint32_t n = (uint32_t)s.n;
        int r = buf_append(out, str_n(&n, sizeof n));
        if (r < 0)
                return r;

        return buf_append(out, s);
}

static int put_row(struct buf *out, const struct credential_row *row) {
        uint32_t numbers[3] = { row->kind, (uint32_t)row->n_hosts, (uint32_t)row->n_old };
        int r = buf_append(out, str_n(numbers, sizeof numbers));

        if (r >= 0)
                r = put_text(out, row->name);
        if (r >= 0)
                r = put_text(out, row->slots);
        if (r >= 0)
                r = put_text(out, row->answer);
        for (int i = 0; r == 0 && i < PARTS; i++) {
                r = put_text(out, row->env[i]);
                if (r >= 0)
                        r = put_text(out, row->stand_in[i]);
        }

        for (size_t i = 0; r == 0 && i < row->n_hosts; i++)
                r = put_text(out, row->hosts[i]);

        for (size_t i = 0; r == 0 && i < row->n_old; i++)
                r = put_text(out, row->old[i]);

        return r;
}

int credentials_encode(const struct credential_row *rows, size_t n, struct buf *out, struct err *err) {
        struct head head = { .magic = CREDENTIALS_MAGIC, .n = (uint32_t)n };
        size_t start = out->n;

        if (n > CREDENTIALS_MAX)
                return err_set(err, E2BIG, "at most %d credentials can be used at once", CREDENTIALS_MAX);

        int r = buf_append(out, str_n(&head, sizeof head));
        for (size_t i = 0; r == 0 && i < n; i++)
                r = put_row(out, &rows[i]);

        if (r < 0) {
                out->n = start;
                return err_set(err, -r, "cannot write the table of credentials");
        }

        head.size = (uint32_t)(out->n - start);
        memcpy(out->p + start, &head, sizeof head);
        cleanup(credentials_closep) struct credentials *read = NULL;
        r = credentials_open(str_skip(buf_str(out), start), &read, err);
        if (r < 0)
                out->n = start;

        return r;
}

/* --- reading --- */

static int credentials_damaged(struct err *err, const char *what) {
        return err_set(err, EBADMSG, "the table of credentials is damaged: %s", what);
}

static bool take_number(struct str *in, uint32_t *ret) {
        if (in->n < sizeof *ret)
                return false;
        memcpy(ret, in->p, sizeof *ret);
        *in = str_skip(*in, sizeof *ret);
        return true;
}

static bool take_text(struct str *in, struct str *ret) {
        uint32_t n;
        if (!take_number(in, &n) || n > in->n)
                return false;
        *ret = str_first(*in, n);
        *in = str_skip(*in, n);
        return true;
}

static int take_hosts(struct str *in, uint32_t n, struct credential_mapping *mapping, struct err *err) {
        struct str text;

        if (n == 0 || n > CREDENTIAL_HOSTS_MAX)
                return err_set(err, EINVAL, "it needs 1 to %d hosts", CREDENTIAL_HOSTS_MAX);

        mapping->hosts = calloc(n, sizeof *mapping->hosts);
        if (!mapping->hosts)
                return err_memory(err);

        for (uint32_t i = 0; i < n; i++) {
                if (!take_text(in, &text))
                        return credentials_damaged(err, "too short");

                int r = parse_host(text, &mapping->hosts[mapping->n_hosts], err);
                if (r < 0)
                        return r;

                mapping->n_hosts++;
        }

        return 0;
}

/* One that counts now must not be among them: check_distinct() sees to that. */
static int take_old(struct str *in, uint32_t n, struct credential_mapping *mapping, struct err *err) {
        if (n > CREDENTIAL_OLD_MAX)
                return err_set(err, E2BIG, "more than %d stand-ins of before", CREDENTIAL_OLD_MAX);

        for (mapping->n_old = 0; mapping->n_old < n; mapping->n_old++) {
                struct str *old = &mapping->old[mapping->n_old];
                if (!take_text(in, old))
                        return credentials_damaged(err, "too short");
                if (!stand_in_is_fit(*old))
                        return err_set(err, EINVAL, "a stand-in has %d to %d visible ASCII characters",
                                       CREDENTIAL_STAND_IN_MIN, CREDENTIAL_STAND_IN_MAX);
        }

        return 0;
}

static int take_mapping(struct str *in, struct credential_mapping *mapping, struct err *err) {
        uint32_t kind, n_hosts, n_old;
        struct str slots;
        bool whole = take_number(in, &kind) && take_number(in, &n_hosts) && take_number(in, &n_old) &&
                     take_text(in, &mapping->name) && take_text(in, &slots) && take_text(in, &mapping->answer);
        for (int i = 0; whole && i < PARTS; i++)
                whole = take_text(in, &mapping->env[i]) && take_text(in, &mapping->stand_in[i]);

        if (!whole || kind >= MAPPING_KINDS)
                return credentials_damaged(err, "too short, or of an unknown kind");

        mapping->kind = (uint8_t)kind;
        ptrdiff_t dot = str_find(mapping->name, '.');
        mapping->group = str_first(mapping->name, dot < 0 ? mapping->name.n : (size_t)dot);

        int r = check_texts(mapping, err);
        if (r < 0)
                return r;

        r = parse_slots(slots, mapping, err);
        if (r < 0)
                return r;

        r = take_hosts(in, n_hosts, mapping, err);
        if (r < 0)
                return r;

        return take_old(in, n_old, mapping, err);
}

/* Names and stand-ins are each one's own: what is found must say whose it is. */
static int check_distinct(const struct credentials *credentials, struct err *err) {
        struct map seen = { 0 };
        int r = 0;
        for (size_t i = 0; r == 0 && i < credentials->n; i++) {
                const struct credential_mapping *m = &credentials->mappings[i];

                for (size_t k = 0; r == 0 && k < i; k++)
                        if (str_eq(credentials->mappings[k].name, m->name))
                                r = -EEXIST;

                for (int part = 0; r == 0 && part < PARTS; part++)
                        if (m->stand_in[part].n > 0)
                                r = map_add(&seen, m->stand_in[part], credentials->mappings);

                for (size_t k = 0; r == 0 && k < m->n_old; k++)
                        r = map_add(&seen, m->old[k], credentials->mappings);

                if (r == -EEXIST)
                        err_set(err, EEXIST, "two credentials have the same name or stand-in, '%.*s'",
                                STR_FMT(m->name));
                else if (r < 0)
                        err_memory(err);
        }

        map_done(&seen, NULL);
        return r;
}

static int index_hosts(struct credentials *credentials) {
        for (size_t i = 0; i < credentials->n; i++)
                for (size_t k = 0; k < credentials->mappings[i].n_hosts; k++) {
                        const struct pattern *pattern = &credentials->mappings[i].hosts[k];
                        if (pattern->kind != PATTERN_NAME) {
                                credentials->patterns.bits[i / 64] |= 1ULL << i % 64;
                                continue;
                        }

                        struct named_host *h = map_get(&credentials->names, host_str(&pattern->host));
                        if (!h) {
                                h = calloc(1, sizeof *h);
                                if (!h || map_add(&credentials->names, host_str(&pattern->host), h) < 0) {
                                        free(h);
                                        return -ENOMEM;
                                }
                        }

                        if (vec_push(&h->mappings, (uint32_t)i) < 0)
                                return -ENOMEM;
                }

        return 0;
}

/* --- needles: each stand-in as it is and in base64 --- */

enum { FORMS = 7 }; /* raw; three alignments in two alphabets */

static uint32_t needle_id(uint32_t mapping, unsigned part, bool base64) {
        return mapping << 8 | part << 1 | base64;
}

struct needle_list {
        VEC(struct needle) needles;
        struct buf text; /* of the base64 forms; never grows, so that needles may point into it */
};

static int add_needles(struct needle_list *list, uint32_t mapping, unsigned part, struct str stand_in) {
        struct needle raw = { stand_in, needle_id(mapping, part, false) };
        if (vec_push(&list->needles, raw) < 0)
                return -ENOMEM;

        for (unsigned form = 0; form < FORMS - 1; form++) {
                char *at = list->text.p + list->text.n;
                size_t n = base64_inner(stand_in, form % 3, form < 3 ? BASE64_STANDARD : BASE64_URL, at);
                struct needle encoded = { str_n(at, n), needle_id(mapping, part, true) };

                list->text.n += n;
                if (n > 0 && vec_push(&list->needles, encoded) < 0)
                        return -ENOMEM;
        }

        return 0;
}

static int make_needles(struct credentials *credentials) {
        struct needle_list l = { .text = BUF(SIZE_MAX) };
        size_t total = 1;

        for (size_t i = 0; i < credentials->n; i++)
                for (size_t k = 0; k < credentials->mappings[i].n_old; k++)
                        total += (FORMS - 1) * base64_length(credentials->mappings[i].old[k].n);

        for (size_t i = 0; i < credentials->n; i++)
                for (int part = 0; part < PARTS; part++)
                        total += (FORMS - 1) * base64_length(credentials->mappings[i].stand_in[part].n);

        int r = buf_reserve(&l.text, total);
        for (size_t i = 0; r == 0 && i < credentials->n; i++)
                for (unsigned part = 0; r == 0 && part < PARTS; part++)
                        if (credentials->mappings[i].stand_in[part].n > 0)
                                r = add_needles(&l, (uint32_t)i, part, credentials->mappings[i].stand_in[part]);

        for (size_t i = 0; r == 0 && i < credentials->n; i++)
                for (size_t k = 0; r == 0 && k < credentials->mappings[i].n_old; k++)
                        r = add_needles(&l, (uint32_t)i, PARTS, credentials->mappings[i].old[k]);

        if (r == 0)
                r = needles_new(l.needles.p, l.needles.n, &credentials->needles);

        vec_done(&l.needles);
        buf_done(&l.text);

        return r;
}

int credentials_open(struct str bytes, struct credentials **ret, struct err *err) {
        struct head head;

        if (bytes.n < sizeof head)
                return credentials_damaged(err, "too short");

        memcpy(&head, bytes.p, sizeof head);
        if (memcmp(head.magic, CREDENTIALS_MAGIC, sizeof head.magic) != 0)
                return credentials_damaged(err, "not a table, or one of another version");
        if (head.size != bytes.n || bytes.n > CREDENTIALS_BYTES_MAX || head.n > CREDENTIALS_MAX)
                return credentials_damaged(err, "bad size");

        cleanup(credentials_closep) struct credentials *c = calloc(1, sizeof *c);
        if (!c)
                return err_memory(err);

        c->mappings = calloc(head.n ? head.n : 1, sizeof *c->mappings);
        if (!c->mappings)
                return err_memory(err);

        struct str in = str_skip(bytes, sizeof head);

        for (c->n = 0; c->n < head.n;) {
                struct credential_mapping *mapping = &c->mappings[c->n++];

                mapping->index = (uint32_t)c->n - 1;
                int r = take_mapping(&in, mapping, err);
                if (r < 0)
                        return err_wrap(err, r, "in credential number %zu", c->n);
        }

        if (in.n > 0)
                return credentials_damaged(err, "too long");

        int r = check_distinct(c, err);
        if (r < 0)
                return r;

        r = index_hosts(c);
        if (r >= 0)
                r = make_needles(c);
        if (r < 0)
                return err_set(err, -r, "cannot index the table of credentials");

        *ret = take_ptr(&c);
        return 0;
}

int credentials_open_fd(int fd, struct credentials **ret, struct err *err) {
        struct str mapped;
        int r = fd_map_sealed(fd, "the table of credentials", CREDENTIALS_BYTES_MAX, &mapped, err);
        if (r == -EMSGSIZE)
                return credentials_damaged(err, "bad size");
        if (r < 0)
                return r;

        r = credentials_open(mapped, ret, err);
        if (r < 0) {
                munmap((void *)(uintptr_t)mapped.p, mapped.n);
                return r;
        }

        (*ret)->mapped = (void *)(uintptr_t)mapped.p;
        (*ret)->mapped_n = mapped.n;

        return 0;
}

static void free_named_host(void *value) {
        struct named_host *h = value;
        vec_done(&h->mappings);
        free(h);
}

void credentials_close(struct credentials *credentials) {
        if (!credentials)
                return;

        for (size_t i = 0; i < credentials->n; i++)
                free(credentials->mappings[i].hosts);

        free(credentials->mappings);
        map_done(&credentials->names, free_named_host);
        needles_free(credentials->needles);

        if (credentials->mapped)
                munmap(credentials->mapped, credentials->mapped_n);

        free(credentials);
}

void credentials_closep(struct credentials **credentials) {
        credentials_close(*credentials);
}

/* --- looking things up --- */

size_t credentials_count(const struct credentials *credentials) {
        return credentials->n;
}

const struct credential_mapping *credentials_get(const struct credentials *credentials, uint32_t index) {
        return index < credentials->n ? &credentials->mappings[index] : NULL;
}

static void add_if_matches(const struct credentials *credentials, uint32_t i, const struct host *host, uint16_t port,
                           struct credential_set *set) {
        const struct credential_mapping *mapping = &credentials->mappings[i];
        for (size_t k = 0; k < mapping->n_hosts; k++)
                if (pattern_matches(&mapping->hosts[k], host, port)) {
                        set->bits[i / 64] |= 1ULL << i % 64;
                        return;
                }
}

struct credential_set credentials_at(const struct credentials *credentials, const struct host *host, uint16_t port) {
        struct credential_set set = { 0 };
        const struct named_host *named_host = map_get(&credentials->names, host_str(host));
        for (size_t i = 0; named_host && i < named_host->mappings.n; i++)
                add_if_matches(credentials, named_host->mappings.p[i], host, port, &set);

        for (size_t word = 0; word < CREDENTIALS_MAX / 64; word++)
                for (uint64_t left = credentials->patterns.bits[word]; left; left &= left - 1)
                        add_if_matches(credentials, (uint32_t)(word * 64 + (size_t)__builtin_ctzll(left)), host, port,
                                       &set);

        return set;
}

bool credentials_find(const struct credentials *credentials, struct str bytes, size_t *at, struct credential_hit *ret) {
        struct needle_scan scan;
        struct needle_match match;
        struct str rest = str_skip(bytes, *at);
        if (rest.n < needles_shortest(credentials->needles)) {
                *at = bytes.n;
                return false;
        }

        needle_scan_init(&scan, credentials->needles, false); /* without places it cannot fail */

        if (!needle_scan_next(&scan, &rest, &match) && !needle_scan_end(&scan, &match)) {
                *at = bytes.n;
                return false;
        }

        *at = bytes.n - rest.n;
        *ret = (struct credential_hit){
                .mapping = match.id >> 8, .part = match.id >> 1 & 7, .base64 = match.id & 1, .end = *at
        };

        return true;
}
