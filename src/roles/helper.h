/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Starting one of Bailey's other executables with exactly the descriptors it is to have, and finding it. */
#include "base/err.h"

#include <signal.h>
#include <stddef.h>
#include <sys/types.h>

struct helper {
        pid_t pid;
        int pidfd;
};

/* fds become its descriptors 3, 4, ...; they stay the caller's. */
int helper_spawn(const char *name, const char *program, const int *fds, size_t n, struct helper *ret, struct err *err);
/* SIGKILL, to this process and never to one that got its number later. */
void helper_kill(int pidfd, pid_t pid);
/* For people: how it ended, by what waitid() says. */
void helper_describe_end(const siginfo_t *info, char *ret, size_t size);
/* Where it is looked for, in this order; heap texts. */
enum { HELPER_PLACES = 3 };
int helper_places(const char *name, const char *folder, char *ret[static HELPER_PLACES], struct err *err);
/* The executable: beside this one, in its libexec, or in this folder of the build tree; never by PATH. The first result
 * is kept. The name must be a constant. Heap text. */
int helper_program(const char *name, const char *folder, char **ret, struct err *err);
