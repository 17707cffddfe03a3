/* SPDX-License-Identifier: Apache-2.0 */
#include "run/run_spare.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/words.h"
#include "control/control_place.h"
#include "control/link.h"
#include "ipc/warm_messages.h"
#include "policy/policy_digest.h"
#include "run/run_internal.h"
#include "run/run_stdio.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

enum { OFFER_MS = 1000, SIGNALLED = 128 }; /* for a caller that has connected to say what it wants */

/* Somebody who connected, and what they brought. */
struct offer {
        int connection;
        int fds[WARM_FDS_MAX];
        size_t n_fds;
        struct buf words;
        char **argv;
        size_t n;
};

static void offer_done(struct offer *offer) {
        for (size_t i = 0; i < offer->n_fds; i++)
                close_fd(&offer->fds[i]);

        close_fd(&offer->connection);
        buf_done(&offer->words);
        free(offer->argv);
}

static void spare_say(int connection, enum warm_kind kind) {
        const struct warm_message message = { .version = WARM_VERSION, .kind = kind };

        (void)fd_send(connection, str_n(&message, offsetof(struct warm_message, text)), NULL, 0);
}

static int offer_receive(struct offer *offer, const unsigned char *key, struct err *err) {
        const struct timeval patience = { .tv_sec = OFFER_MS / 1000 };
        char bytes[sizeof(struct warm_offer) + WARM_WORDS_MAX];
        struct warm_offer head;
        int r;

        r = control_check_peer(offer->connection, err);
        if (r < 0)
                return r;
        if (setsockopt(offer->connection, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) < 0)
                return err_errno(err, "cannot wait for a command");

        ssize_t got = fd_receive(offer->connection, bytes, sizeof bytes, offer->fds, WARM_FDS_MAX, &offer->n_fds);
        if (got < (ssize_t)sizeof head)
                return err_set(err, EBADMSG, "no command came");

        memcpy(&head, bytes, sizeof head);
        if (head.leave)
                return err_set(err, ECANCELED, "it was told to end");
        if (head.version != WARM_VERSION || offer->n_fds < WARM_STREAMS || memcmp(head.key, key, sizeof head.key) != 0)
                return err_set(err, EPROTO, "the caller wants another one");

        r = buf_append(&offer->words, str_n(bytes + sizeof head, (size_t)got - sizeof head));
        if (r == 0)
                r = words_unpack(buf_str(&offer->words), &offer->argv, &offer->n);

        return r < 0 ? err_set(err, -r, "the command's words cannot be read") : 0;
}

/* Read anew: whoever changed it meanwhile expects the next command to be under it. */
static int check_policy(struct run *run, struct policy **ret, struct err *err) {
        unsigned char now[DIGEST_BYTES];
        int r = run_policy_load(run, ret, err);

        if (r == 0) {
                policy_digest(*ret, now);
                if (memcmp(now, run->q->spare->policy, sizeof now) == 0)
                        return 0;
        }

        return err_set(err, ESTALE, "the policy has changed");
}

/* A terminal belongs to a session that this process is not in; a file as input gets a mount when a sandbox is made. */
static int check_streams(const int *fds, struct err *err) {
        struct stat st;

        for (int i = 0; i < WARM_STREAMS; i++)
                if (isatty(fds[i]))
                        return err_set(err, ENOTSUP, "a stream of the command is a terminal");
        if (fstat(fds[STDIN_FILENO], &st) < 0 || S_ISREG(st.st_mode))
                return err_set(err, ENOTSUP, "the command's input is a file");

        return 0;
}

static int streams_take(const int *fds, struct err *err) {
        for (int i = 0; i < WARM_STREAMS; i++)
                if (dup2(fds[i], i) < 0)
                        return err_errno(err, "cannot take the command's streams");
        return 0;
}

/* Nobody waits for the end of a stream that is only open here. */
static void streams_drop(void) {
        cleanup(close_fd) int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);

        for (int i = 0; i < WARM_STREAMS; i++)
                if (nothing < 0 || dup2(nothing, i) < 0)
                        close(i);
}

