/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The broker: calls that reach files and Unix sockets by name, judged at access time, and denials made visible.
 *
 * Mounts and Landlock cannot say "no file called .env, wherever it appears". For policies with such globs, and for
 * --trace-denials and learn, a seccomp filter hands the calls that reach files by name to this process. It does not let
 * them continue: a path in the caller's memory can change between a look and the call. It finds the object itself,
 * judges the object it holds, performs the call on that object, and passes the result (for open, the descriptor) back.
 *
 * Mounts cannot hold a name either when the host renames another file over it: the kernel takes the mount away. Where
 * something in a writable place is protected or denied for writing, the filter hands over the calls that change files,
 * and only those (broker_judge.c, closed.h). Considered and left: watching and mounting again (leaves a moment),
 * judging by a table of directories (paths change when the host moves one; the canonical path costs 0.7 us and is
 * exact), letting the caller go on with its own call (its memory can change; with Landlock below, only terminals and
 * /proc go that way). The round trip costs 2.5 us, and a judge who does nothing but perform the call 6 (lab-notify); so
 * every system call counts here: eight for a file that is read, seven for one that is made in the directory of the call
 * before, and two more in another one. Paths are judged as they are spelled where no name in them is a link
 * (walk_spelled.c); what is known of a thread is kept (tracee.c).
 *
 * The same holds for connect() where the kernel cannot tell sockets of the host from the sandbox's own
 * (broker_sockets.c). That part is there in every sandbox below Landlock ABI 9, but its process only from the first
 * connect() or listen() on (keeper.h).
 *
 * What it trusts: the kernel. What it does not trust: anything the caller says, before and after.
 * What it may do: no more than the caller. It lives inside the sandbox, under the same mounts, Landlock domain and
 * user, so that acting on somebody's behalf grants nothing; its capabilities (tracee.h) serve only to look at the
 * caller and at its sockets. One call about files is served at a time, so no rename can pass between the judging and
 * the doing of another; only the opening of a FIFO, which may wait for its other end, goes on in a thread of its own,
 * on an object already judged. connect() may wait too: calls about sockets are served beside each other.
 *
 * States: it gets the notify descriptor of the command's filter and serves until every process under it is gone. If it
 * dies the waiting calls fail with ENOSYS: closed, never open.
 */
#include "base/err.h"
#include "policy/paths/paths.h"

#include <stdbool.h>
#include <stddef.h>

struct closed;
struct marks;
struct news;
struct repos;
struct notes;
struct settings;
struct shared;
struct talk;

struct broker {
        const struct path_rules *rules; /* only its globs are enforced here: the rest holds by mounts and Landlock */
        int notify_fd;
        int stir_fd;         /* an eventfd: a call came while the broker was at rest; -1: it rests once */
        int events_fd;       /* SOCK_SEQPACKET to the supervisor, ipc/event.h records; -1: no reports */
        bool report_refused; /* trace: every call that failed for lack of rights, not only those that a glob refused */
        bool report_all;     /* learn: what was granted too */
        const char *const *sockets; /* of the host, that a rule names: they may be connected to */
        size_t n_sockets;
        struct closed *closed;     /* what must not be changed, or NULL; with it: */
        struct repos *repos;       /* repositories that come */
        struct settings *settings; /* settings of agents that come, or change */
        struct notes *notes;       /* of both */
        struct fresh *fresh;       /* files that somebody else just made */
        struct shared *shared;     /* files with several names */
        struct marks *marks;       /* files that close ratchets (broker_marks.h); NULL: none */
        const struct plan *asks;   /* whose filesystem.ask names places (broker_asks.h); NULL: none */
        struct news *news;         /* what git's configuration comes to name (broker_named.h); NULL without `closed` */
        struct talk *talk;         /* with the supervisor; NULL where nobody above needs it */
        bool judges_modes; /* every mode that is set by a descriptor, not only those that give somebody a right */
        bool programs;     /* some stand for those of the host (plan_is_program()): nothing changes them */
        bool native;       /* Landlock keeps the caller's own calls from changing files: devices are its own to open */
};

/* Serves until the notify descriptor hangs up (0) or fails; `first` (optional) is a call that was received already. */
struct seccomp_notif;
int broker_serve(const struct broker *broker, const struct seccomp_notif *first);
/* How much room a call takes, by this kernel. */
size_t broker_call_size(void);

/* For the command's side, just before exec: loads a filter that hands over the calls which the broker serves, in front
 * of the sandbox's main filter. *ret_fd: the notify descriptor, or -1 if there cannot be one; then the filter refuses
 * those calls. */
struct broker_filter {
        struct str main; /* what follows, or empty: everything else is allowed */
        bool traced;     /* what the main filter refuses is handed over too */
        bool files;      /* every call that reaches files by name */
        bool modes;      /* and every one that changes a file's mode or owner by its descriptor */
        bool writes;     /* those that change something */
        bool sockets;
};
/* On return `writes` says whether changes are handed over: not where somebody else watches already. */
int broker_filter_load(struct broker_filter *filter, int *ret_fd, struct err *err);
struct plan;
struct broker_filter broker_filter_of(const struct plan *plan);
/* One filter costs less than two, and a trace needs it so: then the command's has the main one in it. Init, and
 * whatever else comes from it, loads the main one for itself, while the command runs already. */
bool broker_filter_has_main(const struct plan *plan);
/* Capabilities that its process starts with, as a mask. */
uint32_t broker_capabilities(const struct plan *plan);

/* In the process that becomes the command, under its Landlock domain: starts the broker of this plan and puts the
 * process under its filter. The broker shares that domain, or it could not look at processes in it. `record_fd` (or -1)
 * is the run's slot, where it notes what it sees made (made/notes.h). */
int broker_start(const struct plan *plan, int events_fd, int record_fd, struct err *err);
/* What the new process does; the descriptors are its own. `first` was received already, of a command that began at
 * `began_ns`. */
struct seccomp_notif;
_Noreturn void broker_main(const struct plan *plan, int notify_fd, int events_fd, int record_fd, uint64_t began_ns,
                           const struct seccomp_notif *first);

/* The glob that refuses this use of the path, or NULL. Paths without a name in the tree (pipes, sockets) are nobody's.
 */
const char *broker_denies(const struct path_rules *rules, const char *path, bool write);
/* Whether moving this directory takes something below it out of the reach of the glob. */
bool broker_move_escapes(const char *glob, const char *from, const char *to);
/* For a rename: as broker_denies for writing on the old path, and also when moving this directory would take what lies
 * below it out of a glob's reach. The new path is judged by broker_denies itself. */
const char *broker_denies_move(const struct path_rules *rules, const char *from, const char *to);
