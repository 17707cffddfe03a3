/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of bridged tools that a person must agree to (`ask` of a tool). The question shows the words as they will be
 * run, and where; what is run after a yes is what was shown. An answer is for this call, or for every such call until
 * the run ends: the same words to the same tool in the same directory. Two tools may be one program, each with rights
 * of its own.
 */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/processes/poller.h"
#include "control/live.h"
#include "control/questions.h"
#include "run/bridge/run_bridge_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

/* Calls that wait keep their place: those that nobody has to be asked about must still find one. */
enum { ASKS_MAX = 8, DECIDED_MAX = 1024, WORDS_MAX = 1 << 20 };

struct bridge_asked {
        uint64_t id, due_ns;
        const char *tool;        /* the policy's text */
        char *words, *directory; /* as they were shown */
};

/* --- a call that waits --- */

struct bridge_held *bridge_held_new(const struct bridge_start *start, struct tool_call *judged, const char *typed) {
        struct bridge_held *held = calloc(1, sizeof *held);

        if (!held)
                return NULL;

        held->tool = start->tool;
        held->directory = str_dup(start->directory);
        held->typed = str_dup(str_of(typed));
        for (size_t i = 0; i < SHIM_FDS; i++)
                held->fds[i] = fcntl(start->fds[i], F_DUPFD_CLOEXEC, 0);

        if (!held->directory || !held->typed || held->fds[0] < 0 || held->fds[1] < 0 || held->fds[2] < 0) {
                bridge_held_free(held);
                return NULL;
        }

        held->call = *judged;
        *judged = (struct tool_call){ 0 };

        return held;
}

void bridge_held_free(struct bridge_held *held) {
        if (!held)
                return;

        tool_call_done(&held->call);
        free(held->directory);
        free(held->typed);
        for (size_t i = 0; i < SHIM_FDS; i++)
                close_fd(&held->fds[i]);
        free(held);
}

struct bridge_start bridge_held_start(const struct bridge_held *held) {
        struct bridge_start start = { .tool = held->tool, .call = &held->call, .directory = str_of(held->directory) };

        memcpy(start.fds, held->fds, sizeof start.fds);
        return start;
}

static void asked_free(struct bridge_asked *asked) {
        if (!asked)
                return;

        free(asked->words);
        free(asked->directory);
        free(asked);
}

/* --- answers that hold --- */

static const struct bridge_decided *decided_find(const struct run_bridge *bridge, const struct bridge_asked *asked) {
        for (size_t i = 0; i < bridge->decided.n; i++) {
                const struct bridge_decided *decided = &bridge->decided.p[i];

                if (strcmp(decided->tool, asked->tool) == 0 && strcmp(decided->words, asked->words) == 0 &&
                    strcmp(decided->directory, asked->directory) == 0)
                        return decided;
        }

        return NULL;
}

/* Without memory, or after too many, the next such call is asked about again. */
static void decided_keep(struct run_bridge *bridge, const struct bridge_asked *asked, bool allow) {
        struct bridge_decided fresh = { .tool = asked->tool,
                                        .words = str_dup(str_of(asked->words)),
                                        .directory = str_dup(str_of(asked->directory)),
                                        .allow = allow };

        if (!decided_find(bridge, asked) && bridge->decided.n < DECIDED_MAX && fresh.words && fresh.directory &&
            vec_push(&bridge->decided, fresh) == 0)
                return;

        free(fresh.words);
        free(fresh.directory);
}

void bridge_decided_done(struct run_bridge *bridge) {
        for (size_t i = 0; i < bridge->decided.n; i++) {
                free(bridge->decided.p[i].words);
                free(bridge->decided.p[i].directory);
        }

        vec_done(&bridge->decided);
}

/* --- asking --- */

static void ask_refuse(struct run *run, struct bridge_call *call, const struct bridge_start *start,
                       struct tool_call *judged, const char *typed, const char *why) {
        judged->verdict = TOOL_REFUSED;
        snprintf(judged->why, sizeof judged->why, "a person must agree to this call: %s", why);
        bridge_call_begin(run, call, start, judged, typed, NULL);
}

static int asked_make(const struct run *run, const struct bridge_start *start, struct bridge_asked **ret,
                      struct err *err) {
        cleanup(bridge_place_done) struct bridge_place place = { 0 };
        cleanup(buf_done) struct buf words = BUF(WORDS_MAX);
        int r = bridge_place_find(run, start, &place, err);

        if (r < 0)
                return r;

        struct bridge_asked *asked = calloc(1, sizeof *asked);
        if (!asked || tool_call_write(start->call, place.program, &words) < 0) {
                free(asked);
                return err_memory(err);
        }

        asked->tool = start->tool->name;
        asked->words = str_dup(buf_str(&words));
        asked->directory = take_ptr(&place.directory);
        if (!asked->words) {
                asked_free(asked);
                return err_memory(err);
        }

        *ret = asked;
        return 0;
}

