/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs/starter.h"

#include "base/cleanup.h"
#include "base/escape.h"
#include "base/fd.h"
#include "base/paths/path.h"
#include "base/vec.h"
#include "conf/json.h"
#include "conf/suggest.h"
#include "policy/git/gitconfig.h"
#include "policy/match/host.h"
#include "policy/profile/profile.h"
#include "verbs/project_files.h"
#include "verbs/trust_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { POLICY_BYTES_MAX = 256 << 10, FILE_BYTES_MAX = 4 << 20, REMOTES_MAX = 64, STAGES_MAX = 32 };

#define POLICY_NAME ".bailey.yaml"

/* What a file in a project says about the hosts that it needs. */
static const struct {
        const char *file, *group;
} project_files[] = {
        { "package.json", "@npm" },
        { "yarn.lock", "@yarn" },
        { "pyproject.toml", "@pypi" },
        { "requirements.txt", "@pypi" },
        { "setup.py", "@pypi" },
        { "Pipfile", "@pypi" },
        { "environment.yml", "@conda" },
        { "Cargo.toml", "@crates" },
        { "go.mod", "@golang" },
        { "Gemfile", "@rubygems" },
        { "pom.xml", "@maven" },
        { "build.gradle", "@gradle" },
        { "build.gradle", "@maven" },
        { "build.gradle.kts", "@gradle" },
        { "build.gradle.kts", "@maven" },
        { "composer.json", "@packagist" },
        { "mix.exs", "@hex" },
};

/* Dependencies in package.json that fetch more than packages. */
static const struct {
        const char *dependency, *group;
} package_dependencies[] = {
        { "playwright", "@playwright" },
        { "@playwright/test", "@playwright" },
};

/* Forges that have a group. */
static const struct {
        const char *host, *group;
} forges[] = {
        { "github.com", "@github" },
        { "gitlab.com", "@gitlab" },
        { "bitbucket.org", "@bitbucket" },
};

struct entry {
        char *pattern, *why;
};

struct findings {
        VEC(struct entry) allow;
        VEC(const char *) links; /* files that are symbolic links, which are not followed */
        bool ssh;                /* a remote by ssh */
};

static void findings_done(struct findings *found) {
        for (size_t i = 0; i < found->allow.n; i++) {
                free(found->allow.p[i].pattern);
                free(found->allow.p[i].why);
        }
        vec_done(&found->allow);
        vec_done(&found->links);
}

void starter_done(struct starter *starter) {
        free(starter->path);
        buf_done(&starter->text);
        *starter = (struct starter){ 0 };
}

/* Once each; the first reason stays. */
static int findings_add(struct findings *found, const char *pattern, const char *why, struct err *err) {
        for (size_t i = 0; i < found->allow.n; i++)
                if (strcmp(found->allow.p[i].pattern, pattern) == 0)
                        return 0;

        struct entry entry = { .pattern = str_dup(str_of(pattern)), .why = str_dup(str_of(why)) };
        if (!entry.pattern || !entry.why || vec_push(&found->allow, entry) < 0) {
                free(entry.pattern);
                free(entry.why);
                return err_memory(err);
        }

        return 0;
}

/* A link is not followed, and the policy says so. */
static int findings_add_link(struct findings *found, const char *name, struct err *err) {
        for (size_t i = 0; i < found->links.n; i++)
                if (strcmp(found->links.p[i], name) == 0)
                        return 0;

        if (vec_push(&found->links, name) < 0)
                return err_memory(err);
        return 0;
}

/* 1 with what is in the file, 0 where there is none to look at. */
static int project_read(int directory_fd, const char *name, struct findings *found, struct buf *ret, struct err *err) {
        enum project_file kind = PROJECT_FILE_NONE;
        int r;

        r = project_file_read(directory_fd, name, ret, &kind, err);
        if (r < 0)
                return r;
        if (kind == PROJECT_FILE_LINK)
                return findings_add_link(found, name, err);

        return kind == PROJECT_FILE_REGULAR;
}

/* "name": "version", and nothing else: what npm would not understand is not guessed at. */
static int look_at_dependencies(const struct document *document, const struct node *list, struct findings *found,
                                struct err *err) {
        if (list->kind != NODE_MAP)
                return node_error(document, list, err, "%s must be an object with a version for each package, not %s",
                                  show(list->key).text, node_kind_name(list->kind));

        for (const struct node *node = list->first; node; node = node->next)
                if (node->kind != NODE_SCALAR || !node->quoted)
                        return node_error(document, node, err, "the version of %s must be a string",
                                          show(node->key).text);

        for (size_t i = 0; i < sizeof package_dependencies / sizeof *package_dependencies; i++) {
                if (!node_get(list, str_of(package_dependencies[i].dependency)))
                        continue;
                int r = findings_add(found, package_dependencies[i].group, "package.json depends on it", err);
                if (r < 0)
                        return r;
        }

        return 0;
}

