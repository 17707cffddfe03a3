/* SPDX-License-Identifier: Apache-2.0 */
/* Reads paths, one a line, and prints for each whether the shell parser accepts the file: "ok" or "no REASON". */
#include "base/cleanup.h"
#include "base/paths/path.h"
#include "shell/ast.h"

#include <stdio.h>

static void judge(const char *path) {
        cleanup(buf_done) struct buf text = BUF(0);
        cleanup(sh_tree_freep) struct sh_tree *tree = NULL;
        struct err e = { 0 };
        if (path_read_file(path, 4 << 20, &text, &e) < 0 || sh_parse(buf_str(&text), &tree, &e) < 0)
                printf("no %s\n", err_text(&e));
        else
                printf("ok\n");
}

int main(void) {
        char line[8192];
        while (fgets(line, sizeof line, stdin)) {
                line[strcspn(line, "\n")] = '\0';
                judge(line);
        }
        return 0;
}
