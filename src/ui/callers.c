/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Other `bailey ui` of the same user, over a Unix socket in the directory of the control sockets, which is closed to
 * others and to sandboxes. One line says what is wanted:
 *
 *     link                    a new link, and the end
 *     end                     the dashboard ends; so does this connection, when it has
 *     pair SECONDS [ADDRESS]  lines about a pairing, whose life is that of this connection
 */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/paths/path.h"
#include "ui/ui_internal.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define WORD_NS (5 * NS_PER_SECOND)
enum { CALL_LINE_MAX = 512, REPLY_SECONDS = 20 };
static const char socket_name[] = "dashboard";

/* What a pairing tells is one word and a text in a line. */
static const char *const pair_words[] = {
        [PAIR_LINK] = "link", [PAIR_PAIRED] = "paired", [PAIR_ENDED] = "ended", [PAIR_FAILED] = "error"
};

void caller_free(struct caller *caller) {
        close_fd(&caller->fd);
        buf_done(&caller->in);
        free(caller);
}

int callers_listen(struct ui *ui, struct err *err) {
        cleanup(free_ptr) char *directory = NULL, *path = NULL;
        cleanup(close_fd) int fd = -1, place = -1;
        struct sockaddr_un address;
        int r;

        r = control_make_directory(&directory, err);
        if (r < 0)
                return r;

        path = path_join(directory, socket_name);
        if (!path)
                return err_memory(err);

        r = control_address(directory, socket_name, &address, &place, err);
        if (r < 0)
                return r;

        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
                return err_errno(err, "cannot make a socket");

        unlinkat(place, socket_name, 0); /* its owner is gone: the lock on the record says so */

        if (bind(fd, (struct sockaddr *)&address, sizeof address) < 0 || fchmodat(place, socket_name, 0600, 0) < 0 ||
            listen(fd, 8) < 0)
                return err_errno(err, "cannot listen on %s", path);

        ui->caller_listener = take_fd(&fd);
        ui->caller_path = take_ptr(&path);

        return 0;
}

void callers_accept(struct ui *ui) {
        int fd = accept4(ui->caller_listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        struct caller *caller;

        if (fd < 0)
                return;

        caller = control_check_peer(fd, NULL) == 0 && ui->callers.n < UI_CALLERS_MAX ? calloc(1, sizeof *caller) : NULL;
        if (!caller || vec_push(&ui->callers, caller) < 0) {
                free(caller);
                close(fd);
                return;
        }

        *caller = (struct caller){ .fd = fd, .in = BUF(CALL_LINE_MAX), .deadline_ns = clock_ns() + WORD_NS };
}

/* Who does not read misses it. */
static void caller_say(const struct caller *caller, const char *text) {
        if (caller->fd >= 0)
                (void)send(caller->fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT);
}

void caller_tell(const struct caller *caller, enum pair_event event, const char *text) {
        cleanup(free_ptr) char *line = str_format("%s %s\n", pair_words[event], text);

        if (line)
                caller_say(caller, line);
}

static void caller_answer_link(struct ui *ui, struct caller *caller) {
        cleanup(free_ptr) char *link = NULL;

        if (links_make(ui, &link) == 0)
                caller_say(caller, link);
        ui_note(ui, "a new link was asked for");
        close_fd(&caller->fd);
}

static void caller_answer_pair(struct ui *ui, struct caller *caller, struct str rest) {
        cleanup(free_ptr) char *address = NULL;
        struct err err = { 0 };
        struct str seconds;
        struct ui_pair pair = { 0 };

        if (!str_split(&rest, ' ', &seconds) || !str_to_u64(seconds, UI_PAIR_SECONDS_MAX, &pair.seconds)) {
                close_fd(&caller->fd);
                return;
        }

        if (rest.n)
                pair.address = address = str_dup(rest);

        caller->deadline_ns = UINT64_MAX;
        if (pair_begin(ui, &pair, caller, &err) < 0) {
                caller_tell(caller, PAIR_FAILED, err_text(&err));
                close_fd(&caller->fd);
        }
}

void caller_step(struct ui *ui, struct caller *caller) {
        char bytes[CALL_LINE_MAX];
        ssize_t n = recv(caller->fd, bytes, sizeof bytes, MSG_DONTWAIT);
        struct str rest, line, word;

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return;

        if (n <= 0 || buf_append(&caller->in, str_n(bytes, (size_t)n)) < 0) {
                close_fd(&caller->fd); /* a pairing of it ends in the next turn */
                return;
        }

        rest = buf_str(&caller->in);
        if (str_find(rest, '\n') < 0 || caller->deadline_ns == UINT64_MAX)
                return;

        (void)str_split(&rest, '\n', &line);
        (void)str_split(&line, ' ', &word);

        if (str_is(word, "link")) {
                caller_answer_link(ui, caller);
        } else if (str_is(word, "pair")) {
                caller_answer_pair(ui, caller, line);
        } else if (str_is(word, "end")) {
                ui_note(ui, "it was asked to end");
                ui->ended = true; /* the connection ends with it: then it serves no more */
        } else {
                close_fd(&caller->fd);
        }
}

void callers_sweep(struct ui *ui) {
        for (size_t i = 0; i < ui->callers.n;) {
                struct caller *caller = ui->callers.p[i];
                if (caller->fd >= 0 && clock_ns() < caller->deadline_ns) {
                        i++;
                        continue;
                }

                pair_caller_left(ui, caller);
                ui->callers.p[i] = ui->callers.p[--ui->callers.n];
                caller_free(caller);
        }
}

/*
 * The other side.
 */
static int call_dashboard(const char *words, int *ret_fd, struct err *err) {
        cleanup(free_ptr) char *directory = NULL;
        cleanup(close_fd) int fd = -1, place = -1;
        struct sockaddr_un address;
        int r;

        r = control_directory(&directory, err);
        if (r < 0)
                return r;

        r = control_address(directory, socket_name, &address, &place, err);
        if (r < 0)
                return r;

        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0)
                return err_errno(err, "cannot make a socket");
        if (connect(fd, (struct sockaddr *)&address, sizeof address) < 0)
                return err_set(err, ENOENT, "no dashboard is running");
        if (send(fd, words, strlen(words), MSG_NOSIGNAL) < 0)
                return err_errno(err, "the dashboard that is running does not listen");

        *ret_fd = take_fd(&fd);
        return 0;
}

