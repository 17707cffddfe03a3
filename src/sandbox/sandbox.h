/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A sandbox, from first to last. The one interface that a supervisor uses; nothing in it is an operating system's own.
 * linux/ implements it.
 *
 *     sandbox_prepare(&options, &s, e)             clones init into new namespaces; it waits for its plan
 *     sandbox_network(&s, captured, e)             as soon as the policy says what kind of network there is
 *     survey_host(policy, rules, hidden, &host, e) facts, once per launch
 *     plan_build(&request, &plan, e)
 *     sandbox_plan(&s, plan, e)                    init applies it
 *     sandbox_go(&s, lock, e)                      and then the command starts; not before everything out here is ready
 *     poll(s.control), sandbox_receive(&s, ...)    what happens to it
 *     sandbox_finish(&s)                           everything in it is dead when this returns
 *
 * Preparing comes first because the kernel needs its time for namespaces and networks: the policy is read and the plan
 * made meanwhile. Init is process 1 of the sandbox; it dies with the supervisor (its control socket
 * ends) and the sandbox dies with it.
 */
#include "plan/build.h"
#include "plan/plan.h"

#include <limits.h>
#include <signal.h>
#include <sys/types.h>

enum sandbox_event_kind {
        /* from init */
        SANDBOX_MOUNTED, /* its files are as the plan wants them; value: how many listeners, now in sandbox.listeners */
        SANDBOX_EVENTS,  /* what the broker reports comes from sandbox.events (ipc/event.h batches) */
        SANDBOX_STOPPED, /* the command stopped; value: the signal */
        SANDBOX_EXITED,  /* value: wait status; nothing of the sandbox lives any more but init */
        SANDBOX_FAILED,  /* a step of the launch failed; value: errno, text: which step on what */
        SANDBOX_NOT_RUN, /* the command itself could not be executed; value: errno */
        SANDBOX_FROZEN,  /* every process is frozen; value: 0, or the errno of why they are not. ECANCELED: they were,
                            went on again and again, and are killed */
        SANDBOX_ENDED,   /* init is gone, there will be no more */
        /* to init */
        SANDBOX_IDENTITY,   /* a guest: its identities are mapped */
        SANDBOX_NETWORK,    /* value: SANDBOX_NETWORK_* */
        SANDBOX_PLAN,       /* value: its length; descriptors: the published listeners. Its bytes follow, in pieces */
        SANDBOX_GO,         /* descriptor: the lock of its slot, or none */
        SANDBOX_SIGNAL,     /* value: for the command's process group */
        SANDBOX_FOREGROUND, /* lend the terminal to the command's process group */
        SANDBOX_FREEZE,     /* SANDBOX_FROZEN follows */
        SANDBOX_THAW,
        SANDBOX_EVENT_KINDS
};

enum { SANDBOX_NETWORK_CAPTURED = 1, SANDBOX_NETWORK_IPV6 = 2 };
enum { SANDBOX_PIECE = 32 << 10, SANDBOX_PIECE_LEAST = 1 << 10 }; /* of a plan, in one message */

#define SANDBOX_TEXT_MAX ERR_TEXT_MAX
/* With SANDBOX_MOUNTED, where it is so. */
#define SANDBOX_SILENT "lost: refused packets leave no record: this kernel has no nfnetlink_log"

struct sandbox_event {
        uint32_t kind;
        int32_t value;
        char text[SANDBOX_TEXT_MAX];
};

/* The identity of the command if it is not the caller's: a guest (src/guest). */
struct sandbox_ids {
        unsigned uid, gid;             /* of the guest, on this host */
        unsigned inner_uid, inner_gid; /* of the guest, inside; 0: the host user has no identity there at all */
};

struct sandbox_options {
        int terminal;                  /* the controlling terminal, -1 for none */
        bool foreground;               /* it is lent to the command's process group at once */
        const sigset_t *mask;          /* signal mask of the command */
        bool degraded;                 /* no namespaces */
        const struct sandbox_ids *ids; /* not NULL: the command is a guest, with an identity of its own */
};

