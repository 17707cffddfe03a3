/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening a block, and looking things up in it. The block may come from anywhere: nothing in it is used before
 * snapshot_open() has followed every offset and index once. After that, lookups are plain array reads without
 * allocation, and since nothing ever changes, any number of threads may make them.
 */
#include "policy/block_internal.h"

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

static int snapshot_damaged(struct err *err, const char *what) {
        return err_set(err, EBADMSG, "the policy snapshot is damaged: %s", what);
}

static bool section_ok(const struct block_header *header, enum block_section_kind kind) {
        const struct block_section *section = &header->sections[kind];
        return section->n < BLOCK_NONE && section->at % 8 == 0 && section->at <= header->size &&
               section->n <= (header->size - section->at) / block_section_sizes[kind];
}

static const void *section_at(const struct block_header *header, enum block_section_kind kind) {
        return (const char *)header + header->sections[kind].at;
}

static int open_sections(const void *bytes, size_t n, struct snapshot *snapshot, struct err *err) {
        const struct block_header *header = bytes;
        if ((uintptr_t)bytes % 8 != 0 || n < sizeof *header)
                return snapshot_damaged(err, "too short");
        if (memcmp(header->magic, BLOCK_MAGIC, sizeof header->magic) != 0)
                return snapshot_damaged(err, "not a snapshot, or one of another version");
        if (header->size != n || header->mode >= NETWORK_MODES || header->ask > 1 || header->default_classes > 1)
                return snapshot_damaged(err, "bad header");

        for (int i = 0; i < SECTIONS; i++)
                if (!section_ok(header, i))
                        return snapshot_damaged(err, "a section lies outside");

        *snapshot = (struct snapshot){
                .header = header,
                .entries = section_at(header, SECTION_ENTRIES),
                .n_entries = header->sections[SECTION_ENTRIES].n,
                .rules = section_at(header, SECTION_RULES),
                .n_rules = header->sections[SECTION_RULES].n,
                .v4 = { .keys = section_at(header, SECTION_KEYS_V4),
                        .nets = section_at(header, SECTION_NETS_V4),
                        .n = header->sections[SECTION_KEYS_V4].n },
                .v6 = { .keys = section_at(header, SECTION_KEYS_V6),
                        .nets = section_at(header, SECTION_NETS_V6),
                        .n = header->sections[SECTION_KEYS_V6].n },
                .requests = section_at(header, SECTION_REQUESTS),
                .n_requests = header->sections[SECTION_REQUESTS].n,
                .gits = section_at(header, SECTION_GITS),
                .n_gits = header->sections[SECTION_GITS].n,
                .texts = section_at(header, SECTION_TEXTS),
                .n_texts = header->sections[SECTION_TEXTS].n,
                .pool = section_at(header, SECTION_POOL),
                .pool_n = header->sections[SECTION_POOL].n,
        };
        if (header->sections[SECTION_NETS_V4].n != snapshot->v4.n ||
            header->sections[SECTION_NETS_V6].n != snapshot->v6.n)
                return snapshot_damaged(err, "keys and networks differ in number");

        return 0;
}

static bool range_ok(uint64_t first, uint64_t n, uint64_t total) {
        return first <= total && n <= total - first;
}

static bool entries_ok(const struct snapshot *snapshot) {
        size_t used = 0;

        for (size_t i = 0; i < snapshot->n_entries; i++) {
                const struct block_entry *entry = &snapshot->entries[i];
                if (entry->name_n == 0)
                        continue;

                used++;

                if (entry->name_n > HOST_TEXT_MAX || entry->wildcard > 1 ||
                    !range_ok(entry->name_at, entry->name_n, snapshot->pool_n) ||
                    !range_ok(entry->first_rule, entry->n_rules, snapshot->n_rules))
                        return false;
        }

        return snapshot->n_entries > 0 && used <= snapshot->n_entries / 2; /* empty places end every search */
}

/* What a rule points to beside its own text. */
static bool reference_ok(const struct snapshot *snapshot, const struct block_rule *rule) {
        if (rule->list == LIST_GIT)
                return rule->request < snapshot->n_gits;
        return rule->request == BLOCK_NONE ||
               rule->request < (block_list_refuses(rule->list) ? snapshot->n_texts : snapshot->n_requests);
}

static bool requests_ok(const struct snapshot *snapshot) {
        for (size_t i = 0; i < snapshot->n_requests; i++) {
                const struct block_request *request = &snapshot->requests[i];
                if (!range_ok(request->first_method, request->n_methods, snapshot->n_texts) ||
                    !range_ok(request->first_path, request->n_paths, snapshot->n_texts) ||
                    !range_ok(request->first_query, request->n_queries, snapshot->n_texts) ||
                    !range_ok(request->first_mutation, request->n_mutations, snapshot->n_texts) || request->graphql > 1)
                        return false;
        }

        return true;
}

