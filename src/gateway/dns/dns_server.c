/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DNS as the sandbox sees it. For a sandbox (DNS_SYNTHETIC) nothing is ever forwarded: a permitted name is answered
 * with a synthetic address that stands for it, everything else is refused, so no question can carry data out. For
 * containers and guests (DNS_REAL) permitted names are resolved by the gateway's own resolver and addresses that may
 * not be dialled are left out of the answer.
 *
 * UDP: questions are taken and answered in batches, one system call each way for up to 32 of them. TCP: one question
 * after another, in order, with limits of time and size. What must wait for the resolver waits in a struct dns_wait;
 * there are never more than WAITS_MAX of them.
 */
#include "gateway/dns/dns_server.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "gateway/dns/dns_judge.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

enum { BATCH = 32, BATCHES_PER_TURN = 8, PACKET_MAX = 1500, WAITS_MAX = 512, QUESTION_MAX = 259 };
enum { TCP_IN_MAX = 2 * (DNS_QUERY_MAX + 2), TCP_OUT_MAX = 32768, TCP_PER_TURN = 256 };

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
        struct dns_udp *d = wait->udp;
        cleanup(buf_done) struct buf out = BUF(DNS_EDNS_MAX);

        wait->job.answer.max = wait->job.query.udp_size;
        if (dns_answer_write(&out, &wait->job.query, &wait->job.answer) == 0)
                sendto(d->fd, out.p, out.n, MSG_DONTWAIT, (struct sockaddr *)&wait->peer, wait->peer_n);
        dns_job_record(d->worker, &wait->job, 0);
        wait_free(wait);
}

static void on_resolved(struct resolve_call *c, const struct resolve_answer *a) {
        struct dns_wait *wait = link_owner(c, struct dns_wait, call);

        dns_job_resolved(wait->udp->worker, &wait->job, a);
        wait_answer(wait);
}

static void on_paced(struct timer *t) {
        struct dns_wait *wait = link_owner(t, struct dns_wait, pacing);

        wait->udp->worker->pace.held--;
        wait_answer(wait);
}

/* NULL: too many wait already, or there is no memory for one more. */
static struct dns_wait *wait_new(struct dns_udp *d, const struct msghdr *from) {
        struct dns_wait *wait = d->n_waits < WAITS_MAX ? calloc(1, sizeof *wait) : NULL;
        if (!wait)
                return NULL;
        wait->udp = d;
        wait->job = d->job;
        memcpy(wait->question, d->job.query.question.p, d->job.query.question.n);
        wait->job.query.question.p = wait->question;
        memcpy(&wait->peer, from->msg_name, from->msg_namelen);
        wait->peer_n = from->msg_namelen;
        wait->call.done = on_resolved;
        link_init(&wait->call.link);
        timer_init(&wait->pacing, d->worker->loop, on_paced);
        link_append(&d->waits, &wait->link);
        d->n_waits++;
        return wait;
}

static bool answer_later(struct dns_udp *d, const struct msghdr *from) {
        struct dns_wait *wait = wait_new(d, from);

        if (!wait)
                return false;
        d->worker->pace.held++;
        timer_start(&wait->pacing, wait->job.delay_ns);
        return true;
}

static bool resolve_later(struct dns_udp *d, const struct msghdr *from) {
        struct dns_wait *wait = wait_new(d, from);

        if (!wait)
                return false;
        if (resolve_start(d->worker->resolver, &wait->job.host, &wait->call) == 0)
                return true;
        wait_free(wait);
        return false;
}

/* Answers question i; true when message *n_answers was filled. */
static bool serve_packet(struct dns_udp *d, unsigned i, unsigned n_answers) {
        struct mmsghdr *in = &d->in[i];
        struct dns_job *job = &d->job;
        if (in->msg_hdr.msg_flags & MSG_TRUNC)
                return false;
        switch (dns_job_begin(d->worker, str_n(d->packets[i], in->msg_len), job)) {
        case DNS_SILENT:
                return false;
        case DNS_RESOLVE:
                if (resolve_later(d, &in->msg_hdr))
                        return false;
                job->answer.rcode = DNS_SERVFAIL;
                job->verdict.decision = DECISION_DENY;
                job->verdict.reason = REASON_LIMIT;
                break;
        case DNS_READY:
                if (job->delay_ns && answer_later(d, &in->msg_hdr))
                        return false;
                break;
        }
        size_t before = d->out.n;
        job->answer.max = job->query.udp_size;
        if (dns_answer_write(&d->out, &job->query, &job->answer) < 0)
                return false;
        dns_job_record(d->worker, job, 0);
        d->out_parts[n_answers] = (struct iovec){ d->out.p + before, d->out.n - before };
        d->answers[n_answers].msg_hdr = (struct msghdr){ .msg_name = &d->peers[i],
                                                         .msg_namelen = in->msg_hdr.msg_namelen,
                                                         .msg_iov = &d->out_parts[n_answers],
                                                         .msg_iovlen = 1 };
        return true;
}

