/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Facts about the host, as the plan needs them: which paths of the rules exist and where they really are, the terminal,
 * the kernel. Reads only. Cheap on purpose: it runs on every launch, so a path costs one system call when it is not
 * there, and nothing is walked.
 */
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/files/listing.h"
#include "base/paths/path.h"
#include "policy/match/glob.h"
#include "sandbox/linux/cgroup.h"
#include "sandbox/linux/probe/probe.h"
#include "sandbox/linux/scope.h"
#include "sandbox/linux/survey/survey_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <unistd.h>

enum { EXPANDED_MAX = 4096 /* paths that one glob may stand for */ };

struct survey {
        const struct path_rules *rules;
        const char *workspace;
        struct plan_host *host;
        struct err *e;
        bool broker; /* the plan will have one */
        struct survey_dirs dirs;
        VEC(const char *) by_hand; /* patterns of rules that a person wrote */
};

static int no_memory(struct err *err) {
        return err_set(err, ENOMEM, "out of memory");
}

/* The path with the links on the way resolved, not the last one. NULL when out of memory. */
static char *real_of(const struct survey_place *at) {
        return at->name[0] ? path_join(at->dir->real, at->name) : strdup("/");
}

/* A built-in protection is as specific as a rule can be; only a person's rule for the very same path comes before it.
 */
static bool survey_overruled(const struct survey *survey, const char *path) {
        for (size_t i = 0; i < survey->by_hand.n; i++)
                if (strcmp(survey->by_hand.p[i], path) == 0)
                        return true;
        return false;
}

/* A protected name below something that is no directory (`.git` is a file in a worktree): that file must stay, or a
 * directory with the name in it could replace it. */
static int add_instead(struct survey *survey, const char *path, const struct path_rule *rule) {
        cleanup(free_ptr) char *parent = strdup(path);
        struct stat st;

        if (!parent)
                return no_memory(survey->e);

        int r = 0;

        do
                *strrchr(parent, '/') = '\0';
        while (parent[0] && lstat(parent, &st) < 0 && (r = survey_doubt(survey->e, errno, parent)) == 0);

        cleanup(free_ptr) char *real = parent[0] ? realpath(parent, NULL) : NULL;
        if (r == 0 && parent[0] && !real)
                r = survey_doubt(survey->e, errno, parent);
        if (r < 0)
                return r;
        if (!real || path_rules_host_access(survey->rules, real, NULL) == PATH_DENIED)
                return 0; /* a view of the link's target would open a closed path */
        if (survey_overruled(survey, parent))
                return 0; /* a file that a person granted by its name has nothing below it */

        return survey_add(
            survey->host,
            (struct plan_path){
                .path = real, .type = PLAN_PATH_FILE, .access = PATH_READ, .protected = true, .origin = rule->origin },
            survey->e);
}

/* Everything between a closed name and its target: each link on the way that the sandbox could replace and, if the
 * target does not exist, the place where it would have to be made. */
static int guard_way(struct survey *survey, const char *path, enum path_access access, const char *origin) {
        struct plan_path link = { .type = PLAN_PATH_LINK, .access = PATH_READ, .protected = true, .origin = origin };
        struct survey_way way;
        int r;

        survey_way_begin(&way, "", path);

        while ((r = survey_way_next(&way)) > 0) {
                if (!survey_may_write(survey->rules, survey->workspace, way.dir))
                        continue;

                link.path = way.link;
                link.link = way.text;
                r = survey_add(survey->host, link, survey->e);
                if (r < 0)
                        return r;
        }

        if (r == -ENOENT && path_rules_host_access(survey->rules, way.end, NULL) == PATH_WRITE) {
                struct plan_path missing = { .path = way.end,
                                             .type = PLAN_PATH_MISSING,
                                             .access = access,
                                             .protected = true,
                                             .origin = origin };
                return survey_add(survey->host, missing, survey->e);
        }

        /* a way that goes in circles leads nowhere, and its links are guarded */
        if (r < 0)
                return survey_doubt(survey->e, -r, path);

        return 0;
}

/* Whether the way to this name may go through a link. */
static bool has_links(const struct survey_place *at, const char *path) {
        size_t n = strlen(at->dir->real);
        return strncmp(path, at->dir->real, n) != 0 || (n > 1 && path[n] != '/');
}

