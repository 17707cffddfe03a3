/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `bailey egress reload`. A signal that carries a number asks the service; it answers with a file of that number,
 * written once the new rules are in force. One caller at a time.
 */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/paths/path.h"
#include "base/random.h"
#include "conf/json.h"
#include "egress/egress.h"
#include "egress/egress_pid.h"
#include "egress/egress_state.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { ANSWER_MS = 150000, STEP_MS = 20 };

static void reload_say(const struct egress_talk *talk, bool bad, struct str text) {
        cleanup(free_ptr) char *copy = str_dup(text);
        if (talk && talk->say && copy)
                talk->say(talk->arg, bad, copy);
}

static int read_json(const char *directory, const char *name, struct document **ret) {
        cleanup(buf_done) struct buf text = BUF(0);
        int r = egress_read(directory, name, &text, NULL);
        if (r < 0)
                return r;

        return json_read(buf_str(&text), str_of(name), ret, NULL);
}

static struct str reload_value(const struct node *map, const char *key) {
        const struct node *node = map ? node_get(map, str_of(key)) : NULL;
        return node && node->kind == NODE_SCALAR ? node->text : (struct str){ 0 };
}

static int send_request(int pidfd, int ticket) {
        siginfo_t info = { .si_signo = SIGHUP, .si_code = SI_QUEUE, .si_pid = getpid(), .si_uid = getuid() };
        info.si_value.sival_int = ticket;
        if (syscall(SYS_pidfd_send_signal, pidfd, SIGHUP, &info, 0) < 0)
                return -errno;

        return 0;
}

/* The answer with our number. */
static int wait_answer(const char *directory, int pidfd, int ticket, struct document **ret, struct err *err) {
        uint64_t end = clock_ns() + ANSWER_MS * NS_PER_MS;
        char wanted[16];

        snprintf(wanted, sizeof wanted, "%d", ticket);

        while (clock_ns() < end) {
                cleanup(document_freep) struct document *d = NULL;
                if (read_json(directory, EGRESS_RELOAD, &d) == 0 &&
                    str_is(reload_value(document_root(d), "ticket"), wanted)) {
                        *ret = take_ptr(&d);
                        return 0;
                }

                struct pollfd ended = { .fd = pidfd, .events = POLLIN };
                if (poll(&ended, 1, STEP_MS) > 0)
                        return err_set(err, ESRCH, "the service has ended; its log is %s/%s", directory, EGRESS_LOG);
        }

        return err_set(err, ETIMEDOUT, "the service does not answer; its log is %s/%s", directory, EGRESS_LOG);
}

static bool reload_differs(const struct node *fixed, const char *key, const char *now) {
        return !str_is(reload_value(fixed, key), text_or(now, ""));
}

/* Settings that only a start looks at. */
static void tell_fixed(const char *directory, const struct egress_settings *settings, const struct egress_talk *talk) {
        cleanup(document_freep) struct document *document = NULL;
        char port[16], tokens[DIGEST_HEX_MAX];

        snprintf(port, sizeof port, "%u", settings->port);
        const struct node *fixed = read_json(directory, EGRESS_SERVICE, &document) == 0
                                       ? node_get(document_root(document), STR("fixed"))
                                       : NULL;
        if (fixed && (reload_differs(fixed, "port", port) || reload_differs(fixed, "bridge", settings->bridge) ||
                      reload_differs(fixed, "hosts", settings->hosts) ||
                      reload_differs(fixed, "ca_bundle", settings->ca_bundle)))
                reload_say(
                    talk, true,
                    STR("port, bridge, hosts or ca_bundle have changed; \"bailey egress restart\" makes that count"));

        egress_tokens_digest(directory, tokens);

        if (fixed && reload_differs(fixed, "tokens", tokens))
                reload_say(
                    talk, true,
                    STR("the stand-ins were made anew since it was started, and the service swaps those of before; "
                        "\"bailey egress restart\" makes the new ones count"));
}

static int reload_ask(const char *directory, int pidfd, const struct egress_settings *settings,
                      const struct egress_talk *talk, struct err *err) {
        cleanup(document_freep) struct document *answer = NULL;
        uint32_t number = 0;

        random_bytes(&number, sizeof number);
        int ticket = (int)(number >> 1) | 1;
        int r = send_request(pidfd, ticket);
        if (r < 0)
                return err_set(err, -r, "cannot reach the service: %s", strerror(-r));

        r = wait_answer(directory, pidfd, ticket, &answer, err);
        if (r < 0)
                return r;

        struct str text = reload_value(document_root(answer), "text"), line;

        if (!str_is(reload_value(document_root(answer), "ok"), "true")) {
                err_blame(err, ERR_CONFIG);
                return err_set(err, EINVAL,
                               "everything stays as it was: %.*s (the service has the environment that it was started "
                               "with; \"bailey egress restart\" gives it this one)",
                               STR_FMT(text));
        }

        if (text.n == 0)
                reload_say(talk, false, STR("no rule has changed; secrets are read again"));

        while (str_split(&text, '\n', &line))
                if (line.n > 0)
                        reload_say(talk, false, line);

        tell_fixed(directory, settings, talk);
        return 0;
}

int egress_reload(const struct egress_talk *talk, struct err *err) {
        cleanup(free_ptr) char *directory = NULL, *lock_path = NULL;
        cleanup(egress_settings_done) struct egress_settings settings = { 0 };
        cleanup(close_fd) int pidfd = -1, lock = -1;
        struct egress_identity id;

        err_blame(err, ERR_SYSTEM);
        int r = egress_directory(true, &directory, err);
        if (r < 0)
                return r;

        err_blame(err, ERR_UNAVAILABLE);
        if (egress_pid_find(directory, true, &id, &pidfd, NULL) < 0)
                return err_set(err, ENOENT, "it does not run; start it with \"bailey egress start\"");

        err_blame(err, ERR_CONFIG);
        r = egress_settings_load(directory, &settings, err);
        if (r >= 0)
                r = egress_settings_save(directory, &settings, err);
        if (r < 0)
                return err_wrap(err, r, "everything stays as it was");

        err_blame(err, ERR_SYSTEM);
        lock_path = path_join(directory, "reload.lock");
        if (lock_path)
                lock = open(lock_path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
        else
                lock = -1;
        if (lock < 0 || flock(lock, LOCK_EX) < 0)
                return err_errno(err, "cannot lock %s", lock_path ? lock_path : directory);

        return reload_ask(directory, pidfd, &settings, talk, err);
}