static bool gits_ok(const struct snapshot *snapshot) {
        for (size_t i = 0; i < snapshot->n_gits; i++) {
                const struct block_git *git = &snapshot->gits[i];
                if (git->path >= snapshot->n_texts || !range_ok(git->first_ref, git->n_refs, snapshot->n_texts) ||
                    git->flags > BLOCK_GIT_FLAGS)
                        return false;
        }
        return true;
}

static bool rules_ok(const struct snapshot *snapshot) {
        for (size_t i = 0; i < snapshot->n_rules; i++) {
                const struct block_rule *rule = &snapshot->rules[i];
                if (rule->list >= LISTS || rule->origin >= snapshot->n_texts || rule->port_first == 0 ||
                    rule->port_first > rule->port_last || !range_ok(rule->text_at, rule->text_n, snapshot->pool_n) ||
                    !reference_ok(snapshot, rule))
                        return false;
        }

        if (!requests_ok(snapshot) || !gits_ok(snapshot))
                return false;

        for (size_t i = 0; i < snapshot->n_texts; i++)
                if (!range_ok(snapshot->texts[i].at, snapshot->texts[i].n, snapshot->pool_n))
                        return false;

        return true;
}

static int key_compare(const struct block_key *key, const struct block_key *block_key) {
        if (key->high != block_key->high)
                return key->high < block_key->high ? -1 : 1;
        if (key->low == block_key->low)
                return 0;

        if (key->low < block_key->low)
                return -1;

        return 1;
}

static bool nets_ok(const struct snapshot *snapshot, const struct block_nets *nets, unsigned max_bits) {
        for (size_t i = 0; i < nets->n; i++) {
                const struct block_net *net = &nets->nets[i];
                if (net->bits > max_bits || !range_ok(net->first_rule, net->n_rules, snapshot->n_rules))
                        return false;

                if (i > 0) {
                        int order = key_compare(&nets->keys[i - 1], &nets->keys[i]);
                        if (order > 0 || (order == 0 && nets->nets[i - 1].bits >= net->bits))
                                return false;
                }

                /* Parents come before their children, so every walk upwards ends. */
                if (net->parent != BLOCK_NONE &&
                    (net->parent >= i || nets->nets[net->parent].bits >= net->bits ||
                     !block_key_shares(&nets->keys[net->parent], &nets->keys[i], nets->nets[net->parent].bits)))
                        return false;
        }

        return true;
}

static size_t count_fences(const struct block_nets *nets) {
        return (nets->n + BLOCK_RUN - 1) / BLOCK_RUN;
}

static struct block_key *put_fences(struct block_nets *nets, struct block_key *at) {
        nets->fences = at;
        for (size_t i = 0; i < nets->n; i += BLOCK_RUN)
                *at++ = nets->keys[i];
        return at;
}

int snapshot_open(const void *bytes, size_t n, struct snapshot **ret, struct err *err) {
        struct snapshot snapshot;
        int r = open_sections(bytes, n, &snapshot, err);
        if (r < 0)
                return r;
        if (!rules_ok(&snapshot) || !range_ok(snapshot.header->any_first, snapshot.header->any_n, snapshot.n_rules))
                return snapshot_damaged(err, "a rule points outside");
        if (!entries_ok(&snapshot))
                return snapshot_damaged(err, "the table of names is not sound");
        if (!nets_ok(&snapshot, &snapshot.v4, 32) || !nets_ok(&snapshot, &snapshot.v6, 128))
                return snapshot_damaged(err, "the networks are not in order");

        size_t n_fences = count_fences(&snapshot.v4) + count_fences(&snapshot.v6);
        struct snapshot *copy = malloc(sizeof *copy + n_fences * sizeof copy->fences[0]);
        if (!copy)
                return err_memory(err);

        *copy = snapshot;
        put_fences(&copy->v6, put_fences(&copy->v4, copy->fences));
        *ret = copy;

        return 0;
}

int snapshot_open_fd(int fd, struct snapshot **ret, struct err *err) {
        struct str mapped;
        int r = fd_map_sealed(fd, "the policy snapshot", SIZE_MAX, &mapped, err);
        if (r == -EMSGSIZE)
                return snapshot_damaged(err, "empty");
        if (r < 0)
                return r;

        r = snapshot_open(mapped.p, mapped.n, ret, err);
        if (r < 0) {
                munmap((void *)(uintptr_t)mapped.p, mapped.n);
                return r;
        }

        (*ret)->mapped = (void *)(uintptr_t)mapped.p;
        return 0;
}

