/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/paths/path.h"
#include "base/secrets/digest.h"
#include "bridge/tool_policy.h"
#include "policy/git/git.h"
#include "policy/tools/browser.h"
#include "policy/tools/tools.h"
#include "roles/helper.h"
#include "run/bridge/run_bridge_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HEAD_MAX = 1200 };

static int no_memory(struct err *err) {
        return err_set(err, ENOMEM, "out of memory");
}

/* Where the system has programs. A user's own PATH may lead into places that the sandbox writes. */
char *bridge_find_program(const char *name) {
        static const char *const places[] = { "/usr/local/bin", "/usr/bin", "/bin", "/snap/bin", "/opt/bin" };

        for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
                cleanup(free_ptr) char *path = path_join(places[i], name);
                if (path && access(path, X_OK) == 0)
                        return take_ptr(&path);
        }

        return NULL;
}

char *bridge_program(const struct bridge_tool *tool, const struct policy *policy, struct err *err) {
        cleanup(free_ptr) char *path = NULL;

        if (!tool->program)
                path = bridge_find_program(tool->name);
        else if (path_expand_home(str_of(tool->program), policy->home, &path) < 0 || access(path, X_OK) < 0)
                path = (free(path), NULL);

        if (!path && tool->program)
                err_set(err, ENOENT, "there is no program %s on this host", tool->program);
        else if (!path)
                err_set(err, ENOENT,
                        "there is no program %s on this host, where the system has programs; name it by `program`",
                        tool->name);

        return take_ptr(&path);
}

/* What the tool's sandbox trusts must not be in reach of the sandbox that calls it. */
int bridge_check_closed(const struct run *run, const char *path, const char *what, struct err *err) {
        cleanup(free_ptr) char *real = realpath(path, NULL);

        if (path_rules_host_access(run->rules, path, NULL) != PATH_WRITE &&
            (!real || path_rules_host_access(run->rules, real, NULL) != PATH_WRITE))
                return 0;

        return err_set(err, EPERM,
                       "%s (%s) lies where the sandbox may write: what it calls could be changed from inside", what,
                       path);
}

static int check_tools(const struct run *run, struct err *err) {
        int r = 0;

        for (size_t i = 0; r == 0 && i < run->session.policy->bridge.n; i++) {
                const struct bridge_tool *tool = &run->session.policy->bridge.p[i];
                cleanup(free_ptr) char *program = bridge_program(tool, run->session.policy, NULL);
                cleanup(free_ptr) char *what = str_format("%s: the program of the tool '%s'", tool->origin, tool->name);

                if (!what)
                        return no_memory(err);
                if (program)
                        r = bridge_check_closed(run, program, what, err);

                for (size_t k = 0; r == 0 && k < tool->files.n; k++) {
                        cleanup(free_ptr) char *path = NULL;
                        if (path_expand_home(str_of(tool->files.p[k].text), run->session.policy->home, &path) == 0)
                                r = bridge_check_closed(run, path, tool->files.p[k].origin, err);
                }
        }

        return r;
}

static int find_directory(char **ret, struct err *err) {
        const char *cache = getenv("XDG_CACHE_HOME"), *home = path_home();

        if (cache && cache[0] == '/')
                *ret = str_format("%s/bailey/bridge", cache);
        else if (home)
                *ret = str_format("%s/.cache/bailey/bridge", home);
        else
                return err_set(err, ENOENT, "there is no home directory, where bridged tools would have a place");

        return *ret ? 0 : no_memory(err);
}

int run_bridge_prepare(struct run *run, struct err *err) {
        struct run_bridge *bridge = &run->bridge;
        int r;

        if (run->session.policy->bridge.n == 0 && !policy_has_browser(run->session.policy))
                return 0;

        r = helper_program("bailey-shim", "shim", &bridge->shim, err);
        if (r == 0)
                r = check_tools(run, err);
        if (r == 0 && policy_has_browser(run->session.policy))
                r = run_browser_prepare(run, err);
        if (r == 0)
                r = find_directory(&bridge->directory, err);
        if (r == 0)
                r = bridge_check_closed(run, bridge->directory, "the directory of bridged tools", err);
        if (r < 0)
                return r;

        run->host.shim = bridge->shim;
        if (run->preview)
                return 0;

        bridge->packet = malloc(SHIM_BYTES_MAX);
        cleanup(free_ptr) char *empty = path_join(bridge->directory, "empty");
        if (!bridge->packet || !empty)
                return no_memory(err);

        return path_make_private_dir(empty, err);
}

