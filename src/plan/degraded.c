/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Landlock only grants, and a grant holds for everything below. So a denied path is kept closed by granting its
 * neighbours one by one instead of the directory around them, at each level from the root down to it. Such a directory
 * itself cannot be listed, and what appears in it later stays closed: both on the safe side.
 *
 * Grants to write cannot have holes at all: protected paths that exist inside the workspace are lost, and said so.
 */
#include "plan/degraded.h"

#include "base/path.h"
#include "plan/embedded.h"
#include "plan/landlock.h"
#include "plan/start.h"
#include "plan/tree.h"

struct degraded {
        struct plan *p;
        const struct plan_request *q;
        int error;
};

static void note(struct degraded *d, const char *text) {
        if (!text || vec_push(&d->p->notes, text) < 0)
                d->error = -ENOMEM;
}

static void rule(struct degraded *d, const char *path, bool dir, uint64_t access) {
        struct plan_landlock_rule r = { plan_copy(d->p, str_of(path)),
                                        access & d->p->landlock.handled_fs & (dir ? UINT64_MAX : LANDLOCK_ON_FILE) };
        if (!r.path || (r.access && vec_push(&d->p->landlock.rules, r) < 0))
                d->error = -ENOMEM;
}

static const char devices[] =
    "/dev"; /* as root a disk is a file like any other: only harmless ones are granted, one by one */

/* What the deepest rule around the path says. */
static bool denied(const struct plan_host *h, const char *path) {
        const struct plan_path *decides = NULL;
        for (size_t i = 0; i < h->paths.n; i++) {
                const struct plan_path *p = &h->paths.p[i];
                if (p->type != PLAN_PATH_MISSING && path_is_within(path, p->path) &&
                    (!decides || strlen(p->path) > strlen(decides->path)))
                        decides = p;
        }
        return path_is_within(path, devices) || (decides && decides->access == PATH_DENIED);
}

/* Whether a command may start there. A directory that has a denied one below it may be entered, but not listed. */
static bool start_is_open(const struct plan_request *q, const char *path) {
        if (denied(q->host, path))
                return false;
        if (!q->policy->filesystem.reads_denied)
                return true;
        return path_rules_host_access(q->rules, path, NULL) != PATH_DENIED;
}

/* Whether something below the path is denied. */
static bool has_holes(const struct plan_host *h, const char *path) {
        if (path_is_within(devices, path))
                return true;
        for (size_t i = 0; i < h->paths.n; i++) {
                const struct plan_path *p = &h->paths.p[i];
                if (p->access == PATH_DENIED && p->type != PLAN_PATH_MISSING && path_is_within(p->path, path))
                        return true;
        }
        return false;
}

static bool closed(const struct plan_host *h, const char *path) {
        return denied(h, path) || has_holes(h, path);
}

/* Reading, of everything below the path that is not denied. The entries name the neighbours of whatever is. */
static void grant_read(struct degraded *d, const char *path, bool dir) {
        const struct plan_host *h = d->q->host;
        if (!has_holes(h, path)) {
                rule(d, path, dir, LANDLOCK_READ);
                return;
        }
        for (size_t i = 0; i < h->entries.n; i++)
                if (path_is_within(h->entries.p[i].path, path) && !closed(h, h->entries.p[i].path))
                        rule(d, h->entries.p[i].path, h->entries.p[i].dir, LANDLOCK_READ);
}

/* Whether the deepest other rule around this one grants writing, which has no holes. */
static bool inside_writable(const struct plan_host *h, const struct plan_path *inner) {
        const struct plan_path *around = NULL;
        for (size_t i = 0; i < h->paths.n; i++) {
                const struct plan_path *p = &h->paths.p[i];
                if (p->type == PLAN_PATH_DIR && strcmp(p->path, inner->path) != 0 &&
                    path_is_within(inner->path, p->path) && (!around || strlen(p->path) > strlen(around->path)))
                        around = p;
        }
        return around && around->access == PATH_WRITE;
}

static void grant_rules(struct degraded *d) {
        const struct plan_host *h = d->q->host;
        for (size_t i = 0; i < h->paths.n; i++) {
                const struct plan_path *p = &h->paths.p[i];
                bool dir = p->type == PLAN_PATH_DIR;
                if (p->type == PLAN_PATH_MISSING) {
                        if (p->astray)
                                note(d, plan_missing_note(d->p, p));
                } else if (p->access == PATH_WRITE) {
                        rule(d, p->path, dir, LANDLOCK_WRITE);
                } else if (p->access == PATH_READ && p->grants) {
                        grant_read(d, p->path, dir);
                } else if (inside_writable(h, p)) {
                        note(d,
                             plan_format(d->p, "lost: %s can be %s (%s)", p->path,
                                         p->access == PATH_DENIED ? "read and written to" : "written to", p->origin));
                }
        }
}

