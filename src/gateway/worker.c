/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/worker.h"

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "bridge/git_http.h"
#include "gateway/load/quota.h"
#include "ipc/credentials.h"

#include <errno.h>
#include <stdlib.h>

/* As many connections leave memory behind that is worth giving back to the system, which the allocator does not do by
 * itself. It takes some milliseconds, so only when most of a crowd has gone, and not before it has gone for a moment.
 */
enum { CROWD = 512 };

bool worker_captures(const struct worker *worker) {
        const struct gateway_start *start = &worker->gateway->start;

        for (uint32_t i = 0; i < start->n_listeners; i++)
                if (start->listeners[i].kind == LISTENER_TRANSPARENT)
                        return true;
        return false;
}

void worker_left(struct worker *worker, unsigned before) {
        if (before > worker->crowd)
                worker->crowd = before;
        if (worker->crowd >= CROWD && before <= worker->crowd / 4 && !timer_is_running(&worker->trim))
                timer_start(&worker->trim, NS_PER_SECOND);
}

void worker_on_trim(struct timer *timer) {
        struct worker *worker = link_owner(timer, struct worker, trim);
        worker->crowd = atomic_load_explicit(&worker->clients, memory_order_relaxed);
        alloc_trim();
}

struct policy_ref *policy_ref_new(struct snapshot *snapshot, uint32_t generation) {
        struct policy_ref *ref = calloc(1, sizeof *ref);
        if (ref) {
                atomic_init(&ref->references, 1);
                ref->generation = generation;
                ref->snapshot = snapshot;
        }
        return ref;
}

struct policy_ref *policy_ref_get(struct policy_ref *ref) {
        atomic_fetch_add_explicit(&ref->references, 1, memory_order_relaxed);
        return ref;
}

void policy_ref_put(struct policy_ref *ref) {
        if (!ref || atomic_fetch_sub_explicit(&ref->references, 1, memory_order_acq_rel) != 1)
                return;
        snapshot_close(ref->snapshot);
        free(ref);
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

void judged_add(struct worker *worker, struct judged *judged) {
        link_append(&worker->judged, &judged->link);
}

/* A port of the host has the name that the host has inside (gateway/forward.c). */
static bool is_left_open(const struct snapshot *snapshot, const struct judged *judged, struct verdict *ret) {
        struct host host;

        *ret = (struct verdict){ .decision = DECISION_DENY, .reason = REASON_RATCHET };
        if (host_parse(STR(HOST_INTERNAL), &host, NULL) < 0)
                return false;
        *ret = verdict_target(snapshot, &host, judged->target->port);
        return ret->reason != REASON_RATCHET;
}

static bool is_still_allowed(const struct worker *worker, const struct judged *judged, struct verdict *ret) {
        const struct snapshot *snapshot = worker_snapshot(worker);

        if (judged->narrow_only)
                return is_left_open(snapshot, judged, ret);

        *ret = verdict_target(snapshot, &judged->target->host, judged->target->port);
        if (verdict_is_agreed(ret, judged->asked))
                ret->decision = DECISION_ALLOW;

        if (ret->decision == DECISION_ALLOW && ret->needs_request && judged->opaque) {
                ret->decision = DECISION_DENY;
                ret->reason = REASON_NOT_VISIBLE;
        }

        if (ret->decision == DECISION_ALLOW && judged->git)
                *ret = verdict_git(snapshot, judged->target, judged->git->path, judged->git->right).verdict;
        else if (ret->decision == DECISION_ALLOW && ret->needs_request && judged->method.n > 0)
                *ret = verdict_request(snapshot, &judged->target->host, judged->target->port, judged->method,
                                       judged->path);

        if (ret->decision != DECISION_ALLOW)
                return false;
        if (judged->target->host.kind == HOST_ADDR || judged->addr.family == ADDR_NONE)
                return true;

        struct verdict verdict = verdict_address(snapshot, &judged->target->host, &judged->addr, judged->target->port);
        if (verdict.decision != DECISION_ALLOW)
                *ret = verdict;

        return verdict.decision == DECISION_ALLOW;
}

void worker_set_policy(struct worker *worker, struct policy_ref *ref) {
        policy_ref_put(worker->policy);
        worker->policy = ref;
        struct link all;
        link_take_all(&worker->judged, &all);

        while (!link_is_empty(&all)) {
                struct judged *judged = link_owner(all.next, struct judged, link);

                link_remove(&judged->link);
                link_append(&worker->judged, &judged->link);
                struct verdict verdict = { .decision = DECISION_DENY };

                if (!is_still_allowed(worker, judged, &verdict))
                        judged->revoke(judged, verdict);
        }
}

int worker_start(struct worker *worker) {
        int r = -pthread_create(&worker->thread, NULL, worker_main, worker);

        atomic_store_explicit(&worker->stage, r < 0 ? WORKER_RESTS : WORKER_RUNS, memory_order_release);
        return r;
}

void worker_tell(struct worker *worker, struct task *task) {
        if (worker_runs(worker))
                loop_post(worker->loop, task);
        else
                task->fn(task);
}

enum { LAST_TURNS = 8 };

/* What was waiting when it was told to stop, perhaps before its first turn, is still judged: attempts are on record. */
void *worker_main(void *worker) {
        struct worker *w = worker;

        loop_run(w->loop);
        for (int i = 0; i < LAST_TURNS; i++)
                loop_turn(w->loop, false);

        return NULL;
}

void worker_revoke_all(struct worker *worker) {
        struct verdict over = { .decision = DECISION_ALLOW, .reason = REASON_NONE, .rule = RULE_NONE };
        while (!link_is_empty(&worker->judged)) {
                struct judged *judged = link_owner(worker->judged.next, struct judged, link);
                link_remove(&judged->link);
                judged->revoke(judged, over);
        }
}