/* package.json is read, because what a project depends on may need more hosts; a broken one is the person's to mend. */
static int look_at_package(int directory_fd, struct findings *found, struct err *err) {
        static const char *const lists[] = { "dependencies", "devDependencies", "optionalDependencies" };
        cleanup(buf_done) struct buf text = BUF(FILE_BYTES_MAX + 1);
        cleanup(document_freep) struct document *document = NULL;

        int r = project_read(directory_fd, "package.json", found, &text, err);
        if (r <= 0)
                return r;

        r = json_read(buf_str(&text), STR("package.json"), &document, err);
        if (r < 0)
                return r;
        if (!document_root(document) || document_root(document)->kind != NODE_MAP)
                return err_set(err, EINVAL, "package.json is no JSON object");

        for (size_t l = 0; l < sizeof lists / sizeof *lists; l++) {
                const struct node *list = node_get(document_root(document), str_of(lists[l]));
                if (!list)
                        continue;

                r = look_at_dependencies(document, list, found, err);
                if (r < 0)
                        return r;
        }

        return 0;
}

/* The registry that an image comes from, with a port: its first part where that is a host, else Docker Hub's. */
static int add_registry(struct str image, struct findings *found, struct err *err) {
        ptrdiff_t slash = str_find(image, '/');
        struct str first = slash > 0 ? str_first(image, (size_t)slash) : (struct str){ 0 };
        struct authority authority;

        if (str_find(image, '$') >= 0 || str_is(image, "scratch"))
                return 0;
        if (first.n == 0 || (str_find(first, '.') < 0 && str_find(first, ':') < 0) || str_is(first, "docker.io"))
                return findings_add(found, "@docker", "Dockerfile: images", err);
        if (authority_parse(first, 443, &authority, NULL) < 0 || authority.host.kind != HOST_NAME)
                return 0;

        cleanup(free_ptr) char *pattern = str_format("%s:%d", authority.host.name, authority.port);
        if (!pattern)
                return err_memory(err);

        return findings_add(found, pattern, "Dockerfile: images", err);
}

/* Words are apart by blanks and tabs; false at the end. */
static bool next_word(struct str *rest, struct str *ret) {
        size_t n = 0;

        *rest = str_trim(*rest);
        while (n < rest->n && rest->p[n] != ' ' && rest->p[n] != '\t')
                n++;

        *ret = str_first(*rest, n);
        *rest = str_skip(*rest, n);

        return n > 0;
}

/* FROM [--platform=...] IMAGE [AS STAGE]. A stage can be the image of a later line. */
static int look_at_from(struct str line, struct str stages[STAGES_MAX], size_t *n, struct findings *found,
                        struct err *err) {
        struct str word = { 0 }, image = { 0 };

        if (!next_word(&line, &word) || !str_eq_nocase(word, STR("from")))
                return 0;

        while (next_word(&line, &image) && str_starts(image, STR("--")))
                image = (struct str){ 0 };

        for (size_t i = 0; i < *n; i++)
                if (str_eq_nocase(stages[i], image))
                        return 0;

        if (next_word(&line, &word) && str_eq_nocase(word, STR("as")) && next_word(&line, &word) && *n < STAGES_MAX)
                stages[(*n)++] = word;

        if (image.n)
                return add_registry(image, found, err);

        return 0;
}

static int look_at_images(int directory_fd, struct findings *found, struct err *err) {
        cleanup(buf_done) struct buf text = BUF(FILE_BYTES_MAX + 1);
        struct str stages[STAGES_MAX], line;
        size_t n = 0;

        int r = project_read(directory_fd, "Dockerfile", found, &text, err);
        if (r <= 0)
                return r;

        r = 0;
        struct str rest = buf_str(&text);
        while (r == 0 && str_split(&rest, '\n', &line))
                r = look_at_from(line, stages, &n, found, err);

        return r;
}

static int look_at_files(int directory_fd, struct findings *found, struct err *err) {
        for (size_t i = 0; i < sizeof project_files / sizeof *project_files; i++) {
                const char *name = project_files[i].file;
                enum project_file kind = PROJECT_FILE_NONE;
                int r = project_file_examine(directory_fd, name, &kind, err);
                if (r == 0 && kind == PROJECT_FILE_REGULAR)
                        r = findings_add(found, project_files[i].group, name, err);
                if (r == 0 && kind == PROJECT_FILE_LINK)
                        r = findings_add_link(found, name, err);
                if (r < 0)
                        return r;
        }

        int r = look_at_images(directory_fd, found, err);
        if (r < 0)
                return r;

        return look_at_package(directory_fd, found, err);
}