/* In this order: what has no effect here first. -ESTALE: no other command would fit either. */
static int offer_fits(struct run *run, struct offer *offer, struct err *err) {
        struct run_spare *spare = run->q->spare;
        cleanup(policy_freep) struct policy *policy = NULL;
        int link = offer->n_fds > WARM_LINK ? offer->fds[WARM_LINK] : -1;
        int r;

        r = check_policy(run, &policy, err);
        if (r < 0)
                return r;

        r = check_streams(offer->fds, err);
        if (r < 0)
                return r;

        r = denials_step(&run->denials, err);
        if (r < 0)
                return r;

        r = spare->judge(spare->arg, policy, offer->argv, offer->n, link, err);
        if (r < 0)
                return r;

        r = streams_take(offer->fds, err);
        if (r == 0)
                r = run_stdio(run->rules, run->host.landlock_abi > 0, err);
        if (r == 0)
                r = guards_enter(&run->guards, run->plan, err);

        if (r == 0)
                return 0;

        streams_drop();
        return err_set(err, ESTALE, "%s", err_text(err));
}

/* The words live as long as the run. */
static void offer_accept(struct run *run, struct offer *offer) {
        struct run_spare *spare = run->q->spare;

        spare_say(offer->connection, WARM_TAKEN);
        if (offer->n_fds > WARM_LINK)
                offer->fds[WARM_LINK] = -1; /* the request has it */

        spare->connection = take_fd(&offer->connection);
        spare->words = offer->words;
        spare->argv = take_ptr(&offer->argv);
        offer->words = BUF(0);
        run->session.link = run->q->link;
        run->home_filled_us = clock_wall_us();
}

/* Who comes second to one that is taken launches by itself. */
static int spare_offered(struct run *run, struct err *err) {
        struct run_spare *spare = run->q->spare;
        cleanup(offer_done) struct offer offer = { .words = BUF(WARM_WORDS_MAX) };
        struct err why = { 0 };

        offer.connection = accept4(spare->listener, NULL, NULL, SOCK_CLOEXEC);
        if (offer.connection < 0)
                return 0;

        int r = offer_receive(&offer, spare->key, &why);
        if (r == 0)
                r = offer_fits(run, &offer, &why);
        if (r == 0) {
                spare->on_taken(spare->arg);
                close_fd(&spare->listener);
                offer_accept(run, &offer);
                return 0;
        }

        spare_say(offer.connection, WARM_NOT);
        return r == -ESTALE || r == -ECANCELED ? err_set(err, -r, "%s", err_text(&why)) : 0;
}

/*
 * The wait. Denied paths are watched by the run's own part, in the same poller.
 */
static void wait_watch(void *arg, struct poller *poller) {
        const struct run *run = arg;

        poller_watch(poller, run->sandbox.control, POLLIN);
        poller_watch(poller, run->session.signals, POLLIN);
        if (run->q->spare->is_mounted)
                poller_watch(poller, run->q->spare->listener, POLLIN);
        poller_until(poller, run->q->spare->until_ns);
}

/* Masks need the mounts to be there. Init says nothing else that is no failure. */
static int wait_hear(struct run *run, struct err *err) {
        struct run_spare *spare = run->q->spare;
        struct sandbox_event event;
        int r = sandbox_receive(&run->sandbox, &event, err);

        if (r < 0 || event.kind == SANDBOX_EVENTS)
                return r;
        if (event.kind != SANDBOX_MOUNTED)
                return err_set(err, EIO, "the sandbox could not be set up: %s", event.text);

        spare->mounted = event;
        spare->is_mounted = true;
        r = denials_watch_now(&run->denials, err);

        return r < 0 ? r : 0;
}

