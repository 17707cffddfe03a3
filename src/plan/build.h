/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * From a request and facts about the host to the launch plan. Pure: every fact about the host is in struct plan_host,
 * filled by sandbox/linux/survey/survey.c or by a test.
 */
#include "plan/plan.h"
#include "policy/paths/paths.h"
#include "policy/policy.h"

enum plan_path_type {
        PLAN_PATH_MISSING,
        PLAN_PATH_DIR,
        PLAN_PATH_FILE, /* anything that is neither directory nor link */
        PLAN_PATH_LINK, /* a protected link itself: what it leads to is a path of its own */
};

/* One path that a rule speaks of, as the host has it. */
struct plan_path {
        const char *path; /* links resolved; for a missing one: its nearest existing parent resolved, then the rest */
        enum plan_path_type type;
        enum path_access access; /* what the most specific rule gives it */
        bool grants;             /* the rule gives this access (else it takes the rest away) */
        bool protected;          /* built-in protection inside a writable tree */
        bool astray;             /* a grant that a link may have led elsewhere: given as missing */
        const char *origin;      /* where the rule was written: a text of the rules, or one that is built in */
        const char *link;        /* of a link: its text */
};

/* A symbolic link in the root directory: /bin -> usr/bin. */
struct plan_link {
        const char *path, *target;
};

/* One entry of a directory that has a denied path below it; links are left out: what they lead to is judged there. */
struct plan_entry {
        const char *path;
        bool dir;
};

/* Something of the host's home that is laid into the sandbox's own. */
struct plan_laid {
        const char *path;         /* where it is inside */
        const char *source;       /* where it is on the host, links resolved */
        const char *upper, *work; /* a cache: what is written goes there; NULL: it is read-only */
        const char *between;      /* a cache: another layer above the source, NULL for none */
};

/* A file of the host that shows the content of another one. */
struct plan_cover {
        const char *path, *source;
};

/*
 * A configuration of git's of which the sandbox has a copy, writable: the host's file stays closed, and the changes are
 * judged and merged back when the sandbox is over (run/run_git.h).
 */
struct plan_host_copy {
        const char *path, *source;
        uint64_t copy_dev, copy_ino, real_dev, real_ino;
};

/* The home of the sandbox's own. */
struct plan_home {
        const char *path;  /* where it is inside; NULL: the host's home is there, as its rules say */
        const char *files; /* the directory of the host that is shown there */
        VEC(struct plan_laid) laid;
};

struct plan_host {
        uint32_t uid, gid;
        const char *cwd;         /* the current directory, NULL when it has no name */
        bool cwd_is_asked;       /* the command starts there and nowhere else (plan/start.h) */
        const char *resolv_conf; /* what /etc/resolv.conf leads to, NULL when there is none */
        const char *terminal;    /* device of the terminal on standard input, output or error, NULL for none */
        bool has_terminal;       /* there is a controlling terminal, on whichever descriptor */
        unsigned landlock_abi;   /* 0: none */
        bool namespaces;         /* user namespaces can be made */
        const char *overlay_upper, *overlay_work; /* with --overlay: where the workspace's changes go, NULL without */
        struct plan_home home;
        bool ipv6;
        uint64_t memory;               /* of the machine, in bytes; 0: not known */
        bool cgroup;                   /* the sandbox gets a control group of its own */
        bool scope;                    /* not that, but a systemd user manager can be asked for one */
        VEC(struct plan_path) paths;   /* in any order */
        const char *shim;              /* the program that stands for bridged tools; NULL: none is bridged */
        VEC(struct plan_cover) covers; /* certificates, over the system's own */
        VEC(char *) git_configs;       /* configurations of repositories that the sandbox may commit to */
        VEC(struct plan_host_copy) copies;
        VEC(struct plan_mark) marks;      /* files that close ratchets, links on the way resolved */
        VEC(const char *) asks;           /* places that people are asked about, with the same links resolved */
        VEC(const char *) sockets;        /* Unix sockets of the host that have a path */
        VEC(const char *) devices;        /* which of plan_devices exist */
        VEC(const char *) system_dirs;    /* which of plan_system_dirs exist */
        VEC(struct plan_link) root_links; /* needed only where reads are denied */
        /* Without namespaces: */
        VEC(struct plan_entry) entries; /* of every directory above a denied path */
        const char *tmpdir;             /* a directory of the run's own */
        uint16_t http_port, socks_port; /* of the gateway on the host's loopback; 0: no network */
        VEC(const char *) git_known;    /* repositories that were there, and what leads to them */
        VEC(char *) git_files;          /* configurations that were read: the path, a newline, the tree it counts for */
        VEC(char *) git_hooks;          /* directories of hooks that they name */
        VEC(char *) git_trees;          /* working trees that git's own configuration counts for */
        bool git_incomplete;            /* the search for repositories hit a bound */
        bool connects_unheld;           /* somebody outside performs connect(), and Landlock does not hold it */
};

/* Device nodes and parts of /sys that a sandbox gets, where the host has them. NULL-terminated. */
extern const char *const plan_devices[];
extern const char *const plan_system_dirs[];
/* Directories that a sandbox has for itself, empty. NULL-terminated. */
extern const char *const plan_private_dirs[];

struct plan_request {
        const struct policy *policy;
        const struct path_rules *rules;
        const struct plan_host *host;
        const char *id;                       /* of the sandbox */
        const char *const *argv, *const *env; /* NULL-terminated */
        bool observe;                         /* learn: report what is granted as well */
};

enum network_mode plan_network(const struct policy *policy);
/* Common to every network of this kind: the netlink batches, and the first listeners. They are fixed, so that init can
 * make them before the rest of the plan is known. */
int plan_fill_network(struct plan *plan, bool captured, bool ipv6);
/* Whether calls that reach files are judged one by one. */
bool plan_needs_broker(const struct policy *policy, const struct path_rules *rules);
/* Whether limits of all together are worth a talk with the user's systemd, where there is no other group. */
bool plan_asks_for_scope(const struct policy *policy);
/* The protected paths of a plan (plan/guards.c). -ENOMEM. */
int plan_guards(struct plan *plan, const struct plan_host *host, const char *workspace);
/* Whether changes are judged call by call (plan/changes.c). -ENOMEM. */
int plan_changes(struct plan *plan, const struct plan_request *request);
/* A rule that the broker judges by. -ENOMEM. */
int plan_add_path_rule(struct plan *plan, const struct path_rule *rule);
int plan_build(const struct plan_request *request, struct plan **ret, struct err *err);
/* The network part alone, for a namespace that somebody else made: routes, capture rules, listeners. */
int plan_capture(struct plan *plan, const struct policy *policy, bool ipv6);
