/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bailey-gateway: every byte that the sandbox sends is parsed here and nowhere else. Started by the supervisor with
 * descriptors only (ipc/gateway.h): the start block, the control and event sockets, the policy, the listeners.
 *
 * Order: read and check everything, make the workers (their files are read now), give up all rights that are not needed
 * (gateway/confine.h), start the threads, accept, tell the supervisor. It ends when told, when the supervisor goes
 * away, or when anything is not as it must be; what is open ends with it.
 */
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/secret.h"
#include "gateway/acceptor.h"
#include "gateway/chain.h"
#include "gateway/confine.h"
#include "gateway/control.h"
#include "gateway/courier.h"
#include "gateway/creds/old_secrets.h"
#include "gateway/creds/vault_client.h"
#include "gateway/dns/synthetic.h"
#include "gateway/door.h"
#include "gateway/quota.h"
#include "gateway/webhook.h"
#include "gateway/worker_parts.h"
#include "ipc/credentials.h"
#include "net/tls.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

enum { EXIT_BROKEN = 70 };

static void raise_descriptor_limit(void) {
        struct rlimit limit;
        if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
                limit.rlim_cur = limit.rlim_max;
                setrlimit(RLIMIT_NOFILE, &limit);
        }
}

static unsigned worker_count(uint32_t wanted) {
        long processors = sysconf(_SC_NPROCESSORS_ONLN);
        unsigned n = wanted ? wanted : processors > 0 ? (unsigned)processors : 1;
        return n < GATEWAY_WORKERS_MAX ? n : GATEWAY_WORKERS_MAX;
}

/* Behind the listeners: the credential table, if TLS is to be opened, then the connections to the vault. */
static int first_vault(const struct gateway_start *start) {
        return GATEWAY_FD_LISTENERS + (int)start->n_listeners + (start->intercept ? 1 : 0);
}

/* The descriptors that must be there, marked close-on-exec like all others. */
static int check_descriptors(const struct gateway_start *start, struct err *e) {
        int end = first_vault(start) + (int)start->n_vaults;
        for (int fd = GATEWAY_FD_START; fd < end; fd++)
                if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
                        return err_errno(e, "descriptor %d, which the supervisor must pass, is missing", fd);
        return fd_close_from(end);
}

static int load_policy(struct gateway *g, struct policy_ref **ret, struct err *e) {
        cleanup(snapshot_closep) struct snapshot *s = NULL;
        int r = snapshot_open_fd(GATEWAY_FD_SNAPSHOT, &s, e);
        if (r < 0)
                return r;
        *ret = policy_ref_new(s, g->start.generation);
        if (!*ret)
                return err_set(e, ENOMEM, "no memory for the policy");
        s = NULL;
        return 0;
}

static int make_workers(struct gateway *g, struct err *e) {
        struct policy_ref *p;
        int r = load_policy(g, &p, e);
        if (r < 0)
                return r;
        unsigned n = worker_count(g->start.workers);
        g->workers = calloc(n, sizeof *g->workers);
        for (unsigned i = 0; g->workers && r == 0 && i < n; i++) {
                r = worker_new(g, i, p, &g->workers[i], e);
                if (r == 0)
                        g->n_workers++;
        }
        for (unsigned i = 0; g->workers && r == 0 && i < g->n_workers && i < g->start.n_vaults; i++)
                vault_client_connect(g->workers[i]->vault, first_vault(&g->start) + (int)i);
        policy_ref_put(p);
        return g->workers ? r : err_set(e, ENOMEM, "no memory for the workers");
}

/* Out of the start block, whose file goes with its last descriptor, into memory that no core file or stray read shows.
 */
static int keep_password(struct gateway *g, struct err *e) {
        struct str password = str_of(g->start.upstream_password);
        int r = password.n ? secret_new(password, &g->upstream_password, e) : 0;
        secret_wipe(g->start.upstream_password, sizeof g->start.upstream_password);
        close(GATEWAY_FD_START);
        return r;
}

