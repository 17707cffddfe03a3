/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a verdict costs, and what a policy of that many rules costs to build and keep: at 100, 100,000 and 1,000,000
 * entries, half names and half wildcards, and the same for networks. Prints a table, and JSON with --json.
 *
 * Targets: at most 1 us for each lookup at every size, 100,000 rules built within 50 ms.
 */
#include "base/cleanup.h"
#include "base/clock.h"
#include "policy/judge/snapshot.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { ROUNDS = 7, QUESTIONS = 20000 };

enum question { HIT, WILDCARD_HIT, MISS, NET_HIT, NET_MISS, KINDS };
static const char *const kind_names[KINDS] = { "hit", "wildcard_hit", "miss", "net_hit", "net_miss" };

struct result {
        size_t entries;
        double build_ms, open_ms, bytes_per_rule, nets_build_ms, nets_bytes_per_rule;
        double ns[KINDS];
};

/* Spreads the questions over the whole table, so that the processor's caches do not answer them. */
static uint64_t scatter(uint64_t i) {
        i = (i ^ (i >> 31)) * 0x7fb5d329728ea185ULL;
        i = (i ^ (i >> 27)) * 0x81dadef4bc2dd44dULL;
        return i ^ (i >> 33);
}

static void name_text(char *ret, size_t n, uint64_t i, bool wildcard, const char *front) {
        snprintf(ret, n, "%s%08x.%s%llu.example%llu.com", front, (unsigned)scatter(i), wildcard ? "zone" : "host",
                 (unsigned long long)i, (unsigned long long)(i % 97));
}

/* Distinct networks in public space, of lengths 20 to 32, without one inside another. */
static void net_text(char *ret, size_t n, uint64_t i) {
        uint32_t a = 0x14000000U + (uint32_t)i * 64;
        snprintf(ret, n, "%u.%u.%u.%u/%u", a >> 24, a >> 16 & 255, a >> 8 & 255, a & 255,
                 26 + (unsigned)(scatter(i) % 7));
}

static _Noreturn void die(const char *what, const struct err *e) {
        fprintf(stderr, "policy_lookup: %s: %s\n", what, err_text(e));
        exit(1);
}

/* Processor time of this thread: what others do on the machine does not count. */
static uint64_t cpu_ns(void) {
        struct timespec t;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
        return (uint64_t)t.tv_sec * NS_PER_SECOND + (uint64_t)t.tv_nsec;
}

static double ms_since(uint64_t start) {
        return (double)(cpu_ns() - start) / 1e6;
}

/* The texts are made before the clock starts: reading a policy file is not part of this. */
static char *make_texts(size_t entries, bool nets, size_t each) {
        char *texts = calloc(entries, each);
        if (!texts)
                exit(1);
        for (size_t i = 0; i < entries; i++) {
                if (nets)
                        net_text(texts + i * each, each, i);
                else
                        name_text(texts + i * each, each, i, i % 2, i % 2 ? "*." : "");
        }
        return texts;
}

static struct snapshot *build(size_t entries, bool nets, void **ret_block, double *ret_build, double *ret_open,
                              double *ret_bytes) {
        enum { EACH = 64 };
        cleanup(free_ptr) char *texts = make_texts(entries, nets, EACH);
        struct snapshot *s = NULL;
        struct err e = { 0 };
        size_t n;
        uint64_t start = cpu_ns();
        cleanup(snapshot_builder_freep) struct snapshot_builder *b = snapshot_builder_new(NETWORK_FILTERED, false);
        for (size_t i = 0; b && i < entries; i++)
                if (snapshot_add(b, LIST_ALLOW, str_of(texts + i * EACH), STR("bench.yaml:1"), &e) < 0)
                        die("add", &e);
        if (!b || snapshot_build(b, ret_block, &n, &e) < 0)
                die("build", &e);
        *ret_build = ms_since(start);
        start = cpu_ns();
        if (snapshot_open(*ret_block, n, &s, &e) < 0)
                die("open", &e);
        *ret_open = ms_since(start);
        *ret_bytes = (double)n / (double)entries;
        return s;
}

static void make_question(enum question kind, size_t entries, uint64_t i, struct host *ret) {
        char text[128];
        uint64_t at = scatter(i) % entries;
        switch (kind) {
        case HIT:
                name_text(text, sizeof text, at & ~1ULL, false, "");
                break;
        case WILDCARD_HIT:
                name_text(text, sizeof text, at | 1, true, "api.v1.");
                break;
        case MISS:
                name_text(text, sizeof text, at & ~1ULL, false, "not-there.");
                break;
        case NET_HIT:
        case NET_MISS: {
                uint32_t a = 0x14000000U + (uint32_t)at * 64 + (kind == NET_MISS ? 63 : 0);
                snprintf(text, sizeof text, "%u.%u.%u.%u", a >> 24, a >> 16 & 255, a >> 8 & 255, a & 255);
                break;
        }
        default:
                break;
        }
        if (host_parse(str_of(text), ret, NULL) < 0)
                exit(1);
}

