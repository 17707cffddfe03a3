/* SPDX-License-Identifier: Apache-2.0 */
/* What the filters of settings let through, and above all what they do not. */
#include "policy/paths/settings_filter.h"

#include "base/cleanup.h"
#include "policy/paths/home_table.h"

#include "../cmocka_all.h"

#include <string.h>

struct filter_case {
        home_filter *filter;
        const char *text, *kept;
};

static const struct filter_case cases[] = {
        /* git */
        { home_filter_git, "[user]\n name = Ann Lee\n email = a@b.example\n signingkey = X\n",
          "[user]\n\tname = \"Ann Lee\"\n[user]\n\temail = \"a@b.example\"\n" },
        { home_filter_git,
          "[alias]\n co = checkout\n bad = !sh -c evil\n worse = \" !sh\"\n c = -c core.pager=evil log\n",
          "[alias]\n\tco = \"checkout\"\n" },
        { home_filter_git,
          "[core]\n pager = evil\n editor = evil\n fsmonitor = evil\n sshCommand = evil\n hooksPath = /x\n "
          "attributesFile = x\n"
          " excludesFile = x\n autocrlf = input\n",
          "[core]\n\tautocrlf = \"input\"\n" },
        { home_filter_git,
          "[credential]\n helper = store\n[credential \"https://x\"]\n username = u\n[include]\n path = x\n[includeIf "
          "\"gitdir:x\"]\n"
          " path = y\n[http]\n proxy = http://u:p@h\n extraHeader = \"Authorization: x\"\n[filter \"lfs\"]\n clean = "
          "evil\n[gpg]\n program = x\n",
          "" },
        { home_filter_git, "[url \"https://u:pass@h/\"]\n insteadOf = gh:\n[url \"git@h:\"]\n insteadOf = https://h/\n",
          "[url \"git@h:\"]\n\tinsteadof = \"https://h/\"\n" },
        { home_filter_git, "[init]\n defaultBranch = main # trunk\n[pull]\n rebase\n",
          "[init]\n\tdefaultbranch = \"main\"\n[pull]\n\trebase\n" },
        { home_filter_git, "[user]\n name = \"a\\\"b\\\\c\"\n[core]\n eol = \"x\\ny\"\n",
          "[user]\n\tname = \"a\\\"b\\\\c\"\n" },
        { home_filter_git, "[user\n name = x\n", "" },
        { home_filter_git, "", "" },
        /* npm */
        { home_filter_npm,
          "registry=https://npm.corp.example/\n@corp:registry = "
          "https://npm.corp.example/c/\n//npm.corp.example/:_authToken=SECRET\n"
          "_auth=SECRET\n_password = SECRET\nemail=x\nscript-shell=/evil\nnode-options=--require "
          "/evil\nprefix=~/.npm-global\n",
          "registry=https://npm.corp.example/\n@corp:registry=https://npm.corp.example/c/\nprefix=~/.npm-global\n" },
        { home_filter_npm, "registry=https://user:SECRET@npm.corp.example/\n", "" },
        { home_filter_npm, "@//h/:registry=x\n;registry=a\n#registry=b\nregistry\n=x\nregistry[]=x\n", "" },
        /* pip */
        { home_filter_pip,
          "[global]\nindex-url = https://pypi.corp.example/simple\nextra-index-url =\n    https://a.example/simple\n"
          "    https://u:SECRET@b.example/simple\nproxy = http://u:p@h\nclient-cert = /x\n  more\n",
          "[global]\nindex-url = https://pypi.corp.example/simple\nextra-index-url = \n    "
          "https://a.example/simple\n" },
        { home_filter_pip, "[global]\nindex-url = https://u:SECRET@h/simple\n", "[global]\nindex-url = \n" },
        /* cargo */
        { home_filter_cargo,
          "[source.crates-io]\nreplace-with = \"corp\" # mirror\n[source.corp]\nregistry = "
          "'sparse+https://c.example/'\n"
          "[registries.corp]\nindex = \"https://c.example/\"\ntoken = \"SECRET\"\ncredential-provider = \"evil\"\n"
          "[build]\nrustc-wrapper = \"evil\"\njobs = 4\n[target.x86_64-unknown-linux-gnu]\nlinker = \"evil\"\nrunner = "
          "\"evil\"\n"
          "[alias]\nb = \"build\"\n[env]\nX = \"SECRET\"\n",
          "[source.crates-io]\nreplace-with = \"corp\"\n[source.corp]\nregistry = 'sparse+https://c.example/'\n"
          "[registries.corp]\nindex = \"https://c.example/\"\n[build]\njobs = 4\n[target.x86_64-unknown-linux-gnu]\n"
          "[alias]\n[env]\n" },
        { home_filter_cargo, "registries.c.token = \"SECRET\"\nregistries.c.index = \"https://h/\"\n",
          "registries.c.index = \"https://h/\"\n" },
        { home_filter_cargo,
          "[registries.c]\nindex = \"https://u:SECRET@h/\"\nindex = { a = 1 }\nindex = [\"x\"]\nindex = \"a\\u0022\"\n",
          "[registries.c]\n" },
        /* Claude Code */
        { home_filter_claude,
          "{\"theme\":\"dark\",\"hasCompletedOnboarding\":true,\"mcpServers\":{\"x\":{\"command\":\"evil\"}},"
          "\"oauthAccount\":{\"a\":1},"
          "\"primaryApiKey\":\"SECRET\",\"projects\":{\"/x\":{}}}",
          "{\"theme\":\"dark\",\"hasCompletedOnboarding\":true}" },
        { home_filter_claude, "{\"theme\":{\"x\":1}}", "" },
        { home_filter_claude, "not json", "" },
        { home_filter_claude, "[]", "" },
        { home_filter_lines, "*.o\r\n# note\n\x01\n", "*.o\n# note\n" },
};