/* HOST[:PORT] of https://host/..., ssh://user@host:port/... and user@host:path; empty for a path and for all else. */
static struct str remote_authority(struct str url, bool *ret_ssh) {
        const char *mark = url.n ? memmem(url.p, url.n, "://", 3) : NULL;
        struct str authority = mark ? str_skip(url, (size_t)(mark - url.p) + 3) : url;
        ptrdiff_t slash = str_find(authority, '/'), colon = str_find(authority, ':');

        *ret_ssh = !mark || str_starts(url, STR("ssh://")) || str_starts(url, STR("git+ssh://"));
        if (!mark && (colon < 0 || (slash >= 0 && slash < colon)))
                return (struct str){ 0 };
        if (colon >= 0 && str_starts(str_skip(authority, (size_t)colon), STR("::"))) /* a helper of git's, no host */
                return (struct str){ 0 };
        if (mark && !*ret_ssh && !str_starts(url, STR("https://")))
                return (struct str){ 0 };

        if (!mark)
                authority = str_first(authority, (size_t)colon);
        else if (slash >= 0)
                authority = str_first(authority, (size_t)slash);

        const char *at = authority.n ? memrchr(authority.p, '@', authority.n) : NULL;
        return at ? str_skip(authority, (size_t)(at - authority.p) + 1) : authority;
}

struct remotes {
        struct findings *found;
        struct err *err;
        size_t n;
};

static int remotes_visit(const struct gitconfig_setting *setting, void *context) {
        struct remotes *remotes = context;
        bool submodule = str_is(setting->section, "submodule"), ssh;
        const char *why = submodule ? "a submodule" : "a git remote";
        struct authority authority;

        if (!submodule && !str_is(setting->section, "remote"))
                return 0;
        if (!str_is(setting->key, "url") || !setting->value.p || remotes->n++ >= REMOTES_MAX)
                return 0;

        struct str text = remote_authority(setting->value, &ssh);
        if (text.n == 0 || authority_parse(text, ssh ? 22 : 443, &authority, NULL) < 0)
                return 0;
        if (authority.host.kind != HOST_NAME)
                return 0;

        remotes->found->ssh |= ssh;

        for (size_t i = 0; i < sizeof forges / sizeof *forges; i++)
                if (strcmp(authority.host.name, forges[i].host) == 0)
                        return findings_add(remotes->found, forges[i].group, why, remotes->err);

        cleanup(free_ptr) char *pattern = str_format("%s:%d", authority.host.name, authority.port);
        if (!pattern)
                return err_memory(remotes->err);

        return findings_add(remotes->found, pattern, why, remotes->err);
}

static int look_at_git(int directory_fd, struct findings *found, struct err *err) {
        static const char *const files[] = { ".git/config", ".gitmodules" };

        for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
                cleanup(buf_done) struct buf text = BUF(FILE_BYTES_MAX + 1);
                struct remotes remotes = { .found = found, .err = err };
                int r = project_read(directory_fd, files[i], found, &text, err);
                if (r < 0)
                        return r;
                if (r == 0)
                        continue;

                r = gitconfig_read(buf_str(&text), remotes_visit, &remotes, err);
                if (r < 0)
                        return err_wrap(err, r, "%s", files[i]);
        }

        return 0;
}

/* text */

static bool program_is_there(struct str name) {
        struct str rest = str_of(getenv("PATH") ? getenv("PATH") : "/usr/local/bin:/usr/bin:/bin"), directory;

        while (str_split(&rest, ':', &directory)) {
                cleanup(free_ptr) char *path = str_format("%.*s/%.*s", STR_FMT(directory), STR_FMT(name));
                if (directory.n > 0 && directory.p[0] == '/' && path && access(path, X_OK) == 0)
                        return true;
        }

        return false;
}

static int put_agents(struct buf *out) {
        int r = 0;

        for (size_t i = 0; r == 0 && i < n_profiles_built_in; i++) {
                struct str rest = str_of(profiles_built_in[i].programs), program;
                while (r == 0 && str_split(&rest, ',', &program)) {
                        program = str_trim(program);
                        if (!program_is_there(program))
                                continue;

                        r = buf_printf(
                            out, "# %.*s is on this machine: `bailey run -- %.*s` knows what it needs (profile %s).\n",
                            STR_FMT(program), STR_FMT(program), profiles_built_in[i].name);
                        break;
                }
        }

        return r;
}

