/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Freezing with signals. SIGSTOP cannot be caught, and kill(-1) from process 1 reaches every other process of the
 * namespace in one go, forks included: the kernel does not finish a fork while a signal waits for the parent. One race
 * is left: a process that still runs on another CPU may send SIGCONT to one that is already stopped. So SIGSTOP is
 * repeated until two checks in a row find every thread stopped, each after another SIGSTOP to all. A thread in
 * uninterruptible sleep counts as stopped: the pending signal takes effect before its next step.
 *
 * Signals also come from nobody's hand: a timer, a closed terminal or a descriptor may send SIGCONT at any time later.
 * So init looks again and again while they are frozen. Nothing that runs here needs such a timer: who goes on several
 * times wants out, also if it stops itself again before each look: the kernel counts how often a thread has run. A busy
 * machine is not to blame on anybody: a thread that has been told to stop, or that ends, and waits for a processor to
 * do so, has not gone on.
 *
 * They are resumed in descending order of PIDs, children mostly before their parents, so that a shell does not see its
 * jobs stopped.
 */
#include "sandbox/linux/freeze.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { STOP_MS = 2000, QUICK_ROUNDS = 8, PAUSE_NS = 500000 };
enum { KEEP_MS = 100, KEEP_LATER_MS = 500, KEEP_OFTEN_MS = 10000, WOKEN_MAX = 4 };

static void close_listing(DIR **d) {
        if (*d)
                closedir(*d);
}

static bool number_of(const char *name, pid_t *ret) {
        uint64_t n;
        if (!str_to_u64(str_of(name), INT_MAX, &n))
                return false;
        *ret = (pid_t)n;
        return true;
}

/* The start of a file of a process, in `text`. Empty when the process is gone. */
static struct str process_file(const char *path, char *text, size_t size) {
        cleanup(close_fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t n = -1;

        if (fd >= 0)
                n = read(fd, text, size);

        return str_n(text, n > 0 ? (size_t)n : 0);
}

/* The letter of the state: behind the name in brackets, which may hold anything. '?' when it is gone. *ret_ends: it is
 * on its way out, where no signal stops it. */
static char thread_state(pid_t process, pid_t thread, bool *ret_ends) {
        enum { FLAGS = 7, EXITING = 0x4 }; /* the field behind the brackets; PF_EXITING of the kernel */
        char path[64], text[512];
        uint64_t flags = 0;

        snprintf(path, sizeof path, "/proc/%d/task/%d/stat", (int)process, (int)thread);
        struct str stat = process_file(path, text, sizeof text);
        ptrdiff_t bracket = str_rfind(stat, ')');
        if (bracket < 0 || (size_t)bracket + 2 >= stat.n)
                return '?';

        struct str rest = str_n(stat.p + bracket + 2, stat.n - (size_t)bracket - 2), field = { 0 };
        for (int i = 0; i < FLAGS; i++)
                if (!str_split(&rest, ' ', &field))
                        break;

        *ret_ends = str_to_u64(field, UINT32_MAX, &flags) && flags & EXITING;
        return stat.p[bracket + 2];
}

static bool freeze_stands(char state) {
        return state == 'T' || state == 't' || state == 'Z' || state == 'X' || state == 'D' || state == '?';
}

/* What a look at the threads of a process found. */
struct standing {
        bool all;     /* every thread stands */
        bool stopped; /* one of them is stopped */
        bool ends;    /* those that do not stand are on their way out */
};

static struct standing process_standing(pid_t process) {
        struct standing found = { .all = true, .ends = true };
        char path[32];

        snprintf(path, sizeof path, "/proc/%d/task", (int)process);
        cleanup(close_listing) DIR *d = opendir(path);
        struct dirent *entry;

        while (d && (entry = readdir(d))) {
                bool ends = false;
                pid_t thread;

                if (!number_of(entry->d_name, &thread))
                        continue;

                char state = thread_state(process, thread, &ends);
                bool stands = freeze_stands(state);
                found.all = found.all && stands;
                found.ends = found.ends && (stands || ends);
                found.stopped = found.stopped || state == 'T';
        }

