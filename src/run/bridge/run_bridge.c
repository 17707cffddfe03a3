/* SPDX-License-Identifier: Apache-2.0 */
#include "run/bridge/run_bridge.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/processes/spawn.h"
#include "control/live.h"
#include "ipc/supervise_messages.h"
#include "policy/judge/ratchet.h"
#include "policy/tools/browser.h"
#include "policy/tools/tools.h"
#include "run/bridge/run_bridge_internal.h"
#include "run/learn.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { EVENTS_AT_ONCE = 32, TIMED_OUT = 124, CANNOT = 125, GRACE_MS = 5000, SILENT_MS = 5000 };

/* Which descriptor of which call an event is about. */
enum { OF_CALLER, OF_LINK, OF_PROCESS, PER_CALL };
#define OF_LISTENER UINT64_MAX

static int bridge_watch(struct run_bridge *bridge, int fd, uint64_t what) {
        struct epoll_event event = { .events = EPOLLIN, .data.u64 = what };

        return epoll_ctl(bridge->epoll, EPOLL_CTL_ADD, fd, &event);
}

static uint64_t what_of(const struct run_bridge *bridge, const struct bridge_call *call, unsigned which) {
        return (uint64_t)(call - bridge->calls) * PER_CALL + which;
}

/* --- records --- */

static void words_text(const char *tool, const struct str *words, size_t n, struct buf *out) {
        (void)buf_add(out, tool);
        for (size_t i = 0; i < n; i++) {
                (void)buf_add(out, " ");
                (void)buf_append(out, str_first(words[i], words[i].n < 200 ? words[i].n : 200));
                if (words[i].n > 200)
                        (void)buf_add(out, "...");
        }
}

/* One for each call, before anything is run. */
static void call_record(struct run *run, const struct bridge_tool *tool, const struct tool_call *call,
                        const char *typed, const char *by) {
        static const char *const decisions[] = {
                [TOOL_RUN] = "bridged", [TOOL_INSIDE] = "inside", [TOOL_REFUSED] = "refused"
        };
        cleanup(buf_done) struct buf detail = BUF(EVENT_TEXT_MAX);
        const struct snapshot_rule rule = { .text = str_of(text_or(call->line, tool->name)),
                                            .origin = str_of(tool->origin),
                                            .list = call->verdict == TOOL_RUN ? LIST_ALLOW : LIST_DENY };

        (void)buf_add(&detail, call->verdict == TOOL_RUN ? "run as: " : call->why);
        for (size_t i = 0; call->verdict == TOOL_RUN && i < call->argv.n; i++)
                (void)buf_printf(&detail, "%s%.200s", i ? " " : "", call->argv.p[i]);
        if (by && call->verdict == TOOL_RUN)
                (void)buf_printf(&detail, " (agreed to by %s)", by);

        const struct event event = { .kind = EVENT_COMMAND,
                                     .wall_us = clock_wall_us(),
                                     .rule = RULE_NONE,
                                     .reason = call->verdict == TOOL_REFUSED ? REASON_DENY_RULE : REASON_ALLOWED,
                                     .allowed = call->verdict != TOOL_REFUSED,
                                     .method = str_of(decisions[call->verdict]),
                                     .path = str_of(typed),
                                     .detail = buf_str(&detail) };
        if (run->session.audit)
                (void)audit_add(run->session.audit, &event, &rule);
        if (run->q->learn && call->verdict == TOOL_RUN)
                learn_tool(run->q->learn, tool->name);

        live_event(run->session.control, &event, &rule);
}

/* --- the end of a call --- */

void bridge_call_answer(struct bridge_call *call, enum shim_kind kind, int number, const char *text) {
        struct shim_word word = {
                .magic = SHIM_MAGIC, .version = SHIM_VERSION, .kind = (uint16_t)kind, .number = number
        };

        if (text)
                snprintf(word.text, sizeof word.text, "%s", text);
        if (call->caller >= 0)
                (void)send(call->caller, &word, sizeof word, MSG_NOSIGNAL | MSG_DONTWAIT);

        close_fd(&call->caller);
}

