/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command's own filter: a few instructions on top of the sandbox's main filter, or in front of it within one filter
 * (jumps are relative, so a whole filter can stand behind others).
 *
 * With sockets watched, connect() and listen() are handed over. A datagram socket of the Unix family would reach a name
 * with every sendmsg(), whose address a filter cannot see: the broker makes them, unable to send, and sends what
 * sendto() gives a receiver (broker_datagrams.c). Stream and packet sockets ignore or refuse such a name. Without a
 * broker (the kernel has no pidfd_getfd, or an outer filter has the one listener that a process can have), only pairs
 * of Unix sockets exist.
 *
 * With files watched there is no Landlock inside: it would not apply to calls that the broker performs, and a program
 * that confines itself with it must not believe that it does.
 */
#include "base/cleanup.h"
#include "plan/plan.h"
#include "policy/match/glob.h"
#include "sandbox/linux/broker/broker.h"
#include "sandbox/linux/broker/broker_ops.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)
#endif
#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif

#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#endif

#if defined(__aarch64__)
#define THIS_ARCHITECTURE AUDIT_ARCH_AARCH64
#elif defined(__x86_64__)
#define THIS_ARCHITECTURE AUDIT_ARCH_X86_64
#else
#error "the broker's filter does not know this architecture"
#endif
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the lower half of an argument comes first");

enum { FRONT_MAX = 192 }; /* and a jump reaches 255 */
/* Where a jump leads: onwards, or to one of these, which are resolved when the front is complete. */
enum label {
        ONWARDS,
        TO_MAIN,
        TO_NOTIFY,
        TO_REFUSE,
        TO_ABSENT,
        TO_PAIR,
        TO_SOCKET,
        TO_NETWORK,
        TO_TYPE,
        TO_RECEIVER,
        TO_FLAGS_1,
        TO_FLAGS_2,
        TO_MODE,
        TO_WHOM,
        TO_REQUEST,
        LABELS
};

struct front {
        struct sock_filter code[FRONT_MAX];
        unsigned n;
        unsigned at[LABELS];
};

static void filter_emit(struct front *front, uint16_t code, uint32_t k, enum label yes, enum label no) {
        front->code[front->n++] = (struct sock_filter){ code, (uint8_t)yes, (uint8_t)no, k };
}

static void filter_load(struct front *front, size_t offset) {
        filter_emit(front, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset, ONWARDS, ONWARDS);
}

static void when_equal(struct front *front, uint32_t value, enum label yes, enum label no) {
        filter_emit(front, BPF_JMP | BPF_JEQ | BPF_K, value, yes, no);
}

static void filter_always(struct front *front, enum label where) {
        when_equal(front, 0, where, where);
}

static void filter_finish(struct front *front, enum label label, uint32_t action) {
        front->at[label] = front->n;
        filter_emit(front, BPF_RET | BPF_K, action, ONWARDS, ONWARDS);
}

static void filter_begin(struct front *front) {
        filter_load(front, offsetof(struct seccomp_data, arch));
        when_equal(front, THIS_ARCHITECTURE, ONWARDS, TO_MAIN);
        filter_load(front, offsetof(struct seccomp_data, nr));
}

static void filter_resolve(struct front *front) {
        front->at[TO_MAIN] = front->n;
        for (unsigned i = 0; i < front->n; i++) {
                struct sock_filter *c = &front->code[i];
                if (BPF_CLASS(c->code) != BPF_JMP)
                        continue;

                c->jt = c->jt ? (uint8_t)(front->at[c->jt] - i - 1) : 0;
                c->jf = c->jf ? (uint8_t)(front->at[c->jf] - i - 1) : 0;
        }
}

/* Those of which only a part is the broker's business. */
static bool is_looked_at(int nr) {
        return nr == SYS_socket || nr == SYS_socketpair || nr == SYS_sendto;
}

static void hand_over_sockets(struct front *front) {
        for (size_t i = 0; i < broker_socket_ops_n; i++)
                if (!is_looked_at(broker_socket_ops[i].nr))
                        when_equal(front, (uint32_t)broker_socket_ops[i].nr, TO_NOTIFY, ONWARDS);
}

