/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collecting rules and laying them out as one block (policy/block_internal.h). Names are interned as they come;
 * networks are sorted at the end. A rule that says exactly what an earlier one of the same name says is dropped, so
 * that lists which repeat themselves cost nothing.
 */
#include "policy/block_internal.h"
#include "policy/match/pattern.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/map.h"
#include "base/random.h"
#include "base/vec.h"
#include "conf/suggest.h"

#include <errno.h>
#include <stdlib.h>

enum { RULES_MAX = 50 * 1000 * 1000, PATTERN_TEXT_MAX = 1024, PATHS_PER_RULE_MAX = 1024 };
#define POOL_MAX ((size_t)UINT32_MAX - 1)

struct name { /* a future entry; n_rules counts while collecting */
        uint64_t hash;
        struct block_entry entry;
};

struct slot {               /* of the table that finds names while collecting */
        uint32_t tag, name; /* name BLOCK_NONE: empty */
};

struct net { /* a rule for a network; the network itself is made when they are sorted */
        struct block_key key;
        uint32_t rule;
        uint8_t family, bits;
};

struct pending {
        struct block_rule rule;
        uint32_t name; /* index in names, or BLOCK_NONE for the rule of a network or of any host */
};

struct snapshot_builder {
        struct block_header header;
        VEC(struct pending) rules;
        VEC(struct name) names;
        VEC(struct net) nets;
        VEC(uint32_t) any; /* rules for any host */
        VEC(struct block_request) requests;
        VEC(struct block_git) gits;
        VEC(struct block_text) texts;
        struct buf pool;
        struct map origins;   /* text to 1 + its index in texts */
        uint32_t last_origin; /* BLOCK_NONE at start: rules come in runs from one place */
        struct slot *slots;
        size_t n_slots;
};

struct snapshot_builder *snapshot_builder_new(enum network_mode mode, bool ask) {
        struct snapshot_builder *builder = calloc(1, sizeof *builder);
        if (!builder)
                return NULL;

        memcpy(builder->header.magic, BLOCK_MAGIC, sizeof builder->header.magic);
        builder->header.mode = (uint8_t)mode;
        builder->header.ask = ask;
        builder->header.default_classes = true;
        builder->pool = BUF(POOL_MAX);
        builder->last_origin = BLOCK_NONE;
        random_bytes(builder->header.seed, sizeof builder->header.seed);

        return builder;
}

void snapshot_builder_free(struct snapshot_builder *builder) {
        if (!builder)
                return;

        vec_done(&builder->rules);
        vec_done(&builder->names);
        vec_done(&builder->nets);
        vec_done(&builder->any);
        vec_done(&builder->requests);
        vec_done(&builder->gits);
        vec_done(&builder->texts);
        buf_done(&builder->pool);
        map_done(&builder->origins, NULL);
        free(builder->slots);
        free(builder);
}

void snapshot_builder_freep(struct snapshot_builder **builder) {
        snapshot_builder_free(*builder);
}

static int no_memory(struct err *err) {
        return err_set(err, ENOMEM, "out of memory for the policy's rules");
}

/* --- texts --- */

static int pool_add(struct snapshot_builder *builder, struct str s, uint32_t *ret_at) {
        size_t at = builder->pool.n;
        int r = buf_append(&builder->pool, s);
        if (r < 0)
                return r;
        *ret_at = (uint32_t)at;
        return 0;
}

static int text_add(struct snapshot_builder *builder, struct str s) {
        struct block_text text = { .n = (uint32_t)s.n };
        if (s.n > PATTERN_TEXT_MAX || pool_add(builder, s, &text.at) < 0 || vec_push(&builder->texts, text) < 0)
                return -ENOMEM;
        return 0;
}

/* Many rules come from one place: its text is kept once. */
static int origin_add(struct snapshot_builder *builder, struct str origin, uint32_t *ret) {
        origin = str_first(origin, PATTERN_TEXT_MAX);

        if (builder->last_origin != BLOCK_NONE) {
                const struct block_text *last = &builder->texts.p[builder->last_origin];
                if (str_eq(str_n(builder->pool.p + last->at, last->n), origin)) {
                        *ret = builder->last_origin;
                        return 0;
                }
        }

        size_t known = (size_t)(uintptr_t)map_get(&builder->origins, origin);
        if (known == 0) {
                if (text_add(builder, origin) < 0)
                        return -ENOMEM;
                known = builder->texts.n;
                if (map_add(&builder->origins, origin, (void *)(uintptr_t)known) < 0)
                        return -ENOMEM;
        }

        *ret = builder->last_origin = (uint32_t)(known - 1);
        return 0;
}

