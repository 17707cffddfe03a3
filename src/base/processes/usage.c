/* SPDX-License-Identifier: Apache-2.0 */
#include "base/processes/usage.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/vec.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Fields of /proc/PID/stat behind the name, which may hold any character: the state is the first. */
enum { STAT_UTIME = 11, STAT_CSTIME = 14, THREADS_MAX = 256 };

static struct str usage_read(pid_t pid, const char *name, char *room, size_t room_n) {
        char path[64];

        snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
        cleanup(close_fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t n = -1;

        if (fd >= 0)
                n = read(fd, room, room_n);

        return str_n(room, n > 0 ? (size_t)n : 0);
}

static bool usage_add(pid_t pid, struct usage *usage) {
        char room[1024];
        struct str text = usage_read(pid, "stat", room, sizeof room), field;
        const char *name_end = text.n ? memrchr(text.p, ')', text.n) : NULL;
        uint64_t ticks = 0, number = 0;
        long per_second = sysconf(_SC_CLK_TCK), page = sysconf(_SC_PAGESIZE);

        if (!name_end || per_second <= 0 || page <= 0)
                return false;
        text = str_skip(text, (size_t)(name_end - text.p) + 1);
        for (unsigned i = 0; i <= STAT_CSTIME + 1 && str_split(&text, ' ', &field); i++)
                if (i > STAT_UTIME && str_to_u64(field, UINT64_MAX, &number))
                        ticks += number;
        usage->cpu_us += ticks * 1000000 / (uint64_t)per_second;

        text = usage_read(pid, "statm", room, sizeof room);
        (void)str_split(&text, ' ', &field);
        if (str_split(&text, ' ', &field) && str_to_u64(field, UINT64_MAX / 65536, &number))
                usage->memory += number * (uint64_t)page;
        usage->processes++;
        return true;
}

typedef VEC(pid_t) pid_list;

/* Numbers, each with a space behind it. One that reaches over the end of a piece goes on in the next. */
static void usage_add_children(int fd, pid_list *list, size_t max) {
        char room[4096];
        uint64_t number = 0;
        ssize_t n;

        while ((n = read(fd, room, sizeof room)) > 0)
                for (ssize_t i = 0; i < n; i++) {
                        if (room[i] >= '0' && room[i] <= '9' && number < INT32_MAX / 10) {
                                number = number * 10 + (uint64_t)(room[i] - '0');
                                continue;
                        }

                        if (number > 0 && list->n < max && vec_push(list, (pid_t)number) < 0)
                                return;
                        number = 0;
                }
}

/* A child belongs to the thread that made it. */
static void usage_children(pid_t pid, pid_list *list, size_t max) {
        char name[64];
        const struct dirent *entry;
        uint64_t thread;

        snprintf(name, sizeof name, "/proc/%d/task", (int)pid);
        DIR *threads = opendir(name);
        if (!threads)
                return;

        for (unsigned i = 0; i < THREADS_MAX && (entry = readdir(threads)); i++) {
                if (!str_to_u64(str_of(entry->d_name), INT32_MAX, &thread))
                        continue;

                snprintf(name, sizeof name, "%ju/children", (uintmax_t)thread);
                cleanup(close_fd) int fd = openat(dirfd(threads), name, O_RDONLY | O_CLOEXEC);
                if (fd >= 0)
                        usage_add_children(fd, list, max);
        }

        closedir(threads);
}

bool usage_of_tree(pid_t root, struct usage *ret) {
        pid_list list = { 0 };
        struct usage usage = { 0 };

        if (root <= 0 || vec_push(&list, root) < 0)
                return false;
        for (size_t i = 0; i < list.n; i++)
                if (usage_add(list.p[i], &usage))
                        usage_children(list.p[i], &list, USAGE_PROCESSES_MAX);
        vec_done(&list);
        *ret = usage;
        return usage.processes > 0;
}

int usage_each_process(pid_t root, size_t max, usage_on_process *on, void *arg) {
        pid_list list = { 0 };
        int r = vec_push(&list, root);

        for (size_t i = 0; r == 0 && i < list.n; i++) {
                usage_children(list.p[i], &list, max);
                r = on(arg, list.p[i]);
        }

        if (r == 0 && list.n >= max)
                r = -E2BIG;

        vec_done(&list);
        return r;
}
