/* SPDX-License-Identifier: Apache-2.0 */
/* Beside the sandbox's own filter, which knows no other architecture than this one and no io_uring. */
#include "guest/agent/agent_filter.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
enum { MODE_AT = offsetof(struct seccomp_data, args[1]) };
#else
enum { MODE_AT = offsetof(struct seccomp_data, args[1]) + 4 };
#endif
enum { FREES = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_COLLAPSE_RANGE };

int agent_refuse_reservations(void) {
        struct sock_filter code[] = {
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fallocate, 0, 3),
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, MODE_AT),
                BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, FREES, 1, 0),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EOPNOTSUPP),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        const struct sock_fprog program = { .len = sizeof code / sizeof *code, .filter = code };

        if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) != 0)
                return -errno;

        return 0;
}
