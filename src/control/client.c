/* SPDX-License-Identifier: Apache-2.0 */
#include "control/client.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "conf/suggest.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/time.h>

enum { REPLY_MS = 10000, READ_BYTES = 65536 };

void control_client_done(struct control_client *client) {
        if (client->fd > 0)
                close_fd(&client->fd);
        buf_done(&client->in);
        client->fd = -1;
}

/* A whole line that is there already. */
static bool take_line(struct control_client *client, struct str *ret) {
        struct str rest = str_skip(buf_str(&client->in), client->used);
        ptrdiff_t end = -1;

        if (rest.n)
                end = str_find(rest, '\n');

        if (end < 0)
                return false;
        *ret = str_first(rest, (size_t)end);
        client->used += (size_t)end + 1;
        return true;
}

static int wait_readable(int fd, int timeout_ms) {
        struct pollfd pollfd = { .fd = fd, .events = POLLIN };
        int r = poll(&pollfd, 1, timeout_ms);
        if (r < 0)
                return -errno;

        if (r == 0)
                return -EAGAIN;

        return 0;
}

int control_client_next(struct control_client *client, int timeout_ms, struct control_message *ret, struct err *err) {
        struct str line;

        while (!take_line(client, &line)) {
                buf_consume(&client->in, client->used);
                client->used = 0;
                int r = wait_readable(client->fd, timeout_ms);
                if (r < 0) {
                        if (r == -EAGAIN || r == -EINTR)
                                return r;
                        return err_set(err, -r, "cannot wait for the sandbox");
                }
                if (buf_reserve(&client->in, READ_BYTES) < 0)
                        return err_set(err, EMSGSIZE, "the sandbox sent a line that is too long");

                ssize_t n = recv(client->fd, client->in.p + client->in.n, READ_BYTES, 0);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0 && errno != ECONNRESET)
                        return err_errno(err, "cannot read from the sandbox");
                if (n <= 0)
                        return 0;

                client->in.n += (size_t)n;
        }

        int r = control_message_parse(line, ret, err);
        if (r < 0)
                return err_wrap(err, r, "the sandbox %s", client->id);

        return 1;
}

static int client_refused(struct control_client *client, const struct control_message *message, struct err *err) {
        client->not_found = str_is(message->fault, control_fault_code(FAULT_NOT_FOUND));

        return err_set(err, EREMOTEIO, "%s", message->text.n ? message->text.p : "refused");
}

int control_client_send(struct control_client *client, const struct control_request *request, struct err *err) {
        cleanup(buf_done) struct buf out = BUF(CONTROL_LINE_MAX);
        struct control_request copy = *request;

        copy.id = ++client->last_id;
        int r = control_request_write(&out, &copy);
        if (r < 0)
                return err_set(err, -r, "the request cannot be written");
        if (send(client->fd, out.p, out.n, MSG_NOSIGNAL) != (ssize_t)out.n)
                return err_set(err, ECONNRESET, "the sandbox %s is gone", client->id);

        return 0;
}

int control_client_call(struct control_client *client, const struct control_request *request,
                        struct control_message *ret, struct err *err) {
        client->not_found = false;
        int r = control_client_send(client, request, err);
        if (r < 0)
                return r;

        uint64_t end = clock_ns() + REPLY_MS * NS_PER_MS;

        for (;;) {
                uint64_t now = clock_ns();
                struct control_message message = { 0 };

                r = control_client_next(client, now < end ? (int)((end - now) / NS_PER_MS) + 1 : 0, &message, err);
                if (r == -EAGAIN)
                        return err_set(err, ETIMEDOUT, "the sandbox %s does not reply; its supervisor may be stopped",
                                       client->id);

                if (r == -EINTR)
                        continue;
                if (r < 0)
                        return r;
                if (r <= 0)
                        return err_set(err, ECONNRESET, "the sandbox %s is gone", client->id);

                if (!message.is_event && !message.ok && message.id == 0)
                        r = client_refused(client, &message, err); /* turned away before anything was read */
                else if (!message.is_event && message.id == client->last_id)
                        r = message.ok ? 0 : client_refused(client, &message, err);

                if (r == 0)
                        *ret = message;
                else
                        control_message_done(&message);

                if (r <= 0)
                        return r;
        }
}

int control_client_open(const char *id, const char *name, struct control_client *ret, struct err *err) {
        cleanup(free_ptr) char *directory = NULL;
        struct control_client client = { .fd = -1, .in = BUF(CONTROL_MESSAGE_MAX + READ_BYTES) };
        struct control_request hello = { .what = CONTROL_HELLO, .version = CONTROL_VERSION };
        struct control_message message = { 0 };

        snprintf(client.id, sizeof client.id, "%s", id);
        snprintf(hello.client, sizeof hello.client, "%s", name);
        int r = control_directory(&directory, err);
        if (r == 0)
                r = control_connect(directory, id, &client.fd, err);
        if (r == 0)
                r = control_client_call(&client, &hello, &message, err);

        control_message_done(&message);

        if (r < 0) {
                control_client_done(&client);
                return r;
        }

        *ret = client;
        return 0;
}

int control_resolve(const char *prefix, char **ret, struct err *err) {
        cleanup(control_ids_done) control_ids ids = { 0 };
        int r = control_list(&ids, err);
        const char *found = NULL;
        size_t n = 0;
        for (size_t i = 0; r == 0 && i < ids.n; i++) {
                if (strcmp(ids.p[i], prefix) == 0) {
                        found = ids.p[i];
                        n = 1;
                        break;
                }

                if (prefix[0] && str_starts(str_of(ids.p[i]), str_of(prefix))) {
                        found = ids.p[i];
                        n++;
                }
        }

        if (r < 0)
                return r;

        if (n == 0)
                return err_set(err, ENOENT, "there is no running sandbox %s; `bailey ps` lists them",
                               show(str_of(prefix)).text);

        if (n > 1)
                return err_set(err, EINVAL, "%zu running sandboxes begin with %s; give more of the id", n,
                               show(str_of(prefix)).text);

        *ret = str_dup(str_of(found));
        if (!*ret)
                return err_memory(err);

        return 0;
}
