/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A container has the files of its image. Of this host's it gets the trees that the policy grants (the workspace, what
 * --write names, what a person's rules let be read), each under its own name. Inside of them the policy's other rules
 * hold, as further mounts: read-only views of what may not be written, something empty over what may not be read and
 * over this host's sockets. The directories above such a mount are mounts too, as in a sandbox of our own: a mount
 * point cannot be renamed, so nothing can be put in its place.
 *
 * What mounts cannot do is refused, with what it is: globs (they hold for files that come later), and secrets in a tree
 * that is shown (a file that is replaced outside loses its mask). Protected names that do not exist are guards.
 */
#include "container/container_files.h"

#include "base/cleanup.h"
#include "base/path.h"
#include "container/engine.h"
#include "plan/start.h"
#include "plan/tree.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

enum view { VIEW_PIN, VIEW_WRITE, VIEW_READ, VIEW_EMPTY_DIRECTORY, VIEW_EMPTY_FILE }; /* the later wins */

struct mount {
        char *path;
        enum view view;
        bool tree; /* granted: others are inside of it */
};
typedef VEC(struct mount) mounts;

static void mounts_done(mounts *m) {
        for (size_t i = 0; i < m->n; i++)
                free(m->p[i].path);
        vec_done(m);
}

static int put(mounts *m, struct str path, enum view view, bool tree, struct err *e) {
        for (size_t i = 0; i < m->n; i++)
                if (str_is(path, m->p[i].path)) {
                        m->p[i].view = view > m->p[i].view ? view : m->p[i].view;
                        m->p[i].tree |= tree;
                        return 0;
                }
        struct mount one = { str_dup(path), view, tree };
        if (one.path && vec_push(m, one) == 0)
                return 0;
        free(one.path);
        return err_memory(e);
}

/* The outermost tree that shows this path; NULL: the container does not see it. */
static const struct mount *tree_of(const mounts *m, const char *path) {
        const struct mount *found = NULL;
        for (size_t i = 0; i < m->n; i++)
                if (m->p[i].tree && path_is_within(path, m->p[i].path) &&
                    (!found || strlen(m->p[i].path) < strlen(found->path)))
                        found = &m->p[i];
        return found;
}

static int pin_above(mounts *m, const char *path, struct err *e) {
        cleanup(free_ptr) char *tree = str_dup(str_of(tree_of(m, path)->path)); /* the list moves when it grows */
        if (!tree)
                return err_memory(e);

        size_t top = strlen(tree);
        int r = 0;
        for (size_t n = strlen(path); r == 0 && n > top; n--)
                if (path[n] == '/') {
                        cleanup(free_ptr) char *above = str_dup(str_n(path, n));
                        if (!above)
                                return err_memory(e);
                        if (path_is_within(above, tree) && strcmp(above, tree) != 0 && access(above, F_OK) == 0)
                                r = put(m, str_of(above), VIEW_PIN, false, e);
                }
        return r;
}

/*
 * What is shown.
 */
static bool is_granted_tree(const struct plan_path *p) {
        if (!p->grants || p->type == PLAN_PATH_MISSING || p->access == PATH_DENIED || strcmp(p->path, "/") == 0)
                return false;
        /* What is built in so that programs of this host work: the image has its own. */
        return p->access == PATH_WRITE || !str_starts(str_of(p->origin), STR("built in: "));
}

static int add_trees(const struct container_files *f, mounts *m, struct err *e) {
        int r = 0;
        for (size_t i = 0; r == 0 && i < f->host->paths.n; i++) {
                const struct plan_path *p = &f->host->paths.p[i];
                if (is_granted_tree(p))
                        r = put(m, str_of(p->path), p->access == PATH_WRITE ? VIEW_WRITE : VIEW_READ, true, e);
        }
        enum path_access workspace = path_rules_host_access(f->rules, f->policy->workspace, NULL);
        if (r == 0 && workspace == PATH_READ)
                r = put(m, str_of(f->policy->workspace), VIEW_READ, true, e);
        return r;
}

/*
 * What is closed in it.
 */
static int close_one(const struct plan_path *p, mounts *m, struct err *e) {
        if (!tree_of(m, p->path))
                return 0;
        if (p->type == PLAN_PATH_LINK)
                return pin_above(m, p->path, e); /* an engine cannot mount over a link: it is put back at the end */
        if (p->type == PLAN_PATH_MISSING)
                return p->protected ? pin_above(m, p->path, e) : 0;
        if (p->access == PATH_WRITE)
                return 0;
        enum view view = p->access == PATH_READ     ? VIEW_READ
                         : p->type == PLAN_PATH_DIR ? VIEW_EMPTY_DIRECTORY
                                                    : VIEW_EMPTY_FILE;
        int r = put(m, str_of(p->path), view, false, e);
        return r < 0 ? r : pin_above(m, p->path, e);
}

static int add_closed(const struct container_files *f, struct plan *plan, mounts *m, struct err *e) {
        int r = 0;
        for (size_t i = 0; r == 0 && i < f->host->paths.n; i++)
                r = close_one(&f->host->paths.p[i], m, e);
        for (size_t i = 0; r == 0 && i < f->host->sockets.n; i++) {
                const struct plan_path socket = { .path = f->host->sockets.p[i], .type = PLAN_PATH_FILE };
                r = close_one(&socket, m, e);
        }
        if (r == 0 && plan_guards(plan, f->host, f->policy->workspace) < 0)
                r = err_memory(e);
        return r;
}

/*
 * What mounts cannot hold.
 */
