/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/profile/sign_ins.h"

#include "base/cleanup.h"
#include "base/paths/path.h"
#include "base/secrets/secret.h"
#include "conf/json_walk.h"
#include "conf/yaml.h"

#include <errno.h>
#include <stdlib.h>

#define LIST(...) ((const char *const[]){ __VA_ARGS__, NULL })
#define KEY(agent_name, known)                                                                                         \
        { "." agent_name, "/" agent_name "/key", NULL, known, NULL, NULL, NULL }

#define CLAUDE_API LIST("api.anthropic.com", "platform.claude.com", "console.anthropic.com", "mcp-proxy.anthropic.com")
#define CLAUDE_TOKEN LIST("platform.claude.com", "console.anthropic.com")
#define CLAUDE_REFRESH "body:refresh_token@/v1/oauth/token"
#define CHATGPT_API LIST("chatgpt.com", "api.openai.com")
#define CHATGPT_TOKEN LIST("auth.openai.com")
#define CHATGPT_REFRESH "body:refresh_token@/oauth/token"
#define CHATGPT_ID "body:subject_token@/oauth/token"
#define GOOGLE_API                                                                                                     \
        LIST("cloudcode-pa.googleapis.com", "generativelanguage.googleapis.com", "aiplatform.googleapis.com",          \
             "www.googleapis.com", "oauth2.googleapis.com", "cloudresourcemanager.googleapis.com",                     \
             "serviceusage.googleapis.com", "people.googleapis.com")
#define GOOGLE_TOKEN LIST("oauth2.googleapis.com", "accounts.google.com", "www.googleapis.com")
#define GOOGLE_REFRESH                                                                                                 \
        "body:refresh_token@/token,body:refresh_token@/o/oauth2/token,body:refresh_token@/oauth2/v4/token"
#define COPILOT_API                                                                                                    \
        LIST("api.github.com", "github.com", "api.githubcopilot.com", "api.individual.githubcopilot.com",              \
             "api.business.githubcopilot.com", "api.enterprise.githubcopilot.com")

/* By name. Secrets that are renewed have a stand-in of a fixed form, so that it stays the same when the value changes.
 * What is renewed by itself is a sign-in of its own, though it shares a file with others. */
