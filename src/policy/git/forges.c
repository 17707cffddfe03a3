/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/git/forges.h"

#include "base/cleanup.h"
#include "conf/suggest.h"
#include "policy/git/git.h"
#include "policy/git/git_rules.h"

#include <errno.h>
#include <stdlib.h>

/* In texts, "{}" stands for the repository. A row without GraphQL is about REST. */
struct forge_rule {
        const char *host;
        const char *const *methods, *const *paths, *const *queries, *const *mutations;
};

struct forge {
        const char *name;     /* without the '@' */
        bool repository;      /* one follows */
        const char *git_host; /* its repositories are here */
        const char *branches; /* may be pushed; NULL: none */
        const struct forge_rule *rules;
};

#define LIST(...) ((const char *const[]){ __VA_ARGS__, NULL })
#define READS .methods = LIST("GET", "HEAD")

static const struct forge_rule github_read[] = {
        { .host = "api.github.com", READS },
        { .host = "api.github.com", .paths = LIST("/graphql"), .queries = LIST("*") },
        { .host = "raw.githubusercontent.com", READS },
        { .host = "objects.githubusercontent.com", READS },
        { .host = "codeload.github.com", READS },
        { 0 },
};

/* Opens pull requests and comments. Merging, settings, secrets and workflows have paths and mutations of their own. */
static const struct forge_rule github_contribute[] = {
        { .host = "api.github.com", READS },
        { .host = "api.github.com",
          .methods = LIST("POST"),
          .paths = LIST("/repos/{}/pulls", "/repos/{}/issues", "/repos/{}/issues/*/comments",
                        "/repos/{}/pulls/*/comments", "/repos/{}/pulls/*/comments/*/replies") },
        { .host = "api.github.com",
          .paths = LIST("/graphql"),
          .queries = LIST("*"),
          .mutations = LIST("createPullRequest", "createIssue", "addComment", "addPullRequestReviewThreadReply") },
        { .host = "raw.githubusercontent.com", READS },
        { .host = "objects.githubusercontent.com", READS },
        { .host = "codeload.github.com", READS },
        { 0 },
};

static const struct forge_rule gitlab_read[] = {
        { .host = "gitlab.com", READS },
        { .host = "gitlab.com", .paths = LIST("/api/graphql"), .queries = LIST("*") },
        { 0 },
};

/* In paths of GitLab's API a project is one escaped part, or a number: the part is matched as any. */
static const struct forge_rule gitlab_contribute[] = {
        { .host = "gitlab.com", READS },
        { .host = "gitlab.com",
          .paths = LIST("/api/graphql"),
          .queries = LIST("*"),
          .mutations = LIST("mergeRequestCreate", "createIssue", "createNote") },
        { 0 },
};

static const struct forge forges[] = {
        { "github-read", false, "github.com", NULL, github_read },
        { "github-contribute", true, "github.com", "refs/heads/agent/**", github_contribute },
        { "gitlab-read", false, "gitlab.com", NULL, gitlab_read },
        { "gitlab-contribute", true, "gitlab.com", "refs/heads/agent/**", gitlab_contribute },
};

const char *forge_name(size_t i, const char **ret_help) {
        if (i >= sizeof forges / sizeof *forges)
                return NULL;
        *ret_help = forges[i].repository ? "OWNER/NAME: read all, push to agent/**, open requests and comment there"
                                         : "clone, fetch, REST by GET, GraphQL queries";
        return forges[i].name;
}

/* "@name" or "@name OWNER/REPO". */
static const struct forge *forge_find(struct str text, struct str *ret_repository) {
        ptrdiff_t space = str_find(text, ' ');
        struct str name = str_skip(space < 0 ? text : str_first(text, (size_t)space), 1);

        *ret_repository = str_n(NULL, 0);
        if (space >= 0)
                *ret_repository = str_trim(str_skip(text, (size_t)space + 1));

        for (size_t i = 0; text.n > 0 && text.p[0] == '@' && i < sizeof forges / sizeof *forges; i++)
                if (str_is(name, forges[i].name))
                        return &forges[i];

        return NULL;
}

