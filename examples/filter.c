/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The domain filter by itself: judges "host port" lines from standard input.
 *
 *     cc filter.c $(pkg-config --cflags --libs libbailey) -o filter
 *     echo 'api.example.com 443' | ./filter '*.example.com'
 */
#include <bailey/bailey.h>

#include <stdio.h>

int main(int argc, char **argv) {
        struct bailey_filter_rules rules = { 0 };
        struct bailey_filter_verdict verdict;
        struct bailey_error e;
        bailey_filter *filter = NULL;
        char host[256];
        unsigned port;

        (void)argc;
        rules.allow = (const char *const *)(argv + 1);
        if (bailey_filter_new(&rules, NULL, NULL, &filter, &e) < 0) {
                fprintf(stderr, "%s\n", e.message);
                return 2;
        }
        while (scanf("%255s %u", host, &port) == 2) {
                bailey_filter_test(filter, host, (uint16_t)port, &verdict);
                printf("%s %u: %s (%s)\n", host, port, verdict.allowed ? "allowed" : "refused", verdict.reason);
        }
        bailey_filter_free(filter);
        return 0;
}