const struct sign_in sign_ins[] = {
        { "claude-sign-in",
          "Claude Code (subscription)",
          ".claude/.credentials.json",
          "CLAUDE_CONFIG_DIR",
          "ms:/claudeAiOauth/expiresAt",
          ".claude.lock",
          false,
          { { "", "/claudeAiOauth/accessToken", CLAUDE_API, NULL, "bearer", "opaque:sk-ant-oat01-", "access_token" },
            { ".refresh", "/claudeAiOauth/refreshToken", CLAUDE_TOKEN, NULL, CLAUDE_REFRESH, "opaque:sk-ant-ort01-",
              "refresh_token" } } },
        { "codex-sign-in",
          "Codex (ChatGPT, or a key)",
          ".codex/auth.json",
          "CODEX_HOME",
          "now:/last_refresh",
          NULL,
          false,
          { { "", "/tokens/access_token", CHATGPT_API, NULL, "bearer", "jwt", "access_token" },
            { ".refresh", "/tokens/refresh_token", CHATGPT_TOKEN, NULL, CHATGPT_REFRESH, "opaque:rt_",
              "refresh_token" },
            { ".id", "/tokens/id_token", CHATGPT_TOKEN, NULL, CHATGPT_ID, "jwt", "id_token" },
            { ".key", "/OPENAI_API_KEY", CHATGPT_API, NULL, "bearer", NULL, NULL } } },
        { "copilot-apps-sign-in",
          "GitHub Copilot (editors)",
          ".config/github-copilot/apps.json",
          NULL,
          NULL,
          NULL,
          false,
          { { "", "/*/oauth_token", COPILOT_API, NULL, "bearer", NULL, NULL } } },
        { "copilot-hosts-sign-in",
          "GitHub Copilot (editors, before)",
          ".config/github-copilot/hosts.json",
          NULL,
          NULL,
          NULL,
          false,
          { { "", "/*/oauth_token", COPILOT_API, NULL, "bearer", NULL, NULL } } },
        { "copilot-sign-in",
          "GitHub Copilot CLI",
          ".copilot/config.json",
          "COPILOT_HOME",
          NULL,
          NULL,
          false,
          { { "", "/copilot_tokens/*", COPILOT_API, NULL, "bearer", NULL, NULL } } },
        { "gcloud-sign-in",
          "Google Cloud (application default credentials)",
          ".config/gcloud/application_default_credentials.json",
          "CLOUDSDK_CONFIG",
          NULL,
          NULL,
          false,
          { { "", NULL, LIST("*.googleapis.com"), NULL, "bearer", "opaque:ya29.", "access_token" },
            { ".refresh", "/refresh_token", GOOGLE_TOKEN, NULL, GOOGLE_REFRESH, "opaque:1//0", "refresh_token" },
            { ".secret", "/client_secret", GOOGLE_TOKEN, NULL, "body:client_secret@/token", NULL, NULL },
            { ".id", NULL, GOOGLE_TOKEN, NULL, "body:id_token@/token", "jwt", "id_token" } } },
        { "gemini-sign-in",
          "Gemini CLI (Google account)",
          ".gemini/oauth_creds.json",
          "GEMINI_CLI_HOME/.gemini",
          "ms:/expiry_date",
          NULL,
          false,
          { { "", "/access_token", GOOGLE_API, NULL, "bearer,query:access_token", "opaque:ya29.", "access_token" },
            { ".refresh", "/refresh_token", GOOGLE_TOKEN, NULL, GOOGLE_REFRESH, "opaque:1//0", "refresh_token" },
            { ".id", "/id_token", GOOGLE_TOKEN, NULL, "body:id_token@/token", "jwt", "id_token" } } },
        { "gh-sign-in",
          "GitHub CLI",
          ".config/gh/hosts.yml",
          "GH_CONFIG_DIR",
          NULL,
          NULL,
          true,
          { { "", "/github.com/oauth_token", NULL, "github", NULL, NULL, NULL },
            { ".user", "/github.com/users/*/oauth_token", NULL, "github", NULL, NULL, NULL } } },
        { "opencode-chatgpt-sign-in",
          "opencode (ChatGPT)",
          ".local/share/opencode/auth.json",
          "XDG_DATA_HOME/opencode",
          "ms:/openai/expires",
          NULL,
          false,
          { { "", "/openai/access", CHATGPT_API, NULL, "bearer", "jwt", "access_token" },
            { ".refresh", "/openai/refresh", CHATGPT_TOKEN, NULL, CHATGPT_REFRESH, "opaque:rt_", "refresh_token" },
            { ".id", NULL, CHATGPT_TOKEN, NULL, CHATGPT_ID, "jwt", "id_token" } } },
        { "opencode-sign-in",
          "opencode",
          ".local/share/opencode/auth.json",
          "XDG_DATA_HOME/opencode",
          "ms:/anthropic/expires",
          NULL,
          false,
          { { "", "/anthropic/access", CLAUDE_API, NULL, "bearer", "opaque:sk-ant-oat01-", "access_token" },
            { ".refresh", "/anthropic/refresh", CLAUDE_TOKEN, NULL, CLAUDE_REFRESH, "opaque:sk-ant-ort01-",
              "refresh_token" },
            { ".copilot", "/github-copilot/refresh", COPILOT_API, NULL, "bearer", NULL, NULL },
            { ".copilot-access", "/github-copilot/access", COPILOT_API, NULL, "bearer", NULL, NULL },
            KEY("anthropic", "anthropic"),
            KEY("deepseek", "deepseek"),
            KEY("google", "gemini"),
            KEY("groq", "groq"),
            KEY("huggingface", "huggingface"),
            KEY("mistral", "mistral"),
            KEY("openai", "openai"),
            KEY("openrouter", "openrouter"),
            KEY("togetherai", "together"),
            KEY("xai", "xai") } },
        { "pi-chatgpt-sign-in",
          "pi (ChatGPT)",
          ".pi/agent/auth.json",
          "PI_CODING_AGENT_DIR",
          "ms:/openai-codex/expires",
          NULL,
          false,
          { { "", "/openai-codex/access", CHATGPT_API, NULL, "bearer", "jwt", "access_token" },
            { ".refresh", "/openai-codex/refresh", CHATGPT_TOKEN, NULL, CHATGPT_REFRESH, "opaque:rt_",
              "refresh_token" },
            { ".id", NULL, CHATGPT_TOKEN, NULL, CHATGPT_ID, "jwt", "id_token" } } },
        /* GitHub's token is not among them: pi exchanges it for another one, which would be real inside. */
        { "pi-sign-in",
          "pi",
          ".pi/agent/auth.json",
          "PI_CODING_AGENT_DIR",
          "ms:/anthropic/expires",
          NULL,
          false,
          { { "", "/anthropic/access", CLAUDE_API, NULL, "bearer", "opaque:sk-ant-oat01-", "access_token" },
            { ".refresh", "/anthropic/refresh", CLAUDE_TOKEN, NULL, CLAUDE_REFRESH, "opaque:sk-ant-ort01-",
              "refresh_token" },
            KEY("anthropic", "anthropic"),
            KEY("deepseek", "deepseek"),
            KEY("google", "gemini"),
            KEY("groq", "groq"),
            KEY("huggingface", "huggingface"),
            KEY("mistral", "mistral"),
            KEY("openai", "openai"),
            KEY("openrouter", "openrouter"),
            KEY("together", "together"),
            KEY("xai", "xai") } },
};
const size_t n_sign_ins = sizeof sign_ins / sizeof *sign_ins;

