/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A visit is one connection of the phone: a handshake with a limit, then a relay between TLS and the plain socket that
 * leads to the dashboard. Nothing of HTTP is read here.
 */
#include "gateway/errands/door.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "gateway/confine/gateway_confine.h"
#include "ipc/door_messages.h"
#include "net/pool.h"
#include "net/relay.h"
#include "net/tls.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

enum { VISITS_MAX = 32 };
#define HANDSHAKE_NS (10 * NS_PER_SECOND)
#define IDLE_NS (150 * NS_PER_SECOND) /* the dashboard's own limit is shorter */

struct door {
        struct loop *loop;
        struct tls_context *context;
        struct tls *tls;
        struct tls_leaf *leaf;
        struct host host;
        struct pool pool;
        struct watch watch;
        struct link visits;
        size_t n_visits;
};

struct visit {
        struct link link;
        struct door *door;
        struct stream *secure, *plain; /* until the relay has them */
        struct timer limit;
        struct relay relay;
        struct task freeing;
        bool relayed;
};

static void visit_free(struct task *task) {
        free(link_owner(task, struct visit, freeing));
}

static void visit_leave(struct visit *visit) {
        timer_stop(&visit->limit);
        link_remove(&visit->link);
        visit->door->n_visits--;
        loop_defer(visit->door->loop, &visit->freeing);
}

static void visit_on_done(struct relay *relay, enum relay_end how, int error) {
        (void)how;
        (void)error;
        visit_leave(link_owner(relay, struct visit, relay));
}

static void visit_end(struct visit *visit) {
        if (visit->relayed) {
                relay_stop(&visit->relay, true);
        } else {
                stream_abort(visit->secure);
                stream_abort(visit->plain);
        }
        visit_leave(visit);
}

static void visit_on_limit(struct timer *timer) {
        visit_end(link_owner(timer, struct visit, limit));
}

static void visit_shake(struct visit *visit) {
        int r = tls_handshake(visit->secure);

        if (r == -EAGAIN)
                return;

        if (r < 0) {
                visit_end(visit);
                return;
        }

        timer_stop(&visit->limit);
        visit->relayed = true;
        relay_start(&visit->relay, &visit->door->pool, take_ptr(&visit->secure), take_ptr(&visit->plain), IDLE_NS);
}

static void visit_on_secure(struct stream *stream, void *owner) {
        (void)stream;
        visit_shake(owner);
}

/* The dashboard has closed its side, perhaps before the handshake was over. */
static void visit_on_plain(struct stream *stream, void *owner) {
        if (stream_peer_left(stream))
                visit_end(owner);
}

/* Takes both descriptors over. */
static void visit_start(struct door *door, int phone, int plain) {
        const struct tls_accept how = { .leaf = door->leaf, .host = &door->host, .identity = STR("door") };
        struct visit *visit = calloc(1, sizeof *visit);
        struct stream *below = NULL;
        int r;

        if (!visit || fd_set_nonblocking(phone, true) < 0 || fd_set_nonblocking(plain, true) < 0) {
                free(visit);
                close_fd(&phone);
                close_fd(&plain);
                return;
        }

        r = stream_socket_new(door->loop, plain, &visit->plain);
        if (r < 0) {
                free(visit);
                close_fd(&phone);
                return;
        }

        r = stream_socket_new(door->loop, phone, &below);
        if (r == 0)
                r = tls_accept(door->tls, below, &how, &visit->secure);

        if (r < 0) {
                stream_abort(visit->plain);
                free(visit);
                return;
        }

        visit->door = door;
        visit->relay.done = visit_on_done;
        task_init(&visit->freeing, visit_free);
        timer_init(&visit->limit, door->loop, visit_on_limit);
        timer_start(&visit->limit, HANDSHAKE_NS);
        link_append(&door->visits, &visit->link);
        door->n_visits++;
        stream_set_owner(visit->plain, visit_on_plain, visit);
        stream_set_owner(visit->secure, visit_on_secure, visit);
        visit_shake(visit);
}

/*
 * The dashboard's messages.
 */
static void door_on_message(struct watch *watch, unsigned ready) {
        struct door *door = link_owner(watch, struct door, watch);

        (void)ready;

        for (;;) {
                char word[8];
                int fds[2] = { -1, -1 };
                size_t n_fds = 0;
                ssize_t n = fd_receive(DOOR_FD, word, sizeof word, fds, 2, &n_fds);

                if (n == -EAGAIN)
                        return;

                if (n <= 0) {
                        loop_stop(door->loop); /* the pairing is over, or the dashboard is gone */
                        return;
                }

                if (n_fds != 2 || door->n_visits >= VISITS_MAX) {
                        close_fd(&fds[0]);
                        close_fd(&fds[1]);
                        continue;
                }

                visit_start(door, fds[0], fds[1]);
        }
}

static int door_read_words(struct door *door, uint64_t *ret_seconds, struct err *err) {
        char words[DOOR_WORDS_MAX];
        ssize_t n = recv(DOOR_FD, words, sizeof words, 0);
        struct str rest = str_n(words, n > 0 ? (size_t)n : 0), seconds;

        if (!str_split(&rest, ' ', &seconds) || !str_to_u64(seconds, INT32_MAX, ret_seconds))
                return err_set(err, EBADMSG, "the door was not told for how long");
        return host_parse(rest, &door->host, err);
}

static int door_open(struct door *door, struct err *err) {
        unsigned char digest[TLS_DIGEST_BYTES];
        uint64_t seconds = 0;
        int r;

        r = door_read_words(door, &seconds, err);
        if (r < 0)
                return r;

        r = loop_new(&door->loop, err);
        if (r < 0)
                return r;

        r = tls_context_new("", &door->context, err);
        if (r < 0)
                return r;

        r = tls_leaf_self(door->context, &door->host, (int64_t)seconds, &door->leaf, digest, err);
        if (r < 0)
                return r;

        r = tls_new(door->context, door->loop, &door->tls, err);
        if (r < 0)
                return r;

        r = pool_init(&door->pool);
        if (r < 0)
                return err_memory(err);

        r = confine_gateway(err);
        if (r < 0)
                return r;

        r = fd_set_nonblocking(DOOR_FD, true);
        if (r < 0)
                return err_set(err, -r, "no socket");
        if (send(DOOR_FD, digest, sizeof digest, MSG_NOSIGNAL) != sizeof digest)
                return err_errno(err, "nobody wants to know the certificate");

        r = watch_start_edge(door->loop, &door->watch, DOOR_FD, door_on_message);
        if (r < 0)
                return err_set(err, -r, "the socket cannot be watched");

        return 0;
}

static void door_close(struct door *door) {
        if (!door->loop)
                return;

        while (!link_is_empty(&door->visits))
                visit_end(link_owner(door->visits.next, struct visit, link));

        watch_stop(&door->watch);
        loop_drain(door->loop);
        tls_leaf_unref(door->leaf);
        tls_free(door->tls);
        tls_context_free(door->context);
        pool_done(&door->pool);
        loop_free(door->loop);
}

int door_main(struct err *err) {
        struct door door = { 0 };
        int r;

        link_init(&door.visits);
        r = door_open(&door, err);
        if (r == 0)
                loop_run(door.loop);

        door_close(&door);
        return r;
}