static void listen_again(struct run_bridge *bridge) {
        struct epoll_event event = { .events = EPOLLIN, .data.u64 = OF_LISTENER };

        bridge->full = false;
        if (bridge->listener >= 0)
                (void)epoll_ctl(bridge->epoll, EPOLL_CTL_MOD, bridge->listener, &event);
}

void bridge_call_free(struct run *run, struct bridge_call *call) {
        run_browser_drop(run, call);
        bridge_ask_drop(run, call);
        bridge_relay_drop(run, call);
        bridge_held_free(call->held);
        close_fd(&call->caller);
        close_fd(&call->link);
        close_fd(&call->pidfd);
        bool to_stand = call->to_stand;
        *call = (struct bridge_call){ .caller = -1, .link = -1, .pidfd = -1 };
        run->bridge.n_calls--;
        listen_again(&run->bridge);

        if (to_stand)
                bridge_stand_without(run);
}

/* Its sandbox ends with the link; the process is waited for when it is over. */
static void call_abandon(struct run *run, struct bridge_call *call) {
        bridge_relay_drop(run, call);
        close_fd(&call->caller);
        close_fd(&call->link);
        bridge_held_free(take_ptr(&call->held));
        if (call->pid > 0)
                call->state = BRIDGE_ENDING;
        else
                bridge_call_free(run, call);
}

/* Why a sandbox could not be made, or ended before the tool did, its supervisor has said on the tool's standard error.
 */
static void call_tell_end(struct bridge_call *call, const struct supervise_message *end) {
        if (end->number == RUN_ENDED && end->signalled)
                bridge_call_answer(call, SHIM_KILLED, end->status - 128, NULL);
        else if (end->number == RUN_ENDED)
                bridge_call_answer(call, SHIM_EXITED, end->status, NULL);
        else
                bridge_call_answer(call, SHIM_EXITED, end->number == RUN_TIMED_OUT ? TIMED_OUT : CANNOT, NULL);
}

static void note_violation(struct run *run, const struct bridge_call *call, const struct supervise_message *message) {
        if (run->session.audit)
                (void)audit_note(run->session.audit, "bridged %s was refused: %s %s %s", call->tool, message->host,
                                 message->target, message->detail);
}

static void link_step(struct run *run, struct bridge_call *call) {
        struct supervise_message message;
        int r = supervise_receive(call->link, &message, NULL);

        if (r == -EAGAIN)
                return;

        if (r <= 0) { /* without a last word: it died, maybe by a signal that came before it could take one */
                if (call->caller >= 0 && call->last_signal)
                        bridge_call_answer(call, SHIM_KILLED, call->last_signal, NULL);
                else if (call->caller >= 0)
                        bridge_call_answer(call, SHIM_EXITED, CANNOT, "the tool's sandbox ended unexpectedly");
                call_abandon(run, call);
                return;
        }

        if (message.kind == SUPERVISE_VIOLATION)
                note_violation(run, call, &message);
        if (message.kind == SUPERVISE_ASK || message.kind == SUPERVISE_ASK_GONE)
                bridge_relay(run, call, &message);

        if (message.kind == SUPERVISE_STOOD && !bridge_stood(run, call, message.id, message.status)) {
                bridge_call_answer(call, SHIM_EXITED, CANNOT,
                                   "the tool could not stand still with the sandbox, and was ended");
                call_abandon(run, call);
                return;
        }

        if (message.kind == SUPERVISE_END) {
                call_tell_end(call, &message);
                call_abandon(run, call);
        }
}

static void process_step(struct run *run, struct bridge_call *call) {
        if (call->state == BRIDGE_RUNNING) { /* its last word is still in the link, or never came */
                link_step(run, call);
                if (call->state == BRIDGE_RUNNING)
                        return;
        }
        (void)spawn_wait(call->pid);
        bridge_call_free(run, call);
}

/* --- a call --- */

/* The sandbox opened them by its own rights. Files are refused: they could be opened again for more (the shim puts a
 * pipe in between), and so is what is no stream. */
