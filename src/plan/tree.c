/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file tree as nodes. A node is a path where something else begins: a private directory, a mask, a writable or a
 * read-only view of the host. Sorted, parents come before children, and each node looks at the nearest node above it:
 *
 *   - the same access as above: nothing to do, the node goes away
 *   - above is the host's own tree (the root, or a view): the mount point exists, attach
 *   - above is private or a mask: the mount point is made there first, in our tmpfs; nothing appears on the host
 *
 * Whatever is closed inside a writable tree (a read-only view, a mask) holds its place: each directory between it and
 * the tree's top becomes a mount point too, which the kernel refuses to rename or remove. So no other file can take its
 * place, and it cannot be carried to a place where the next run, which knows paths, would not close it.
 */
#include "plan/tree.h"

#include "base/cleanup.h"
#include "base/path.h"
#include "plan/landlock.h"
#include "plan/start.h"
#include "policy/browser.h"

#include <inttypes.h>
#include <stdlib.h>
#include <sys/mount.h>

enum node_kind {
        NODE_HOST,    /* the root as it is: read-only */
        NODE_PRIVATE, /* a directory of ours, in the tmpfs */
        NODE_MASK,    /* nothing to see */
        NODE_READ,    /* the host's, read-only */
        NODE_WRITE,   /* the host's, writable */
        NODE_DEVICE,  /* one device node */
        NODE_FS,      /* a new file system: proc, devpts */
        NODE_FILE,    /* a file of ours */
        NODE_LINK,    /* a protected link of the host: as a mount it can be neither renamed nor removed */
};

struct node {
        const char *path;
        enum node_kind kind;
        bool dir;
        bool pinned;         /* stays even if the node above grants the same */
        bool gone;           /* nothing to do for it */
        bool own;            /* the sandbox's own home: nothing of the host's is below it but what is laid there */
        const char *overlay; /* WRITE: an overlay with these options */
        const char *source;  /* READ, WRITE: shown from here; NULL: from the same path */
        uint32_t mode;       /* PRIVATE: of the directory */
        const char *data;    /* FS: type; FILE: content */
        const char *place;   /* where in our tmpfs it is, if it is there */
        uint16_t slot;       /* its mount, PLAN_ROOT before there is one */
};

struct tree {
        struct plan *p;
        const struct plan_request *q;
        VEC(struct node) nodes;
        VEC(const char *) made; /* directories that exist in our tmpfs */
        uint16_t slots, base, root;
        uint16_t n_masks;
        bool has_empty_dir, has_empty_file;
        int error;
};

static const uint64_t plain = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
static const uint64_t read_only = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_RDONLY;
static const char base_place[] = "/dev"; /* exists everywhere, and is covered later */

static bool ours(const struct node *n) {
        return n->kind == NODE_PRIVATE || n->kind == NODE_MASK;
}

/* Operations. An error sticks; what follows is then thrown away with the plan. */

static void push(struct tree *t, struct plan_op op) {
        if (vec_push(&t->p->ops, op) < 0)
                t->error = -ENOMEM;
}

static const char *text(struct tree *t, const char *made) {
        if (!made)
                t->error = -ENOMEM;
        return made ? made : "";
}

/* The host's text, as the plan's own. */
static const char *keep(struct tree *t, const char *host_text) {
        return text(t, plan_copy(t->p, str_of(host_text)));
}

static uint16_t new_slot(struct tree *t) {
        if (t->slots < PLAN_SLOTS_MAX)
                return t->slots++;
        t->error = -E2BIG;
        return 0;
}

static uint16_t op_clone(struct tree *t, uint16_t at, const char *source, uint32_t mode, uint64_t attr) {
        uint16_t slot = new_slot(t);
        bool recursive = mode & PLAN_CLONE_TREE;
        push(t, (struct plan_op){ .kind = PLAN_OP_CLONE, .slot = slot, .at = at, .mode = mode, .source = source });
        push(t, (struct plan_op){
                    .kind = PLAN_OP_SETATTR, .slot = slot, .at = PLAN_ROOT, .mode = recursive, .attr_set = attr });
        return slot;
}

