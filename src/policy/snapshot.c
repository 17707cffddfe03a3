/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening a block, and looking things up in it. The block may come from anywhere: nothing in it is used before
 * snapshot_open() has followed every offset and index once. After that, lookups are plain array reads without
 * allocation, and since nothing ever changes, any number of threads may make them.
 */
#include "policy/block.h"

#include "base/cleanup.h"
#include "base/fd.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

/* --- opening --- */

const uint32_t block_section_sizes[SECTIONS] = {
        [SECTION_ENTRIES] = sizeof(struct block_entry),    [SECTION_RULES] = sizeof(struct block_rule),
        [SECTION_KEYS_V4] = sizeof(struct block_key),      [SECTION_NETS_V4] = sizeof(struct block_net),
        [SECTION_KEYS_V6] = sizeof(struct block_key),      [SECTION_NETS_V6] = sizeof(struct block_net),
        [SECTION_REQUESTS] = sizeof(struct block_request), [SECTION_GITS] = sizeof(struct block_git),
        [SECTION_TEXTS] = sizeof(struct block_text),       [SECTION_POOL] = 1,
};

static int damaged(struct err *e, const char *what) {
        return err_set(e, EBADMSG, "the policy snapshot is damaged: %s", what);
}

static bool section_ok(const struct block_header *h, enum block_section_kind kind) {
        const struct block_section *section = &h->sections[kind];
        return section->n < BLOCK_NONE && section->at % 8 == 0 && section->at <= h->size &&
               section->n <= (h->size - section->at) / block_section_sizes[kind];
}

static const void *section_at(const struct block_header *h, enum block_section_kind kind) {
        return (const char *)h + h->sections[kind].at;
}

static int open_sections(const void *bytes, size_t n, struct snapshot *s, struct err *e) {
        const struct block_header *h = bytes;
        if ((uintptr_t)bytes % 8 != 0 || n < sizeof *h)
                return damaged(e, "too short");
        if (memcmp(h->magic, BLOCK_MAGIC, sizeof h->magic) != 0)
                return damaged(e, "not a snapshot, or one of another version");
        if (h->size != n || h->mode >= NETWORK_MODES || h->ask > 1 || h->default_classes > 1)
                return damaged(e, "bad header");
        for (int i = 0; i < SECTIONS; i++)
                if (!section_ok(h, i))
                        return damaged(e, "a section lies outside");
        *s = (struct snapshot){
                .header = h,
                .entries = section_at(h, SECTION_ENTRIES),
                .n_entries = h->sections[SECTION_ENTRIES].n,
                .rules = section_at(h, SECTION_RULES),
                .n_rules = h->sections[SECTION_RULES].n,
                .v4 = { .keys = section_at(h, SECTION_KEYS_V4),
                        .nets = section_at(h, SECTION_NETS_V4),
                        .n = h->sections[SECTION_KEYS_V4].n },
                .v6 = { .keys = section_at(h, SECTION_KEYS_V6),
                        .nets = section_at(h, SECTION_NETS_V6),
                        .n = h->sections[SECTION_KEYS_V6].n },
                .requests = section_at(h, SECTION_REQUESTS),
                .n_requests = h->sections[SECTION_REQUESTS].n,
                .gits = section_at(h, SECTION_GITS),
                .n_gits = h->sections[SECTION_GITS].n,
                .texts = section_at(h, SECTION_TEXTS),
                .n_texts = h->sections[SECTION_TEXTS].n,
                .pool = section_at(h, SECTION_POOL),
                .pool_n = h->sections[SECTION_POOL].n,
        };
        if (h->sections[SECTION_NETS_V4].n != s->v4.n || h->sections[SECTION_NETS_V6].n != s->v6.n)
                return damaged(e, "keys and networks differ in number");
        return 0;
}

static bool range_ok(uint64_t first, uint64_t n, uint64_t total) {
        return first <= total && n <= total - first;
}

static bool entries_ok(const struct snapshot *s) {
        size_t used = 0;
        for (size_t i = 0; i < s->n_entries; i++) {
                const struct block_entry *entry = &s->entries[i];
                if (entry->name_n == 0)
                        continue;
                used++;
                if (entry->name_n > HOST_TEXT_MAX || entry->wildcard > 1 ||
                    !range_ok(entry->name_at, entry->name_n, s->pool_n) ||
                    !range_ok(entry->first_rule, entry->n_rules, s->n_rules))
                        return false;
        }
        return s->n_entries > 0 && used <= s->n_entries / 2; /* empty places end every search */
}

