/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The launch plan: everything that happens between clone and exec, as data. It is computed before (plan/build.h, pure),
 * printable (plan/dump.h), carried as one block of bytes (plan/codec.h) that init validates again, and applied by
 * sandbox/linux step by step. Nothing is decided after the plan: a step works or the launch fails and says which.
 *
 * Mounts are operations on slots. A slot is a detached mount (the descriptor that open_tree or fsmount gave) or, once
 * attached, a place that other operations name paths relative to. Sources are cloned first, while the host's tree is
 * still whole; masks come after. So an allowed path inside a masked one needs no special order.
 */
#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "base/vec.h"

#include <sched.h>

enum plan_op_kind {
        PLAN_OP_CLONE,   /* open_tree(source) -> slot; mode: PLAN_CLONE_* */
        PLAN_OP_NEW_FS,  /* a new file system of type `source` -> slot; `data`: options, comma-separated; mode:
                            PLAN_NEW_FS_* */
        PLAN_OP_SETATTR, /* mount_setattr on the slot, or on target when slot is PLAN_ROOT; mode 1: recursive */
        PLAN_OP_ATTACH,  /* move_mount(slot) onto target; mode: PLAN_ATTACH_* */
        PLAN_OP_MKDIR,   /* mkdir(target, mode) */
        PLAN_OP_FILE,    /* a new file with the mode and `data` as content */
        PLAN_OP_SYMLINK, /* target -> source */
        PLAN_OP_PIVOT,   /* target becomes the root, the old one goes away */
        PLAN_OPS
};

enum {
        PLAN_CLONE_TREE = 1,   /* with everything mounted below */
        PLAN_CLONE_LINK = 2,   /* the source may be a link, which is cloned itself */
        PLAN_NEW_FS_MAYBE = 1, /* if it cannot be made, mounts from the slot are left out */
        PLAN_ATTACH_MAYBE = 1, /* not an error where the target cannot be reached */
        PLAN_ATTACH_LINK = 2,  /* the target may be a link, which is covered itself */
};

/* Paths of an operation are relative to the slot `at`, or absolute when it is PLAN_ROOT. */
#define PLAN_ROOT UINT16_MAX
#define PLAN_SLOTS_MAX 1024

struct plan_op {
        uint8_t kind;
        uint16_t slot;
        uint16_t at;
        uint32_t mode;
        uint64_t attr_set, attr_clear; /* MOUNT_ATTR_* */
        const char *source, *target, *data;
};

struct plan_landlock_rule {
        const char *path;
        uint64_t access;
};
struct plan_landlock_port {
        uint16_t port;
        uint64_t access;
};

enum plan_listener_kind {
        PLAN_LISTENER_HTTP,
        PLAN_LISTENER_SOCKS5,
        PLAN_LISTENER_DNS_UDP,
        PLAN_LISTENER_DNS_TCP,
        PLAN_LISTENER_TRANSPARENT,
        PLAN_LISTENER_HOST_PORT, /* forward_port: of the host's loopback */
        PLAN_LISTENER_API,       /* where the policy has credentials */
        PLAN_LISTENER_PACKETS,   /* netlink: packets that the namespace refused; its port is the group */
        PLAN_LISTENER_SHIM,      /* a Unix socket, PLAN_SHIM_SOCKET: what stands for ssh and gpg inside */
        PLAN_LISTENER_AGENT,     /* a Unix socket, PLAN_AGENT_SOCKET: the ssh-agent inside */
        PLAN_LISTENER_CALLBACK,  /* no listener: a TCP socket of this network, for callbacks of sign-ins; the
                                    supervisor's */
        PLAN_LISTENER_BRIDGE, /* a Unix socket at PLAN_BRIDGE_SOCKET, for calls of tools: the supervisor's, always last
                               */
        PLAN_LISTENER_KINDS
};
/* Where tools of the host are called from inside: the programs of their names, and the socket that these speak to. */
#define PLAN_BRIDGE_PLACE "/run/bailey"
#define PLAN_BRIDGE_PROGRAMS PLAN_BRIDGE_PLACE "/bin"
#define PLAN_BRIDGE_SOCKET PLAN_BRIDGE_PLACE "/bridge"
struct plan_listener {
        uint8_t kind;
        uint8_t v6;
        uint16_t port;
        uint16_t forward_port;
};
#define PLAN_LISTENERS_MAX 32