static uint16_t op_new_fs(struct tree *t, const char *type, const char *options, uint64_t attr) {
        uint16_t slot = new_slot(t);
        push(t, (struct plan_op){ .kind = PLAN_OP_NEW_FS,
                                  .slot = slot,
                                  .at = PLAN_ROOT,
                                  .attr_set = attr,
                                  .source = type,
                                  .data = options });
        return slot;
}

static void op_attach(struct tree *t, uint16_t slot, uint16_t at, const char *target) {
        push(t, (struct plan_op){ .kind = PLAN_OP_ATTACH, .slot = slot, .at = at, .target = target });
}

/* What is only on the way to something. In a mask it is closed as the mask is: whoever looks after masks while the
 * sandbox runs takes a directory that can be read for one of the host's. */
static uint32_t way_mode(const char *path) {
        return str_starts(str_of(path), STR("mask-")) ? 0111 : 0755;
}

/* Makes the directory in our tmpfs, its parents first, each once. */
static void make_dir(struct tree *t, const char *path, uint32_t mode) {
        for (size_t i = 0; i < t->made.n; i++)
                if (strcmp(t->made.p[i], path) == 0)
                        return;
        const char *slash = strrchr(path, '/');
        if (slash)
                make_dir(t, text(t, plan_copy(t->p, str_n(path, (size_t)(slash - path)))), way_mode(path));
        if (vec_push(&t->made, path) < 0)
                t->error = -ENOMEM;
        push(t, (struct plan_op){ .kind = PLAN_OP_MKDIR, .at = t->base, .mode = mode, .target = path });
}

static void make_file(struct tree *t, const char *path, uint32_t mode, const char *content) {
        const char *slash = strrchr(path, '/');
        if (slash)
                make_dir(t, text(t, plan_copy(t->p, str_n(path, (size_t)(slash - path)))), way_mode(path));
        push(t, (struct plan_op){ .kind = PLAN_OP_FILE, .at = t->base, .mode = mode, .target = path, .data = content });
}

static void make_link(struct tree *t, const char *path, const char *target) {
        push(t, (struct plan_op){ .kind = PLAN_OP_SYMLINK, .at = t->base, .source = target, .target = path });
}

/* Nodes. */

static struct node *find(struct tree *t, const char *path) {
        for (size_t i = 0; i < t->nodes.n; i++)
                if (strcmp(t->nodes.p[i].path, path) == 0)
                        return &t->nodes.p[i];
        return NULL;
}

static void add(struct tree *t, struct node n) {
        n.slot = PLAN_ROOT;
        if (vec_push(&t->nodes, n) < 0)
                t->error = -ENOMEM;
}

/* Two rules for one place (through a link, say): the stricter one holds. A grant replaces a private directory. */
static void add_rule_node(struct tree *t, struct node n) {
        static const int strictness[NODE_LINK + 1] = { [NODE_WRITE] = 1, [NODE_READ] = 2, [NODE_MASK] = 3 };
        struct node *same = find(t, n.path);
        if (!same)
                add(t, n);
        else if (same->kind == NODE_PRIVATE && n.kind != NODE_MASK)
                same->kind = n.kind;
        else if (same->kind == NODE_READ || same->kind == NODE_WRITE || same->kind == NODE_MASK) {
                if (strictness[n.kind] > strictness[same->kind])
                        same->kind = n.kind;
                same->pinned |= n.pinned;
        }
}

static int by_path(const void *a, const void *b) {
        return strcmp(((const struct node *)a)->path, ((const struct node *)b)->path);
}

/* The nearest node above that is still there. The list is sorted, so it is the last one that contains the path. */
static struct node *above(struct tree *t, const char *path, size_t before) {
        for (size_t i = before; i-- > 0;) {
                struct node *n = &t->nodes.p[i];
                if (!n->gone && strcmp(n->path, path) != 0 && path_is_within(path, n->path))
                        return n;
        }
        return NULL;
}

static struct node *above_or_at(struct tree *t, const char *path) {
        for (size_t i = t->nodes.n; i-- > 0;)
                if (!t->nodes.p[i].gone && path_is_within(path, t->nodes.p[i].path))
                        return &t->nodes.p[i];
        return NULL;
}

/* Where in our tmpfs a path lies that is below a node of ours. */
static const char *place_below(struct tree *t, const struct node *top, const char *path) {
        size_t skip = strcmp(top->path, "/") == 0 ? 0 : strlen(top->path);
        return text(t, plan_format(t->p, "%s%s", top->place, path + skip));
}

