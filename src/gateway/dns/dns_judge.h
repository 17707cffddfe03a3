/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* One question from packet to answer, whatever it came over. For dns_server.c. */
#include "gateway/wire/dns_wire.h"
#include "gateway/worker.h"

#define DNS_TTL_SYNTHETIC 30u
#define DNS_TTL_REAL_MAX 300u

struct dns_job {
        struct dns_query query; /* its question points into the packet */
        struct host host;
        struct verdict verdict;
        struct dns_answer answer;
        struct addr addrs[DNS_ADDRESSES_MAX];
        uint64_t delay_ns; /* the answer waits so long: a refusal that is repeated without end */
};

enum dns_next {
        DNS_SILENT,  /* no answer */
        DNS_READY,   /* job->answer is the answer */
        DNS_RESOLVE, /* look job->host up for real, then dns_job_resolved() */
};

/* A name that a sandbox has for itself. */
bool dns_is_local_name(const struct worker *worker, struct str name);

/* Parses and judges. Everything that is answered is recorded, by dns_job_record(). */
enum dns_next dns_job_begin(struct worker *worker, struct str packet, struct dns_job *job);
void dns_job_resolved(struct worker *worker, struct dns_job *job, const struct resolve_answer *answer);
void dns_job_record(struct worker *worker, const struct dns_job *job, uint64_t connection);
/* What came is no question, and has no answer: a packet to port 53 of some host, which must be on record all the same.
 */
void dns_record_unread(struct worker *worker, uint64_t connection);
