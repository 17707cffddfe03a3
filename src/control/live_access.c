/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests of an agent for something other than a host: a path, or a command that the classifier escalates. An approved
 * command is allowed from then on: for this sandbox, and beyond it if the scope says so. An approved path is opened in
 * the running sandbox (run/run_grants.h) where possible, and remembered as a grant for the next start
 * (policy/approved.h).
 *
 * The requester can query the result (ASK_AGREED). That bothers nobody and reveals only yes or no. All texts come from
 * inside: none of them is trusted.
 */
#include "base/cleanup.h"
#include "base/paths/path.h"
#include "control/live_internal.h"
#include "policy/apply.h"

#include <errno.h>
#include <string.h>

enum { AGREED_MAX = 1024 };

#define RUN "run "

/* "wants N KIND WHAT WORDS": N bytes of it are what is asked for. */
static bool access_read(struct str text, struct str *ret_what, struct str *ret_words) {
        struct str verb, number;
        uint64_t n;

        if (!str_split(&text, ' ', &verb) || !str_split(&text, ' ', &number) || !str_to_u64(number, text.n, &n) ||
            n == 0)
                return false;

        *ret_what = str_first(text, (size_t)n);
        *ret_words = str_skip(text, (size_t)n);
        if (ret_words->n)
                *ret_words = str_skip(*ret_words, 1);

        return approved_is_path(*ret_what) || str_starts(*ret_what, STR(RUN));
}

bool live_access_ask(struct live *live, uint64_t id, const struct authority *target, enum event_via via,
                     const char *text, struct question **ret) {
        uint64_t timeout_ns = (*live->parts.policy)->network.ask_timeout_ns;
        struct str what, words;
        cleanup(free_ptr) char *about = access_read(str_of(text), &what, &words) ? str_dup(what) : NULL;

        *ret = about ? questions_ask_push(&live->questions, id, target, via, about, timeout_ns) : NULL;
        if (!*ret)
                return false;

        (*ret)->access = true;
        question_explain(*ret, words);

        return true;
}

/*
 * What was agreed to.
 */
static bool agreed_here(const struct live *live, const char *command) {
        for (size_t i = 0; i < live->agreed.n; i++)
                if (strcmp(live->agreed.p[i], command) == 0)
                        return true;
        return false;
}

static bool agreed_before(const struct live *live, const char *what) {
        cleanup(state_closep) struct state *s = NULL;
        cleanup(approved_done) struct approved rules = { 0 };
        const char *workspace = (*live->parts.policy)->workspace;
        enum state_answer answer = STATE_NO_ANSWER;

        if (state_open(&s, NULL) < 0)
                return false;

        if (str_starts(str_of(what), STR(RUN)))
                return state_command(s, workspace, STATE_ANY_RULE, what + strlen(RUN), &answer, NULL) == 0 &&
                       answer == STATE_ALLOWED;

        return state_rules(s, &rules, NULL) == 0 && approved_has(&rules, workspace, what);
}

bool live_access_agreed(const struct live *live, const char *text) {
        struct str what, words;
        cleanup(free_ptr) char *about = access_read(str_of(text), &what, &words) ? str_dup(what) : NULL;

        if (!about)
                return false;
        bool here = str_starts(what, STR(RUN)) && agreed_here(live, about + strlen(RUN));
        return here || agreed_before(live, about);
}

/*
 * An answer.
 */
static int keep_agreed(struct live *live, const char *command, struct err *err) {
        cleanup(free_ptr) char *copy = str_dup(str_of(command));

        if (agreed_here(live, command))
                return 0;
        if (live->agreed.n >= AGREED_MAX)
                return err_set(err, E2BIG, "%d commands were agreed to in this sandbox already", AGREED_MAX);
        if (!copy || vec_push(&live->agreed, copy) < 0)
                return err_memory(err);

        (void)take_ptr(&copy);
        return 0;
}

/* A grant that a launch would refuse, or that cannot be read back as it is, would block every later run. */
static int check_path(const struct live *live, const char *what, struct err *err) {
        const char *path = strchr(what, '/'), *home = (*live->parts.policy)->home;

        int r = policy_check_value(ROW_READ, str_of(path), err);
        if (r < 0)
                return r;
        if (strchr(path, '%'))
                return err_set(err, EINVAL, "a path with %% in it is not remembered: name it in the policy");
        if (strcmp(path, "/") == 0 || (home && path_is_within(home, path)))
                return err_set(err, EINVAL, "the whole of %s is not remembered: name it in the policy", path);

        return 0;
}