static void collect_fixed(struct tree *t) {
        const struct plan_host *h = t->q->host;
        bool closed = t->q->policy->filesystem.reads_denied;
        add(t,
            (struct node){
                .path = "/", .kind = closed ? NODE_PRIVATE : NODE_HOST, .dir = true, .mode = 0755, .place = "root" });
        add(t, (struct node){ .path = "/tmp", .kind = NODE_PRIVATE, .dir = true, .mode = 01777, .place = "tmp" });
        add(t, (struct node){ .path = "/run", .kind = NODE_PRIVATE, .dir = true, .mode = 0755, .place = "run" });
        add(t, (struct node){ .path = "/dev", .kind = NODE_PRIVATE, .dir = true, .mode = 0755, .place = "dev" });
        add(t, (struct node){ .path = "/sys", .kind = NODE_PRIVATE, .dir = true, .mode = 0755, .place = "sys" });
        add(t, (struct node){ .path = "/proc", .kind = NODE_FS, .dir = true, .data = "proc" });
        add(t, (struct node){ .path = "/dev/pts", .kind = NODE_FS, .dir = true, .data = "devpts" });
        for (size_t i = 0; i < h->devices.n; i++)
                add(t, (struct node){ .path = keep(t, h->devices.p[i]), .kind = NODE_DEVICE });
        if (h->terminal)
                add(t, (struct node){ .path = "/dev/console", .kind = NODE_DEVICE, .data = keep(t, h->terminal) });
        for (size_t i = 0; i < h->system_dirs.n; i++)
                add(t, (struct node){
                           .path = keep(t, h->system_dirs.p[i]), .kind = NODE_READ, .dir = true, .pinned = true });
}

/* One program under the names of all bridged tools, and of those that open pages, in a directory that nothing inside
 * can change. */
static void collect_shims(struct tree *t) {
        const char *shim = t->q->host->shim;

        if (!shim)
                return;
        add(t, (struct node){
                   .path = PLAN_BRIDGE_PROGRAMS, .kind = NODE_PRIVATE, .dir = true, .mode = 0755, .place = "bin" });
        for (size_t i = 0; i < t->q->policy->bridge.n; i++)
                add(t, (struct node){ .path = text(t, plan_format(t->p, PLAN_BRIDGE_PROGRAMS "/%s",
                                                                  t->q->policy->bridge.p[i].name)),
                                      .kind = NODE_READ,
                                      .pinned = true,
                                      .source = keep(t, shim) });
        for (size_t i = 0; policy_has_browser(t->q->policy) && browser_names[i]; i++)
                add(t, (struct node){ .path = text(t, plan_format(t->p, PLAN_BRIDGE_PROGRAMS "/%s", browser_names[i])),
                                      .kind = NODE_READ,
                                      .pinned = true,
                                      .source = keep(t, shim) });
        if (vec_push(&t->p->sockets, text(t, plan_copy(t->p, STR(PLAN_BRIDGE_SOCKET)))) < 0)
                t->error = -ENOMEM;
}

static void add_note(struct tree *t, const char *note) {
        if (vec_push(&t->p->notes, text(t, note)) < 0)
                t->error = -ENOMEM;
}

const char *plan_missing_note(struct plan *p, const struct plan_path *path) {
        if (path->astray)
                return plan_format(p,
                                   "%s grants nothing: its path leads to %s through a link that a sandbox could have "
                                   "made; to grant that, write it as it is",
                                   path->origin, path->path);
        return plan_format(p, "%s does not exist: %s grants nothing", path->path, path->origin);
}

/* With an overlay nothing written in the workspace reaches the host: there is nothing to guard, and a writable view of
 * the host's own directories would be a hole in it. */
static bool under_overlay(const struct tree *t, const char *path) {
        return t->q->host->overlay_upper && strcmp(path, t->q->policy->workspace) != 0 &&
               path_is_within(path, t->q->policy->workspace);
}

/* A cache: the host's below, and whatever is written above it. */
static const char *laid_options(struct tree *t, const struct plan_laid *laid) {
        return text(t, plan_format(t->p, "userxattr,volatile,lowerdir=%s%s%s,upperdir=%s,workdir=%s",
                                   laid->between ? laid->between : "", laid->between ? ":" : "", laid->source,
                                   laid->upper, laid->work));
}

