/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DNS as the sandbox sees it. For a sandbox (DNS_SYNTHETIC) nothing is ever forwarded: a permitted name is answered
 * with a synthetic address that stands for it, everything else is refused, so no question can carry data out. For
 * containers and guests (DNS_REAL) permitted names are resolved by the gateway's own resolver and addresses that may
 * not be dialled are left out of the answer.
 *
 * UDP: questions are taken and answered in batches, one system call each way for up to 32 of them. TCP: one question
 * after another, in order, with limits of time and size. A question that needs the resolver waits in a struct dns_wait;
 * there are never more than WAITS_MAX of them.
 */
#include "gateway/dns/dns_server.h"

#include "base/bounds.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "gateway/dns/dns_judge.h"
#include "gateway/gate.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

enum { BATCH = 32, BATCHES_PER_TURN = 8, PACKET_MAX = 1500, WAITS_MAX = 512, QUESTION_MAX = 259 };
enum { TCP_IN_MAX = 2 * (DNS_QUERY_MAX + 2), TCP_OUT_MAX = 32768, TCP_PER_TURN = 256 };

/* A question whose name is not looked up, or not to the end. */
static void job_give_up(struct dns_job *job, enum reason reason) {
        job->answer.rcode = DNS_SERVFAIL;
        job->verdict.decision = DECISION_DENY;
        job->verdict.reason = (uint8_t)reason;
}

/* --- UDP --- */

struct dns_udp {
        struct worker *worker;
        int fd;
        struct watch watch;
        struct link waits;
        size_t n_waits;
        struct dns_job job;
        struct buf out; /* answers of one batch, one after another; never grows beyond what it has from the start */
        struct mmsghdr in[BATCH], answers[BATCH];
        struct iovec in_parts[BATCH], out_parts[BATCH];
        struct sockaddr_storage peers[BATCH];
        char packets[BATCH][PACKET_MAX];
};

/* A question that waits for the resolver, with a copy of what it needs. */
struct dns_wait {
        struct link link;
        struct resolve_call call;
        struct timer pacing; /* or for its time, when it was refused too often */
        struct dns_udp *udp;
        struct dns_job job;
        struct sockaddr_storage peer;
        socklen_t peer_n;
        char question[QUESTION_MAX];
};

static void wait_free(struct dns_wait *wait) {
        link_remove(&wait->link);
        wait->udp->n_waits--;
        free(wait);
}

static void wait_answer(struct dns_wait *wait) {
        struct dns_udp *udp = wait->udp;
        cleanup(buf_done) struct buf out = BUF(DNS_EDNS_MAX);

        wait->job.answer.max = wait->job.query.udp_size;
        if (dns_answer_write(&out, &wait->job.query, &wait->job.answer) == 0)
                sendto(udp->fd, out.p, out.n, MSG_DONTWAIT, (struct sockaddr *)&wait->peer, wait->peer_n);

        dns_job_record(udp->worker, &wait->job, 0);
        wait_free(wait);
}

static void on_resolved(struct resolve_call *c, const struct resolve_answer *answer) {
        struct dns_wait *wait = link_owner(c, struct dns_wait, call);

        dns_job_resolved(wait->udp->worker, &wait->job, answer);
        wait_answer(wait);
}

static void on_paced(struct timer *timer) {
        struct dns_wait *wait = link_owner(timer, struct dns_wait, pacing);

        wait->udp->worker->pace.held--;
        wait_answer(wait);
}

/* NULL: too many wait already, or there is no memory for one more. */
static struct dns_wait *wait_new(struct dns_udp *udp, const struct msghdr *from) {
        struct dns_wait *wait = udp->n_waits < WAITS_MAX ? calloc(1, sizeof *wait) : NULL;
        if (!wait)
                return NULL;

        wait->udp = udp;
        wait->job = udp->job;
        memcpy(wait->question, udp->job.query.question.p, udp->job.query.question.n);
        wait->job.query.question.p = wait->question;
        memcpy(&wait->peer, from->msg_name, from->msg_namelen);
        wait->peer_n = from->msg_namelen;
        wait->call.done = on_resolved;
        link_init(&wait->call.link);
        timer_init(&wait->pacing, udp->worker->loop, on_paced);
        link_append(&udp->waits, &wait->link);
        udp->n_waits++;

