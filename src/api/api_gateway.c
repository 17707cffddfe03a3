/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A gateway has a process and, in this program, one thread that reads its link: questions may come at any time. States:
 * STARTING, RUNNING, ENDED; only the thread changes them, under the gateway's lock. It ends when the link does: because
 * bailey_gateway_stop() or the closing manager shut our half of it, or because the process died.
 */
#include "bailey/gateway.h"

#include "api/api_exec.h"
#include "api/api_os.h"
#include "api/api_report.h"
#include "api/child.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { START_MS = 20000, STOP_MS = 5000 };
enum gateway_phase { GATEWAY_STARTING, GATEWAY_RUNNING, GATEWAY_ENDED };

struct bailey_gateway {
        bailey_manager *manager;
        struct state *state;
        struct child child;
        struct running running;
        struct told told; /* of an update while it started */
        pthread_t thread;
        pthread_mutex_t lock;
        pthread_cond_t changed;
        enum gateway_phase phase;
        uint16_t http_port, socks_port;
        char address[ADDR_TEXT_MAX];
        int stop; /* a flag: bailey_gateway_stop() raises it */
        struct supervise_message end;
};

static void set_phase(bailey_gateway *gateway, enum gateway_phase phase) {
        pthread_mutex_lock(&gateway->lock);
        gateway->phase = phase;
        pthread_cond_broadcast(&gateway->changed);
        pthread_mutex_unlock(&gateway->lock);
}

/* The callback to be asked now, after any update. */
static void gateway_ask(const bailey_gateway *gateway, const struct supervise_message *question) {
        cleanup(state_unrefp) struct state *now = manager_state(gateway->manager);
        exec_answer(now, gateway->child.link, question);
}

/* False when the link has ended. */
static bool gateway_hear(bailey_gateway *gateway) {
        struct supervise_message message;
        int r = supervise_receive(gateway->child.link, &message, NULL);

        if (r <= 0)
                return r == -EAGAIN;

        switch (message.kind) {
        case SUPERVISE_READY:
                gateway->http_port = (uint16_t)message.id;
                gateway->socks_port = (uint16_t)message.number;
                set_phase(gateway, GATEWAY_RUNNING);
                break;
        case SUPERVISE_ASK:
                gateway_ask(gateway, &message);
                break;
        case SUPERVISE_END:
                gateway->end = message;
                break;
        default:
                break;
        }

        return true;
}

static void *gateway_serve(void *arg) {
        bailey_gateway *g = arg;
        uint64_t kill_at = 0;

        for (bool open = true; open;) {
                struct pollfd fds[] = { { .fd = g->child.link, .events = POLLIN },
                                        { .fd = g->stop, .events = POLLIN },
                                        { .fd = g->manager->closing, .events = POLLIN } };
                if (kill_at) /* told already */
                        fds[1].fd = fds[2].fd = -1;

                uint64_t now = clock_ns();
                if (kill_at && now >= kill_at)
                        break;
                if (poll(fds, 3, kill_at ? (int)((kill_at - now) / NS_PER_MS) + 1 : -1) < 0)
                        continue;

                if (fds[1].revents || fds[2].revents) {
                        kill_at = clock_ns() + (STOP_MS - 500) * NS_PER_MS;
                        shutdown(g->child.link, SHUT_WR);
                }

                if (fds[0].revents)
                        open = gateway_hear(g);
        }

        manager_remove(g->manager, &g->running); /* before the link is closed: updates are sent to it */
        (void)child_wait(&g->child, kill_at ? 0 : 1000);
        set_phase(g, GATEWAY_ENDED);
        manager_leave(g->manager);

        return NULL;
}

/* Signals are for the threads that the program made. */
static int start_thread(bailey_gateway *gateway) {
        sigset_t all, before;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        int r = pthread_create(&gateway->thread, NULL, gateway_serve, gateway);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        return r;
}

static const char *gateway_listener(const char *given) {
        if (!given)
                return "127.0.0.1:0";

        if (*given)
                return given;

        return NULL;
}

static int make_block(const struct state *state, const struct bailey_gateway_addresses *at, char **ret,
                      struct bailey_error *error) {
        struct supervise_request request = state->request; /* nothing in it is freed here */
        struct err why = { 0 };

        request.job = SUPERVISE_GATEWAY;
        request.http = (char *)(uintptr_t)gateway_listener(at ? at->http : NULL);
        request.socks = (char *)(uintptr_t)gateway_listener(at ? at->socks : NULL);
        if (!request.http && !request.socks)
                return report(error, BAILEY_E_ARGUMENT, "a gateway without a listener");

        if (supervise_encode(&request, ret, &why) < 0)
                return report_err(error, BAILEY_E_CONFIG, &why);

        return BAILEY_OK;
}

static void gateway_free(bailey_gateway *gateway) {
        child_done(&gateway->child);
        close_fd(&gateway->stop);
        close_fd(&gateway->told.judged);
        state_unref(gateway->state);
        pthread_cond_destroy(&gateway->changed);
        pthread_mutex_destroy(&gateway->lock);
        manager_unref(gateway->manager);
        free(gateway);
}

/* Until it accepts or has ended. */
static enum gateway_phase await_start(bailey_gateway *gateway) {
        struct timespec end;

        clock_gettime(CLOCK_MONOTONIC, &end);
        end.tv_sec += START_MS / 1000;
        pthread_mutex_lock(&gateway->lock);

        int late = 0;
        while (gateway->phase == GATEWAY_STARTING && late == 0)
                late = api_cond_wait_until(&gateway->changed, &gateway->lock, &end);