/* --- names --- */

static uint64_t hash_name(const struct snapshot_builder *builder, struct str name, bool wildcard, size_t *ret_depth) {
        uint64_t hash = builder->header.seed[0];
        size_t depth = 0;

        while (name.n > 0) {
                size_t start = (size_t)(str_rfind(name, '.') + 1);

                hash = block_hash_label(builder->header.seed, hash, name.p + start, name.n - start);
                depth++;
                name.n = start > 0 ? start - 1 : 0;
        }

        *ret_depth = depth;
        return block_hash_kind(hash, wildcard);
}

static void slot_put(struct slot *slots, size_t n_slots, uint64_t hash, uint32_t name) {
        size_t i = block_home(hash, n_slots);
        while (slots[i].name != BLOCK_NONE)
                i = i + 1 == n_slots ? 0 : i + 1;
        slots[i] = (struct slot){ (uint32_t)hash, name };
}

static int slots_grow(struct snapshot_builder *builder) {
        size_t n = builder->n_slots ? builder->n_slots * 2 : 64;
        struct slot *grown = reallocarray(NULL, n, sizeof *grown);
        if (!grown)
                return -ENOMEM;

        memset(grown, 0xff, n * sizeof *grown); /* BLOCK_NONE everywhere */
        for (size_t i = 0; i < builder->names.n; i++)
                slot_put(grown, n, builder->names.p[i].hash, (uint32_t)i);

        free(builder->slots);
        builder->slots = grown;
        builder->n_slots = n;

        return 0;
}

static bool name_is(const struct snapshot_builder *builder, const struct block_entry *entry, struct str name,
                    bool wildcard) {
        return entry->wildcard == wildcard && str_eq(str_n(builder->pool.p + entry->name_at, entry->name_n), name);
}

/* The entry for a name; text_at is where the rule's own text lies, which nearly always contains the name already. */
static int name_intern(struct snapshot_builder *builder, struct str name, bool wildcard, struct str text,
                       uint32_t text_at, uint32_t *ret) {
        size_t depth;
        uint64_t hash = hash_name(builder, name, wildcard, &depth);

        if (builder->names.n * 2 >= builder->n_slots && slots_grow(builder) < 0)
                return -ENOMEM;

        for (size_t i = block_home(hash, builder->n_slots); builder->slots[i].name != BLOCK_NONE;
             i = i + 1 == builder->n_slots ? 0 : i + 1)
                if (builder->slots[i].tag == (uint32_t)hash &&
                    name_is(builder, &builder->names.p[builder->slots[i].name].entry, name, wildcard)) {
                        *ret = builder->slots[i].name;
                        return 0;
                }

        struct name added = { hash, { .tag = (uint32_t)hash, .name_n = (uint8_t)name.n, .wildcard = wildcard } };
        size_t front = wildcard ? 2 : 0;
        if (str_starts(str_skip(text, front), name))
                added.entry.name_at = text_at + (uint32_t)front;
        else if (pool_add(builder, name, &added.entry.name_at) < 0)
                return -ENOMEM;

        if (vec_push(&builder->names, added) < 0)
                return -ENOMEM;

        *ret = (uint32_t)(builder->names.n - 1);
        slot_put(builder->slots, builder->n_slots, hash, *ret);
        uint64_t *depths = wildcard ? builder->header.wildcard_depths : builder->header.name_depths;
        depths[depth / 64] |= 1ULL << (depth % 64);

        return 0;
}

/* --- rules --- */