static int add_path(struct survey *survey, const char *path, const struct path_rule *spoken) {
        struct stat st;
        struct survey_place at;

        if (survey_place(&survey->dirs, path, &at) < 0)
                return no_memory(survey->e);

        int missing = survey_look(&at, &st);
        if (missing && survey_doubt(survey->e, missing, path) < 0)
                return -missing;

        bool there = missing == 0, link = there && S_ISLNK(st.st_mode), closes = !spoken->grants;
        if (missing == ENOTDIR && spoken->protected)
                return add_instead(survey, path, spoken);

        const struct path_rule *decided = NULL;
        bool settled = !there && spoken->protected && !spoken->is_glob && !survey_overruled(survey, path);
        enum path_access access = settled ? PATH_READ : path_rules_host_access(survey->rules, path, &decided);
        const struct path_rule *rule = decided ? decided : spoken;

        if (closes && access != PATH_WRITE && (link || has_links(&at, path))) {
                int r = guard_way(survey, path, access, rule->origin);
                if (r < 0)
                        return r;
        }

        if (link && stat(path, &st) < 0)
                return survey_doubt(survey->e, errno, path);

        cleanup(free_ptr) char *real = link ? realpath(path, NULL) : NULL;
        if (link && !real && survey_doubt(survey->e, errno, path) < 0)
                return -survey->e->code;
        if (!real && !(real = real_of(&at)))
                return no_memory(survey->e);

        /* A refusal for a missing path matters only if the sandbox could make that path, or if it appears later: then a
         * broker, if there is one, refuses it. */
        if (!there && closes && !spoken->protected && !(spoken->decides_read && survey->broker) &&
            !survey_may_write_around(survey->rules, real))
                return 0;

        /* Rules hold for what is reached. A person's own link widens a grant; nothing else widens anything. */
        enum path_access own = strcmp(real, path) == 0 ? access : path_rules_host_access(survey->rules, real, NULL);
        bool astray =
            there && rule->grants && own < access && survey_link_planted(survey->rules, survey->workspace, path, real);
        if (!rule->grants && own < access)
                access = own;

        return survey_add(survey->host,
                          (struct plan_path){ .path = real,
                                              .type = there && !astray ? survey_type(&st) : PLAN_PATH_MISSING,
                                              .access = access,
                                              .grants = rule->grants,
                                              .astray = astray,
                                              .protected = spoken->protected && access != PATH_WRITE,
                                              .origin = rule->origin },
                          survey->e);
}

static int survey_expand(struct survey *survey, const char *done, struct str rest, const struct path_rule *rule,
                         size_t *budget);

typedef VEC(char *) texts;

static void texts_done(texts *list) {
        for (size_t i = 0; i < list->n; i++)
                free(list->p[i]);
        vec_done(list);
}

/* The paths in a directory whose names the component matches. */
static int match_in(struct survey *survey, const char *at, struct str magic, texts *ret) {
        struct survey_dir *dir = survey_dir(&survey->dirs, at[0] ? str_of(at) : STR("/"));
        struct str names, name;

        int r = -ENOMEM;

        if (dir)
                r = survey_dir_list(dir, &names);

        if (r < 0)
                return survey_doubt(survey->e, -r, at[0] ? at : "/");

        while (str_split(&names, '\0', &name)) {
                if (!name.n || !glob_match(magic, name))
                        continue;

                cleanup(free_ptr) char *path = str_format("%s/%.*s", at, STR_FMT(name));
                if (!path || vec_push(ret, path) < 0)
                        return no_memory(survey->e);

                take_ptr(&path);
        }

        return 0;
}

/* Each name in the directory that the component matches, and what is left of the pattern below it. */
static int expand_in(struct survey *survey, const char *at, struct str magic, struct str rest,
                     const struct path_rule *rule, size_t *budget) {
        cleanup(texts_done) texts matched = { 0 };
        int r = match_in(survey, at, magic, &matched);

        for (size_t i = 0; r == 0 && i < matched.n; i++) {
                if (++*budget > EXPANDED_MAX)
                        return err_set(survey->e, E2BIG, "%s: the pattern %s stands for more than %u paths",
                                       rule->origin, rule->pattern, EXPANDED_MAX);
                r = survey_expand(survey, matched.p[i], rest, rule, budget);
        }

        return r;
}

