/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/profiles.h"

#include "conf/suggest.h"
#include "policy/home.h"

#include <errno.h>

#define VALUES(...)                                                                                                    \
        .values = (const struct preset_value[]){ __VA_ARGS__ },                                                        \
        .n = sizeof((const struct preset_value[]){ __VA_ARGS__ }) / sizeof(struct preset_value)

const struct profile policy_presets[] = {
        { "default", "strict: writes in the workspace, network by policy", .values = NULL, .n = 0 },
        { "development", "open network; runs with less where the machine cannot do all",
          VALUES({ ROW_MODE, "full-network" }, { ROW_HOME, HOME_WORD_REAL }, { ROW_ALLOW_DEGRADED, "true" }) },
        { "ci", "strict: writes in the workspace, no network, nobody to ask",
          VALUES({ ROW_MODE, "workspace-write" }, { ROW_ASK, "never" }) },
};
const size_t n_policy_presets = sizeof policy_presets / sizeof policy_presets[0];

/*
 * An agent keeps its sessions and its sign-in under its own directory, which it must be able to write. The settings
 * there name commands that run outside any sandbox the next time (hooks, servers): those stay as they are.
 */
const struct profile policy_profiles[] = {
        { "claude", "Claude Code",
          VALUES({ ROW_ALLOW, "@anthropic" }, { ROW_WRITE, "~/.claude" }, { ROW_WRITE, "~/.claude.json" },
                 { ROW_DENY_WRITE, "~/.claude/settings.json" }, { ROW_DENY_WRITE, "~/.claude/settings.local.json" },
                 { ROW_DENY_WRITE, "~/.claude/hooks" }, { ROW_CREDENTIAL, "anthropic" },
                 { ROW_CREDENTIAL, "claude-code" }) },
        { "codex", "OpenAI Codex CLI",
          VALUES({ ROW_ALLOW, "@openai" }, { ROW_WRITE, "~/.codex" }, { ROW_DENY_WRITE, "~/.codex/config.toml" },
                 { ROW_CREDENTIAL, "openai" }) },
        { "gemini", "Gemini CLI",
          VALUES({ ROW_ALLOW, "generativelanguage.googleapis.com" }, { ROW_ALLOW, "aiplatform.googleapis.com" },
                 { ROW_ALLOW, "cloudcode-pa.googleapis.com" }, { ROW_ALLOW, "oauth2.googleapis.com" },
                 { ROW_ALLOW, "accounts.google.com" }, { ROW_WRITE, "~/.gemini" },
                 { ROW_DENY_WRITE, "~/.gemini/settings.json" }, { ROW_CREDENTIAL, "gemini" }) },
        { "opencode", "opencode",
          VALUES({ ROW_ALLOW, "opencode.ai" }, { ROW_ALLOW, "*.opencode.ai" }, { ROW_ALLOW, "models.dev" },
                 { ROW_WRITE, "~/.local/share/opencode" }, { ROW_WRITE, "~/.local/state/opencode" },
                 { ROW_WRITE, "~/.cache/opencode" }) },
        { "aider", "aider",
          VALUES({ ROW_ALLOW, "@anthropic" }, { ROW_ALLOW, "@openai" }, { ROW_WRITE, "~/.aider" },
                 { ROW_CREDENTIAL, "anthropic" }, { ROW_CREDENTIAL, "openai" }) },
};
const size_t n_policy_profiles = sizeof policy_profiles / sizeof policy_profiles[0];

static const struct profile *find(const struct profile *list, size_t n, const char *what, struct str name,
                                  struct err *e) {
        struct suggestion s = suggest_for(name);
        for (size_t i = 0; i < n; i++) {
                if (str_is(name, list[i].name))
                        return &list[i];
                suggest_offer(&s, list[i].name);
        }
        err_set(e, ENOENT, "there is no %s %s%s", what, show(name).text, suggest_text(&s, "").text);
        return NULL;
}

const struct profile *preset_find(struct str name, struct err *e) {
        return find(policy_presets, n_policy_presets, "preset", name, e);
}

const struct profile *profile_find(struct str name, struct err *e) {
        return find(policy_profiles, n_policy_profiles, "profile", name, e);
}
