/* SPDX-License-Identifier: Apache-2.0 */
/* A recipe that is accepted names nothing outside the home, and says the same when it is read again. */
#include "base/cleanup.h"
#include "fuzz.h"
#include "guest/recipe/recipe.h"

static void path_check(const char *path) {
        struct str rest = str_of(path), part;

        FUZZ_CHECK(path[0] && path[0] != '/' && path[0] != '~');
        while (str_split(&rest, '/', &part))
                FUZZ_CHECK(part.n && !str_is(part, ".") && !str_is(part, ".."));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        cleanup(recipe_done) struct recipe recipe = { 0 }, again = { 0 };
        struct err err = { 0 };

        if (recipe_parse(str_n(data, size), "input", &recipe, &err) < 0) {
                FUZZ_CHECK(err.text[0]);
                return 0;
        }
        FUZZ_CHECK(recipe_parse(str_n(data, size), "input", &again, &err) == 0);
        FUZZ_CHECK(recipe.steps.n == again.steps.n);
        for (size_t i = 0; i < recipe.steps.n; i++) {
                const struct recipe_step *step = &recipe.steps.p[i];
                FUZZ_CHECK(strcmp(step->digest, again.steps.p[i].digest) == 0 && step->mode <= 0777);
                if (step->path)
                        path_check(step->path);
                if (step->kind == RECIPE_LINK)
                        path_check(step->text);
        }
        return 0;
}