static int rule_add(struct snapshot_builder *builder, enum rule_list list, const struct pattern *pattern,
                    struct str text, struct str origin, uint32_t request, struct err *err) {
        struct pending added = {
                .rule = { .list = (uint8_t)list,
                          .request = request,
                          .text_n = (uint16_t)text.n,
                          .port_first = pattern->port_first,
                          .port_last = pattern->port_last },
                .name = BLOCK_NONE,
        };

        if (builder->rules.n >= RULES_MAX || text.n > PATTERN_TEXT_MAX)
                return err_set(err, E2BIG, "the policy has too many rules, or one that is too long");
        if (pool_add(builder, text, &added.rule.text_at) < 0 || origin_add(builder, origin, &added.rule.origin) < 0)
                return no_memory(err);

        if (pattern->kind == PATTERN_NET) {
                struct net net = { block_key_of(&pattern->net.addr), (uint32_t)builder->rules.n,
                                   pattern->net.addr.family, pattern->net.bits };
                if (vec_push(&builder->nets, net) < 0)
                        return no_memory(err);
        } else if (pattern->kind == PATTERN_ANY) {
                if (vec_push(&builder->any, (uint32_t)builder->rules.n) < 0)
                        return no_memory(err);
        } else {
                bool wildcard = pattern->kind == PATTERN_WILDCARD;
                if (name_intern(builder, host_str(&pattern->host), wildcard, text, added.rule.text_at, &added.name) < 0)
                        return no_memory(err);

                if (builder->names.p[added.name].entry.n_rules == UINT16_MAX)
                        return err_set(err, E2BIG, "the policy has more than %d rules for %s", UINT16_MAX,
                                       pattern->host.name);

                builder->names.p[added.name].entry.n_rules++;
        }

        if (vec_push(&builder->rules, added) < 0)
                return no_memory(err);

        return 0;
}

int snapshot_check_pattern(enum rule_list list, const struct pattern *pattern, struct err *err) {
        bool internal = pattern->kind != PATTERN_NET && str_is(host_str(&pattern->host), HOST_INTERNAL);
        const char *shown = pattern->host.name_n ? pattern->host.name : "this network";

        if (list == LIST_ALLOW && internal)
                return err_set(err, EINVAL,
                               "%s is this host's loopback and is opened only under allow_private, with a port, as "
                               "%s:8080",
                               HOST_INTERNAL, HOST_INTERNAL);

        if (list != LIST_ALLOW_PRIVATE)
                return 0;

        if (pattern->kind == PATTERN_WILDCARD)
                return err_set(err, EINVAL,
                               "allow_private takes no wildcard; allow *.%s and open its networks here, as "
                               "10.0.0.0/8:443",
                               shown);

        if (!pattern->has_port)
                return err_set(err, EINVAL,
                               "allow_private needs a port for %s, as :5432 or :8000-8999 (:1-65535 for all)", shown);

        return 0;
}

static int add_pattern(struct snapshot_builder *builder, enum rule_list list, struct str text, struct str origin,
                       uint32_t request, struct err *err) {
        struct pattern pattern;

        text = str_trim(text);
        int r = pattern_parse_user(text, &pattern, err);
        if (r == 0)
                r = snapshot_check_pattern(list, &pattern, err);
        if (r < 0 && origin.n)
                return err_wrap(err, r, "%.*s", STR_FMT(str_first(origin, PATTERN_TEXT_MAX)));
        if (r < 0)
                return r;

        if (list == LIST_ALLOW && pattern.has_port && pattern.kind == PATTERN_NAME &&
            host_is_loopback_name(&pattern.host) && request == BLOCK_NONE)
                list = LIST_ALLOW_PRIVATE;

        return rule_add(builder, list, &pattern, text, origin, request, err);
}

int snapshot_add(struct snapshot_builder *builder, enum rule_list list, struct str pattern, struct str origin,
                 struct err *err) {
        if (list > LIST_QUIET)
                return err_set(err, EINVAL, "this list takes no patterns");
        if (list == LIST_DENY)
                return snapshot_add_refusal(builder, pattern, STR(""), origin, err);
        return add_pattern(builder, list, pattern, origin, BLOCK_NONE, err);
}

int snapshot_add_refusal(struct snapshot_builder *builder, struct str pattern, struct str reason, struct str origin,
                         struct err *err) {
        uint32_t at = BLOCK_NONE;
        struct pattern p;
        int r;

        pattern = str_trim(pattern);
        r = pattern_parse_refusal(pattern, &p, err);
        if (r < 0 && origin.n)
                return err_wrap(err, r, "%.*s", STR_FMT(str_first(origin, PATTERN_TEXT_MAX)));
        if (r < 0)
                return r;

        if (reason.n > 0) {
                at = (uint32_t)builder->texts.n;
                if (text_add(builder, str_first(reason, PATTERN_TEXT_MAX)) < 0)
                        return no_memory(err);
        }

        return rule_add(builder, LIST_DENY, &p, pattern, origin, at, err);
}