static void send_answers(struct dns_udp *d, unsigned n) {
        for (unsigned at = 0; at < n;) {
                int sent = sendmmsg(d->fd, d->answers + at, n - at, MSG_DONTWAIT);
                if (sent < 0 && errno == EINTR)
                        continue;
                /* One that cannot be delivered is left out, as the network would; the others still go. */
                at += sent > 0 ? (unsigned)sent : 1;
        }
}

static int serve_batch(struct dns_udp *d) {
        for (unsigned i = 0; i < BATCH; i++)
                d->in[i].msg_hdr.msg_namelen = sizeof d->peers[i];
        int got = recvmmsg(d->fd, d->in, BATCH, MSG_DONTWAIT, NULL);
        unsigned n = 0;
        buf_clear(&d->out);
        for (int i = 0; i < got; i++)
                n += serve_packet(d, (unsigned)i, n);
        send_answers(d, n);
        return got;
}

static void on_packets(struct watch *w, unsigned ready) {
        (void)ready;
        struct dns_udp *d = link_owner(w, struct dns_udp, watch);
        for (int i = 0; i < BATCHES_PER_TURN; i++)
                if (serve_batch(d) < BATCH)
                        return;
}

int dns_udp_new(struct worker *w, int fd, struct dns_udp **ret, struct err *e) {
        struct dns_udp *d = calloc(1, sizeof *d);
        if (!d)
                return err_set(e, ENOMEM, "no memory for the DNS server");
        d->worker = w;
        d->fd = fd;
        d->out = BUF(BATCH * DNS_EDNS_MAX);
        link_init(&d->waits);
        for (unsigned i = 0; i < BATCH; i++) {
                d->in_parts[i] = (struct iovec){ d->packets[i], sizeof d->packets[i] };
                d->in[i].msg_hdr =
                    (struct msghdr){ .msg_name = &d->peers[i], .msg_iov = &d->in_parts[i], .msg_iovlen = 1 };
        }
        int r = buf_reserve(&d->out, BATCH * DNS_EDNS_MAX);
        if (r == 0)
                r = watch_start_level(w->loop, &d->watch, fd, WATCH_READ, on_packets);
        if (r < 0) {
                buf_done(&d->out);
                free(d);
                return err_set(e, -r, "cannot serve DNS over UDP");
        }
        *ret = d;
        return 0;
}

void dns_udp_free(struct dns_udp *d) {
        if (!d)
                return;
        watch_stop(&d->watch);
        while (!link_is_empty(&d->waits)) {
                struct dns_wait *wait = link_owner(d->waits.next, struct dns_wait, link);
                resolve_cancel(&wait->call);
                if (timer_is_running(&wait->pacing))
                        d->worker->pace.held--;
                timer_stop(&wait->pacing);
                wait_free(wait);
        }
        buf_done(&d->out);
        free(d);
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
};

static void tcp_destroy(struct task *t) {
        struct dns_tcp *s = link_owner(t, struct dns_tcp, destroy);
        buf_done(&s->in);
        buf_done(&s->out);
        free(s);
}

static void tcp_end(struct dns_tcp *s) {
        if (s->gone)
                return;
        s->gone = true;
        if (s->resolving)
                resolve_cancel(&s->call);
        timer_stop(&s->limit);
        task_cancel(&s->later);
        client_done(&s->client);
        loop_defer(s->worker->loop, &s->destroy);
}

static void on_tcp_limit(struct timer *t) {
        tcp_end(link_owner(t, struct dns_tcp, limit));
}

static int tcp_answer(struct dns_tcp *s) {
        size_t before = s->out.n;
        s->job.answer.max = DNS_QUERY_MAX;
        int r = buf_append(&s->out, STR("\0\0"));
        if (r == 0)
                r = dns_answer_write(&s->out, &s->job.query, &s->job.answer);
        if (r < 0)
                return r;
        size_t n = s->out.n - before - 2;
        s->out.p[before] = (char)(n >> 8);
        s->out.p[before + 1] = (char)n;
        dns_job_record(s->worker, &s->job, s->client.number);
        return 0;
}