/* What a rule points to beside its own text. */
static bool reference_ok(const struct snapshot *s, const struct block_rule *rule) {
        if (rule->list == LIST_GIT)
                return rule->request < s->n_gits;
        return rule->request == BLOCK_NONE ||
               rule->request < (block_list_refuses(rule->list) ? s->n_texts : s->n_requests);
}

static bool requests_ok(const struct snapshot *s) {
        for (size_t i = 0; i < s->n_requests; i++) {
                const struct block_request *request = &s->requests[i];
                if (!range_ok(request->first_method, request->n_methods, s->n_texts) ||
                    !range_ok(request->first_path, request->n_paths, s->n_texts) ||
                    !range_ok(request->first_query, request->n_queries, s->n_texts) ||
                    !range_ok(request->first_mutation, request->n_mutations, s->n_texts) || request->graphql > 1)
                        return false;
        }
        return true;
}

static bool gits_ok(const struct snapshot *s) {
        for (size_t i = 0; i < s->n_gits; i++) {
                const struct block_git *git = &s->gits[i];
                if (git->path >= s->n_texts || !range_ok(git->first_ref, git->n_refs, s->n_texts) ||
                    git->flags > BLOCK_GIT_FLAGS)
                        return false;
        }
        return true;
}

static bool rules_ok(const struct snapshot *s) {
        for (size_t i = 0; i < s->n_rules; i++) {
                const struct block_rule *rule = &s->rules[i];
                if (rule->list >= LISTS || rule->origin >= s->n_texts || rule->port_first == 0 ||
                    rule->port_first > rule->port_last || !range_ok(rule->text_at, rule->text_n, s->pool_n) ||
                    !reference_ok(s, rule))
                        return false;
        }
        if (!requests_ok(s) || !gits_ok(s))
                return false;
        for (size_t i = 0; i < s->n_texts; i++)
                if (!range_ok(s->texts[i].at, s->texts[i].n, s->pool_n))
                        return false;
        return true;
}

static int key_compare(const struct block_key *a, const struct block_key *b) {
        if (a->high != b->high)
                return a->high < b->high ? -1 : 1;
        return a->low == b->low ? 0 : a->low < b->low ? -1 : 1;
}

static bool nets_ok(const struct snapshot *s, const struct block_nets *t, unsigned max_bits) {
        for (size_t i = 0; i < t->n; i++) {
                const struct block_net *net = &t->nets[i];
                if (net->bits > max_bits || !range_ok(net->first_rule, net->n_rules, s->n_rules))
                        return false;
                if (i > 0) {
                        int order = key_compare(&t->keys[i - 1], &t->keys[i]);
                        if (order > 0 || (order == 0 && t->nets[i - 1].bits >= net->bits))
                                return false;
                }
                /* Parents come before their children, so every walk upwards ends. */
                if (net->parent != BLOCK_NONE &&
                    (net->parent >= i || t->nets[net->parent].bits >= net->bits ||
                     !block_key_shares(&t->keys[net->parent], &t->keys[i], t->nets[net->parent].bits)))
                        return false;
        }
        return true;
}

static size_t count_fences(const struct block_nets *t) {
        return (t->n + BLOCK_RUN - 1) / BLOCK_RUN;
}

static struct block_key *put_fences(struct block_nets *t, struct block_key *at) {
        t->fences = at;
        for (size_t i = 0; i < t->n; i += BLOCK_RUN)
                *at++ = t->keys[i];
        return at;
}

int snapshot_open(const void *bytes, size_t n, struct snapshot **ret, struct err *e) {
        struct snapshot s;
        int r = open_sections(bytes, n, &s, e);
        if (r < 0)
                return r;
        if (!rules_ok(&s) || !range_ok(s.header->any_first, s.header->any_n, s.n_rules))
                return damaged(e, "a rule points outside");
        if (!entries_ok(&s))
                return damaged(e, "the table of names is not sound");
        if (!nets_ok(&s, &s.v4, 32) || !nets_ok(&s, &s.v6, 128))
                return damaged(e, "the networks are not in order");
        size_t n_fences = count_fences(&s.v4) + count_fences(&s.v6);
        struct snapshot *copy = malloc(sizeof *copy + n_fences * sizeof copy->fences[0]);
        if (!copy)
                return err_memory(e);
        *copy = s;
        put_fences(&copy->v6, put_fences(&copy->v4, copy->fences));
        *ret = copy;
        return 0;
}