static bool is_method(struct str s) {
        for (size_t i = 0; i < s.n; i++)
                if (!ascii_is_alnum(s.p[i]) && str_find(STR("!#$%&'*+-.^_`|~"), s.p[i]) < 0)
                        return false;
        return s.n > 0 && s.n <= 32;
}

static int check_path_pattern(struct str s, struct err *err) {
        if (s.n == 0 || s.p[0] != '/' || s.n > PATTERN_TEXT_MAX)
                return err_set(err, EINVAL, "a path pattern begins with '/', as /repos/acme/**");

        for (size_t i = 0; i < s.n; i++)
                if ((unsigned char)s.p[i] <= 0x20 || (unsigned char)s.p[i] >= 0x7f || s.p[i] == '\\' || s.p[i] == '#')
                        return err_set(err, EINVAL,
                                       "a path pattern holds only printable ASCII without space, '\\' and '#'; "
                                       "write other bytes as %%XX, as the request does");

        return 0;
}

/* A run of texts; where it begins. */
static int texts_add_all(struct snapshot_builder *builder, const struct str *list, size_t n, uint32_t *ret_first,
                         uint32_t *ret_n, struct err *err) {
        if (n > PATHS_PER_RULE_MAX)
                return err_set(err, E2BIG, "a rule has more than %d entries in one list", PATHS_PER_RULE_MAX);

        *ret_first = (uint32_t)builder->texts.n;
        *ret_n = (uint32_t)n;

        for (size_t i = 0; i < n; i++)
                if (text_add(builder, list[i]) < 0)
                        return no_memory(err);

        return 0;
}

static int check_lists(const struct str *methods, size_t n_methods, const struct str *paths, size_t n_paths,
                       struct err *err) {
        for (size_t i = 0; i < n_methods; i++)
                if (!is_method(methods[i]))
                        return err_set(err, EINVAL, "%s is not a method; write a word such as GET",
                                       show(methods[i]).text);

        for (size_t i = 0; i < n_paths; i++) {
                int r = check_path_pattern(paths[i], err);
                if (r < 0)
                        return r;
        }

        return 0;
}

int snapshot_add_graphql_rule(struct snapshot_builder *builder, struct str pattern, const struct str *methods,
                              size_t n_methods, const struct str *paths, size_t n_paths,
                              const struct snapshot_graphql *graphql, struct str origin, struct err *err) {
        struct block_request request = { .graphql = graphql != NULL };
        int r = check_lists(methods, n_methods, paths, n_paths, err);

        if (r >= 0)
                r = texts_add_all(builder, methods, n_methods, &request.first_method, &request.n_methods, err);
        if (r >= 0)
                r = texts_add_all(builder, paths, n_paths, &request.first_path, &request.n_paths, err);
        if (r == 0 && graphql) {
                r = texts_add_all(builder, graphql->queries, graphql->n_queries, &request.first_query,
                                  &request.n_queries, err);
                if (r >= 0)
                        r = texts_add_all(builder, graphql->mutations, graphql->n_mutations, &request.first_mutation,
                                          &request.n_mutations, err);
        }

        if (r < 0)
                return r;
        if (n_methods == 0 && n_paths == 0 && !graphql)
                return add_pattern(builder, LIST_ALLOW, pattern, origin, BLOCK_NONE, err);
        if (vec_push(&builder->requests, request) < 0)
                return no_memory(err);

        return add_pattern(builder, LIST_ALLOW, pattern, origin, (uint32_t)(builder->requests.n - 1), err);
}

int snapshot_add_request_rule(struct snapshot_builder *builder, struct str pattern, const struct str *methods,
                              size_t n_methods, const struct str *paths, size_t n_paths, struct str origin,
                              struct err *err) {
        return snapshot_add_graphql_rule(builder, pattern, methods, n_methods, paths, n_paths, NULL, origin, err);
}

static uint32_t git_flags(const struct snapshot_git *git) {
        const struct {
                bool is_set;
                uint32_t flag;
        } all[] = {
                { git->fetch, BLOCK_GIT_FETCH },        { git->create, BLOCK_GIT_CREATE },
                { git->delete, BLOCK_GIT_DELETE },      { git->options, BLOCK_GIT_OPTIONS },
                { git->certificate, BLOCK_GIT_SIGNED }, { git->ask, BLOCK_GIT_ASK },
        };
        uint32_t flags = 0;

        for (size_t i = 0; i < sizeof all / sizeof *all; i++)
                if (all[i].is_set)
                        flags |= all[i].flag;

        return flags;
}