        return wait;
}

static bool answer_later(struct dns_udp *udp, const struct msghdr *from) {
        struct dns_wait *wait = wait_new(udp, from);

        if (!wait)
                return false;
        udp->worker->pace.held++;
        timer_start(&wait->pacing, wait->job.delay_ns);
        return true;
}

static bool resolve_later(struct dns_udp *udp, const struct msghdr *from) {
        struct dns_wait *wait = wait_new(udp, from);

        if (!wait)
                return false;
        if (resolve_start(udp->worker->resolver, &wait->job.host, &wait->call) == 0)
                return true;

        wait_free(wait);
        return false;
}

static bool is_stranger(const struct dns_udp *udp, unsigned i) {
        struct addr client;
        uint16_t port;

        return udp->worker->gateway->start.n_clients &&
               (!addr_from_sockaddr((const struct sockaddr *)&udp->peers[i], &client, &port) ||
                !gate_is_for(udp->worker->gateway, &client));
}

/* Answers question i; true when message *n_answers was filled. */
static bool serve_packet(struct dns_udp *udp, unsigned i, unsigned n_answers) {
        struct mmsghdr *in = &udp->in[i];
        struct dns_job *job = &udp->job;

        if (is_stranger(udp, i))
                return false;
        if (in->msg_hdr.msg_flags & MSG_TRUNC) {
                dns_record_unread(udp->worker, 0);
                return false;
        }

        switch (dns_job_begin(udp->worker, str_n(udp->packets[i], in->msg_len), job)) {
        case DNS_SILENT:
                dns_record_unread(udp->worker, 0);
                return false;
        case DNS_RESOLVE:
                if (resolve_later(udp, &in->msg_hdr))
                        return false;
                job_give_up(job, REASON_LIMIT);
                break;
        case DNS_READY:
                if (job->delay_ns && answer_later(udp, &in->msg_hdr))
                        return false;
                break;
        }

        size_t before = udp->out.n;
        job->answer.max = job->query.udp_size;
        if (dns_answer_write(&udp->out, &job->query, &job->answer) < 0)
                return false;

        dns_job_record(udp->worker, job, 0);
        udp->out_parts[n_answers] = (struct iovec){ udp->out.p + before, udp->out.n - before };
        udp->answers[n_answers].msg_hdr = (struct msghdr){ .msg_name = &udp->peers[i],
                                                           .msg_namelen = in->msg_hdr.msg_namelen,
                                                           .msg_iov = &udp->out_parts[n_answers],
                                                           .msg_iovlen = 1 };

        return true;
}

static void send_answers(struct dns_udp *udp, unsigned n) {
        for (unsigned at = 0; at < n;) {
                int sent = sendmmsg(udp->fd, udp->answers + at, n - at, MSG_DONTWAIT);
                if (sent < 0 && errno == EINTR)
                        continue;
                /* One that cannot be delivered is left out, as the network would; the others still go. */
                at += sent > 0 ? (unsigned)sent : 1;
        }
}

static int serve_batch(struct dns_udp *udp) {
        for (unsigned i = 0; i < BATCH; i++)
                udp->in[i].msg_hdr.msg_namelen = sizeof udp->peers[i];

        int got = recvmmsg(udp->fd, udp->in, BATCH, MSG_DONTWAIT, NULL);
        unsigned n = 0;
        buf_clear(&udp->out);

        for (int i = 0; i < got; i++)
                n += serve_packet(udp, (unsigned)i, n);

        send_answers(udp, n);
        return got;
}

static void on_packets(struct watch *w, unsigned ready) {
        (void)ready;
        struct dns_udp *udp = link_owner(w, struct dns_udp, watch);
        for (int i = 0; i < BATCHES_PER_TURN; i++)
                if (serve_batch(udp) < BATCH)
                        return;
}

