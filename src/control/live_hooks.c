/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that are notified of questions and alarms: the user's own command, and a webhook. Both are processes of
 * their own with the message on their input and nothing else of ours; the supervisor neither speaks HTTP nor waits for
 * anybody. They may print one small JSON object, the answer: {"answer":"allow","scope":"once"}. Any other output means
 * no answer. Both come from the user's own configuration, never from a workspace.
 *
 * A hook lives as long as its question, or HOOK_MS. At most LIVE_HOOKS_MAX run at once; one that is not started is
 * noted.
 */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/processes/spawn.h"
#include "conf/json.h"
#include "control/live_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { HOOK_MS = 30000, OUTPUT_MAX = 4096, LAST_ALARM_MS = 3000 };
extern char **environ;

static struct hook *free_place(struct live *live) {
        for (size_t i = 0; i < LIVE_HOOKS_MAX; i++)
                if (live->hooks[i].pid == 0)
                        return &live->hooks[i];
        return NULL;
}

static int hooks_start(struct live *live, uint64_t question, const char *program, char *const *argv, struct str secret,
                       struct str json, struct err *err) {
        struct hook *hook = free_place(live);
        cleanup(close_fd) int input = -1, secret_fd = -1, theirs = -1, ours = -1;
        int ends[2];

        if (!hook)
                return err_set(err, EBUSY, "%d of them run already", LIVE_HOOKS_MAX);

        int r = fd_sealed("bailey-hook", json, &input, err);
        if (r == 0 && secret.n)
                r = fd_sealed("bailey-hook-to", secret, &secret_fd, err);
        if (r < 0)
                return r;
        if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
                return err_errno(err, "no pipe");

        ours = ends[0];
        theirs = ends[1];
        (void)fd_set_nonblocking(theirs, false);

        const struct spawn spawn = { .program = program,
                                     .argv = argv,
                                     .environment = environ,
                                     .input = input,
                                     .output = theirs,
                                     .errors = SPAWN_NULL,
                                     .fds = &secret_fd,
                                     .n_fds = secret_fd >= 0,
                                     .flags = SPAWN_WITH_PARENT | SPAWN_OWN_SESSION | SPAWN_AT_ROOT };
        pid_t pid;

        r = spawn_start(&spawn, &pid, err);
        if (r < 0)
                return r;

        *hook = (struct hook){ .pid = pid,
                               .output = take_fd(&ours),
                               .question = question,
                               .told_only = live->parts.cannot_freeze && str_starts(secret, STR("http://")),
                               .deadline_ns = clock_ns() + HOOK_MS * NS_PER_MS,
                               .text = BUF(OUTPUT_MAX) };
        if (question) /* a person may take the time that the policy gives */
                hook->deadline_ns = clock_ns() + (*live->parts.policy)->network.ask_timeout_ns;

        return 0;
}

void live_hooks_tell(struct live *live, uint64_t question, struct str json) {
        const struct policy *policy = *live->parts.policy;
        struct err err = { 0 };

        if (policy->approval.command) {
                char *const argv[] = { (char *)"sh", (char *)"-c", policy->approval.command, NULL };
                if (hooks_start(live, question, "/bin/sh", argv, str_n(NULL, 0), json, &err) < 0)
                        (void)audit_note(*live->parts.audit, "approval.command was not started: %s", err_text(&err));
        }

        if (policy->approval.webhook) {
                cleanup(free_ptr) char *program = NULL;
                char *const argv[] = { (char *)"bailey-gateway", (char *)"webhook", NULL };
                int r = gateway_program(&program, &err);
                if (r == 0)
                        r = hooks_start(live, question, program, argv, str_of(policy->approval.webhook), json, &err);
                if (r < 0)
                        (void)audit_note(*live->parts.audit, "approval.webhook was not told: %s", err_text(&err));
        }
}

static void hooks_end(struct hook *hook, bool group) {
        if (hook->pid == 0)
                return;
        kill(group ? -hook->pid : hook->pid, SIGKILL);
        (void)spawn_wait(hook->pid);
        close_fd(&hook->output);
        buf_done(&hook->text);
        *hook = (struct hook){ .output = -1 };
}