/* A port of the sandbox's loopback that the host offers. */
struct plan_publish {
        uint16_t outside, inside;
        const char *address; /* of the host */
};

struct plan_limit {
        uint32_t resource; /* RLIMIT_* */
        uint64_t value;
};

/* What stood at a protected path when the sandbox began. */
enum plan_guard_kind {
        PLAN_GUARD_MISSING, /* nothing, and nothing may be there afterwards */
        PLAN_GUARD_LINK,    /* this link: `link` is its text. It stays, or is put back */
        PLAN_GUARD_FILE,    /* anything that is neither link nor directory. It stays as it is */
        PLAN_GUARD_DIR,     /* a directory. It stays as it is, with everything below */
        PLAN_GUARD_KINDS
};

/*
 * One protected path, inside a place that the sandbox may write. The list of them (struct plan, `guards`) is the whole
 * set that a sandbox must not change. Three mechanisms enforce it: mounts over existing paths, a broker at the moment
 * of the call, and the sweep at the end (sandbox/guard.c), which handles MISSING and LINK.
 *
 * Each link on the way to a protected name is in the list by itself, and so is what it leads to. So a path needs no
 * links resolved: an object is protected when its canonical path is that of a guard, or lies below one that is no LINK.
 * A name above a guard must not be renamed away or replaced either.
 */
struct plan_guard {
        const char *path; /* canonical: its directories resolved, the last name not followed */
        uint8_t kind;     /* enum plan_guard_kind */
        uint8_t hidden;   /* it may not be read either */
        const char *link; /* of a LINK: its text */
        const char *why;  /* the origin of the rule */
        const char *root; /* the writable directory that it lies in */
};

/*
 * A configuration of git's of which the sandbox has a copy: mounted at `path`, writable. Git changes it by a lock file
 * beside it, which becomes the file; a mount cannot be replaced, and a lock that lies on the host would be the host's,
 * too. So the broker plays both (sandbox/linux/broker/broker_copy.c).
 */
struct plan_copy_of {
        const char *path;
        uint64_t copy_dev, copy_ino; /* of the copy: whatever else is at the path is the host's, and closed */
        uint64_t real_dev, real_ino; /* of the host's file when the sandbox began: closed under any name */
};

/* Ports inside the sandbox's own network namespace; nobody else is there, so they are constants (plan/gen too). */
enum {
        PLAN_PORT_DNS = 53,
        PLAN_PORT_SOCKS5 = 1080,
        PLAN_PORT_HTTP = 3128,
        PLAN_PORT_API = 3129,
        PLAN_PORT_TRANSPARENT = 15001,
};
/* Refused packets: the netlink group, and how much of each is handed out (headers, and a question for a name). */
enum { PLAN_PACKET_GROUP = 1, PLAN_PACKET_BYTES = 512 };
/* Where the programs and sockets are that stand for the host's ssh, gpg and ssh-agent. */
#define PLAN_SHIM_PLACE "/run/bailey-ssh"
#define PLAN_SHIM_SSH PLAN_SHIM_PLACE "/ssh"
#define PLAN_SHIM_GPG PLAN_SHIM_PLACE "/gpg"
#define PLAN_SHIM_SOCKET PLAN_SHIM_PLACE "/socket"
#define PLAN_AGENT_SOCKET PLAN_SHIM_PLACE "/agent"
#define PLAN_OWN_V4 "198.18.0.1"
#define PLAN_OWN_V6 "fd00:ba11::1"

