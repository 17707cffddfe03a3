/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs/prove.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/files/tree.h"
#include "base/paths/path.h"
#include "policy/home_kind.h"
#include "run/run.h"
#include "verbs/policy_options.h"
#include "verbs/prove_acts.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RESULTS_MAX = 65536, SERVER_SOCKETS = 3 };

void proofs_done(struct proofs *proofs) {
        for (size_t i = 0; i < proofs->list.n; i++) {
                free(proofs->list.p[i].name);
                free(proofs->list.p[i].detail);
        }
        vec_done(&proofs->list);
}

/* --- outside ---------------------------------------------------------------------------------------------------------
 */

struct stage {
        char place[64]; /* of all that is made: removed at the end */
        char work[80], hosts[80], results[96];
        int sockets[SERVER_SOCKETS]; /* allowed, refused, Unix */
        uint16_t ports[2];
        pid_t server;
};

static int listen_tcp(int *ret_fd, uint16_t *ret_port) {
        struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
        socklen_t n = sizeof at;

        *ret_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (*ret_fd < 0 || bind(*ret_fd, (struct sockaddr *)&at, n) < 0 || listen(*ret_fd, 8) < 0 ||
            getsockname(*ret_fd, (struct sockaddr *)&at, &n) < 0)
                return -errno;

        *ret_port = ntohs(at.sin_port);
        return 0;
}

static int listen_unix(const char *place, int *ret_fd) {
        struct sockaddr_un at = { .sun_family = AF_UNIX };
        snprintf(at.sun_path, sizeof at.sun_path, "%s/socket", place);
        *ret_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (*ret_fd >= 0 && bind(*ret_fd, (struct sockaddr *)&at, sizeof at) == 0 && listen(*ret_fd, 8) == 0)
                return 0;

        return -errno;
}

/* Sends the greeting to every client, on every socket alike, until it is ended. */
_Noreturn static void prove_serve(const struct stage *stage) {
        struct pollfd polls[SERVER_SOCKETS];
        const char greeting = PROVE_GREETING;

        prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
        prctl(PR_SET_NAME, PROVE_SERVER, 0, 0, 0);
        for (int i = 0; i < SERVER_SOCKETS; i++)
                polls[i] = (struct pollfd){ .fd = stage->sockets[i], .events = POLLIN };

        for (;;) {
                if (poll(polls, SERVER_SOCKETS, -1) < 0)
                        continue;
                for (int i = 0; i < SERVER_SOCKETS; i++) {
                        cleanup(close_fd) int fd =
                            polls[i].revents ? accept4(polls[i].fd, NULL, NULL, SOCK_CLOEXEC) : -1;
                        if (fd >= 0)
                                (void)send(fd, &greeting, 1, MSG_NOSIGNAL);
                }
        }
}

static int write_file(const char *directory, const char *name, const char *text, struct err *err) {
        cleanup(free_ptr) char *path = path_join(directory, name);
        if (!path)
                return err_memory(err);

        return path_replace_file(path, str_of(text), 0600, err);
}

/* Where the sandbox can see it: its own /tmp hides the host's. */
static int set_stage(struct stage *stage, struct err *err) {
        *stage = (struct stage){ .sockets = { -1, -1, -1 } };
        snprintf(stage->place, sizeof stage->place, "/var/tmp/bailey-prove-XXXXXX");

        if (!mkdtemp(stage->place)) {
                stage->place[0] = '\0';
                return err_errno(err, "cannot make a directory in /var/tmp for the proof");
        }

        snprintf(stage->work, sizeof stage->work, "%s/work", stage->place);
        snprintf(stage->hosts, sizeof stage->hosts, "%s/hosts", stage->place);
        snprintf(stage->results, sizeof stage->results, "%s/results", stage->work);

        cleanup(free_ptr) char *secret = path_join(stage->place, "secret");
        if (!secret || mkdir(stage->work, 0700) < 0 || mkdir(secret, 0700) < 0)
                return err_errno(err, "cannot make directories for the proof");

        int r = write_file(secret, "key", "secret\n", err);
        if (r == 0)
                r = write_file(stage->place, "hosts", "127.0.0.1 " PROVE_ALLOWED_NAME " " PROVE_REFUSED_NAME "\n", err);
        if (r < 0)
                return r;

        if (listen_tcp(&stage->sockets[0], &stage->ports[0]) < 0 ||
            listen_tcp(&stage->sockets[1], &stage->ports[1]) < 0 || listen_unix(stage->place, &stage->sockets[2]) < 0)
                return err_errno(err, "cannot listen for the proof");

        stage->server = fork();
        if (stage->server == 0)
                prove_serve(stage);

        if (stage->server < 0)
                return err_errno(err, "cannot start the server of the proof");

        return 0;
}

