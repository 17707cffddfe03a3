/* SPDX-License-Identifier: Apache-2.0 */
#include "container/container_place.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/files/lock_file.h"
#include "base/files/tree.h"
#include "base/log.h"
#include "base/paths/path.h"
#include "conf/dirs.h"
#include "container/engine.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { GATE_MS = 60000, REMOVE_MS = 30000, STEP_MS = 50, ENGINE_MAX = 32 };

/*
 * The end of a container. The engine removes it by itself when it ends (--rm), at its own time.
 */
static int is_there(const char *engine, const char *name, bool *ret, struct err *err) {
        cleanup(buf_done) struct buf out = BUF(0);
        cleanup(text_list_done) text_list argv = { 0 };
        if (words_add(&argv, "%s", engine) < 0 || words_add(&argv, "ps") < 0 || words_add(&argv, "--all") < 0 ||
            words_add(&argv, "--quiet") < 0 || words_add(&argv, "--filter=name=^%s$", name) < 0)
                return err_memory(err);

        int r = engine_call(&argv, true, &out, err);
        if (r < 0)
                return r;
        if (r != 0)
                return err_set(err, EIO, "%s does not answer", engine);

        *ret = out.n > 0;
        return 0;
}

static int place_force(const char *engine, const char *name, struct err *err) {
        cleanup(buf_done) struct buf out = BUF(0);
        cleanup(text_list_done) text_list argv = { 0 };
        if (words_add(&argv, "%s", engine) < 0 || words_add(&argv, "rm") < 0 || words_add(&argv, "--force") < 0 ||
            words_add(&argv, "--volumes") < 0 || words_add(&argv, "%s", name) < 0)
                return err_memory(err);
        int r = engine_call(&argv, true, &out, err); /* "is being removed already" is as good */
        if (r < 0)
                return r;

        return 0;
}

int container_remove(const char *engine, const char *name, struct err *err) {
        uint64_t end = clock_ns() + REMOVE_MS * NS_PER_MS;

        for (;;) {
                bool there = false;
                int r = is_there(engine, name, &there, err);
                if (r < 0 || !there)
                        return r;

                r = place_force(engine, name, err);
                if (r < 0)
                        return r;
                if (clock_ns() >= end)
                        return err_set(err, EBUSY, "%s could not remove the container %s", engine, name);

                (void)poll(NULL, 0, STEP_MS);
        }
}

/*
 * What killed runs have left.
 */
static void sweep_one(int places, const char *place, const char *id, const char *engine) {
        cleanup(free_ptr) char *path = str_format("%s/%s/lock", place, id), *name = str_format("bailey-%s", id);
        cleanup(close_fd) int lock = path ? open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC) : -1;
        char of[ENGINE_MAX] = "";
        struct err e = { 0 };

        if (lock < 0 || !name || flock(lock, LOCK_EX | LOCK_NB) < 0 || pread(lock, of, sizeof of - 1, 0) <= 0 ||
            strcmp(of, engine) != 0)
                return; /* it lives, or another engine will see to it */

        if (container_remove(engine, name, &e) < 0)
                log_warning("a container of a run that was killed may be left: %s", err_text(&e));
        else
                (void)tree_remove(places, id);
}

static void place_sweep(const char *place, const char *engine) {
        DIR *d = opendir(place);
        struct dirent *entry;
        while (d && (entry = readdir(d)))
                if (entry->d_name[0] != '.')
                        sweep_one(dirfd(d), place, entry->d_name, engine);
        if (d)
                closedir(d);
}

/*
 * The files.
 */
static int name_files(struct container_place *container_place, const char *place, const char *id, struct err *err) {
        container_place->directory = path_join(place, id);
        container_place->name = str_format("bailey-%s", id);
        container_place->socket = str_format("%s/%s/go", place, id);
        container_place->resolv = str_format("%s/%s/resolv.conf", place, id);
        container_place->empty_directory = str_format("%s/%s/nothing", place, id);
        container_place->empty_file = str_format("%s/%s/empty", place, id);
        if (!container_place->directory || !container_place->name || !container_place->socket ||
            !container_place->resolv || !container_place->empty_directory || !container_place->empty_file)
                return err_memory(err);

        if (strpbrk(container_place->directory, ":,\"\n"))
                return err_set(err, EINVAL,
                               "%s cannot be mounted into a container: a colon, comma, quote or line break in its name",
                               container_place->directory);

        return 0;
}

