/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/groups.h"

#include "conf/suggest.h"

#include <errno.h>

/*
 * A row names only hosts that the service itself documents. "*.x" does not include "x": rows that need both list both.
 * Anyone who can write to a service can send data out through it; the widest rows (@github, @google) say so in help.
 */

#define HOSTS(...) ((const char *const[]){ __VA_ARGS__, NULL })

const struct group policy_groups[] = {
        { "alpine", "Alpine packages", MIRROR_NONE, HOSTS("*.alpinelinux.org") },
        { "anthropic", "Anthropic API and sign-in", MIRROR_NONE,
          HOSTS("*.anthropic.com", "claude.ai", "*.claude.ai", "platform.claude.com") },
        { "bitbucket", "Bitbucket, git and API", MIRROR_NONE, HOSTS("bitbucket.org", "*.bitbucket.org") },
        { "conda", "conda packages", MIRROR_NONE, HOSTS("*.anaconda.org", "*.anaconda.com") },
        { "crates", "Rust crates", MIRROR_CARGO, HOSTS("crates.io", "*.crates.io", "*.rust-lang.org") },
        { "debian", "Debian packages", MIRROR_APT, HOSTS("*.debian.org") },
        { "dev", "what most projects want: forges, package registries, documentation (data can be sent to the forges)",
          MIRROR_NONE,
          HOSTS("@github", "@gitlab", "@bitbucket", "@npm", "@yarn", "@pypi", "@crates", "@golang", "@maven", "@gradle",
                "@rubygems", "@packagist", "@nuget", "@hex", "@docs") },
        { "docker", "Docker Hub images", MIRROR_NONE, HOSTS("*.docker.io", "*.docker.com") },
        { "docs", "documentation sites, to read", MIRROR_NONE,
          HOSTS("developer.mozilla.org", "docs.python.org", "docs.rs", "doc.rust-lang.org", "pkg.go.dev", "go.dev",
                "nodejs.org", "en.cppreference.com", "man7.org", "www.kernel.org", "docs.kernel.org",
                "*.readthedocs.io", "*.readthedocs.org", "docs.github.com", "docs.docker.com", "docs.oracle.com",
                "kubernetes.io", "www.postgresql.org", "www.sqlite.org", "react.dev", "www.typescriptlang.org",
                "docs.djangoproject.com") },
        { "fedora", "Fedora packages", MIRROR_NONE, HOSTS("*.fedoraproject.org") },
        { "github", "GitHub, git, API, releases and container images (data can be sent there)", MIRROR_NONE,
          HOSTS("github.com", "*.github.com", "*.githubusercontent.com", "*.githubassets.com", "ghcr.io") },
        { "gitlab", "GitLab.com, git and API", MIRROR_NONE, HOSTS("gitlab.com", "*.gitlab.com") },
        { "golang", "Go modules", MIRROR_GO, HOSTS("*.golang.org", "golang.org", "go.dev") },
        { "google", "Google APIs and sign-in (data can be sent there)", MIRROR_NONE,
          HOSTS("*.googleapis.com", "accounts.google.com") },
        { "gradle", "Gradle and its plugins", MIRROR_NONE, HOSTS("*.gradle.org") },
        { "hex", "Elixir and Erlang packages", MIRROR_NONE, HOSTS("hex.pm", "*.hex.pm") },
        { "homebrew", "Homebrew formulae and bottles", MIRROR_NONE,
          HOSTS("*.brew.sh", "ghcr.io", "*.githubusercontent.com") },
        { "huggingface", "Hugging Face models and data sets", MIRROR_NONE,
          HOSTS("huggingface.co", "*.huggingface.co", "*.hf.co") },
        { "maven", "Maven Central", MIRROR_NONE, HOSTS("*.maven.org", "*.maven.apache.org") },
        { "npm", "npm packages", MIRROR_NPM, HOSTS("*.npmjs.org") },
        { "nuget", ".NET packages", MIRROR_NONE, HOSTS("*.nuget.org") },
        { "openai", "OpenAI API and sign-in", MIRROR_NONE, HOSTS("api.openai.com", "auth.openai.com", "chatgpt.com") },
        { "openrouter", "OpenRouter API", MIRROR_NONE, HOSTS("openrouter.ai", "*.openrouter.ai") },
        { "packagist", "PHP packages", MIRROR_NONE, HOSTS("packagist.org", "*.packagist.org", "getcomposer.org") },
        { "playwright", "browsers for Playwright", MIRROR_NONE,
          HOSTS("cdn.playwright.dev", "playwright.download.prss.microsoft.com") },
        { "pypi", "Python packages", MIRROR_PIP, HOSTS("pypi.org", "*.pypi.org", "*.pythonhosted.org") },
        { "rubygems", "Ruby gems", MIRROR_NONE, HOSTS("rubygems.org", "*.rubygems.org") },
        { "ubuntu", "Ubuntu packages", MIRROR_APT, HOSTS("*.ubuntu.com") },
        { "yarn", "Yarn's own registry", MIRROR_NPM, HOSTS("*.yarnpkg.com") },
};
const size_t n_policy_groups = sizeof policy_groups / sizeof policy_groups[0];

const struct group *group_find(struct str reference, struct err *err) {
        struct str name = str_skip(reference, 1);
        struct suggestion suggestion = suggest_for(name);

        for (size_t i = 0; i < n_policy_groups; i++) {
                if (str_is(name, policy_groups[i].name))
                        return &policy_groups[i];
                suggest_offer(&suggestion, policy_groups[i].name);
        }

        err_set(err, ENOENT, "there is no group %s%s", show(reference).text,
                suggestion.best ? suggest_text(&suggestion, "@").text : "; `bailey policy groups` lists them");
        return NULL;
}