void snapshot_close(struct snapshot *snapshot) {
        if (!snapshot)
                return;
        if (snapshot->mapped)
                munmap(snapshot->mapped, snapshot->header->size);
        free(snapshot);
}

void snapshot_closep(struct snapshot **snapshot) {
        snapshot_close(*snapshot);
}

bool snapshot_rule(const struct snapshot *snapshot, uint32_t index, struct snapshot_rule *ret) {
        if (index >= snapshot->n_rules)
                return false;

        const struct block_rule *rule = &snapshot->rules[index];
        const struct block_text *origin = &snapshot->texts[rule->origin];
        *ret = (struct snapshot_rule){
                .text = str_n(snapshot->pool + rule->text_at, rule->text_n),
                .origin = str_n(snapshot->pool + origin->at, origin->n),
                .list = rule->list,
        };

        if (block_list_refuses(rule->list) && rule->request != BLOCK_NONE)
                ret->reason =
                    str_n(snapshot->pool + snapshot->texts[rule->request].at, snapshot->texts[rule->request].n);

        return true;
}

static int say_texts(const struct snapshot *snapshot, uint32_t first, uint32_t n, const char *none, struct buf *ret) {
        int r = 0;

        if (n <= 0)
                r = buf_printf(ret, "%s", none);

        for (uint32_t i = 0; r == 0 && i < n; i++) {
                const struct block_text *text = &snapshot->texts[first + i];
                r = buf_printf(ret, "%s%.*s", i ? ", " : "", (int)text->n, snapshot->pool + text->at);
        }

        return r;
}

int snapshot_say_graphql(const struct snapshot *snapshot, uint32_t index, struct buf *ret) {
        const struct block_rule *rule = index < snapshot->n_rules ? &snapshot->rules[index] : NULL;
        int r;

        if (!rule || rule->list != LIST_ALLOW || rule->request == BLOCK_NONE ||
            !snapshot->requests[rule->request].graphql)
                return 0;

        const struct block_request *request = &snapshot->requests[rule->request];
        r = say_texts(snapshot, request->first_path, request->n_paths, "any path", ret);
        if (r == 0)
                r = buf_printf(ret, ": queries ");
        if (r == 0)
                r = say_texts(snapshot, request->first_query, request->n_queries, "none", ret);
        if (r == 0)
                r = buf_printf(ret, "; mutations ");
        if (r == 0)
                r = say_texts(snapshot, request->first_mutation, request->n_mutations, "none", ret);

        return r;
}

size_t snapshot_rule_count(const struct snapshot *snapshot) {
        return snapshot->n_rules;
}

bool snapshot_takes_credentials(const struct snapshot *snapshot) {
        return snapshot->header->no_credentials;
}

enum network_mode snapshot_mode(const struct snapshot *snapshot) {
        return snapshot->header->mode;
}

/* --- looking up --- */

struct block_key block_key_of(const struct addr *addr) {
        uint64_t words[2] = { 0 };
        memcpy(words, addr->bytes, addr_bits(addr) / 8);
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

/* Adds the rules of one name or network. Called from the most specific to the least: earlier results stay. */
static void match_run(const struct snapshot *snapshot, uint32_t first, uint32_t n, uint16_t port, bool exact,
                      struct match *match) {
        bool allow_is_open = match->rule[LIST_ALLOW] == RULE_NONE;

