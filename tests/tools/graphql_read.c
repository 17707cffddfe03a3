/* SPDX-License-Identifier: Apache-2.0 */
/* Documents on standard input, each ended by a NUL; one line for each: "bad", or what it asks for. For tests/oracle. */
#include "base/cleanup.h"
#include "bridge/graphql.h"

#include <stdio.h>

int main(void) {
        cleanup(free_ptr) char *line = NULL;
        size_t room = 0;
        ssize_t n;

        while ((n = getdelim(&line, &room, '\0', stdin)) > 0) {
                cleanup(graphql_done) struct graphql g = { 0 };
                if (graphql_read(str_n(line, (size_t)n - 1), STR(""), &g) < 0) {
                        puts("bad");
                        continue;
                }
                fputs(g.mutation ? "mutation" : "query", stdout);
                for (size_t i = 0; i < g.fields.n; i++)
                        printf(" %.*s", STR_FMT(g.fields.p[i]));
                putchar('\n');
        }
        return 0;
}
