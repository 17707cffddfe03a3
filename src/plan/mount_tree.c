/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file tree as nodes. A node is a path where something else begins: a private directory, a mask, a writable or a
 * read-only view of the host. Sorted, parents come before children, and each node looks at the nearest node above it:
 *
 *   - the same access as above: nothing to do, the node goes away
 *   - above is the host's own tree (the root, or a view): the mount point exists, attach
 *   - above is private or a mask: the mount point is made there first, in our tmpfs; nothing appears on the host
 *
 * A closed path inside a writable tree (a read-only view, a mask) must keep its place: each directory between it and
 * the tree's top becomes a mount point too, which the kernel refuses to rename or remove. So no other file can replace
 * it, and it cannot be moved to a path that the next run would not close.
 */
#include "plan/mount_tree.h"

#include "base/bounds.h"
#include "base/cleanup.h"
#include "base/paths/path.h"
#include "plan/landlock.h"
#include "plan/start.h"
#include "policy/tools/browser.h"

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

static bool mount_is_ours(const struct node *node) {
        return node->kind == NODE_PRIVATE || node->kind == NODE_MASK;
}

/* Operations. An error sticks; what follows is then thrown away with the plan. */

static void mount_push(struct tree *tree, struct plan_op op) {
        if (vec_push(&tree->p->ops, op) < 0)
                tree->error = -ENOMEM;
}

static const char *mount_text(struct tree *tree, const char *made) {
        if (!made)
                tree->error = -ENOMEM;
        return text_or(made, "");
}

/* The host's text, as the plan's own. */
static const char *node_keep(struct tree *tree, const char *host_text) {
        return mount_text(tree, plan_copy(tree->p, str_of(host_text)));
}

static uint16_t new_slot(struct tree *tree) {
        if (tree->slots < PLAN_SLOTS_MAX)
                return tree->slots++;
        tree->error = -E2BIG;
        return 0;
}

static uint16_t op_clone(struct tree *tree, uint16_t at, const char *source, uint32_t mode, uint64_t attr) {
        uint16_t slot = new_slot(tree);
        bool recursive = mode & PLAN_CLONE_TREE;
        mount_push(tree,
                   (struct plan_op){ .kind = PLAN_OP_CLONE, .slot = slot, .at = at, .mode = mode, .source = source });
        mount_push(tree,
                   (struct plan_op){
                       .kind = PLAN_OP_SETATTR, .slot = slot, .at = PLAN_ROOT, .mode = recursive, .attr_set = attr });
        return slot;
}

static uint16_t op_new_fs(struct tree *tree, const char *type, const char *options, uint64_t attr) {
        uint16_t slot = new_slot(tree);

        mount_push(tree, (struct plan_op){ .kind = PLAN_OP_NEW_FS,
                                           .slot = slot,
                                           .at = PLAN_ROOT,
                                           .attr_set = attr,
                                           .source = type,
                                           .data = options });
        return slot;
}

static void op_attach(struct tree *tree, uint16_t slot, uint16_t at, const char *target) {
        mount_push(tree, (struct plan_op){ .kind = PLAN_OP_ATTACH, .slot = slot, .at = at, .target = target });
}

/* A directory that only leads to something. Inside a mask it is closed like the mask: mask_again.c takes a readable
 * directory there for one of the host's. */
static uint32_t way_mode(const char *path) {
        return str_starts(str_of(path), STR("mask-")) ? 0111 : 0755;
}

/* Makes the directory in our tmpfs, its parents first, each once. */
static void make_dir(struct tree *tree, const char *path, uint32_t mode) {
        for (size_t i = 0; i < tree->made.n; i++)
                if (strcmp(tree->made.p[i], path) == 0)
                        return;

        const char *slash = strrchr(path, '/');
        if (slash)
                make_dir(tree, mount_text(tree, plan_copy(tree->p, str_n(path, (size_t)(slash - path)))),
                         way_mode(path));
        if (vec_push(&tree->made, path) < 0)
                tree->error = -ENOMEM;

        mount_push(tree, (struct plan_op){ .kind = PLAN_OP_MKDIR, .at = tree->base, .mode = mode, .target = path });
}