static int object(const struct container_files *f, struct plan *plan, struct err *e, const char *origin,
                  const char *pattern, const char *why) {
        if (!f->policy->process.allow_degraded)
                return err_set(e, EOPNOTSUPP,
                               "%s (%s) cannot be held in a container: %s; with --allow-degraded the "
                               "command runs without it",
                               pattern, origin, why);
        char *note = plan_format(plan, "lost: %s (%s): %s", pattern, origin, why);
        return note && vec_push(&plan->notes, note) == 0 ? 0 : err_memory(e);
}

/* The directory that everything a glob can match is in. */
static char *fixed_part(const char *glob) {
        size_t end = 0;
        for (size_t i = 0; glob[i] && !strchr("*?[", glob[i]); i++)
                if (glob[i] == '/')
                        end = i;
        return str_dup(end ? str_n(glob, end) : STR("/"));
}

static bool concerns(const mounts *m, const char *directory) {
        for (size_t i = 0; i < m->n; i++)
                if (m->p[i].tree &&
                    (path_is_within(directory, m->p[i].path) || path_is_within(m->p[i].path, directory)))
                        return true;
        return false;
}

static int check_globs(const struct container_files *f, struct plan *plan, const mounts *m, struct err *e) {
        int r = 0;
        for (size_t i = 0; r == 0 && i < path_rules_count(f->rules); i++) {
                const struct path_rule *rule = path_rules_at(f->rules, i);
                if (!rule->is_glob || rule->built_in || rule->grants)
                        continue;
                cleanup(free_ptr) char *directory = fixed_part(rule->pattern);
                if (!directory)
                        return err_memory(e);
                bool source = str_starts(str_of(rule->origin), STR("source of credential "));
                if (source ? tree_of(m, directory) != NULL : concerns(m, directory))
                        r = object(f, plan, e, rule->origin, rule->pattern,
                                   source ? "the file lies in a tree that the container sees, and one that replaces it "
                                            "would be seen; keep it elsewhere"
                                          : "a glob holds for files that come later, mounts do not; name the paths");
        }
        return r;
}

static int check_rest(const struct container_files *f, struct plan *plan, struct err *e) {
        const struct policy *p = f->policy;
        if (p->filesystem.overlay)
                return err_set(e, EOPNOTSUPP, "--overlay is for sandboxes, not for containers");
        int r = 0;
        if (p->process.trace_denials)
                r = object(f, plan, e, "policy", "--trace-denials", "the engine does not report refused files");
        if (r == 0 && p->origins[ROW_TEMPORARY])
                r = object(f, plan, e, p->origins[ROW_TEMPORARY], "limits.temporary", "the engine has no such limit");
        for (size_t i = 0; r == 0 && i < p->process.env_pass.n; i++)
                if (strcmp(p->process.env_pass.p[i].origin, "default") != 0)
                        r = object(f, plan, e, p->process.env_pass.p[i].origin, p->process.env_pass.p[i].text,
                                   "variables of yours are not passed into a container; set them with --env");
        if (r == 0 && p->network.publish.n)
                r = object(f, plan, e, p->network.publish.p[0].origin, "--publish",
                           "ports of a container are not published");
        return r;
}

/*
 * For the engine.
 */
static int add_argument(const struct container_files *f, const struct mount *m, text_list *args, struct err *e) {
        const char *source = m->view == VIEW_EMPTY_DIRECTORY ? f->empty_directory
                             : m->view == VIEW_EMPTY_FILE    ? f->empty_file
                                                             : m->path;
        if (strpbrk(m->path, ",\"\n"))
                return err_set(e, EINVAL,
                               "\"%s\" cannot be mounted into a container: a comma, quote or line break in its name",
                               m->path);
        /* Read-only mounts are without what is mounted below them: engines leave that writable. */
        int r = words_add(args, "--mount=type=bind,source=%s,destination=%s%s", source, m->path,
                          m->view >= VIEW_READ ? ",readonly,bind-nonrecursive=true" : "");
        return r < 0 ? err_memory(e) : 0;
}

static int add_notes(const struct container_files *f, struct plan *plan, struct err *e) {
        for (size_t i = 0; i < f->host->paths.n; i++) {
                const struct plan_path *p = &f->host->paths.p[i];
                if (p->type != PLAN_PATH_MISSING || !p->grants || p->protected)
                        continue;
                const char *note = plan_missing_note(plan, p);
                if (!note || vec_push(&plan->notes, note) < 0)
                        return err_memory(e);
        }
        return 0;
}

/* Without it the command would start where the image says. */
static int add_start(const struct container_files *f, const mounts *m, text_list *args, struct err *e) {
        const char *start = plan_start_wanted(f->policy, f->host);

        if (!start || !tree_of(m, start) || path_rules_host_access(f->rules, start, NULL) == PATH_DENIED)
                return plan_start_refused(f->policy, f->host, e);

        return words_add(args, "--workdir=%s", start) < 0 ? err_memory(e) : 0;
}

int container_files(const struct container_files *f, struct plan *plan, text_list *args, struct err *e) {
        cleanup(mounts_done) mounts m = { 0 };
        int r = check_rest(f, plan, e);
        r = r < 0 ? r : add_trees(f, &m, e);
        r = r < 0 ? r : check_globs(f, plan, &m, e);
        r = r < 0 ? r : add_closed(f, plan, &m, e);
        r = r < 0 ? r : add_notes(f, plan, e);
        for (size_t i = 0; r == 0 && i < m.n; i++)
                r = add_argument(f, &m.p[i], args, e);
        return r < 0 ? r : add_start(f, &m, args, e);
}
