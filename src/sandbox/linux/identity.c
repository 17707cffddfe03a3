/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/linux/identity.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/processes/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static int write_map(pid_t pid, const char *name, unsigned own, unsigned inner, unsigned outer, struct err *err) {
        char path[64], map[96];

        snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
        int n = inner ? snprintf(map, sizeof map, "0 %u 1\n%u %u 1\n", own, inner, outer)
                      : snprintf(map, sizeof map, "0 %u 1\n", outer);
        cleanup(close_fd) int fd = open(path, O_WRONLY | O_CLOEXEC);
        if (fd < 0 || write(fd, map, (size_t)n) != n)
                return err_errno(err, "cannot give the guest its identity (%s: 0 is %u, %u is %u)", name, own, inner,
                                 outer);

        return 0;
}

/* A set-id program of the package uidmap; /etc/subuid and /etc/subgid say which ids it gives to whom. */
static int ask_for_map(pid_t pid, const char *program, unsigned own, unsigned inner, unsigned outer, struct err *err) {
        static char *const environment[] = { (char *)"PATH=/usr/bin:/bin:/usr/sbin:/sbin", NULL };
        char path[PATH_MAX], words[5][16];
        pid_t child = -1;

        if (!spawn_find(program, environment, path))
                return err_set(err, ENOENT, "%s is missing; install the package uidmap", program);

        snprintf(words[0], sizeof words[0], "%d", (int)pid);
        snprintf(words[1], sizeof words[1], "%u", own);
        snprintf(words[2], sizeof words[2], "%u", inner);
        snprintf(words[3], sizeof words[3], "%u", outer);

        char *const argv[] = { (char *)program, words[0], (char *)"0", words[1], (char *)"1",
                               words[2],        words[3], (char *)"1", NULL };
        char *const alone[] = { (char *)program, words[0], (char *)"0", words[3], (char *)"1", NULL };
        const struct spawn spawn = { .program = path,
                                     .argv = inner ? argv : alone,
                                     .environment = environment,
                                     .input = SPAWN_NULL,
                                     .output = SPAWN_NULL,
                                     .errors = SPAWN_NULL };

        int r = spawn_start(&spawn, &child, err);
        if (r < 0)
                return r;

        int status = spawn_wait(child);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
                return err_set(err, EPERM,
                               "%s refused to give the guest its identity (id %u): /etc/sub%cid must have a line of "
                               "yours with this id, and nothing around this process may forbid set-id programs",
                               program, outer, strstr(program, "gid") ? 'g' : 'u');

        return 0;
}

int identity_map(pid_t pid, const struct sandbox_ids *ids, struct err *err) {
        int r;

        if (geteuid() == 0) {
                r = write_map(pid, "gid_map", getegid(), ids->inner_gid, ids->gid, err);
                if (r < 0)
                        return r;

                return write_map(pid, "uid_map", 0, ids->inner_uid, ids->uid, err);
        }

        r = ask_for_map(pid, "newgidmap", getegid(), ids->inner_gid, ids->gid, err);
        if (r < 0)
                return r;

        return ask_for_map(pid, "newuidmap", geteuid(), ids->inner_uid, ids->uid, err);
}

int identity_become(const struct sandbox_ids *ids, struct err *err) {
        if (setgroups(0, NULL) < 0)
                return err_errno(err, "identity: leave the groups of the host");
        if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0)
                return err_errno(err, "identity: capabilities");
        if (setresgid(ids->inner_gid, ids->inner_gid, ids->inner_gid) < 0)
                return err_errno(err, "identity: group %u", ids->inner_gid);
        if (setresuid(ids->inner_uid, ids->inner_uid, ids->inner_uid) < 0)
                return err_errno(err, "identity: user %u", ids->inner_uid);
        if (prctl(PR_SET_KEEPCAPS, 0, 0, 0, 0) < 0)
                return err_errno(err, "identity: capabilities");

        return 0;
}