int snapshot_add_git(struct snapshot_builder *builder, const struct snapshot_git *git, struct str origin,
                     struct err *err) {
        struct block_git entry = { .flags = git_flags(git) };
        struct pattern pattern = {
                .kind = PATTERN_NAME, .host = git->host, .port_first = git->port, .port_last = git->port
        };
        uint32_t one;

        if (git->host.kind == HOST_ADDR) {
                pattern.kind = PATTERN_NET;
                pattern.net = (struct cidr){ git->host.addr, (uint8_t)addr_bits(&git->host.addr) };
        }

        int r = texts_add_all(builder, &git->path, 1, &entry.path, &one, err);
        if (r < 0)
                return r;

        r = texts_add_all(builder, git->refs, git->n_refs, &entry.first_ref, &entry.n_refs, err);
        if (r < 0)
                return r;
        if (vec_push(&builder->gits, entry) < 0)
                return no_memory(err);

        return rule_add(builder, LIST_GIT, &pattern, str_first(git->text, PATTERN_TEXT_MAX), origin,
                        (uint32_t)(builder->gits.n - 1), err);
}

int snapshot_add_kept(struct snapshot_builder *builder, enum rule_list list, const struct pattern *pattern,
                      struct str text, struct str origin, struct err *err) {
        if (list != LIST_REACH && list != LIST_KEPT && list != LIST_KEPT_ASK)
                return err_set(err, EINVAL, "this list belongs to no ratchet");
        return rule_add(builder, list, pattern, str_first(text, PATTERN_TEXT_MAX), origin, BLOCK_NONE, err);
}

int snapshot_add_ratchet(struct snapshot_builder *builder, enum rule_list list, struct str text, struct str say,
                         struct str origin, struct err *err) {
        const struct pattern any = { .kind = PATTERN_ANY, .port_first = 1, .port_last = UINT16_MAX };
        uint32_t at = (uint32_t)builder->texts.n;

        if (list != LIST_RATCHET && list != LIST_RATCHET_ASK)
                return err_set(err, EINVAL, "this list holds no ratchets");
        if (text_add(builder, str_first(say, PATTERN_TEXT_MAX)) < 0)
                return no_memory(err);

        return rule_add(builder, list, &any, text, origin, at, err);
}

void snapshot_narrow(struct snapshot_builder *builder, unsigned n_closed, bool no_credentials) {
        builder->header.narrowed = (uint8_t)n_closed;
        builder->header.no_credentials = no_credentials;
}

static int add_net(struct snapshot_builder *builder, enum rule_list list, const struct cidr *net, uint16_t port,
                   struct str origin, struct err *err) {
        char text[CIDR_TEXT_MAX];
        struct pattern pattern = { .kind = PATTERN_NET, .net = *net, .port_first = 1, .port_last = UINT16_MAX };

        if (net->addr.family != ADDR_V4 && net->addr.family != ADDR_V6)
                return err_set(err, EINVAL, "not an address");
        if (port)
                pattern.port_first = pattern.port_last = port;

        cidr_text(net, text);
        return rule_add(builder, list, &pattern, str_of(text), origin, BLOCK_NONE, err);
}

int snapshot_add_self(struct snapshot_builder *builder, const struct addr *addr, uint16_t port, struct err *err) {
        struct cidr net = { *addr, (uint8_t)addr_bits(addr) };
        if (port)
                return add_net(builder, LIST_LISTENER, &net, port, STR("a listener of Bailey"), err);

        return add_net(builder, LIST_OWN, &net, 0, STR("an address of this host"), err);
}

int snapshot_set_deny_cidrs(struct snapshot_builder *builder, const struct cidr *nets, size_t n, struct str origin,
                            struct err *err) {
        builder->header.default_classes = false;

        for (size_t i = 0; i < n; i++) {
                int r = add_net(builder, LIST_REFUSED, &nets[i], 0, origin, err);
                if (r < 0)
                        return r;
        }

        return 0;
}

/* --- layout --- */

struct layout {
        struct block_header *header; /* the block's start */
        struct block_rule *rules;
        uint32_t n_rules; /* written so far */
};