enum {
        PLAN_HAS_TERMINAL = 1, /* the command gets its own foreground process group */
        PLAN_DEGRADED = 2,     /* no namespaces: Landlock, seccomp and proxy variables only */
        PLAN_BROKER = 4,    /* calls that reach files by name are judged one by one (sandbox/linux/broker/broker.h) */
        PLAN_TRACE = 8,     /* and what is refused, file or system call, is reported; with PLAN_BROKER */
        PLAN_OBSERVE = 16,  /* what is granted too; with PLAN_TRACE */
        PLAN_SOCKETS = 32,  /* connect() is judged: below Landlock ABI 9 a name may lead to a socket of the host */
        PLAN_SCOPE = 64,    /* a systemd scope is asked for, to limit all of it together */
        PLAN_WRITES = 128,  /* calls that change files are judged one by one: there are guards (plan_guard) */
        PLAN_NATIVE = 256,  /* and by Landlock the command can make no such call itself; with PLAN_WRITES */
        PLAN_WATCHED = 512, /* without namespaces: calls that Landlock does not hold are judged one by one */
};

/* All of them: a sandbox has these or (degraded) none. */
#define PLAN_NAMESPACES                                                                                                \
        (CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP)

/* A path rule for the broker (policy/paths/paths.h). */
struct plan_path_rule {
        const char *pattern, *origin;
        uint8_t decides_read, grants, built_in, protected, late, own;
};

/* Files whose opening closes a ratchet (policy/judge/ratchet.h). */
struct plan_mark {
        const char *pattern; /* a glob over whole paths; without magic also what is below */
        uint8_t ratchet;     /* its number */
};

struct plan_group {
        uint64_t memory, processes, cpu_percent; /* 0: no limit */
};

struct plan {
        struct arena texts; /* owns every string below */
        const char *id;     /* of the run; part of the names that what it leaves gets */
        uint32_t flags;
        uint32_t namespaces; /* CLONE_NEW* */
        uint32_t uid, gid;
        const char *hostname;
        VEC(struct plan_op) ops;
        struct {
                uint32_t abi; /* 0: not used */
                uint64_t handled_fs, handled_net, scoped;
                VEC(struct plan_landlock_rule) rules;
                VEC(struct plan_landlock_port) ports;
        } landlock;
        struct str seccomp;                   /* struct sock_filter[] */
        struct str routes_v4, routes_v6, nft; /* netlink batches, empty where not used */
        VEC(struct plan_listener) listeners;
        VEC(struct plan_publish) publish;
        VEC(struct plan_limit) limits; /* of each process */
        struct plan_group group;       /* of all together; zero where there is no control group */
        VEC(struct plan_guard) guards; /* every protected path, sorted by path */
        VEC(const char *) openings;    /* writable again, below a guard */
        VEC(struct plan_copy_of) copies;
        VEC(struct plan_path_rule) path_rules; /* empty without PLAN_BROKER */
        uint8_t reads_open;
        VEC(struct plan_mark) marks; /* with PLAN_BROKER */
        VEC(const char *) asks;      /* places where an open that fails is asked about; with PLAN_BROKER */
        VEC(const char *) sockets;   /* Unix sockets of the host that a rule names: these may be connected to */
        VEC(const char *) notes;     /* for people: what could not be set up as asked, and why */
        uint8_t git_incomplete;      /* not all repositories in writable places were looked for; not sent to init */
        const char *cwd;
        VEC(const char *) argv, env;
};

struct plan *plan_new(void);
void plan_free(struct plan *plan);
void plan_freep(struct plan **plan);

/* Text that lives as long as the plan. NULL when out of memory. */
char *plan_copy(struct plan *plan, struct str s);
char *plan_format(struct plan *plan, const char *format, ...) __attribute__((format(printf, 2, 3)));

const char *plan_op_name(enum plan_op_kind kind);
const char *plan_listener_name(enum plan_listener_kind kind);
/* Of a listener that is a Unix socket; NULL for the others. */
const char *plan_listener_path(enum plan_listener_kind kind);
/* Programs that stand for those of the host lie at PLAN_BRIDGE_PLACE or PLAN_SHIM_PLACE. */
bool plan_has_programs(const struct plan *plan);
/* Whether the path is one of theirs, or the directory that they lie in. */
bool plan_is_program(const char *path);
#define PLAN_PROGRAMS_WHY "built in: programs that stand for those of the host"
/* What the broker refuses without a guard: a repository that it met, and a file that is shared with other places. */
#define PLAN_REPOSITORY_WHY "built in: git runs what it says, outside too"
#define PLAN_SHARED_WHY "built in: the file has another name, elsewhere"
