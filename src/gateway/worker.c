/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/worker.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "bridge/git_http.h"
#include "gateway/quota.h"
#include "ipc/credentials.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>

/* As many connections leave memory behind that is worth giving back to the system, which the allocator does not do by
 * itself. It takes some milliseconds, so only when most of a crowd has gone, and not before it has gone for a moment.
 */
enum { CROWD = 512 };

bool worker_captures(const struct worker *w) {
        const struct gateway_start *start = &w->gateway->start;

        for (uint32_t i = 0; i < start->n_listeners; i++)
                if (start->listeners[i].kind == LISTENER_TRANSPARENT)
                        return true;
        return false;
}

void worker_left(struct worker *w, unsigned before) {
        if (before > w->crowd)
                w->crowd = before;
        if (w->crowd >= CROWD && before <= w->crowd / 4 && !timer_is_running(&w->trim))
                timer_start(&w->trim, NS_PER_SECOND);
}

void worker_on_trim(struct timer *t) {
        struct worker *w = link_owner(t, struct worker, trim);
        w->crowd = atomic_load_explicit(&w->clients, memory_order_relaxed);
        malloc_trim(0);
}

struct policy_ref *policy_ref_new(struct snapshot *s, uint32_t generation) {
        struct policy_ref *p = calloc(1, sizeof *p);
        if (p) {
                atomic_init(&p->references, 1);
                p->generation = generation;
                p->snapshot = s;
        }
        return p;
}

struct policy_ref *policy_ref_get(struct policy_ref *p) {
        atomic_fetch_add_explicit(&p->references, 1, memory_order_relaxed);
        return p;
}

void policy_ref_put(struct policy_ref *p) {
        if (!p || atomic_fetch_sub_explicit(&p->references, 1, memory_order_acq_rel) != 1)
                return;
        snapshot_close(p->snapshot);
        free(p);
}

void worker_takes_place_back(struct worker *worker) {
        quota_leave(worker->gateway->quota);
        worker_left(worker, atomic_fetch_sub_explicit(&worker->clients, 1, memory_order_relaxed));
}

void client_done(struct client *client) {
        if (!client->worker)
                return;

        stream_close(client->stream);
        worker_takes_place_back(client->worker);
        client->stream = NULL;
        client->worker = NULL;
}

bool worker_has_credential(const struct worker *worker, const struct authority *target) {
        const struct gateway *gateway = worker->gateway;
        if (!gateway->credentials)
                return false;

        struct credential_set at = credentials_at(gateway->credentials, &target->host, target->port);
        return !credential_set_is_empty(&at);
}

void judged_add(struct worker *w, struct judged *j) {
        link_append(&w->judged, &j->link);
}

/* A port of the host has the name that the host has inside (gateway/forward.c). */
static bool is_left_open(const struct snapshot *s, const struct judged *j, struct verdict *ret) {
        struct host host;

        if (host_parse(STR(HOST_INTERNAL), &host, NULL) < 0)
                return false;
        *ret = verdict_target(s, &host, j->target->port);
        return ret->reason != REASON_RATCHET;
}

static bool is_still_allowed(const struct worker *w, const struct judged *j, struct verdict *ret) {
        const struct snapshot *s = worker_snapshot(w);
        if (j->narrow_only)
                return is_left_open(s, j, ret);
        *ret = verdict_target(s, &j->target->host, j->target->port);
        if (verdict_is_agreed(ret, j->asked))
                ret->decision = DECISION_ALLOW;
        if (ret->decision == DECISION_ALLOW && ret->needs_request && j->opaque) {
                ret->decision = DECISION_DENY;
                ret->reason = REASON_NOT_VISIBLE;
        }
        if (ret->decision == DECISION_ALLOW && j->git)
                *ret = verdict_git(s, j->target, j->git->path, j->git->right).verdict;
        else if (ret->decision == DECISION_ALLOW && ret->needs_request && j->method.n > 0)
                *ret = verdict_request(s, &j->target->host, j->target->port, j->method, j->path);
        if (ret->decision != DECISION_ALLOW)
                return false;
        if (j->target->host.kind == HOST_ADDR || j->addr.family == ADDR_NONE)
                return true;
        struct verdict v = verdict_address(s, &j->target->host, &j->addr, j->target->port);
        if (v.decision != DECISION_ALLOW)
                *ret = v;
        return v.decision == DECISION_ALLOW;
}

void worker_set_policy(struct worker *w, struct policy_ref *p) {
        policy_ref_put(w->policy);
        w->policy = p;
        struct link all;
        link_take_all(&w->judged, &all);
        while (!link_is_empty(&all)) {
                struct judged *j = link_owner(all.next, struct judged, link);
                link_remove(&j->link);
                link_append(&w->judged, &j->link);
                struct verdict v;
                if (!is_still_allowed(w, j, &v))
                        j->revoke(j, v);
        }
}

void *worker_main(void *worker) {
        struct worker *w = worker;
        loop_run(w->loop);
        return NULL;
}

void worker_revoke_all(struct worker *w) {
        struct verdict over = { .decision = DECISION_ALLOW, .reason = REASON_NONE, .rule = RULE_NONE };
        while (!link_is_empty(&w->judged)) {
                struct judged *j = link_owner(w->judged.next, struct judged, link);
                link_remove(&j->link);
                j->revoke(j, over);
        }
}
