/* SPDX-License-Identifier: Apache-2.0 */
#include "run/bridge/run_browser.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/processes/poller.h"
#include "base/processes/spawn.h"
#include "bridge/callback_request.h"
#include "control/live.h"
#include "policy/judge/ratchet.h"
#include "policy/tools/browser.h"
#include "roles/gateway_process.h"
#include "run/bridge/run_bridge_internal.h"
#include "run/learn.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LINGER_MS = 30000 };

extern char **environ;

/* --- records --- */

static void browser_record(struct run *run, bool allowed, const char *decision, const char *what, const char *why,
                           const struct origin_text *entry) {
        struct snapshot_rule rule = { .text = STR(BROWSER_TOOL),
                                      .origin = STR("browser.hosts"),
                                      .list = allowed ? LIST_ALLOW : LIST_DENY };
        if (entry) {
                rule.text = str_of(entry->text);
                rule.origin = str_of(entry->origin);
        }

        const struct event event = { .kind = EVENT_COMMAND,
                                     .wall_us = clock_wall_us(),
                                     .rule = RULE_NONE,
                                     .reason = allowed ? REASON_ALLOWED : REASON_DENY_RULE,
                                     .allowed = allowed,
                                     .method = str_of(decision),
                                     .path = str_of(what),
                                     .detail = str_of(why) };

        if (run->session.audit)
                (void)audit_add(run->session.audit, &event, &rule);

        live_event(run->session.control, &event, &rule);
}

static void callback_record(struct run *run, bool carried, const char *why) {
        const struct page_callback *callback = &run->browser.flow.callback;
        char what[PAGE_PATH_MAX + 64];

        snprintf(what, sizeof what, "callback http://%s:%u%s", callback->host, callback->port, callback->path);
        browser_record(run, carried, carried ? "carried" : "refused", what, why, NULL);
}

/* --- the callback's port --- */

static void flow_end(struct run_browser *browser) {
        close_fd(&browser->flow.fd);
        if (browser->flow.pid > 0) {
                kill(browser->flow.pid, SIGKILL);
                (void)spawn_wait(browser->flow.pid);
        }
        browser->flow.pid = 0;
}

static int flow_listen(const struct page_callback *callback, int *ret, struct err *err) {
        const struct sockaddr_in v4 = { AF_INET, htons(callback->port), { htonl(INADDR_LOOPBACK) }, { 0 } };
        const struct sockaddr_in6 v6 = { AF_INET6, htons(callback->port), 0, IN6ADDR_LOOPBACK_INIT, 0 };
        const struct sockaddr *at = callback->v6 ? (const struct sockaddr *)&v6 : (const struct sockaddr *)&v4;
        const int on = 1;
        cleanup(close_fd) int fd =
            socket(callback->v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0 ||
            bind(fd, at, callback->v6 ? sizeof v6 : sizeof v4) < 0 || listen(fd, 64) < 0)
                return err_errno(err, "its callback cannot be waited for on port %u of this machine", callback->port);

        *ret = take_fd(&fd);
        return 0;
}

static int flow_start(struct run *run, const struct page_callback *callback, struct err *err) {
        struct run_browser *browser = &run->browser;
        const struct callback_start start = { .time_ms = browser_callback_ns(run->session.policy) / NS_PER_MS,
                                              .linger_ms = LINGER_MS,
                                              .n_inside = browser->n_inside,
                                              .callback = *callback };
        cleanup(close_fd) int listener = -1, ours = -1, theirs = -1;
        int pair[2], r;

        if (browser->n_inside == 0)
                return err_set(err, EOPNOTSUPP, "callbacks cannot be carried inside");

        flow_end(browser);
        r = flow_listen(callback, &listener, err);
        if (r < 0)
                return r;
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                return err_errno(err, "its callback cannot be waited for");

        ours = pair[0];
        theirs = pair[1];

        const int fds[] = { theirs, listener, browser->inside[0], browser->inside[1] };
        r = gateway_errand("callback", NULL, fds, 2 + browser->n_inside, &browser->flow.pid, err);
        if (r < 0)
                return r;

        browser->flow.fd = take_fd(&ours);
        browser->flow.callback = *callback;
        if (send(browser->flow.fd, &start, sizeof start, MSG_NOSIGNAL) != (ssize_t)sizeof start ||
            fd_set_nonblocking(browser->flow.fd, true) < 0) {
                flow_end(browser);
                return err_set(err, EIO, "the process that waits for the callback does not begin");
        }

        return 0;
}

static void flow_happened(struct run *run, const struct callback_word *word) {
        char text[64];

        switch (word->happening) {
        case CALLBACK_REFUSED:
                callback_record(run, false, callback_verdict_text((enum callback_verdict)word->number));
                break;
        case CALLBACK_CARRIED:
                snprintf(text, sizeof text, "carried inside, answered with %u", word->number);
                callback_record(run, true, text);
                break;
        case CALLBACK_NOBODY:
                callback_record(run, false, "nobody listens on this port inside");
                break;
        default:
                break;
        }
}

