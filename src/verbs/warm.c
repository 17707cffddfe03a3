/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The caller's side: who wants a sandbox that waits.
 */
#include "verbs/warm.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/files/listing.h"
#include "base/processes/signals.h"
#include "base/processes/spawn.h"
#include "base/words.h"
#include "control/control_place.h"
#include "ipc/warm_messages.h"
#include "verbs/warm_internal.h"
#include "verbs/warm_key.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

/* One that is being prepared answers when it is ready, which takes milliseconds. */
enum { ANSWER_SECONDS = 2, TRIES_MAX = 4, STALE_SECONDS = 2 };

/*
 * Those that wait.
 */
void warm_name(const unsigned char *key, char ret[static WARM_NAME_MAX]) {
        char hex[DIGEST_HEX_MAX];

        digest_hex(key, hex);
        snprintf(ret, WARM_NAME_MAX, WARM_PREFIX "%.*s-", WARM_KEY_SHOWN, hex);
}

void warm_names_done(warm_names *names) {
        for (size_t i = 0; i < names->n; i++)
                free(names->p[i]);
        vec_done(names);
}

int warm_list(const char *directory, const char *prefix, warm_names *ret) {
        cleanup(listing_close) struct listing *listing = listing_open(AT_FDCWD, directory);
        const struct dirent64 *entry;

        if (!listing)
                return -errno;

        while ((entry = listing_next(listing))) {
                if (!str_starts(str_of(entry->d_name), str_of(prefix)))
                        continue;

                cleanup(free_ptr) char *name = str_dup(str_of(entry->d_name));
                if (!name || vec_push(ret, name) < 0)
                        return -ENOMEM;
                (void)take_ptr(&name);
        }

        return 0;
}

/* A killed one leaves its socket behind. One that was just bound is about to listen. */
static void remove_stale(int directory_fd, const char *name) {
        struct stat st;

        if (fstatat(directory_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISSOCK(st.st_mode) &&
            st.st_ctime + STALE_SECONDS < time(NULL))
                (void)unlinkat(directory_fd, name, 0);
}

static int warm_connect(const char *directory, const char *name) {
        cleanup(close_fd) int place = -1, fd = -1;
        struct sockaddr_un to;

        if (control_address(directory, name, &to, &place, NULL) < 0)
                return -ENOENT;

        fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        if (fd < 0)
                return -errno;

        if (connect(fd, (struct sockaddr *)&to, sizeof to) < 0) {
                int error = errno;

                if (error == ECONNREFUSED)
                        remove_stale(place, name);
                return -error;
        }

        return take_fd(&fd);
}

/*
 * Handing a command over.
 */
static int warm_say(int connection, enum warm_kind kind, int value) {
        const struct warm_message message = { .version = WARM_VERSION, .kind = kind, .status = value };

        return fd_send(connection, str_n(&message, offsetof(struct warm_message, text)), NULL, 0);
}

/* What a process that waits in another session cannot take over, and a mask that it does not have. */
static bool can_hand_over(const int *streams) {
        struct stat st;
        sigset_t mask, none;

        for (int i = 0; i < WARM_STREAMS; i++)
                if (isatty(streams[i]))
                        return false;
        if (fstat(streams[STDIN_FILENO], &st) < 0 || S_ISREG(st.st_mode))
                return false;

        sigemptyset(&none);
        return sigprocmask(SIG_BLOCK, NULL, &mask) == 0 && memcmp(&mask, &none, sizeof(uint64_t)) == 0;
}

/* 1: it is this one's. 0: nobody is there. */
static int offer_to(int connection, struct str offer, const int *fds, size_t n_fds) {
        const struct timeval patience = { .tv_sec = ANSWER_SECONDS };
        struct warm_message answer;
        size_t none = 0;

        if (setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) < 0 ||
            fd_send(connection, offer, fds, n_fds) < 0)
                return 0;

        ssize_t got = fd_receive(connection, &answer, sizeof answer, NULL, 0, &none);
        if (got < (ssize_t)offsetof(struct warm_message, text))
                return 0;
        if (answer.kind != WARM_TAKEN)
                return -EPERM;

        /* From here on it is nobody else's. */
        return warm_say(connection, WARM_GO, 0) < 0 ? 0 : 1;
}

static int offer_make(const struct exec_request *request, const unsigned char *key, struct buf *ret) {
        struct warm_offer head = { .version = WARM_VERSION };

        memcpy(head.key, key, sizeof head.key);
        int r = buf_append(ret, str_n(&head, sizeof head));

        return r < 0 ? r : words_pack(request->question.words, ret);
}