static void strike_stage(struct stage *stage) {
        if (stage->server > 0) {
                kill(stage->server, SIGKILL);
                waitpid(stage->server, NULL, 0);
        }

        for (int i = 0; i < SERVER_SOCKETS; i++)
                close_fd(&stage->sockets[i]);

        if (stage->place[0])
                (void)tree_remove(AT_FDCWD, stage->place);
}

static int prove_launch(const struct stage *stage, struct err *err) {
        char self[PATH_MAX], allowed[16], refused[16], target[64], secret[80];
        ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
        if (n < 0)
                return err_errno(err, "cannot find this program");

        self[n] = '\0';
        snprintf(allowed, sizeof allowed, "%u", stage->ports[0]);
        snprintf(refused, sizeof refused, "%u", stage->ports[1]);
        snprintf(target, sizeof target, PROVE_ALLOWED_NAME ":%u", stage->ports[0]);
        snprintf(secret, sizeof secret, "%s/secret", stage->place);

        const struct {
                enum policy_row row;
                const char *value;
        } settings[] = { { ROW_WORKSPACE, stage->work },
                         { ROW_MODE, "workspace-write-whitelist" },
                         { ROW_HOME, HOME_WORD_NONE }, /* the workspace is gone in a moment; its home would stay */
                         { ROW_ALLOW_PRIVATE, target },
                         { ROW_DENY_READ, secret },
                         { ROW_READ, self }, /* also where it lies in a place that is hidden, as /tmp is */
                         { ROW_WORKSPACE_POLICY, "false" } };
        struct option_values values = { 0 };
        int r = 0, status = 0;
        for (size_t i = 0; i < sizeof settings / sizeof settings[0] && r == 0; i++)
                r = option_set(&values, &policy_rows[settings[i].row], str_of(settings[i].value), "doctor --prove",
                               err);

        char *argv[] = { self,
                         (char *)PROVE_VERB,
                         (char *)stage->work,
                         (char *)stage->place,
                         allowed,
                         refused,
                         (char *)stage->results,
                         NULL };
        struct run_request request = { .options = &values, .argv = argv, .hosts_file = stage->hosts, .quiet = true };
        if (r == 0 && run_command(&request, &status, err) != RUN_ENDED)
                r = -(err && err->code ? err->code : EIO);
        else if (r == 0 && status != 0)
                r = err_set(err, EIO,
                            "the program inside the sandbox ended with status %d; it is %s, which the sandbox must be "
                            "able to see",
                            status, self);

        option_values_done(&values);
        return r;
}

/* A line per act, in their order: the negative errno, 0 for success. */
static int prove_collect(const struct stage *stage, struct proofs *ret, struct err *err) {
        cleanup(buf_done) struct buf text = BUF(0);
        int r = path_read_file(stage->results, RESULTS_MAX, &text, err);
        if (r < 0)
                return r;

        struct prove_world outside = { stage->work, stage->place, stage->ports[0], stage->ports[1], false };
        struct str rest = buf_str(&text), line;

        for (size_t i = 0; i < n_prove_acts; i++) {
                uint64_t error;

                if (!str_split(&rest, '\n', &line) || !str_to_u64(line, 4096, &error))
                        return err_set(err, EBADMSG, "the program inside the sandbox did not finish its list");

                struct proof p = { .name = strdup(prove_acts[i].name), .expected = prove_acts[i].expected };
                p.inside = error == 0;
                p.outside = prove_acts[i].run(&outside) == 0;
                p.detail = strdup(error ? strerror((int)error) : "it works");
                if (!p.name || !p.detail || vec_push(&ret->list, p) < 0)
                        return err_memory(err);
        }

        return 0;
}

int prove(struct proofs *ret, struct err *err) {
        struct stage stage;
        int r = set_stage(&stage, err);
        if (r == 0)
                r = prove_launch(&stage, err);
        if (r == 0)
                r = prove_collect(&stage, ret, err);

        strike_stage(&stage);
        return r;
}

/* --- inside ----------------------------------------------------------------------------------------------------------
 */

int prove_inside(int argc, char **argv) {
        uint64_t allowed, refused;

        if (argc != 5 || !str_to_u64(str_of(argv[2]), UINT16_MAX, &allowed) ||
            !str_to_u64(str_of(argv[3]), UINT16_MAX, &refused))
                return 2;

        const struct prove_world world = { argv[0], argv[1], (uint16_t)allowed, (uint16_t)refused, true };
        cleanup(buf_done) struct buf out = BUF(RESULTS_MAX);

        for (size_t i = 0; i < n_prove_acts; i++)
                if (buf_printf(&out, "%d\n", -prove_acts[i].run(&world)) < 0)
                        return 1;

        return path_replace_file(argv[4], buf_str(&out), 0600, NULL) < 0;
}