static void flow_read(struct run *run) {
        struct run_browser *browser = &run->browser;

        while (browser->flow.fd >= 0) {
                struct callback_word word;
                ssize_t n = recv(browser->flow.fd, &word, sizeof word, 0);

                if (n < 0 && (errno == EAGAIN || errno == EINTR))
                        return;

                if (n == (ssize_t)sizeof word) {
                        flow_happened(run, &word);
                        continue;
                }

                if (run->session.audit)
                        (void)audit_note(run->session.audit, "callback port %u closed", browser->flow.callback.port);

                flow_end(browser);
        }
}

/* --- opening --- */

/* NULL: there is no desktop to open it on, or none is wanted. */
static char *browser_program(const struct policy *policy) {
        const char *named = policy->browser.program;

        if (named)
                return strcmp(named, "none") == 0 ? NULL : str_dup(str_of(named));
        if (!getenv("DISPLAY") && !getenv("WAYLAND_DISPLAY"))
                return NULL;
        return bridge_find_program("xdg-open");
}

int run_browser_prepare(struct run *run, struct err *err) {
        cleanup(free_ptr) char *program = browser_program(run->session.policy);

        if (!program)
                return 0;
        if (access(program, X_OK) < 0)
                return err_errno(err, "browser.program: %s", program);
        return bridge_check_closed(run, program, "the program that opens pages", err);
}

static void programs_reap(struct run_browser *browser) {
        for (size_t i = 0; i < BROWSER_PROGRAMS_MAX; i++)
                if (browser->opened[i] > 0 && waitpid(browser->opened[i], NULL, WNOHANG) != 0)
                        browser->opened[i] = 0;
}

/* A person's browser: with the person's environment, and in nobody's directory. It may outlive the run. */
static int program_start(struct run_browser *browser, char *program, char *url, struct err *err) {
        char *const argv[] = { program, url, NULL };
        const struct spawn spawn = { .program = program,
                                     .argv = argv,
                                     .environment = environ,
                                     .input = SPAWN_NULL,
                                     .output = SPAWN_NULL,
                                     .errors = SPAWN_NULL,
                                     .flags = SPAWN_OWN_SESSION | SPAWN_AT_ROOT };

        programs_reap(browser);

        for (size_t i = 0; i < BROWSER_PROGRAMS_MAX; i++)
                if (browser->opened[i] == 0)
                        return spawn_start(&spawn, &browser->opened[i], err);

        return err_set(err, EBUSY, "too many pages are being opened");
}

/* Whatever a person agreed to, a ratchet that closed since then holds. */
static int page_open(struct run *run, struct page *page, struct err *err) {
        cleanup(free_ptr) char *program = browser_program(run->session.policy);
        const struct ratchet_rule *rule = NULL;
        int r = 0;

        if (!ratchet_keeps_tool(run->session.policy, BROWSER_TOOL, &rule))
                return err_set(err, EACCES, "a ratchet has closed, and does not leave the browser");
        if (page->callback.wanted)
                r = flow_start(run, &page->callback, err);
        if (r == 0 && program)
                r = program_start(&run->browser, program, page->url, err);
        if (r == 0 && !program)
                log_notice("open this page in your browser: %s", page->url);
        if (r < 0)
                flow_end(&run->browser);

        return r;
}

static void page_answer(struct run *run, struct bridge_call *call, struct page *page, const struct origin_text *entry,
                        const char *why) {
        struct err err = { 0 };

        if (page_open(run, page, &err) < 0) {
                browser_record(run, false, "refused", page->url, err_text(&err), entry);
                bridge_call_answer(call, SHIM_REFUSED, 0, err_text(&err));
        } else {
                browser_record(run, true, "opened", page->url, why, entry);
                if (run->q->learn)
                        learn_page(run->q->learn, page->target.host.name);
                bridge_call_answer(call, SHIM_EXITED, 0, NULL);
        }

        bridge_call_free(run, call);
}

/* --- calls --- */

static void page_refuse(struct run *run, struct bridge_call *call, const char *what, const char *why) {
        char text[512];

        snprintf(text, sizeof text, "the page is not opened: %s", why);
        browser_record(run, false, "refused", what, why, NULL);
        bridge_call_answer(call, SHIM_REFUSED, 0, text);
        bridge_call_free(run, call);
}

static size_t pages_waiting(const struct run *run) {
        size_t n = 0;

        for (size_t i = 0; i < BRIDGE_CALLS; i++)
                n += run->bridge.calls[i].page != NULL;
        return n;
}

/* What a person is asked: the address, and what a yes would open beside it. */
static char *page_text(const struct page *page) {
        if (!page->callback.wanted)
                return str_dup(str_of(page->url));
        return str_format("%s (its answer to port %u of this machine is carried inside, once)", page->url,
                          page->callback.port);
}

