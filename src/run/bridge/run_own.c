/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gateway is started at the first connection, the vault again when it dies, and the policy is read again on
 * request: all of it outside, while the sandbox runs or after it. (Commands of the policy: own_commands.c.)
 * Somebody may have built Bailey in the workspace, have it in a home directory that is the workspace, or name a policy
 * file there. Then the program inside could change what runs outside, or what it may do.
 */
#include "run/bridge/run_own.h"

#include "base/cleanup.h"
#include "base/paths/path.h"
#include "roles/helper.h"
#include "sandbox/survey.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct own {
        const struct policy *policy;
        const struct path_rules *rules;
        struct plan_host *host;
        struct err *e;
};

/* Links resolved, also where the last names do not exist. NULL: no such place. */
static char *real_of(const char *path, bool *ret_there) {
        char *real = realpath(path, NULL);

        *ret_there = real != NULL;
        const char *slash = strrchr(path, '/');
        if (real || errno != ENOENT || slash == path)
                return real;

        cleanup(free_ptr) char *parent = str_dup(str_n(path, (size_t)(slash - path)));
        bool there;
        cleanup(free_ptr) char *above = parent ? real_of(parent, &there) : NULL;

        return above ? path_join(above, slash + 1) : NULL;
}

/* 1 when it had to be closed. */
static int own_keep(struct own *own, const char *path, const char *origin) {
        bool there;
        struct stat st;
        cleanup(free_ptr) char *real = real_of(path, &there);
        if (!real || path_rules_host_access(own->rules, real, NULL) != PATH_WRITE)
                return 0;

        enum plan_path_type type = PLAN_PATH_MISSING;
        if (there)
                type = stat(real, &st) == 0 && S_ISDIR(st.st_mode) ? PLAN_PATH_DIR : PLAN_PATH_FILE;

        const struct plan_path closed = {
                .path = real, .type = type, .access = PATH_READ, .protected = true, .origin = origin
        };
        int r = survey_add(own->host, closed, own->e);
        if (r < 0)
                return r;

        return 1;
}

/* Every place where a helper is looked for, or the first one would be there the next time. */
static int keep_helper(struct own *own, const char *name, const char *folder) {
        char *places[HELPER_PLACES] = { 0 };
        int r = helper_places(name, folder, places, own->e), kept = 0;

        for (size_t i = 0; i < HELPER_PLACES; i++) {
                int s = r < 0 ? r : own_keep(own, places[i], "built in: Bailey's own program");

                r = s < 0 ? s : r;
                kept |= s > 0;
                free(places[i]);
        }

        /* What is there now is what will be used. */
        cleanup(free_ptr) char *program = NULL;
        if (kept && r == 0)
                (void)helper_program(name, folder, &program, NULL);
        if (r < 0)
                return r;

        return kept;
}

static bool own_touches(const char *a, const char *b) {
        return path_is_within(a, b) || path_is_within(b, a);
}

/* Whether the sandbox writes anywhere in this directory. Every launch asks: what is installed for all is not. */
static bool written_in(const struct policy *policy, const char *dir) {
        bool in = own_touches(policy->workspace, dir);
        for (size_t i = 0; i < policy->filesystem.write.n && !in; i++)
                in = policy->filesystem.write.p[i].text[0] != '/' ||
                     own_touches(policy->filesystem.write.p[i].text, dir);
        return in;
}

/* All of them are in the directory of this program or in others beside it. */
static bool are_in_reach(const struct own *own, const char *self) {
        cleanup(free_ptr) char *around = NULL;
        return path_normalise(STR("../.."), self, &around) < 0 || written_in(own->policy, around);
}

static int keep_programs(struct own *own, bool degraded) {
        static const char *const helpers[][2] = { { "bailey-gateway", "gateway" },
                                                  { "bailey-vault", "vault" },
                                                  { "bailey-probe", "vault" },
                                                  { "bailey-gate", "sandbox" } };
        char self[PATH_MAX];
        ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
        if (n <= 0)
                return err_errno(own->e, "cannot find out where this program is (/proc/self/exe)");

        self[n] = '\0';
        if (!are_in_reach(own, self))
                return 0;

        int r = own_keep(own, self, "built in: Bailey's own program"), kept = r > 0;
        for (size_t i = 0; i < sizeof helpers / sizeof *helpers && r >= 0; i++) {
                r = keep_helper(own, helpers[i][0], helpers[i][1]);
                kept |= r > 0;
        }

        if (r >= 0 && kept && degraded)
                return err_set(own->e, EPERM,
                               "%s lies where the command may write, and without namespaces nothing can be closed "
                               "there: it could change what runs outside. Install Bailey elsewhere",
                               self);

        return r < 0 ? r : 0;
}

static int keep_relative(struct own *own, struct str path, const char *home, const char *origin) {
        cleanup(free_ptr) char *text = NULL, *whole = NULL;
        if (path_expand_home(path, home, &text) < 0 || path_normalise(str_of(text), own->host->cwd, &whole) < 0)
                return 0; /* then nobody finds a file there */
        int r = own_keep(own, whole, origin);
        return r < 0 ? r : 0;
}

static int keep_files(struct own *own, const struct policy *policy, const struct run_request *request) {
        static const char settings[] = "built in: Bailey's own policy";
        int r = policy->file ? own_keep(own, policy->file, settings) : 0;
        for (size_t i = 0; i < policy->network.allow_files.n && r >= 0; i++)
                r = own_keep(own, policy->network.allow_files.p[i].path, settings);

        for (size_t i = 0; i < policy->network.deny_files.n && r >= 0; i++)
                r = own_keep(own, policy->network.deny_files.p[i].path, settings);

        const char *const others[] = { request->ca_bundle, request->hosts_file };
        for (size_t i = 0; i < sizeof others / sizeof *others && r >= 0; i++)
                r = others[i] ? keep_relative(own, str_of(others[i]), policy->home, settings) : r;

        return r < 0 ? r : 0;
}

int run_own(const struct policy *policy, const struct run_request *request, const struct path_rules *rules,
            bool degraded, struct plan_host *host, struct err *err) {
        struct own own = { policy, rules, host, err };
        int r = keep_programs(&own, degraded);
        r = r < 0 ? r : keep_files(&own, policy, request);
        return r == -ENOMEM ? err_memory(err) : r;
}
