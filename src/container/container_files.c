/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A container has the files of its image. Of this host's files it gets the trees that the policy grants (the workspace,
 * --write, paths that a person's rules open for reading), each under its own name. Inside them the policy's other rules
 * hold, as further mounts: read-only mounts over paths that may not be written, empty ones over paths that may not be
 * read and over this host's sockets. The directories above such a mount are mounts too, as in a sandbox of our own: a
 * mount point cannot be renamed, so nothing can be put in its place.
 *
 * Rules that mounts cannot enforce are refused by name: globs (they also cover files that come later), and secrets in a
 * visible tree (a file that is replaced outside loses its mask). Protected names that do not exist are guards.
 */
#include "container/container_files.h"

#include "base/cleanup.h"
#include "base/paths/path.h"
#include "container/engine.h"
#include "plan/mount_tree.h"
#include "plan/start.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

enum view { VIEW_PIN, VIEW_WRITE, VIEW_READ, VIEW_EMPTY_DIRECTORY, VIEW_EMPTY_FILE }; /* the later wins */

struct mount {
        char *path;
        enum view view;
        bool tree; /* granted: others are inside it */
};
typedef VEC(struct mount) mounts;

static void mounts_done(mounts *list) {
        for (size_t i = 0; i < list->n; i++)
                free(list->p[i].path);
        vec_done(list);
}

static int files_put(mounts *list, struct str path, enum view view, bool tree, struct err *err) {
        for (size_t i = 0; i < list->n; i++)
                if (str_is(path, list->p[i].path)) {
                        if (view > list->p[i].view)
                                list->p[i].view = view;
                        list->p[i].tree |= tree;
                        return 0;
                }

        struct mount one = { str_dup(path), view, tree };
        if (one.path && vec_push(list, one) == 0)
                return 0;

        free(one.path);
        return err_memory(err);
}

/* The outermost tree that shows this path; NULL: the container does not see it. */
static const struct mount *tree_of(const mounts *list, const char *path) {
        const struct mount *found = NULL;
        for (size_t i = 0; i < list->n; i++)
                if (list->p[i].tree && path_is_within(path, list->p[i].path) &&
                    (!found || strlen(list->p[i].path) < strlen(found->path)))
                        found = &list->p[i];
        return found;
}

static int pin_above(mounts *list, const char *path, struct err *err) {
        cleanup(free_ptr) char *tree = str_dup(str_of(tree_of(list, path)->path)); /* the list moves when it grows */
        if (!tree)
                return err_memory(err);

        size_t top = strlen(tree);
        int r = 0;
        for (size_t n = strlen(path); r == 0 && n > top; n--)
                if (path[n] == '/') {
                        cleanup(free_ptr) char *above = str_dup(str_n(path, n));
                        if (!above)
                                return err_memory(err);
                        if (path_is_within(above, tree) && strcmp(above, tree) != 0 && access(above, F_OK) == 0)
                                r = files_put(list, str_of(above), VIEW_PIN, false, err);
                }

        return r;
}

/*
 * What is shown.
 */
static bool is_granted_tree(const struct plan_path *path) {
        if (!path->grants || path->type == PLAN_PATH_MISSING || path->access == PATH_DENIED ||
            strcmp(path->path, "/") == 0)
                return false;
        /* What is built in so that programs of this host work: the image has its own. */
        return path->access == PATH_WRITE || !str_starts(str_of(path->origin), STR("built in: "));
}

static int add_trees(const struct container_files *files, mounts *list, struct err *err) {
        int r = 0;
        for (size_t i = 0; r == 0 && i < files->host->paths.n; i++) {
                const struct plan_path *path = &files->host->paths.p[i];
                if (is_granted_tree(path))
                        r = files_put(list, str_of(path->path), path->access == PATH_WRITE ? VIEW_WRITE : VIEW_READ,
                                      true, err);
        }

        enum path_access workspace = path_rules_host_access(files->rules, files->policy->workspace, NULL);
        if (r == 0 && workspace == PATH_READ)
                r = files_put(list, str_of(files->policy->workspace), VIEW_READ, true, err);

        return r;
}

