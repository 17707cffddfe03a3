/* SPDX-License-Identifier: Apache-2.0 */
#include "container/engine_container.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "conf/json.h"
#include "container/engine.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { ANSWER_MS = 10000, INSPECT_TRIES = 3 };

bool engine_name_valid(const char *name) {
        size_t n = strlen(name);

        if (n == 0 || n >= ENGINE_NAME_MAX || (!ascii_is_alnum(name[0])))
                return false;

        for (size_t i = 1; i < n; i++)
                if (!ascii_is_alnum(name[i]) && !strchr("_.-", name[i]))
                        return false;

        return true;
}

/*
 * The engine's words.
 */
static const struct node *container_field(const struct node *map, const char *key) {
        return map && map->kind == NODE_MAP ? node_get(map, str_of(key)) : NULL;
}

static struct str container_scalar(const struct node *node) {
        return node && node->kind == NODE_SCALAR ? node->text : STR("");
}

static struct str container_text(const struct node *map, const char *key) {
        return container_scalar(container_field(map, key));
}

static bool container_has(const struct node *place, const struct addr *addr) {
        static const char *const keys[] = { "IPAddress", "GlobalIPv6Address" };

        for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
                struct addr own;

                if (addr_parse(container_text(place, keys[i]), &own) && addr_equal(&own, addr))
                        return true;
        }

        return false;
}

/* One line: [name, running, pid, started, networks]. True: it runs and has the address. */
static bool container_understand(const struct node *line, const char *network, const struct addr *addr,
                                 struct engine_container *ret) {
        const struct node *name = line->first, *running = name->next, *number = running->next, *start = number->next;
        uint64_t pid = 0;

        if (!container_has(container_field(start->next, network), addr) || !str_is(container_scalar(running), "true"))
                return false;

        if (!str_to_u64(container_scalar(number), INT32_MAX, &pid) || pid == 0)
                return false;

        struct str started = container_scalar(start);
        if (name->kind != NODE_SCALAR || started.n == 0 || started.n >= ENGINE_STARTED_MAX)
                return false;

        struct str shown = name->text;
        if (shown.n > 0 && shown.p[0] == '/') /* docker's */
                shown = str_skip(shown, 1);
        if (shown.n >= ENGINE_NAME_MAX)
                return false;

        *ret = (struct engine_container){ .pid = (pid_t)pid };
        memcpy(ret->started, started.p, started.n);
        memcpy(ret->name, shown.p, shown.n);

        return engine_name_valid(ret->name);
}

static int containers_of(const char *engine, const char *network, text_list *ret, struct err *err) {
        cleanup(text_list_done) text_list argv = { 0 };
        cleanup(buf_done) struct buf out = BUF(0);
        struct str line;
        int r;

        if (words_add(&argv, "%s", engine) < 0 || words_add(&argv, "ps") < 0 || words_add(&argv, "--no-trunc") < 0 ||
            words_add(&argv, "-q") < 0 || words_add(&argv, "--filter") < 0 ||
            words_add(&argv, "network=%s", network) < 0)
                return err_memory(err);

        r = engine_call_within(&argv, ANSWER_MS, &out, err);
        if (r < 0)
                return r;
        if (r != 0)
                return err_set(err, EIO, "%s ps failed (status %d)", engine, r);

        struct str rest = buf_str(&out);
        while (str_split(&rest, '\n', &line))
                if (line.n > 0 && words_add(ret, "%.*s", STR_FMT(line)) < 0)
                        return err_memory(err);

        return 0;
}

/* Nothing is asked for that a container writes itself: the state has what its health check printed, and a long one
 * would make the answer about all of them too long. Above 0: the engine's status. */
static int containers_inspect(const char *engine, const text_list *ids, struct buf *out, struct err *err) {
        cleanup(text_list_done) text_list argv = { 0 };

        if (words_add(&argv, "%s", engine) < 0 || words_add(&argv, "container") < 0 ||
            words_add(&argv, "inspect") < 0 || words_add(&argv, "--format") < 0 ||
            words_add(&argv, "[{{json .Name}},{{json .State.Running}},{{json .State.Pid}},{{json .State.StartedAt}},"
                             "{{json .NetworkSettings.Networks}}]") < 0)
                return err_memory(err);

        for (size_t i = 0; i < ids->n; i++)
                if (words_add(&argv, "%s", ids->p[i]) < 0)
                        return err_memory(err);

        return engine_call_within(&argv, ANSWER_MS, out, err);
}

/* A line for each. One that ends between the two calls fails the second for all of them: then there is a new list. */
static int containers_describe(const char *engine, const char *network, struct buf *out, struct err *err) {
        int r = 0;

        for (unsigned i = 0; i < INSPECT_TRIES; i++) {
                cleanup(text_list_done) text_list ids = { 0 };

                buf_done(out);
                *out = BUF(0);
                r = containers_of(engine, network, &ids, err);
                if (r < 0 || ids.n == 0)
                        return r;

                r = containers_inspect(engine, &ids, out, err);
                if (r <= 0)
                        return r;
        }

        return err_set(err, EIO, "%s container inspect failed (status %d)", engine, r);
}

int engine_container_at(const char *engine, const char *network, const struct addr *addr, struct engine_container *ret,
                        struct err *err) {
        cleanup(buf_done) struct buf out = BUF(0);
        struct engine_container one = { 0 };
        struct str line;
        unsigned found = 0;
        int r;

        r = containers_describe(engine, network, &out, err);
        if (r < 0)
                return r;

        struct str rest = buf_str(&out);
        while (str_split(&rest, '\n', &line)) {
                cleanup(document_freep) struct document *document = NULL;

                if (line.n == 0)
                        continue;

                r = json_read(line, str_of(engine), &document, err);
                if (r < 0)
                        return r;

                const struct node *root = document_root(document);
                if (!root || root->kind != NODE_LIST || root->n != 5)
                        return err_set(err, EBADMSG, "what %s says about its containers is not understood", engine);
                if (!container_understand(root, network, addr, &one))
                        continue;

                *ret = one;
                found++;
        }

        return found == 1;
}

bool engine_container_same(const struct engine_container *one, const struct engine_container *other) {
        return one->pid == other->pid && strcmp(one->name, other->name) == 0 &&
               strcmp(one->started, other->started) == 0;
}

int engine_container_hold(const char *engine, const char *network, const struct addr *addr,
                          struct engine_container *ret, int *ret_pidfd, struct err *err) {
        struct engine_container first = { 0 }, again = { 0 };
        int r;

        r = engine_container_at(engine, network, addr, &first, err);
        if (r <= 0)
                return r;

        cleanup(close_fd) int pidfd = (int)syscall(SYS_pidfd_open, first.pid, 0);
        if (pidfd < 0 && errno == ESRCH)
                return 0;
        if (pidfd < 0)
                return err_errno(err, "cannot watch process %d", (int)first.pid);

        r = engine_container_at(engine, network, addr, &again, err);
        if (r <= 0)
                return r;

        struct pollfd ended = { .fd = pidfd, .events = POLLIN };
        if (!engine_container_same(&first, &again) || poll(&ended, 1, 0) != 0)
                return 0;

        *ret = again;
        *ret_pidfd = take_fd(&pidfd);

        return 1;
}
