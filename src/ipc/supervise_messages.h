/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Between libbailey and `bailey supervise`: the job that a program wants to run, and its result.
 *
 * The library launches nothing in the program that loaded it. It describes the job in one block of text, starts
 * `bailey supervise` and reads fixed-size messages. The block is made of fields, each "<length>:<letter><bytes>,"; no
 * byte of it is NUL, so that it travels in a sealed file or in one environment variable (bailey_manager_wrap, where the
 * caller starts the process and has no descriptor to give).
 *
 * Descriptors of the process: 0, 1 and 2 are the command's, SUPERVISE_FD_LINK is the socket (SOCK_SEQPACKET) and
 * SUPERVISE_FD_REQUEST the block. When the socket ends, so does the sandbox.
 */
#include "base/err.h"
#include "base/vec.h"
#include "ipc/run_end.h"
#include "policy/match/host.h"

enum { SUPERVISE_VERSION = 5, SUPERVISE_FD_LINK = 3, SUPERVISE_FD_REQUEST = 4 };
/* The kernel takes 128 KiB for one variable, its name included. */
enum { SUPERVISE_BYTES_MAX = 8 << 20, SUPERVISE_VARIABLE_MAX = 120 << 10 };
#define SUPERVISE_VARIABLE "BAILEY_SUPERVISE_REQUEST"
#define SUPERVISE_ASKS_HOSTS "hosts"
#define SUPERVISE_ASKS_ALL "all" /* of a tool that another run called: nobody is asked but by that run */

/* SUPERVISE_COMMAND: a command that was judged waits for its approval, or is only recorded because it was refused.
 * SUPERVISE_RECORD: it runs without a sandbox, and that is recorded. */
enum supervise_job { SUPERVISE_RUN, SUPERVISE_GATEWAY, SUPERVISE_COMMAND, SUPERVISE_RECORD, SUPERVISE_JOBS };

/* The verdict on the command. JUDGED_BY of a run: who approved it; of SUPERVISE_COMMAND: who refused it, or "" for a
 * question to a person. */
enum supervise_judged {
        JUDGED_DECISION,
        JUDGED_RULE,
        JUDGED_REASON,
        JUDGED_SEGMENT,
        JUDGED_COMMAND,
        JUDGED_BY,
        JUDGED_TEXTS
};

typedef VEC(char *) supervise_texts;

struct supervise_request {
        enum supervise_job job;
        char *policy;                 /* the text of a policy; NULL: none */
        char *base;                   /* absolute: what is relative in the settings is relative to it */
        char *cwd;                    /* where the command starts; NULL: base */
        char *hosts_file;             /* NULL: none */
        char *ca_bundle;              /* roots that the gateway trusts; NULL: the system's */
        char *asks;                   /* SUPERVISE_ASKS_*: questions that are for the other side; NULL: none */
        char *http, *socks;           /* of a gateway: "address:port", NULL: no such listener */
        supervise_texts config, call; /* "key=value", the keys of bailey-policy(5) */
        supervise_texts argv;
        supervise_texts judged; /* none, or JUDGED_TEXTS */
        supervise_texts places; /* pairs: the file of a credential, and the glob of what was closed for it */
};
void supervise_request_done(struct supervise_request *request);
int supervise_texts_add(supervise_texts *list, struct str text);
/* Heap text in *ret. */
int supervise_encode(const struct supervise_request *request, char **ret, struct err *err);
/* -EPROTO when the two sides are of different versions, -EBADMSG when it is no such block. */
int supervise_decode(struct str block, struct supervise_request *ret, struct err *err);

enum supervise_kind {
        /* to the library */
        SUPERVISE_READY = 1, /* the gateway accepts; id: the HTTP port, number: the SOCKS5 port (0: none) */
        /* id, host, number: the port; target: about what at it, as IPC_ASK has it, "" the host itself. Answered by
         * SUPERVISE_ANSWER */
        SUPERVISE_ASK,
        SUPERVISE_ASK_GONE,  /* id: nobody waits any more; number 1: the answer did not come in time */
        SUPERVISE_VIOLATION, /* host: the operation, target, rule, detail, process; number: how often */
        SUPERVISE_NOTICE,    /* detail: a protection that this machine cannot give */
        /* number: enum run_end, status, detail: why. With `signalled` the status is 128 and the signal's number. Of
         * SUPERVISE_COMMAND it is 0 approved, 1 refused, 2 nobody could be asked; detail: by whom. The last one */
        SUPERVISE_END,
        /* from the library */
        SUPERVISE_ANSWER, /* id; number: 1 allows */
        SUPERVISE_RELOAD, /* struct supervise_fds: a policy that counts from now on */
        SUPERVISE_STAND,  /* number 1: everything in the sandbox is to stand still, SUPERVISE_STOOD follows with the
                             same id; 0: it goes on */
        /* to the library */
        SUPERVISE_STOOD, /* id: of the SUPERVISE_STAND; status: 0, or why it does not stand (errno) */
        SUPERVISE_KINDS
};

struct supervise_message {
        uint32_t version, kind; /* version is set by supervise_send() */
        uint64_t id, number;
        int32_t status;
        uint32_t signalled;
        char host[HOST_TEXT_MAX + 3];
        char target[1024], rule[512], detail[ERR_TEXT_MAX], process[64]; /* all terminated, clipped where longer */
};

/* What travels with SUPERVISE_RELOAD, and with nothing else. */
struct supervise_fds {
        int block;  /* whose policy and config count from now on */
        int judged; /* a socket: one byte when nothing is judged by an older policy; closed without it: not taken */
};
#define SUPERVISE_NO_FDS ((struct supervise_fds){ -1, -1 })
void supervise_fds_done(struct supervise_fds *fds);

/* `fds` NULL: none. 0, -EAGAIN on a full non-blocking socket, -EPIPE when the other side is gone. */
int supervise_send(int sock, const struct supervise_message *message, const struct supervise_fds *fds);
/* 1: got one, 0: the other side closed, -EAGAIN: nothing there, -EBADMSG: malformed. `ret_fds` NULL: a message with
 * descriptors is malformed; otherwise they are -1 or the caller's. */
int supervise_receive(int sock, struct supervise_message *ret, struct supervise_fds *ret_fds);