/*
 * What is closed in it.
 */
static int close_one(const struct plan_path *path, mounts *list, struct err *err) {
        if (!tree_of(list, path->path))
                return 0;

        if (path->type == PLAN_PATH_LINK)
                return pin_above(list, path->path,
                                 err); /* an engine cannot mount over a link: it is put back at the end */

        if (path->type == PLAN_PATH_MISSING && path->protected)
                return pin_above(list, path->path, err);
        if (path->type == PLAN_PATH_MISSING)
                return 0;
        if (path->access == PATH_WRITE)
                return 0;

        enum view view;
        if (path->access == PATH_READ)
                view = VIEW_READ;
        else if (path->type == PLAN_PATH_DIR)
                view = VIEW_EMPTY_DIRECTORY;
        else
                view = VIEW_EMPTY_FILE;

        int r = files_put(list, str_of(path->path), view, false, err);
        if (r < 0)
                return r;

        return pin_above(list, path->path, err);
}

static int add_closed(const struct container_files *files, struct plan *plan, mounts *list, struct err *err) {
        int r = 0;
        for (size_t i = 0; r == 0 && i < files->host->paths.n; i++)
                r = close_one(&files->host->paths.p[i], list, err);

        for (size_t i = 0; r == 0 && i < files->host->sockets.n; i++) {
                const struct plan_path socket = { .path = files->host->sockets.p[i], .type = PLAN_PATH_FILE };
                r = close_one(&socket, list, err);
        }

        if (r == 0 && plan_guards(plan, files->host, files->policy->workspace) < 0)
                r = err_memory(err);

        return r;
}

/*
 * What mounts cannot hold.
 */
static int files_object(const struct container_files *files, struct plan *plan, struct err *err, const char *origin,
                        const char *pattern, const char *why) {
        if (!files->policy->process.allow_degraded)
                return err_set(err, EOPNOTSUPP,
                               "%s (%s) cannot be held in a container: %s; with --allow-degraded the "
                               "command runs without it",
                               pattern, origin, why);

        char *note = plan_format(plan, "lost: %s (%s): %s", pattern, origin, why);
        if (note && vec_push(&plan->notes, note) == 0)
                return 0;

        return err_memory(err);
}

/* The directory that everything a glob can match is in. */
static char *fixed_part(const char *glob) {
        size_t end = 0;
        for (size_t i = 0; glob[i] && !strchr("*?[", glob[i]); i++)
                if (glob[i] == '/')
                        end = i;
        return str_dup(end ? str_n(glob, end) : STR("/"));
}

static bool files_concerns(const mounts *list, const char *directory) {
        for (size_t i = 0; i < list->n; i++)
                if (list->p[i].tree &&
                    (path_is_within(directory, list->p[i].path) || path_is_within(list->p[i].path, directory)))
                        return true;
        return false;
}

static int check_globs(const struct container_files *files, struct plan *plan, const mounts *list, struct err *err) {
        int r = 0;
        for (size_t i = 0; r == 0 && i < path_rules_count(files->rules); i++) {
                const struct path_rule *rule = path_rules_at(files->rules, i);
                if (!rule->is_glob || rule->built_in || rule->grants)
                        continue;

                cleanup(free_ptr) char *directory = fixed_part(rule->pattern);
                if (!directory)
                        return err_memory(err);

                bool source = str_starts(str_of(rule->origin), STR("source of credential "));
                const char *objection = NULL;

                if (source && tree_of(list, directory))
                        objection = "the file lies in a tree that the container sees, and one that replaces it would "
                                    "be seen; keep it elsewhere";
                else if (!source && files_concerns(list, directory))
                        objection = "a glob holds for files that come later, mounts do not; name the paths";

                if (objection)
                        r = files_object(files, plan, err, rule->origin, rule->pattern, objection);
        }

        return r;
}

