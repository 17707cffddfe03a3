/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The calls that the broker performs on behalf of others, one function each. Used by broker.c alone. */
#include "sandbox/linux/broker/broker.h"
#include "sandbox/linux/broker/closed.h"
#include "sandbox/linux/broker/path_walk.h"

#include <errno.h>
#include <fcntl.h>

/* The call is answered already (a descriptor was passed, or a thread will answer). */
#define OP_ANSWERED 1
/* The kernel shall perform the call as the caller asks. Never a judgement: the caller can change what it asks for. */
#define OP_CONTINUE 2
/* Nothing has been done: the call may have to wait, or is none of the simple ones. */
#define OP_WAITS 3
/* Nothing grants what is to be opened, and a person may be asked about it (broker_asks.h). */
#define OP_ASKS 4

/* As the error of a judgement: the object is not settled yet, restart the call in a while. */
#define JUDGE_LATER (-ERESTART)

struct held { /* one call being served */
        const struct broker *broker;
        struct tracee tracee;
        const __u64 *args;
        /* What the report says: filled as the call goes on. */
        char path[PATH_MAX];
        const char *glob; /* that refused it */
        bool stranger;    /* a socket of the host */
        const char *raw;  /* a kind of socket that nobody has here, past all rules for connections */
        bool writes;
        int flags;     /* with OP_ASKS: of the open, and */
        int error;     /* how it fails if the answer is no */
        bool answered; /* a person was asked: whatever comes now is the result */
        bool replaces; /* a rename: something had the new name before */
        bool moves;    /* a rename, at all */
        bool noted;    /* what it makes is a setting of an agent, and noted (made/settings.h) */
        bool begun;    /* a connection that the caller knows nothing of yet */
};

/* When a call is handed over where only changes are judged. With globs and traces all of them are, always. */
enum op_when {
        OP_ALWAYS,
        OP_IF_ARG1_WRITES, /* the flags of open() are its argument 1 */
        OP_IF_ARG2_WRITES,
        OP_IF_MODE_GIVES, /* argument 1 is a mode that gives others a right to write, a set-id bit, or a right to run */
        OP_IF_ARG0_NAMES, /* argument 0 is a process, and not 0, which is the caller */
        OP_IF_ARG1_FLAGS, /* an ioctl() that sets what file systems keep with a file: flags, verity */
        OP_NEVER,         /* only what the caller could do to its own files */
};

/* Of the flags of open(): without one of them nothing changes. O_TMPFILE comes with one. */
#define OP_WRITE_FLAGS (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC)

struct broker_op {
        int nr;
        const char *name;
        int (*run)(struct held *h); /* 0 (the call returns 0), OP_ANSWERED, OP_CONTINUE, or a negative errno */
        enum op_when when;
        int (*at_once)(struct held *h); /* of those that may wait, tried first; OP_WAITS: by run() */
        bool waits;                     /* run() may wait for others: never with the turn in hand */
        int (*crowded)(struct held *h); /* in its place where nobody is left who could wait; NULL: -EAGAIN */
};
extern const struct broker_op broker_ops[];
extern const size_t broker_ops_n;
/* Requests of ioctl() that change what a file system keeps with a file (broker_attributes.c). */
extern const uint32_t broker_flag_requests[];
extern const size_t broker_flag_requests_n;
/* Calls about sockets: they may wait, and are served beside each other (broker_sockets.c). */
extern const struct broker_op broker_socket_ops[];
extern const size_t broker_socket_ops_n;

/* Answers the held call with a copy of the descriptor; OP_ANSWERED or a negative errno. The broker's own is closed a
 * moment after the caller goes on, before the same thread serves another call: for files, all of which one thread
 * opens. */
int broker_pass_fd(const struct tracee *tracee, int fd, bool close_on_exec);
/* The same for sockets, for what is opened by a thread of its own, and for an existing file that can be written: the
 * broker closes it before the caller goes on, which wakes the caller twice. Otherwise a program that was just written
 * and closed would be busy when it is run, a lock would outlive its file, and a socket that was closed would still
 * take messages. */
int broker_give_fd(const struct tracee *tracee, int *fd, bool close_on_exec);
int broker_answer(const struct tracee *tracee, int result);

/* The object itself, whatever its name is by now: for calls that take only a path. */
struct fd_link {
        char path[32];
};
struct fd_link link_to(int fd);
/* Reads the path argument and finds what it names; remembers it for the report. */
int broker_find(struct held *held, int dirfd, __u64 address, enum walk_mode mode, struct place *ret);