static size_t calls_asked(const struct run *run) {
        size_t n = 0;

        for (size_t i = 0; i < BRIDGE_CALLS; i++)
                n += run->bridge.calls[i].asked != NULL;
        return n;
}

/* `asked` belongs to the call where this succeeds. */
static int ask_person(struct run *run, struct bridge_call *call, struct bridge_asked *asked, struct err *err) {
        int r;

        if (!run->session.control)
                return err_set(err, EOPNOTSUPP, "nobody can be asked here");
        if (calls_asked(run) >= ASKS_MAX)
                return err_set(err, EBUSY, "%d calls wait for an answer already", ASKS_MAX);

        asked->id = ++run->bridge.last_question;
        asked->due_ns = clock_ns() + run->session.policy->network.ask_timeout_ns;

        const struct question_call about = { .tool = asked->tool,
                                             .words = asked->words,
                                             .directory = asked->directory };
        r = live_ask_call(run->session.control, asked->id, &about, err);
        if (r < 0)
                return r;

        call->asked = asked;
        call->state = BRIDGE_ASKED;

        return 0;
}

bool bridge_ask(struct run *run, struct bridge_call *call, const struct bridge_start *start, struct tool_call *judged,
                const char *typed) {
        struct bridge_asked *asked = NULL;
        struct err err = { 0 };
        int r = asked_make(run, start, &asked, &err);
        const struct bridge_decided *decided = r < 0 ? NULL : decided_find(&run->bridge, asked);

        if (decided) {
                asked_free(asked);
                if (decided->allow)
                        return false;

                ask_refuse(run, call, start, judged, typed, "a person said no, for the rest of this run");
                return true;
        }

        if (r == 0) {
                call->held = bridge_held_new(start, judged, typed);
                r = call->held ? ask_person(run, call, asked, &err) : err_memory(&err);
        }

        if (r < 0) {
                struct bridge_held *held = take_ptr(&call->held);

                asked_free(asked);
                ask_refuse(run, call, start, held ? &held->call : judged, typed, err_text(&err));
                bridge_held_free(held);
        }

        return true;
}

void bridge_ask_drop(struct run *run, struct bridge_call *call) {
        struct bridge_asked *asked = take_ptr(&call->asked);

        if (asked)
                live_own_gone(run->session.control, asked->id, false);
        asked_free(asked);
}

/* --- answers --- */

static struct bridge_call *call_find(struct run *run, uint64_t id) {
        for (size_t i = 0; i < BRIDGE_CALLS; i++)
                if (run->bridge.calls[i].asked && run->bridge.calls[i].asked->id == id)
                        return &run->bridge.calls[i];
        return NULL;
}

void run_bridge_decided(void *arg, uint64_t id, bool allow, bool kept, const char *by) {
        struct run *run = arg;
        struct bridge_call *call = call_find(run, id);

        if (!call)
                return;

        struct bridge_asked *asked = take_ptr(&call->asked);
        struct bridge_held *held = take_ptr(&call->held);
        struct bridge_start start = bridge_held_start(held);

        if (kept)
                decided_keep(&run->bridge, asked, allow);

        if (allow)
                bridge_call_begin(run, call, &start, &held->call, held->typed, by);
        else
                ask_refuse(run, call, &start, &held->call, held->typed, "a person said no");

        asked_free(asked);
        bridge_held_free(held);
}

/* --- the loop --- */

void bridge_ask_watch(const struct run *run, struct poller *poller) {
        for (size_t i = 0; i < BRIDGE_CALLS; i++)
                if (run->bridge.calls[i].asked)
                        poller_until(poller, run->bridge.calls[i].asked->due_ns);
}

void bridge_ask_step(struct run *run) {
        uint64_t now_ns = clock_ns();

        for (size_t i = 0; i < BRIDGE_CALLS; i++) {
                struct bridge_call *call = &run->bridge.calls[i];

                if (!call->asked || now_ns < call->asked->due_ns)
                        continue;

                struct bridge_asked *asked = take_ptr(&call->asked);
                struct bridge_held *held = take_ptr(&call->held);
                struct bridge_start start = bridge_held_start(held);

                live_own_gone(run->session.control, asked->id, true);
                ask_refuse(run, call, &start, &held->call, held->typed, "nobody answered in time");
                asked_free(asked);
                bridge_held_free(held);
        }
}

int run_bridge_describe(const struct policy *policy, struct buf *out) {
        int r = 0;

        for (size_t i = 0; r == 0 && i < policy->bridge.n; i++) {
                const struct bridge_tool *tool = &policy->bridge.p[i];

                if (tool->ask.n == 0)
                        continue;

                r = buf_printf(out, "ask: calls of %s that a person must agree to:", tool->name);
                for (size_t k = 0; r == 0 && k < tool->ask.n; k++)
                        r = buf_printf(out, "%s \"%s\"", k ? "," : "", tool->ask.p[k].text);
                if (r == 0)
                        r = buf_add(out, "\n");
        }

        return r;
}