static void collect_laid(struct tree *t, const struct plan_laid *laid) {
        struct node node = { .path = keep(t, laid->path), .dir = true, .pinned = true };

        if (find(t, node.path))
                return; /* a rule has laid something there */
        if (laid->upper) {
                node.kind = NODE_WRITE;
                node.overlay = laid_options(t, laid);
        } else {
                node.kind = NODE_READ;
                node.source = keep(t, laid->source);
        }
        add(t, node);
}

/* After the rules, which may have laid something at the very same place. */
static void collect_home(struct tree *t) {
        const struct plan_home *home = &t->q->host->home;
        struct node own = { .kind = NODE_WRITE, .dir = true, .pinned = true, .own = true, .slot = PLAN_ROOT };
        struct node *same;

        if (!home->path)
                return;
        own.path = keep(t, home->path);
        own.source = keep(t, home->files);
        for (size_t i = 0; i < home->laid.n; i++)
                collect_laid(t, &home->laid.p[i]);
        same = find(t, own.path);
        if (same)
                *same = own;
        else
                add(t, own);
}

/* A file that a rule hides stays hidden. */
static void collect_covers(struct tree *t) {
        for (size_t i = 0; i < t->q->host->covers.n; i++) {
                const struct plan_cover *cover = &t->q->host->covers.p[i];
                struct node *top = above_or_at(t, cover->path), *same = find(t, cover->path);

                if (top && top->kind == NODE_MASK)
                        continue;
                struct node file = { .path = keep(t, cover->path),
                                     .kind = NODE_READ,
                                     .pinned = true,
                                     .slot = PLAN_ROOT,
                                     .source = keep(t, cover->source) };
                if (same)
                        *same = file;
                else
                        add(t, file);
        }
}

/* Over the view that is read-only; a file that a person hides has no copy. */
static void collect_copies(struct tree *t) {
        for (size_t i = 0; i < t->q->host->copies.n; i++) {
                const struct plan_host_copy *copy = &t->q->host->copies.p[i];
                struct node *same = find(t, copy->path);
                struct node file = { .path = keep(t, copy->path),
                                     .kind = NODE_WRITE,
                                     .pinned = true,
                                     .slot = PLAN_ROOT,
                                     .source = keep(t, copy->source) };

                if (same)
                        *same = file;
                else
                        add(t, file);
        }
}

static bool is_overlay(const struct tree *t, const struct node *n) {
        if (n->overlay)
                return true;
        return n->kind == NODE_WRITE && t->q->host->overlay_upper && strcmp(n->path, t->q->policy->workspace) == 0;
}

/* Only where its directory is shown for writing is there anything to hold. */
static void collect_link(struct tree *t, const struct plan_path *path) {
        if (!under_overlay(t, path->path) && !find(t, path->path))
                add(t, (struct node){ .path = keep(t, path->path), .kind = NODE_LINK, .pinned = true });
}

static void collect_rules(struct tree *t) {
        static const enum node_kind kinds[] = {
                [PATH_DENIED] = NODE_MASK, [PATH_READ] = NODE_READ, [PATH_WRITE] = NODE_WRITE
        };
        for (size_t i = 0; i < t->q->host->paths.n; i++) {
                const struct plan_path *path = &t->q->host->paths.p[i];
                if (path->type == PLAN_PATH_LINK) {
                        collect_link(t, path);
                        continue;
                }
                if (path->type == PLAN_PATH_MISSING) {
                        if (path->grants)
                                add_note(t, plan_missing_note(t->p, path));
                        continue;
                }
                if (strcmp(path->path, "/") == 0)
                        continue; /* the whole tree is what the mode says */
                if (under_overlay(t, path->path) && (path->protected || path->access == PATH_WRITE))
                        continue;
                /* What only takes away has nothing to take from a directory that is empty anyway. */
                struct node *top = above_or_at(t, path->path);
                if (top && top->kind == NODE_PRIVATE && !path->grants)
                        continue;
                bool device = path_is_within(path->path, "/dev") && path->type == PLAN_PATH_FILE;
                add_rule_node(
                    t, (struct node){ .path = keep(t, path->path),
                                      .kind = device && path->access != PATH_DENIED ? NODE_DEVICE : kinds[path->access],
                                      .dir = path->type == PLAN_PATH_DIR,
                                      .pinned = path->protected });
        }
}