int dns_udp_new(struct worker *worker, int fd, struct dns_udp **ret, struct err *err) {
        struct dns_udp *udp = calloc(1, sizeof *udp);
        if (!udp)
                return err_set(err, ENOMEM, "no memory for the DNS server");

        udp->worker = worker;
        udp->fd = fd;
        udp->out = BUF(BATCH * DNS_EDNS_MAX);
        link_init(&udp->waits);

        for (unsigned i = 0; i < BATCH; i++) {
                udp->in_parts[i] = (struct iovec){ udp->packets[i], sizeof udp->packets[i] };
                udp->in[i].msg_hdr =
                    (struct msghdr){ .msg_name = &udp->peers[i], .msg_iov = &udp->in_parts[i], .msg_iovlen = 1 };
        }

        int r = buf_reserve(&udp->out, BATCH * DNS_EDNS_MAX);
        if (r == 0)
                r = watch_start_level(worker->loop, &udp->watch, fd, WATCH_READ, on_packets);

        if (r < 0) {
                buf_done(&udp->out);
                free(udp);
                return err_set(err, -r, "cannot serve DNS over UDP");
        }

        *ret = udp;
        return 0;
}

void dns_udp_free(struct dns_udp *dns_udp) {
        if (!dns_udp)
                return;

        watch_stop(&dns_udp->watch);

        while (!link_is_empty(&dns_udp->waits)) {
                struct dns_wait *wait = link_owner(dns_udp->waits.next, struct dns_wait, link);

                resolve_cancel(&wait->call);
                if (timer_is_running(&wait->pacing))
                        dns_udp->worker->pace.held--;

                timer_stop(&wait->pacing);
                wait_free(wait);
        }

        buf_done(&dns_udp->out);
        free(dns_udp);
}

/* --- TCP --- */

struct dns_tcp {
        struct client client;
        struct worker *worker;
        struct buf in, out;
        struct timer limit;
        struct task destroy, later;
        struct resolve_call call;
        struct dns_job job; /* the question that is being resolved */
        bool resolving, gone;
        bool asked; /* the last thing that came was a question */
};

static void tcp_destroy(struct task *task) {
        struct dns_tcp *tcp = link_owner(task, struct dns_tcp, destroy);
        buf_done(&tcp->in);
        buf_done(&tcp->out);
        free(tcp);
}

static void tcp_end(struct dns_tcp *tcp) {
        if (tcp->gone)
                return;

        tcp->gone = true;
        if (tcp->resolving) {
                resolve_cancel(&tcp->call);
                job_give_up(&tcp->job, REASON_TIMEOUT);
                dns_job_record(tcp->worker, &tcp->job, tcp->client.number);
        }

        if (!tcp->asked)
                dns_record_unread(tcp->worker, tcp->client.number);

        timer_stop(&tcp->limit);
        task_cancel(&tcp->later);
        client_done(&tcp->client);
        loop_defer(tcp->worker->loop, &tcp->destroy);
}

static void on_tcp_limit(struct timer *timer) {
        tcp_end(link_owner(timer, struct dns_tcp, limit));
}

static int tcp_answer(struct dns_tcp *tcp) {
        size_t before = tcp->out.n;

        tcp->job.answer.max = DNS_QUERY_MAX;
        int r = buf_append(&tcp->out, STR("\0\0"));
        if (r == 0)
                r = dns_answer_write(&tcp->out, &tcp->job.query, &tcp->job.answer);
        if (r < 0)
                return r;

        size_t n = tcp->out.n - before - 2;
        tcp->out.p[before] = (char)(n >> 8);
        tcp->out.p[before + 1] = (char)n;
        dns_job_record(tcp->worker, &tcp->job, tcp->client.number);

        return 0;
}

static void tcp_run(struct dns_tcp *tcp);

static void on_tcp_resolved(struct resolve_call *c, const struct resolve_answer *answer) {
        struct dns_tcp *tcp = link_owner(c, struct dns_tcp, call);

        tcp->resolving = false;
        dns_job_resolved(tcp->worker, &tcp->job, answer);
        size_t length = (size_t)(uint8_t)tcp->in.p[0] << 8 | (uint8_t)tcp->in.p[1];

        if (tcp_answer(tcp) < 0) {
                tcp_end(tcp);
                return;
        }

        buf_consume(&tcp->in, length + 2); /* kept until now: the question is echoed from it */
        tcp_run(tcp);
}

