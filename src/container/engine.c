/* SPDX-License-Identifier: Apache-2.0 */
#include "container/engine.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/processes/spawn.h"
#include "conf/json.h"
#include "store/progress.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ANSWER_MAX = 1 << 20 };

int words_add(text_list *list, const char *format, ...) {
        cleanup(buf_done) struct buf text = BUF(ANSWER_MAX);
        va_list args;

        va_start(args, format);
        int r = buf_vprintf(&text, format, args);
        va_end(args);

        char *word = r < 0 ? NULL : str_dup(buf_str(&text));
        if (!word || vec_reserve(list, 2) < 0) {
                free(word);
                return -ENOMEM;
        }

        list->p[list->n++] = word;
        list->p[list->n] = NULL;

        return 0;
}

static int engine_spawn(const text_list *argv, int input, int out, bool quiet, pid_t *ret_pid, struct err *err) {
        char path[PATH_MAX];

        if (!spawn_find(argv->p[0], environ, path))
                return err_set(err, ENOENT, "%s is not installed (not found in PATH), or cannot be run", argv->p[0]);

        const struct spawn spawn = { .program = path,
                                     .argv = argv->p,
                                     .environment = environ,
                                     .input = input,
                                     .output = out,
                                     .errors = quiet ? SPAWN_NULL : SPAWN_KEEP };
        return spawn_start(&spawn, ret_pid, err);
}

int engine_start(const text_list *argv, pid_t *ret_pid, struct err *err) {
        return engine_spawn(argv, SPAWN_KEEP, SPAWN_KEEP, false, ret_pid, err);
}

/* Reads to the end, or until it has taken too long; `ms` 0: for as long as it takes. */
static int engine_listen(int from, unsigned ms, struct buf *out) {
        uint64_t end = clock_ns() + ms * NS_PER_MS;
        char bytes[4096];

        if (ms == 0)
                return fd_read_all(from, out);

        for (;;) {
                uint64_t now = clock_ns();
                struct pollfd ready = { .fd = from, .events = POLLIN };
                int r = 0;

                if (now < end)
                        r = poll(&ready, 1, (int)((end - now) / NS_PER_MS + 1));

                if (r < 0 && errno == EINTR)
                        continue;
                if (r < 0)
                        return -errno;
                if (r <= 0)
                        return -ETIMEDOUT;

                ssize_t n = read(from, bytes, sizeof bytes);
                if (n < 0)
                        return -errno;
                if (n <= 0)
                        return 0;

                r = buf_append(out, str_n(bytes, (size_t)n));
                if (r < 0)
                        return r;
        }
}

static int engine_ask(const text_list *argv, bool quiet, unsigned ms, struct buf *out, struct err *err) {
        int ends[2];
        pid_t pid;

        if (pipe2(ends, O_CLOEXEC) < 0)
                return err_errno(err, "cannot make a pipe");

        cleanup(close_fd) int from = ends[0], to = ends[1];

        int r = engine_spawn(argv, SPAWN_NULL, to, quiet, &pid, err);
        if (r < 0)
                return r;

        close_fd(&to);
        *out = BUF(ANSWER_MAX);
        r = engine_listen(from, ms, out);
        close_fd(&from);

        if (r == -ETIMEDOUT)
                kill(pid, SIGKILL); /* our own child, not reaped: nobody else has its number */

        int status = spawn_wait(pid);
        if (r < 0)
                return err_set(err, -r, "cannot read what %s prints: %s", argv->p[0], strerror(-r));

        if (WIFEXITED(status))
                return WEXITSTATUS(status);

        return 128 + WTERMSIG(status);
}

int engine_call(const text_list *argv, bool quiet, struct buf *out, struct err *err) {
        return engine_ask(argv, quiet, 0, out, err);
}

int engine_call_within(const text_list *argv, unsigned ms, struct buf *out, struct err *err) {
        return engine_ask(argv, true, ms, out, err);
}

static int take_list(const struct node *node, text_list *ret) {
        int r = 0;
        for (const struct node *c = node && node->kind == NODE_LIST ? node->first : NULL; c && r == 0; c = c->next)
                r = c->kind == NODE_SCALAR ? words_add(ret, "%.*s", STR_FMT(c->text)) : 0;
        return r;
}

static int engine_inspect(const char *engine, const char *image, struct buf *out, struct err *err) {
        cleanup(text_list_done) text_list argv = { 0 };
        static const char *const words[] = { "image", "inspect", "--format",
                                             "[{{json .Config.Entrypoint}},{{json .Config.Cmd}}]" };
        int r = words_add(&argv, "%s", engine);
        for (size_t i = 0; r == 0 && i < sizeof words / sizeof *words; i++)
                r = words_add(&argv, "%s", words[i]);

        if (r >= 0)
                r = words_add(&argv, "%s", image);
        if (r < 0)
                return err_memory(err);

        return engine_call(&argv, true, out, err);
}

/* It may take minutes, and says nothing that could be passed on. */
static int pull_shown(const text_list *argv, const char *image, struct buf *out, struct err *err) {
        cleanup(free_ptr) char *what = str_format("pulling the image %s", image);
        struct progress progress = { .what = what, .unit = PROGRESS_TIME, .note = -1 };

        log_notice("pulling the image %s with %s", image, argv->p[0]);
        progress_open(&progress);
        int r = engine_call(argv, false, out, err);
        progress_close(&progress);

        return r;
}

int engine_image(const char *engine, const char *image, text_list *ret_entrypoint, text_list *ret_command,
                 struct err *err) {
        cleanup(buf_done) struct buf text = BUF(0), pulled = BUF(0);
        cleanup(text_list_done) text_list pull = { 0 };
        cleanup(document_freep) struct document *document = NULL;

        if (image[0] == '-')
                return err_set(err, EINVAL, "\"%s\" is not the name of an image", image);

        int r = engine_inspect(engine, image, &text, err);
        if (r > 0) {
                if (words_add(&pull, "%s", engine) < 0 || words_add(&pull, "pull") < 0 ||
                    words_add(&pull, "%s", image) < 0)
                        return err_memory(err);

                r = pull_shown(&pull, image, &pulled, err);
                buf_done(&text);
                text = BUF(0);
                if (r == 0)
                        r = engine_inspect(engine, image, &text, err);
        }

        if (r < 0)
                return r;
        if (r != 0)
                return err_set(err, ENOENT, "%s has no image %s", engine, image);

        r = json_read(buf_str(&text), str_of(engine), &document, err);
        const struct node *root = r == 0 ? document_root(document) : NULL;
        if (!root || root->kind != NODE_LIST || root->n != 2)
                return err_set(err, EBADMSG, "what %s says about %s is not understood", engine, image);
        if (take_list(root->first, ret_entrypoint) < 0 || take_list(root->last, ret_command) < 0)
                return err_memory(err);

        return 0;
}