static void test_filters(void **state) {
        (void)state;
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                cleanup(buf_done) struct buf out = BUF(1 << 20);
                assert_int_equal(cases[i].filter(str_of(cases[i].text), &out), 0);
                if (!str_eq(str_trim(buf_str(&out)), str_trim(str_of(cases[i].kept))))
                        fail_msg("case %zu: %s\nkept: %.*s\nwanted: %s", i, cases[i].text, STR_FMT(buf_str(&out)),
                                 cases[i].kept);
        }
}

/* Every row has a filter that some case is about, and no path leads out of the home. */
static void test_table(void **state) {
        (void)state;
        for (size_t i = 0; i < n_home_settings; i++) {
                bool tried = false;
                for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
                        tried |= cases[k].filter == home_settings[i].filter;
                assert_true(tried);
                assert_true(home_settings[i].path[0] != '/' && !strstr(home_settings[i].path, ".."));
        }
        for (size_t i = 0; i < n_home_rows; i++) {
                assert_true(home_rows[i].path[0] != '/' && !strstr(home_rows[i].path, ".."));
                for (size_t k = 0; k < n_home_settings; k++)
                        assert_string_not_equal(home_rows[i].path, home_settings[k].path);
        }
}

/* Whatever comes in, no secret comes out: each filter on each other's files, cut at every byte. */
static void test_pieces(void **state) {
        (void)state;
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
                for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
                        for (size_t n = 0; n <= strlen(cases[i].text); n++) {
                                cleanup(buf_done) struct buf out = BUF(1 << 20);
                                if (cases[k].filter == home_filter_lines)
                                        continue;
                                assert_int_equal(cases[k].filter(str_n(cases[i].text, n), &out), 0);
                                assert_null(out.n ? memmem(out.p, out.n, "SECRET", 6) : NULL);
                                assert_null(out.n ? memmem(out.p, out.n, "evil", 4) : NULL);
                        }
}

int main(void) {
        const struct CMUnitTest tests[] = { cmocka_unit_test(test_filters), cmocka_unit_test(test_table),
                                            cmocka_unit_test(test_pieces) };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
