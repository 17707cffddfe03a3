/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Life of a manager: OPEN until bailey_manager_cleanup(), then CLOSED for good. Closing raises a flag that
 * every call and every gateway's thread watches; each ends its own process and leaves, and cleanup waits for that.
 *
 * An update validates without the lock, swaps the state under it, and sends the new policy to the jobs in the list.
 * Then it waits, without the lock, until each job confirms that it judges by it. The confirmation comes over a socket
 * of its own: the thread that reads a job's link may be in the program's callback, and that callback may be what
 * updates. A call that began with the old state and is not in the list yet finds the new one when it adds itself: no
 * job is missed.
 */
#include "api/manager.h"

#include "api/api_exec.h"
#include "api/api_os.h"
#include "api/api_program.h"
#include "api/api_report.h"
#include "api/plain.h"
#include "base/bounds.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

enum { CLEANUP_SECONDS = 5, DOCTOR_MAX = 1 << 20, DOCTOR_SECONDS = 60, DOCTOR_WORDS_MAX = 600 };

int manager_enter(bailey_manager *manager, struct state **ret, struct bailey_error *error) {
        pthread_mutex_lock(&manager->lock);
        bool closed = manager->closed;
        if (!closed) {
                manager->inside++;
                *ret = state_ref(manager->state);
        }

        pthread_mutex_unlock(&manager->lock);
        if (closed)
                return report(error, BAILEY_E_CLOSED, "the manager is closed");

        return BAILEY_OK;
}

void manager_leave(bailey_manager *manager) {
        pthread_mutex_lock(&manager->lock);
        manager->inside--;
        pthread_cond_broadcast(&manager->left);
        pthread_mutex_unlock(&manager->lock);
}

struct state *manager_state(bailey_manager *manager) {
        pthread_mutex_lock(&manager->lock);
        struct state *s = state_ref(manager->state);
        pthread_mutex_unlock(&manager->lock);
        return s;
}

/* A hundred jobs that start at once on a small machine take their time before they listen. */
enum { POLICY_PATIENCE_MS = 15000, JUDGED_PATIENCE_MS = 60000 };

static int send_policy(int link, const struct state *state, int *ret_judged) {
        const struct supervise_message message = { .kind = SUPERVISE_RELOAD };
        cleanup(supervise_fds_done) struct supervise_fds fds = SUPERVISE_NO_FDS;
        int pair[2];
        int r = fd_sealed("bailey-policy", str_of(state->reload), &fds.block, NULL);
        if (r < 0)
                return r;

        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
                return -errno;

        fds.judged = pair[0];
        *ret_judged = pair[1];
        r = supervise_send(link, &message, &fds);
        if (r == -EAGAIN) {
                struct pollfd wait = { .fd = link, .events = POLLOUT };
                if (poll(&wait, 1, POLICY_PATIENCE_MS) > 0)
                        r = supervise_send(link, &message, &fds);
                else
                        r = -ETIMEDOUT;
        }

        return r;
}

/* A job that does not take the new rules must not go on under the old ones: it is ended. */
static struct told running_tell(const struct running *running, const struct state *state) {
        struct told told = { .number = running->number, .judged = -1 };
        int r = send_policy(running->link, state, &told.judged);

        if (r < 0)
                close_fd(&told.judged);
        if (r < 0 && r != -EPIPE && r != -ECONNRESET)
                shutdown(running->link, SHUT_WR);

        return told;
}

static void running_end(bailey_manager *manager, uint64_t number) {
        pthread_mutex_lock(&manager->lock);
        for (const struct running *one = manager->running; one; one = one->next)
                if (one->number == number)
                        shutdown(one->link, SHUT_WR);
        pthread_mutex_unlock(&manager->lock);
}

void manager_await(bailey_manager *manager, struct told *told, size_t n) {
        uint64_t end = clock_ns() + JUDGED_PATIENCE_MS * NS_PER_MS;

        for (size_t i = 0; i < n; i++) {
                struct pollfd wait = { .fd = told[i].judged, .events = POLLIN };
                char word;
                int ready = 0;
                if (told[i].judged < 0)
                        continue;

                do {
                        uint64_t now = clock_ns();
                        ready = poll(&wait, 1, now < end ? (int)((end - now) / NS_PER_MS) + 1 : 0);
                } while (ready < 0 && errno == EINTR);

                if (ready <= 0 || recv(told[i].judged, &word, 1, MSG_DONTWAIT) != 1)
                        running_end(manager, told[i].number);
                close_fd(&told[i].judged);
        }
}

