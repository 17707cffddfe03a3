/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/profile/sign_ins.h"

#include "base/cleanup.h"
#include "policy/check.h"
#include "policy/match/pattern.h"
#include "policy/profile/providers.h"

#include <stdlib.h>

#include "../cmocka_all.h"

/* One check for each row: names in order and unique, exact hosts, slots and forms that are understood. */
static void rows_are_sound(void **state) {
        (void)state;
        for (size_t i = 0; i < n_sign_ins; i++) {
                const struct sign_in *s = &sign_ins[i];
                assert_true(i == 0 || strcmp(sign_ins[i - 1].name, s->name) < 0);
                assert_ptr_equal(sign_in_find(str_of(s->name)), s);
                assert_null(provider_find(str_of(s->name)));
                assert_null(strchr(s->name, '.')); /* a dot begins what is renewed with it */
                assert_int_not_equal(s->file[0], '/');
                assert_true(!s->expiry || check_expiry(str_of(s->expiry), NULL) == 0);
                assert_true(sign_in_secrets(s) > 0);
                for (size_t k = 0; k < sign_in_secrets(s); k++) {
                        const struct sign_in_secret *secret = &s->secrets[k];
                        assert_true(!secret->pointer || secret->pointer[0] == '/');
                        assert_true(secret->pointer || secret->answer);
                        assert_true(!secret->form || check_form(str_of(secret->form), NULL) == 0);
                        assert_true(!secret->answer || secret->form); /* it may be without a value to be like */
                        assert_true(!secret->slots || check_slot(str_of(secret->slots), NULL) == 0);
                        assert_true(!secret->provider || provider_find(str_of(secret->provider)));
                        assert_true(secret->provider || (secret->hosts && secret->hosts[0]));
                        for (const char *const *h = secret->hosts; h && *h; h++) {
                                struct pattern p;
                                assert_int_equal(pattern_parse(str_of(*h), &p, NULL), 0);
                                assert_true(p.kind == PATTERN_NAME || strcmp(*h, "*.googleapis.com") == 0);
                        }
                }
        }
}

static void paths_follow_the_variable(void **state) {
        (void)state;
        const struct sign_in *codex = sign_in_find(STR("codex-sign-in"));
        unsetenv("CODEX_HOME");
        cleanup(free_ptr) char *plain = sign_in_path(codex, "/home/a");
        assert_string_equal(plain, "/home/a/.codex/auth.json");
        setenv("CODEX_HOME", "/srv/codex", 1);
        cleanup(free_ptr) char *moved = sign_in_path(codex, "/home/a");
        assert_string_equal(moved, "/srv/codex/auth.json");
        setenv("CODEX_HOME", "relative", 1);
        cleanup(free_ptr) char *again = sign_in_path(codex, "/home/a");
        assert_string_equal(again, "/home/a/.codex/auth.json");

        const struct sign_in *opencode = sign_in_find(STR("opencode-sign-in"));
        setenv("XDG_DATA_HOME", "/srv/data", 1);
        cleanup(free_ptr) char *below = sign_in_path(opencode, "/home/a");
        assert_string_equal(below, "/srv/data/opencode/auth.json");
        unsetenv("XDG_DATA_HOME");
        cleanup(free_ptr) char *usual = sign_in_path(opencode, "/home/a");
        assert_string_equal(usual, "/home/a/.local/share/opencode/auth.json");
}

static void what_looks_like_a_secret(void **state) {
        (void)state;
        static const char *const secret[] = { "sk-Unknown0123456789abcdefghij",
                                              "eyJhbGciOiJ.eyJleHAiOjE3OTk5.c2lnbmF0dXJl",
                                              "tid=0123456789abcdef0123456789;exp=1",
                                              "AbCdEf0123456789AbCdEf0123456789" };
        static const char *const harmless[] = { "max",
                                                "user:inference user:profile",
                                                "11111111-2222-3333-4444-555555555555",
                                                "https://www.googleapis.com/auth/cloud-platform0123",
                                                "2026-11-15T18:00:00.000Z",
                                                "person@example.com",
                                                "openid https://www.googleapis.com/auth/userinfo.email" };
        for (size_t i = 0; i < sizeof secret / sizeof *secret; i++)
                if (!sign_in_looks_secret(str_of(secret[i])))
                        fail_msg("%s", secret[i]);
        for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++)
                if (sign_in_looks_secret(str_of(harmless[i])))
                        fail_msg("%s", harmless[i]);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(rows_are_sound),
                cmocka_unit_test(paths_follow_the_variable),
                cmocka_unit_test(what_looks_like_a_secret),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