/* The first question in the buffer. 1: answered, 0: not complete or waiting, negative: end. */
static int tcp_serve_one(struct dns_tcp *tcp) {
        if (tcp->in.n < 2)
                return 0;

        size_t length = (size_t)(uint8_t)tcp->in.p[0] << 8 | (uint8_t)tcp->in.p[1];
        tcp->asked = false;
        if (length > DNS_QUERY_MAX)
                return -EMSGSIZE;
        if (tcp->in.n < length + 2)
                return 0;

        switch (dns_job_begin(tcp->worker, str_n(tcp->in.p + 2, length), &tcp->job)) {
        case DNS_SILENT:
                return -EBADMSG;
        case DNS_RESOLVE:
                tcp->asked = tcp->resolving = true;
                tcp->call.done = on_tcp_resolved;
                if (resolve_start(tcp->worker->resolver, &tcp->job.host, &tcp->call) == 0)
                        return 0;

                tcp->resolving = false;
                job_give_up(&tcp->job, REASON_LIMIT);
                break;
        case DNS_READY:
                break;
        }

        tcp->asked = true;
        int r = tcp_answer(tcp);
        if (r < 0)
                return r;

        buf_consume(&tcp->in, length + 2);
        return 1;
}

static int tcp_read(struct dns_tcp *tcp) {
        char bytes[2048];
        size_t room = tcp->in.max - tcp->in.n;
        ssize_t got = stream_read(tcp->client.stream, bytes, min_of(room, sizeof bytes));
        if (got == 0)
                return -EPIPE; /* no more questions, and all are answered and written */
        if (got < 0)
                return (int)got;

        int r = buf_append(&tcp->in, str_n(bytes, (size_t)got));
        if (r < 0)
                return r;

        return 1;
}

static int tcp_write(struct dns_tcp *tcp) {
        while (tcp->out.n > 0) {
                ssize_t put = stream_write(tcp->client.stream, buf_str(&tcp->out));
                if (put < 0)
                        return (int)put;
                buf_consume(&tcp->out, (size_t)put);
        }
        return 0;
}

/* Answers what is there, reads more only when the answers were taken. After its share the others have their turn. */
static void tcp_run(struct dns_tcp *tcp) {
        int r = 1;
        for (unsigned n = 0; r > 0 && !tcp->resolving; n++) {
                if (n == TCP_PER_TURN) {
                        loop_soon(tcp->worker->loop, &tcp->later);
                        break;
                }

                r = tcp_serve_one(tcp);
                if (r > 0 && tcp->out.n < TCP_OUT_MAX / 2)
                        continue;

                int w = tcp_write(tcp);
                if (w < 0)
                        r = w;
                else if (r == 0 && !tcp->resolving)
                        r = tcp_read(tcp);
        }

        if (r < 0 && r != -EAGAIN)
                tcp_end(tcp);
        else if (!tcp->gone)
                timer_start(&tcp->limit, tcp->worker->limits.header_ns);
}

static void on_tcp_later(struct task *task) {
        tcp_run(link_owner(task, struct dns_tcp, later));
}

static void on_tcp_ready(struct stream *stream, void *owner) {
        (void)stream;
        struct dns_tcp *tcp = owner;
        if (tcp->out.n > 0 && tcp_write(tcp) == -EAGAIN)
                return;
        tcp_run(tcp);
}

int dns_tcp_start(const struct client *client) {
        struct dns_tcp *tcp = calloc(1, sizeof *tcp);
        if (!tcp)
                return client_has_no_room(client);

        tcp->client = *client;
        tcp->worker = client->worker;
        tcp->in = BUF(TCP_IN_MAX);
        tcp->out = BUF(TCP_OUT_MAX);
        task_init(&tcp->destroy, tcp_destroy);
        task_init(&tcp->later, on_tcp_later);
        timer_init(&tcp->limit, tcp->worker->loop, on_tcp_limit);
        stream_set_owner(tcp->client.stream, on_tcp_ready, tcp);
        tcp_run(tcp);

        return 0;
}