struct told manager_add(bailey_manager *manager, struct running *running, const struct state *began) {
        struct told told = { .judged = -1 };

        pthread_mutex_lock(&manager->lock);
        running->number = ++manager->jobs;
        running->next = manager->running;
        running->before = &manager->running;
        if (manager->running)
                manager->running->before = &running->next;

        manager->running = running;
        if (manager->state != began)
                told = running_tell(running, manager->state);
        pthread_mutex_unlock(&manager->lock);

        return told;
}

void manager_remove(bailey_manager *manager, struct running *running) {
        pthread_mutex_lock(&manager->lock);
        *running->before = running->next;
        if (running->next)
                running->next->before = running->before;
        pthread_mutex_unlock(&manager->lock);
}

/*
 * Making and freeing.
 */
static void env_free(char **env) {
        for (size_t i = 0; env && env[i]; i++)
                free(env[i]);
        free(env);
}

static char **env_copy(void) {
        size_t n = 0;
        while (environ && environ[n])
                n++;

        char **copy = calloc(n + 1, sizeof *copy);
        for (size_t i = 0; copy && i < n; i++)
                if (!(copy[i] = str_dup(str_of(environ[i])))) {
                        env_free(copy);
                        return NULL;
                }

        return copy;
}

void manager_unref(bailey_manager *manager) {
        if (!manager || atomic_fetch_sub_explicit(&manager->refs, 1, memory_order_acq_rel) != 1)
                return;

        close_fd(&manager->closing);
        state_unref(manager->state);
        map_done(&manager->approved, NULL);
        free(manager->base);
        env_free(manager->env);
        pthread_cond_destroy(&manager->left);
        pthread_mutex_destroy(&manager->lock);
        pthread_mutex_destroy(&manager->asking);
        free(manager);
}

static void manager_unrefp(bailey_manager **manager) {
        manager_unref(*manager);
}

static bailey_manager *manager_alloc(void) {
        bailey_manager *m = calloc(1, sizeof *m);
        if (!m || api_cond_init(&m->left)) {
                free(m);
                return NULL;
        }

        m->refs = 1;
        m->closing = -1;
        pthread_mutex_init(&m->lock, NULL);
        pthread_mutex_init(&m->asking, NULL);

        return m;
}

/* One sandbox, made and ended: the only proof that this machine can. */
static int try_platform(bailey_manager *manager, struct bailey_error *error) {
        static const char *const argv[] = { "true", NULL };
        cleanup(result_freep) bailey_result *result = NULL;

        if (!manager->state->program) {
                if (error)
                        *error = manager->state->no_program;
                return BAILEY_E_DEPENDENCY;
        }

        manager->sandboxed = true;
        int r = exec_run(manager, manager->state, &(struct exec_call){ .argv = argv }, &result, error);
        if (r == BAILEY_OK)
                snprintf(manager->notice, sizeof manager->notice, "%s", result->notice);

        return r;
}

static int settle_platform(bailey_manager *manager, struct bailey_error *error) {
        struct bailey_error why = { 0 };
        int r = try_platform(manager, &why);
        bool unavailable = r == BAILEY_E_PLATFORM || r == BAILEY_E_DEPENDENCY;
        if (unavailable && manager->state->unavailable == BAILEY_WARN) {
                manager->sandboxed = false;
                snprintf(manager->notice, sizeof manager->notice, "not sandboxed: %.1000s", why.message);
                return BAILEY_OK;
        }

        if (r != BAILEY_OK && error)
                *error = why;

        return r;
}

int bailey_manager_new(const bailey_config *config, bailey_manager **ret, struct bailey_error *error) {
        if (!config || !ret)
                return report_null(error);

        cleanup(manager_unrefp) bailey_manager *m = manager_alloc();
        if (!m || !(m->env = env_copy()))
                return report_memory(error);

        m->base = realpath(".", NULL);
        if (!m->base)
                return report(error, BAILEY_E_SYSTEM, "the current directory cannot be used: %s", strerror(errno));

        m->closing = api_flag_new();
        if (m->closing < 0)
                return report(error, BAILEY_E_SYSTEM, "cannot make a descriptor: %s", strerror(-m->closing));

        int r = state_new(config, m->base, &m->state, error);
        if (r == BAILEY_OK)
                r = settle_platform(m, error);
        if (r != BAILEY_OK)
                return r;

        *ret = take_ptr(&m);
        return BAILEY_OK;
}

