/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/dns/dns_judge.h"

#include "base/bounds.h"
#include "gateway/dns/synthetic.h"
#include "gateway/gate.h"

#include <errno.h>

static enum dns_next judge_say(struct dns_job *job, enum dns_rcode rcode, enum reason reason) {
        job->answer.rcode = rcode;
        if (reason != REASON_NONE) {
                job->verdict.decision = DECISION_DENY;
                job->verdict.reason = (uint8_t)reason;
        }
        return DNS_READY;
}

/* Names that RFC 6761 reserves and, for a sandbox (others have their own host name), the sandbox's host name: many
 * programs look up their own host when they start. */
bool dns_is_local_name(const struct worker *worker, struct str name) {
        return str_eq(name, STR("localhost")) || str_ends(name, STR(".localhost")) ||
               (worker->gateway->synthetic && str_eq(name, STR(HOST_SANDBOX)));
}

/* The sandbox's own loopback, which needs no gateway: said here so that no resolver library is puzzled. */
static enum dns_next answer_local(struct dns_job *job) {
        job->verdict.decision = DECISION_ALLOW;
        job->verdict.reason = REASON_NONE; /* nothing to record */
        job->answer.addrs = host_loopback;
        job->answer.n_addrs = HOST_LOOPBACKS;
        job->answer.ttl = DNS_TTL_SYNTHETIC;
        return DNS_READY;
}

static enum dns_next answer_synthetic(struct worker *worker, struct dns_job *job) {
        int r = synthetic_bind(worker->gateway->synthetic, &job->host, loop_now(worker->loop), &job->addrs[0],
                               &job->addrs[1]);
        if (r < 0)
                return judge_say(job, DNS_SERVFAIL,
                                 REASON_LIMIT); /* never an address that may still mean another name */
        job->answer.addrs = job->addrs;
        job->answer.n_addrs = 2;
        job->answer.ttl = DNS_TTL_SYNTHETIC;
        return DNS_READY;
}

/* The name is permitted, or may be asked for; the type decides what there is to say. */
static enum dns_next answer_permitted(struct worker *worker, struct dns_job *job) {
        uint16_t type = job->query.type;
        if (type == DNS_AXFR || type == DNS_AXFR - 1)
                return judge_say(job, DNS_REFUSED, REASON_PROTOCOL);
        if (type != DNS_A && type != DNS_AAAA)
                return DNS_READY; /* NODATA: also for HTTPS and SVCB, which would offer other ways than the ones judged
                                   */
        if (worker->gateway->synthetic)
                return answer_synthetic(worker, job);
        if (host_is_loopback_name(&job->host))
                return DNS_READY; /* NODATA: the proxy dials it; the client's own loopback would be another machine's */

        const struct resolve_answer *known = resolve_cached(worker->resolver, &job->host);
        if (!known)
                return DNS_RESOLVE;

        dns_job_resolved(worker, job, known);
        return DNS_READY;
}

static enum dns_next judge_name(struct worker *worker, struct dns_job *job) {
        struct dns_query *query = &job->query;
        if (query->class != 1)
                return judge_say(job, DNS_REFUSED, REASON_PROTOCOL);
        if (!query->plain || host_parse(str_n(query->name, query->name_n), &job->host, NULL) < 0 ||
            job->host.kind != HOST_NAME)
                return judge_say(job, DNS_REFUSED, REASON_BAD_NAME);
        if (dns_is_local_name(worker, host_str(&job->host)))
                return answer_local(job);

        enum reason closed = gate_is_closed(worker);
        if (closed != REASON_NONE)
                return judge_say(job, DNS_SERVFAIL, closed);

        job->verdict = verdict_name(worker_snapshot(worker), &job->host);

        /* A name that must be approved first may be answered with an address of ours, but never looked up outside. */
        bool may_wait =
            job->verdict.decision == DECISION_ASK && worker->gateway->synthetic && worker->gateway->start.can_ask;
        if (job->verdict.decision != DECISION_ALLOW && !may_wait) {
                /* In a sandbox there is no other server to ask, and REFUSED looks like a passing fault to resolvers
                 * (EAI_AGAIN), which programs try again without end. */
                bool final = worker_captures(worker);

                if (final && gate_is_paced(worker, &job->verdict))
                        job->delay_ns = pace_delay(&worker->pace, &job->host, loop_now(worker->loop));
                else
                        job->delay_ns = 0;
                return judge_say(job, final ? DNS_NXDOMAIN : DNS_REFUSED, job->verdict.reason);
        }

        return answer_permitted(worker, job);
}

enum dns_next dns_job_begin(struct worker *worker, struct str packet, struct dns_job *job) {
        enum dns_rcode rcode;

        if (!dns_query_parse(packet, &job->query, &rcode))
                return DNS_SILENT;

        job->host.name_n = 0;
        job->verdict = (struct verdict){ .rule = RULE_NONE };
        job->answer = (struct dns_answer){ .rcode = DNS_NOERROR };
        job->delay_ns = 0;

        if (rcode == DNS_NOERROR)
                return judge_name(worker, job);

        return judge_say(job, rcode, REASON_PROTOCOL);
}

void dns_job_resolved(struct worker *worker, struct dns_job *job, const struct resolve_answer *answer) {
        if (answer->error < 0) {
                judge_say(job, answer->error == -ENOENT ? DNS_NXDOMAIN : DNS_SERVFAIL, REASON_RESOLVE);
                return;
        }

        size_t n = 0;
        struct verdict last = { 0 };

        for (size_t i = 0; i < answer->n && n < DNS_ADDRESSES_MAX; i++) {
                struct verdict verdict =
                    verdict_address(worker_snapshot(worker), &job->host, &answer->addrs[i], PORT_ANY);
                if (verdict.decision == DECISION_ALLOW)
                        job->addrs[n++] = answer->addrs[i];
                else
                        last = verdict;
        }

        if (n == 0 && answer->n > 0) {
                job->verdict = last;
                judge_say(job, DNS_REFUSED, last.reason);
                return;
        }

        job->answer.addrs = job->addrs;
        job->answer.n_addrs = n;
        job->answer.ttl = min_of(answer->ttl, DNS_TTL_REAL_MAX);
}

void dns_job_record(struct worker *worker, const struct dns_job *job, uint64_t connection) {
        if (job->verdict.decision == DECISION_ALLOW && job->verdict.reason == REASON_NONE)
                return;

        char type[DNS_TYPE_TEXT_MAX];
        struct event ev = {
                .kind = EVENT_DNS,
                .via = VIA_DNS,
                .scheme = connection ? SCHEME_TCP : SCHEME_UDP,
                .connection = connection,
                .rule = job->verdict.rule,
                .generation = worker->policy->generation,
                .reason = job->verdict.reason,
                .status = (uint16_t)job->answer.rcode,
                .allowed = job->verdict.decision != DECISION_DENY,
                .domain = str_n(job->query.name, job->query.name_n),
        };

        if (job->host.name_n)
                ev.domain = host_str(&job->host);
        if (job->query.has_question) {
                dns_type_text(job->query.type, type);
                ev.method = str_of(type);
        }

        report_event(&worker->report, &ev);
}

void dns_record_unread(struct worker *worker, uint64_t connection) {
        struct event ev = {
                .kind = EVENT_DNS,
                .via = VIA_DNS,
                .scheme = connection ? SCHEME_TCP : SCHEME_UDP,
                .connection = connection,
                .rule = RULE_NONE,
                .generation = worker->policy->generation,
                .reason = REASON_PROTOCOL,
                .status = DNS_FORMERR,
        };

        report_event(&worker->report, &ev);
}
