/* SPDX-License-Identifier: Apache-2.0 */
/* From the command's process to a broker that serves it: the filter, the broker's own process, what it gives up. */
#include "base/cleanup.h"
#include "base/fd.h"
#include "plan/plan.h"
#include "sandbox/linux/broker.h"
#include "sandbox/linux/broker_ops.h"
#include "sandbox/linux/step.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)
#endif

#if defined(__aarch64__)
#define THIS_ARCHITECTURE AUDIT_ARCH_AARCH64
#elif defined(__x86_64__)
#define THIS_ARCHITECTURE AUDIT_ARCH_X86_64
#else
#error "the broker's filter does not know this architecture"
#endif

enum { PREFIX_MAX = 64 };

/* Calls that the broker serves are handed over; everything else goes on to what follows. Jumps are relative, so a whole
 * filter can stand behind this. */
static unsigned short make_prefix(struct sock_filter *code) {
        unsigned short n = 0;
        unsigned char calls = (unsigned char)broker_ops_n;
        code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch));
        code[n++] =
            (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, THIS_ARCHITECTURE, 0, (unsigned char)(calls + 3));
        code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
        for (unsigned char i = 0; i < calls; i++)
                code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)broker_ops[i].nr,
                                                         (unsigned char)(calls - i), 0);
        code[n++] = (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, 1);
        code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF);
        return n;
}

/* The main filter, except that what it refuses with EPERM is handed over: the broker refuses it and says so. */
static unsigned short add_traced(struct sock_filter *code, struct str traced) {
        unsigned short n = (unsigned short)(traced.n / sizeof *code);
        memcpy(code, traced.p, traced.n);
        for (unsigned short i = 0; i < n; i++)
                if (code[i].code == (BPF_RET | BPF_K) && code[i].k == (SECCOMP_RET_ERRNO | EPERM))
                        code[i].k = SECCOMP_RET_USER_NOTIF;
        return n;
}

int broker_filter_load(struct str traced, struct err *e) {
        cleanup(free_ptr) struct sock_filter *code = calloc(PREFIX_MAX + traced.n / sizeof *code + 1, sizeof *code);
        if (!code)
                return err_set(e, ENOMEM, "broker: out of memory");
        unsigned short n = make_prefix(code);
        if (traced.n)
                n = (unsigned short)(n + add_traced(code + n, traced));
        else
                code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
        struct sock_fprog program = { n, code };
        /* Once a call is received only a fatal signal interrupts it: nothing is done twice because of a timer. */
        unsigned long flags = SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
        long fd = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
        if (fd < 0 && errno == EINVAL)
                fd = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
        return fd < 0 ? err_errno(e, "broker: filter") : (int)fd;
}

/* --- the broker's process
 * --------------------------------------------------------------------------------------------- */

enum { FD_CHANNEL = 3, FD_EVENTS };

/* Nothing of init's or the command's descriptors stays, and no signal but SIGKILL reaches it (init blocks them all). */
static int settle_descriptors(int channel, int events) {
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        int high_channel = fcntl(channel, F_DUPFD_CLOEXEC, 16), high_events = fcntl(events, F_DUPFD_CLOEXEC, 16);
        if (null < 0 || high_channel < 0 || high_events < 0)
                return -errno;
        for (int fd = 0; fd < 3; fd++)
                if (dup2(null, fd) < 0)
                        return -errno;
        if (dup3(high_channel, FD_CHANNEL, O_CLOEXEC) < 0 || dup3(high_events, FD_EVENTS, O_CLOEXEC) < 0)
                return -errno;
        return fd_close_from(FD_EVENTS + 1);
}

static struct path_rules *rules_of(const struct plan *p) {
        struct path_rules *rules = NULL;
        cleanup(free_ptr) struct path_rule *list = calloc(p->path_rules.n + 1, sizeof *list);
        for (size_t i = 0; list && i < p->path_rules.n; i++) {
                const struct plan_path_rule *from = &p->path_rules.p[i];
                list[i] = (struct path_rule){
                        .pattern = from->pattern,
                        .origin = from->origin,
                        .decides_read = from->decides_read,
                        .grants = from->grants,
                        .built_in = from->built_in,
                        .protected = from->protected,
                };
        }
        return list && path_rules_restore(list, p->path_rules.n, p->reads_open, &rules, NULL) == 0 ? rules : NULL;
}

_Noreturn static void broker_main(const struct plan *p, int channel, int events) {
        int notify = -1;
        size_t n = 0;
        char byte;
        prctl(PR_SET_NAME, "bailey-broker", 0, 0, 0);
        if (setpgid(0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 || settle_descriptors(channel, events) < 0)
                _exit(1);
        /* In a trace the process it came from has no filter yet: the broker takes the plain one. */
        if ((p->flags & PLAN_TRACE) && confine_syscalls(p, NULL) < 0)
                _exit(1);
        struct broker b = {
                .rules = rules_of(p),
                .events_fd = FD_EVENTS,
                .report_refused = p->flags & PLAN_TRACE,
                .report_all = p->flags & PLAN_OBSERVE,
        };
        if (!b.rules || fd_receive(FD_CHANNEL, &byte, 1, &notify, 1, &n) != 1 || n != 1)
                _exit(1);
        close(FD_CHANNEL);
        b.notify_fd = notify;
        _exit(broker_serve(&b) < 0);
}

/* Two forks, so that the command has no child it does not know of: init adopts the broker. */
static int fork_broker(const struct plan *p, int channel, int events, struct err *e) {
        pid_t between = fork();
        if (between < 0)
                return err_errno(e, "broker: fork");
        if (between == 0) {
                pid_t pid = fork();
                if (pid == 0)
                        broker_main(p, channel, events);
                _exit(pid < 0);
        }
        int status = 1;
        while (waitpid(between, &status, 0) < 0 && errno == EINTR)
                ;
        return status == 0 ? 0 : err_set(e, EAGAIN, "broker: cannot start it");
}

int broker_start(const struct plan *p, int events_fd, struct err *e) {
        int ends[2];
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
                return err_errno(e, "broker: socket");
        cleanup(close_fd) int ours = ends[0];
        cleanup(close_fd) int theirs = ends[1];
        int r = fork_broker(p, theirs, events_fd, e);
        if (r < 0)
                return r;
        cleanup(close_fd) int notify = broker_filter_load(p->flags & PLAN_TRACE ? p->seccomp : STR(""), e);
        if (notify < 0)
                return notify;
        r = fd_send(ours, STR("n"), &notify, 1);
        if (r < 0)
                return err_set(e, -r, "broker: hand over the filter: %s", strerror(-r));
        return confine_capabilities(false, e);
}
