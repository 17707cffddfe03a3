/* SPDX-License-Identifier: Apache-2.0 */
#include "run/run_held.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/paths/path.h"
#include "base/processes/poller.h"
#include "control/live.h"
#include "run/run_internal.h"
#include "sandbox/answer.h"
#include "sandbox/grant.h"
#include "sandbox/marks.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

enum { PATHS_MAX = 64, OPENS_MAX = 256, REFUSED_MAX = 1024, ASKED_AT_ONCE = 128 };
#define ASKED_EVERY_NS (NS_PER_SECOND / 2)

static void held_path_done(struct run_held_path *path) {
        free(path->what);
        close_fd(&path->object);
        vec_done(&path->opens);
}

static void texts_done(held_texts *list) {
        for (size_t i = 0; i < list->n; i++)
                free(list->p[i]);
        vec_done(list);
}

void run_held_done(struct run_held *held) {
        for (size_t i = 0; i < held->paths.n; i++)
                held_path_done(&held->paths.p[i]);
        texts_done(&held->refused);
        texts_done(&held->closed);
        vec_done(&held->paths);
}

/* --- answers to the broker --- */

/* The kernel bounds descriptors on their way, and the sandbox may have used that up: then it is a no. */
static void held_answer(const struct run *run, uint32_t number, enum held_answer value, int fd) {
        int sock = run->sandbox.events;

        if (sock < 0)
                return;
        if (fd >= 0 && broker_answer_send(sock, number, value, fd) == 0)
                return;

        broker_answer_last(sock, number, fd >= 0 ? HELD_NO : value);
}

static void held_answer_all(const struct run *run, const struct run_held_path *path, enum held_answer value) {
        for (size_t i = 0; i < path->opens.n; i++)
                held_answer(run, path->opens.p[i].number, value, -1);
}

static void held_remove(struct run_held *held, struct run_held_path *path) {
        held_path_done(path);
        *path = held->paths.p[--held->paths.n];
}

/* --- what was refused --- */

static bool texts_have(const held_texts *list, const char *what) {
        for (size_t i = 0; i < list->n; i++)
                if (strcmp(list->p[i], what) == 0)
                        return true;
        return false;
}

static void texts_keep(held_texts *list, const char *what) {
        cleanup(free_ptr) char *copy = str_dup(str_of(what));

        if (copy && !texts_have(list, what) && vec_push(list, copy) == 0)
                (void)take_ptr(&copy);
}

/* By a rule. It costs more to find than to remember; beyond the bound the oldest goes, and would be found again. */
static void closed_keep(struct run_held *held, const char *what) {
        if (held->closed.n >= REFUSED_MAX) {
                free(held->closed.p[0]);
                memmove(held->closed.p, held->closed.p + 1, (held->closed.n - 1) * sizeof *held->closed.p);
                held->closed.n--;
        }

        texts_keep(&held->closed, what);
}

/* A program can make as many questions as it opens files and gives up: some at once, then one now and then. */
static bool held_may_ask(struct run_held *held) {
        uint64_t now = clock_ns(), full = ASKED_AT_ONCE * ASKED_EVERY_NS;

        if (held->asked_ns + full < now)
                held->asked_ns = now - full;
        if (held->asked_ns + ASKED_EVERY_NS > now)
                return false;

        held->asked_ns += ASKED_EVERY_NS;
        return true;
}

/* --- questions --- */

static struct run_held_path *held_find(struct run_held *held, const char *what) {
        for (size_t i = 0; i < held->paths.n; i++)
                if (strcmp(held->paths.p[i].what, what) == 0)
                        return &held->paths.p[i];
        return NULL;
}

static void held_withdraw(struct run *run, uint32_t number) {
        for (size_t i = 0; i < run->held.paths.n; i++) {
                struct run_held_path *path = &run->held.paths.p[i];

                for (size_t k = 0; k < path->opens.n; k++) {
                        if (path->opens.p[k].number != number)
                                continue;

                        path->opens.p[k] = path->opens.p[--path->opens.n];
                        if (path->opens.n == 0) {
                                live_own_gone(run->session.control, path->id, false);
                                held_remove(&run->held, path);
                        }
                        return;
                }
        }
}

/* "read /PATH" for a path that is written in the one canonical way, at or below a place that people are asked about. */
static char *held_what(const struct run *run, const struct event *event) {
        cleanup(free_ptr) char *path = str_dup(event->path), *normal = NULL;

        if (!str_is(event->method, "read") && !str_is(event->method, "write"))
                return NULL;
        if (!path || path_normalise(str_of(path), NULL, &normal) < 0 || strcmp(path, normal) != 0 ||
            strlen(path) != event->path.n || !plan_asks_about(run->plan, path))
                return NULL;

        return str_format("%.*s %s", STR_FMT(event->method), path);
}

/* Whether a person is asked. What people refused is never forgotten: when that is too much, nothing more is asked. */
static bool held_judge(struct run *run, const char *what, struct grant *ret) {
        struct err why = { 0 };
        int r;

        if (!run->session.control || run->state != RUN_RUNNING || run->held.paths.n >= PATHS_MAX ||
            run->held.refused.n >= REFUSED_MAX || texts_have(&run->held.refused, what) ||
            texts_have(&run->held.closed, what) || run_grants_cover(run, what))
                return false;

        r = run_grant_judge(run, what, ret, &why);
        if (r == -EACCES)
                closed_keep(&run->held, what);

        return r == 0 && held_may_ask(&run->held);
}

