/* SPDX-License-Identifier: Apache-2.0 */
/* Names of settings at any depth: where each begins and ends in a path, and what is none. */
#include "policy/paths/deep_settings.h"

#include "policy/paths/paths_builtin.h"

#include "../cmocka_all.h"

#include <stdio.h>
#include <string.h>

static void names_are_found(void **state) {
        static const struct {
                const char *path;
                size_t from;
                const char *above, *whole;
        } cases[] = {
                { "/w/a/.claude", 2, "/w/a/.claude", "/w/a/.claude" },
                { "/w/a/.claude/hooks/x", 2, "/w/a/.claude", "/w/a/.claude" },
                { "/w/.Claude/x", 2, "/w/.Claude", "/w/.Claude" },
                { "/w/a/opencode.json", 2, "/w/a/opencode.json", "/w/a/opencode.json" },
                { "/w/a/OpenCode.jsonc", 2, "/w/a/OpenCode.jsonc", "/w/a/OpenCode.jsonc" },
                { "/w/a/.vscode/tasks.json", 2, "/w/a/.vscode", "/w/a/.vscode/tasks.json" },
                { "/w/a/.github/hooks/x", 2, "/w/a/.github", "/w/a/.github/hooks" },
                { "/w/.vscode/x/.mcp.json", 2, "/w/.vscode/x/.mcp.json", "/w/.vscode/x/.mcp.json" },
                { "/h/.claude/p/.codex/x", 10, "/h/.claude/p/.codex", "/h/.claude/p/.codex" },
        };

        (void)state;
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                struct deep_found found;

                assert_true(deep_settings_find(cases[i].path, cases[i].from, &found));
                assert_int_equal(found.above, strlen(cases[i].above));
                assert_int_equal(found.n, strlen(cases[i].whole));
        }
}

static void others_are_not(void **state) {
        static const char *const paths[] = {
                "/w",
                "/",
                "/w/claude",
                "/w/.claudes",
                "/w/.claud",
                "/w/.vscode",
                "/w/.vscode/",
                "/w/.vscode/launch.json",
                "/w/.vscode/tasks.jsonx",
                "/w/.github/workflows/mcp.json",
                "/w/tasks.json",
                "/w/opencode.js",
                "/w/xopencode.json",
                "/w/.envrc",
                "/w/AGENTS.md",
                "/w/.git/config",
                "/w/t",
        };

        (void)state;
        for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
                struct deep_found found;

                if (deep_settings_find(paths[i], 0, &found))
                        fail_msg("%s", paths[i]);
        }
}

static void names_with_two_parts_begin(void **state) {
        (void)state;
        assert_true(deep_settings_begins("/w/a/.vscode", 2));
        assert_true(deep_settings_begins("/w/a/.GITHUB", 2));
        assert_false(deep_settings_begins("/w/.vscode", 10)); /* the grant names it */
        assert_false(deep_settings_begins("/w/a/.vscode/x", 2));
        assert_false(deep_settings_begins("/w/a/.claude", 2));
        assert_false(deep_settings_begins("/", 0));
}

/* A name that is protected at any depth is protected at the top: by itself, or with a directory above it. */
static void all_are_protected_at_the_top(void **state) {
        static const char *const names[] = { ".claude",       ".gemini",           ".opencode",
                                             ".mcp.json",     "opencode.json",     "tui.jsonc",
                                             "kilo.json",     ".aider.conf.yml",   ".vscode",
                                             ".zed",          ".github/mcp.json",  ".github/agents",
                                             ".github/hooks", ".github/extensions" };

        (void)state;
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
                bool found = false;

                for (size_t j = 0; j < builtin_protected_n && !found; j++)
                        found = strcmp(builtin_protected[j].path, names[i]) == 0;
                assert_true(found);
        }

        /* And what agents obey at the top is found below it, unless it is a text or asks. */
        size_t deep = 0;
        for (size_t j = 0; j < builtin_protected_n; j++) {
                struct deep_found found;
                char path[128];

                snprintf(path, sizeof path, "/w/%s", builtin_protected[j].path);
                deep += deep_settings_find(path, 2, &found);
        }
        assert_true(deep > 45);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(names_are_found),
                cmocka_unit_test(others_are_not),
                cmocka_unit_test(names_with_two_parts_begin),
                cmocka_unit_test(all_are_protected_at_the_top),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