/* What the report is about, where a call names two places. */
void broker_report_about(struct held *held, const struct place *place);

/* broker_judge.c: 0, or a negative errno with the rule that refused in h->glob. */
int judge_read(struct held *held, const struct place *place);
/* What is at this place loses its name, its content or an attribute; or a new name is made there. */
int judge_change(struct held *held, const struct place *place);
/* The content or an attribute of this object changes, whatever its name is. */
int judge_object(struct held *held, int object);
/* A new name, of a directory or of something else. */
int judge_new(struct held *held, const struct place *place, mode_t kind);
/* It was made: this object, or with -1 what is there. */
void judge_made(struct held *held, const struct place *place, int object);
/* A rename, beside judge_change() of both places; `from` has its object. */
int judge_move(struct held *held, const struct place *from, const struct place *to, bool directory);
void judge_moved(struct held *held, const struct place *from, const struct place *to, bool directory);

/* broker_parts.c: files that are made in a repository or that create one, and their records. */
int judge_repository(struct held *held, const struct place *place);
/* What is there is to change: the same, and the settings of agents. */
int judge_parts(struct held *held, const struct place *place);
/* What is about to be made or moved, after all else was judged: noted before it is done. */
int judge_founding(struct held *held, const struct place *place);
int judge_settings(struct held *held, const struct place *place, const struct closed_look *look, mode_t kind);
int judge_moving(struct held *held, const struct place *from, const struct place *to, bool exchanged);
void note_made(struct held *held, const struct place *place, bool replaced);
void note_moved(struct held *held, const struct place *from, const struct place *to, bool exchanged);
void note_not_moved(struct held *held);
/* The file at this place is to change and may have a name elsewhere: then it gets a copy of its own, which the place
 * has from then on, or the change is refused. */
enum sharing {
        SHARING_ENDS,
        SHARING_ENDS_EMPTY, /* its content is about to go anyway */
        SHARING_REFUSED,    /* it was reached by a descriptor, which would stay with the other file */
};
int judge_shared(struct held *held, struct place *place, enum sharing sharing);
/* A name was made for this object; a name is about to go. */
void note_linked(struct held *held, int object);
/* The name is about to be removed, and with it the record of who made the file. */
void note_gone(struct held *held, const struct place *place);
/* A rename is about to give somebody else this name. */
void note_replacing(struct held *held, const struct place *to);
void note_unlinked(struct held *held, const struct place *place);

/* broker_open.c, broker_attributes.c */
int op_open(struct held *held);
int op_openat(struct held *held);
int op_openat2(struct held *held);
int op_creat(struct held *held);
int op_truncate(struct held *held);
int op_chmod(struct held *held);
int op_fchmod(struct held *held);
int op_fchmodat(struct held *held);
int op_fchmodat2(struct held *held);
int op_chown(struct held *held);
int op_lchown(struct held *held);
int op_fchown(struct held *held);
int op_fchownat(struct held *held);
int op_setxattr(struct held *held);
int op_lsetxattr(struct held *held);
int op_fsetxattr(struct held *held);
int op_removexattr(struct held *held);
int op_lremovexattr(struct held *held);
int op_fremovexattr(struct held *held);
int op_ioctl(struct held *held);
int op_umask(struct held *held);
/* broker_copy.c: git's lock file beside a copy. NULL: the path is no such lock. */
const struct plan_copy_of *copy_of_lock(const struct held *held, const struct place *place);
int copy_lock_open(struct held *held, const struct plan_copy_of *copy, int flags);
/* It takes the place of the copy, or of nothing else. */
int copy_lock_rename(struct held *held, const struct plan_copy_of *copy, const struct place *to);
int copy_lock_remove(struct held *held, const struct plan_copy_of *copy);
/* Whether the path is such a lock, and somebody holds it. */
bool copy_is_locked(const struct held *held, const struct place *place);
/* broker_bind.c */
int op_bind(struct held *held);

/* broker_sockets.c: the file that this socket is bound to, if any, is the sandbox's own from now on. */
void broker_own_socket(int fd);
struct sockaddr_un;
/* Finds the socket that the address names and judges it. *ret leads to it as long as `p` holds it. */
int broker_judge_named(struct held *held, const struct sockaddr_un *to, size_t n, struct place *place,
                       struct sockaddr_un *ret);
/* broker_datagrams.c */
int op_socket(struct held *held);
int op_sendto(struct held *held);
bool datagram_is(int fd);
/* A datagram socket of the caller's, and where it is to send from now on. */
int datagram_connect(struct held *held, int inside, const struct sockaddr_un *to, size_t n);
