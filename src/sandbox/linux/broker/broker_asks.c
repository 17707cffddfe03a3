/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/linux/broker/broker_asks.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "sandbox/linux/broker/broker_marks.h"
#include "sandbox/linux/broker/broker_ops.h"
#include "sandbox/linux/broker/broker_talk.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* More names than this beyond what exists are no path that a person would look at. */
enum { NAMES_MAX = 64 };

/* --- the path --- */

/* Appends the names of `rest` to a canonical path: no "..", see front_cut(). */
static int path_extend(char path[static PATH_MAX], const char *rest) {
        struct str text = str_of(rest), name;
        size_t n = strcmp(path, "/") == 0 ? 0 : strlen(path);

        while (str_split(&text, '/', &name)) {
                if (name.n == 0 || str_is(name, "."))
                        continue;
                if (n + 1 + name.n >= PATH_MAX)
                        return -ENAMETOOLONG;

                path[n] = '/';
                memcpy(path + n + 1, name.p, name.n);
                n += 1 + name.n;
                path[n] = '\0';
        }

        return 0;
}

/* How long the text is without its last name; -ELOOP where that one leads upwards, or there is none. */
static int front_cut(const char *text, size_t *n) {
        size_t end = *n;

        while (end > 0 && text[end - 1] == '/')
                end--;

        size_t start = end;
        while (start > 0 && text[start - 1] != '/')
                start--;

        if (end == 0 || (end - start == 2 && text[start] == '.' && text[start + 1] == '.'))
                return -ELOOP;

        *n = start;
        return 0;
}

/* 0: this much of the text leads to something; `whole`: or to a name in a directory that is there. */
static int front_find(struct held *held, int dirfd, const char *text, size_t n, bool whole, char ret[static PATH_MAX]) {
        cleanup(place_done) struct place place = { .object = -1, .dir = -1 };
        char front[PATH_MAX];
        int r;

        memcpy(front, text, n);
        front[n] = '\0';
        r = walk(&held->tracee, dirfd, n ? front : ".", WALK_FOLLOW, &place);
        if (r < 0)
                return r;
        if ((place.object < 0 && !whole) || place.path[0] != '/')
                return -ENOENT;

        memcpy(ret, place.path, strlen(place.path) + 1);
        return 0;
}

static int asks_spell(struct held *held, int dirfd, const char *text, char ret[static PATH_MAX]) {
        size_t whole = strlen(text), n = whole;

        if (n == 0 || n >= PATH_MAX)
                return -ENOENT;

        for (int i = 0; i < NAMES_MAX; i++) {
                int r = front_find(held, dirfd, text, n, n == whole, ret);

                if (r == 0)
                        return path_extend(ret, text + n);
                if (r == -ESRCH)
                        return r;

                r = front_cut(text, &n);
                if (r < 0)
                        return r;
        }

        return -ELOOP;
}

/* --- asking --- */

static bool is_refusal(int error) {
        return error == -ENOENT || error == -EACCES || error == -EROFS || error == -EPERM;
}

/* Something that exists, to be read or written. Nothing is made, and nothing that cannot be handed over is asked for.
 */
static bool opens_existing(int flags) {
        const int mode = flags & O_ACCMODE;

        return !(flags & O_PATH) && (flags & O_TMPFILE) != O_TMPFILE && mode != O_ACCMODE &&
               (flags & (O_CREAT | O_EXCL)) != (O_CREAT | O_EXCL) && !(mode == O_RDONLY && (flags & O_TRUNC));
}

int asks_consider(struct held *held, int dirfd, const char *text, int flags, int error) {
        bool writes = (flags & O_ACCMODE) != O_RDONLY;
        char path[PATH_MAX];
        int r;

        if (held->answered || held->glob || !is_refusal(error) || !opens_existing(flags))
                return error;

        r = asks_spell(held, dirfd, text, path);
        if (r == -ESRCH)
                return r;
        if (r < 0 || strlen(path) >= EVENT_TEXT_MAX || !plan_asks_about(held->broker->asks, path) ||
            broker_denies(held->broker->rules, path, writes))
                return error;

        memcpy(held->path, path, strlen(path) + 1);
        held->flags = text[strlen(text) - 1] == '/' ? flags | O_DIRECTORY : flags;
        held->error = error;
        held->writes = writes;
        tracee_find_name(&held->tracee);

        return OP_ASKS;
}

enum held_answer asks_await(struct held *held, int *ret_fd) {
        held->tracee.proc = held->tracee.kept = -1; /* nobody keeps them as long as a person may take */

        char who[64];
        int n = snprintf(who, sizeof who, "%s[%d]", held->tracee.name, held->tracee.tgid);
        struct event event = { .wall_us = clock_wall_us(),
                               .kind = EVENT_HELD,
                               .rule = RULE_NONE,
                               .connection = (uint32_t)held->flags,
                               .method = held->writes ? STR("write") : STR("read"),
                               .path = str_of(held->path),
                               .detail = str_n(who, (size_t)n) };
        uint32_t value = HELD_NO;

        if (talk_ask(held->broker->talk, &event) < 0 ||
            talk_await(held->broker->talk, event.generation, &held->tracee, &value, ret_fd) < 0)
                return HELD_NO;
        if (value == HELD_OPENED && *ret_fd < 0)
                return HELD_NO;

        if (value <= HELD_OPENED)
                return (enum held_answer)value;

        return HELD_NO;
}

/* The supervisor opens files, and leaves their content to who judges last. */
static int asks_finish(const struct held *held, int fd) {
        if (held->flags & O_DIRECTORY)
                return -ENOTDIR;
        if ((held->flags & O_TRUNC) && ftruncate(fd, 0) < 0)
                return -errno;
        return 0;
}

int asks_pass(struct held *held, int *fd) {
        int r;

        if (!tracee_waits(&held->tracee)) /* the yes came too late: nothing is emptied, and no ratchet closes */
                return -ESRCH;

        r = judge_marked(held, held->path, held->flags);
        if (r == 0 && held->writes)
                r = judge_object(held, *fd);
        if (r == 0)
                r = asks_finish(held, *fd);
        if (r < 0)
                return r;

        if (held->writes)
                return broker_give_fd(&held->tracee, fd, held->flags & O_CLOEXEC);
        return broker_pass_fd(&held->tracee, *fd, held->flags & O_CLOEXEC);
}