static int remember_access(const struct live *live, const char *what, bool deny, enum control_scope scope,
                           struct err *err) {
        cleanup(state_closep) struct state *s = NULL;
        const char *workspace = scope == SCOPE_WORKSPACE ? (*live->parts.policy)->workspace : NULL;
        bool command = str_starts(str_of(what), STR(RUN));
        int r = 0;

        if (!command)
                r = check_path(live, what, err);

        if (!command && deny) /* what no rule grants is closed: there is nothing to remember */
                return 0;

        if (r >= 0)
                r = state_open(&s, err);
        if (r < 0)
                return r;

        if (command)
                return state_add_command(s, deny, workspace, STATE_ANY_RULE, what + strlen(RUN), err);

        return state_add_rule(s, false, workspace, what, err);
}

/* A path that cannot be opened now may still be granted at the next start; a denied one never is. */
int live_access_open(struct live *live, const char *what, enum control_scope scope, struct err *err) {
        struct err why = { 0 };

        if (!approved_is_path(str_of(what)))
                return 0;

        int r = live->parts.grant ? live->parts.grant(live->parts.run, what, &why)
                                  : err_set(&why, EOPNOTSUPP, "paths cannot be opened while this sandbox runs");

        if (r == -EEXIST || ((r == -EOPNOTSUPP || r == -ENOENT) && scope >= SCOPE_WORKSPACE))
                return 0;
        if (r < 0)
                *err = why;

        return r;
}

static void tell_opened(struct live *live, const char *what, enum control_scope scope, const char *by) {
        cleanup(buf_done) struct buf out = BUF(LIVE_EVENT_MAX);

        (void)audit_note(*live->parts.audit, "path: allow %s, scope %s, by %s", what, control_scope_name(scope), by);
        if (!control_server_watched(live->server))
                return;

        struct emit j = control_event_open(&out, "rules");
        emit_put_text(&j, "list", "path");
        emit_put_text(&j, "pattern", what);
        emit_put_text(&j, "scope", control_scope_name(scope));
        live_publish(live, &j);
}

int live_access_grant(struct live *live, const char *what, enum control_scope scope, const char *by, struct err *err) {
        int r = live_access_open(live, what, scope, err), answered;
        struct err why = { 0 };

        if (r < 0)
                return r;

        tell_opened(live, what, scope, by);
        answered = live_answer_opened(live, what, by, &why);
        if (scope >= SCOPE_WORKSPACE)
                r = remember_access(live, what, false, scope, err);
        else
                r = 0;
        if (r == 0 && answered < 0) {
                *err = why;
                return answered;
        }

        return r;
}

int live_access_forget(struct live *live, const char *what, enum control_scope scope, struct err *err) {
        struct err why = { 0 };
        int closed = live->parts.revoke ? live->parts.revoke(live->parts.run, what, &why) : -ENOENT;
        int n = live_forget_remembered(live, what, scope, err);

        if (closed < 0 && closed != -ENOENT) {
                *err = why;
                return closed;
        }

        if (n < 0)
                return n;
        if (n == 0 && closed < 0)
                return err_set(err, ENOENT, "%s is nothing that was opened", what);

        return n + (closed == 0);
}

int live_access_decided(struct live *live, const char *what, enum control_answer answer, enum control_scope scope,
                        struct err *err) {
        bool deny = answer == ANSWER_DENY;
        int r = 0;

        if (!deny && str_starts(str_of(what), STR(RUN)))
                r = keep_agreed(live, what + strlen(RUN), err);
        if (r == 0 && scope >= SCOPE_WORKSPACE)
                r = remember_access(live, what, deny, scope, err);

        if (r < 0)
                return err_wrap(err, r, "the answer is told, but is not remembered");

        return 0;
}

void live_access_done(struct live *live) {
        for (size_t i = 0; i < live->agreed.n; i++)
                free(live->agreed.p[i]);
        vec_done(&live->agreed);
}