static int compare_rules(const void *a, const void *b) {
        const struct block_rule *left = a, *right = b;
        if (left->list != right->list)
                return left->list < right->list ? -1 : 1;
        if (left->port_first != right->port_first)
                return left->port_first < right->port_first ? -1 : 1;
        if (left->port_last != right->port_last)
                return left->port_last < right->port_last ? -1 : 1;
        if (left->request != right->request)
                return left->request < right->request ? -1 : 1;

        if (left->text_at < right->text_at)
                return -1;

        return left->text_at > right->text_at; /* the order of adding */
}

/* Takes a run of rules that lies at or behind the end of those settled so far, sorts it, drops repetitions and puts it
 * at that end. Returns how many stay. */
static uint32_t settle_run(struct layout *layout, struct block_rule *run, uint32_t n) {
        struct block_rule *kept = layout->rules + layout->n_rules;
        uint32_t count = 0;

        if (n > 1)
                qsort(run, n, sizeof *run, compare_rules);

        for (uint32_t i = 0; i < n; i++) {
                const struct block_rule *last = count ? &kept[count - 1] : NULL;
                if (last && last->list == run[i].list && last->port_first == run[i].port_first &&
                    last->port_last == run[i].port_last && last->request == run[i].request)
                        continue;
                kept[count++] = run[i];
        }

        layout->n_rules += count;
        return count;
}

static size_t build_align8(size_t n) {
        return (n + 7) & ~(size_t)7;
}

static void *layout_section(const struct layout *layout, enum block_section_kind kind) {
        return (char *)layout->header + layout->header->sections[kind].at;
}

static int layout_new(const struct snapshot_builder *builder, const size_t counts[static SECTIONS],
                      struct layout *ret) {
        struct block_header header = builder->header;
        size_t at = build_align8(sizeof header);

        for (int i = 0; i < SECTIONS; i++) {
                header.sections[i] = (struct block_section){ at, counts[i] };
                at = build_align8(at + counts[i] * block_section_sizes[i]);
        }

        header.size = at;
        struct layout layout = { .header = calloc(1, at) };
        if (!layout.header)
                return -ENOMEM;

        *layout.header = header;
        layout.rules = layout_section(&layout, SECTION_RULES);
        *ret = layout;

        return 0;
}

/* Rules of one name end up side by side: a counting sort by name, in place. next has room for every name. */
static void layout_names(const struct snapshot_builder *builder, struct layout *layout, uint32_t *next) {
        struct block_entry *entries = layout_section(layout, SECTION_ENTRIES);
        size_t n_entries = layout->header->sections[SECTION_ENTRIES].n;
        uint32_t at = 0;

        for (size_t i = 0; i < builder->names.n; i++) {
                next[i] = at;
                at += builder->names.p[i].entry.n_rules;
        }

        for (size_t i = 0; i < builder->rules.n; i++)
                if (builder->rules.p[i].name != BLOCK_NONE)
                        layout->rules[next[builder->rules.p[i].name]++] = builder->rules.p[i].rule;

        for (size_t i = 0; i < builder->names.n; i++) {
                struct block_entry entry = builder->names.p[i].entry;
                struct block_rule *run = layout->rules + next[i] - entry.n_rules;

                entry.first_rule = layout->n_rules;
                entry.n_rules = (uint16_t)settle_run(layout, run, entry.n_rules);
                size_t place = block_home(builder->names.p[i].hash, n_entries);
                while (entries[place].name_n != 0)
                        place = place + 1 == n_entries ? 0 : place + 1;

                entries[place] = entry;
        }
}

static int compare_nets(const void *a, const void *b) {
        const struct net *left = a, *right = b;
        if (left->family != right->family)
                return left->family < right->family ? -1 : 1;
        if (left->key.high != right->key.high)
                return left->key.high < right->key.high ? -1 : 1;
        if (left->key.low != right->key.low)
                return left->key.low < right->key.low ? -1 : 1;
        if (left->bits != right->bits)
                return left->bits < right->bits ? -1 : 1;

        if (left->rule < right->rule)
                return -1;

        return left->rule > right->rule;
}

static bool same_net(const struct net *a, const struct net *b) {
        return a->family == b->family && a->bits == b->bits && a->key.high == b->key.high && a->key.low == b->key.low;
}