static int wait_step(void *arg, struct poller *poller, struct err *err) {
        struct run *run = arg;
        struct run_spare *spare = run->q->spare;

        if (poller_ready(poller, run->session.signals))
                return err_set(err, ECANCELED, "it was told to end");
        if (poller_ready(poller, run->sandbox.control))
                return wait_hear(run, err);
        if (poller_ready(poller, spare->listener))
                return spare_offered(run, err);
        if (clock_ns() >= spare->until_ns)
                return err_set(err, ETIMEDOUT, "nobody brought a command");

        return 0;
}

int run_spare_begin(struct run *run, struct err *err) {
        const struct policy *policy = run->session.policy;

        policy_digest(policy, run->q->spare->policy);
        if (run->degraded || policy->filesystem.overlay || policy->network.publish.n || policy->bridge.n ||
            policy->ssh.git || policy->ssh.keys.n || policy->signing.ssh || policy->signing.gpg.n ||
            policy->browser.hosts.n)
                return err_set(err, ENOTSUP, "a sandbox of this policy is not made ahead");
        return 0;
}

int run_spare_wait(struct run *run, struct err *err) {
        struct poller poller = { 0 };
        int r = 0;

        poller_add(&poller, &(struct poller_part){ run_denied_watch, run_denied_step, run });
        poller_add(&poller, &(struct poller_part){ wait_watch, wait_step, run });
        while (r >= 0 && run->q->spare->connection < 0)
                r = poller_round(&poller, err);

        poller_done(&poller);
        return r < 0 ? r : 0;
}

int run_spare_go(struct run *run, struct err *err) {
        const struct run_spare *spare = run->q->spare;
        struct warm_message message;
        size_t none = 0;
        ssize_t got = fd_receive(spare->connection, &message, sizeof message, NULL, 0, &none);

        if (got < (ssize_t)offsetof(struct warm_message, text) || message.kind != WARM_GO) {
                run_cancel(run);
                return err_set(err, ECANCELED, "the caller did not wait for its command");
        }

        return sandbox_command(&run->sandbox, run->q->argv, (const int[]){ STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO },
                               err);
}

/*
 * The caller, while the command runs.
 */
void run_spare_watch(void *run, struct poller *poller) {
        const struct run_spare *spare = ((const struct run *)run)->q->spare;

        if (spare && spare->connection >= 0)
                poller_watch(poller, spare->connection, POLLIN);
}

int run_spare_step(void *arg, struct poller *poller, struct err *err) {
        struct run *run = arg;
        const struct run_spare *spare = run->q->spare;
        struct warm_message message;
        size_t none = 0;

        if (!spare || spare->connection < 0 || !poller_ready(poller, spare->connection))
                return 0;

        ssize_t got = fd_receive(spare->connection, &message, sizeof message, NULL, 0, &none);
        if (got >= (ssize_t)offsetof(struct warm_message, text) && message.kind == WARM_SIGNAL && message.status > 0 &&
            message.status < NSIG) {
                run_signal(run, message.status);
                return 0;
        }

        run_cancel(run);
        return err_set(err, ECANCELED, "the command was cancelled and ended");
}

void run_spare_end(struct run *run, enum run_end end, const struct err *err) {
        struct run_spare *spare = run->q->spare;
        struct warm_message message = {
                .version = WARM_VERSION, .kind = WARM_END, .end = (uint32_t)end, .status = run->status
        };

        if (!spare || spare->connection < 0)
                return;

        streams_drop();
        if (end != RUN_ENDED)
                snprintf(message.text, sizeof message.text, "%s", err_text(err));

        if (run->q->link)
                link_end(run->q->link, end, run->status, end == RUN_ENDED && run->status > SIGNALLED,
                         end == RUN_ENDED ? NULL : message.text);
        else
                (void)fd_send(spare->connection, str_n(&message, sizeof message), NULL, 0);

        close_fd(&spare->connection);
}

void run_spare_done(struct run_spare *spare) {
        close_fd(&spare->listener);
        close_fd(&spare->connection);
        buf_done(&spare->words);
        free(spare->argv);
        spare->argv = NULL;
}
