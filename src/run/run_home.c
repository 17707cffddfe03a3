/* SPDX-License-Identifier: Apache-2.0 */
#include "run/run_home.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "base/paths/path.h"
#include "kept/home.h"
#include "kept/home_rows.h"
#include "kept/home_settings.h"
#include "policy/home_kind.h"
#include "policy/paths/paths.h"
#include "run/run_internal.h"
#include "run/run_sign_ins.h"
#include "sandbox/survey.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Where an agent looks for this file of its directory, if a variable says that the directory is elsewhere in the home:
 * heap text. NULL: where it always is. */
static char *home_moved(const char *path, const char *home) {
        static const struct {
                const char *directory, *variable;
        } rows[] = { { ".claude", "CLAUDE_CONFIG_DIR" }, { ".codex", "CODEX_HOME" } };

        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
                const char *named = getenv(rows[i].variable);
                cleanup(free_ptr) char *directory = NULL;

                if (!named || named[0] != '/' || !path_is_within(path, rows[i].directory) ||
                    path_normalise(str_of(named), NULL, &directory) < 0)
                        continue;
                if (path_is_within(directory, home) && strcmp(directory, home) != 0)
                        return str_format("%s%s", directory + strlen(home) + 1, path + strlen(rows[i].directory));
        }

        return NULL;
}

/* Files that the profiles want there: settings that switch an agent's own sandbox off, a text that says where it is. */
static void home_seed(struct home *home, const struct policy *policy) {
        for (size_t i = 0; i < policy->home_seeds.n; i++) {
                const struct home_seed *seed = &policy->home_seeds.p[i];
                cleanup(free_ptr) char *moved = home_moved(seed->path, policy->home_inside);
                const struct home_file file = { .path = text_or(moved, seed->path),
                                                .content = str_of(seed->content),
                                                .origin = seed->origin,
                                                .once = seed->once };
                struct err why = { 0 };

                if (home_lay(home, &file, &why) < 0)
                        log_notice("%s", err_text(&why));
        }
}

/*
 * Everything that Bailey lays into the home before a launch: one line each. If an entry cannot be laid (the sandbox put
 * something else in its place, the disk is full), that is reported and the command runs without it.
 */
int run_home_lay(struct home *home, const struct policy *policy, const struct vault_session *vault, struct err *err) {
        struct err unsaved = { 0 };
        int r;

        if (home->directory) {
                home_settings_seed(home, policy);
                home_seed(home, policy);
        }

        r = run_sign_ins_lay(home, policy, vault, err);
        if (r < 0)
                return r;

        if (home_save(home, &unsaved) < 0)
                log_warning("%s", err_text(&unsaved));

        return 0;
}

