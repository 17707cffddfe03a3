/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/paths/moved.h"

#include "base/cleanup.h"
#include "base/paths/path.h"
#include "policy/apply.h"

#include <errno.h>
#include <stdlib.h>

/* A variable, and what lies in the directory that it names; "": the value itself is the place. */
static const struct {
        const char *variable, *below;
} places[] = {
        { "GNUPGHOME", "" },
        { "KUBECONFIG", "" },
        { "AWS_SHARED_CREDENTIALS_FILE", "" },
        { "AWS_CONFIG_FILE", "" },
        { "AZURE_CONFIG_DIR", "" },
        { "CLOUDSDK_CONFIG", "" },
        { "GOOGLE_APPLICATION_CREDENTIALS", "" },
        { "BOTO_CONFIG", "" },
        { "DOCKER_CONFIG", "" },
        { "REGISTRY_AUTH_FILE", "" },
        { "GH_CONFIG_DIR", "" },
        { "GLAB_CONFIG_DIR", "" },
        { "NETRC", "" },
        { "NPM_CONFIG_USERCONFIG", "" },
        { "npm_config_userconfig", "" },
        { "CARGO_HOME", "credentials" },
        { "CARGO_HOME", "credentials.toml" },
        { "PASSWORD_STORE_DIR", "" },
        { "PGPASSFILE", "" },
        { "RCLONE_CONFIG", "" },
        { "SOPS_AGE_KEY_FILE", "" },
        { "VAULT_TOKEN_PATH", "" },
        { "HF_TOKEN_PATH", "" },
        { "HF_HOME", "token" },
        { "KRB5_KTNAME", "" },
        { "HISTFILE", "" },
        { "CLAUDE_CONFIG_DIR", ".credentials.json" },
        { "CODEX_HOME", "auth.json" },
        { "CODEX_HOME", ".env" },
        { "GEMINI_CLI_HOME", ".gemini/oauth_creds.json" },
        { "GEMINI_CLI_HOME", ".gemini/google_accounts.json" },
        { "GEMINI_CLI_HOME", ".gemini/gemini-credentials.json" },
        { "GEMINI_CLI_HOME", ".gemini/mcp-oauth-tokens.json" },
        { "GEMINI_CLI_HOME", ".gemini/mcp-oauth-tokens-v2.json" },
        { "GEMINI_CLI_HOME", ".gemini/a2a-oauth-tokens.json" },
        { "GEMINI_CLI_HOME", ".gemini/.env" },
        { "QWEN_HOME", "oauth_creds.json" },
        { "QWEN_HOME", "mcp-oauth-tokens.json" },
        { "QWEN_HOME", "mcp-oauth-tokens-v2.json" },
        { "QWEN_HOME", ".env" },
        { "COPILOT_HOME", "config.json" },
        { "PI_CODING_AGENT_DIR", "auth.json" },
        { "CONTINUE_GLOBAL_DIR", "auth.json" },
        { "CONTINUE_GLOBAL_DIR", ".env" },
        { "XDG_CONFIG_HOME", "gh" },
        { "XDG_CONFIG_HOME", "hub" },
        { "XDG_CONFIG_HOME", "glab-cli" },
        { "XDG_CONFIG_HOME", "gcloud" },
        { "XDG_CONFIG_HOME", "rclone" },
        { "XDG_CONFIG_HOME", "containers" },
        { "XDG_CONFIG_HOME", "git/credentials" },
        { "XDG_CONFIG_HOME", "op" },
        { "XDG_CONFIG_HOME", "sops" },
        { "XDG_CONFIG_HOME", "github-copilot" },
        { "XDG_CONFIG_HOME", "google-chrome" },
        { "XDG_CONFIG_HOME", "chromium" },
        { "XDG_CONFIG_HOME", "goose/secrets.yaml" },
        { "XDG_CONFIG_HOME", "cursor/auth.json" },
        { "XDG_DATA_HOME", "keyrings" },
        { "XDG_DATA_HOME", "opencode/auth.json" },
        { "XDG_DATA_HOME", "opencode/mcp-auth.json" },
        { "XDG_DATA_HOME", "amp/secrets.json" },
        { "XDG_DATA_HOME", "crush/crush.json" },
        { MOVED_OWN_STATE, "bailey" },
};

/* A variable that names the workspace, the home or a place around them would close too much: such a user keeps keys
 * among everything else. */
static bool is_too_much(const struct policy *policy, const char *path) {
        return strcmp(path, "/") == 0 || path_is_within(path, "/dev") || path_is_within(path, "/proc") ||
               (policy->workspace && path_is_within(policy->workspace, path)) ||
               (policy->home && path_is_within(policy->home, path));
}

static int add_place(struct policy *policy, struct str value, const char *below, const char *variable) {
        cleanup(free_ptr) char *whole = NULL, *path = NULL;

        if (str_starts(value, STR("FILE:")))
                value = str_skip(value, 5);
        if (value.n == 0 || value.p[0] != '/')
                return 0;

        if (below[0])
                whole = str_format("%.*s/%s", STR_FMT(value), below);
        else
                whole = str_dup(value);
        if (!whole)
                return -ENOMEM;

        int r = path_normalise(str_of(whole), NULL, &path);
        if (r == -ENOMEM)
                return r;
        if (r < 0)
                return 0;

        if (is_too_much(policy, path))
                return 0;

        return origin_texts_add(&policy->filesystem.moved, str_of(path), variable);
}

/* KUBECONFIG may name several files. */
int moved_find(struct policy *policy) {
        for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
                const char *value = getenv(places[i].variable);
                struct str rest = str_of(text_or(value, "")), one;

                while (rest.n && str_split(&rest, ':', &one)) {
                        if (str_is(one, "FILE"))
                                continue;
                        int r = add_place(policy, one, places[i].below, places[i].variable);
                        if (r < 0)
                                return r;
                }
        }

        return 0;
}
