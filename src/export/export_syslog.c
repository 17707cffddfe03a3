/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Syslog. TCP frames by octet counting (RFC 6587) and counts as delivered when the peer's kernel has acknowledged
 * everything; if the connection ends earlier, we reconnect and send the batch again. Datagrams go one by one.
 */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "export/export_internal.h"

#include <errno.h>
#include <linux/sockios.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/un.h>
#include <unistd.h>

enum { DATAGRAM_MAX = 60000, STREAM_MAX = EXPORT_LINE_MAX };
#define BATCH_NS (30 * NS_PER_SECOND)

static void syslog_fail(struct export *export, const char *why) {
        close_fd(&export->socket);
        export->connected = false;
        export->sent = 0;
        buf_clear(&export->out);
        export_failed(export, why, 0);
}

static int connect_unix(struct export *export) {
        struct sockaddr_un to = { .sun_family = AF_UNIX };

        snprintf(to.sun_path, sizeof to.sun_path, "%s", export->path);
        export->socket = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (export->socket < 0 || connect(export->socket, (struct sockaddr *)&to, sizeof to) < 0)
                return -errno;
        return 0;
}

static int connect_net(struct export *export) {
        struct sockaddr_storage to;
        socklen_t size = addr_to_sockaddr(&export->target.host.addr, export->target.port, &to);
        int type = export->kind == EXPORT_TCP ? SOCK_STREAM : SOCK_DGRAM;

        export->socket = socket(to.ss_family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (export->socket < 0 || (connect(export->socket, (struct sockaddr *)&to, size) < 0 && errno != EINPROGRESS))
                return -errno;

        return 0;
}

static bool syslog_connect(struct export *export) {
        int r = export->kind == EXPORT_UNIX ? connect_unix(export) : connect_net(export);

        if (r < 0) {
                syslog_fail(export, "it cannot be reached");
                return false;
        }

        export->connected = export->kind != EXPORT_TCP;
        export->deadline_ns = clock_ns() + BATCH_NS;

        return true;
}

/*
 * Datagrams.
 */
static void send_datagrams(struct export *export) {
        for (; export->line < export->batch.lines.n; export->line++) {
                cleanup(buf_done) struct buf message = BUF(DATAGRAM_MAX + 1024);
                int r = form_syslog(&export->form, export->batch.lines.p[export->line], DATAGRAM_MAX, &message);

                if (r == -EBADMSG) {
                        export->result->rejected++;
                        continue;
                }

                if (r < 0 || send(export->socket, message.p, message.n, MSG_NOSIGNAL) < 0) {
                        if (r == 0 && (errno == EAGAIN || errno == ENOBUFS))
                                return; /* the receiver's queue is full: again in a moment */
                        syslog_fail(export, "it does not take datagrams");
                        return;
                }
        }

        export->line = 0;
        export_delivered(export);
}

/*
 * TCP.
 */
int syslog_fill_stream(struct export *export) {
        for (size_t i = 0; i < export->batch.lines.n; i++) {
                cleanup(buf_done) struct buf message = BUF(STREAM_MAX + 4096);
                int r = form_syslog(&export->form, export->batch.lines.p[i], 0, &message);

                if (r == -EBADMSG) {
                        export->result->rejected++;
                        continue;
                }

                if (r == 0)
                        r = buf_printf(&export->out, "%zu ", message.n);
                if (r == 0)
                        r = buf_append(&export->out, buf_str(&message));
                if (r < 0)
                        return r;
        }

        return 0;
}

static bool peer_is_gone(int fd) {
        char bytes[256];
        ssize_t n = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);

        return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

static void send_stream(struct export *export) {
        int error = 0, unsent = 0;
        socklen_t n = sizeof error;

        if (getsockopt(export->socket, SOL_SOCKET, SO_ERROR, &error, &n) < 0 || error) {
                syslog_fail(export, "it cannot be reached");
                return;
        }

        if (!export->out.n && syslog_fill_stream(export) < 0) {
                syslog_fail(export, "out of memory");
                return;
        }

        while (export->sent < export->out.n) {
                ssize_t wrote =
                    send(export->socket, export->out.p + export->sent, export->out.n - export->sent, MSG_NOSIGNAL);

                if (wrote < 0 && errno == EINTR)
                        continue;
                if (wrote < 0 && errno == EAGAIN)
                        break;

                if (wrote < 0) {
                        syslog_fail(export, "the connection broke");
                        return;
                }

                export->sent += (size_t)wrote;
        }

        if (peer_is_gone(export->socket)) {
                syslog_fail(export, "it closed the connection");
                return;
        }

        if (export->sent == export->out.n && ioctl(export->socket, SIOCOUTQ, &unsent) == 0 && unsent == 0) {
                buf_clear(&export->out);
                export->sent = 0;
                export->deadline_ns = clock_ns() + BATCH_NS;
                export_delivered(export);
        } else if (clock_ns() >= export->deadline_ns) {
                syslog_fail(export, "it takes nothing");
        }
}

void syslog_watch(struct export *export, struct poller *poller) {
        if (!export->batch.there || export->socket < 0)
                return;
        if (export->kind == EXPORT_TCP && (!export->connected || export->sent < export->out.n))
                poller_watch(poller, export->socket, POLLOUT);
        else
                poller_until(poller, clock_ns() + 20 * NS_PER_MS); /* until its system has it, or its queue has room */
}

void syslog_step(struct export *export, short ready) {
        if (export->socket < 0 && !syslog_connect(export))
                return;

        if (export->kind == EXPORT_TCP && !export->connected) {
                if (!ready && clock_ns() >= export->deadline_ns)
                        syslog_fail(export, "it cannot be reached");
                if (!ready)
                        return;
                export->connected = true;
        }

        if (export->kind == EXPORT_TCP)
                send_stream(export);
        else
                send_datagrams(export);
}
