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
#include "plan/landlock.h"

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

/* Whether the path is denied, or something below it is. */
static bool closed(const struct plan_host *h, const char *path) {
        for (size_t i = 0; i < h->paths.n; i++) {
                const struct plan_path *p = &h->paths.p[i];
                if (p->access == PATH_DENIED && p->type != PLAN_PATH_MISSING &&
                    (path_is_within(p->path, path) || path_is_within(path, p->path)))
                        return true;
        }
        return false;
}

static void grant_reads(struct degraded *d) {
        const struct plan_host *h = d->q->host;
        if (d->q->policy->filesystem.reads_denied)
                return;
        if (!closed(h, "/")) {
                rule(d, "/", true, LANDLOCK_READ);
                return;
        }
        for (size_t i = 0; i < h->entries.n; i++)
                if (!closed(h, h->entries.p[i].path))
                        rule(d, h->entries.p[i].path, h->entries.p[i].dir, LANDLOCK_READ);
}

static void grant_rules(struct degraded *d) {
        const struct plan_host *h = d->q->host;
        for (size_t i = 0; i < h->paths.n; i++) {
                const struct plan_path *p = &h->paths.p[i];
                bool dir = p->type == PLAN_PATH_DIR;
                if (p->type == PLAN_PATH_MISSING) {
                        struct plan_guard g = { plan_copy(d->p, str_of(p->path)), plan_copy(d->p, str_of(p->origin)) };
                        if (p->protected && (!g.path || !g.origin || vec_push(&d->p->guards, g) < 0))
                                d->error = -ENOMEM;
                } else if (p->access == PATH_WRITE) {
                        rule(d, p->path, dir, LANDLOCK_WRITE);
                } else if (p->access == PATH_READ && p->grants) {
                        rule(d, p->path, dir, LANDLOCK_READ);
                } else if (p->access == PATH_READ) {
                        note(d, plan_format(d->p, "lost: %s can be written to (%s)", p->path, p->origin));
                }
        }
}

static void grant_places(struct degraded *d) {
        const uint64_t device =
            LANDLOCK_FS_READ_FILE | LANDLOCK_FS_READ_DIR | LANDLOCK_FS_WRITE_FILE | LANDLOCK_FS_TRUNCATE;
        rule(d, "/dev", true, device | LANDLOCK_FS_IOCTL_DEV);
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

int plan_degraded(struct plan *p, const struct plan_request *q, struct err *e) {
        struct degraded d = { p, q, 0 };
        unsigned abi = q->host->landlock_abi;
        if (abi < 4)
                return err_set(e, EOPNOTSUPP,
                               "without namespaces a sandbox needs Landlock with network rules (ABI 4, Linux 6.7); "
                               "this kernel has ABI %u",
                               abi);
        p->landlock.abi = abi < LANDLOCK_ABI_NEWEST ? abi : LANDLOCK_ABI_NEWEST;
        p->landlock.handled_fs = landlock_rights(p->landlock.abi).fs;
        p->landlock.scoped = landlock_rights(p->landlock.abi).scoped;
        grant_reads(&d);
        grant_rules(&d);
        grant_places(&d);
        limit_network(&d);
        note(&d, "lost: other processes of this user and of the system are visible");
        note(&d, "lost: programs that ignore proxy variables have no network; the sandbox's own servers cannot be "
                 "reached from inside");
        note(&d, "lost: sockets of other programs in readable places can be connected to");
        if (!p->landlock.scoped)
                note(&d, "lost: signals can be sent to other processes of this user, abstract sockets can be reached");
        p->cwd =
            plan_copy(p, str_of(q->host->cwd && !closed(q->host, q->host->cwd) ? q->host->cwd : q->policy->workspace));
        return d.error ? d.error : p->cwd ? 0 : -ENOMEM;
}
