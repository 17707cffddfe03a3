/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bailey-gateway: every byte that the sandbox sends is parsed here and nowhere else. Started by the supervisor with
 * descriptors only (ipc/gateway_messages.h): the start block, the control and event sockets, the policy, the listeners.
 *
 * Order: read and check everything, make the workers (their files are read now), give up all rights that are not needed
 * (gateway/confine/gateway_confine.h), start the threads, accept, tell the supervisor. It ends when told, when the
 * supervisor goes away, or when anything is not as it must be; what is open ends with it.
 */
#include "base/bounds.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/processes/rest.h"
#include "base/secrets/secret.h"
#include "gateway/acceptor.h"
#include "gateway/chain.h"
#include "gateway/confine/gateway_confine.h"
#include "gateway/control.h"
#include "gateway/creds/old_secrets.h"
#include "gateway/creds/vault_client.h"
#include "gateway/dns/synthetic.h"
#include "gateway/errands/errand.h"
#include "gateway/load/quota.h"
#include "gateway/worker_parts.h"
#include "ipc/credentials.h"
#include "net/tls.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
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
        unsigned n = 1;
        if (wanted)
                n = wanted;
        else if (processors > 0)
                n = (unsigned)processors;

        return min_of(n, GATEWAY_WORKERS_MAX);
}

/* Behind the listeners: the credential table, if TLS is to be opened, then the connections to the vault. */
static int first_vault(const struct gateway_start *start) {
        return GATEWAY_FD_LISTENERS + (int)start->n_listeners + (start->intercept ? 1 : 0);
}

/* The descriptors that must be there, marked close-on-exec like all others. */
static int check_descriptors(const struct gateway_start *start, struct err *err) {
        int end = first_vault(start) + (int)start->n_vaults;
        for (int fd = GATEWAY_FD_START; fd < end; fd++)
                if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
                        return err_errno(err, "descriptor %d, which the supervisor must pass, is missing", fd);
        return fd_close_from(end);
}

static int load_policy(struct gateway *gateway, struct policy_ref **ret, struct err *err) {
        cleanup(snapshot_closep) struct snapshot *snapshot = NULL;
        int r = snapshot_open_fd(GATEWAY_FD_SNAPSHOT, &snapshot, err);
        if (r < 0)
                return r;

        *ret = policy_ref_new(snapshot, gateway->start.generation);
        if (!*ret)
                return err_set(err, ENOMEM, "no memory for the policy");

        snapshot = NULL;
        return 0;
}

static int make_workers(struct gateway *gateway, struct err *err) {
        struct policy_ref *ref;
        int r = load_policy(gateway, &ref, err);
        if (r < 0)
                return r;

        unsigned n = worker_count(gateway->start.workers);
        gateway->workers = calloc(n, sizeof *gateway->workers);
        for (unsigned i = 0; gateway->workers && r == 0 && i < n; i++) {
                r = worker_new(gateway, i, ref, &gateway->workers[i], err);
                if (r == 0)
                        gateway->n_workers++;
        }

        for (unsigned i = 0; gateway->workers && r == 0 && i < gateway->n_workers && i < gateway->start.n_vaults; i++)
                vault_client_connect(gateway->workers[i]->vault, first_vault(&gateway->start) + (int)i);

        policy_ref_put(ref);
        if (!gateway->workers)
                return err_set(err, ENOMEM, "no memory for the workers");

        return r;
}

/* Out of the start block, whose file goes with its last descriptor, into memory that no core file or stray read shows.
 */
static int keep_secrets(struct gateway *gateway, struct err *err) {
        struct gateway_start *start = &gateway->start;
        int r =
            secret_take(start->upstream_password, sizeof start->upstream_password, &gateway->upstream_password, err);
        if (r == 0)
                r = secret_take(start->client_secret, sizeof start->client_secret, &gateway->client_secret, err);

        close(GATEWAY_FD_START);
        return r;
}