        enum gateway_phase phase = gateway->phase;
        pthread_mutex_unlock(&gateway->lock);

        return phase;
}

static int gateway_launch(bailey_gateway *gateway, const struct bailey_gateway_addresses *at,
                          struct bailey_error *error) {
        cleanup(free_ptr) char *block = NULL;
        static char name[] = "bailey", verb[] = "supervise";
        char *const argv[] = { name, verb, NULL };

        if (!gateway->state->program) {
                if (error)
                        *error = gateway->state->no_program;
                return BAILEY_E_DEPENDENCY;
        }

        int r = make_block(gateway->state, at, &block, error);
        const struct child_plan plan = { .path = gateway->state->program,
                                         .argv = argv,
                                         .envp = gateway->manager->env,
                                         .block = block,
                                         .input = -1 };

        if (r == BAILEY_OK)
                return child_start(&plan, &gateway->child, NULL, error);

        return r;
}

static bailey_gateway *gateway_alloc(bailey_manager *manager, struct state *state) {
        bailey_gateway *g = calloc(1, sizeof *g);
        if (!g)
                return NULL;

        g->stop = api_flag_new();
        if (g->stop < 0 || api_cond_init(&g->changed)) {
                close_fd(&g->stop);
                free(g);
                return NULL;
        }

        pthread_mutex_init(&g->lock, NULL);
        g->child = CHILD_NONE;
        g->told.judged = -1;
        g->manager = manager;
        atomic_fetch_add_explicit(&manager->refs, 1, memory_order_relaxed);
        g->state = state_ref(state);

        return g;
}

/* "127.0.0.1:0" to "127.0.0.1", as people write an address. */
static void keep_address(bailey_gateway *gateway, const struct bailey_gateway_addresses *at) {
        const char *text = gateway_listener(at ? at->http : NULL);
        struct authority authority;

        if (!text)
                text = gateway_listener(at ? at->socks : NULL);

        struct str host = str_of(text);
        ptrdiff_t colon = str_rfind(host, ':');
        if (colon > 0 && host_parse(str_first(host, (size_t)colon), &authority.host, NULL) == 0 &&
            authority.host.kind == HOST_ADDR)
                addr_text(&authority.host.addr, gateway->address);
}

/* From here on the thread ends it, and leaves the manager. */
static int serve_it(bailey_gateway *gateway, struct bailey_error *error) {
        gateway->running.link = gateway->child.link;
        gateway->told = manager_add(gateway->manager, &gateway->running, gateway->state);
        if (start_thread(gateway) == 0)
                return BAILEY_OK;

        manager_remove(gateway->manager, &gateway->running);
        child_kill(&gateway->child, false);
        (void)child_wait(&gateway->child, 0);

        return report(error, BAILEY_E_SYSTEM, "cannot make a thread for the gateway");
}

static int check_started(bailey_gateway *gateway, struct bailey_error *error) {
        enum gateway_phase phase = await_start(gateway);
        if (phase == GATEWAY_RUNNING)
                return BAILEY_OK;

        if (phase == GATEWAY_ENDED && gateway->end.kind == SUPERVISE_END) {
                int r = exec_end(&gateway->end, error);
                if (r == BAILEY_E_CONFIG)
                        return r;
        }

        const char *why = "it ended without a word";
        if (phase == GATEWAY_STARTING)
                why = "it takes too long";
        else if (gateway->end.detail[0])
                why = gateway->end.detail;

        return report(error, BAILEY_E_PROXY, "the gateway could not start: %s", why);
}

int bailey_gateway_start(bailey_manager *manager, const struct bailey_gateway_addresses *at, bailey_gateway **ret,
                         struct bailey_error *error) {
        cleanup(state_unrefp) struct state *s = NULL;

        if (!manager || !ret)
                return report_null(error);

        int r = manager_enter(manager, &s, error);
        if (r != BAILEY_OK)
                return r;

        bailey_gateway *g = gateway_alloc(manager, s);
        if (!g) {
                manager_leave(manager);
                return report_memory(error);
        }

        r = gateway_launch(g, at, error);
        if (r == BAILEY_OK)
                r = serve_it(g, error);
        if (r != BAILEY_OK) {
                manager_leave(manager);
                gateway_free(g);
                return r;
        }

        keep_address(g, at);
        r = check_started(g, error);
        manager_await(manager, &g->told, 1);
        if (r != BAILEY_OK)
                bailey_gateway_stop(g);
        else
                *ret = g;

        return r;
}

uint16_t bailey_gateway_http_port(const bailey_gateway *gateway) {
        return gateway->http_port;
}
uint16_t bailey_gateway_socks_port(const bailey_gateway *gateway) {
        return gateway->socks_port;
}

int bailey_gateway_running(const bailey_gateway *gateway) {
        bailey_gateway *locked = (bailey_gateway *)(uintptr_t)gateway; /* a lock is taken, nothing else */
        pthread_mutex_lock(&locked->lock);
        bool running = gateway->phase == GATEWAY_RUNNING;
        pthread_mutex_unlock(&locked->lock);
        return running;
}

const char *bailey_gateway_address(const bailey_gateway *gateway) {
        return bailey_gateway_running(gateway) ? gateway->address : "";
}

void bailey_gateway_stop(bailey_gateway *gateway) {
        if (!gateway)
                return;
        api_flag_raise(gateway->stop);
        pthread_join(gateway->thread, NULL);
        gateway_free(gateway);
}
