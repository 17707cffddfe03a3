/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The internals of a snapshot: for policy/judge/snapshot_build.c, policy/judge/snapshot.c and policy/judge/verdict.c
 * only.
 *
 *   header | entries | rules | keys and nets of IPv4 | of IPv6 | requests | gits | texts | pool
 *
 * Names: `entries` is an open-addressing hash table, at most half full. An entry is a name or a wildcard's suffix and
 * owns a run of rules. The hash is taken label by label from the right, so that one pass over a name gives the hash of
 * each of its suffixes; depth bitmaps in the header say at which depths a wildcard exists at all, so most are not
 * looked up.
 *
 * Rules for any host are a run of their own, which is checked last.
 *
 * Addresses: networks sorted by start and length, each with the index of the next wider one around it. Binary search
 * finds the last network that starts at or before an address; only that one and those around it can contain the
 * address. To save cache misses, every BLOCK_RUNth key is copied into a small array (made when the block is opened, not
 * part of it): the rest is one run, fetched at once.
 *
 * All references are indices or offsets; every one is checked when the block is opened, so lookups need no checks.
 */
#include "policy/judge/snapshot.h"

#define BLOCK_MAGIC "BLYPOL02"
#define BLOCK_NONE UINT32_MAX

enum block_section_kind {
        SECTION_ENTRIES,
        SECTION_RULES,
        SECTION_KEYS_V4,
        SECTION_NETS_V4,
        SECTION_KEYS_V6,
        SECTION_NETS_V6,
        SECTION_REQUESTS,
        SECTION_GITS,
        SECTION_TEXTS,
        SECTION_POOL,
        SECTIONS
};

struct block_section {
        uint64_t at, n; /* offset in bytes from the block's start, multiple of 8; number of elements */
};

extern const uint32_t block_section_sizes[SECTIONS]; /* of one element, in bytes */

struct block_header {
        char magic[8];
        uint64_t size; /* of the whole block */
        uint64_t seed[2];
        uint64_t name_depths[2], wildcard_depths[2]; /* bit d: there is an entry of d labels */
        uint8_t mode, ask, default_classes;
        uint8_t narrowed;       /* how many ratchets have closed */
        uint8_t no_credentials; /* one of them took the credentials away */
        uint8_t unused[3];
        uint32_t any_first, any_n; /* the run of rules for any host: "*:22" */
        struct block_section sections[SECTIONS];
};

struct block_entry {
        uint32_t tag;     /* the hash's lower half */
        uint32_t name_at; /* in the pool */
        uint32_t first_rule;
        uint16_t n_rules;
        uint8_t name_n; /* 0: an empty place in the table */
        uint8_t wildcard;
};

struct block_rule {
        uint32_t text_at; /* in the pool */
        uint32_t origin;  /* index in texts */
        uint32_t
            request; /* index in requests; of LIST_GIT in gits; of a refusal, of its reason in texts; or BLOCK_NONE */
        uint16_t text_n, port_first, port_last;
        uint8_t list, unused;
};

struct block_key { /* an address, left-aligned: IPv4 in the upper 32 bits of `high` */
        uint64_t high, low;
};

struct block_net {
        uint32_t parent; /* a smaller index, or BLOCK_NONE */
        uint32_t first_rule, n_rules;
        uint8_t bits, unused[3];
};

struct block_request { /* ranges in texts; n 0 means any */
        uint32_t first_method, n_methods, first_path, n_paths;
        uint32_t first_query, n_queries, first_mutation, n_mutations; /* of a GraphQL rule: none means none */
        uint32_t graphql;                                             /* 1: requests are GraphQL's and judged as such */
};

enum {
        BLOCK_GIT_FETCH = 1,
        BLOCK_GIT_CREATE = 2,
        BLOCK_GIT_DELETE = 4,
        BLOCK_GIT_OPTIONS = 8,
        BLOCK_GIT_SIGNED = 16,
        BLOCK_GIT_ASK = 32,
        BLOCK_GIT_FLAGS = 63
};

struct block_git {                  /* an entry for repositories, in the order in which they are tried */
        uint32_t path;              /* pattern: index in texts */
        uint32_t first_ref, n_refs; /* patterns of refs that may be pushed: range in texts */
        uint32_t flags;
};

