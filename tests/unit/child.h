/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Tests that change or end a process run in a child. There, CHECK() is used instead of cmocka's assertions, which would
 * go on with the rest of the tests in the child.
 */
#include "cmocka_all.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(condition)                                                                                               \
        do {                                                                                                           \
                if (!(condition)) {                                                                                    \
                        dprintf(2, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition);                      \
                        _exit(1);                                                                                      \
                }                                                                                                      \
        } while (0)

/* The status as waitpid gives it. The child ends with 0 when the function returns. */
static inline int child_status(void (*function)(void *), void *argument) {
        pid_t pid = fork();
        if (pid == 0) {
                function(argument);
                _exit(0);
        }
        int status = -1;
        assert_true(pid > 0);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        return status;
}

#define assert_child_succeeds(function, argument)                                                                      \
        do {                                                                                                           \
                int in_child = child_status(function, argument);                                                       \
                assert_true(WIFEXITED(in_child));                                                                      \
                assert_int_equal(WEXITSTATUS(in_child), 0);                                                            \
        } while (0)

/* From here on the system call fails with the code, in this process: for forcing a fallback. 0 or -1. */
static inline int deny_syscall(long number, int code) {
        struct sock_filter program[] = {
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)number, 0, 1),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)code),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        struct sock_fprog filter = { sizeof program / sizeof program[0], program };
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
                return -1;
        return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0);
}
