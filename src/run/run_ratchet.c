/* SPDX-License-Identifier: Apache-2.0 */
#include "run/run_ratchet.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/escape.h"
#include "base/fd.h"
#include "base/log.h"
#include "control/live.h"
#include "policy/judge/ratchet.h"
#include "run/run_internal.h"
#include "sandbox/answer.h"
#include "sandbox/marks.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SHOWN = 300 };

void run_ratchet_done(struct run_ratchet *ratchet) {
        close_fd(&ratchet->judged);
        vec_done(&ratchet->held);
        *ratchet = RUN_RATCHET_NONE;
}

/* --- records --- */

static void tell_people(const struct run *run, const char *say, struct str what) {
        cleanup(buf_done) struct buf shown = BUF(4 * SHOWN);

        if (run->q->quiet || run->q->link || terminal_is_drawn_on(&run->session.terminal))
                return;
        if (escape_text(&shown, what, SHOWN) == 0)
                log_notice("a ratchet has closed (%.*s): %s. Fewer hosts are open from now on",
                           STR_FMT(buf_str(&shown)), say);
}

static void record_closed(struct run *run, const struct ratchet_rule *rule, const char *trigger, struct str what) {
        cleanup(buf_done) struct buf say = BUF(SHOWN);
        const struct snapshot_rule shown = { .text = STR("ratchet"),
                                             .origin = str_of(rule->origin),
                                             .list = LIST_RATCHET };

        ratchet_say(rule, &say);
        const struct event event = { .kind = EVENT_RATCHET,
                                     .wall_us = clock_wall_us(),
                                     .rule = RULE_NONE,
                                     .reason = REASON_RATCHET,
                                     .allowed = true,
                                     .method = str_of(trigger),
                                     .path = what,
                                     .detail = buf_str(&say) };
        if (run->session.audit)
                (void)audit_add(run->session.audit, &event, &shown);

        live_ratchet(run->session.control, &event, rule->origin);
        cleanup(free_ptr) char *text = str_dup(buf_str(&say));
        tell_people(run, text_or(text, ""), what);
}

/* --- closing --- */

static int hand_over(struct run *run, struct err *err) {
        cleanup(free_ptr) void *snapshot = NULL;
        size_t n = 0;
        int ends[2], r;

        if (!run->session.gateway) /* one that starts later takes the rules of then */
                return 0;

        r = session_compile(&run->session, &snapshot, &n, err);
        if (r < 0)
                return r;
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0)
                return err_errno(err, "ratchet: socket");

        close_fd(&run->ratchet.judged); /* of rules that are older */
        run->ratchet.judged = ends[0];
        r = gateway_process_reload(run->session.gateway, NULL, snapshot, n, err);
        if (r < 0) {
                close(ends[1]);
                return r;
        }

        gateway_process_when_judged(run->session.gateway, ends[1]);
        return 0;
}

static void ratchet_narrow(struct run *run, uint32_t rules, const char *trigger, struct str what) {
        struct run_ratchet *ratchet = &run->ratchet;
        uint32_t fresh = ratchet_close(run->session.policy, rules);
        struct err err = { 0 };

        if (run->session.network)
                (void)ratchet_close(run->session.network, rules);

        for (size_t i = 0; i < run->session.policy->ratchet.n; i++)
                if (fresh >> i & 1)
                        record_closed(run, &run->session.policy->ratchet.p[i], trigger, what);

        if (fresh == 0)
                return;

        if (run->session.audit && audit_flush(run->session.audit, &err) < 0) {
                ratchet->failed = err;
                return;
        }

        run_bridge_narrow(run);
        if (hand_over(run, &err) < 0)
                ratchet->failed = err;
}

/* Nothing is judged by wider rules, and no tool runs that should not. */
static bool is_narrow(const struct run *run) {
        return run->ratchet.judged < 0 && !run->ratchet.failed.code && run_bridge_is_narrow(run);
}

static void answer_broker(struct run *run) {
        if (!run->ratchet.asked)
                return;
        run->ratchet.asked = false;
        if (run->sandbox.events >= 0)
                broker_answer_last(run->sandbox.events, run->ratchet.number, ratchet_closed(run->session.policy));
}

static void answer_all(struct run *run) {
        struct run_ratchet *ratchet = &run->ratchet;

        if (!ratchet->narrowing || !is_narrow(run))
                return;

        ratchet->narrowing = false;
        answer_broker(run);

        for (size_t i = 0; i < ratchet->held.n; i++)
                if (run->session.gateway)
                        gateway_process_answer(run->session.gateway, ratchet->held.p[i], DECISION_ALLOW);

        ratchet->held.n = 0;
        run_bridge_released(run);
}

/* --- who asks --- */

/* Whatever the broker says, it only makes the doors narrower. */
void run_ratchet_read(void *arg, const struct event *event) {
        struct run *run = arg;
        uint32_t known = 0;

        for (size_t i = 0; i < run->session.policy->ratchet.n; i++)
                known |= UINT32_C(1) << i;

        run->ratchet.asked = true;
        run->ratchet.number = event->generation;
        run->ratchet.narrowing = true;
        ratchet_narrow(run, (uint32_t)event->connection & known, "read", event->path);
        answer_all(run);
}

void run_ratchet_reach(void *arg, uint64_t id, const struct authority *target) {
        struct run *run = arg;
        char text[AUTHORITY_TEXT_MAX];

        authority_text(target, text);

        if (vec_push(&run->ratchet.held, id) < 0) {
                gateway_process_answer(run->session.gateway, id, DECISION_DENY);
                return;
        }

        run->ratchet.narrowing = true;
        ratchet_narrow(run, ratchet_of_host(run->session.policy, target), "reach", str_of(text));
        answer_all(run);
}

bool run_ratchet_tool(struct run *run, uint32_t rules, const char *call) {
        if ((rules & ~ratchet_closed(run->session.policy)) == 0 && is_narrow(run))
                return false;
        run->ratchet.narrowing = true;
        ratchet_narrow(run, rules, "tool", str_of(call));
        return true;
}

int run_ratchet_launch(struct run *run, struct err *err) {
        for (int fd = 0; fd <= 2; fd++) {
                char link[32], path[PATH_MAX];
                uint32_t rules;

                snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
                ssize_t n = readlink(link, path, sizeof path - 1);
                if (n <= 0 || path[0] != '/')
                        continue;

                path[n] = '\0';
                rules = plan_marks_of(run->plan, path);
                if (rules)
                        ratchet_narrow(run, rules, "launch", str_of(path));
        }

        if (run->ratchet.failed.code) {
                *err = run->ratchet.failed;
                return -err->code;
        }

        return 0;
}

/* --- in the loop --- */

void run_ratchet_watch(void *arg, struct poller *poller) {
        poller_watch(poller, ((const struct run *)arg)->ratchet.judged, POLLIN);
}

int run_ratchet_step(void *arg, struct poller *poller, struct err *err) {
        struct run *run = arg;
        struct run_ratchet *ratchet = &run->ratchet;
        char byte;

        if (ratchet->judged >= 0 && poller_ready(poller, ratchet->judged)) {
                ssize_t n = recv(ratchet->judged, &byte, 1, MSG_DONTWAIT);

                if (n == 0 && !ratchet->failed.code)
                        err_set(&ratchet->failed, EPIPE, "the gateway did not take the narrowed rules");
                if (n >= 0)
                        close_fd(&ratchet->judged);
        }

        if (ratchet->failed.code) {
                *err = ratchet->failed;
                return err_wrap(err, -err->code, "a ratchet could not close, so the run ends");
        }

        answer_all(run);
        return 0;
}