        for (uint32_t i = first; i < first + n; i++) {
                const struct block_rule *rule = &snapshot->rules[i];
                if (rule->list == LIST_GIT && !match->git) {
                        match->git = true;
                        match->first_git = first;
                        match->n_git = n;
                }

                bool narrows =
                    rule->list == LIST_ALLOW && rule->request != BLOCK_NONE && allow_is_open && !match->needs_request;
                if ((match->rule[rule->list] != RULE_NONE && !narrows) || !block_rule_covers(rule, port))
                        continue;

                match->rule[rule->list] = i;
                if (rule->list == LIST_ALLOW_PRIVATE)
                        match->private_is_exact = exact;

                if (rule->list == LIST_ALLOW) {
                        match->needs_request = rule->request != BLOCK_NONE;
                        match->first_rule = first;
                        match->n_rules = n;
                }
        }
}

/* Rules for any host are the least specific ones, and only refuse. */
static void match_any(const struct snapshot *snapshot, uint16_t port, struct match *match) {
        if (match->rule[LIST_DENY] == RULE_NONE && snapshot->header->any_n > 0)
                match_run(snapshot, snapshot->header->any_first, snapshot->header->any_n, port, false, match);
}

static void match_init(struct match *match) {
        *match = (struct match){ 0 };
        for (int i = 0; i < LISTS; i++)
                match->rule[i] = RULE_NONE;
}

static const struct block_entry *find_entry(const struct snapshot *snapshot, uint64_t hash, struct str name,
                                            bool wildcard) {
        const struct block_entry *entry = &snapshot->entries[block_home(hash, snapshot->n_entries)],
                                 *end = snapshot->entries + snapshot->n_entries;
        for (; entry->name_n != 0; entry = entry + 1 == end ? snapshot->entries : entry + 1) {
                if (entry->tag != (uint32_t)hash || entry->name_n != name.n || entry->wildcard != wildcard)
                        continue;
                __builtin_prefetch(&snapshot->rules[entry->first_rule]); /* comes from memory together with the name */
                if (memcmp(snapshot->pool + entry->name_at, name.p, name.n) == 0)
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
static size_t find_candidates(const struct snapshot *snapshot, const struct host *host,
                              struct candidate ret[static LABELS_MAX]) {
        const struct block_header *header = snapshot->header;
        size_t n = 0, depth = 0;
        uint64_t hash = header->seed[0];

        for (size_t end = host->name_n; end > 0 && depth < LABELS_MAX;) {
                size_t start = end;
                while (start > 0 && host->name[start - 1] != '.')
                        start--;

                if (start == end)
                        return 0; /* not a canonical name: it matches nothing */

                hash = block_hash_label(header->seed, hash, host->name + start, end - start);
                bool wildcard = start > 0;
                if (block_depth_has(wildcard ? header->wildcard_depths : header->name_depths, ++depth)) {
                        ret[n] = (struct candidate){ block_hash_kind(hash, wildcard), start, wildcard };
                        __builtin_prefetch(&snapshot->entries[block_home(ret[n++].hash, snapshot->n_entries)]);
                }

                end = start > 0 ? start - 1 : 0;
        }

        return n;
}

void snapshot_match_name(const struct snapshot *snapshot, const struct host *host, uint16_t port, struct match *ret) {
        __attribute__((uninitialized)) struct candidate candidates[LABELS_MAX]; /* 3 KiB that nobody needs to clear */

        match_init(ret);

        for (size_t i = find_candidates(snapshot, host, candidates); i-- > 0 && ret->rule[LIST_DENY] == RULE_NONE;) {
                const struct candidate *candidate = &candidates[i];
                struct str suffix = str_n(host->name + candidate->start, host->name_n - candidate->start);
                const struct block_entry *entry = find_entry(snapshot, candidate->hash, suffix, candidate->wildcard);
                if (entry)
                        match_run(snapshot, entry->first_rule, entry->n_rules, port, !candidate->wildcard, ret);
        }

        match_any(snapshot, port, ret);
}

/* The last of n keys that is not behind the wanted one, or the first where all are behind it. Has no branches on the
 * keys: they would be unpredictable. */
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
static uint32_t last_at_or_before(const struct block_nets *nets, const struct block_key *key) {
        if (nets->n == 0)
                return BLOCK_NONE;

        size_t first = (size_t)(last_not_behind(nets->fences, count_fences(nets), key) - nets->fences) * BLOCK_RUN;
        size_t run = nets->n - first < BLOCK_RUN ? nets->n - first : BLOCK_RUN;
        enum { LINE = 64 / sizeof(struct block_key) };

        for (size_t i = 0; i < run; i += LINE) { /* all of the run comes from memory at the same time */
                __builtin_prefetch(&nets->keys[first + i]);
                __builtin_prefetch(&nets->nets[first + i]);
        }

        const struct block_key *found = last_not_behind(nets->keys + first, run, key);
        return key_compare(found, key) <= 0 ? (uint32_t)(found - nets->keys) : BLOCK_NONE;
}
_Static_assert(sizeof(struct block_net) == sizeof(struct block_key), "as many networks as keys in a line");

void snapshot_match_addr(const struct snapshot *snapshot, const struct addr *addr, uint16_t port, struct match *ret) {
        const struct block_nets *nets = addr->family == ADDR_V4 ? &snapshot->v4 : &snapshot->v6;
        struct block_key key = block_key_of(addr);

        match_init(ret);

        for (uint32_t i = last_at_or_before(nets, &key); i != BLOCK_NONE; i = nets->nets[i].parent)
                if (block_key_shares(&nets->keys[i], &key, nets->nets[i].bits))
                        match_run(snapshot, nets->nets[i].first_rule, nets->nets[i].n_rules, port,
                                  nets->nets[i].bits == addr_bits(addr), ret);

        match_any(snapshot, port, ret);
}
