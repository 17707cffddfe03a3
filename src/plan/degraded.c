/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Landlock only grants, and a grant holds for everything below. So a denied path is kept closed by granting its
 * neighbours one by one instead of the directory around them, at each level from the root down to it. Such a directory
 * itself cannot be listed, and what appears in it later stays closed: both on the safe side.
 *
 * Grants to write cannot have holes at all: protected paths that exist inside the workspace lose their protection, and
 * a note says so.
 */
#include "plan/degraded.h"

#include "base/bounds.h"
#include "base/paths/path.h"
#include "plan/embedded.h"
#include "plan/landlock.h"
#include "plan/mount_tree.h"
#include "plan/start.h"

struct degraded {
        struct plan *p;
        const struct plan_request *q;
        int error;
};

static void degraded_note(struct degraded *degraded, const char *text) {
        if (!text || vec_push(&degraded->p->notes, text) < 0)
                degraded->error = -ENOMEM;
}

static void degraded_rule(struct degraded *degraded, const char *path, bool dir, uint64_t access) {
        struct plan_landlock_rule r = { plan_copy(degraded->p, str_of(path)),
                                        access & degraded->p->landlock.handled_fs &
                                            (dir ? UINT64_MAX : LANDLOCK_ON_FILE) };
        if (!r.path || (r.access && vec_push(&degraded->p->landlock.rules, r) < 0))
                degraded->error = -ENOMEM;
}

static const char devices[] =
    "/dev"; /* as root a disk is a file like any other: only harmless ones are granted, one by one */

/* What the deepest rule around the path says. */
static bool degraded_denied(const struct plan_host *host, const char *path) {
        const struct plan_path *decides = NULL;

        for (size_t i = 0; i < host->paths.n; i++) {
                const struct plan_path *plan_path = &host->paths.p[i];
                if (plan_path->type != PLAN_PATH_MISSING && path_is_within(path, plan_path->path) &&
                    (!decides || strlen(plan_path->path) > strlen(decides->path)))
                        decides = plan_path;
        }

        return path_is_within(path, devices) || (decides && decides->access == PATH_DENIED);
}

/* Whether a command may start there. A directory that has a denied one below it may be entered, but not listed. */
static bool start_is_open(const struct plan_request *request, const char *path) {
        if (degraded_denied(request->host, path))
                return false;
        if (!request->policy->filesystem.reads_denied)
                return true;
        return path_rules_host_access(request->rules, path, NULL) != PATH_DENIED;
}

/* Whether something below the path is denied. */
static bool has_holes(const struct plan_host *host, const char *path) {
        if (path_is_within(devices, path))
                return true;

        for (size_t i = 0; i < host->paths.n; i++) {
                const struct plan_path *plan_path = &host->paths.p[i];
                if (plan_path->access == PATH_DENIED && plan_path->type != PLAN_PATH_MISSING &&
                    path_is_within(plan_path->path, path))
                        return true;
        }

        return false;
}

static bool degraded_closed(const struct plan_host *host, const char *path) {
        return degraded_denied(host, path) || has_holes(host, path);
}

/* Reading, of everything below the path that is not denied. The entries name the neighbours of whatever is. */
static void grant_read(struct degraded *degraded, const char *path, bool dir) {
        const struct plan_host *host = degraded->q->host;
        if (!has_holes(host, path)) {
                degraded_rule(degraded, path, dir, LANDLOCK_READ);
                return;
        }

        for (size_t i = 0; i < host->entries.n; i++)
                if (path_is_within(host->entries.p[i].path, path) && !degraded_closed(host, host->entries.p[i].path))
                        degraded_rule(degraded, host->entries.p[i].path, host->entries.p[i].dir, LANDLOCK_READ);
}

/* Whether the deepest other rule around this one grants writing, which has no holes. */
static bool inside_writable(const struct plan_host *host, const struct plan_path *inner) {
        const struct plan_path *around = NULL;

        for (size_t i = 0; i < host->paths.n; i++) {
                const struct plan_path *path = &host->paths.p[i];
                if (path->type == PLAN_PATH_DIR && strcmp(path->path, inner->path) != 0 &&
                    path_is_within(inner->path, path->path) && (!around || strlen(path->path) > strlen(around->path)))
                        around = path;
        }

        return around && around->access == PATH_WRITE;
}

static void grant_rules(struct degraded *degraded) {
        const struct plan_host *host = degraded->q->host;
        for (size_t i = 0; i < host->paths.n; i++) {
                const struct plan_path *path = &host->paths.p[i];
                bool dir = path->type == PLAN_PATH_DIR;

                if (path->type == PLAN_PATH_MISSING) {
                        if (path->astray)
                                degraded_note(degraded, plan_missing_note(degraded->p, path));
                } else if (path->access == PATH_WRITE) {
                        degraded_rule(degraded, path->path, dir, LANDLOCK_WRITE);
                } else if (path->access == PATH_READ && path->grants) {
                        grant_read(degraded, path->path, dir);
                } else if (inside_writable(host, path)) {
                        degraded_note(degraded,
                                      plan_format(degraded->p, "lost: %s can be %s (%s)", path->path,
                                                  path->access == PATH_DENIED ? "read and written to" : "written to",
                                                  path->origin));
                }
        }
}

