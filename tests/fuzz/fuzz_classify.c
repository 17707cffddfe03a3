/* SPDX-License-Identifier: Apache-2.0 */
/* The classifier on any bytes: it ends, it answers the same twice, and what does not parse is never allowed. */
#include "fuzz.h"
#include "shell/ast.h"
#include "shell/classify.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct sh_verdict v = { 0 }, again = { 0 };
        struct sh_tree *tree = NULL;
        struct str text = str_n(data, size), words[16];
        const struct sh_setting setting = { STR("/home/me/code/ws"), STR("/home/me"), STR("/home/me/code/ws") };
        FUZZ_CHECK(sh_classify(NULL, &setting, text, &v) == 0);
        sh_verdict_done(&v);
        FUZZ_CHECK(sh_classify(NULL, NULL, text, &v) == 0);
        FUZZ_CHECK(v.rule && v.reason && v.segment);
        FUZZ_CHECK(sh_classify(NULL, NULL, text, &again) == 0);
        FUZZ_CHECK(v.decision == again.decision && v.rule == again.rule);
        if (sh_parse(text, &tree, NULL) < 0)
                FUZZ_CHECK(v.decision >= SH_ESCALATED);
        sh_tree_free(tree);
        sh_verdict_done(&v);
        sh_verdict_done(&again);
        size_t n = 0;
        for (struct str rest = text, word; n < 16 && str_split(&rest, '\n', &word);)
                words[n++] = word;
        FUZZ_CHECK(sh_classify_argv(NULL, NULL, words, n, &v) == 0);
        FUZZ_CHECK(n > 0 || v.decision == SH_ESCALATED);
        sh_verdict_done(&v);
        return 0;
}