bool forge_is_reference(struct str text) {
        struct str repository;

        return forge_find(text, &repository) != NULL;
}

/* OWNER/NAME, with the forge's host in front or without. */
static struct str repository_path(const struct forge *forge, struct str repository) {
        struct str host = str_of(forge->git_host);

        if (str_starts(repository, host) && repository.n > host.n && repository.p[host.n] == '/')
                repository = str_skip(repository, host.n + 1);
        if (str_ends(repository, STR(".git")))
                repository.n -= 4;
        return repository;
}

int check_forge(struct str text, struct err *err) {
        struct str repository, plain;
        const struct forge *forge = forge_find(text, &repository);

        if (!forge)
                return err_set(err, EINVAL, "%s is no group for a forge", show(text).text);
        if (!forge->repository && repository.n > 0)
                return err_set(err, EINVAL, "@%s is for all repositories and takes none", forge->name);

        if (forge->repository &&
            (!git_path_parse(repository_path(forge, repository), &plain) || str_find(plain, '/') < 0))
                return err_set(err, EINVAL, "@%s needs a repository behind it, as \"@%s acme/app\"", forge->name,
                               forge->name);

        return 0;
}

/* A copy of the list, "{}" replaced. */
static int add_texts(origin_texts *to, const char *const *list, struct str repository, const char *origin) {
        for (; list && *list; list++) {
                const char *mark = strstr(*list, "{}");
                cleanup(free_ptr) char *text =
                    mark ? str_format("%.*s%.*s%s", (int)(mark - *list), *list, STR_FMT(repository), mark + 2)
                         : str_dup(str_of(*list));
                if (!text || origin_texts_add(to, str_of(text), origin) < 0)
                        return -ENOMEM;
        }

        return 0;
}

static int add_rule(struct policy *policy, const struct forge_rule *row, struct str repository, const char *origin) {
        struct request_rule empty = { .host = str_dup(str_of(row->host)), .origin = str_dup(str_of(origin)) };

        if (!empty.host || !empty.origin || vec_push(&policy->network.rules, empty) < 0) {
                free(empty.host);
                free(empty.origin);
                return -ENOMEM;
        }

        struct request_rule *rule = &policy->network.rules.p[policy->network.rules.n - 1];
        int r = add_texts(&rule->methods, row->methods, repository, origin);
        if (r < 0)
                return r;

        r = add_texts(&rule->paths, row->paths, repository, origin);
        if (r < 0)
                return r;

        r = add_texts(&rule->queries, row->queries, repository, origin);
        if (r < 0)
                return r;

        return add_texts(&rule->mutations, row->mutations, repository, origin);
}

static int add_git(struct policy *policy, const struct forge *forge, struct str repository, const char *origin) {
        cleanup(free_ptr) char *all = str_format("%s/**", forge->git_host);
        struct git_rule *rule = all ? git_rule_add(policy, all, origin) : NULL;

        if (!rule)
                return -ENOMEM;
        if (!forge->branches)
                return 0;

        cleanup(free_ptr) char *one = str_format("%s/%.*s", forge->git_host, STR_FMT(repository));
        rule = one ? git_rule_add(policy, one, origin) : NULL;
        if (!rule)
                return -ENOMEM;

        return origin_texts_add(&rule->push, str_of(forge->branches), origin);
}

int forges_expand(struct policy *policy, struct err *err) {
        for (size_t i = 0; i < policy->network.allow.n; i++) {
                const struct origin_text *entry = &policy->network.allow.p[i];
                struct str repository;
                const struct forge *forge = forge_find(str_of(entry->text), &repository);
                if (!forge)
                        continue;

                cleanup(free_ptr) char *origin = str_format("%s in %s", entry->text, entry->origin);
                int r = origin ? 0 : -ENOMEM;
                repository = repository_path(forge, repository);

                for (const struct forge_rule *row = forge->rules; r == 0 && row->host; row++)
                        r = add_rule(policy, row, repository, origin);

                if (r >= 0)
                        r = add_git(policy, forge, repository, origin);
                if (r < 0)
                        return err_memory(err);
        }

        return 0;
}