static bool descriptors_are_streams(const int *fds) {
        for (size_t i = 0; i < SHIM_FDS; i++) {
                struct stat st;
                int flags = fcntl(fds[i], F_GETFL);

                if (flags < 0 || (flags & O_PATH) || fstat(fds[i], &st) < 0)
                        return false;
                if (!S_ISFIFO(st.st_mode) && !S_ISCHR(st.st_mode) && !S_ISSOCK(st.st_mode))
                        return false;
        }

        return true;
}

static void call_run(struct run *run, struct bridge_call *call, const struct bridge_start *start) {
        struct run_bridge *bridge = &run->bridge;
        struct err why = { 0 };

        if (bridge_start(run, start, call, &why) < 0) {
                bridge_call_answer(call, SHIM_REFUSED, 0, err_text(&why));

                if (run->session.audit)
                        (void)audit_note(run->session.audit, "bridged %s did not start: %s", call->tool,
                                         err_text(&why));

                bridge_call_free(run, call);
                return;
        }

        call->state = BRIDGE_RUNNING;
        if (call->pidfd < 0 || bridge_watch(bridge, call->link, what_of(bridge, call, OF_LINK)) < 0 ||
            bridge_watch(bridge, call->pidfd, what_of(bridge, call, OF_PROCESS)) < 0) {
                kill(call->pid, SIGKILL);
                (void)spawn_wait(call->pid);
                bridge_call_answer(call, SHIM_REFUSED, 0, "the tool cannot be watched");
                bridge_call_free(run, call);
        }
}

/* What has closed leaves this tool, or the call is none. */
static bool tool_is_left(const struct run *run, const struct bridge_tool *tool, struct tool_call *judged) {
        const struct ratchet_rule *rule = NULL;
        cleanup(buf_done) struct buf say = BUF(sizeof judged->why / 2);

        if (judged->verdict != TOOL_RUN || ratchet_keeps_tool(run->session.policy, tool->name, &rule))
                return true;

        ratchet_say(rule, &say);
        judged->verdict = TOOL_REFUSED;
        snprintf(judged->why, sizeof judged->why, "a ratchet has closed, and does not leave this tool: %.*s",
                 STR_FMT(buf_str(&say)));

        return false;
}

/* A trigger: it runs when the ratchet has closed. */
static bool call_hold(struct run *run, struct bridge_call *call, const struct bridge_start *start,
                      struct tool_call *judged) {
        uint32_t rules =
            ratchet_of_tool(run->session.policy, start->tool, (const char *const *)judged->argv.p, judged->argv.n);
        cleanup(buf_done) struct buf text = BUF(EVENT_TEXT_MAX);

        for (size_t i = 0; i < judged->argv.n; i++)
                (void)buf_printf(&text, "%s%.200s", i ? " " : "", judged->argv.p[i]);

        cleanup(free_ptr) char *shown = str_dup(buf_str(&text));
        if (!run_ratchet_tool(run, rules, shown ? shown : start->tool->name))
                return false;

        call->held = bridge_held_new(start, judged, "");
        if (!call->held) {
                bridge_call_answer(call, SHIM_REFUSED, 0, "out of memory");
                bridge_call_free(run, call);
                return true;
        }

        call->state = BRIDGE_HELD;
        return true;
}

