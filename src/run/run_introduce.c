/* SPDX-License-Identifier: Apache-2.0 */
#include "run/run_introduce.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/paths/path.h"
#include "conf/dirs.h"
#include "policy/home_kind.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

/* The user's file, one that was named instead, or the workspace's. */
static bool has_policy(const struct policy *policy) {
        cleanup(free_ptr) char *path = path_join(policy->workspace, ".bailey.yaml");
        return policy->file || !path || faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static bool introduce_mark(int at, const char *name) {
        cleanup(close_fd) int fd = openat(at, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

        return fd >= 0;
}

/* True once. Without a place to remember it, it is not repeated at each run. */
static bool introduce_remember(const char *name) {
        cleanup(free_ptr) char *state = NULL;
        struct err ignored = { 0 };

        if (dirs_state(&state) < 0 || path_make_private_dir(state, &ignored) < 0)
                return false;

        cleanup(free_ptr) char *path = path_join(state, name);
        return path && introduce_mark(AT_FDCWD, path);
}

bool run_introduce_agent(const struct home *home, const char *agent) {
        cleanup(free_ptr) char *name = str_format("hinted-%s", agent);

        if (!name)
                return false;
        if (home->directory && home->fd >= 0 && !home->forgotten)
                return introduce_mark(home->fd, name);

        return introduce_remember(name);
}

static const char *describe_network(const struct policy *policy) {
        if (policy->mode == MODE_FULL_NETWORK)
                return "reaches any public host";
        if (policy->mode != MODE_WORKSPACE_WRITE_WHITELIST)
                return "reaches no host";
        if (policy->network.allow.n == 0)
                return "reaches no host";
        if (policy->profiles.n > 0)
                return "reaches its profile's hosts and those you allowed";

        return "reaches the hosts you allowed";
}

/* Short, so that lines do not wrap: who reads them waits for something else. */
static void introduce_say(const struct policy *policy) {
        const char *home = home_is_own(policy) ? "has its own home" : "finds your keys hidden";
        const char *network = describe_network(policy);

        if (policy->mode == MODE_READ_ONLY)
                log_notice("no policy yet: it writes only in its own /tmp, %s, %s", home, network);
        else
                log_notice("no policy yet: it writes only in %s and its own /tmp, %s, %s", policy->workspace, home,
                           network);

        log_notice("to change: --allow HOST (@dev suits most), --write PATH, `bailey init`");
        log_notice("refusals come at the end; see `bailey log`, `bailey why X`. Said once");
}

void run_introduce(const struct policy *policy) {
        if (!isatty(STDERR_FILENO) || getenv("BAILEY_SANDBOX") || has_policy(policy))
                return;
        if (introduce_remember("introduced"))
                introduce_say(policy);
}
