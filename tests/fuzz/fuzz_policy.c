/* SPDX-License-Identifier: Apache-2.0 */
/* A policy file that is accepted can be shown, and what is shown is accepted and shown the same again. */
#include "base/cleanup.h"
#include "conf/yaml.h"
#include "fuzz.h"
#include "policy/file.h"
#include "policy/show.h"

enum { OUTPUT_MAX = 64 << 20 };

static int load(struct str text, struct policy **ret, struct err *e) {
        cleanup(policy_freep) struct policy *p = calloc(1, sizeof *p);
        cleanup(policy_file_done) struct policy_file file = { .base = str_dup(STR("/home/someone/project")),
                                                              .untrusted = true };
        FUZZ_CHECK(p && file.base);
        p->home = str_dup(STR("/home/someone"));
        p->workspace = str_dup(STR("/home/someone/project"));
        int r = yaml_read(text, STR("input"), &file.document, e);
        r = r < 0 ? r : policy_file_apply(&file, p, e);
        if (r == 0)
                *ret = take_ptr(&p);
        return r;
}

/* List files are read from the disk, and secrets are shown as stars: neither comes back the same. */
static bool comes_back(struct str input) {
        static const char *const not [] = { "_file", "env", "proxy" };
        for (size_t i = 0; i < sizeof not / sizeof not [0]; i++)
                if (memmem(input.p, input.n, not [i], strlen(not [i])))
                        return false;
        return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct str input = str_n(data, size);
        cleanup(policy_freep) struct policy *p = NULL, *again = NULL;
        cleanup(buf_done) struct buf shown = BUF(OUTPUT_MAX), json = BUF(OUTPUT_MAX), once_more = BUF(OUTPUT_MAX);
        struct err e = { 0 };
        if (memmem(input.p, input.n, "_file", 5))
                return 0; /* no file of this machine is opened */
        if (load(input, &p, &e) < 0) {
                FUZZ_CHECK(e.code != 0 && e.text[0]);
                for (const char *c = e.text; *c; c++)
                        FUZZ_CHECK((unsigned char)*c >= 0x20 && *c != 0x7f);
                return 0;
        }
        FUZZ_CHECK(policy_show_text(&shown, p, 0) == 0);
        FUZZ_CHECK(policy_show_json(&json, p, POLICY_SHOW_EXPAND) == 0);
        if (!comes_back(input))
                return 0;
        int r = load(buf_str(&shown), &again, &e);
        if (r < 0)
                fprintf(stderr, "%s\n%.*s", e.text, STR_FMT(buf_str(&shown)));
        FUZZ_CHECK(r == 0);
        FUZZ_CHECK(policy_show_json(&once_more, again, POLICY_SHOW_EXPAND) == 0);
        return 0;
}