int ui_ask_link(char **ret, struct err *err) {
        cleanup(close_fd) int fd = -1;
        cleanup(buf_done) struct buf text = BUF(4096);
        const struct timeval limit = { .tv_sec = REPLY_SECONDS };
        int r;

        r = call_dashboard("link\n", &fd, err);
        if (r < 0)
                return r;

        (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit); /* without it the user waits */
        r = fd_read_all(fd, &text);
        if (r < 0 || !text.n)
                return err_set(err, r < 0 ? -r : EPERM, "the dashboard that is running gives no link");

        *ret = str_dup(buf_str(&text));
        if (!*ret)
                return err_memory(err);

        return 0;
}

int ui_ask_end(struct err *err) {
        cleanup(close_fd) int fd = -1;
        cleanup(buf_done) struct buf text = BUF(4096);
        const struct timeval limit = { .tv_sec = REPLY_SECONDS };
        int r;

        r = call_dashboard("end\n", &fd, err);
        if (r < 0)
                return r;

        (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
        r = fd_read_all(fd, &text);

        if (r == -EAGAIN)
                return err_set(err, ETIMEDOUT, "the dashboard that is running does not end");

        return 0;
}

/* 1: it goes on; 0: it has ended. */
static int take_pair_line(const struct ui_pair *pair, struct str line, struct err *err) {
        cleanup(free_ptr) char *text = NULL;
        struct str word;

        (void)str_split(&line, ' ', &word);
        text = str_dup(line);
        if (!text)
                return err_memory(err);
        if (str_is(word, pair_words[PAIR_FAILED]))
                return err_set(err, EPERM, "%s", text);

        for (int event = PAIR_LINK; event <= PAIR_ENDED; event++)
                if (str_is(word, pair_words[event]))
                        pair->on_event(pair->arg, (enum pair_event)event, text);

        if (str_is(word, pair_words[PAIR_ENDED]))
                return 0;

        return 1;
}

int ui_ask_pair(const struct ui_pair *pair, struct err *err) {
        cleanup(free_ptr) char *words =
            str_format("pair %ju %s\n", (uintmax_t)pair->seconds, text_or(pair->address, ""));
        cleanup(close_fd) int fd = -1;
        cleanup(buf_done) struct buf in = BUF(65536);
        int r;

        if (!words)
                return err_memory(err);

        r = call_dashboard(words, &fd, err);
        if (r < 0)
                return r;

        for (;;) {
                char bytes[CALL_LINE_MAX];
                ssize_t n = read(fd, bytes, sizeof bytes);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0 || buf_append(&in, str_n(bytes, (size_t)n)) < 0)
                        return err_set(err, EPIPE, "the dashboard has ended, and the pairing with it");

                ptrdiff_t end;

                while ((end = str_find(buf_str(&in), '\n')) >= 0) {
                        r = take_pair_line(pair, str_first(buf_str(&in), (size_t)end), err);
                        if (r <= 0)
                                return r;
                        buf_consume(&in, (size_t)end + 1);
                }
        }
}