int warm_hand_over(const struct exec_request *request, const int streams[static 3], int link) {
        cleanup(buf_done) struct buf offer = BUF(sizeof(struct warm_offer) + WARM_WORDS_MAX);
        cleanup(warm_names_done) warm_names names = { 0 };
        cleanup(free_ptr) char *directory = NULL;
        unsigned char key[DIGEST_BYTES];
        char prefix[WARM_NAME_MAX];
        const int fds[] = { streams[0], streams[1], streams[2], link };

        if (!request->warm || !can_hand_over(streams) || warm_key(request, warm_program(request), key) < 0 ||
            offer_make(request, key, &offer) < 0 || control_directory(&directory, NULL) < 0)
                return -ENOENT;

        warm_name(key, prefix);
        if (warm_list(directory, prefix, &names) < 0)
                return -ENOENT;

        for (size_t i = 0; i < names.n && i < TRIES_MAX; i++) {
                cleanup(close_fd) int connection = warm_connect(directory, names.p[i]);
                if (connection < 0)
                        continue;

                int r = offer_to(connection, buf_str(&offer), fds, link < 0 ? WARM_STREAMS : WARM_FDS_MAX);
                if (r > 0)
                        return take_fd(&connection);
                if (r < 0)
                        break; /* the others would say the same */
        }

        return -ENOENT;
}

/*
 * Waiting for its end.
 */
static void hand_signal_on(int signals, int connection) {
        struct signalfd_siginfo info;

        if (read(signals, &info, sizeof info) == (ssize_t)sizeof info)
                (void)warm_say(connection, WARM_SIGNAL, (int)info.ssi_signo);
}

static void warm_serve(int connection, int signals, struct exec_outcome *ret, struct err *err) {
        struct warm_message end = { 0 };
        const struct timeval forever = { 0 };
        struct pollfd fds[] = { { .fd = connection, .events = POLLIN }, { .fd = signals, .events = POLLIN } };
        size_t none = 0;

        (void)setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &forever, sizeof forever);
        do {
                if (poll(fds, 2, -1) < 0)
                        continue;
                if (fds[1].revents)
                        hand_signal_on(signals, connection);
        } while (!fds[0].revents);

        ssize_t got = fd_receive(connection, &end, sizeof end, NULL, 0, &none);
        ret->stage = EXEC_RAN;
        ret->end = RUN_FAILED;

        if (got != (ssize_t)sizeof end || end.kind != WARM_END || end.end >= RUN_ENDS) {
                err_set(err, EIO, "the supervisor ended before the command did");
                return;
        }

        end.text[sizeof end.text - 1] = '\0';
        ret->end = (enum run_end)end.end;
        ret->status = end.status;
        if (ret->end != RUN_ENDED)
                err_set(err, EIO, "%s", end.text);
}

bool warm_exec(const struct exec_request *request, struct exec_outcome *ret, struct err *err) {
        static const int handed_on[] = { SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM };
        static const int streams[] = { STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO };
        sigset_t before;
        cleanup(close_fd) int connection = warm_hand_over(request, streams, -1);

        if (connection < 0)
                return false;

        cleanup(close_fd) int signals = signals_catch(handed_on, sizeof handed_on / sizeof *handed_on, &before);
        warm_serve(connection, signals, ret, err);

        return true;
}

/*
 * Leaving some behind.
 */
static void warm_dismiss(const char *directory) {
        cleanup(warm_names_done) warm_names names = { 0 };
        const struct warm_offer leave = { .version = WARM_VERSION, .leave = 1 };

        if (warm_list(directory, WARM_PREFIX, &names) < 0)
                return;

        for (size_t i = 0; i < names.n; i++) {
                cleanup(close_fd) int connection = warm_connect(directory, names.p[i]);
                if (connection >= 0)
                        (void)fd_send(connection, str_n(&leave, sizeof leave), NULL, 0);
        }
}

int warm_command_line(const struct exec_request *request, char ***ret) {
        char **options = NULL;
        VEC(char *) words = { 0 };
        int r = warm_options(request, false, &options);
        if (r < 0)
                return r;

        r = vec_push(&words, (char *)"bailey");
        if (r == 0)
                r = vec_push(&words, (char *)"spare");
        for (char **option = options; *option && r == 0; option++)
                r = vec_push(&words, *option);
        if (r == 0)
                r = vec_push(&words, (char *)"--");
        if (r == 0)
                r = vec_push(&words, (char *)(uintptr_t)warm_program(request));
        if (r == 0)
                r = vec_push(&words, NULL);

        free(options); /* its words are in the other list, and stay until this process ends */
        *ret = words.p;
        return r;
}

void warm_leave(const struct exec_request *request) {
        cleanup(free_ptr) char *directory = NULL;
        cleanup(free_ptr) char **words = NULL;
        cleanup(warm_names_done) warm_names names = { 0 };
        unsigned char key[DIGEST_BYTES];
        char prefix[WARM_NAME_MAX];

        if (control_directory(&directory, NULL) < 0)
                return;
        if (request->warm == 0) {
                warm_dismiss(directory);
                return;
        }

        if (warm_key(request, warm_program(request), key) < 0 || warm_command_line(request, &words) < 0)
                return;

        warm_name(key, prefix);
        (void)warm_list(directory, prefix, &names); /* without a directory there is none */

        for (size_t n = names.n; n < request->warm; n++) {
                const struct spawn spawn = { .program = "/proc/self/exe",
                                             .argv = words,
                                             .environment = environ,
                                             .input = SPAWN_NULL,
                                             .output = SPAWN_NULL,
                                             .errors = SPAWN_NULL,
                                             .flags = SPAWN_OWN_SESSION };
                pid_t pid;

                if (spawn_start(&spawn, &pid, NULL) < 0)
                        return;
        }
}