/* Its output is what the ratchet closes for; its input would be a door, unless the tool is one that stays. */
static void close_input(const struct run *run, struct bridge_held *held) {
        const struct ratchet_rule *rule;

        if (ratchet_keeps_tool(run->session.policy, held->tool->name, &rule))
                return;
        close_fd(&held->fds[0]);
        held->fds[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

/* Everything stands still: it begins when that is over. */
static bool call_wait(struct run *run, struct bridge_call *call, const struct bridge_start *start,
                      struct tool_call *judged) {
        if (!run->bridge.standing)
                return false;

        call->held = bridge_held_new(start, judged, "");
        call->state = BRIDGE_HELD;
        call->waits = true;
        if (!call->held) {
                bridge_call_answer(call, SHIM_REFUSED, 0, "out of memory");
                bridge_call_free(run, call);
        }

        return true;
}

void run_bridge_released(struct run *run) {
        for (size_t i = 0; i < BRIDGE_CALLS && !run->bridge.standing; i++) {
                struct bridge_call *call = &run->bridge.calls[i];
                struct bridge_held *held = call->held;

                if (call->state != BRIDGE_HELD)
                        continue;

                close_input(run, held);
                struct bridge_start start = bridge_held_start(held);
                call->held = NULL;
                call->waits = false;
                call_run(run, call, &start);
                bridge_held_free(held);
        }
}

/* It was judged before the ratchet closed, and has not begun: it is judged again. */
static bool call_waits_in_vain(const struct run *run, const struct bridge_call *call) {
        const struct ratchet_rule *rule;

        return call->state == BRIDGE_HELD && call->waits &&
               !ratchet_keeps_tool(run->session.policy, call->held->tool->name, &rule);
}

static void call_turn_away(struct run *run, struct bridge_call *call) {
        if (run->session.audit)
                (void)audit_note(run->session.audit, "bridged %s has not begun: a ratchet has closed meanwhile",
                                 call->held->tool->name);
        bridge_call_answer(call, SHIM_REFUSED, 0, "a ratchet has closed, and does not leave this tool");
        bridge_call_free(run, call);
}

static bool call_must_end(const struct run *run, const struct bridge_call *call) {
        const struct ratchet_rule *rule;

        if (call->state != BRIDGE_RUNNING && call->state != BRIDGE_ENDING)
                return false;
        return !ratchet_keeps_tool(run->session.policy, call->tool, &rule);
}

void run_bridge_narrow(struct run *run) {
        for (size_t i = 0; i < BRIDGE_CALLS; i++) {
                struct bridge_call *call = &run->bridge.calls[i];

                if (call_waits_in_vain(run, call)) {
                        call_turn_away(run, call);
                        continue;
                }

                if (!call_must_end(run, call) || call->state != BRIDGE_RUNNING)
                        continue;

                call->narrowed = true;
                bridge_call_answer(call, SHIM_EXITED, CANNOT, "a ratchet has closed, and does not leave this tool");
                call_abandon(run, call);
        }
}

bool run_bridge_is_narrow(const struct run *run) {
        for (size_t i = 0; i < BRIDGE_CALLS; i++)
                if (run->bridge.calls[i].narrowed)
                        return false;
        return true;
}

void bridge_call_begin(struct run *run, struct bridge_call *call, const struct bridge_start *start,
                       struct tool_call *judged, const char *typed, const char *by) {
        (void)tool_is_left(run, start->tool, judged);
        call_record(run, start->tool, judged, typed, by);

        if (judged->verdict == TOOL_RUN) {
                if (run->session.policy->ratchet.n && call_hold(run, call, start, judged))
                        return;
                if (call_wait(run, call, start, judged))
                        return;

                call_run(run, call, start);
                return;
        }

        bridge_call_answer(call, judged->verdict == TOOL_INSIDE ? SHIM_INSIDE : SHIM_REFUSED, 0, judged->why);
        bridge_call_free(run, call);
}

static void call_judge(struct run *run, struct bridge_call *call, const struct shim_call *asked, const int *fds) {
        const struct bridge_tool *tool = tool_find(run->session.policy, asked->tool);
        cleanup(tool_call_done) struct tool_call judged = { 0 };

        if (policy_has_browser(run->session.policy) && browser_is_name(asked->tool)) {
                run_browser_call(run, call, asked);
                return;
        }

        if (!tool || tool_call_judge(tool, asked->words, asked->n, &judged) < 0) {
                bridge_call_answer(call, SHIM_REFUSED, 0, tool ? "out of memory" : "no tool of this name is bridged");
                bridge_call_free(run, call);
                return;
        }

        cleanup(buf_done) struct buf words = BUF(EVENT_TEXT_MAX);
        words_text(tool->name, asked->words, asked->n, &words);
        cleanup(free_ptr) char *copy = str_dup(buf_str(&words));
        const char *typed = text_or(copy, tool->name);
        struct bridge_start start = { .tool = tool, .call = &judged, .directory = asked->directory };

        call->tool = tool->name;
        memcpy(start.fds, fds, sizeof start.fds);

        if (judged.verdict == TOOL_RUN && !descriptors_are_streams(fds)) {
                judged.verdict = TOOL_REFUSED;
                snprintf(judged.why, sizeof judged.why, "standard input, output and error are pipes or terminals");
        }

        if (tool_is_left(run, tool, &judged) && judged.verdict == TOOL_RUN && judged.ask &&
            bridge_ask(run, call, &start, &judged, typed))
                return;

        bridge_call_begin(run, call, &start, &judged, typed, judged.ask ? "an earlier answer" : NULL);
}

/* -1 where something else came. */
static ssize_t packet_receive(struct run_bridge *bridge, struct bridge_call *call, int *fds, size_t *n_fds) {
        return fd_receive(call->caller, bridge->packet, SHIM_BYTES_MAX, fds, SHIM_FDS, n_fds);
}

/* Nothing runs yet: who waits for an answer ends as a program would that had been started. */
static void call_interrupt(struct run *run, struct bridge_call *call, int number) {
        bridge_call_answer(call, SHIM_KILLED, number, NULL);
        call_abandon(run, call);
}

static void call_signal(struct bridge_call *call, int number) {
        call->last_signal = number;
        kill(call->pid, number);
}

static void caller_step(struct run *run, struct bridge_call *call) {
        struct run_bridge *bridge = &run->bridge;
        struct shim_call *asked = calloc(1, sizeof *asked);
        int fds[SHIM_FDS] = { -1, -1, -1 }, number;
        size_t n_fds = 0;
        ssize_t n = packet_receive(bridge, call, fds, &n_fds);
        struct str packet = str_n(bridge->packet, n > 0 ? (size_t)n : 0);

        if (n == -EAGAIN || n == -EINTR) {
                free(asked);
                return;
        }

        if (asked && call->state == BRIDGE_WAITING && n_fds == SHIM_FDS && shim_call_read(packet, asked))
                call_judge(run, call, asked, fds);
        else if (call->state == BRIDGE_RUNNING && n_fds == 0 && shim_signal_read(packet, &number))
                call_signal(call, number);
        else if (n_fds == 0 && shim_signal_read(packet, &number))
                call_interrupt(run, call, number);
        else
                call_abandon(run, call); /* it is gone, or talks nonsense */

        free(asked);
        for (size_t i = 0; i < n_fds && i < SHIM_FDS; i++)
                close_fd(&fds[i]);
}

static void accept_call(struct run *run) {
        struct run_bridge *bridge = &run->bridge;
        struct bridge_call *call = NULL;
        struct epoll_event none = { .events = 0, .data.u64 = OF_LISTENER };

        for (size_t i = 0; i < BRIDGE_CALLS && !call; i++)
                if (bridge->calls[i].state == BRIDGE_FREE)
                        call = &bridge->calls[i];

        if (!call) { /* who comes now waits until one is over */
                bridge->full = true;
                (void)epoll_ctl(bridge->epoll, EPOLL_CTL_MOD, bridge->listener, &none);
                return;
        }

        int caller = accept4(bridge->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (caller < 0)
                return;

        *call = (struct bridge_call){
                .state = BRIDGE_WAITING, .caller = caller, .link = -1, .pidfd = -1, .since_ns = clock_ns()
        };
        bridge->n_calls++;
        if (bridge_watch(bridge, caller, what_of(bridge, call, OF_CALLER)) < 0)
                bridge_call_free(run, call);
}

/* Who connects and says nothing keeps no place that others wait for. */
static void silent_watch(const struct run_bridge *bridge, struct poller *poller) {
        for (size_t i = 0; bridge->full && i < BRIDGE_CALLS; i++)
                if (bridge->calls[i].state == BRIDGE_WAITING)
                        poller_until(poller, bridge->calls[i].since_ns + SILENT_MS * NS_PER_MS);
}

static void silent_step(struct run *run) {
        uint64_t now_ns = clock_ns();

        for (size_t i = 0; run->bridge.full && i < BRIDGE_CALLS; i++) {
                struct bridge_call *call = &run->bridge.calls[i];

                if (call->state == BRIDGE_WAITING && now_ns >= call->since_ns + SILENT_MS * NS_PER_MS)
                        call_abandon(run, call);
        }
}

void run_bridge_watch(void *arg, struct poller *poller) {
        const struct run *run = arg;

        poller_watch(poller, run->bridge.epoll, POLLIN);
        bridge_ask_watch(run, poller);
        silent_watch(&run->bridge, poller);
}

static void event_step(struct run *run, uint64_t what) {
        struct bridge_call *call = &run->bridge.calls[what / PER_CALL];
        unsigned which = (unsigned)(what % PER_CALL);

        if (which == OF_CALLER && call->caller >= 0)
                caller_step(run, call);
        else if (which == OF_LINK && call->link >= 0)
                link_step(run, call);
        else if (which == OF_PROCESS && call->pidfd >= 0)
                process_step(run, call);
}

int run_bridge_step(void *arg, struct poller *poller, struct err *err) {
        struct run *run = arg;
        struct run_bridge *bridge = &run->bridge;
        struct epoll_event events[EVENTS_AT_ONCE];
        struct err why = { 0 };
        int n;

        (void)err;
        bridge_ask_step(run);
        silent_step(run);

        if (bridge->epoll < 0 || !poller_ready(poller, bridge->epoll))
                return 0;

        n = epoll_wait(bridge->epoll, events, EVENTS_AT_ONCE, 0);
        for (int i = 0; i < n; i++)
                if (events[i].data.u64 == OF_LISTENER)
                        accept_call(run);
                else
                        event_step(run, events[i].data.u64);

        if (run->session.audit && audit_flush(run->session.audit, &why) < 0)
                log_error("%s", err_text(&why));

        return 0;
}

void run_bridge_listen(struct run *run) {
        struct run_bridge *bridge = &run->bridge;
        const struct plan *plan = run->plan;
        struct sandbox *sandbox = &run->sandbox;
        size_t last = plan->listeners.n ? plan->listeners.n - 1 : 0;

        if (!bridge->shim || !plan->listeners.n || plan->listeners.p[last].kind != PLAN_LISTENER_BRIDGE)
                return;
        if (sandbox->n_listeners != plan->listeners.n)
                return;

        bridge->listener = take_fd(&sandbox->listeners[last]);
        sandbox->n_listeners--;
        run_browser_take(&run->browser, plan, sandbox);
        bridge->epoll = epoll_create1(EPOLL_CLOEXEC);
        if (bridge->epoll < 0 || bridge_watch(bridge, bridge->listener, OF_LISTENER) < 0)
                log_error("bridged tools cannot be called: %s", strerror(errno));
}

static int left_until(uint64_t deadline_ns) {
        uint64_t now_ns = clock_ns();

        return now_ns < deadline_ns ? (int)((deadline_ns - now_ns) / NS_PER_MS) : 0;
}

/* The last words go out first: a process that ended is over, whoever waits for it. What the sandbox made is examined
 * only then, since the tools may write: so all of them have one grace. */
void run_bridge_end(struct run *run) {
        struct run_bridge *bridge = &run->bridge;
        uint64_t deadline_ns;

        close_fd(&bridge->listener);

        for (size_t i = 0; i < BRIDGE_CALLS; i++) {
                struct bridge_call *call = &bridge->calls[i];
                if (call->state != BRIDGE_FREE)
                        call_abandon(run, call);
        }

        deadline_ns = clock_ns() + GRACE_MS * NS_PER_MS;
        for (size_t i = 0; i < BRIDGE_CALLS; i++) {
                struct bridge_call *call = &bridge->calls[i];
                struct pollfd over = { .fd = call->pidfd, .events = POLLIN };

                if (call->state != BRIDGE_ENDING)
                        continue;
                if (poll(&over, 1, left_until(deadline_ns)) <= 0)
                        kill(call->pid, SIGKILL);

                (void)spawn_wait(call->pid);
                bridge_call_free(run, call);
        }

        close_fd(&bridge->epoll);
}

void run_bridge_done(struct run_bridge *bridge) {
        close_fd(&bridge->listener);
        close_fd(&bridge->epoll);
        free(bridge->shim);
        free(bridge->directory);
        free(bridge->packet);
        bridge_decided_done(bridge);
        *bridge = RUN_BRIDGE_NONE;
}