int snapshot_open_fd(int fd, struct snapshot **ret, struct err *e) {
        struct str mapped;
        int r = fd_map_sealed(fd, "the policy snapshot", SIZE_MAX, &mapped, e);
        if (r == -EMSGSIZE)
                return damaged(e, "empty");
        if (r < 0)
                return r;

        r = snapshot_open(mapped.p, mapped.n, ret, e);
        if (r < 0) {
                munmap((void *)(uintptr_t)mapped.p, mapped.n);
                return r;
        }
        (*ret)->mapped = (void *)(uintptr_t)mapped.p;
        return 0;
}

void snapshot_close(struct snapshot *s) {
        if (!s)
                return;
        if (s->mapped)
                munmap(s->mapped, s->header->size);
        free(s);
}

void snapshot_closep(struct snapshot **s) {
        snapshot_close(*s);
}

bool snapshot_rule(const struct snapshot *s, uint32_t index, struct snapshot_rule *ret) {
        if (index >= s->n_rules)
                return false;
        const struct block_rule *rule = &s->rules[index];
        const struct block_text *origin = &s->texts[rule->origin];
        *ret = (struct snapshot_rule){
                .text = str_n(s->pool + rule->text_at, rule->text_n),
                .origin = str_n(s->pool + origin->at, origin->n),
                .list = rule->list,
        };
        if (block_list_refuses(rule->list) && rule->request != BLOCK_NONE)
                ret->reason = str_n(s->pool + s->texts[rule->request].at, s->texts[rule->request].n);
        return true;
}

size_t snapshot_rule_count(const struct snapshot *s) {
        return s->n_rules;
}

bool snapshot_takes_credentials(const struct snapshot *s) {
        return s->header->no_credentials;
}

enum network_mode snapshot_mode(const struct snapshot *s) {
        return s->header->mode;
}

/* --- looking up --- */

struct block_key block_key_of(const struct addr *a) {
        uint64_t words[2] = { 0 };
        memcpy(words, a->bytes, addr_bits(a) / 8);
        return (struct block_key){ __builtin_bswap64(words[0]), __builtin_bswap64(words[1]) };
}
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "block_key_of() turns network order round");

bool block_rule_covers(const struct block_rule *rule, uint16_t port) {
        if (port != PORT_ANY)
                return port >= rule->port_first && port <= rule->port_last;
        bool grants = rule->list == LIST_ALLOW || rule->list == LIST_ALLOW_PRIVATE || rule->list == LIST_GIT;
        bool keeps = rule->list == LIST_KEPT || rule->list == LIST_KEPT_ASK || rule->list == LIST_REACH;
        return grants || keeps || (rule->port_first == 1 && rule->port_last == UINT16_MAX);
}

/* Adds what one name or network says. Called from the most specific to the least: what is there already stays. */
static void match_run(const struct snapshot *s, uint32_t first, uint32_t n, uint16_t port, bool exact,
                      struct match *m) {
        bool allow_is_open = m->rule[LIST_ALLOW] == RULE_NONE;
        for (uint32_t i = first; i < first + n; i++) {
                const struct block_rule *rule = &s->rules[i];
                if (rule->list == LIST_GIT && !m->git) {
                        m->git = true;
                        m->first_git = first;
                        m->n_git = n;
                }
                bool narrows =
                    rule->list == LIST_ALLOW && rule->request != BLOCK_NONE && allow_is_open && !m->needs_request;
                if ((m->rule[rule->list] != RULE_NONE && !narrows) || !block_rule_covers(rule, port))
                        continue;
                m->rule[rule->list] = i;
                if (rule->list == LIST_ALLOW_PRIVATE)
                        m->private_is_exact = exact;
                if (rule->list == LIST_ALLOW) {
                        m->needs_request = rule->request != BLOCK_NONE;
                        m->first_rule = first;
                        m->n_rules = n;
                }
        }
}

/* Rules for any host are the least specific ones, and only refuse. */
static void match_any(const struct snapshot *s, uint16_t port, struct match *m) {
        if (m->rule[LIST_DENY] == RULE_NONE && s->header->any_n > 0)
                match_run(s, s->header->any_first, s->header->any_n, port, false, m);
}

static void match_init(struct match *m) {
        *m = (struct match){ 0 };
        for (int i = 0; i < LISTS; i++)
                m->rule[i] = RULE_NONE;
}

static const struct block_entry *find_entry(const struct snapshot *s, uint64_t hash, struct str name, bool wildcard) {
        const struct block_entry *entry = &s->entries[block_home(hash, s->n_entries)], *end = s->entries + s->n_entries;
        for (; entry->name_n != 0; entry = entry + 1 == end ? s->entries : entry + 1) {
                if (entry->tag != (uint32_t)hash || entry->name_n != name.n || entry->wildcard != wildcard)
                        continue;
                __builtin_prefetch(&s->rules[entry->first_rule]); /* comes from memory together with the name */
                if (memcmp(s->pool + entry->name_at, name.p, name.n) == 0)
                        return entry;
        }
        return NULL;
}