/* A file system gives the number of a file that is gone to the next one. */
static int held_hold(const struct grant *grant) {
        cleanup(close_fd) int object = path_open_at(AT_FDCWD, grant->path, O_PATH | O_NOFOLLOW, 0, PATH_NO_SYMLINKS);
        struct stat st;

        if (object < 0)
                return object;
        if (fstat(object, &st) < 0)
                return -errno;

        return st.st_dev == grant->dev && st.st_ino == grant->ino ? take_fd(&object) : -ESTALE;
}

static int held_ask(struct run *run, char **what, const struct grant *grant, const struct event *event) {
        const char *reach =
            grant->directory ? "a directory: every yes opens all below it until the sandbox ends; " : "";
        cleanup(free_ptr) char *opener = str_format("%sopened by %.*s", reach, STR_FMT(event->detail));
        struct run_held_path fresh = { .id = ++run->bridge.last_question,
                                       .what = *what,
                                       .due_ns = clock_ns() + run->session.policy->network.ask_timeout_ns,
                                       .dev = grant->dev,
                                       .ino = grant->ino,
                                       .object = held_hold(grant) };
        const struct run_held_open open = { event->generation, (int)event->connection };
        struct err err = { 0 };

        if (fresh.object < 0)
                return fresh.object;

        if (!opener || vec_push(&fresh.opens, open) < 0 || vec_reserve(&run->held.paths, 1) < 0 ||
            live_ask_path(run->session.control, fresh.id, *what, str_of(opener), &err) < 0) {
                vec_done(&fresh.opens);
                close_fd(&fresh.object);
                return -ENOMEM;
        }

        *what = NULL;
        return vec_push(&run->held.paths, fresh);
}

void run_held_event(void *arg, const struct event *event) {
        struct run *run = arg;
        const struct run_held_open open = { event->generation, (int)event->connection };
        cleanup(free_ptr) char *what = NULL;
        struct run_held_path *path;
        struct grant grant = { 0 };

        if (str_is(event->method, "gone")) {
                held_withdraw(run, event->generation);
                return;
        }

        what = held_what(run, event);
        path = what ? held_find(&run->held, what) : NULL;
        if (path && path->opens.n < OPENS_MAX && vec_push(&path->opens, open) == 0)
                return;

        if (path || !what || !held_judge(run, what, &grant) || held_ask(run, &what, &grant, event) < 0)
                held_answer(run, event->generation, HELD_NO, -1);
}

/* --- a person's answer --- */

static void held_record(const struct run *run, const struct run_held_path *path) {
        if (run->session.audit)
                (void)audit_note(run->session.audit, "path opened once, for %zu that waited: %s", path->opens.n,
                                 path->what);
}

/* Each gets a file description of its own. The first failure is told; who it happened to gets a no. */
static int held_open_once(const struct run *run, const struct run_held_path *path, const struct grant *grant,
                          struct err *err) {
        int result = 0;

        held_record(run, path);

        for (size_t i = 0; i < path->opens.n; i++) {
                cleanup(close_fd) int fd = -1;
                struct err why = { 0 };
                int r = grant_open(grant, path->opens.p[i].flags, &fd, &why);

                if (r < 0 && result == 0) {
                        *err = why;
                        result = r;
                }

                held_answer(run, path->opens.p[i].number, r < 0 ? HELD_NO : HELD_OPENED, fd);
        }

        return result;
}

static int held_open(struct run *run, const struct run_held_path *path, enum control_scope *scope, struct err *err) {
        struct grant grant = { 0 };
        int r;

        if (run_grants_cover(run, path->what)) { /* somebody opened it meanwhile */
                held_answer_all(run, path, HELD_AGAIN);
                return 0;
        }

        r = run_grant_judge(run, path->what, &grant, err);
        if (r == 0 && (grant.dev != path->dev || grant.ino != path->ino))
                r = err_set(err, ESTALE, "%s was replaced by something else meanwhile", grant.path);

        if (r == 0 && *scope == SCOPE_ONCE && !grant.directory)
                return held_open_once(run, path, &grant, err);

        if (r == 0)
                r = run_grant_mount(run, path->what, &grant, err);
        if (r == 0 && *scope == SCOPE_ONCE)
                *scope = SCOPE_SANDBOX;

        held_answer_all(run, path, r < 0 ? HELD_NO : HELD_AGAIN);
        return r;
}

int run_held_decided(void *arg, uint64_t id, bool allow, enum control_scope *scope, struct err *err) {
        struct run *run = arg;
        struct run_held_path *path = NULL;
        int r = 0;

        for (size_t i = 0; i < run->held.paths.n && !path; i++)
                if (run->held.paths.p[i].id == id)
                        path = &run->held.paths.p[i];

        if (!path)
                return err_set(err, ENOENT, "nobody waits for this answer any more");

        if (allow) {
                r = held_open(run, path, scope, err);
        } else {
                texts_keep(&run->held.refused, path->what);
                held_answer_all(run, path, HELD_NO);
                if (*scope == SCOPE_ONCE)
                        *scope = SCOPE_SANDBOX;
        }

        held_remove(&run->held, path);
        return r;
}

/* --- in the loop --- */

void run_held_watch(void *arg, struct poller *poller) {
        const struct run_held *held = &((const struct run *)arg)->held;

        for (size_t i = 0; i < held->paths.n; i++)
                poller_until(poller, held->paths.p[i].due_ns);
}

int run_held_step(void *arg, struct poller *poller, struct err *err) {
        struct run *run = arg;
        const uint64_t now = clock_ns();

        (void)poller;
        (void)err;

        for (size_t i = 0; i < run->held.paths.n;) {
                struct run_held_path *path = &run->held.paths.p[i];

                if (path->due_ns > now) {
                        i++;
                        continue;
                }

                held_answer_all(run, path, HELD_NO);
                live_own_gone(run->session.control, path->id, true);
                held_remove(&run->held, path);
        }

        return 0;
}