static int put_credentials(struct buf *out, const struct findings *found) {
        static const char *const variables[] = { "GITHUB_TOKEN", "GH_TOKEN" };
        bool github = false;
        int r = 0;

        for (size_t i = 0; i < found->allow.n; i++)
                github |= strcmp(found->allow.p[i].pattern, "@github") == 0;

        for (size_t i = 0; r == 0 && github && i < sizeof variables / sizeof *variables; i++) {
                if (!getenv(variables[i]))
                        continue;
                r = buf_printf(out,
                               "\n# Your token for GitHub is used on the way to GitHub; the program only sees a "
                               "stand-in. It may do what the\n"
                               "# token may. Take the next two lines out to keep it from that.\n"
                               "credentials:\n  - { provider: github, source: \"env:%s\" }\n",
                               variables[i]);
                break;
        }

        return r;
}

static int put_links(struct buf *out, const struct findings *found) {
        int r = 0;

        for (size_t i = 0; r == 0 && i < found->links.n; i++)
                r = buf_printf(out, "# %s is a symbolic link, or below one: it was not looked at.\n",
                               found->links.p[i]);
        return r;
}

static int put_policy(struct buf *out, const struct findings *found) {
        int r = buf_add(
            out, "# Made by `bailey init`. What is not named here is refused: hosts, files outside this directory, "
                 "credentials.\n"
                 "# `bailey policy check` reads it, `bailey why HOST` explains it, `bailey-policy(5)` describes it.\n");
        if (r == 0)
                r = put_agents(out);
        if (r == 0)
                r = put_links(out, found);

        if (r == 0)
                r = buf_add(out, "mode: workspace-write-whitelist # writes in this directory, network by the list "
                                 "below\n\nnetwork:\n");

        if (r == 0)
                r = found->allow.n
                        ? buf_add(out, "  allow:\n")
                        : buf_add(out, "  allow: [] # nothing here names a host; @dev is what most projects want\n");

        for (size_t i = 0; r == 0 && i < found->allow.n; i++)
                r = buf_printf(out, "    - \"%s\" # %s\n", found->allow.p[i].pattern, found->allow.p[i].why);

        if (r == 0 && found->ssh)
                r = buf_add(
                    out,
                    "# A remote is reached by ssh: its keys stay outside (docs/recipes.md says how to use them).\n");

        if (r < 0)
                return r;

        return put_credentials(out, found);
}

int starter_propose(const char *directory, struct starter *ret, struct err *err) {
        cleanup(starter_done) struct starter starter = { .text = BUF(POLICY_BYTES_MAX) };
        cleanup(findings_done) struct findings found = { 0 };
        const char *place = text_or(directory, ".");
        struct stat st;

        cleanup(close_fd) int fd = open(place, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return err_errno(err, "cannot open the directory %s", show(str_of(place)).text);

        starter.path = path_join(place, POLICY_NAME);
        if (!starter.path)
                return err_memory(err);

        starter.exists = fstatat(fd, POLICY_NAME, &st, AT_SYMLINK_NOFOLLOW) == 0;

        int r = look_at_git(fd, &found, err);
        if (r < 0)
                return r;

        r = look_at_files(fd, &found, err);
        if (r < 0)
                return r;

        r = put_policy(&starter.text, &found);
        if (r < 0)
                return err_set(err, -r, "the policy would be too large");

        *ret = starter;
        starter = (struct starter){ 0 };

        return 0;
}

/* Whether the file is what was written a moment ago, and not what somebody has put in its place. */
static bool is_as_written(const struct starter *starter, const struct trust_report *report) {
        unsigned char digest[DIGEST_BYTES];
        char hex[DIGEST_HEX_MAX];

        digest_sha256(buf_str(&starter->text), digest);
        digest_hex(digest, hex);

        return strcmp(hex, report->digest) == 0;
}

int starter_write(const struct starter *starter, bool replace, struct err *err) {
        cleanup(trust_report_done) struct trust_report report = { 0 };
        int r;

        if (replace)
                r = path_replace_file(starter->path, buf_str(&starter->text), 0644, err);
        else
                r = path_create_file(starter->path, buf_str(&starter->text), 0644, err);
        if (r < 0)
                return r;

        r = trust_examine(starter->path, &report, err);
        if (r < 0)
                return r;
        if (!report.path || !is_as_written(starter, &report))
                return err_set(err, EBUSY, "%s was changed by somebody else; look at it, and say `bailey trust`",
                               starter->path);
        if (report.wishes.n > 0 && !report.trusted)
                return trust_add(report.path, report.digest, err);

        return 0;
}