enum { LABELS_MAX = (HOST_TEXT_MAX + 1) / 2 };

struct candidate { /* a suffix worth a search */
        uint64_t hash;
        size_t start;
        bool wildcard;
};

/* The shortest suffix first, the whole name last. Returns how many. */
static size_t find_candidates(const struct snapshot *s, const struct host *host,
                              struct candidate ret[static LABELS_MAX]) {
        const struct block_header *h = s->header;
        size_t n = 0, depth = 0;
        uint64_t hash = h->seed[0];
        for (size_t end = host->name_n; end > 0 && depth < LABELS_MAX;) {
                size_t start = end;
                while (start > 0 && host->name[start - 1] != '.')
                        start--;
                if (start == end)
                        return 0; /* not a canonical name: it matches nothing */
                hash = block_hash_label(h->seed, hash, host->name + start, end - start);
                bool wildcard = start > 0;
                if (block_depth_has(wildcard ? h->wildcard_depths : h->name_depths, ++depth)) {
                        ret[n] = (struct candidate){ block_hash_kind(hash, wildcard), start, wildcard };
                        __builtin_prefetch(&s->entries[block_home(ret[n++].hash, s->n_entries)]);
                }
                end = start > 0 ? start - 1 : 0;
        }
        return n;
}

void snapshot_match_name(const struct snapshot *s, const struct host *host, uint16_t port, struct match *ret) {
        __attribute__((uninitialized)) struct candidate candidates[LABELS_MAX]; /* 3 KiB that nobody needs to clear */
        match_init(ret);
        for (size_t i = find_candidates(s, host, candidates); i-- > 0 && ret->rule[LIST_DENY] == RULE_NONE;) {
                const struct candidate *c = &candidates[i];
                struct str suffix = str_n(host->name + c->start, host->name_n - c->start);
                const struct block_entry *entry = find_entry(s, c->hash, suffix, c->wildcard);
                if (entry)
                        match_run(s, entry->first_rule, entry->n_rules, port, !c->wildcard, ret);
        }
        match_any(s, port, ret);
}

/* The last of n keys that is not behind the wanted one, or the first where all are behind it. Without branches on the
 * keys, which nobody can predict. */
static const struct block_key *last_not_behind(const struct block_key *base, size_t n, const struct block_key *key) {
        while (n > 1) {
                size_t half = n / 2;
                bool after =
                    (base[half].high < key->high) | ((base[half].high == key->high) & (base[half].low <= key->low));
                base += after ? half : 0;
                n -= half;
        }
        return base;
}

/* The index of the last network that starts at or before the key, or BLOCK_NONE. */
static uint32_t last_at_or_before(const struct block_nets *t, const struct block_key *key) {
        if (t->n == 0)
                return BLOCK_NONE;
        size_t first = (size_t)(last_not_behind(t->fences, count_fences(t), key) - t->fences) * BLOCK_RUN;
        size_t run = t->n - first < BLOCK_RUN ? t->n - first : BLOCK_RUN;
        enum { LINE = 64 / sizeof(struct block_key) };
        for (size_t i = 0; i < run; i += LINE) { /* all of the run comes from memory at the same time */
                __builtin_prefetch(&t->keys[first + i]);
                __builtin_prefetch(&t->nets[first + i]);
        }
        const struct block_key *found = last_not_behind(t->keys + first, run, key);
        return key_compare(found, key) <= 0 ? (uint32_t)(found - t->keys) : BLOCK_NONE;
}
_Static_assert(sizeof(struct block_net) == sizeof(struct block_key), "as many networks as keys in a line");

void snapshot_match_addr(const struct snapshot *s, const struct addr *addr, uint16_t port, struct match *ret) {
        const struct block_nets *t = addr->family == ADDR_V4 ? &s->v4 : &s->v6;
        struct block_key key = block_key_of(addr);
        match_init(ret);
        for (uint32_t i = last_at_or_before(t, &key); i != BLOCK_NONE; i = t->nets[i].parent)
                if (block_key_shares(&t->keys[i], &key, t->nets[i].bits))
                        match_run(s, t->nets[i].first_rule, t->nets[i].n_rules, port,
                                  t->nets[i].bits == addr_bits(addr), ret);
        match_any(s, port, ret);
}