static int page_ask(struct run *run, struct bridge_call *call, const struct page *page, struct err *err) {
        struct bridge_page *asked = calloc(1, sizeof *asked);
        cleanup(free_ptr) char *text = page_text(page);
        int r;

        if (!asked || !text || !run->session.control || pages_waiting(run) >= BROWSER_PAGES_MAX) {
                free(asked);
                return err_set(err, EBUSY, "nobody can be asked, or too many pages wait for an answer");
        }

        asked->page = *page;
        asked->id = ++run->bridge.last_question;
        asked->due_ns = clock_ns() + run->session.policy->network.ask_timeout_ns;
        r = live_ask_page(run->session.control, asked->id, &page->target, text, err);
        if (r < 0) {
                free(asked);
                return r;
        }

        call->page = asked;
        call->state = BRIDGE_ASKED;

        return 0;
}

void run_browser_call(struct run *run, struct bridge_call *call, const struct shim_call *asked) {
        const struct ratchet_rule *rule = NULL;
        const struct origin_text *entry = NULL;
        struct page page = { 0 };
        struct err err = { 0 };
        cleanup(free_ptr) char *what = str_dup(asked->n ? str_first(asked->words[0], 500) : STR("nothing"));

        call->tool = BROWSER_TOOL;

        if (asked->n != 1)
                page_refuse(run, call, what, "one https address is opened, without any option");
        else if (page_parse(asked->words[0], &page, &err) < 0)
                page_refuse(run, call, what, err_text(&err));
        else if (!browser_allows(run->session.policy, &page.target, &entry))
                page_refuse(run, call, page.url, "browser.hosts does not name its host");
        else if (!ratchet_keeps_tool(run->session.policy, BROWSER_TOOL, &rule))
                page_refuse(run, call, page.url, "a ratchet has closed, and does not leave the browser");
        else if (!run->session.policy->browser.ask)
                page_answer(run, call, &page, entry, "without a question, by browser.ask");
        else if (page_ask(run, call, &page, &err) < 0)
                page_refuse(run, call, page.url, err_text(&err));
}

void run_browser_drop(struct run *run, struct bridge_call *call) {
        cleanup(free_ptr) struct bridge_page *page = call->page;

        call->page = NULL;
        if (page && page->id)
                live_own_gone(run->session.control, page->id, false);
}

static struct bridge_call *call_of_page(struct run *run, uint64_t id) {
        for (size_t i = 0; i < BRIDGE_CALLS; i++)
                if (run->bridge.calls[i].page && run->bridge.calls[i].page->id == id)
                        return &run->bridge.calls[i];
        return NULL;
}

void run_browser_decided(void *arg, uint64_t id, bool allow, const char *by) {
        struct run *run = arg;
        struct bridge_call *call = call_of_page(run, id);
        char why[160];

        if (!call)
                return;

        cleanup(free_ptr) struct bridge_page *asked = call->page;
        const struct origin_text *entry = NULL;
        call->page = NULL;
        (void)browser_allows(run->session.policy, &asked->page.target, &entry);
        snprintf(why, sizeof why, "agreed to by %s", by);

        if (allow && entry)
                page_answer(run, call, &asked->page, entry, why);
        else
                page_refuse(run, call, asked->page.url, "a person said no");
}

/* --- the loop --- */

void run_browser_take(struct run_browser *browser, const struct plan *plan, struct sandbox *sandbox) {
        while (sandbox->n_listeners && plan->listeners.p[sandbox->n_listeners - 1].kind == PLAN_LISTENER_CALLBACK) {
                const struct plan_listener *listener = &plan->listeners.p[--sandbox->n_listeners];

                browser->inside[listener->v6 ? 1 : 0] = take_fd(&sandbox->listeners[sandbox->n_listeners]);
                browser->n_inside++;
        }
}

void run_browser_watch(void *arg, struct poller *poller) {
        const struct run *run = arg;

        poller_watch(poller, run->browser.flow.fd, POLLIN);
        for (size_t i = 0; i < BRIDGE_CALLS; i++)
                if (run->bridge.calls[i].page)
                        poller_until(poller, run->bridge.calls[i].page->due_ns);
}

int run_browser_step(void *arg, struct poller *poller, struct err *err) {
        struct run *run = arg;
        uint64_t now_ns = clock_ns();

        (void)err;

        if (run->browser.flow.fd >= 0 && poller_ready(poller, run->browser.flow.fd))
                flow_read(run);

        for (size_t i = 0; i < BRIDGE_CALLS; i++) {
                struct bridge_call *call = &run->bridge.calls[i];

                if (!call->page || now_ns < call->page->due_ns)
                        continue;

                cleanup(free_ptr) struct bridge_page *asked = call->page;
                call->page = NULL;
                live_own_gone(run->session.control, asked->id, true);
                page_refuse(run, call, asked->page.url, "nobody answered in time");
        }

        return 0;
}

void run_browser_end(struct run *run) {
        flow_read(run);
        flow_end(&run->browser);
        programs_reap(&run->browser);
        for (size_t i = 0; i < CALLBACK_INSIDE_MAX; i++)
                close_fd(&run->browser.inside[i]);
}