static int place_hold(struct container_place *place, const char *engine, struct err *err) {
        cleanup(free_ptr) char *path = path_join(place->directory, "lock");
        int r = path ? path_make_private_dir(place->directory, err) : err_memory(err);
        if (r < 0)
                return r;

        r = lock_file_new(AT_FDCWD, path, str_of(engine), &place->lock);
        if (r < 0)
                return err_set(err, -r, "cannot lock %s: %s", path, strerror(-r));

        return 0;
}

/* A socket's address is short; the path goes through a descriptor of the directory. Any user that the image runs as may
 * connect; nobody else can reach the directory. */
static int listen_on(struct container_place *place, struct err *err) {
        cleanup(close_fd) int directory = open(place->directory, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        struct sockaddr_un at = { .sun_family = AF_UNIX };

        snprintf(at.sun_path, sizeof at.sun_path, "/proc/self/fd/%d/go", directory);
        place->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (directory < 0 || place->listener < 0 || bind(place->listener, (struct sockaddr *)&at, sizeof at) < 0 ||
            chmod(place->socket, 0666) < 0 || listen(place->listener, 1) < 0)
                return err_errno(err, "cannot make a socket in %s", place->directory);

        return 0;
}

int container_place_make(struct container_place *container_place, const char *engine, const char *id, struct err *err) {
        cleanup(free_ptr) char *state = NULL, *place = NULL;
        int r = dirs_state(&state);
        if (r < 0)
                return err_set(err, -r, "there is no place for the container's files: no home directory");

        place = path_join(state, "containers");
        if (!place)
                return err_memory(err);

        r = path_make_private_dir(place, err);
        if (r < 0)
                return r;

        /* A home may lie behind a link; what is mounted must not (container_seen.c). */
        cleanup(free_ptr) char *real = realpath(place, NULL);
        if (!real)
                return err_errno(err, "cannot find %s", place);

        place_sweep(real, engine);
        r = name_files(container_place, real, id, err);
        if (r >= 0)
                r = place_hold(container_place, engine, err);

        /* Read by any user that the image runs as; the directory itself is never seen inside. */
        if (r >= 0)
                r = path_replace_file(container_place->resolv, STR("nameserver 127.0.0.1\n"), 0644, err);
        if (r >= 0)
                r = path_replace_file(container_place->empty_file, STR(""), 0, err);
        if (r == 0 && mkdir(container_place->empty_directory, 0) < 0)
                r = err_errno(err, "cannot make %s", container_place->empty_directory);
        if (r < 0)
                return r;

        return listen_on(container_place, err);
}

void container_place_done(struct container_place *place) {
        if (place->lock >= 0 && tree_remove(AT_FDCWD, place->directory) < 0)
                log_error("cannot remove %s", place->directory);

        close_fd(&place->lock);
        close_fd(&place->listener);
        free(place->directory);
        free(place->name);
        free(place->socket);
        free(place->resolv);
        free(place->empty_directory);
        free(place->empty_file);
        *place = CONTAINER_PLACE;
}

int container_place_accept(struct container_place *place, int engine_pidfd, int *ret_gate, struct ucred *ret,
                           struct err *err) {
        uint64_t end = clock_ns() + GATE_MS * NS_PER_MS;
        cleanup(close_fd) int gate = -1;
        struct ucred peer;
        socklen_t n = sizeof peer;

        while (gate < 0) {
                struct pollfd fds[] = { { .fd = place->listener, .events = POLLIN },
                                        { .fd = engine_pidfd, .events = POLLIN } };
                uint64_t now = clock_ns();
                if (now >= end)
                        return err_set(err, ETIMEDOUT, "the container did not start within %d s", GATE_MS / 1000);
                if (poll(fds, 2, (int)((end - now) / NS_PER_MS) + 1) < 0 && errno != EINTR)
                        return err_errno(err, "cannot wait for the container");

                if (fds[0].revents)
                        gate = accept4(place->listener, NULL, NULL, SOCK_CLOEXEC);
                else
                        gate = -1;
                if (gate < 0 && fds[1].revents)
                        return err_set(err, ECHILD, "the container ended before its command was started");
        }

        close_fd(&place->listener);
        if (getsockopt(gate, SOL_SOCKET, SO_PEERCRED, &peer, &n) < 0)
                return err_errno(err, "cannot ask who is behind the container's socket");

        if (peer.pid <= 1)
                return err_set(err, ESRCH,
                               "the container's processes are not in sight: is the engine on this machine, "
                               "and in this process namespace?");

        *ret_gate = take_fd(&gate);
        *ret = peer;

        return 0;
}