/* A guest's home is its own affair: nothing is laid into it but points for what was granted. */
static int run_home_open_guest(struct run *run, struct err *err) {
        run->home.files_fd = open(run->q->guest->home, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (run->home.files_fd < 0)
                return err_errno(err, "cannot open the guest's home %s", run->q->guest->home);
        return 0;
}

int run_home_open(struct run *run, struct err *err) {
        int r;

        if (run->q->guest)
                return run_home_open_guest(run, err);
        if (run->preview)
                return home_name(run->session.policy, run->session.id, &run->home, err);

        r = home_open(run->session.policy, run->session.id, &run->home, err);
        if (r < 0)
                return r;

        return run_home_lay(&run->home, run->session.policy, run->session.vault, err);
}

/* Something that the host has is mounted here, so there must be a place for it. */
static int run_home_point(struct run *run, const struct plan_path *path, struct err *err) {
        const char *home = run->session.policy->home_inside;

        if (!path->grants || path->type == PLAN_PATH_MISSING || !path_is_within(path->path, home) ||
            strcmp(path->path, home) == 0)
                return 0;

        const char *point = path->path + strlen(home) + 1;
        bool directory = path->type == PLAN_PATH_DIR;
        if (run->q->guest)
                return run->q->guest->make_point(run->q->guest->arg, point, directory, err);
        return home_make_point(&run->home, point, directory, err);
}

/* Whether something of the host's is there: a grant at or above this path lays it into the home. */
static bool run_home_covered(const struct run *run, const struct plan_path *path) {
        const char *home = run->session.policy->home_inside;

        for (size_t i = 0; i < run->host.paths.n; i++) {
                const struct plan_path *plan_path = &run->host.paths.p[i];
                if (plan_path->grants && plan_path->type != PLAN_PATH_MISSING && strcmp(plan_path->path, home) != 0 &&
                    path_is_within(plan_path->path, home) && path_is_within(path->path, plan_path->path))
                        return true;
        }

        for (size_t i = 0; i < run->host.home.laid.n; i++)
                if (path_is_within(path->path, run->host.home.laid.p[i].path))
                        return true;

        return false;
}

/* Paths that are refused in the real home need no mask: none of them exists here, and the name is free for the
 * sandbox. */
static void run_home_forget(struct run *run) {
        const char *home = run->session.policy->home_inside;
        size_t kept = 0;

        for (size_t i = 0; i < run->host.paths.n; i++) {
                struct plan_path path = run->host.paths.p[i];
                bool below = path_is_within(path.path, home);
                if (below && !path.grants && !run_home_covered(run, &path)) {
                        free((char *)path.path);
                        free((char *)path.link);
                } else {
                        run->host.paths.p[kept++] = path;
                }
        }

        run->host.paths.n = kept;
}

/* Nothing can be mounted: $HOME names the directory itself, and the real home is closed. */
static int run_home_degraded(struct run *run, struct err *err) {
        const char *real = run->session.policy->home_inside;
        const struct plan_path closed = { .path = real,
                                          .type = PLAN_PATH_DIR,
                                          .access = PATH_DENIED,
                                          .origin = "built in: the sandbox has a home of its own" };
        const struct plan_path open = { .path = run->home.files,
                                        .type = PLAN_PATH_DIR,
                                        .access = PATH_WRITE,
                                        .grants = true,
                                        .origin = "built in: the sandbox's own home" };
        int r = 0;

        if (strcmp(real, HOME_PLACE) != 0)
                r = survey_add(&run->host, closed, err);
        if (r < 0)
                return r;

        return survey_add(&run->host, open, err);
}

/* A file of the host's, shown at another path. Takes the path, NULL for one that there was no memory for. */
static int run_home_cover(struct run *run, char *path, const char *source, struct err *err) {
        struct plan_cover cover = { .path = path, .source = strdup(source) };

        if (cover.path && cover.source && vec_push(&run->host.covers, cover) == 0)
                return 0;

        free((char *)cover.path);
        free((char *)cover.source);

        return err_memory(err);
}

/* Where links lead, as a mount needs it. What the policy closes stays closed. */
static int run_home_cover_groups(struct run *run, struct err *err) {
        cleanup(free_ptr) char *path = realpath("/etc/group", NULL);
        const struct path_rule *rule = NULL;

        if (!path && errno == ENOMEM)
                return err_memory(err);
        if (!path || path_rules_access(run->rules, path, &rule) != PATH_READ)
                return 0;

        return run_home_cover(run, take_ptr(&path), run->q->guest->groups, err);
}

/* Its home, its groups, and the program that starts what is asked for. */
static int run_home_show_guest(struct run *run, struct err *err) {
        const struct run_guest *guest = run->q->guest;
        int r = run_home_cover(run, strdup(RUN_GUEST_PROGRAM), guest->program, err);

        if (r == 0 && guest->groups)
                r = run_home_cover_groups(run, err);
        if (r < 0)
                return r;

        run->host.home.files = guest->home;

        if (guest->ids) {
                run->host.uid = guest->ids->inner_uid;
                run->host.gid = guest->ids->inner_gid;
        }

        return 0;
}

int run_home_show(struct run *run, struct err *err) {
        const struct home_rows_request rows = { .policy = run->session.policy,
                                                .rules = run->rules,
                                                .search_path = getenv("PATH"),
                                                .run_id = run->session.id,
                                                .preview = run->preview,
                                                .degraded = run->degraded };
        int r = 0;

        if (!run->home.directory && !run->q->guest)
                return 0;

        run->host.home = (struct plan_home){ .path = run->session.policy->home_inside, .files = run->home.files };
        if (run->q->guest)
                r = run_home_show_guest(run, err);
        else if (!run->session.policy->filesystem.reads_denied &&
                 strcmp(run->session.policy->home_inside, HOME_PLACE) != 0)
                r = home_rows_show(&run->home, &rows, &run->host, err);

        if (r < 0)
                return r;

        run_home_forget(run);
        if (run->degraded)
                return run_home_degraded(run, err);

        for (size_t i = 0; i < run->host.paths.n && r == 0 && !run->preview; i++)
                r = run_home_point(run, &run->host.paths.p[i], err);

        return r;
}

void run_home_end(struct run *run) {
        const char *certificates = run->session.vault->directory;
        cleanup(free_ptr) char *place = NULL;

        if (!run->home.directory || run->home.files_fd < 0 || !certificates)
                return;

        place = realpath(certificates, NULL);
        if (!place)
                return;

        const char *home = run->session.policy->home_inside;
        char *own = strrchr(place, '/');
        *own++ = '\0';
        if (path_is_within(place, home) && strcmp(place, home) != 0)
                home_remove_points(&run->home, place + strlen(home) + 1, place, own);
}

/* Where a shell would find the command outside; NULL: nowhere. */
static char *find_outside(const char *name) {
        struct str rest = str_of(getenv("PATH")), part;

        if (strchr(name, '/'))
                return realpath(name, NULL);

        while (str_split(&rest, ':', &part)) {
                cleanup(free_ptr) char *path = str_format("%.*s/%s", STR_FMT(part), name);
                if (path && part.n && access(path, X_OK) == 0)
                        return realpath(path, NULL);
        }

        return NULL;
}

void run_home_hint(const struct run *run) {
        const char *home = run->session.policy->home_inside;
        cleanup(free_ptr) char *real = run->home.directory ? find_outside(run->q->argv[0]) : NULL;

        if (!real || !path_is_within(real, home))
                return;

        char *slash = strrchr(real, '/');
        *slash = '\0';
        if (strcmp(real, home) != 0)
                log_notice("it lies in your home, and the sandbox has a home of its own: --read %s lays it in", real);
}
