/* SPDX-License-Identifier: Apache-2.0 */
#include "net/resolve.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/map.h"
#include "net/resolve_hosts.h"

/* What newer versions would have us call instead, the oldest that we build with lacks. */
#define CARES_NO_DEPRECATED
#include <ares.h>
#include <errno.h>
#include <stdlib.h>

/*
 * An entry stands for one name: in flight (somebody waits, c-ares knows it), or kept (an answer and the time until
 * which it holds). Kept entries are on the `kept` list, oldest use first, and the oldest makes room for a new one;
 * entries in flight are bounded by their own number and never dropped, since c-ares will call back with them.
 *
 * Servers are tried in turn, each a little longer than before; a question as a whole has one limit, short enough for a
 * person to wait. When the first server let a question time out and another answered, the others come first from then
 * on, so that a dead server costs one question its patience and not every one.
 *
 * The gate judges every address that a resolver returns; nothing else that a resolver says is trusted. A resolver that
 * is slow or dead costs its callers one timeout, then a short time of immediate failure, so that a dead server does not
 * collect connections. One that answers with too many addresses is refused whole.
 */
enum {
        TTL_MIN = 1,
        TTL_MAX = 300,
        TTL_ABSENT = 10, /* no such name */
        TTL_FAILED = 2,  /* nobody could say */
        SERVERS_MAX = 16,
        FIRST_TRY_MS = 800, /* for one server; each round doubles it */
        TRIES = 3,
};

struct entry {
        struct resolver *resolver;
        struct link kept;
        struct link waiting; /* struct resolve_call */
        struct timer limit;
        struct task deliver;
        struct resolve_answer *answer;
        uint64_t expires;
        bool in_flight;
        struct host name;
};

struct sock {
        struct link link;
        struct resolver *resolver;
        struct watch watch;
        int fd;
};

struct resolver {
        struct loop *loop;
        ares_channel channel;
        struct map entries; /* name to struct entry */
        struct map fixed;   /* the static host file */
        struct resolve_answer *loopback;
        struct link kept;
        struct link socks;
        struct timer tick; /* c-ares's own timeouts */
        struct task tidy;
        struct ares_addr_port_node servers[SERVERS_MAX]; /* in the order in which they are asked */
        size_t n_servers;
        bool first_is_slow;
        size_t n_flight, flight_max, cache_max;
        uint64_t timeout_ns;
        bool ending;
};

/* c-ares: sockets and time */

static void set_tick(struct resolver *resolver) {
        struct timeval longest = { .tv_sec = 5 }, next;
        if (resolver->n_flight == 0) {
                timer_stop(&resolver->tick);
                return;
        }
        struct timeval *tv = ares_timeout(resolver->channel, &longest, &next);
        timer_start(&resolver->tick,
                    tv ? (uint64_t)tv->tv_sec * NS_PER_SECOND + (uint64_t)tv->tv_usec * 1000 : NS_PER_SECOND);
}