static void tcp_run(struct dns_tcp *s);

static void on_tcp_resolved(struct resolve_call *c, const struct resolve_answer *a) {
        struct dns_tcp *s = link_owner(c, struct dns_tcp, call);
        s->resolving = false;
        dns_job_resolved(s->worker, &s->job, a);
        size_t length = (size_t)(uint8_t)s->in.p[0] << 8 | (uint8_t)s->in.p[1];
        if (tcp_answer(s) < 0) {
                tcp_end(s);
                return;
        }
        buf_consume(&s->in, length + 2); /* kept until now: the question is echoed from it */
        tcp_run(s);
}

/* The first question in the buffer. 1: answered, 0: not complete or waiting, negative: end. */
static int tcp_serve_one(struct dns_tcp *s) {
        if (s->in.n < 2)
                return 0;
        size_t length = (size_t)(uint8_t)s->in.p[0] << 8 | (uint8_t)s->in.p[1];
        if (length > DNS_QUERY_MAX)
                return -EMSGSIZE;
        if (s->in.n < length + 2)
                return 0;
        switch (dns_job_begin(s->worker, str_n(s->in.p + 2, length), &s->job)) {
        case DNS_SILENT:
                return -EBADMSG;
        case DNS_RESOLVE:
                s->resolving = true;
                s->call.done = on_tcp_resolved;
                return resolve_start(s->worker->resolver, &s->job.host, &s->call);
        case DNS_READY:
                break;
        }
        int r = tcp_answer(s);
        if (r < 0)
                return r;
        buf_consume(&s->in, length + 2);
        return 1;
}

static int tcp_read(struct dns_tcp *s) {
        char bytes[2048];
        size_t room = s->in.max - s->in.n;
        ssize_t got = stream_read(s->client.stream, bytes, room < sizeof bytes ? room : sizeof bytes);
        if (got == 0)
                return -EPIPE; /* no more questions, and all are answered and written */
        if (got < 0)
                return (int)got;
        int r = buf_append(&s->in, str_n(bytes, (size_t)got));
        return r < 0 ? r : 1;
}

static int tcp_write(struct dns_tcp *s) {
        while (s->out.n > 0) {
                ssize_t put = stream_write(s->client.stream, buf_str(&s->out));
                if (put < 0)
                        return (int)put;
                buf_consume(&s->out, (size_t)put);
        }
        return 0;
}

/* Answers what is there, reads more only when the answers were taken. After its share the others have their turn. */
static void tcp_run(struct dns_tcp *s) {
        int r = 1;
        for (unsigned n = 0; r > 0 && !s->resolving; n++) {
                if (n == TCP_PER_TURN) {
                        loop_soon(s->worker->loop, &s->later);
                        break;
                }
                r = tcp_serve_one(s);
                if (r > 0 && s->out.n < TCP_OUT_MAX / 2)
                        continue;
                int w = tcp_write(s);
                if (w < 0)
                        r = w;
                else if (r == 0 && !s->resolving)
                        r = tcp_read(s);
        }
        if (r < 0 && r != -EAGAIN)
                tcp_end(s);
        else if (!s->gone)
                timer_start(&s->limit, s->worker->limits.header_ns);
}

static void on_tcp_later(struct task *t) {
        tcp_run(link_owner(t, struct dns_tcp, later));
}

static void on_tcp_ready(struct stream *stream, void *owner) {
        (void)stream;
        struct dns_tcp *s = owner;
        if (s->out.n > 0 && tcp_write(s) == -EAGAIN)
                return;
        tcp_run(s);
}

int dns_tcp_start(const struct client *client) {
        struct dns_tcp *s = calloc(1, sizeof *s);
        if (!s)
                return client_has_no_room(client);
        s->client = *client;
        s->worker = client->worker;
        s->in = BUF(TCP_IN_MAX);
        s->out = BUF(TCP_OUT_MAX);
        task_init(&s->destroy, tcp_destroy);
        task_init(&s->later, on_tcp_later);
        timer_init(&s->limit, s->worker->loop, on_tcp_limit);
        stream_set_owner(s->client.stream, on_tcp_ready, s);
        tcp_run(s);
        return 0;
}