/* Reading is the kernel's business alone where only changes are judged. */
static enum label op_label(const struct broker_op *op, const struct broker_filter *filter) {
        static const enum label where[] = {
                [OP_ALWAYS] = TO_NOTIFY,      [OP_IF_ARG1_WRITES] = TO_FLAGS_1, [OP_IF_ARG2_WRITES] = TO_FLAGS_2,
                [OP_IF_MODE_GIVES] = TO_MODE, [OP_IF_ARG0_NAMES] = TO_WHOM,     [OP_IF_ARG1_FLAGS] = TO_REQUEST,
                [OP_NEVER] = ONWARDS,
        };
        bool mode = op->when == OP_IF_MODE_GIVES || op->when == OP_NEVER;

        if (op->when == OP_IF_ARG0_NAMES || op->when == OP_IF_ARG1_FLAGS)
                return where[op->when];

        if (filter->files && (filter->modes || !mode))
                return TO_NOTIFY;

        return where[op->when];
}

static void hand_over_files(struct front *front, const struct broker_filter *filter, bool asked) {
        for (size_t i = 0; i < broker_ops_n; i++) {
                enum label where = op_label(&broker_ops[i], filter);

                if (where != ONWARDS && (asked || broker_ops[i].nr != SYS_bind)) /* it could not reach the socket */
                        when_equal(front, (uint32_t)broker_ops[i].nr, where, ONWARDS);
        }
}

static void look_at_argument(struct front *front, enum label label, size_t offset, uint32_t bits) {
        front->at[label] = front->n;
        filter_load(front, offset);
        filter_emit(front, BPF_JMP | BPF_JSET | BPF_K, bits, TO_NOTIFY, TO_MAIN);
}

/* Unpacking an archive sets a mode for each file, by its descriptor: modes without these bits are left to the kernel
 * too. */
static void look_at_arguments(struct front *front) {
        const uint32_t flags = OP_WRITE_FLAGS, mode = 07133;

        look_at_argument(front, TO_FLAGS_1, offsetof(struct seccomp_data, args[1]), flags);
        look_at_argument(front, TO_FLAGS_2, offsetof(struct seccomp_data, args[2]), flags);
        look_at_argument(front, TO_MODE, offsetof(struct seccomp_data, args[1]), mode);
        look_at_argument(front, TO_WHOM, offsetof(struct seccomp_data, args[0]), UINT32_MAX);
}

/* The kernel takes the request as 32 bits. */
static void look_at_request(struct front *front) {
        front->at[TO_REQUEST] = front->n;
        filter_load(front, offsetof(struct seccomp_data, args[1]));
        for (size_t i = 0; i < broker_flag_requests_n; i++)
                when_equal(front, broker_flag_requests[i], TO_NOTIFY, ONWARDS);
        filter_always(front, TO_MAIN);
}

/* The kernel takes both arguments as 32 bits, and only the lower four of the type. */
static void look_at_socket(struct front *front, enum label label, enum label of_unix, enum label datagram,
                           enum label other) {
        front->at[label] = front->n;
        filter_load(front, offsetof(struct seccomp_data, args[0]));
        when_equal(front, AF_UNIX, of_unix, other);
        filter_load(front, offsetof(struct seccomp_data, args[1]));
        filter_emit(front, BPF_ALU | BPF_AND | BPF_K, 0xf, ONWARDS, ONWARDS);
        when_equal(front, SOCK_DGRAM, datagram, ONWARDS);
        when_equal(front, SOCK_RAW, datagram, TO_MAIN); /* the family makes it a datagram socket */
}

/* Sockets that would send packets of any kind. The kernel refuses them all here; they are handed over to be recorded.
 * The family is in the accumulator. */
static void look_at_network(struct front *front) {
        front->at[TO_NETWORK] = front->n;
        when_equal(front, AF_PACKET, TO_NOTIFY, ONWARDS);
        when_equal(front, AF_INET, TO_TYPE, ONWARDS);
        when_equal(front, AF_INET6, TO_TYPE, TO_MAIN);

        front->at[TO_TYPE] = front->n;
        filter_load(front, offsetof(struct seccomp_data, args[1]));
        filter_emit(front, BPF_ALU | BPF_AND | BPF_K, 0xf, ONWARDS, ONWARDS);
        when_equal(front, SOCK_RAW, TO_NOTIFY, ONWARDS);
        when_equal(front, SOCK_PACKET, TO_NOTIFY, TO_MAIN); /* as Linux 2.0 had packet sockets; they still exist */
}

