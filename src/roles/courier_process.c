/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A courier has one channel to one vault. When either dies, both ends of that channel are of no use: the courier is
 * started anew with a new channel, at once the first time and then with RESTART_NS between.
 */
#include "roles/courier_process.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/processes/spawn.h"
#include "roles/gateway_process.h"
#include "roles/vault_process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define RESTART_NS (2 * NS_PER_SECOND)
enum { READ_BYTES = 65536 };
struct courier_process {
        struct courier_settings settings;
        mappings tokens;
        struct vault_process *vault; /* NULL: no tokens */
        pid_t pid;                   /* 0: none runs */
        int fd;
        uint64_t retry_ns;
        struct buf in, out;
        bool vault_changed;
};

static void courier_stop(struct courier_process *courier) {
        close_fd(&courier->fd);
        buf_clear(&courier->in);
        buf_clear(&courier->out);

        if (courier->pid > 0) {
                kill(courier->pid, SIGKILL);
                (void)spawn_wait(courier->pid);
        }

        courier->pid = 0;
}

static void courier_lost(struct courier_process *courier) {
        const struct courier_message gone = { .kind = COURIER_FAILED, .parts = { STR("the courier ended") } };

        courier_stop(courier);
        courier->retry_ns = clock_ns() + RESTART_NS;
        courier->settings.on_message(courier->settings.arg, &gone);
}

static int courier_spawn(struct courier_process *courier, struct err *err) {
        cleanup(close_fd) int ours = -1, theirs = -1, vault = -1;
        int pair[2];

        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
                return err_errno(err, "no socket for the courier");

        ours = pair[0];
        theirs = pair[1];
        if (courier->vault && vault_process_connect_all(courier->vault, &vault, 1) != 1)
                return err_set(err, EAGAIN, "no vault serves");
        if (!courier->vault)
                vault = open("/dev/null", O_RDONLY | O_CLOEXEC);

        const int fds[] = { theirs, vault };
        int r = gateway_errand("courier", courier->settings.ca_bundle, fds, 2, &courier->pid, err);
        if (r < 0)
                return r;

        courier->fd = take_fd(&ours);
        return 0;
}

/*
 * The vault.
 */
static void on_vault(void *arg, enum vault_notice notice, const char *text) {
        struct courier_process *courier = arg;

        courier->vault_changed = courier->vault_changed || notice == VAULT_NOTICE_READY;
        if (courier->settings.on_notice && text)
                courier->settings.on_notice(courier->settings.arg, text);
}

static int add_token(struct courier_process *courier, const struct courier_token *token) {
        struct mapping mapping = { .name = str_dup(str_of(token->name)),
                                   .source = str_dup(str_of(token->source)),
                                   .origin = str_dup(STR("chat")) };
        char *host = str_dup(str_of(token->host));

        if (!mapping.name || !mapping.source || !mapping.origin || !host || vec_push(&mapping.hosts, host) < 0 ||
            vec_push(&courier->tokens, mapping) < 0) {
                free(mapping.name);
                free(mapping.source);
                free(mapping.origin);
                free(host);
                vec_done(&mapping.hosts);

                return -ENOMEM;
        }

        return 0;
}

static int start_vault(struct courier_process *courier, struct err *err) {
        const struct courier_settings *settings = &courier->settings;
        int r;

        for (size_t i = 0; i < settings->n_tokens; i++) {
                r = add_token(courier, &settings->tokens[i]);
                if (r < 0)
                        return err_set(err, -r, "out of memory");
        }

        const struct vault_settings vault = { .mappings = &courier->tokens,
                                              .sandbox_id = "courier",
                                              .environment = settings->environment,
                                              .on_notice = on_vault,
                                              .arg = courier };
        r = vault_process_new(&vault, &courier->vault, err);
        if (r < 0)
                return r;

        r = vault_process_start(courier->vault, err);
        courier->vault_changed = false;

        return r;
}

int courier_process_start(const struct courier_settings *settings, struct courier_process **ret, struct err *err) {
        cleanup(courier_process_freep) struct courier_process *courier = calloc(1, sizeof *courier);
        int r;

        if (!courier)
                return err_memory(err);

        courier->settings = *settings;
        courier->fd = -1;
        courier->in = BUF(COURIER_MESSAGE_MAX + READ_BYTES);
        courier->out = BUF(4 * COURIER_MESSAGE_MAX);

        if (settings->n_tokens) {
                r = start_vault(courier, err);
                if (r < 0)
                        return r;
        }

        r = courier_spawn(courier, err);
        if (r < 0)
                return r;

        *ret = take_ptr(&courier);
        return 0;
}

void courier_process_free(struct courier_process *courier) {
        if (!courier)
                return;

        courier_stop(courier);
        vault_process_free(courier->vault);
        mappings_done(&courier->tokens);
        buf_done(&courier->in);
        buf_done(&courier->out);
        free(courier);
}

void courier_process_freep(struct courier_process **courier) {
        courier_process_free(*courier);
}

/*
 * Messages.
 */
static void courier_flush(struct courier_process *courier) {
        while (courier->fd >= 0 && courier->out.n) {
                ssize_t n = send(courier->fd, courier->out.p, courier->out.n, MSG_DONTWAIT | MSG_NOSIGNAL);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return; /* full; or over, which reading shows */

                buf_consume(&courier->out, (size_t)n);
        }
}

int courier_process_send(struct courier_process *courier, const struct courier_message *message) {
        int r;

        if (courier->fd < 0)
                return -EPIPE;

        r = courier_write(&courier->out, message);
        if (r < 0)
                return r;

        courier_flush(courier);
        return 0;
}

/* False when it is over. */
static bool courier_take(struct courier_process *courier) {
        for (;;) {
                struct courier_message message = { 0 };
                size_t used = 0;
                int r = courier_read(buf_str(&courier->in), &message, &used);

                if (r < 0)
                        return false;
                if (r == 0)
                        return true;

                courier->settings.on_message(courier->settings.arg, &message);
                buf_consume(&courier->in, used);
        }
}

static void courier_hear(struct courier_process *courier) {
        while (courier->fd >= 0) {
                ssize_t n;

                if (buf_reserve(&courier->in, READ_BYTES) < 0) {
                        courier_lost(courier);
                        return;
                }

                n = recv(courier->fd, courier->in.p + courier->in.n, READ_BYTES, MSG_DONTWAIT);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0 && errno == EAGAIN)
                        return;
                if (n > 0)
                        courier->in.n += (size_t)n;

                if (n <= 0 || !courier_take(courier)) {
                        courier_lost(courier);
                        return;
                }
        }
}

void courier_process_watch(const struct courier_process *courier, struct poller *poller) {
        if (courier->vault)
                vault_process_watch(courier->vault, poller);
        poller_watch(poller, courier->fd, (short)(POLLIN | (courier->out.n ? POLLOUT : 0)));
        if (courier->fd < 0)
                poller_until(poller, courier->retry_ns);
}

void courier_process_step(struct courier_process *courier, const struct poller *poller) {
        struct err err = { 0 };

        if (courier->vault)
                vault_process_step(courier->vault, poller);

        if (courier->vault_changed) {
                courier->vault_changed = false;
                courier_lost(courier);
                courier->retry_ns = 0;
        }

        courier_flush(courier);
        if (courier->fd >= 0 && poller_ready(poller, courier->fd))
                courier_hear(courier);
        if (courier->fd < 0 && clock_ns() >= courier->retry_ns && courier_spawn(courier, &err) < 0)
                courier->retry_ns = clock_ns() + RESTART_NS;
}