        return found;
}

/* Does SIGSTOP wait for the process as a whole? Whoever sends SIGCONT takes it away. */
static bool stop_waits(pid_t process) {
        static const char NAME[] = "ShdPnd:\t";
        char path[32], text[4096], number[32];

        snprintf(path, sizeof path, "/proc/%d/status", (int)process);
        struct str status = process_file(path, text, sizeof text), line;
        while (str_split(&status, '\n', &line))
                if (str_starts(line, str_of(NAME))) {
                        snprintf(number, sizeof number, "%.*s", (int)line.n - (int)strlen(NAME), line.p + strlen(NAME));
                        return strtoull(number, NULL, 16) >> (SIGSTOP - 1) & 1;
                }

        return false;
}

/* It was frozen, and somebody let it go on. While its threads stop one after the other, one of them is stopped already.
 */
static bool process_went_on(pid_t process) {
        struct standing found = process_standing(process);
        return !found.all && !found.stopped && !found.ends && !stop_waits(process);
}

typedef VEC(pid_t) pids;

/* All processes but this one. */
static int freeze_list(pids *ret) {
        cleanup(close_listing) DIR *d = opendir("/proc");
        struct dirent *entry;

        if (!d)
                return -errno;

        while ((entry = readdir(d))) {
                pid_t process;
                if (number_of(entry->d_name, &process) && process != getpid() && vec_push(ret, process) < 0)
                        return -ENOMEM;
        }

        return 0;
}

static bool all_stand(void) {
        pids all = { 0 };
        bool standing = freeze_list(&all) == 0;
        for (size_t i = 0; standing && i < all.n; i++)
                standing = process_standing(all.p[i]).all;
        vec_done(&all);
        return standing;
}

static bool somebody_went_on(void) {
        pids all = { 0 };
        bool went_on = freeze_list(&all) < 0;
        for (size_t i = 0; !went_on && i < all.n; i++)
                went_on = process_went_on(all.p[i]);
        vec_done(&all);
        return went_on;
}

/* How often a thread has run, and for how long: a number that grows whenever it runs. 0 where the kernel does not say.
 */
static uint64_t thread_ran(pid_t process, pid_t thread) {
        char path[64], text[128];
        uint64_t sum = 0;

        snprintf(path, sizeof path, "/proc/%d/task/%d/schedstat", (int)process, (int)thread);
        struct str rest = process_file(path, text, sizeof text), field;
        for (int i = 0; i < 3 && str_split(&rest, ' ', &field); i++) {
                uint64_t n = 0;
                size_t digits = 0;

                while (digits < field.n && ascii_is_digit(field.p[digits]))
                        digits++;
                if (i != 1 && str_to_u64(str_first(field, digits), UINT64_MAX, &n)) /* not how long it waited */
                        sum += n;
        }

        return sum;
}

static int by_thread(const void *a, const void *b) {
        pid_t x = ((const struct freeze_thread *)a)->thread, y = ((const struct freeze_thread *)b)->thread;
        return (x > y) - (x < y);
}

static int list_process_threads(pid_t process, freeze_threads *ret) {
        char path[32];
        struct dirent *entry;

        snprintf(path, sizeof path, "/proc/%d/task", (int)process);
        cleanup(close_listing) DIR *d = opendir(path);

        while (d && (entry = readdir(d))) {
                struct freeze_thread found = { 0 };
                bool ends;

                if (!number_of(entry->d_name, &found.thread))
                        continue;

                found.stopped = thread_state(process, found.thread, &ends) == 'T';
                found.ran = thread_ran(process, found.thread);
                if (vec_push(ret, found) < 0)
                        return -ENOMEM;
        }

        return 0;
}

/* Every thread of the sandbox, in order of their numbers. */
static int list_threads(freeze_threads *ret) {
        pids all = { 0 };
        int r = freeze_list(&all);

        ret->n = 0;
        for (size_t i = 0; r == 0 && i < all.n; i++)
                r = list_process_threads(all.p[i], ret);
        if (r == 0 && ret->n)
                qsort(ret->p, ret->n, sizeof *ret->p, by_thread);

        vec_done(&all);
        return r;
}

/* One that was stopped has run since or is gone, which it cannot be without running; or one that is stopped was not
 * there. */
static bool somebody_ran(const freeze_threads *before, const freeze_threads *now) {
        size_t k = 0;

        for (size_t i = 0; i < now->n; i++) {
                const struct freeze_thread *thread = &now->p[i];

                for (; k < before->n && before->p[k].thread < thread->thread; k++)
                        if (before->p[k].stopped)
                                return true;

                bool known = k < before->n && before->p[k].thread == thread->thread;
                if (known ? before->p[k].stopped && thread->ran != before->p[k].ran : thread->stopped)
                        return true;
                k += known;
        }

        for (; k < before->n; k++)
                if (before->p[k].stopped)
                        return true;

        return false;
}

static int remember_stopped(struct freeze *f) {
        pids all = { 0 };
        int r = freeze_list(&all);
        for (size_t i = 0; r == 0 && i < all.n; i++)
                if (process_standing(all.p[i]).stopped && vec_push(&f->stopped, all.p[i]) < 0)
                        r = -ENOMEM;

        vec_done(&all);
        return r;
}

/* 0, or -EAGAIN when somebody still runs. */
static int freeze_stop_all(void) {
        uint64_t end = clock_after_ms(STOP_MS);
        int clean = 0;

        for (int round = 0; clean < 2 && clock_ns() < end; round++) {
                kill(-1, SIGSTOP); /* fails only when there is nobody */
                clean = all_stand() ? clean + 1 : 0;
                const struct timespec moment = { .tv_nsec = PAUSE_NS };

                if (clean == 0 && round >= QUICK_ROUNDS)
                        nanosleep(&moment, NULL);
        }

        if (clean < 2)
                return -EAGAIN;

        return 0;
}

int freeze_begin(struct freeze *freeze) {
        if (freeze->on)
                return 0;

        freeze->on = true;
        freeze->woken = 0;
        int r = remember_stopped(freeze);
        if (r == 0)
                r = freeze_stop_all();
        if (r == 0)
                r = list_threads(&freeze->threads);
        if (r < 0)
                freeze_end(freeze);

        freeze->since_ns = clock_ns();
        freeze->due_ns = clock_after_ms(KEEP_MS);
        return r;
}

int freeze_due_ms(const struct freeze *freeze) {
        uint64_t now = clock_ns();

        if (!freeze->on)
                return -1;

        if (freeze->due_ns > now)
                return (int)((freeze->due_ns - now) / NS_PER_MS) + 1;

        return 0;
}

int freeze_keep(struct freeze *freeze) {
        uint64_t now = clock_ns();
        freeze_threads found = { 0 };

        if (!freeze->on || now < freeze->due_ns)
                return 0;

        int r = list_threads(&found);
        bool ran = r == 0 && somebody_ran(&freeze->threads, &found);
        vec_done(&found);

        if (r == 0 && (ran || !all_stand())) {
                freeze->woken += ran || somebody_went_on();
                r = freeze_stop_all();
        }
        if (r == 0)
                r = list_threads(&freeze->threads);

        freeze->due_ns = clock_after_ms(now - freeze->since_ns < KEEP_OFTEN_MS * NS_PER_MS ? KEEP_MS : KEEP_LATER_MS);
        if (r < 0 || freeze->woken > WOKEN_MAX)
                return -EBUSY;

        return 0;
}

static int freeze_falling(const void *a, const void *b) {
        pid_t x = *(const pid_t *)a, y = *(const pid_t *)b;
        return (x < y) - (x > y);
}

static bool was_stopped(const struct freeze *freeze, pid_t process) {
        for (size_t i = 0; i < freeze->stopped.n; i++)
                if (freeze->stopped.p[i] == process)
                        return true;
        return false;
}

void freeze_end(struct freeze *f) {
        pids all = { 0 };

        if (!f->on)
                return;

        if (freeze_list(&all) < 0)
                kill(-1, SIGCONT); /* better all than none */
        else if (all.n)
                qsort(all.p, all.n, sizeof *all.p, freeze_falling);

        for (size_t i = 0; i < all.n; i++)
                if (!was_stopped(f, all.p[i]))
                        kill(all.p[i], SIGCONT);

        vec_done(&all);
        vec_done(&f->stopped);
        vec_done(&f->threads);
        f->on = false;
}