void live_hooks_gone(struct live *live, uint64_t question) {
        for (size_t i = 0; i < LIVE_HOOKS_MAX; i++)
                if (live->hooks[i].pid && live->hooks[i].question == question)
                        hooks_end(&live->hooks[i], true);
}

/* True at the end of what it prints. */
static bool read_output(struct hook *hook) {
        for (;;) {
                char bytes[1024];
                ssize_t n = read(hook->output, bytes, sizeof bytes);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0 && errno == EAGAIN)
                        return false;
                if (n <= 0)
                        return true;

                if (buf_append(&hook->text, str_n(bytes, (size_t)n)) < 0) {
                        buf_clear(&hook->text); /* too much to be an answer */
                        return true;
                }
        }
}

/* An alarm that led to the end of the sandbox is still delivered; a question has nobody any more. */
static void await_alarm(struct hook *hook) {
        uint64_t end_ns = clock_ns() + LAST_ALARM_MS * NS_PER_MS;
        while (hook->pid && hook->question == 0 && clock_ns() < end_ns) {
                struct pollfd pollfd = { .fd = hook->output, .events = POLLIN };
                (void)poll(&pollfd, 1, clock_left_ms(end_ns));
                if (read_output(hook))
                        return;
        }
}

void live_hooks_end(struct live *live) {
        for (size_t i = 0; i < LIVE_HOOKS_MAX; i++)
                await_alarm(&live->hooks[i]);
        for (size_t i = 0; i < LIVE_HOOKS_MAX; i++)
                hooks_end(&live->hooks[i], true);
}

/* A sandbox without namespaces listens where everybody does: on the port of a webhook that is not there, too. */
static void use_output(struct live *live, uint64_t question, bool told_only, struct str text) {
        cleanup(document_freep) struct document *document = NULL;
        struct err err = { 0 };

        if (question && told_only && text.n) {
                (void)audit_note(*live->parts.audit,
                                 "the webhook's answer does not count: without namespaces it needs https");
                return;
        }

        if (!question || json_read(text, STR("answer"), &document, NULL) < 0)
                return;

        const struct node *root = document_root(document);
        const char *answer = root && root->kind == NODE_MAP ? control_text(root, "answer") : NULL;
        const char *scope_text = answer ? control_text(root, "scope") : NULL;
        enum control_scope scope = SCOPE_ONCE;
        bool allow = answer && strcmp(answer, "allow") == 0, deny = answer && strcmp(answer, "deny") == 0;
        if ((!allow && !deny) || (scope_text && !control_scope_parse(str_of(scope_text), &scope)))
                return;
        if (live_answer(live, question, allow ? ANSWER_ALLOW : ANSWER_DENY, scope, "webhook", &err) < 0)
                (void)audit_note(*live->parts.audit, "the webhook's answer: %s", err_text(&err));
}

void live_hooks_watch(const struct live *live, struct poller *poller) {
        for (size_t i = 0; i < LIVE_HOOKS_MAX; i++) {
                if (live->hooks[i].pid == 0)
                        continue;
                poller_watch(poller, live->hooks[i].output, POLLIN);
                poller_until(poller, live->hooks[i].deadline_ns);
        }
}

void live_hooks_step(struct live *live, const struct poller *poller) {
        for (size_t i = 0; i < LIVE_HOOKS_MAX; i++) {
                struct hook *hook = &live->hooks[i];
                bool ready = hook->pid && poller_ready(poller, hook->output);

                if (ready && read_output(hook)) {
                        cleanup(buf_done) struct buf text = hook->text;
                        uint64_t question = hook->question;
                        bool told_only = hook->told_only;

                        hook->text = BUF(OUTPUT_MAX);
                        hooks_end(hook, false);
                        use_output(live, question, told_only, buf_str(&text));
                } else if (hook->pid && clock_ns() >= hook->deadline_ns) {
                        hooks_end(hook, true);
                }
        }
}
