/* SPDX-License-Identifier: Apache-2.0 */
/* The shell parser on any bytes: it ends, it stays within its limits, and what it accepts once it accepts again. */
#include "fuzz.h"
#include "shell/ast.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct sh_tree *tree = NULL, *again = NULL;
        struct err e = { 0 };
        int r = sh_parse(str_n(data, size), &tree, &e);
        FUZZ_CHECK(r == 0 || e.text[0]);
        FUZZ_CHECK((r == 0) == (tree != NULL));
        if (r == 0) {
                FUZZ_CHECK(sh_parse(str_n(data, size), &again, NULL) == 0);
                sh_tree_free(again);
        }
        sh_tree_free(tree);
        return 0;
}