/* Networks of one family, from the sorted rules for them. */
static void layout_nets(const struct snapshot_builder *builder, struct layout *layout, const struct net *from, size_t n,
                        struct block_key *keys, struct block_net *nets) {
        size_t count = 0;
        for (size_t i = 0; i < n; count++) {
                uint32_t first = layout->n_rules, run = 0;
                size_t start = i;
                for (; i < n && same_net(&from[start], &from[i]); i++)
                        layout->rules[first + run++] = builder->rules.p[from[i].rule].rule;

                uint32_t parent = count > 0 ? (uint32_t)(count - 1) : BLOCK_NONE;
                while (parent != BLOCK_NONE && !block_key_shares(&keys[parent], &from[start].key, nets[parent].bits))
                        parent = nets[parent].parent;

                keys[count] = from[start].key;
                nets[count] = (struct block_net){ .parent = parent, .first_rule = first, .bits = from[start].bits };
                nets[count].n_rules = settle_run(layout, layout->rules + first, run);
        }
}

static void layout_any(const struct snapshot_builder *builder, struct layout *layout) {
        struct block_rule *run = layout->rules + layout->n_rules;

        for (size_t i = 0; i < builder->any.n; i++)
                run[i] = builder->rules.p[builder->any.p[i]].rule;
        layout->header->any_first = layout->n_rules;
        layout->header->any_n = settle_run(layout, run, (uint32_t)builder->any.n);
}

static size_t count_nets(const struct net *nets, size_t n) {
        size_t count = 0;
        for (size_t i = 0; i < n; i++)
                count += i == 0 || !same_net(&nets[i - 1], &nets[i]);
        return count;
}

static void layout_rest(const struct snapshot_builder *builder, struct layout *layout) {
        if (builder->requests.n)
                memcpy(layout_section(layout, SECTION_REQUESTS), builder->requests.p,
                       builder->requests.n * sizeof *builder->requests.p);

        if (builder->gits.n)
                memcpy(layout_section(layout, SECTION_GITS), builder->gits.p,
                       builder->gits.n * sizeof *builder->gits.p);

        if (builder->texts.n)
                memcpy(layout_section(layout, SECTION_TEXTS), builder->texts.p,
                       builder->texts.n * sizeof *builder->texts.p);

        if (builder->pool.n)
                memcpy(layout_section(layout, SECTION_POOL), builder->pool.p, builder->pool.n);

        layout->header->sections[SECTION_RULES].n = layout->n_rules; /* repetitions are gone */
}

int snapshot_build(struct snapshot_builder *builder, void **ret, size_t *ret_n, struct err *err) {
        cleanup(free_ptr) uint32_t *next = reallocarray(NULL, builder->names.n + 1, sizeof *next);
        struct layout layout;
        size_t n_v4 = 0;

        if (!next)
                return no_memory(err);
        if (builder->nets.n)
                qsort(builder->nets.p, builder->nets.n, sizeof *builder->nets.p, compare_nets);

        while (n_v4 < builder->nets.n && builder->nets.p[n_v4].family == ADDR_V4)
                n_v4++;

        const struct net *v6 = builder->nets.n ? builder->nets.p + n_v4 : NULL;
        size_t count_v4 = count_nets(builder->nets.p, n_v4), count_v6 = count_nets(v6, builder->nets.n - n_v4);
        const size_t counts[SECTIONS] = {
                [SECTION_ENTRIES] = builder->names.n * 2 + 1,
                [SECTION_RULES] = builder->rules.n,
                [SECTION_KEYS_V4] = count_v4,
                [SECTION_NETS_V4] = count_v4,
                [SECTION_KEYS_V6] = count_v6,
                [SECTION_NETS_V6] = count_v6,
                [SECTION_REQUESTS] = builder->requests.n,
                [SECTION_GITS] = builder->gits.n,
                [SECTION_TEXTS] = builder->texts.n,
                [SECTION_POOL] = builder->pool.n,
        };
        if (layout_new(builder, counts, &layout) < 0)
                return no_memory(err);

        layout_names(builder, &layout, next);
        layout_nets(builder, &layout, builder->nets.p, n_v4, layout_section(&layout, SECTION_KEYS_V4),
                    layout_section(&layout, SECTION_NETS_V4));
        layout_nets(builder, &layout, v6, builder->nets.n - n_v4, layout_section(&layout, SECTION_KEYS_V6),
                    layout_section(&layout, SECTION_NETS_V6));
        layout_any(builder, &layout);
        layout_rest(builder, &layout);
        *ret = layout.header;
        *ret_n = layout.header->size;

        return 0;
}