static void make_file(struct tree *tree, const char *path, uint32_t mode, const char *content) {
        const char *slash = strrchr(path, '/');
        if (slash)
                make_dir(tree, mount_text(tree, plan_copy(tree->p, str_n(path, (size_t)(slash - path)))),
                         way_mode(path));
        mount_push(tree, (struct plan_op){
                             .kind = PLAN_OP_FILE, .at = tree->base, .mode = mode, .target = path, .data = content });
}

static void make_link(struct tree *tree, const char *path, const char *target) {
        mount_push(tree,
                   (struct plan_op){ .kind = PLAN_OP_SYMLINK, .at = tree->base, .source = target, .target = path });
}

/* Nodes. */

static struct node *node_find(struct tree *tree, const char *path) {
        for (size_t i = 0; i < tree->nodes.n; i++)
                if (strcmp(tree->nodes.p[i].path, path) == 0)
                        return &tree->nodes.p[i];
        return NULL;
}

static void node_add(struct tree *tree, struct node n) {
        n.slot = PLAN_ROOT;
        if (vec_push(&tree->nodes, n) < 0)
                tree->error = -ENOMEM;
}

/* Two rules for one place (through a link, say): the stricter one holds. A grant replaces a private directory. */
static void add_rule_node(struct tree *tree, struct node node) {
        static const int strictness[NODE_LINK + 1] = { [NODE_WRITE] = 1, [NODE_READ] = 2, [NODE_MASK] = 3 };
        struct node *same = node_find(tree, node.path);
        if (!same)
                node_add(tree, node);
        else if (same->kind == NODE_PRIVATE && node.kind != NODE_MASK)
                same->kind = node.kind;
        else if (same->kind == NODE_READ || same->kind == NODE_WRITE || same->kind == NODE_MASK) {
                if (strictness[node.kind] > strictness[same->kind])
                        same->kind = node.kind;
                same->pinned |= node.pinned;
        }
}

static int by_path(const void *a, const void *b) {
        return strcmp(((const struct node *)a)->path, ((const struct node *)b)->path);
}

/* The nearest node above that is still there. The list is sorted, so it is the last one that contains the path. */
static struct node *node_above(struct tree *tree, const char *path, size_t before) {
        for (size_t i = before; i-- > 0;) {
                struct node *node = &tree->nodes.p[i];
                if (!node->gone && strcmp(node->path, path) != 0 && path_is_within(path, node->path))
                        return node;
        }
        return NULL;
}

static struct node *above_or_at(struct tree *tree, const char *path) {
        for (size_t i = tree->nodes.n; i-- > 0;)
                if (!tree->nodes.p[i].gone && path_is_within(path, tree->nodes.p[i].path))
                        return &tree->nodes.p[i];
        return NULL;
}

/* Where in our tmpfs a path lies that is below a node of ours. */
static const char *place_below(struct tree *tree, const struct node *top, const char *path) {
        size_t skip = strcmp(top->path, "/") == 0 ? 0 : strlen(top->path);
        return mount_text(tree, plan_format(tree->p, "%s%s", top->place, path + skip));
}

static void collect_fixed(struct tree *tree) {
        const struct plan_host *host = tree->q->host;
        bool closed = tree->q->policy->filesystem.reads_denied;

        node_add(
            tree,
            (struct node){
                .path = "/", .kind = closed ? NODE_PRIVATE : NODE_HOST, .dir = true, .mode = 0755, .place = "root" });
        node_add(tree,
                 (struct node){ .path = "/tmp", .kind = NODE_PRIVATE, .dir = true, .mode = 01777, .place = "tmp" });
        node_add(tree,
                 (struct node){ .path = "/run", .kind = NODE_PRIVATE, .dir = true, .mode = 0755, .place = "run" });
        node_add(tree,
                 (struct node){ .path = "/dev", .kind = NODE_PRIVATE, .dir = true, .mode = 0755, .place = "dev" });
        node_add(tree,
                 (struct node){ .path = "/sys", .kind = NODE_PRIVATE, .dir = true, .mode = 0755, .place = "sys" });
        node_add(tree, (struct node){ .path = "/proc", .kind = NODE_FS, .dir = true, .data = "proc" });
        node_add(tree, (struct node){ .path = "/dev/pts", .kind = NODE_FS, .dir = true, .data = "devpts" });

        for (size_t i = 0; i < host->devices.n; i++)
                node_add(tree, (struct node){ .path = node_keep(tree, host->devices.p[i]), .kind = NODE_DEVICE });

        if (host->terminal)
                node_add(tree, (struct node){ .path = "/dev/console",
                                              .kind = NODE_DEVICE,
                                              .data = node_keep(tree, host->terminal) });

        for (size_t i = 0; i < host->system_dirs.n; i++)
                node_add(tree, (struct node){ .path = node_keep(tree, host->system_dirs.p[i]),
                                              .kind = NODE_READ,
                                              .dir = true,
                                              .pinned = true });
}

