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

void control_client_done(struct control_client *c) {
        if (c->fd > 0)
                close_fd(&c->fd);
        buf_done(&c->in);
        c->fd = -1;
}

/* A whole line that is there already. */
static bool take_line(struct control_client *c, struct str *ret) {
        struct str rest = str_skip(buf_str(&c->in), c->used);
        ptrdiff_t end = rest.n ? str_find(rest, '\n') : -1;
        if (end < 0)
                return false;
        *ret = str_first(rest, (size_t)end);
        c->used += (size_t)end + 1;
        return true;
}

static int wait_readable(int fd, int timeout_ms) {
        struct pollfd p = { .fd = fd, .events = POLLIN };
        int r = poll(&p, 1, timeout_ms);
        return r < 0 ? -errno : r == 0 ? -EAGAIN : 0;
}

int control_client_next(struct control_client *c, int timeout_ms, struct control_message *ret, struct err *e) {
        struct str line;
        while (!take_line(c, &line)) {
                buf_consume(&c->in, c->used);
                c->used = 0;
                int r = wait_readable(c->fd, timeout_ms);
                if (r < 0)
                        return r == -EAGAIN || r == -EINTR ? r : err_set(e, -r, "cannot wait for the sandbox");
                if (buf_reserve(&c->in, READ_BYTES) < 0)
                        return err_set(e, EMSGSIZE, "the sandbox sent a line that is too long");
                ssize_t n = recv(c->fd, c->in.p + c->in.n, READ_BYTES, 0);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0 && errno != ECONNRESET)
                        return err_errno(e, "cannot read from the sandbox");
                if (n <= 0)
                        return 0;
                c->in.n += (size_t)n;
        }
        int r = control_message_parse(line, ret, e);
        return r < 0 ? err_wrap(e, r, "the sandbox %s", c->id) : 1;
}

static int refused(const struct control_message *m, struct err *e) {
        return err_set(e, EREMOTEIO, "%s", m->text.n ? m->text.p : "refused");
}

int control_client_call(struct control_client *c, const struct control_request *q, struct control_message *ret,
                        struct err *e) {
        cleanup(buf_done) struct buf out = BUF(CONTROL_LINE_MAX);
        struct control_request copy = *q;
        copy.id = ++c->last_id;
        int r = control_request_write(&out, &copy);
        if (r < 0)
                return err_set(e, -r, "the request cannot be written");
        if (send(c->fd, out.p, out.n, MSG_NOSIGNAL) != (ssize_t)out.n)
                return err_set(e, ECONNRESET, "the sandbox %s is gone", c->id);
        uint64_t end = clock_ns() + REPLY_MS * NS_PER_MS;
        for (;;) {
                uint64_t now = clock_ns();
                struct control_message m = { 0 };
                r = control_client_next(c, now < end ? (int)((end - now) / NS_PER_MS) + 1 : 0, &m, e);
                if (r == -EAGAIN)
                        return err_set(e, ETIMEDOUT, "the sandbox %s does not reply; its supervisor may be stopped",
                                       c->id);
                if (r == -EINTR)
                        continue;
                if (r <= 0)
                        return r < 0 ? r : err_set(e, ECONNRESET, "the sandbox %s is gone", c->id);
                if (!m.is_event && !m.ok && m.id == 0)
                        r = refused(&m, e); /* turned away before anything was read */
                else if (!m.is_event && m.id == copy.id)
                        r = m.ok ? 0 : refused(&m, e);
                if (r == 0)
                        *ret = m;
                else
                        control_message_done(&m);
                if (r <= 0)
                        return r;
        }
}

int control_client_open(const char *id, const char *name, struct control_client *ret, struct err *e) {
        cleanup(free_ptr) char *directory = NULL;
        struct control_client c = { .fd = -1, .in = BUF(CONTROL_MESSAGE_MAX + READ_BYTES) };
        struct control_request hello = { .what = CONTROL_HELLO, .version = CONTROL_VERSION };
        struct control_message m = { 0 };
        snprintf(c.id, sizeof c.id, "%s", id);
        snprintf(hello.client, sizeof hello.client, "%s", name);
        int r = control_directory(&directory, e);
        if (r == 0)
                r = control_connect(directory, id, &c.fd, e);
        if (r == 0)
                r = control_client_call(&c, &hello, &m, e);
        control_message_done(&m);
        if (r < 0) {
                control_client_done(&c);
                return r;
        }
        *ret = c;
        return 0;
}

int control_resolve(const char *prefix, char **ret, struct err *e) {
        cleanup(control_ids_done) control_ids ids = { 0 };
        int r = control_list(&ids, e);
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
                return err_set(e, ENOENT, "there is no running sandbox %s; `bailey ps` lists them",
                               show(str_of(prefix)).text);
        if (n > 1)
                return err_set(e, EINVAL, "%zu running sandboxes begin with %s; give more of the id", n,
                               show(str_of(prefix)).text);
        *ret = str_dup(str_of(found));
        return *ret ? 0 : err_memory(e);
}