static int set_up(struct gateway *gateway, struct err *err) {
        int r = gateway_start_read(GATEWAY_FD_START, &gateway->start, err);
        if (r < 0)
                return r;

        r = check_descriptors(&gateway->start, err);
        if (r < 0)
                return r;

        r = keep_secrets(gateway, err);
        if (r < 0)
                return r;

        log_setup(&(struct log_settings){ .level = (enum log_level)gateway->start.log_level,
                                          .fd = 2,
                                          .program = "bailey-gateway",
                                          .per_second = 200 });
        gateway->events_fd = GATEWAY_FD_EVENTS;
        atomic_store(&gateway->audit_fails, gateway->start.audit == 0);
        gateway->quota = quota_new(&gateway->start);
        if (!gateway->quota)
                return err_set(err, ENOMEM, "no memory for the limits");
        if (gateway->start.dns_mode == DNS_SYNTHETIC)
                r = synthetic_new(&(struct synthetic_settings){ 0 }, &gateway->synthetic, err);
        if (r == 0 && gateway->start.upstream_kind != UPSTREAM_NONE)
                r = chain_bypass_new(gateway->start.upstream_bypass, &gateway->bypass, err);
        if (r == 0 && gateway->start.intercept)
                r = tls_context_new(gateway->start.ca_bundle, &gateway->tls, err);
        if (r == 0 && gateway->start.intercept)
                r = credentials_open_fd(first_vault(&gateway->start) - 1, &gateway->credentials, err);
        if (r == 0 && gateway->start.intercept && past_new(&gateway->past) < 0)
                r = err_set(err, ENOMEM, "no memory for values that were replaced");
        if (r < 0)
                return r;

        return make_workers(gateway, err);
}

static int start_accepting(struct gateway *gateway, struct err *err) {
        int fds[GATEWAY_LISTENERS_MAX];

        for (unsigned i = 0; i < gateway->start.n_listeners; i++)
                fds[i] = GATEWAY_FD_LISTENERS + (int)i;

        return acceptor_start(gateway->workers[0], fds, err);
}

/* If no thread has had anything to do for a while: to trim the heap takes milliseconds and the locks of all. */
static void rest_if_idle(void *arg) {
        const struct gateway *gateway = arg;

        for (unsigned i = 0; i < gateway->n_workers; i++)
                if (worker_runs(gateway->workers[i]) && !loop_is_idle(gateway->workers[i]->loop))
                        return;

        process_rest();
}

/* What is accepted waits for the first worker. The others start when there is work for them (gateway/load/balance.h).
 */
static int main_run(struct gateway *gateway, struct loop *loop, struct err *err) {
        int r = 0;

        for (unsigned i = 0; i < gateway->n_workers; i++)
                loop_when_idle(gateway->workers[i]->loop, rest_if_idle, gateway);
        if (!gateway->start.waits)
                r = worker_start(gateway->workers[0]);

        if (r < 0)
                err_set(err, -r, "cannot start a worker thread");
        else {
                control_ready(gateway->control);
                loop_run(loop);
        }

        for (unsigned i = 0; i < gateway->n_workers; i++)
                if (worker_runs(gateway->workers[i]))
                        loop_stop(gateway->workers[i]->loop);

        for (unsigned i = 0; i < gateway->n_workers; i++)
                if (worker_runs(gateway->workers[i]))
                        pthread_join(gateway->workers[i]->thread, NULL);

        return r;
}

static void tear_down(struct gateway *gateway) {
        for (unsigned i = 0; i < gateway->n_workers; i++)
                worker_free(gateway->workers[i]);

        free(gateway->workers);
        control_free(gateway->control);
        chain_bypass_free(gateway->bypass);
        past_free(gateway->past);
        credentials_close(gateway->credentials);
        tls_context_free(gateway->tls);
        synthetic_free(gateway->synthetic);
        quota_free(gateway->quota);
        secret_free(gateway->upstream_password);
        secret_free(gateway->client_secret);
}

int main(int argc, char **argv) {
        static struct gateway gateway;
        struct err e = { 0 };
        cleanup(loop_freep) struct loop *loop = NULL;

        signal(SIGPIPE, SIG_IGN); /* splice(2) has no flag against it */
        confine_to_parent();
        if (errand_is_named(argc, argv)) {
                if (errand_run(argv, &e) < 0)
                        return 1;
                return 0;
        }

        raise_descriptor_limit();
        int r = set_up(&gateway, &e);
        if (r >= 0)
                r = loop_new(&loop, &e);
        if (r >= 0)
                r = control_new(&gateway, loop, GATEWAY_FD_CONTROL, &gateway.control, &e);
        if (r >= 0)
                r = confine_gateway(&e);
        if (r >= 0)
                r = start_accepting(&gateway, &e);
        if (r >= 0)
                r = main_run(&gateway, loop, &e);
        if (r < 0) {
                log_error("%s", err_text(&e));
                if (gateway.control)
                        control_failed(gateway.control, err_text(&e));
        }

        tear_down(&gateway);
        if (r < 0)
                return EXIT_BROKEN;

        return 0;
}