/* The best of some rounds: what the lookup costs, not what else the machine did. */
static double measure(const struct snapshot *s, enum question kind, size_t entries) {
        cleanup(free_ptr) struct host *hosts = calloc(QUESTIONS, sizeof *hosts);
        double best = 0;
        bool wanted = kind == HIT || kind == WILDCARD_HIT || kind == NET_HIT;
        if (!hosts)
                exit(1);
        for (uint64_t i = 0; i < QUESTIONS; i++)
                make_question(kind, entries, i, &hosts[i]);
        for (int round = 0; round < ROUNDS; round++) {
                size_t allowed = 0;
                uint64_t start = cpu_ns();
                for (size_t i = 0; i < QUESTIONS; i++)
                        allowed += verdict_target(s, &hosts[i], 443).decision == DECISION_ALLOW;
                double ns = (double)(cpu_ns() - start) / QUESTIONS;
                if (wanted ? allowed != QUESTIONS : allowed > QUESTIONS / 4 + 1000) {
                        fprintf(stderr, "policy_lookup: %s: %zu of %d allowed\n", kind_names[kind], allowed, QUESTIONS);
                        exit(1);
                }
                if (round == 0 || ns < best)
                        best = ns;
        }
        return best;
}

static struct result run(size_t entries) {
        struct result r = { .entries = entries };
        double ignored;
        for (int nets = 0; nets < 2; nets++) {
                cleanup(free_ptr) void *block = NULL;
                cleanup(snapshot_closep) struct snapshot *s =
                    build(entries, nets, &block, nets ? &r.nets_build_ms : &r.build_ms, nets ? &ignored : &r.open_ms,
                          nets ? &r.nets_bytes_per_rule : &r.bytes_per_rule);
                for (int kind = nets ? NET_HIT : HIT; kind < (nets ? KINDS : NET_HIT); kind++)
                        r.ns[kind] = measure(s, kind, entries);
        }
        return r;
}

static void print_table(const struct result *results, size_t n) {
        printf("%9s %9s %9s %9s %9s %9s %10s %9s %8s %10s %8s\n", "entries", "hit", "wildcard", "miss", "net hit",
               "net miss", "build", "open", "B/rule", "nets build", "B/net");
        for (size_t i = 0; i < n; i++) {
                const struct result *r = &results[i];
                printf("%9zu %6.0f ns %6.0f ns %6.0f ns %6.0f ns %6.0f ns %7.1f ms %6.1f ms %8.0f %7.1f ms %8.0f\n",
                       r->entries, r->ns[HIT], r->ns[WILDCARD_HIT], r->ns[MISS], r->ns[NET_HIT], r->ns[NET_MISS],
                       r->build_ms, r->open_ms, r->bytes_per_rule, r->nets_build_ms, r->nets_bytes_per_rule);
        }
}

static void print_json(const struct result *results, size_t n) {
        printf("{\"benchmark\":\"policy_lookup\",\"results\":[");
        for (size_t i = 0; i < n; i++) {
                const struct result *r = &results[i];
                printf("%s{\"entries\":%zu,\"build_ms\":%.2f,\"open_ms\":%.2f,\"bytes_per_rule\":%.1f,\"nets_build_"
                       "ms\":%.2f,"
                       "\"nets_bytes_per_rule\":%.1f",
                       i ? "," : "", r->entries, r->build_ms, r->open_ms, r->bytes_per_rule, r->nets_build_ms,
                       r->nets_bytes_per_rule);
                for (int kind = 0; kind < KINDS; kind++)
                        printf(",\"%s_ns\":%.1f", kind_names[kind], r->ns[kind]);
                printf("}");
        }
        printf("]}\n");
}

int main(int argc, char **argv) {
        static const size_t sizes[] = { 100, 1000, 10000, 100000, 1000000 };
        struct result results[sizeof sizes / sizeof sizes[0]];
        size_t n = sizeof sizes / sizeof sizes[0];
        for (size_t i = 0; i < n; i++)
                results[i] = run(sizes[i]);
        if (argc > 1 && str_is(str_of(argv[1]), "--json"))
                print_json(results, n);
        else
                print_table(results, n);
        return 0;
}
