/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A helper gets an environment of a few names, its own session (Ctrl-C is for the supervisor), death with its parent,
 * and nothing open but what the caller lists.
 */
#include "roles/helper.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/paths/path.h"
#include "base/processes/confine.h"
#include "base/processes/process.h"
#include "base/processes/spawn.h"
#include "roles/helper_os.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Variables that a helper may see: which roots the user trusts, and a sanitizer's own settings where it is built with
 * one. */
static const char *const passed[] = {
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
#if SANITIZED
        "ASAN_OPTIONS",
        "LSAN_OPTIONS",
        "TSAN_OPTIONS",
        "UBSAN_OPTIONS",
#endif
        NULL,
};
enum { PASSED = sizeof passed / sizeof *passed };

static void make_environment(char *ret[PASSED]) {
        size_t n = 0;

        for (size_t i = 0; passed[i]; i++)
                for (char **at = environ; *at; at++) {
                        size_t name = strlen(passed[i]);
                        if (strncmp(*at, passed[i], name) == 0 && (*at)[name] == '=') {
                                ret[n++] = *at;
                                break; /* an environment may have it twice */
                        }
                }

        ret[n] = NULL;
}

int helper_spawn(const char *name, const char *program, const int *fds, size_t n, struct helper *ret, struct err *err) {
        char *argv[] = { (char *)name, NULL }, *environment[PASSED];
        const struct spawn spawn = { .program = program,
                                     .argv = argv,
                                     .environment = environment,
                                     .input = SPAWN_NULL,
                                     .output = SPAWN_NULL,
                                     .errors = SPAWN_KEEP,
                                     .fds = fds,
                                     .n_fds = n,
                                     .flags = SPAWN_WITH_PARENT | SPAWN_OWN_SESSION };
        pid_t pid;

        make_environment(environment);
        int r = spawn_start(&spawn, &pid, err);
        if (r < 0)
                return r;

        int pidfd = process_watch(pid);
        if (pidfd < 0) {
                r = err_set(err, -pidfd, "cannot watch %s: %s", name, strerror(-pidfd));
                kill(pid, SIGKILL);
                (void)spawn_wait(pid);
                return r;
        }

        *ret = (struct helper){ pid, pidfd };
        return 0;
}

void helper_describe_end(const siginfo_t *info, char *ret, size_t size) {
        if (info->si_code == CLD_EXITED)
                snprintf(ret, size, "it ended with status %d", info->si_status);
        else if (info->si_status == SIGSYS)
                snprintf(ret, size, "it was stopped at a system call that it must not make (SIGSYS)");
        else
                snprintf(ret, size, "it was killed by signal %d (%s)", info->si_status, strsignal(info->si_status));
}

/*
 * Finding it: by where this executable is, never by a search path that the caller's environment decides.
 */
static int check_program(const char *path, const struct stat *self, struct err *err) {
        struct stat st;

        if (stat(path, &st) < 0)
                return err_errno(err, "there is no %s", path);
        if (!S_ISREG(st.st_mode) || access(path, X_OK) < 0)
                return err_set(err, EACCES, "%s is not an executable file", path);

        /* The owner of this program is trusted already. That is root, unless root is not mapped here: inside a user
         * namespace its files belong to nobody. */
        bool trusted = st.st_uid == 0 || st.st_uid == geteuid() || st.st_uid == self->st_uid;
        if (!trusted || (st.st_mode & 02))
                return err_set(err, EPERM, "%s is not used: others than you and root may change it", path);

        return 0;
}

int helper_places(const char *name, const char *folder, char *ret[static HELPER_PLACES], struct err *err) {
        cleanup(free_ptr) char *installed = str_format("../libexec/bailey/%s", name),
                               *built = str_format("../%s/%s", folder, name);
        const char *const places[] = { installed, name /* beside it: unpacked somewhere */, built };
        char self[PATH_MAX];

        if (!installed || !built)
                return err_memory(err);

        struct stat own;
        int r = helper_self(self, &own, err);
        if (r != 0)
                return r;

        *strrchr(self, '/') = '\0';
        for (size_t i = 0; i < HELPER_PLACES && r == 0; i++)
                r = path_normalise(str_of(places[i]), self, &ret[i]);

        if (r < 0)
                return err_set(err, -r, "cannot find the directory of %s: %s", name, strerror(-r));

        return 0;
}

/* The first result is kept: a running sandbox could meanwhile have created one earlier in the search order. */
static struct known {
        const char *name;
        char *path;
} known[4];

static struct known *known_as(const char *name) {
        size_t i = 0;
        while (i < sizeof known / sizeof *known - 1 && known[i].name && strcmp(known[i].name, name) != 0)
                i++;
        return &known[i];
}

static int find_program(const char *name, const char *folder, char **ret, struct err *err) {
        char *places[HELPER_PLACES] = { 0 };
        struct stat own;
        char self[PATH_MAX];
        int r = helper_places(name, folder, places, err), found = -ENOENT;
        if (r == 0)
                r = helper_self(self, &own, err);

        for (size_t i = 0; i < HELPER_PLACES && r == 0 && found == -ENOENT; i++) {
                struct err why = { 0 };

                found = check_program(places[i], &own, &why);
                if (found < 0 && found != -ENOENT)
                        r = err_set(err, -found, "%s", err_text(&why));
                if (found == 0)
                        *ret = take_ptr(&places[i]);
        }

        if (r == 0 && found < 0)
                r = err_set(err, ENOENT, "%s is not installed: it is neither at %s nor in libexec", name, places[1]);

        for (size_t i = 0; i < HELPER_PLACES; i++)
                free(places[i]);

        return r;
}

int helper_program(const char *name, const char *folder, char **ret, struct err *err) {
        struct known *found = known_as(name);
        int r = found->name && strcmp(found->name, name) == 0 ? 0 : find_program(name, folder, &found->path, err);
        if (r < 0)
                return r;
        found->name = name;
        *ret = strdup(found->path);
        if (!*ret)
                return err_memory(err);

        return 0;
}