static void on_tick(struct timer *timer) {
        struct resolver *resolver = link_owner(timer, struct resolver, tick);
        ares_process_fd(resolver->channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
        set_tick(resolver);
}

static void on_sock(struct watch *w, unsigned ready) {
        struct sock *sock = link_owner(w, struct sock, watch);
        struct resolver *resolver = sock->resolver;
        ares_socket_t readable = ready & WATCH_READ ? sock->fd : ARES_SOCKET_BAD;
        ares_socket_t writable = ready & WATCH_WRITE ? sock->fd : ARES_SOCKET_BAD;

        ares_process_fd(resolver->channel, readable, writable);
        set_tick(resolver);
}

static struct sock *find_sock(struct resolver *resolver, int fd) {
        for (struct link *l = resolver->socks.next; l != &resolver->socks; l = l->next)
                if (link_owner(l, struct sock, link)->fd == fd)
                        return link_owner(l, struct sock, link);
        return NULL;
}

static void on_sock_state(void *data, ares_socket_t fd, int readable, int writable) {
        struct resolver *resolver = data;
        struct sock *sock = find_sock(resolver, fd);

        if (!readable && !writable) { /* about to be closed */
                if (sock) {
                        watch_stop(&sock->watch);
                        link_remove(&sock->link);
                        free(sock);
                }

                return;
        }

        if (!sock) {
                sock = calloc(1, sizeof *sock);
                if (!sock)
                        return; /* the question ends with its timeout */

                sock->resolver = resolver;
                sock->fd = fd;
                link_append(&resolver->socks, &sock->link);
        }

        unsigned interest = 0;
        if (readable)
                interest |= WATCH_READ;
        if (writable)
                interest |= WATCH_WRITE;

        watch_start_level(resolver->loop, &sock->watch, fd, interest, on_sock);
}

/* entries */

static void drop_entry(struct entry *en) {
        map_remove(&en->resolver->entries, host_str(&en->name));
        link_remove(&en->kept);
        timer_stop(&en->limit);
        task_cancel(&en->deliver);
        free(en->answer);
        free(en);
}

static void resolve_deliver(struct task *task) {
        struct entry *en = link_owner(task, struct entry, deliver);
        static const struct resolve_answer canceled = { .error = -ECANCELED };
        struct link calls;

        link_take_all(&en->waiting, &calls);

        while (!link_is_empty(&calls)) {
                struct resolve_call *call = link_owner(calls.next, struct resolve_call, link);

                link_remove(&call->link);
                call->done(call, en->answer ? en->answer : &canceled);
        }
}

static struct resolve_answer *resolve_failure(int error, uint32_t ttl) {
        struct resolve_answer *answer = calloc(1, sizeof *answer);
        if (answer) {
                answer->error = error;
                answer->ttl = ttl;
        }
        return answer;
}

/* Keeps the answer (NULL: no memory for one) and tells who waits, at the end of this turn. */
static void resolve_settle(struct entry *en, struct resolve_answer *answer) {
        struct resolver *resolver = en->resolver;

        timer_stop(&en->limit);
        free(en->answer);
        en->answer = answer;
        if (answer)
                en->expires = loop_now(resolver->loop) + answer->ttl * NS_PER_SECOND;
        else
                en->expires = 0;
        link_remove(&en->kept);
        link_append(&resolver->kept, &en->kept);
        loop_defer(resolver->loop, &en->deliver);
}

static void resolve_tidy(struct task *task) {
        struct resolver *resolver = link_owner(task, struct resolver, tidy);
        struct link *l = resolver->kept.next;
        while (resolver->entries.n > resolver->cache_max && l != &resolver->kept) {
                struct entry *en = link_owner(l, struct entry, kept);

                l = l->next;
                if (!en->in_flight && link_is_empty(&en->waiting))
                        drop_entry(en);
        }
}

static struct resolve_answer *answer_of(int status, const struct ares_addrinfo *result) {
        switch (status) {
        case ARES_SUCCESS:
                break;
        case ARES_ENOTFOUND:
        case ARES_ENODATA:
                return resolve_failure(-ENOENT, TTL_ABSENT);
        case ARES_ETIMEOUT:
                return resolve_failure(-ETIMEDOUT, TTL_FAILED);
        default:
                return resolve_failure(-EIO, TTL_FAILED);
        }

        size_t n = 0;
        uint32_t ttl = TTL_MAX;

        for (const struct ares_addrinfo_node *node = result->nodes; node; node = node->ai_next) {
                uint32_t its = node->ai_ttl < TTL_MIN ? TTL_MIN : (uint32_t)node->ai_ttl;

                if (its < ttl)
                        ttl = its;
                n++;
        }

        if (n == 0)
                return resolve_failure(-ENOENT, TTL_ABSENT);
        if (n > RESOLVE_ADDRS_MAX)
                return resolve_failure(-E2BIG, TTL_ABSENT);

        struct resolve_answer *answer = calloc(1, sizeof *answer + n * sizeof answer->addrs[0]);
        if (!answer)
                return NULL;

        answer->ttl = ttl;

        for (const struct ares_addrinfo_node *node = result->nodes; node; node = node->ai_next) {
                uint16_t port;

                if (!addr_from_sockaddr(node->ai_addr, &answer->addrs[answer->n], &port)) {
                        free(answer);
                        return resolve_failure(-EIO, TTL_FAILED);
                }

                answer->n++;
        }

        return answer;
}

static void on_answer(void *argument, int status, int timeouts, struct ares_addrinfo *result) {
        struct entry *en = argument;

        if (timeouts > 0 && (status == ARES_SUCCESS || status == ARES_ENOTFOUND || status == ARES_ENODATA))
                en->resolver->first_is_slow = true;

        en->in_flight = false;
        en->resolver->n_flight--;
        if (!en->resolver->ending)
                resolve_settle(en, answer_of(status, result));
        if (result)
                ares_freeaddrinfo(result);
}

/* The caller's time is over; c-ares may still be trying, and what it finds later is kept for the next. */
static void on_limit(struct timer *timer) {
        struct entry *en = link_owner(timer, struct entry, limit);
        resolve_settle(en, resolve_failure(-ETIMEDOUT, TTL_FAILED));
}

static struct entry *new_entry(struct resolver *resolver, const struct host *name) {
        struct entry *en = calloc(1, sizeof *en);
        if (!en)
                return NULL;

        en->resolver = resolver;
        en->name = *name;
        link_init(&en->kept);
        link_init(&en->waiting);
        timer_init(&en->limit, resolver->loop, on_limit);
        task_init(&en->deliver, resolve_deliver);

        if (map_add(&resolver->entries, host_str(name), en) < 0) {
                free(en);
                return NULL;
        }

        if (resolver->entries.n > resolver->cache_max)
                loop_defer(resolver->loop, &resolver->tidy);

        return en;
}

/* Tells c-ares the order; not while it asks, which it does not allow. */
static int set_servers(struct resolver *resolver) {
        for (size_t i = 0; i < resolver->n_servers; i++)
                resolver->servers[i].next = i + 1 < resolver->n_servers ? &resolver->servers[i + 1] : NULL;
        return ares_set_servers_ports(resolver->channel, resolver->servers);
}

/* The first of the servers goes to the end. */
static void prefer_others(struct resolver *resolver) {
        if (!resolver->first_is_slow || resolver->n_flight > 0)
                return;

        resolver->first_is_slow = false;
        if (resolver->n_servers < 2)
                return;

        struct ares_addr_port_node first = resolver->servers[0];
        memmove(resolver->servers, resolver->servers + 1, (resolver->n_servers - 1) * sizeof first);
        resolver->servers[resolver->n_servers - 1] = first;
        (void)set_servers(resolver); /* fails only for lack of memory, and the old order still works */
}

static void resolve_ask(struct entry *en) {
        struct resolver *resolver = en->resolver;

        prefer_others(resolver);

        if (resolver->n_flight >= resolver->flight_max) {
                resolve_settle(en, resolve_failure(-EBUSY, 0));
                return;
        }

        en->in_flight = true;
        resolver->n_flight++;
        timer_start(&en->limit, resolver->timeout_ns);

        const struct ares_addrinfo_hints hints = { .ai_flags = ARES_AI_NOSORT, .ai_socktype = SOCK_STREAM };
        ares_getaddrinfo(resolver->channel, en->name.name, NULL, &hints, on_answer, en);
        set_tick(resolver);
}

/* calls */

static bool is_fresh(const struct entry *en) {
        return en->answer && en->expires > loop_now(en->resolver->loop);
}

/* What needs no question. The loopback comes first: no file may move it. */
static const struct resolve_answer *fixed_answer(const struct resolver *resolver, const struct host *name) {
        if (host_is_loopback_name(name))
                return resolver->loopback;
        return map_get(&resolver->fixed, host_str(name));
}

const struct resolve_answer *resolve_cached(struct resolver *resolver, const struct host *name) {
        const struct resolve_answer *fixed = fixed_answer(resolver, name);
        if (fixed)
                return fixed;

        struct entry *en = map_get(&resolver->entries, host_str(name));
        if (!en || !is_fresh(en))
                return NULL;

        link_remove(&en->kept);
        link_append(&resolver->kept, &en->kept);

        return en->answer;
}

int resolve_start(struct resolver *resolver, const struct host *name, struct resolve_call *call) {
        link_init(&call->link);
        if (resolver->ending)
                return -ECANCELED; /* a caller that just got the error asks again */

        struct entry *en = map_get(&resolver->entries, host_str(name));
        if (!en && !(en = new_entry(resolver, name)))
                return -ENOMEM;

        const struct resolve_answer *fixed = fixed_answer(resolver, name);
        if (fixed && !en->answer) {
                size_t size = sizeof *fixed + fixed->n * sizeof fixed->addrs[0];

                en->answer = malloc(size);
                if (en->answer)
                        memcpy(en->answer, fixed, size);

                en->expires = UINT64_MAX;
        }

        link_append(&en->waiting, &call->link);

        if (is_fresh(en))
                loop_defer(resolver->loop, &en->deliver);
        else if (!en->in_flight)
                resolve_ask(en);
        else if (!timer_is_running(&en->limit))
                timer_start(&en->limit, resolver->timeout_ns); /* joins a question whose first callers have given up */

        return 0;
}

void resolve_cancel(struct resolve_call *call) {
        link_remove(&call->link);
}

/* setting up */

static int use_servers(struct resolver *resolver, const struct resolve_server *servers, size_t n, struct err *err) {
        if (n > SERVERS_MAX)
                return err_set(err, E2BIG, "at most %d name servers can be used", SERVERS_MAX);

        for (size_t i = 0; i < n; i++) {
                struct ares_addr_port_node *node = &resolver->servers[i];
                bool v4 = servers[i].addr.family == ADDR_V4;

                node->family = v4 ? AF_INET : AF_INET6;
                memcpy(&node->addr, servers[i].addr.bytes, v4 ? 4 : 16);
                node->udp_port = node->tcp_port = servers[i].port ? servers[i].port : 53;
        }

        resolver->n_servers = n;
        int status = set_servers(resolver);

        if (status != ARES_SUCCESS)
                return err_set(err, EINVAL, "cannot use the name servers: %s", ares_strerror(status));

        return 0;
}

/* Those of the system, so that their order can be changed too. */
static void learn_servers(struct resolver *resolver) {
        struct ares_addr_port_node *list = NULL;
        if (ares_get_servers_ports(resolver->channel, &list) != ARES_SUCCESS)
                return;
        for (const struct ares_addr_port_node *node = list; node && resolver->n_servers < SERVERS_MAX;
             node = node->next)
                resolver->servers[resolver->n_servers++] = *node;
        ares_free_data(list);
}

static int open_channel(struct resolver *resolver, struct err *err) {
        char lookups[] = "b"; /* servers only: the host file of the system is not part of the policy */
        struct ares_options options = {
                .flags = ARES_FLAG_NOSEARCH | ARES_FLAG_NOALIASES,
                .timeout = FIRST_TRY_MS,
                .tries = TRIES,
                .lookups = lookups,
                .sock_state_cb = on_sock_state,
                .sock_state_cb_data = resolver,
        };
        int what = ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_LOOKUPS | ARES_OPT_SOCK_STATE_CB |
                   ARES_OPT_NOROTATE;
        int status = ares_init_options(&resolver->channel, &options, what);

        if (status != ARES_SUCCESS)
                return err_set(err, EIO, "cannot start the resolver: %s", ares_strerror(status));

        return 0;
}

static struct resolve_answer *loopback_answer(void) {
        struct resolve_answer *made = calloc(1, sizeof *made + sizeof host_loopback);

        if (!made)
                return NULL;

        made->n = HOST_LOOPBACKS;
        made->ttl = TTL_MAX;
        memcpy(made->addrs, host_loopback, sizeof host_loopback);

        return made;
}

static void resolver_freep(struct resolver **resolver) {
        resolver_free(*resolver);
}

int resolver_new(struct loop *loop, const struct resolver_settings *settings, struct resolver **ret, struct err *err) {
        if (ares_library_init(ARES_LIB_INIT_ALL) != ARES_SUCCESS)
                return err_set(err, EIO, "cannot initialise the resolver library");

        cleanup(resolver_freep) struct resolver *r = calloc(1, sizeof *r);
        if (!r)
                return err_set(err, ENOMEM, "no memory for a resolver");

        r->loop = loop;
        link_init(&r->kept);
        link_init(&r->socks);
        timer_init(&r->tick, loop, on_tick);
        task_init(&r->tidy, resolve_tidy);
        r->timeout_ns = settings->timeout_ns ? settings->timeout_ns : RESOLVE_TIMEOUT_NS;
        r->cache_max = settings->cache_max ? settings->cache_max : 2048;
        r->flight_max = settings->flight_max ? settings->flight_max : 1024;
        r->loopback = loopback_answer();
        if (!r->loopback)
                return err_set(err, ENOMEM, "no memory for the resolver");

        int status = open_channel(r, err);
        if (status == 0 && settings->n_servers)
                status = use_servers(r, settings->servers, settings->n_servers, err);
        else if (status == 0)
                learn_servers(r);

        if (status == 0 && settings->hosts_file && settings->hosts_file[0])
                status = resolve_hosts_load(settings->hosts_file, &r->fixed, err);
        if (status < 0)
                return status;

        *ret = take_ptr(&r);
        return 0;
}

void resolver_free(struct resolver *resolver) {
        if (!resolver)
                return;

        resolver->ending = true;
        if (resolver->channel)
                ares_destroy(resolver->channel); /* ends every question with a callback, closes every socket */

        size_t cursor = 0;
        void *value;

        while (map_next(&resolver->entries, &cursor, NULL, &value)) {
                struct entry *en = value;

                free(en->answer);
                en->answer = NULL;
                resolve_deliver(&en->deliver);
                timer_stop(&en->limit);
                task_cancel(&en->deliver);
                link_remove(&en->kept);
        }

        timer_stop(&resolver->tick);
        task_cancel(&resolver->tidy);
        map_done(&resolver->entries, free);
        map_done(&resolver->fixed, free);
        free(resolver->loopback);
        free(resolver);
}