/* The pointer to an address; most who send have none. */
static void look_at_receiver(struct front *front) {
        front->at[TO_RECEIVER] = front->n;
        filter_load(front, offsetof(struct seccomp_data, args[4]));
        when_equal(front, 0, ONWARDS, TO_NOTIFY);
        filter_load(front, offsetof(struct seccomp_data, args[4]) + sizeof(uint32_t));
        when_equal(front, 0, TO_MAIN, TO_NOTIFY);
}

/* Datagram sockets are made by the broker: alone they can only receive, and pairs cannot leave their pair. */
static void judge_datagrams(struct front *front, bool asked) {
        if (!asked) {
                look_at_socket(front, TO_SOCKET, TO_REFUSE, TO_REFUSE, TO_MAIN);
                look_at_socket(front, TO_PAIR, ONWARDS, TO_REFUSE, TO_MAIN);
                return;
        }

        look_at_socket(front, TO_SOCKET, ONWARDS, TO_NOTIFY, TO_NETWORK);
        look_at_network(front);
        look_at_socket(front, TO_PAIR, ONWARDS, TO_NOTIFY, TO_MAIN);
        look_at_receiver(front);
}

static void make_front(struct front *front, const struct broker_filter *filter, bool asked) {
        filter_begin(front);
        if (filter->files || filter->writes)
                hand_over_files(front, filter, asked);
        if (filter->files || filter->writes)
                when_equal(front, SYS_landlock_create_ruleset, TO_ABSENT, ONWARDS);

        if (filter->sockets) {
                if (asked)
                        hand_over_sockets(front);
                if (asked && !filter->files && !filter->writes) /* else it is among the files */
                        when_equal(front, SYS_bind, TO_NOTIFY, ONWARDS);

                when_equal(front, SYS_pidfd_getfd, TO_REFUSE, ONWARDS); /* the main filter leaves it to the broker */
                when_equal(front, SYS_socket, TO_SOCKET, ONWARDS);
                when_equal(front, SYS_socketpair, TO_PAIR, ONWARDS);

                if (asked)
                        when_equal(front, SYS_sendto, TO_RECEIVER, ONWARDS);
        }

        filter_always(front, TO_MAIN);
        if (filter->sockets)
                judge_datagrams(front, asked);
        if (filter->files || filter->writes)
                look_at_arguments(front);
        if (filter->files || filter->writes)
                look_at_request(front);

        filter_finish(front, TO_REFUSE, filter->traced ? SECCOMP_RET_USER_NOTIF : SECCOMP_RET_ERRNO | EPERM);
        filter_finish(front, TO_NOTIFY, SECCOMP_RET_USER_NOTIF);
        filter_finish(front, TO_ABSENT, SECCOMP_RET_ERRNO | ENOSYS);
        filter_resolve(front);
}

/* In a trace, what the main filter refuses with EPERM is handed over: the broker refuses it and says so. */
static int put_together(const struct front *front, struct str main, bool traced, struct sock_fprog *ret) {
        size_t n_main = main.n / sizeof *front->code, n = front->n + (n_main ? n_main : 1);
        struct sock_filter *code = calloc(n, sizeof *code);
        if (!code || n > BPF_MAXINSNS) {
                free(code);
                if (code)
                        return -E2BIG;

                return -ENOMEM;
        }

        memcpy(code, front->code, front->n * sizeof *code);

        if (n_main)
                memcpy(code + front->n, main.p, main.n);
        else
                code[front->n] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);

        for (size_t i = front->n; i < n && traced; i++)
                if (code[i].code == (BPF_RET | BPF_K) && code[i].k == (SECCOMP_RET_ERRNO | EPERM))
                        code[i].k = SECCOMP_RET_USER_NOTIF;

        *ret = (struct sock_fprog){ (unsigned short)n, code };
        return 0;
}