/* A glob without `**`: each component with magic is matched against one directory. */
static int survey_expand(struct survey *survey, const char *done, struct str rest, const struct path_rule *rule,
                         size_t *budget) {
        const struct str all = rest;
        struct str part;
        size_t literal = 0; /* bytes before the first component with magic */
        bool magic = false;
        while (!magic && str_split(&rest, '/', &part)) {
                magic = glob_has_magic(part);
                if (!magic)
                        literal = (size_t)(part.p + part.n - all.p);
        }

        cleanup(free_ptr) char *at =
            str_format("%s%s%.*s", done, literal && all.p[0] != '/' ? "/" : "", STR_FMT(str_first(all, literal)));
        if (!at)
                return no_memory(survey->e);

        if (magic)
                return expand_in(survey, at, part, rest, rule, budget);

        return add_path(survey, at, rule);
}

static int list_by_hand(struct survey *s) {
        for (size_t i = 0; i < path_rules_count(s->rules); i++) {
                const struct path_rule *rule = path_rules_at(s->rules, i);
                if (!rule->built_in && vec_push(&s->by_hand, rule->pattern) < 0)
                        return no_memory(s->e);
        }
        return 0;
}

static int survey_paths(struct survey *survey) {
        for (size_t i = 0; i < path_rules_count(survey->rules); i++) {
                const struct path_rule *rule = path_rules_at(survey->rules, i);
                size_t budget = 0;
                int r = 0;

                if (rule->own)
                        continue; /* the plan shows it by itself */
                if (rule->anywhere)
                        continue; /* the broker's alone: finding every match would be a walk through the whole tree */

                if (rule->is_glob)
                        r = survey_expand(survey, "", str_of(rule->pattern), rule, &budget);
                else
                        r = add_path(survey, rule->pattern, rule);

                if (r < 0)
                        return r;
        }

        return 0;
}

static void survey_terminal(struct plan_host *host) {
        char path[64];

        for (int fd = 0; fd <= 2; fd++) {
                char link[32];

                if (!isatty(fd))
                        continue;

                snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
                ssize_t n = readlink(link, path, sizeof path - 1);
                if (n <= 0)
                        continue;

                path[n] = '\0';
                if (strncmp(path, "/dev/", 5) == 0 && access(path, F_OK) == 0)
                        host->terminal = strdup(path);

                return;
        }
}

bool survey_ipv6(void) {
        static int known; /* 0: not yet */
        if (!known) {
                cleanup(close_fd) int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
                known = fd >= 0 ? 1 : -1;
        }
        return known > 0;
}

static void survey_groups(const struct policy *policy, struct plan_host *host) {
        enum cgroup_lack lack = cgroup_look();
        host->cgroup = lack == CGROUP_WORKS;
        host->scope = !host->cgroup && lack != CGROUP_NO_MOUNT && plan_asks_for_scope(policy) && scope_look();
}

/* The name must lead to the directory itself: another file system may have been mounted over it since. */
static int survey_current(struct plan_host *host, struct err *err) {
        struct stat here, named;

        host->cwd = getcwd(NULL, 0);
        if (!host->cwd)
                return err_errno(err, "the current directory has no name any more");

        if (stat(".", &here) < 0 || stat(host->cwd, &named) < 0)
                return err_errno(err, "the current directory %s cannot be used", host->cwd);

        if (here.st_dev != named.st_dev || here.st_ino != named.st_ino)
                return err_set(err, ESTALE,
                               "the current directory is not what its name leads to: something else is at %s now; "
                               "enter it again with cd",
                               host->cwd);

        return 0;
}

static int survey_fixed(struct plan_host *h, struct err *err) {
        for (const char *const *d = plan_devices; *d; d++)
                if (access(*d, F_OK) == 0 && vec_push(&h->devices, *d) < 0)
                        return no_memory(err);

        for (const char *const *d = plan_system_dirs; *d; d++)
                if (access(*d, F_OK) == 0 && vec_push(&h->system_dirs, *d) < 0)
                        return no_memory(err);

        h->uid = geteuid();
        h->gid = getegid();
        h->landlock_abi = probe_landlock_abi();
        h->namespaces = true;

        int r = survey_current(h, err);
        if (r < 0)
                return r;

        h->resolv_conf = realpath("/etc/resolv.conf", NULL);
        h->ipv6 = survey_ipv6();
        struct sysinfo machine;

        if (sysinfo(&machine) == 0)
                h->memory = (uint64_t)machine.totalram * machine.mem_unit;

        return 0;
}