static void grant_places(struct degraded *d) {
        const uint64_t device =
            LANDLOCK_FS_READ_FILE | LANDLOCK_FS_WRITE_FILE | LANDLOCK_FS_TRUNCATE | LANDLOCK_FS_IOCTL_DEV;
        rule(d, devices, true, LANDLOCK_FS_READ_DIR);
        for (size_t i = 0; i < d->q->host->devices.n; i++)
                rule(d, d->q->host->devices.p[i], false, device);
        /* Its own terminal, and no other: what is typed there is not for the sandbox. */
        if (d->q->host->terminal)
                rule(d, d->q->host->terminal, false, device);
        if (d->q->host->tmpdir)
                rule(d, d->q->host->tmpdir, true, LANDLOCK_WRITE);
}

static void limit_network(struct degraded *d) {
        const uint16_t ports[] = { d->q->host->http_port, d->q->host->socks_port };
        d->p->landlock.handled_net = LANDLOCK_NET_CONNECT_TCP;
        for (size_t i = 0; i < 2; i++)
                if (ports[i] && vec_push(&d->p->landlock.ports,
                                         ((struct plan_landlock_port){ ports[i], LANDLOCK_NET_CONNECT_TCP })) < 0)
                        d->error = -ENOMEM;
}

/* Inside of another sandbox whose broker connects for its programs. Its own policy holds; ours can only be that there
 * is no network. */
static void limit_unheld(struct degraded *d) {
        if (plan_network(d->q->policy) == NETWORK_NONE)
                d->p->seccomp = embedded_seccomp_unheld;
        else
                note(d, "lost: connections are made by the sandbox around this one, and only its policy says where to");
}

/* Sockets of the host that a rule names, by their very path. */
static void grant_sockets(struct degraded *d) {
        const struct plan_host *h = d->q->host;

        for (size_t i = 0; i < h->paths.n; i++) {
                const struct plan_path *path = &h->paths.p[i];
                for (size_t j = 0; path->grants && path->access != PATH_DENIED && j < h->sockets.n; j++) {
                        const char *copy = NULL;
                        if (strcmp(h->sockets.p[j], path->path) != 0)
                                continue;
                        copy = plan_copy(d->p, str_of(path->path));
                        if (!copy || vec_push(&d->p->sockets, copy) < 0)
                                d->error = -ENOMEM;
                }
        }
}

/* What Landlock does not look at (sandbox/linux/watcher.h). */
static void watch_calls(struct degraded *d) {
        d->p->flags |= PLAN_WATCHED;
        d->p->seccomp = embedded_seccomp_watched;
        grant_sockets(d);
}

static void note_lost(struct degraded *d) {
        const struct plan *p = d->p;
        const bool watched = p->flags & PLAN_WATCHED;

        note(d, "lost: other processes of this user and of the system are visible");
        note(d, "lost: programs that ignore proxy variables have no network, and UDP that they try leaves no record");
        note(d,
             "lost: servers inside can listen on loopback only, where every program of this machine reaches them, and "
             "programs inside cannot");
        note(d, "lost: System V shared memory, semaphores and message queues of this user can be reached");
        note(d, "lost: /dev/shm is closed (POSIX shared memory and semaphores), and no new terminals can be made");
        if (d->q->policy->origins[ROW_TEMPORARY])
                note(d, "lost: files in the temporary directory have no limit (limits.temporary)");
        if (d->q->policy->network.host_ports.n > 0)
                note(d, "lost: ports of the host (--host-port) are not there");
        if (!watched)
                note(d,
                     "lost: modes, times and attributes of files outside are as the sandbox around this one has them");
        if (!p->landlock.scoped)
                note(d, "lost: signals can be sent to other processes of this user");
}

int plan_degraded(struct plan *p, const struct plan_request *q, struct err *e) {
        struct degraded d = { p, q, 0 };
        unsigned abi = q->host->landlock_abi;
        if (q->policy->network.publish.n > 0)
                return err_set(e, EOPNOTSUPP,
                               "--publish needs namespaces, which this machine does not give; see `bailey doctor`");
        if (abi < 4)
                return err_set(e, EOPNOTSUPP,
                               "without namespaces a sandbox needs Landlock with network rules (ABI 4, Linux 6.7); "
                               "here it has ABI %u%s",
                               abi, abi ? "" : ": none, or a sandbox around this one that watches files hides it");
        p->landlock.abi = abi < LANDLOCK_ABI_NEWEST ? abi : LANDLOCK_ABI_NEWEST;
        p->landlock.handled_fs = landlock_rights(p->landlock.abi).fs;
        p->landlock.scoped = landlock_rights(p->landlock.abi).scoped;
        if (!q->policy->filesystem.reads_denied)
                grant_read(&d, "/", true);
        grant_rules(&d);
        grant_places(&d);
        limit_network(&d);
        if (q->host->connects_unheld)
                limit_unheld(&d);
        else
                watch_calls(&d);
        note_lost(&d);
        if (d.error)
                return d.error;

        const char *start = plan_start_wanted(q->policy, q->host);
        return plan_start(p, q, start && start_is_open(q, start), e);
}