typedef VEC(struct told) told_list;

static void told_list_done(told_list *list) {
        for (size_t i = 0; i < list->n; i++)
                close_fd(&list->p[i].judged);
        vec_done(list);
}

/* Under the lock. On failure nothing has changed; otherwise *s is the old state. */
static int manager_swap(bailey_manager *manager, struct state **state, told_list *told) {
        size_t jobs = 0;

        for (const struct running *one = manager->running; one; one = one->next)
                jobs++;
        if (vec_reserve(told, jobs) < 0)
                return -ENOMEM;

        struct state *old = manager->state;
        manager->state = take_ptr(state);
        *state = old;
        for (const struct running *one = manager->running; one; one = one->next)
                told->p[told->n++] = running_tell(one, manager->state);

        return 0;
}

int bailey_manager_update(bailey_manager *manager, const bailey_config *config, struct bailey_error *error) {
        cleanup(state_unrefp) struct state *s = NULL;
        cleanup(told_list_done) told_list told = { 0 };

        if (!manager || !config)
                return report_null(error);

        int r = state_new(config, manager->base, &s, error);
        if (r == BAILEY_OK && manager->sandboxed && !s->program) {
                if (error)
                        *error = s->no_program;
                r = BAILEY_E_DEPENDENCY;
        }

        pthread_mutex_lock(&manager->lock);
        bool closed = manager->closed;
        if (r == BAILEY_OK && !closed && manager_swap(manager, &s, &told) < 0)
                r = report_memory(error);
        pthread_mutex_unlock(&manager->lock);

        manager_await(manager, told.p, told.n);
        if (closed)
                return report(error, BAILEY_E_CLOSED, "the manager is closed");

        return r;
}

int bailey_manager_available(const bailey_manager *manager, struct bailey_error *error) {
        if (!manager) {
                report_null(error);
                return 0;
        }

        bailey_manager *changed = (bailey_manager *)(uintptr_t)manager; /* a lock is taken, nothing else */
        pthread_mutex_lock(&changed->lock);
        bool closed = manager->closed;
        pthread_mutex_unlock(&changed->lock);

        if (closed)
                report(error, BAILEY_E_CLOSED, "the manager is closed");
        else if (!manager->sandboxed)
                report(error, BAILEY_E_PLATFORM, "%s", manager->notice);
        else if (error) {
                error->code = BAILEY_OK;
                snprintf(error->message, sizeof error->message, "%.1000s", manager->notice);
        }

        return !closed && manager->sandboxed;
}

int bailey_manager_cleanup(bailey_manager *manager, struct bailey_error *error) {
        if (!manager)
                return report_null(error);

        struct timespec end;
        clock_gettime(CLOCK_MONOTONIC, &end);
        end.tv_sec += CLEANUP_SECONDS;
        pthread_mutex_lock(&manager->lock);

        bool closed = manager->closed;
        manager->closed = true;
        int late = 0;

        if (!closed)
                api_flag_raise(manager->closing);

        while (!closed && manager->inside && late == 0)
                late = api_cond_wait_until(&manager->left, &manager->lock, &end);

        unsigned left = manager->inside;
        pthread_mutex_unlock(&manager->lock);
        if (closed)
                return report(error, BAILEY_E_CLOSED, "the manager is closed");

        if (left)
                return report(error, BAILEY_E_TIMEOUT, "%u calls have not ended yet", left);

        return BAILEY_OK;
}

void bailey_manager_free(bailey_manager *manager) {
        if (!manager)
                return;
        (void)bailey_manager_cleanup(manager, NULL);
        manager_unref(manager);
}

/*
 * What must be installed.
 */