struct sandbox {
        pid_t pid; /* of init, as the host counts; 0: there is none */
        int pidfd; /* -1 where the kernel has none */
        int control;
        int events; /* -1: no broker */
        int listeners[PLAN_LISTENERS_MAX];
        size_t n_listeners;
        struct sandbox_held *held; /* what the operating system's side keeps of it; NULL: nothing */
        struct err unlimited; /* why a scope that was asked for does not limit all of it together; code 0: it does */
};

/* -EPERM, -ENOSPC, -EINVAL ...: the kernel or its settings do not let this user make namespaces. */
int sandbox_prepare(const struct sandbox_options *options, struct sandbox *ret, struct err *err);
/* Not where it was prepared without namespaces. The plan must be for the same network. */
int sandbox_network(struct sandbox *sandbox, bool captured, struct err *err);
/* `published`: listening sockets of the host, one for each entry of plan->publish. */
int sandbox_plan(struct sandbox *sandbox, const struct plan *plan, const int *published, struct err *err);
/* `lock` (or -1) is a descriptor that init keeps open as long as it lives. */
int sandbox_go(struct sandbox *sandbox, int lock, struct err *err);
/* Takes one message; SANDBOX_ENDED when there will be no more. Blocks unless `control` is readable. */
int sandbox_receive(struct sandbox *sandbox, struct sandbox_event *ret, struct err *err);
int sandbox_signal(struct sandbox *sandbox, int signal_number);
int sandbox_foreground(struct sandbox *sandbox);
/* SANDBOX_FROZEN follows. With EOPNOTSUPP where there are no namespaces. */
int sandbox_freeze(struct sandbox *sandbox);
int sandbox_thaw(struct sandbox *sandbox);
/* How often the sandbox hit its limits: processes killed for lack of memory, and forks that failed. Only while the
 * group exists; 0 without one. */
struct sandbox_met {
        uint64_t memory, processes;
};
struct sandbox_met sandbox_limits_met(const struct sandbox *sandbox);
/* Ends whatever is left of it and waits until it is gone. Safe on a half-built one and twice. */
void sandbox_finish(struct sandbox *sandbox);

/* Without namespaces nothing ends with init by itself: kills and waits for every descendant of this process. */
void sandbox_end_descendants(void);

/* Whether the kernel has IPv6; found out once. */
bool survey_ipv6(void);
/* Facts about this host that the plan needs. Strings belong to *ret. `hidden` (or NULL) is a directory that the plan
 * will hide whole: its sockets, one for every sandbox that runs, are not looked at. */
int survey_host(const struct policy *policy, const struct path_rules *rules, const char *hidden, struct plan_host *ret,
                struct err *err);
/* More of them, for a plan without namespaces: what lies beside denied paths. */
int survey_neighbours(struct plan_host *host, struct err *err);
void survey_done(struct plan_host *host);

/* What became of something that the sandbox left at a guarded path. */
enum guard_done {
        GUARD_KEPT,     /* moved into the store, under the name `kept` */
        GUARD_BESIDE,   /* it has the name `kept` beside its place: no program obeys that */
        GUARD_FILTERED, /* a git configuration: its harmless part stays, all of it is in the store (or nowhere: NULL) */
        GUARD_LINK_BACK,  /* the link that was there is there again */
        GUARD_UNFINISHED, /* as GUARD_KEPT: by this file git would run something when somebody continues a rebase */
        GUARD_PRUNED,     /* no path: what was kept of the run with this id is gone, to make room */
};

struct guard_found {
        const char *path;
        enum guard_done done;
        const char *kept;
};

/* One sweep. The first part is given. */
struct guard_sweep {
        const struct plan_guard *guards;
        size_t n;
        const char *id; /* of the run */
        bool late;      /* after a run that was killed: what it left beside its place comes along */
        int (*open_store)(
            void *context); /* asked for when there is something to keep: a directory, or -1; NULL: none */
        void (*report)(const struct guard_found *found, void *context); /* or NULL */
        void *context;

        bool asked;
        int store;
        unsigned kept; /* how many are in the store */
};

/* Moves away files that appeared at the guarded paths and restores links; called when nothing of the sandbox lives any
 * more. A link is moved, never followed. 0, or a negative errno for the first path that stays; the others are swept. */
int guard_sweep(struct guard_sweep *sweep, struct err *err);
/* The name beside its place. */
void guard_beside_name(const char *name, const char *id, unsigned number, char ret[static NAME_MAX + 1]);
