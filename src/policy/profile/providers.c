/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/profile/providers.h"

#include <assert.h>

#define LIST(...) ((const char *const[]){ __VA_ARGS__, NULL })
#define NONE ((const char *const[]){ NULL })

/* A pattern has its star in front only, and *.amazonaws.com would be every bucket of everybody: so by region. */
#define BEDROCK(region) "bedrock-runtime." region ".amazonaws.com", "bedrock." region ".amazonaws.com"

/* By name. Where a client may use one of several places, all are listed: the stand-in is replaced in whichever it is.
 */
const struct provider policy_providers[] = {
        { "anthropic", "Anthropic", LIST("ANTHROPIC_API_KEY"), LIST("api.anthropic.com"),
          LIST("header:x-api-key", "bearer"), "sk-ant-", "ANTHROPIC_BASE_URL", "", NULL, NONE },
        { "azure-openai", "Azure OpenAI", LIST("AZURE_OPENAI_API_KEY"),
          LIST("*.openai.azure.com", "*.cognitiveservices.azure.com"), LIST("header:api-key", "bearer"), "",
          "AZURE_OPENAI_ENDPOINT", NULL, NULL, NONE },
        { "bedrock", "Amazon Bedrock", LIST("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"),
          LIST(BEDROCK("us-east-1"), BEDROCK("us-east-2"), BEDROCK("us-west-2"), BEDROCK("ca-central-1"),
               BEDROCK("sa-east-1"), BEDROCK("eu-central-1"), BEDROCK("eu-west-1"), BEDROCK("eu-west-2"),
               BEDROCK("eu-west-3"), BEDROCK("eu-north-1"), BEDROCK("ap-northeast-1"), BEDROCK("ap-south-1"),
               BEDROCK("ap-southeast-1"), BEDROCK("ap-southeast-2")),
          LIST("sigv4"), "", "AWS_ENDPOINT_URL_BEDROCK_RUNTIME", NULL, NULL, NONE },
        { "claude-code", "Claude Code (subscription)", LIST("CLAUDE_CODE_OAUTH_TOKEN"), LIST("api.anthropic.com"),
          LIST("bearer"), "sk-ant-", NULL, NULL, NULL, NONE },
        { "deepseek", "DeepSeek", LIST("DEEPSEEK_API_KEY"), LIST("api.deepseek.com"), LIST("bearer"), "sk-",
          "DEEPSEEK_BASE_URL", "", NULL, NONE },
        { "gemini", "Google Gemini", LIST("GEMINI_API_KEY", "GOOGLE_API_KEY"),
          LIST("generativelanguage.googleapis.com"), LIST("header:x-goog-api-key", "query:key", "bearer"), "AIza",
          "GOOGLE_GEMINI_BASE_URL", "", NULL, NONE, LIST("GOOGLE_API_KEY") },
        { "github", "GitHub (API and git)", LIST("GITHUB_TOKEN", "GH_TOKEN"),
          LIST("api.github.com", "github.com", "uploads.github.com"), LIST("bearer", "basic"), "", NULL, NULL,
          "x-access-token", NONE },
        { "gitlab", "GitLab", LIST("GITLAB_TOKEN"), LIST("gitlab.com"), LIST("header:private-token", "bearer", "basic"),
          "glpat-", NULL, NULL, "oauth2", NONE },
        { "groq", "Groq", LIST("GROQ_API_KEY"), LIST("api.groq.com"), LIST("bearer"), "gsk_", "GROQ_BASE_URL", "", NULL,
          NONE },
        { "huggingface", "Hugging Face", LIST("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"),
          LIST("huggingface.co", "router.huggingface.co", "api-inference.huggingface.co"), LIST("bearer", "basic"),
          "hf_", "HF_ENDPOINT", NULL, "user", NONE },
        { "mistral", "Mistral", LIST("MISTRAL_API_KEY"), LIST("api.mistral.ai", "codestral.mistral.ai"), LIST("bearer"),
          "", "MISTRAL_BASE_URL", "", NULL, NONE },
        { "nous", "Nous Research", LIST("NOUS_API_KEY"), LIST("inference-api.nousresearch.com"), LIST("bearer"), "",
          NULL, NULL, NULL, NONE },
        { "npm", "npm", LIST("NPM_TOKEN", "NODE_AUTH_TOKEN"), LIST("registry.npmjs.org"), LIST("bearer"), "npm_", NULL,
          NULL, NULL, NONE },
        { "openai", "OpenAI", LIST("OPENAI_API_KEY"), LIST("api.openai.com"), LIST("bearer"), "sk-", "OPENAI_BASE_URL",
          "/v1", NULL, NONE },
        { "openrouter", "OpenRouter", LIST("OPENROUTER_API_KEY"), LIST("openrouter.ai"), LIST("bearer"), "sk-or-",
          "OPENROUTER_BASE_URL", "/api/v1", NULL, NONE },
        { "pypi", "PyPI", LIST("TWINE_PASSWORD", "UV_PUBLISH_TOKEN"), LIST("upload.pypi.org"), LIST("basic:password"),
          "pypi-", NULL, NULL, NULL, LIST("TWINE_USERNAME=__token__") },
        { "slack", "Slack", LIST("SLACK_BOT_TOKEN", "SLACK_TOKEN"), LIST("slack.com", "files.slack.com"),
          LIST("bearer"), "xox", NULL, NULL, NULL, NONE },
        { "stripe", "Stripe", LIST("STRIPE_API_KEY", "STRIPE_SECRET_KEY"), LIST("api.stripe.com", "files.stripe.com"),
          LIST("bearer", "basic:user"), "", NULL, NULL, NULL, NONE },
        { "together", "Together", LIST("TOGETHER_API_KEY"), LIST("api.together.xyz", "api.together.ai"), LIST("bearer"),
          "", "TOGETHER_BASE_URL", "/v1", NULL, NONE },
        { "xai", "xAI", LIST("XAI_API_KEY"), LIST("api.x.ai"), LIST("bearer"), "xai-", "XAI_BASE_URL", "/v1", NULL,
          NONE },
};
const size_t n_policy_providers = sizeof policy_providers / sizeof *policy_providers;

const char *const policy_provider_names[] = {
        "anthropic",  "azure-openai", "bedrock",     "claude-code", "deepseek", "gemini", "github",
        "gitlab",     "groq",         "huggingface", "mistral",     "nous",     "npm",    "openai",
        "openrouter", "pypi",         "slack",       "stripe",      "together", "xai",    NULL,
};
static_assert(sizeof policy_provider_names / sizeof *policy_provider_names ==
                  sizeof policy_providers / sizeof *policy_providers + 1,
              "a name for each provider");

const struct provider *provider_find(struct str name) {
        for (size_t i = 0; i < n_policy_providers; i++)
                if (str_is(name, policy_providers[i].name))
                        return &policy_providers[i];
        return NULL;
}