/* One program under the names of all bridged tools, and of those that open pages, in a directory that nothing inside
 * can change. */
static void collect_shims(struct tree *tree) {
        const char *shim = tree->q->host->shim;

        if (!shim)
                return;

        node_add(tree,
                 (struct node){
                     .path = PLAN_BRIDGE_PROGRAMS, .kind = NODE_PRIVATE, .dir = true, .mode = 0755, .place = "bin" });

        for (size_t i = 0; i < tree->q->policy->bridge.n; i++)
                node_add(tree, (struct node){ .path = mount_text(tree, plan_format(tree->p, PLAN_BRIDGE_PROGRAMS "/%s",
                                                                                   tree->q->policy->bridge.p[i].name)),
                                              .kind = NODE_READ,
                                              .pinned = true,
                                              .source = node_keep(tree, shim) });

        for (size_t i = 0; policy_has_browser(tree->q->policy) && browser_names[i]; i++)
                node_add(tree, (struct node){ .path = mount_text(tree, plan_format(tree->p, PLAN_BRIDGE_PROGRAMS "/%s",
                                                                                   browser_names[i])),
                                              .kind = NODE_READ,
                                              .pinned = true,
                                              .source = node_keep(tree, shim) });

        if (vec_push(&tree->p->sockets, mount_text(tree, plan_copy(tree->p, STR(PLAN_BRIDGE_SOCKET)))) < 0)
                tree->error = -ENOMEM;
}

static void add_note(struct tree *tree, const char *note) {
        if (vec_push(&tree->p->notes, mount_text(tree, note)) < 0)
                tree->error = -ENOMEM;
}

const char *plan_missing_note(struct plan *plan, const struct plan_path *path) {
        if (path->astray)
                return plan_format(plan,
                                   "%s grants nothing: its path leads to %s through a link that a sandbox could have "
                                   "made; to grant that, write it as it is",
                                   path->origin, path->path);
        return plan_format(plan, "%s does not exist: %s grants nothing", path->path, path->origin);
}

/* With an overlay nothing written in the workspace reaches the host: there is nothing to guard, and a writable view of
 * the host's own directories would be a hole in it. */
static bool under_overlay(const struct tree *tree, const char *path) {
        return tree->q->host->overlay_upper && strcmp(path, tree->q->policy->workspace) != 0 &&
               path_is_within(path, tree->q->policy->workspace);
}

/* A cache: the host's below, and whatever is written above it. */
static const char *laid_options(struct tree *tree, const struct plan_laid *laid) {
        if (laid->between)
                return mount_text(tree, plan_format(tree->p, "userxattr,volatile,lowerdir=%s:%s,upperdir=%s,workdir=%s",
                                                    laid->between, laid->source, laid->upper, laid->work));

        return mount_text(tree, plan_format(tree->p, "userxattr,volatile,lowerdir=%s,upperdir=%s,workdir=%s",
                                            laid->source, laid->upper, laid->work));
}

static void collect_laid(struct tree *tree, const struct plan_laid *laid) {
        struct node node = { .path = node_keep(tree, laid->path), .dir = true, .pinned = true };

        if (node_find(tree, node.path))
                return; /* a rule has laid something there */

        if (laid->upper) {
                node.kind = NODE_WRITE;
                node.overlay = laid_options(tree, laid);
        } else {
                node.kind = NODE_READ;
                node.source = node_keep(tree, laid->source);
        }

        node_add(tree, node);
}