static int set_up(struct gateway *g, struct err *e) {
        int r = gateway_start_read(GATEWAY_FD_START, &g->start, e);
        r = r < 0 ? r : check_descriptors(&g->start, e);
        r = r < 0 ? r : keep_password(g, e);
        if (r < 0)
                return r;
        log_setup(&(struct log_settings){
            .level = (enum log_level)g->start.log_level, .fd = 2, .program = "bailey-gateway", .per_second = 200 });
        g->events_fd = GATEWAY_FD_EVENTS;
        atomic_store(&g->audit_fails, g->start.audit == 0);
        g->quota = quota_new(&g->start);
        if (!g->quota)
                return err_set(e, ENOMEM, "no memory for the limits");
        if (g->start.dns_mode == DNS_SYNTHETIC)
                r = synthetic_new(&(struct synthetic_settings){ 0 }, &g->synthetic, e);
        if (r == 0 && g->start.upstream_kind != UPSTREAM_NONE)
                r = chain_bypass_new(g->start.upstream_bypass, &g->bypass, e);
        if (r == 0 && g->start.intercept)
                r = tls_context_new(g->start.ca_bundle, &g->tls, e);
        if (r == 0 && g->start.intercept)
                r = credentials_open_fd(first_vault(&g->start) - 1, &g->credentials, e);
        if (r == 0 && g->start.intercept && past_new(&g->past) < 0)
                r = err_set(e, ENOMEM, "no memory for values that were replaced");
        return r < 0 ? r : make_workers(g, e);
}

static int start_accepting(struct gateway *g, struct err *e) {
        int fds[GATEWAY_LISTENERS_MAX];
        for (unsigned i = 0; i < g->start.n_listeners; i++)
                fds[i] = GATEWAY_FD_LISTENERS + (int)i;
        for (unsigned i = 0; i < g->n_workers; i++) {
                int r = acceptor_start(g->workers[i], fds, e);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int run(struct gateway *g, struct loop *l, struct err *e) {
        unsigned started = 0;
        int r = 0;
        for (; r == 0 && started < g->n_workers; started += r == 0)
                r = -pthread_create(&g->workers[started]->thread, NULL, worker_main, g->workers[started]);
        if (r < 0)
                err_set(e, -r, "cannot start a worker thread");
        else {
                control_ready(g->control);
                loop_run(l);
        }
        for (unsigned i = 0; i < started; i++)
                loop_stop(g->workers[i]->loop);
        for (unsigned i = 0; i < started; i++)
                pthread_join(g->workers[i]->thread, NULL);
        return r;
}

static void tear_down(struct gateway *g) {
        for (unsigned i = 0; i < g->n_workers; i++)
                worker_free(g->workers[i]);
        free(g->workers);
        control_free(g->control);
        chain_bypass_free(g->bypass);
        past_free(g->past);
        credentials_close(g->credentials);
        tls_context_free(g->tls);
        synthetic_free(g->synthetic);
        quota_free(g->quota);
        secret_free(g->upstream_password);
}

int main(int argc, char **argv) {
        static struct gateway g;
        struct err e = { 0 };
        cleanup(loop_freep) struct loop *l = NULL;
        signal(SIGPIPE, SIG_IGN); /* splice(2) has no flag against it */
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (argc == 2 && strcmp(argv[1], "webhook") == 0)
                return webhook_main(&e) < 0 ? 1 : 0;
        if (argc == 2 && strcmp(argv[1], "courier") == 0)
                return courier_main(&e) < 0 ? 1 : 0;
        if (argc == 2 && strcmp(argv[1], "door") == 0)
                return door_main(&e) < 0 ? 1 : 0;
        raise_descriptor_limit();
        int r = set_up(&g, &e);
        r = r < 0 ? r : loop_new(&l, &e);
        r = r < 0 ? r : control_new(&g, l, GATEWAY_FD_CONTROL, &g.control, &e);
        r = r < 0 ? r : confine_gateway(&e);
        r = r < 0 ? r : start_accepting(&g, &e);
        r = r < 0 ? r : run(&g, l, &e);
        if (r < 0) {
                log_error("%s", err_text(&e));
                if (g.control)
                        control_failed(g.control, err_text(&e));
        }
        tear_down(&g);
        return r < 0 ? EXIT_BROKEN : 0;
}