static int survey_root_links(struct plan_host *h, struct err *err) {
        DIR *d = opendir("/");
        if (!d)
                return err_errno(err, "cannot list /");

        int r = 0;
        for (struct dirent *entry; r == 0 && (entry = readdir(d));) {
                char target[PATH_MAX];
                ssize_t n = -1;

                if (entry->d_type == DT_LNK || entry->d_type == DT_UNKNOWN)
                        n = readlinkat(dirfd(d), entry->d_name, target, sizeof target - 1);

                if (n <= 0)
                        continue;

                target[n] = '\0';
                struct plan_link link = { str_format("/%s", entry->d_name), strdup(target) };
                if (!link.path || !link.target || vec_push(&h->root_links, link) < 0)
                        r = no_memory(err);
        }

        closedir(d);
        return r;
}

static int list_dir(struct plan_host *h, const char *path, struct err *err) {
        cleanup(listing_close) struct listing *list = listing_open(AT_FDCWD, path);
        if (!list)
                return survey_doubt(err, errno, path); /* not readable for this user either */

        for (const struct dirent64 *entry; (entry = listing_next(list));) {
                struct stat st;

                if (fstatat(listing_fd(list), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 || S_ISLNK(st.st_mode))
                        continue;

                struct plan_entry found = { path_join(path, entry->d_name), S_ISDIR(st.st_mode) };
                if (!found.path || vec_push(&h->entries, found) < 0)
                        return no_memory(err);
        }

        if (listing_error(list))
                return survey_doubt(err, listing_error(list), path);

        return 0;
}

typedef VEC(char *) directories;

static int list_once(struct plan_host *host, directories *done, const char *dir, struct err *err) {
        for (size_t i = 0; i < done->n; i++)
                if (strcmp(done->p[i], dir) == 0)
                        return 0;

        cleanup(free_ptr) char *copy = strdup(dir);
        if (!copy || vec_push(done, copy) < 0)
                return no_memory(err);

        take_ptr(&copy);
        return list_dir(host, dir, err);
}

/* Each directory above a denied path, once. The root always: /dev in it is never granted whole. */
int survey_neighbours(struct plan_host *host, struct err *err) {
        directories done = { 0 };

        host->connects_unheld = !probe_landlock_connect();
        int r = list_once(host, &done, "/", err);
        for (size_t i = 0; i < host->paths.n && r == 0; i++) {
                if (host->paths.p[i].access != PATH_DENIED || host->paths.p[i].type == PLAN_PATH_MISSING)
                        continue;

                cleanup(free_ptr) char *dir = strdup(host->paths.p[i].path);
                if (!dir)
                        r = no_memory(err);

                for (char *slash; r == 0 && (slash = strrchr(dir, '/')) > dir;) {
                        *slash = '\0';
                        r = list_once(host, &done, dir, err);
                }
        }

        for (size_t i = 0; i < done.n; i++)
                free(done.p[i]);

        vec_done(&done);
        return r;
}

int survey_host(const struct policy *policy, const struct path_rules *rules, const char *hidden, struct plan_host *ret,
                struct err *err) {
        struct survey s = { .rules = rules,
                            .workspace = policy->workspace,
                            .host = ret,
                            .e = err,
                            .broker = plan_needs_broker(policy, rules) };

        *ret = (struct plan_host){ 0 };
        if (vec_reserve(&ret->paths, path_rules_count(rules)) < 0) /* most rules give one */
                return no_memory(err);

        survey_terminal(ret);
        int r = survey_fixed(ret, err);
        if (r == 0)
                survey_groups(policy, ret);
        if (r == 0)
                r = list_by_hand(&s);
        if (r == 0)
                r = survey_paths(&s);
        if (r == 0)
                r = survey_git(policy, rules, ret, err);
        if (r == 0)
                r = survey_twins(policy, rules, &s.dirs, ret, err);
        if (r == 0)
                r = survey_mounts(policy, rules, ret, err);
        if (r == 0)
                r = survey_marks(policy, ret, err);
        if (r == 0)
                r = survey_sockets(hidden, &s.dirs, ret, err);
        if (r == 0 && policy->filesystem.reads_denied)
                r = survey_root_links(ret, err);

        vec_done(&s.by_hand);
        survey_dirs_done(&s.dirs);
        if (r < 0)
                survey_done(ret);

        return r;
}
