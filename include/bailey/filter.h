/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BAILEY_FILTER_H
#define BAILEY_FILTER_H
#include "bailey/config.h"
BAILEY_BEGIN

/*
 * The domain filter by itself: the judgement that Bailey's gateway makes, for a program that has connections of its own
 * to judge. Order: address class, denied, allowed, callback, refused. Thread-safe; a test costs the same at 100 and at
 * 1,000,000 rules.
 */
typedef struct bailey_filter bailey_filter;

/* Lists of patterns, NULL-terminated; NULL is an empty list. An empty allow list refuses everything. */
struct bailey_filter_rules {
        const char *const *allow;
        const char *const *deny;
};

/* A filter with these rules (NULL: none, so that only the callback allows). fn may be NULL. BAILEY_E_CONFIG names the
 * pattern that is wrong. */
BAILEY_API int bailey_filter_new(const struct bailey_filter_rules *rules, bailey_request_fn fn, void *arg,
                                 bailey_filter **ret, struct bailey_error *e);
/* Frees it; NULL is allowed. */
BAILEY_API void bailey_filter_free(bailey_filter *f);
/* Replaces all rules at once: every test sees the old ones or the new ones. On error the old ones stay. */
BAILEY_API int bailey_filter_update(bailey_filter *f, const struct bailey_filter_rules *rules, struct bailey_error *e);

struct bailey_filter_verdict {
        int allowed;      /* 1 or 0 */
        char reason[32];  /* "allowed", "deny-rule", "not-allowed", "address-class", "bad-name", "asked" ... */
        char rule[512];   /* the pattern that decided, as written; "" when none did */
        char detail[256]; /* one sentence */
};
/* 1: allowed, 0: refused. A filter that is NULL refuses everything, and so does a name that is no name. ret may be
 * NULL. A name that is allowed must still be looked up, and every address that comes of it tested too. */
BAILEY_API int bailey_filter_test(bailey_filter *f, const char *host, uint16_t port, struct bailey_filter_verdict *ret);

/* Whether this is a pattern: "api.example.com", "*.example.com:443", "10.0.0.0/8". BAILEY_E_CONFIG says what is wrong
 * and what to write instead. */
BAILEY_API int bailey_pattern_validate(const char *pattern, struct bailey_error *e);

/* What a program's environment must hold so that it uses a gateway. */
struct bailey_proxy {
        uint16_t http_port, socks_port; /* 0: no such listener */
        const char *address;            /* NULL: 127.0.0.1 */
        const char *tmpdir;             /* NULL: TMPDIR is not set */
};
/* "NAME=VALUE" texts, NULL-terminated, in one block that bailey_proxy_environment_free() frees. */
BAILEY_API int bailey_proxy_environment(const struct bailey_proxy *proxy, char ***ret, struct bailey_error *e);
/* Frees them; NULL is allowed. */
BAILEY_API void bailey_proxy_environment_free(char **environment);

BAILEY_END
#endif
