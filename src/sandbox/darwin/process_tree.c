/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/darwin/process_tree.h"

#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>

static bool is_listed(const pid_t *list, size_t n, pid_t pid) {
        for (size_t i = 0; i < n; i++)
                if (list[i] == pid)
                        return true;
        return false;
}

size_t tree_list(pid_t root, tree_children *children, pid_t ret[static TREE_MAX]) {
        size_t n = 1;

        ret[0] = root;

        for (size_t i = 0; i < n; i++) {
                pid_t found[256];
                size_t count = children(ret[i], found, sizeof found / sizeof *found);

                for (size_t j = 0; j < count && n < TREE_MAX; j++)
                        if (found[j] > 1 && !is_listed(ret, n, found[j]))
                                ret[n++] = found[j];
        }

        return n;
}

size_t tree_signal(pid_t root, tree_children *children, int signal_number, unsigned rounds) {
        pid_t *list = calloc(TREE_MAX, sizeof *list);
        size_t before = 0, n = 0;

        for (unsigned i = 0; list && i < rounds; i++) {
                n = tree_list(root, children, list);
                for (size_t j = 0; j < n; j++)
                        (void)kill(list[j], signal_number);

                if (n == before)
                        break;

                before = n;
        }

        free(list);
        return n;
}
