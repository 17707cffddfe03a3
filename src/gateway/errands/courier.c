/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/errands/courier.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "gateway/confine/gateway_confine.h"
#include "gateway/errands/courier_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { READ_BYTES = 65536 };

static void courier_end(struct courier *courier) {
        courier->ended = true;
        loop_stop(courier->loop);
}

/* As much as the other side takes; the watch tells when it takes more. */
static void courier_flush(struct courier *courier) {
        while (courier->out.n) {
                ssize_t n = send(COURIER_FD, courier->out.p, courier->out.n, MSG_DONTWAIT | MSG_NOSIGNAL);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0 && errno == EAGAIN)
                        return;

                if (n <= 0) {
                        courier_end(courier);
                        return;
                }

                buf_consume(&courier->out, (size_t)n);
        }
}

void courier_tell(struct courier *courier, const struct courier_message *message) {
        if (courier_write(&courier->out, message) < 0) {
                courier_end(courier); /* nobody reads: our parent starts another */
                return;
        }
        courier_flush(courier);
}

static struct exchange *find_exchange(struct courier *courier, uint64_t id) {
        for (struct link *at = courier->exchanges.next; at != &courier->exchanges; at = at->next) {
                struct exchange *exchange = link_owner(at, struct exchange, link);
                if (exchange->id == id)
                        return exchange;
        }
        return NULL;
}

static void take_message(struct courier *courier, const struct courier_message *message) {
        struct exchange *exchange = find_exchange(courier, message->id);

        switch (message->kind) {
        case COURIER_REQUEST:
                if (!exchange)
                        exchange_start(courier, message);
                return;
        case COURIER_SEND:
                if (exchange)
                        exchange_send(exchange, message->parts[0]);
                return;
        case COURIER_CANCEL:
                if (exchange)
                        exchange_end(exchange);

                return;
        default:
                courier_end(courier);
        }
}

static void take_messages(struct courier *courier) {
        struct courier_message message = { 0 };
        size_t used = 0;
        int r;

        while (!courier->ended && (r = courier_read(buf_str(&courier->in), &message, &used)) != 0) {
                if (r < 0) {
                        courier_end(courier);
                        return;
                }

                take_message(courier, &message);
                buf_consume(&courier->in, used);
        }
}

static void on_socket(struct watch *watch, unsigned ready) {
        struct courier *courier = link_owner(watch, struct courier, watch);

        (void)ready;
        courier_flush(courier);

        while (!courier->ended) {
                ssize_t n;

                if (buf_reserve(&courier->in, READ_BYTES) < 0) {
                        courier_end(courier);
                        return;
                }

                n = recv(COURIER_FD, courier->in.p + courier->in.n, READ_BYTES, MSG_DONTWAIT);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0 && errno == EAGAIN)
                        return;

                if (n <= 0) {
                        courier_end(courier);
                        return;
                }

                courier->in.n += (size_t)n;
                take_messages(courier);
        }
}

static int courier_open(struct courier *courier, const char *ca_bundle, struct err *err) {
        int type = 0;
        socklen_t n = sizeof type;
        int r;

        courier->room = malloc(VAULT_MESSAGE_MAX);
        if (!courier->room)
                return err_memory(err);
        if (getsockopt(COURIER_FD_VAULT, SOL_SOCKET, SO_TYPE, &type, &n) == 0 && type == SOCK_SEQPACKET)
                courier->vault = COURIER_FD_VAULT;

        r = loop_new(&courier->loop, err);
        if (r < 0)
                return r;

        r = resolver_new(courier->loop, &(struct resolver_settings){ 0 }, &courier->resolver, err);
        if (r < 0)
                return r;

        r = tls_context_new(ca_bundle, &courier->context, err);
        if (r < 0)
                return r;

        r = tls_new(courier->context, courier->loop, &courier->tls, err);
        if (r < 0)
                return r;

        r = confine_gateway(err);
        if (r < 0)
                return r;

        r = fd_set_nonblocking(COURIER_FD, true);
        if (r < 0)
                return err_set(err, -r, "no socket");

        r = watch_start_edge(courier->loop, &courier->watch, COURIER_FD, on_socket);
        if (r < 0)
                return err_set(err, -r, "the socket cannot be watched");

        return 0;
}

static void courier_close(struct courier *courier) {
        if (courier->loop) {
                while (!link_is_empty(&courier->exchanges))
                        exchange_end(link_owner(courier->exchanges.next, struct exchange, link));

                watch_stop(&courier->watch);
                loop_drain(courier->loop);
                tls_free(courier->tls);
                tls_context_free(courier->context);
                resolver_free(courier->resolver);
                loop_free(courier->loop);
        }

        buf_done(&courier->in);
        buf_done(&courier->out);
        free(courier->room);
}

int courier_main(const char *ca_bundle, struct err *err) {
        struct courier courier = { .vault = -1,
                                   .in = BUF(COURIER_MESSAGE_MAX + READ_BYTES),
                                   .out = BUF(2 * COURIER_MESSAGE_MAX) };
        int r;

        link_init(&courier.exchanges);
        r = courier_open(&courier, ca_bundle, err);
        if (r == 0) {
                on_socket(&courier.watch, 0); /* what was said before we looked */
                if (!courier.ended)
                        loop_run(courier.loop);
        }

        courier_close(&courier);
        return r;
}