static void grant_places(struct degraded *degraded) {
        const uint64_t device =
            LANDLOCK_FS_READ_FILE | LANDLOCK_FS_WRITE_FILE | LANDLOCK_FS_TRUNCATE | LANDLOCK_FS_IOCTL_DEV;

        degraded_rule(degraded, devices, true, LANDLOCK_FS_READ_DIR);
        for (size_t i = 0; i < degraded->q->host->devices.n; i++)
                degraded_rule(degraded, degraded->q->host->devices.p[i], false, device);

        /* Its own terminal, and no other: what is typed there is not for the sandbox. */
        if (degraded->q->host->terminal)
                degraded_rule(degraded, degraded->q->host->terminal, false, device);
        if (degraded->q->host->tmpdir)
                degraded_rule(degraded, degraded->q->host->tmpdir, true, LANDLOCK_WRITE);
}

static void limit_network(struct degraded *degraded) {
        const uint16_t ports[] = { degraded->q->host->http_port, degraded->q->host->socks_port };
        degraded->p->landlock.handled_net = LANDLOCK_NET_CONNECT_TCP;
        for (size_t i = 0; i < 2; i++)
                if (ports[i] && vec_push(&degraded->p->landlock.ports,
                                         ((struct plan_landlock_port){ ports[i], LANDLOCK_NET_CONNECT_TCP })) < 0)
                        degraded->error = -ENOMEM;
}

/* Inside another sandbox, whose broker connects for its programs. The outer policy holds; ours can only be "no
 * network". */
static void limit_unheld(struct degraded *degraded) {
        if (plan_network(degraded->q->policy) == NETWORK_NONE)
                degraded->p->seccomp = embedded_seccomp_unheld;
        else
                degraded_note(
                    degraded,
                    "lost: connections are made by the sandbox around this one, and only its policy says where to");
}

/* Sockets of the host that a rule names, by their very path. */
static void grant_sockets(struct degraded *degraded) {
        const struct plan_host *host = degraded->q->host;

        for (size_t i = 0; i < host->paths.n; i++) {
                const struct plan_path *path = &host->paths.p[i];
                for (size_t j = 0; path->grants && path->access != PATH_DENIED && j < host->sockets.n; j++) {
                        const char *copy = NULL;

                        if (strcmp(host->sockets.p[j], path->path) != 0)
                                continue;

                        copy = plan_copy(degraded->p, str_of(path->path));
                        if (!copy || vec_push(&degraded->p->sockets, copy) < 0)
                                degraded->error = -ENOMEM;
                }
        }
}

/* What Landlock does not look at (sandbox/linux/watcher/watcher.h). */
static void watch_calls(struct degraded *degraded) {
        degraded->p->flags |= PLAN_WATCHED;
        degraded->p->seccomp = embedded_seccomp_watched;
        grant_sockets(degraded);
}

static void note_lost(struct degraded *degraded) {
        const struct plan *plan = degraded->p;
        const bool watched = plan->flags & PLAN_WATCHED;

        degraded_note(degraded, "lost: other processes of this user and of the system are visible");
        degraded_note(
            degraded,
            "lost: programs that ignore proxy variables have no network, and UDP that they try leaves no record");
        degraded_note(
            degraded,
            "lost: servers inside can listen on loopback only, where every program of this machine reaches them, and "
            "programs inside cannot");
        degraded_note(degraded,
                      "lost: System V shared memory, semaphores and message queues of this user can be reached");
        degraded_note(
            degraded,
            "lost: /dev/shm is closed (POSIX shared memory and semaphores), and no new terminals can be made");

        if (degraded->q->policy->origins[ROW_TEMPORARY])
                degraded_note(degraded, "lost: files in the temporary directory have no limit (limits.temporary)");
        if (degraded->q->policy->network.host_ports.n > 0)
                degraded_note(degraded, "lost: ports of the host (--host-port) are not there");

        if (!watched)
                degraded_note(
                    degraded,
                    "lost: modes, times and attributes of files outside are as the sandbox around this one has them");

        if (!plan->landlock.scoped)
                degraded_note(degraded, "lost: signals can be sent to other processes of this user");
}

int plan_degraded(struct plan *plan, const struct plan_request *request, struct err *err) {
        struct degraded degraded = { plan, request, 0 };
        unsigned abi = request->host->landlock_abi;

        if (request->policy->network.publish.n > 0)
                return err_set(err, EOPNOTSUPP,
                               "--publish needs namespaces, which this machine does not give; see `bailey doctor`");

        if (abi < 4)
                return err_set(err, EOPNOTSUPP,
                               "without namespaces a sandbox needs Landlock with network rules (ABI 4, Linux 6.7); "
                               "here it has ABI %u%s",
                               abi, abi ? "" : ": none, or a sandbox around this one that watches files hides it");

        plan->landlock.abi = min_of(abi, LANDLOCK_ABI_NEWEST);
        plan->landlock.handled_fs = landlock_rights(plan->landlock.abi).fs;
        plan->landlock.scoped = landlock_rights(plan->landlock.abi).scoped;

        if (!request->policy->filesystem.reads_denied)
                grant_read(&degraded, "/", true);

        grant_rules(&degraded);
        grant_places(&degraded);
        limit_network(&degraded);

        if (request->host->connects_unheld)
                limit_unheld(&degraded);
        else
                watch_calls(&degraded);

        note_lost(&degraded);
        if (degraded.error)
                return degraded.error;

        const char *start = plan_start_wanted(request->policy, request->host);
        return plan_start(plan, request, start && start_is_open(request, start), err);
}