const struct sign_in *sign_in_find(struct str name) {
        for (size_t i = 0; i < n_sign_ins; i++)
                if (str_is(name, sign_ins[i].name))
                        return &sign_ins[i];
        return NULL;
}

size_t sign_in_secrets(const struct sign_in *sign_in) {
        size_t n = 0;

        while (n < SIGN_IN_SECRETS_MAX && (sign_in->secrets[n].slots || sign_in->secrets[n].provider))
                n++;
        return n;
}

char *sign_in_path(const struct sign_in *sign_in, const char *home) {
        struct str below = str_of(text_or(sign_in->variable, "")), variable;
        const char *slash = strrchr(sign_in->file, '/');
        const char *directory = NULL;

        if (str_split(&below, '/', &variable)) {
                cleanup(free_ptr) char *name = str_dup(variable);
                if (!name)
                        return NULL;
                directory = getenv(name);
        }

        if (directory && directory[0] == '/') {
                const char *last = slash ? slash + 1 : sign_in->file;
                cleanup(free_ptr) char *deeper = below.n ? str_format("%.*s/%s", STR_FMT(below), last) : strdup(last);
                return deeper ? path_join(directory, deeper) : NULL;
        }
        if (home)
                return path_join(home, sign_in->file);

        return NULL;
}

/* reading */

struct each {
        sign_in_visit *visit;
        void *arg;
};

static int each_json(void *arg, const struct json_scalar *scalar) {
        const struct each *each = arg;
        struct buf value = BUF(scalar->raw.n);

        if (!scalar->is_string)
                return 0;

        int r = buf_reserve(&value, scalar->raw.n);
        if (r >= 0)
                r = json_scalar_text(scalar, &value);
        if (r >= 0)
                r = each->visit(each->arg, scalar->pointer, buf_str(&value));

        if (value.p)
                secret_wipe(value.p, value.cap);

        buf_done(&value);
        return r;
}

static int each_node(const struct each *each, const struct node *node, struct buf *pointer) {
        int r = 0;
        size_t before = pointer->n, i = 0;

        if (node->kind == NODE_SCALAR)
                return each->visit(each->arg, buf_str(pointer), node->text);

        for (const struct node *child = node->first; r == 0 && child; child = child->next, i++) {
                if (node->kind == NODE_LIST)
                        r = buf_printf(pointer, "/%zu", i);
                else
                        r = buf_printf(pointer, "/%.*s", STR_FMT(child->key));
                if (r >= 0)
                        r = each_node(each, child, pointer);
                pointer->n = before;
        }

        return r;
}

int sign_in_each(struct str text, bool yaml, sign_in_visit *visit, void *arg, struct err *err) {
        const struct each each = { visit, arg };
        cleanup(document_freep) struct document *document = NULL;
        cleanup(buf_done) struct buf pointer = BUF(JSON_POINTER_MAX);

        if (yaml) {
                int r = yaml_read(text, STR("sign-in"), &document, NULL);
                if (r == -ENOMEM)
                        return err_memory(err);
                if (r < 0)
                        return err_set(err, EBADMSG, "it is not YAML of the plain kind");

                if (document_root(document))
                        return each_node(&each, document_root(document), &pointer);

                return 0;
        }

        int r = json_walk(text, each_json, (void *)&each);
        if (r == -EBADMSG || r == -E2BIG)
                return err_set(err, EBADMSG, "it is not JSON");

        return r;
}

/* what looks like a secret */

static bool is_uuid(struct str s) {
        for (size_t i = 0; i < s.n; i++) {
                bool dash = i == 8 || i == 13 || i == 18 || i == 23;
                if (dash ? s.p[i] != '-' : ascii_hex(s.p[i]) < 0)
                        return false;
        }
        return s.n == 36;
}

bool sign_in_looks_secret(struct str value) {
        size_t letters = 0, digits = 0, run = 0, longest = 0;

        if (value.n < 16 || is_uuid(value) || str_starts(value, STR("https://")) || str_starts(value, STR("http://")))
                return false;

        for (size_t i = 0; i < value.n; i++) {
                bool part = ascii_is_alnum(value.p[i]) || strchr("-_.~+/=", value.p[i]);

                letters += ascii_is_alnum(value.p[i]) && !ascii_is_digit(value.p[i]);
                digits += ascii_is_digit(value.p[i]);
                run = part ? run + 1 : 0;
                if (run > longest)
                        longest = run;
        }

        return longest >= 20 && letters >= 4 && digits >= 2;
}