static void sort_nodes(struct tree *t) {
        qsort(t->nodes.p, t->nodes.n, sizeof *t->nodes.p, by_path);
}

/* Directories between a closed path and the top of its writable tree become mount points of their own. Not in an
 * overlay, where such a view would be the host's own directory: there they cannot be renamed anyway (EXDEV). */
static void pin_parents(struct tree *t) {
        size_t n = t->nodes.n;
        for (size_t i = 0; i < n; i++) {
                struct node leaf = t->nodes.p[i];
                struct node *top = above(t, leaf.path, i);
                bool closed = leaf.kind == NODE_READ || leaf.kind == NODE_MASK || leaf.kind == NODE_LINK;
                if ((!leaf.pinned && !closed) || !top || top->kind != NODE_WRITE || top->own || is_overlay(t, top))
                        continue;
                const char *from = leaf.path + strlen(top->path);
                for (const char *slash = strchr(from + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
                        const char *parent = text(t, plan_copy(t->p, str_n(leaf.path, (size_t)(slash - leaf.path))));
                        if (!find(t, parent))
                                add(t,
                                    (struct node){ .path = parent, .kind = NODE_WRITE, .dir = true, .pinned = true });
                }
        }
        sort_nodes(t);
}

static void collect_sockets(struct tree *t) {
        size_t n = t->nodes.n;
        for (size_t i = 0; i < t->q->host->sockets.n; i++) {
                const char *path = t->q->host->sockets.p[i];
                struct node *top = above_or_at(t, path), *named = find(t, path);
                if (top && top->own)
                        continue; /* it is not there */
                if (named && (named->kind == NODE_READ || named->kind == NODE_WRITE)) {
                        if (vec_push(&t->p->sockets, keep(t, path)) < 0)
                                t->error = -ENOMEM;
                } else if (top && !ours(top) && top->kind != NODE_FS && !named)
                        add(t, (struct node){ .path = keep(t, path), .kind = NODE_MASK });
        }
        if (t->nodes.n != n)
                sort_nodes(t);
}

static void collect_resolver(struct tree *t) {
        const char *path = t->q->host->resolv_conf;
        if (plan_network(t->q->policy) == NETWORK_NONE || !path)
                return;
        struct node *same = find(t, path);
        struct node file = { .path = keep(t, path),
                             .kind = NODE_FILE,
                             .slot = PLAN_ROOT,
                             .data = "nameserver 127.0.0.1\noptions timeout:5 attempts:2\n" };
        if (same)
                *same = file;
        else
                add(t, file);
        sort_nodes(t);
}

static bool same_view(const struct tree *t, const struct node *a, const struct node *b) {
        if (is_overlay(t, a) != is_overlay(t, b) || a->own || b->own)
                return false;
        bool a_reads = a->kind == NODE_READ, b_reads = b->kind == NODE_READ || b->kind == NODE_HOST;
        return (a_reads && b_reads) || (a->kind == NODE_WRITE && b->kind == NODE_WRITE) ||
               (a->kind == NODE_MASK && ours(b));
}

static void prune(struct tree *t) {
        for (size_t i = 1; i < t->nodes.n; i++) {
                struct node *n = &t->nodes.p[i], *top = above(t, n->path, i);
                n->gone = n->kind == NODE_LINK ? !top || top->kind != NODE_WRITE || is_overlay(t, top)
                                               : !n->pinned && top && same_view(t, n, top);
        }
}

/* Emission. */

/* Marks of its own are kept in user attributes: an ordinary user has no others. */
static const char *overlay_options(struct tree *t) {
        const struct plan_host *h = t->q->host;
        return text(t, plan_format(t->p, "userxattr,lowerdir=%s,upperdir=%s,workdir=%s", t->q->policy->workspace,
                                   h->overlay_upper, h->overlay_work));
}

static void clone_sources(struct tree *t) {
        for (size_t i = 0; i < t->nodes.n; i++) {
                struct node *n = &t->nodes.p[i];
                if (n->gone)
                        continue;
                const char *source = n->source ? n->source : n->path;
                if (n->kind == NODE_READ)
                        n->slot = op_clone(t, PLAN_ROOT, source, n->dir, read_only);
                else if (n->kind == NODE_LINK)
                        n->slot = op_clone(t, PLAN_ROOT, n->path, PLAN_CLONE_LINK, read_only);
                else if (n->overlay) {
                        n->slot = op_new_fs(t, "overlay", n->overlay, plain);
                        t->p->ops.p[t->p->ops.n - 1].mode = PLAN_NEW_FS_MAYBE;
                } else if (is_overlay(t, n))
                        n->slot = op_new_fs(t, "overlay", overlay_options(t), plain);
                else if (n->kind == NODE_WRITE)
                        n->slot = op_clone(t, PLAN_ROOT, source, n->dir, plain);
                else if (n->kind == NODE_DEVICE)
                        /* A device is written to on a read-only mount as well; its mode is not. */
                        n->slot = op_clone(t, PLAN_ROOT, n->data ? n->data : n->path, false,
                                           MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC | MOUNT_ATTR_RDONLY);
        }
}

/* What is written there is memory: never more than the command may have, nor than the half of the machine's that a
 * tmpfs gets by itself. A file without content takes some too. */
static const char *base_options(struct tree *t) {
        enum { BYTES_PER_INODE = 4096, INODES_MIN = 4096 /* mount points are among them */ };
        const struct policy_limits *l = &t->q->policy->process.limits;
        const uint64_t limits[] = { l->temporary, l->memory, t->q->host->memory / 2 };
        uint64_t size = 0;
        for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
                if (limits[i] && (!size || limits[i] < size))
                        size = limits[i];
        if (!size)
                return "mode=0755";
        uint64_t inodes = size / BYTES_PER_INODE;
        return text(t, plan_format(t->p, "mode=0755,size=%" PRIu64 ",nr_inodes=%" PRIu64, size,
                                   inodes > INODES_MIN ? inodes : INODES_MIN));
}

static void make_base(struct tree *t) {
        t->base = op_new_fs(t, "tmpfs", base_options(t), plain);
        op_attach(t, t->base, PLAN_ROOT, base_place);
        if (t->q->policy->filesystem.reads_denied)
                make_dir(t, "root", 0755);
}

/* Where reads are denied: a root of our own, closed once every mount point is in it. What is a directory of the
 * sandbox's own there (/tmp) is none of the host's links. */
static void make_root(struct tree *t) {
        if (!t->q->policy->filesystem.reads_denied)
                return;
        for (size_t i = 0; i < t->q->host->root_links.n; i++) {
                const struct plan_link *l = &t->q->host->root_links.p[i];
                if (find(t, l->path))
                        continue;
                make_link(t, text(t, plan_format(t->p, "root%s", l->path)), keep(t, l->target));
        }
        t->root = op_clone(t, t->base, "root", false, read_only);
        op_attach(t, t->root, t->base, "root");
}

/* Whether something will be attached inside: then the mask needs a directory of its own. */
static bool has_inside(struct tree *t, size_t i) {
        for (size_t j = i + 1; j < t->nodes.n; j++)
                if (!t->nodes.p[j].gone && path_is_within(t->nodes.p[j].path, t->nodes.p[i].path))
                        return true;
        return false;
}

static void place_mask(struct tree *t, size_t i) {
        struct node *n = &t->nodes.p[i];
        if (!n->dir) {
                n->place = "empty-file";
                if (!t->has_empty_file)
                        make_file(t, n->place, 0, "");
                t->has_empty_file = true;
        } else if (has_inside(t, i)) {
                n->place = text(t, plan_format(t->p, "mask-%u", t->n_masks++));
                make_dir(t, n->place, 0111);
        } else {
                n->place = "empty-dir";
                if (!t->has_empty_dir)
                        make_dir(t, n->place, 0);
                t->has_empty_dir = true;
        }
}

static void place_all(struct tree *t) {
        for (size_t i = 0; i < t->nodes.n; i++) {
                struct node *n = &t->nodes.p[i], *top = above(t, n->path, i);
                if (n->gone)
                        continue;
                if (n->kind == NODE_PRIVATE)
                        make_dir(t, n->place, n->mode);
                else if (n->kind == NODE_MASK)
                        place_mask(t, i);
                if (!top || !ours(top)) {
                        if (n->kind == NODE_FILE)
                                make_file(t, n->place = "resolv.conf", 0444, n->data);
                        continue;
                }
                const char *point = place_below(t, top, n->path);
                if (n->kind == NODE_FILE)
                        make_file(t, n->place = point, 0444, n->data);
                else if (n->dir)
                        make_dir(t, point, 0755);
                else
                        make_file(t, point, 0444, "");
        }
        make_dir(t, "dev/shm", 01777);
        static const char *const links[][2] = {
                { "dev/fd", "/proc/self/fd" },       { "dev/stdin", "/proc/self/fd/0" },
                { "dev/stdout", "/proc/self/fd/1" }, { "dev/stderr", "/proc/self/fd/2" },
                { "dev/ptmx", "pts/ptmx" },
        };
        for (size_t i = 0; i < sizeof links / sizeof *links; i++)
                make_link(t, links[i][0], links[i][1]);
}

/* What init cannot reach, with its capabilities, the command cannot reach either: then there is nothing to mask. A
 * socket may also be gone since it was listed. */
static uint32_t attach_mode(const struct node *n) {
        if (n->kind == NODE_LINK)
                return PLAN_ATTACH_LINK;
        return n->kind == NODE_MASK ? PLAN_ATTACH_MAYBE : 0;
}

static void attach_node(struct tree *t, size_t i) {
        struct node *n = &t->nodes.p[i], *top = above(t, n->path, i);
        if (n->kind == NODE_FILE && top && ours(top))
                return; /* it was made in its place */
        bool closed = strcmp(n->path, "/sys") == 0 || strcmp(n->path, PLAN_BRIDGE_PROGRAMS) == 0;
        if (n->kind == NODE_PRIVATE)
                n->slot = op_clone(t, t->base, n->place, false, closed ? read_only : plain);
        else if (n->kind == NODE_MASK || n->kind == NODE_FILE)
                n->slot = op_clone(t, t->base, n->place, false, read_only | MOUNT_ATTR_NOEXEC);
        else if (n->kind == NODE_FS && strcmp(n->data, "proc") == 0)
                /* As root its switches belong to whoever runs the sandbox, capabilities or not: then it is read-only.
                 */
                n->slot = op_new_fs(t, "proc", NULL, plain | MOUNT_ATTR_NOEXEC | (t->p->uid ? 0 : MOUNT_ATTR_RDONLY));
        else if (n->kind == NODE_FS)
                n->slot =
                    op_new_fs(t, n->data, "newinstance,ptmxmode=0666,mode=0620", MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
        push(t, (struct plan_op){ .kind = PLAN_OP_ATTACH,
                                  .slot = n->slot,
                                  .at = t->root,
                                  .mode = attach_mode(n),
                                  .target = t->root == PLAN_ROOT ? n->path : n->path + 1 });
}

static void emit(struct tree *t) {
        t->root = PLAN_ROOT;
        clone_sources(t);
        if (!t->q->policy->filesystem.reads_denied)
                push(t, (struct plan_op){ .kind = PLAN_OP_SETATTR,
                                          .slot = PLAN_ROOT,
                                          .at = PLAN_ROOT,
                                          .mode = 1,
                                          .attr_set = read_only,
                                          .target = "/" });
        make_base(t);
        place_all(t);
        make_root(t);
        for (size_t i = 1; i < t->nodes.n; i++)
                if (!t->nodes.p[i].gone)
                        attach_node(t, i);
        if (t->root != PLAN_ROOT)
                push(t, (struct plan_op){ .kind = PLAN_OP_PIVOT, .slot = PLAN_ROOT, .at = t->root, .target = "." });
}

static void add_landlock(struct tree *t, const char *path, uint64_t access) {
        struct plan_landlock_rule rule = { path, access & t->p->landlock.handled_fs };
        if (rule.access && vec_push(&t->p->landlock.rules, rule) < 0)
                t->error = -ENOMEM;
}

/* Under the mounts, the same again: what a hole in one leaves open, the other still closes. */
static void landlock_rules(struct tree *t) {
        struct plan *p = t->p;
        unsigned abi = t->q->host->landlock_abi;
        if (abi == 0) {
                add_note(t, "lost: named pipes of the host in readable places can be written to: this kernel has no "
                            "Landlock, and a read-only mount does not hold them");
                return;
        }
        p->landlock.abi = abi < LANDLOCK_ABI_NEWEST ? abi : LANDLOCK_ABI_NEWEST;
        struct landlock_rights all = landlock_rights(p->landlock.abi);
        p->landlock.scoped = all.scoped;
        if (t->q->policy->process.nesting) { /* a lock on files is a lock on mounts */
                p->landlock.abi = all.scoped ? p->landlock.abi : 0;
                return;
        }
        p->landlock.handled_fs = all.fs;
        for (size_t i = 0; i < t->nodes.n; i++) {
                struct node *n = &t->nodes.p[i], *top = above(t, n->path, i);
                uint64_t on = n->dir ? UINT64_MAX : LANDLOCK_ON_FILE;
                if (n->gone || (top && top->kind == NODE_WRITE && n->kind == NODE_WRITE))
                        continue;
                if (n->kind == NODE_HOST || (n->kind == NODE_READ && t->root != PLAN_ROOT))
                        add_landlock(t, n->path, LANDLOCK_READ & on);
                else if (n->kind == NODE_WRITE)
                        add_landlock(t, n->path, LANDLOCK_WRITE & on);
        }
        for (size_t i = 0; i < p->sockets.n && p->landlock.abi >= LANDLOCK_ABI_UNIX; i++)
                add_landlock(t, p->sockets.p[i], LANDLOCK_FS_RESOLVE_UNIX);
        const uint64_t device =
            LANDLOCK_FS_READ_FILE | LANDLOCK_FS_READ_DIR | LANDLOCK_FS_WRITE_FILE | LANDLOCK_FS_TRUNCATE;
        add_landlock(t, "/dev", device | LANDLOCK_FS_IOCTL_DEV);
        add_landlock(t, "/dev/shm", LANDLOCK_WRITE);
        add_landlock(t, "/proc", LANDLOCK_READ | LANDLOCK_FS_WRITE_FILE | LANDLOCK_FS_TRUNCATE);
        add_landlock(t, "/tmp", LANDLOCK_WRITE);
        add_landlock(t, "/run", LANDLOCK_WRITE);
        if (t->root != PLAN_ROOT) {
                add_landlock(t, "/", LANDLOCK_FS_READ_DIR); /* a listing of what was granted */
                add_landlock(t, "/sys", LANDLOCK_READ);
        }
}

static bool visible(struct tree *t, const char *path) {
        struct node *n = above_or_at(t, path);
        if (n && n->own)
                return strcmp(n->path, path) == 0;
        return n && (n->kind == NODE_HOST || n->kind == NODE_READ || n->kind == NODE_WRITE);
}

/* The root directory of a sandbox whose reads are denied is its own, but nobody takes it for another one. */
static int choose_start(struct tree *t, struct err *e) {
        const char *wanted = plan_start_wanted(t->q->policy, t->q->host);
        bool shown = wanted && (visible(t, wanted) || strcmp(wanted, "/") == 0);

        return plan_start(t->p, t->q, shown, e);
}

int plan_tree(struct plan *p, const struct plan_request *q, struct err *e) {
        struct tree t = { .p = p, .q = q, .root = PLAN_ROOT };
        collect_fixed(&t);
        sort_nodes(&t);
        collect_rules(&t);
        collect_home(&t);
        sort_nodes(&t);
        collect_covers(&t);
        sort_nodes(&t);
        collect_copies(&t);
        sort_nodes(&t);
        collect_sockets(&t);
        pin_parents(&t);
        collect_resolver(&t);
        collect_shims(&t);
        sort_nodes(&t);
        if (t.error == 0)
                prune(&t);
        if (t.error == 0)
                emit(&t);
        if (t.error == 0)
                landlock_rules(&t);
        if (t.error == 0)
                t.error = choose_start(&t, e);
        vec_done(&t.nodes);
        vec_done(&t.made);
        if (t.error == -E2BIG)
                return err_set(e, E2BIG, "the policy needs more than %u mounts", PLAN_SLOTS_MAX);
        return t.error;
}