/* --- a repository that only borrows --- */

/* Of the workspace's HEAD only this is taken over: the name of a branch, or an id. */
static int read_head(const char *git, struct buf *ret, struct err *err) {
        cleanup(free_ptr) char *path = path_join(git, "HEAD");
        cleanup(buf_done) struct buf content = BUF(HEAD_MAX);
        int r = path ? path_read_file(path, HEAD_MAX, &content, err) : no_memory(err);

        if (r < 0)
                return r;

        struct str text = buf_str(&content);
        while (text.n && text.p[text.n - 1] == '\n')
                text.n--;

        bool branch = str_starts(text, STR("ref: ")) && git_ref_is_valid(str_skip(text, 5));
        bool id = text.n == 40;
        for (size_t i = 0; i < text.n && id; i++)
                id = ascii_hex(text.p[i]) >= 0;

        if (!branch && !id)
                return err_set(err, EINVAL, "the HEAD of %s is neither a branch nor an id", git);

        return buf_append(ret, text) < 0 || buf_add(ret, "\n") < 0 ? no_memory(err) : 0;
}

static int make_link(const char *directory, const char *git, const char *name, struct err *err) {
        cleanup(free_ptr) char *from = path_join(directory, name), *to = path_join(git, name);

        if (!from || !to)
                return no_memory(err);
        if (symlink(to, from) < 0 && errno != EEXIST)
                return err_errno(err, "cannot make %s", from);
        return 0;
}

static int write_file(const char *directory, const char *name, struct str content, struct err *err) {
        cleanup(free_ptr) char *path = path_join(directory, name);

        return path ? path_replace_file(path, content, 0600, err) : no_memory(err);
}

/* Made anew where it is not there; only HEAD follows the workspace. */
static int make_shadow(const char *directory, const char *git, struct err *err) {
        cleanup(buf_done) struct buf head = BUF(HEAD_MAX + 2);
        int r = path_make_private_dir(directory, err);

        if (r == 0)
                r = read_head(git, &head, err);
        if (r == 0)
                r = write_file(directory, "HEAD", buf_str(&head), err);
        if (r == 0)
                r = write_file(directory, "config", str_of(tool_policy_git_config), err);
        if (r == 0)
                r = make_link(directory, git, "objects", err);
        if (r == 0)
                r = make_link(directory, git, "refs", err);
        if (r < 0)
                return r;

        return make_link(directory, git, "packed-refs", err);
}

/* A repository that is a plain directory of the workspace; a file or a link could lead anywhere. */
static int find_repository(const struct run *run, char **ret, struct err *err) {
        cleanup(free_ptr) char *git = path_join(run->session.policy->workspace, ".git");
        struct stat st;

        if (!git)
                return no_memory(err);

        if (lstat(git, &st) < 0 || !S_ISDIR(st.st_mode))
                return err_set(err, ENOENT, "the workspace %s is not the top of a repository with a .git directory",
                               run->session.policy->workspace);

        *ret = take_ptr(&git);
        return 0;
}

int bridge_home(const struct run *run, const struct bridge_tool *tool, char **ret_directory, char **ret_git,
                struct err *err) {
        cleanup(free_ptr) char *git = NULL, *directory = NULL;
        unsigned char digest[DIGEST_BYTES];
        char hex[DIGEST_HEX_MAX];
        int r;

        if (!tool_is(tool->workspace, "objects", false)) {
                *ret_directory = path_join(run->bridge.directory, "empty");
                return *ret_directory ? 0 : no_memory(err);
        }

        r = find_repository(run, &git, err);
        if (r < 0)
                return r;

        digest_sha256(str_of(git), digest);
        digest_hex(digest, hex);
        directory = str_format("%s/git-%.24s", run->bridge.directory, hex);
        if (!directory)
                return no_memory(err);

        r = make_shadow(directory, git, err);
        if (r < 0)
                return r;

        *ret_directory = take_ptr(&directory);
        *ret_git = take_ptr(&git);

        return 0;
}