/* After the rules, which may have laid something at the very same place. */
static void collect_home(struct tree *tree) {
        const struct plan_home *home = &tree->q->host->home;
        struct node own = { .kind = NODE_WRITE, .dir = true, .pinned = true, .own = true, .slot = PLAN_ROOT };
        struct node *same;

        if (!home->path)
                return;

        own.path = node_keep(tree, home->path);
        own.source = node_keep(tree, home->files);
        for (size_t i = 0; i < home->laid.n; i++)
                collect_laid(tree, &home->laid.p[i]);

        same = node_find(tree, own.path);
        if (same)
                *same = own;
        else
                node_add(tree, own);
}

/* A file that a rule hides stays hidden. */
static void collect_covers(struct tree *tree) {
        for (size_t i = 0; i < tree->q->host->covers.n; i++) {
                const struct plan_cover *cover = &tree->q->host->covers.p[i];
                struct node *top = above_or_at(tree, cover->path), *same = node_find(tree, cover->path);

                if (top && top->kind == NODE_MASK)
                        continue;

                struct node file = { .path = node_keep(tree, cover->path),
                                     .kind = NODE_READ,
                                     .pinned = true,
                                     .slot = PLAN_ROOT,
                                     .source = node_keep(tree, cover->source) };

                if (same)
                        *same = file;
                else
                        node_add(tree, file);
        }
}

/* Over the view that is read-only; a file that a person hides has no copy. */
static void collect_copies(struct tree *tree) {
        for (size_t i = 0; i < tree->q->host->copies.n; i++) {
                const struct plan_host_copy *copy = &tree->q->host->copies.p[i];
                struct node *same = node_find(tree, copy->path);
                struct node file = { .path = node_keep(tree, copy->path),
                                     .kind = NODE_WRITE,
                                     .pinned = true,
                                     .slot = PLAN_ROOT,
                                     .source = node_keep(tree, copy->source) };

                if (same)
                        *same = file;
                else
                        node_add(tree, file);
        }
}

static bool is_overlay(const struct tree *tree, const struct node *node) {
        if (node->overlay)
                return true;
        return node->kind == NODE_WRITE && tree->q->host->overlay_upper &&
               strcmp(node->path, tree->q->policy->workspace) == 0;
}

/* Only where its directory is shown for writing is there anything to hold. */
static void collect_link(struct tree *tree, const struct plan_path *path) {
        if (!under_overlay(tree, path->path) && !node_find(tree, path->path))
                node_add(tree, (struct node){ .path = node_keep(tree, path->path), .kind = NODE_LINK, .pinned = true });
}

static void collect_rules(struct tree *tree) {
        static const enum node_kind kinds[] = {
                [PATH_DENIED] = NODE_MASK, [PATH_READ] = NODE_READ, [PATH_WRITE] = NODE_WRITE
        };

        for (size_t i = 0; i < tree->q->host->paths.n; i++) {
                const struct plan_path *path = &tree->q->host->paths.p[i];
                if (path->type == PLAN_PATH_LINK) {
                        collect_link(tree, path);
                        continue;
                }

                if (path->type == PLAN_PATH_MISSING) {
                        if (path->grants)
                                add_note(tree, plan_missing_note(tree->p, path));
                        continue;
                }

                if (strcmp(path->path, "/") == 0)
                        continue; /* the whole tree is what the mode says */
                if (under_overlay(tree, path->path) && (path->protected || path->access == PATH_WRITE))
                        continue;

                /* What only takes away has nothing to take from a directory that is empty anyway. */
                struct node *top = above_or_at(tree, path->path);
                if (top && top->kind == NODE_PRIVATE && !path->grants)
                        continue;

                bool device = path_is_within(path->path, "/dev") && path->type == PLAN_PATH_FILE;
                add_rule_node(tree, (struct node){ .path = node_keep(tree, path->path),
                                                   .kind = device && path->access != PATH_DENIED ? NODE_DEVICE
                                                                                                 : kinds[path->access],
                                                   .dir = path->type == PLAN_PATH_DIR,
                                                   .pinned = path->protected });
        }
}

static void sort_nodes(struct tree *tree) {
        qsort(tree->nodes.p, tree->nodes.n, sizeof *tree->nodes.p, by_path);
}