int bailey_check_dependencies(const bailey_config *config, struct bailey_dependency ret[BAILEY_DEPENDENCIES],
                              struct bailey_error *error) {
        cleanup(free_ptr) char *program = NULL, *gateway = NULL, *base = realpath(".", NULL);
        const char *shell = config ? config->shell : "/bin/sh";
        struct bailey_error why[BAILEY_DEPENDENCIES] = { 0 };

        if (!ret)
                return report_null(error);

        (void)program_find(config ? config->executable : NULL, text_or(base, "/"), &program, &why[0]);

        if (program)
                (void)program_find_gateway(program, &gateway, &why[1]);
        else
                report(&why[1], BAILEY_E_DEPENDENCY, "it is looked for beside bailey");

        bool has_shell = access(shell, X_OK) == 0;
        if (!has_shell)
                report(&why[2], BAILEY_E_DEPENDENCY, "the shell %s cannot be used: %s", shell, strerror(errno));

        const char *names[] = { "bailey", "bailey-gateway", "shell" };
        const char *found[] = { program, gateway, has_shell ? shell : NULL };
        int r = BAILEY_OK;

        for (size_t i = 0; i < BAILEY_DEPENDENCIES; i++) {
                ret[i] = (struct bailey_dependency){ .name = names[i], .found = found[i] != NULL };
                snprintf(ret[i].detail, sizeof ret[i].detail, "%s", found[i] ? found[i] : why[i].message);

                if (!found[i] && r == BAILEY_OK) {
                        r = BAILEY_E_DEPENDENCY;
                        if (error)
                                *error = why[i];
                }
        }

        return r;
}

/* Without the line end, which would stand in the middle of a message. */
static struct str doctor_words(const char *text, size_t n) {
        struct str words = str_trim(str_n(text, n));

        while (words.n > 0 && (words.p[words.n - 1] == '\n' || words.p[words.n - 1] == '\r'))
                words.n--;

        return words;
}

/* It answered with no object: with what it said instead, if it said anything. */
static int report_doctor(const char *program, const bailey_result *result, struct bailey_error *error) {
        size_t n;
        const char *text = bailey_result_stderr(result, &n);
        struct str words = doctor_words(text, n);

        if (words.n == 0) {
                text = bailey_result_stdout(result, &n);
                words = doctor_words(text, n);
        }

        if (words.n == 0)
                return report(error, BAILEY_E_SYSTEM, "%s doctor --json ended with %d and said nothing", program,
                              result->exit_code);

        return report(error, BAILEY_E_SYSTEM, "%s doctor --json ended with %d and said: %.*s", program,
                      result->exit_code, (int)min_of(words.n, DOCTOR_WORDS_MAX), words.p);
}

int manager_ask_doctor(const char *program, uint64_t limit_ns, bailey_result **ret, struct bailey_error *error) {
        cleanup(result_freep) bailey_result *result = NULL;
        char *words[] = { (char[]){ "bailey" }, (char[]){ "doctor" }, (char[]){ "--json" }, NULL };

        if (result_new(DOCTOR_MAX, &result) < 0)
                return report_memory(error);

        const struct child_plan plan = {
                .path = program, .argv = words, .envp = environ, .input = -1, .capture = true
        };
        const struct plain_call call = { .plan = &plan, .result = result, .stop = { -1, -1 }, .timeout_ns = limit_ns };

        int r = plain_child(&call, NULL, error);
        if (r == BAILEY_E_TIMEOUT)
                return report(error, r, "%s doctor --json did not end in time and was ended", program);
        if (r != BAILEY_OK)
                return r;

        size_t n;
        const char *said = bailey_result_stdout(result, &n);
        if (n == 0 || said[0] != '{') /* its exit code says what the machine lacks, and the object says more */
                return report_doctor(program, result, error);

        *ret = take_ptr(&result);
        return BAILEY_OK;
}

int bailey_capabilities(const bailey_config *config, bailey_result **ret, struct bailey_error *error) {
        cleanup(free_ptr) char *program = NULL, *base = realpath(".", NULL);

        if (!ret)
                return report_null(error);

        int r = program_find(config ? config->executable : NULL, text_or(base, "/"), &program, error);
        if (r != BAILEY_OK)
                return r;

        return manager_ask_doctor(program, DOCTOR_SECONDS * NS_PER_SECOND, ret, error);
}

/*
 * Cancelling.
 */
int bailey_cancel_new(bailey_cancel **ret, struct bailey_error *error) {
        if (!ret)
                return report_null(error);

        bailey_cancel *c = calloc(1, sizeof *c);
        if (!c)
                return report_memory(error);

        c->fd = api_flag_new();
        if (c->fd < 0) {
                int r = report(error, BAILEY_E_SYSTEM, "cannot make a descriptor: %s", strerror(-c->fd));
                free(c);
                return r;
        }

        *ret = c;
        return BAILEY_OK;
}

void bailey_cancel_trigger(bailey_cancel *cancel) {
        if (cancel)
                api_flag_raise(cancel->fd);
}

void bailey_cancel_free(bailey_cancel *cancel) {
        if (!cancel)
                return;
        close(cancel->fd);
        free(cancel);
}