static int check_rest(const struct container_files *files, struct plan *plan, struct err *err) {
        const struct policy *policy = files->policy;
        if (policy->filesystem.overlay)
                return err_set(err, EOPNOTSUPP, "--overlay is for sandboxes, not for containers");

        int r = 0;

        if (policy->process.trace_denials)
                r = files_object(files, plan, err, "policy", "--trace-denials",
                                 "the engine does not report refused files");

        if (r == 0 && policy->origins[ROW_TEMPORARY])
                r = files_object(files, plan, err, policy->origins[ROW_TEMPORARY], "limits.temporary",
                                 "the engine has no such limit");

        for (size_t i = 0; r == 0 && i < policy->process.env_pass.n; i++)
                if (strcmp(policy->process.env_pass.p[i].origin, "default") != 0)
                        r = files_object(files, plan, err, policy->process.env_pass.p[i].origin,
                                         policy->process.env_pass.p[i].text,
                                         "variables of yours are not passed into a container; set them with --env");

        if (r == 0 && policy->network.publish.n)
                r = files_object(files, plan, err, policy->network.publish.p[0].origin, "--publish",
                                 "ports of a container are not published");

        return r;
}

/*
 * For the engine.
 */
static int add_argument(const struct container_files *files, const mounts *list, const struct mount *mount,
                        text_list *args, container_seen *seen, struct err *err) {
        const char *source;
        if (mount->view == VIEW_EMPTY_DIRECTORY)
                source = files->empty_directory;
        else if (mount->view == VIEW_EMPTY_FILE)
                source = files->empty_file;
        else
                source = mount->path;

        if (strpbrk(mount->path, ",\"\n"))
                return err_set(err, EINVAL,
                               "\"%s\" cannot be mounted into a container: a comma, quote or line break in its name",
                               mount->path);

        /* Read-only mounts are without what is mounted below them: engines leave that writable. */
        int r = words_add(args, "--mount=type=bind,source=%s,destination=%s%s", source, mount->path,
                          mount->view >= VIEW_READ ? ",readonly,bind-nonrecursive=true" : "");
        if (r < 0)
                return err_memory(err);

        return container_seen_note(seen, tree_of(list, mount->path)->path, mount->path, source, err);
}

static int add_notes(const struct container_files *files, struct plan *plan, struct err *err) {
        for (size_t i = 0; i < files->host->paths.n; i++) {
                const struct plan_path *path = &files->host->paths.p[i];
                if (path->type != PLAN_PATH_MISSING || !path->grants || path->protected)
                        continue;

                const char *note = plan_missing_note(plan, path);
                if (!note || vec_push(&plan->notes, note) < 0)
                        return err_memory(err);
        }

        return 0;
}

/* Without it the command would start where the image says. */
static int add_start(const struct container_files *files, const mounts *list, text_list *args, struct err *err) {
        const char *start = plan_start_wanted(files->policy, files->host);

        if (!start || !tree_of(list, start) || path_rules_host_access(files->rules, start, NULL) == PATH_DENIED)
                return plan_start_refused(files->policy, files->host, err);

        if (words_add(args, "--workdir=%s", start) < 0)
                return err_memory(err);

        return 0;
}

int container_files(const struct container_files *files, struct plan *plan, text_list *args, container_seen *seen,
                    struct err *err) {
        cleanup(mounts_done) mounts m = { 0 };
        int r = check_rest(files, plan, err);

        if (r >= 0)
                r = add_trees(files, &m, err);
        if (r >= 0)
                r = check_globs(files, plan, &m, err);
        if (r >= 0)
                r = add_closed(files, plan, &m, err);
        if (r >= 0)
                r = add_notes(files, plan, err);
        for (size_t i = 0; r == 0 && i < m.n; i++)
                r = add_argument(files, &m, &m.p[i], args, seen, err);

        if (r < 0)
                return r;

        return add_start(files, &m, args, err);
}