/* Directories between a closed path and the top of its writable tree become mount points of their own. Not in an
 * overlay, where such a view would be the host's own directory: there they cannot be renamed anyway (EXDEV). */
static void pin_parents(struct tree *tree) {
        size_t n = tree->nodes.n;
        for (size_t i = 0; i < n; i++) {
                struct node leaf = tree->nodes.p[i];
                struct node *top = node_above(tree, leaf.path, i);
                bool closed = leaf.kind == NODE_READ || leaf.kind == NODE_MASK || leaf.kind == NODE_LINK;
                if ((!leaf.pinned && !closed) || !top || top->kind != NODE_WRITE || top->own || is_overlay(tree, top))
                        continue;

                const char *from = leaf.path + strlen(top->path);
                for (const char *slash = strchr(from + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
                        const char *parent =
                            mount_text(tree, plan_copy(tree->p, str_n(leaf.path, (size_t)(slash - leaf.path))));
                        if (!node_find(tree, parent))
                                node_add(tree, (struct node){
                                                   .path = parent, .kind = NODE_WRITE, .dir = true, .pinned = true });
                }
        }

        sort_nodes(tree);
}

static void collect_sockets(struct tree *tree) {
        size_t n = tree->nodes.n;
        for (size_t i = 0; i < tree->q->host->sockets.n; i++) {
                const char *path = tree->q->host->sockets.p[i];
                struct node *top = above_or_at(tree, path), *named = node_find(tree, path);
                if (top && top->own)
                        continue; /* it is not there */

                if (named && (named->kind == NODE_READ || named->kind == NODE_WRITE)) {
                        if (vec_push(&tree->p->sockets, node_keep(tree, path)) < 0)
                                tree->error = -ENOMEM;
                } else if (top && !mount_is_ours(top) && top->kind != NODE_FS && !named)
                        node_add(tree, (struct node){ .path = node_keep(tree, path), .kind = NODE_MASK });
        }

        if (tree->nodes.n != n)
                sort_nodes(tree);
}

static void collect_resolver(struct tree *tree) {
        const char *path = tree->q->host->resolv_conf;
        if (plan_network(tree->q->policy) == NETWORK_NONE || !path)
                return;

        struct node *same = node_find(tree, path);
        struct node file = { .path = node_keep(tree, path),
                             .kind = NODE_FILE,
                             .slot = PLAN_ROOT,
                             .data = "nameserver 127.0.0.1\noptions timeout:5 attempts:2\n" };

        if (same)
                *same = file;
        else
                node_add(tree, file);

        sort_nodes(tree);
}

static bool same_view(const struct tree *tree, const struct node *a, const struct node *b) {
        if (is_overlay(tree, a) != is_overlay(tree, b) || a->own || b->own)
                return false;
        bool a_reads = a->kind == NODE_READ, b_reads = b->kind == NODE_READ || b->kind == NODE_HOST;
        return (a_reads && b_reads) || (a->kind == NODE_WRITE && b->kind == NODE_WRITE) ||
               (a->kind == NODE_MASK && mount_is_ours(b));
}

static void tree_prune(struct tree *tree) {
        for (size_t i = 1; i < tree->nodes.n; i++) {
                struct node *node = &tree->nodes.p[i], *top = node_above(tree, node->path, i);
                node->gone = node->kind == NODE_LINK ? !top || top->kind != NODE_WRITE || is_overlay(tree, top)
                                                     : !node->pinned && top && same_view(tree, node, top);
        }
}

/* Emission. */

/* Marks of its own are kept in user attributes: an ordinary user has no others. */
static const char *overlay_options(struct tree *tree) {
        const struct plan_host *host = tree->q->host;
        return mount_text(tree, plan_format(tree->p, "userxattr,lowerdir=%s,upperdir=%s,workdir=%s",
                                            tree->q->policy->workspace, host->overlay_upper, host->overlay_work));
}

static void clone_sources(struct tree *tree) {
        for (size_t i = 0; i < tree->nodes.n; i++) {
                struct node *node = &tree->nodes.p[i];
                if (node->gone)
                        continue;

                const char *source = node->source ? node->source : node->path;

                if (node->kind == NODE_READ)
                        node->slot = op_clone(tree, PLAN_ROOT, source, node->dir, read_only);
                else if (node->kind == NODE_LINK)
                        node->slot = op_clone(tree, PLAN_ROOT, node->path, PLAN_CLONE_LINK, read_only);
                else if (node->overlay) {
                        node->slot = op_new_fs(tree, "overlay", node->overlay, plain);
                        tree->p->ops.p[tree->p->ops.n - 1].mode = PLAN_NEW_FS_MAYBE;
                } else if (is_overlay(tree, node))
                        node->slot = op_new_fs(tree, "overlay", overlay_options(tree), plain);
                else if (node->kind == NODE_WRITE)
                        node->slot = op_clone(tree, PLAN_ROOT, source, node->dir, plain);
                else if (node->kind == NODE_DEVICE)
                        /* A device is written to on a read-only mount as well; its mode is not. */
                        node->slot = op_clone(tree, PLAN_ROOT, node->data ? node->data : node->path, false,
                                              MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC | MOUNT_ATTR_RDONLY);
        }
}

/* Files there take memory: never more than the command's limit, nor than half of the machine's, a tmpfs's default. An
 * empty file takes some too. */
static const char *base_options(struct tree *tree) {
        enum { BYTES_PER_INODE = 4096, INODES_MIN = 4096 /* mount points are among them */ };
        const struct policy_limits *policy_limits = &tree->q->policy->process.limits;
        const uint64_t limits[] = { policy_limits->temporary, policy_limits->memory, tree->q->host->memory / 2 };
        uint64_t size = 0;

        for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
                if (limits[i] && (!size || limits[i] < size))
                        size = limits[i];

        if (!size)
                return "mode=0755";

        uint64_t inodes = size / BYTES_PER_INODE;
        return mount_text(tree, plan_format(tree->p, "mode=0755,size=%" PRIu64 ",nr_inodes=%" PRIu64, size,
                                            inodes > INODES_MIN ? inodes : INODES_MIN));
}

static void make_base(struct tree *tree) {
        tree->base = op_new_fs(tree, "tmpfs", base_options(tree), plain);
        op_attach(tree, tree->base, PLAN_ROOT, base_place);
        if (tree->q->policy->filesystem.reads_denied)
                make_dir(tree, "root", 0755);
}

/* Where reads are denied: a root of our own, closed once every mount point is in it. What is a directory of the
 * sandbox's own there (/tmp) is none of the host's links. */
static void make_root(struct tree *tree) {
        if (!tree->q->policy->filesystem.reads_denied)
                return;

        for (size_t i = 0; i < tree->q->host->root_links.n; i++) {
                const struct plan_link *link = &tree->q->host->root_links.p[i];
                if (node_find(tree, link->path))
                        continue;
                make_link(tree, mount_text(tree, plan_format(tree->p, "root%s", link->path)),
                          node_keep(tree, link->target));
        }

        tree->root = op_clone(tree, tree->base, "root", false, read_only);
        op_attach(tree, tree->root, tree->base, "root");
}

/* Whether something will be attached inside: then the mask needs a directory of its own. */
static bool has_inside(struct tree *tree, size_t i) {
        for (size_t j = i + 1; j < tree->nodes.n; j++)
                if (!tree->nodes.p[j].gone && path_is_within(tree->nodes.p[j].path, tree->nodes.p[i].path))
                        return true;
        return false;
}

static void place_mask(struct tree *tree, size_t i) {
        struct node *node = &tree->nodes.p[i];

        if (!node->dir) {
                node->place = "empty-file";
                if (!tree->has_empty_file)
                        make_file(tree, node->place, 0, "");
                tree->has_empty_file = true;
        } else if (has_inside(tree, i)) {
                node->place = mount_text(tree, plan_format(tree->p, "mask-%u", tree->n_masks++));
                make_dir(tree, node->place, 0111);
        } else {
                node->place = "empty-dir";
                if (!tree->has_empty_dir)
                        make_dir(tree, node->place, 0);
                tree->has_empty_dir = true;
        }
}

static void place_all(struct tree *tree) {
        for (size_t i = 0; i < tree->nodes.n; i++) {
                struct node *node = &tree->nodes.p[i], *top = node_above(tree, node->path, i);
                if (node->gone)
                        continue;

                if (node->kind == NODE_PRIVATE)
                        make_dir(tree, node->place, node->mode);
                else if (node->kind == NODE_MASK)
                        place_mask(tree, i);

                if (!top || !mount_is_ours(top)) {
                        if (node->kind == NODE_FILE)
                                make_file(tree, node->place = "resolv.conf", 0444, node->data);
                        continue;
                }

                const char *point = place_below(tree, top, node->path);

                if (node->kind == NODE_FILE)
                        make_file(tree, node->place = point, 0444, node->data);
                else if (node->dir)
                        make_dir(tree, point, 0755);
                else
                        make_file(tree, point, 0444, "");
        }

        make_dir(tree, "dev/shm", 01777);
        static const char *const links[][2] = {
                { "dev/fd", "/proc/self/fd" },       { "dev/stdin", "/proc/self/fd/0" },
                { "dev/stdout", "/proc/self/fd/1" }, { "dev/stderr", "/proc/self/fd/2" },
                { "dev/ptmx", "pts/ptmx" },
        };
        for (size_t i = 0; i < sizeof links / sizeof *links; i++)
                make_link(tree, links[i][0], links[i][1]);
}

/* If init with its capabilities cannot reach it, neither can the command: then there is nothing to mask. A socket may
 * also be gone since it was listed. */
static uint32_t attach_mode(const struct node *node) {
        if (node->kind == NODE_LINK)
                return PLAN_ATTACH_LINK;
        if (node->kind == NODE_MASK)
                return PLAN_ATTACH_MAYBE;

        return 0;
}

static void attach_node(struct tree *tree, size_t i) {
        struct node *node = &tree->nodes.p[i], *top = node_above(tree, node->path, i);
        if (node->kind == NODE_FILE && top && mount_is_ours(top))
                return; /* it was made in its place */

        bool closed = strcmp(node->path, "/sys") == 0 || strcmp(node->path, PLAN_BRIDGE_PROGRAMS) == 0;

        if (node->kind == NODE_PRIVATE)
                node->slot = op_clone(tree, tree->base, node->place, false, closed ? read_only : plain);
        else if (node->kind == NODE_MASK || node->kind == NODE_FILE)
                node->slot = op_clone(tree, tree->base, node->place, false, read_only | MOUNT_ATTR_NOEXEC);
        else if (node->kind == NODE_FS && strcmp(node->data, "proc") == 0)
                /* As root its switches belong to whoever runs the sandbox, capabilities or not: then it is read-only.
                 */
                node->slot =
                    op_new_fs(tree, "proc", NULL, plain | MOUNT_ATTR_NOEXEC | (tree->p->uid ? 0 : MOUNT_ATTR_RDONLY));
        else if (node->kind == NODE_FS)
                node->slot = op_new_fs(tree, node->data, "newinstance,ptmxmode=0666,mode=0620",
                                       MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);

        mount_push(tree, (struct plan_op){ .kind = PLAN_OP_ATTACH,
                                           .slot = node->slot,
                                           .at = tree->root,
                                           .mode = attach_mode(node),
                                           .target = tree->root == PLAN_ROOT ? node->path : node->path + 1 });
}

static void tree_emit(struct tree *tree) {
        tree->root = PLAN_ROOT;
        clone_sources(tree);

        if (!tree->q->policy->filesystem.reads_denied)
                mount_push(tree, (struct plan_op){ .kind = PLAN_OP_SETATTR,
                                                   .slot = PLAN_ROOT,
                                                   .at = PLAN_ROOT,
                                                   .mode = 1,
                                                   .attr_set = read_only,
                                                   .target = "/" });

        make_base(tree);
        place_all(tree);
        make_root(tree);

        for (size_t i = 1; i < tree->nodes.n; i++)
                if (!tree->nodes.p[i].gone)
                        attach_node(tree, i);

        if (tree->root != PLAN_ROOT)
                mount_push(tree, (struct plan_op){
                                     .kind = PLAN_OP_PIVOT, .slot = PLAN_ROOT, .at = tree->root, .target = "." });
}

static void add_landlock(struct tree *tree, const char *path, uint64_t access) {
        struct plan_landlock_rule rule = { path, access & tree->p->landlock.handled_fs };
        if (rule.access && vec_push(&tree->p->landlock.rules, rule) < 0)
                tree->error = -ENOMEM;
}

/* Under the mounts, the same again: what a hole in one leaves open, the other still closes. */
static void landlock_rules(struct tree *tree) {
        struct plan *plan = tree->p;
        unsigned abi = tree->q->host->landlock_abi;
        if (abi == 0) {
                add_note(tree, "lost: named pipes of the host in readable places can be written to: this kernel has no "
                               "Landlock, and a read-only mount does not hold them");
                return;
        }

        plan->landlock.abi = min_of(abi, LANDLOCK_ABI_NEWEST);
        struct landlock_rights all = landlock_rights(plan->landlock.abi);
        plan->landlock.scoped = all.scoped;

        if (tree->q->policy->process.nesting) { /* a lock on files is a lock on mounts */
                if (!all.scoped)
                        plan->landlock.abi = 0;
                return;
        }

        plan->landlock.handled_fs = all.fs;

        for (size_t i = 0; i < tree->nodes.n; i++) {
                struct node *node = &tree->nodes.p[i], *top = node_above(tree, node->path, i);
                uint64_t on = node->dir ? UINT64_MAX : LANDLOCK_ON_FILE;

                if (node->gone || (top && top->kind == NODE_WRITE && node->kind == NODE_WRITE))
                        continue;

                if (node->kind == NODE_HOST || (node->kind == NODE_READ && tree->root != PLAN_ROOT))
                        add_landlock(tree, node->path, LANDLOCK_READ & on);
                else if (node->kind == NODE_WRITE)
                        add_landlock(tree, node->path, LANDLOCK_WRITE & on);
        }

        for (size_t i = 0; i < plan->sockets.n && plan->landlock.abi >= LANDLOCK_ABI_UNIX; i++)
                add_landlock(tree, plan->sockets.p[i], LANDLOCK_FS_RESOLVE_UNIX);

        const uint64_t device =
            LANDLOCK_FS_READ_FILE | LANDLOCK_FS_READ_DIR | LANDLOCK_FS_WRITE_FILE | LANDLOCK_FS_TRUNCATE;
        add_landlock(tree, "/dev", device | LANDLOCK_FS_IOCTL_DEV);
        add_landlock(tree, "/dev/shm", LANDLOCK_WRITE);
        add_landlock(tree, "/proc", LANDLOCK_READ | LANDLOCK_FS_WRITE_FILE | LANDLOCK_FS_TRUNCATE);
        add_landlock(tree, "/tmp", LANDLOCK_WRITE);
        add_landlock(tree, "/run", LANDLOCK_WRITE);

        if (tree->root != PLAN_ROOT) {
                add_landlock(tree, "/", LANDLOCK_FS_READ_DIR); /* a listing of what was granted */
                add_landlock(tree, "/sys", LANDLOCK_READ);
        }
}

static bool node_visible(struct tree *tree, const char *path) {
        struct node *node = above_or_at(tree, path);
        if (node && node->own)
                return strcmp(node->path, path) == 0;
        return node && (node->kind == NODE_HOST || node->kind == NODE_READ || node->kind == NODE_WRITE);
}

/* The root directory of a sandbox whose reads are denied is its own, but nobody takes it for another one. */
static int choose_start(struct tree *tree, struct err *err) {
        const char *wanted = plan_start_wanted(tree->q->policy, tree->q->host);
        bool shown = wanted && (node_visible(tree, wanted) || strcmp(wanted, "/") == 0);

        return plan_start(tree->p, tree->q, shown, err);
}

int plan_tree(struct plan *plan, const struct plan_request *request, struct err *err) {
        struct tree t = { .p = plan, .q = request, .root = PLAN_ROOT };

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
                tree_prune(&t);
        if (t.error == 0)
                tree_emit(&t);
        if (t.error == 0)
                landlock_rules(&t);
        if (t.error == 0)
                t.error = choose_start(&t, err);

        vec_done(&t.nodes);
        vec_done(&t.made);
        if (t.error == -E2BIG)
                return err_set(err, E2BIG, "the policy needs more than %u mounts", PLAN_SLOTS_MAX);

        return t.error;
}