static long load_listening(const struct sock_fprog *program) {
        /* Once a call is received only a fatal signal interrupts it: nothing is done twice because of a timer. */
        unsigned long flags = SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
        long fd = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, program);
        if (fd < 0 && errno == EINVAL)
                fd = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, program);
        return fd;
}

static bool can_reach_sockets(void) {
        return syscall(SYS_pidfd_getfd, -1, -1, 0) < 0 && errno == EBADF;
}

/* Descriptors can be handed back since Linux 5.9, as close_range() is there since. */
static bool can_pass_files(void) {
        return syscall(SYS_close_range, ~0U, 0U, 0U) < 0 && errno != ENOSYS;
}

static int load_once(const struct broker_filter *filter, bool asked, int *ret_fd) {
        struct front front = { .n = 0 };
        struct sock_fprog program = { 0 };
        bool listens = filter->files || filter->writes || filter->traced || (filter->sockets && asked);
        long fd;
        int r;

        make_front(&front, filter, asked);
        r = put_together(&front, filter->main, filter->traced, &program);
        if (r < 0)
                return r;

        if (listens)
                fd = load_listening(&program);
        else
                fd = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
        r = fd < 0 ? -errno : 0;
        free(program.filter);

        if (r == 0)
                *ret_fd = listens ? (int)fd : -1;

        return r;
}

int broker_filter_load(struct broker_filter *filter, int *ret_fd, struct err *err) {
        bool asked = can_reach_sockets();
        int r;

        filter->writes = filter->writes && (filter->files || can_pass_files());
        r = load_once(filter, asked, ret_fd);
        if (r == -EBUSY && (filter->files || filter->traced))
                return err_set(err, EBUSY,
                               "globs in denies and --trace-denials do not work inside another sandbox whose "
                               "calls are watched: the kernel has room for one watcher. Name the paths without "
                               "globs, and leave the trace to the outer one");

        if (r == -EBUSY) { /* then mounts alone keep what is protected, and there are no Unix sockets but pairs */
                filter->writes = false;
                r = load_once(filter, false, ret_fd);
        }

        if (r < 0)
                return err_set(err, -r, "broker: filter: %s", strerror(-r));

        return 0;
}

static bool is_kept(const struct plan *plan) {
        return (plan->flags & (PLAN_SOCKETS | PLAN_WRITES)) && !(plan->flags & PLAN_BROKER);
}

bool broker_filter_has_main(const struct plan *plan) {
        return (plan->flags & PLAN_TRACE) || is_kept(plan);
}

/* If a glob refuses only writing, a program can still get a descriptor and change the mode through it; if it refuses
 * reading, it cannot. Names that are protected by a pattern are treated as guards: see OP_IF_MODE_GIVES. */
static bool has_glob_against_writing(const struct plan *plan) {
        for (size_t i = 0; i < plan->path_rules.n; i++) {
                const struct plan_path_rule *rule = &plan->path_rules.p[i];

                if (!rule->grants && !rule->decides_read && !rule->protected && glob_has_magic(str_of(rule->pattern)))
                        return true;
        }
        return false;
}

struct broker_filter broker_filter_of(const struct plan *plan) {
        return (struct broker_filter){ .main = broker_filter_has_main(plan) ? plan->seccomp : STR(""),
                                       .traced = plan->flags & PLAN_TRACE,
                                       .files = plan->flags & PLAN_BROKER,
                                       .modes = (plan->flags & (PLAN_TRACE | PLAN_OBSERVE)) ||
                                                has_glob_against_writing(plan),
                                       .writes = plan->flags & PLAN_WRITES,
                                       .sockets = plan->flags & PLAN_SOCKETS };
}

uint32_t broker_capabilities(const struct plan *plan) {
        uint32_t capabilities = 0;
        if (plan->flags & (PLAN_BROKER | PLAN_SOCKETS | PLAN_WRITES))
                capabilities |= 1U << CAP_SYS_PTRACE;
        if (plan->flags & PLAN_SOCKETS)
                capabilities |= 1U << CAP_NET_ADMIN;

        return capabilities;
}