struct block_text {
        uint32_t at, n; /* in the pool */
};

enum { BLOCK_RUN = 32 }; /* keys; 8 cache lines */

struct block_nets {
        const struct block_key *keys;
        const struct block_net *nets;
        size_t n;
        const struct block_key *fences; /* keys[0], keys[BLOCK_RUN], ... */
};

struct snapshot {
        const struct block_header *header;
        const struct block_entry *entries;
        size_t n_entries; /* with the empty ones */
        const struct block_rule *rules;
        size_t n_rules;
        struct block_nets v4, v6;
        const struct block_request *requests;
        size_t n_requests;
        const struct block_git *gits;
        size_t n_gits;
        const struct block_text *texts;
        size_t n_texts;
        const char *pool;
        size_t pool_n;
        void *mapped; /* by snapshot_open_fd */
        struct block_key fences[];
};

static inline uint64_t block_mix(uint64_t a, uint64_t b) {
        unsigned __int128 product = (unsigned __int128)a * b;
        return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint64_t block_tail(const char *p, size_t n) {
        uint32_t first, last;
        if (n < 4)
                return (uint64_t)(uint8_t)p[0] << 16 | (uint64_t)(uint8_t)p[n / 2] << 8 | (uint8_t)p[n - 1];
        memcpy(&first, p, 4);
        memcpy(&last, p + n - 4, 4);
        return (uint64_t)last << 32 | first;
}

/* Carries the hash of the labels to the right of this one over this label (1 to 63 bytes). */
static inline uint64_t block_hash_label(const uint64_t seed[static 2], uint64_t hash, const char *p, size_t n) {
        uint64_t length = (uint64_t)n << 32 | 1;
        for (; n > 8; p += 8, n -= 8) {
                uint64_t word;
                memcpy(&word, p, 8);
                hash = block_mix(hash ^ word, seed[1]);
        }
        return block_mix(hash ^ block_tail(p, n), seed[1] ^ length);
}

static inline uint64_t block_hash_kind(uint64_t hash, bool wildcard) {
        return wildcard ? hash ^ 0x9e3779b97f4a7c15ULL : hash;
}

/* Where in a table of n places the search begins. Any n, not only powers of two: memory follows the rules closely. */
static inline size_t block_home(uint64_t hash, size_t n) {
        return (size_t)(((hash >> 32) * (uint64_t)n) >> 32);
}

static inline bool block_depth_has(const uint64_t depths[static 2], size_t depth) {
        return depth < 128 && (depths[depth / 64] >> (depth % 64) & 1);
}

/* Whether the first `bits` bits of the two are the same. */
static inline bool block_key_shares(const struct block_key *a, const struct block_key *b, unsigned bits) {
        uint64_t high = a->high ^ b->high, low = a->low ^ b->low;
        if (bits < 64)
                return bits == 0 || high >> (64 - bits) == 0;
        return high == 0 && (bits == 64 || low >> (128 - bits) == 0);
}

struct block_key block_key_of(const struct addr *addr);

/* What a lookup found: for each list the most specific rule that covers host and port. */
struct match {
        uint32_t rule[LISTS];
        bool private_is_exact;        /* the allow_private rule names one address, not a network */
        bool needs_request;           /* the deciding allow rules have methods or paths */
        uint32_t first_rule, n_rules; /* the run of rules in which rule[LIST_ALLOW] was found */
        bool git;                     /* there are entries for repositories of this host, whatever the port */
        uint32_t first_git, n_git;    /* the run that holds them */
};

void snapshot_match_name(const struct snapshot *snapshot, const struct host *host, uint16_t port, struct match *ret);
void snapshot_match_addr(const struct snapshot *snapshot, const struct addr *addr, uint16_t port, struct match *ret);
/* Whether a rule of this list refuses, and may say why. */
static inline bool block_list_refuses(enum rule_list list) {
        return list == LIST_DENY || list == LIST_RATCHET || list == LIST_RATCHET_ASK;
}
bool block_rule_covers(const struct block_rule *rule, uint16_t port);
