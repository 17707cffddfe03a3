/* SPDX-License-Identifier: Apache-2.0 */
#include "api/approve.h"

#include "api/report.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/escape.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

static_assert((int)BAILEY_ALLOW == SH_ALLOW && (int)BAILEY_SANDBOXED == SH_SANDBOXED &&
                  (int)BAILEY_ESCALATED == SH_ESCALATED && (int)BAILEY_FORBIDDEN == SH_FORBIDDEN,
              "the same decisions");

enum { COMMAND_MAX = 4 << 20 };

int approve_classify(const struct state *s, const struct approve_command *c, struct sh_verdict *ret,
                     struct bailey_error *e) {
        if (c->text)
                return sh_classify(s->rules, str_of(c->text), ret) < 0 ? report_memory(e) : BAILEY_OK;
        size_t n = 0;
        while (c->argv[n])
                n++;
        cleanup(free_ptr) struct str *words = calloc(n + 1, sizeof *words);
        for (size_t i = 0; words && i < n; i++)
                words[i] = str_of(c->argv[i]);
        return !words || sh_classify_argv(s->rules, words, n, ret) < 0 ? report_memory(e) : BAILEY_OK;
}

static int refuse(struct bailey_error *e, enum bailey_code code, const struct sh_verdict *v, const char *what) {
        char segment[sizeof e->segment];
        report_escape(segment, sizeof segment, str_of(v->segment));
        report(e, code, "%s: %s (rule %s, in: %s)", what, v->reason, *v->rule ? v->rule : "none", segment);
        if (!e)
                return code;
        snprintf(e->rule, sizeof e->rule, "%s", v->rule);
        snprintf(e->reason, sizeof e->reason, "%s", v->reason);
        snprintf(e->segment, sizeof e->segment, "%s", segment);
        return code;
}

/* The command as a person reads it: for argv, words quoted for a shell. */
static int spell(const struct approve_command *c, struct buf *out) {
        if (c->text)
                return buf_add(out, c->text);
        int r = 0;
        for (size_t i = 0; r == 0 && c->argv[i]; i++) {
                r = i ? buf_add_char(out, ' ') : 0;
                r = r < 0 ? r : escape_shell(out, str_of(c->argv[i]));
        }
        return r;
}

static int ask(bailey_manager *m, const struct approver *who, const struct sh_verdict *v, const char *command,
               struct str key, struct bailey_error *e) {
        static char yes[] = "approved";
        const struct bailey_question question = {
                .command = command, .segment = v->segment ? v->segment : "", .rule = v->rule, .reason = v->reason
        };
        enum bailey_approval answer = who->fn(who->arg, &question);
        if (answer == BAILEY_APPROVE_SESSION && map_add(&m->approved, key, yes) == -ENOMEM)
                return report_memory(e);
        return answer == BAILEY_APPROVE || answer == BAILEY_APPROVE_SESSION
                   ? BAILEY_OK
                   : refuse(e, BAILEY_E_ESCALATED, v, "the command was not approved");
}

/* What was approved is this very command under this very rule; another rule that wants to know asks again. */
static int escalated(bailey_manager *m, const struct approver *who, const struct approve_command *c,
                     const struct sh_verdict *v, struct bailey_error *e) {
        cleanup(buf_done) struct buf key = BUF(COMMAND_MAX), command = BUF(COMMAND_MAX);
        int r = buf_printf(&key, "%c%s\n", c->text ? 's' : 'a', v->rule);
        r = r < 0 ? r : spell(c, &command);
        r = r < 0 ? r : buf_append(&key, buf_str(&command));
        const char *text = r < 0 ? NULL : buf_text(&command);
        if (!text)
                return r == -EMSGSIZE ? refuse(e, BAILEY_E_ESCALATED, v, "the command is too long to ask about")
                                      : report_memory(e);
        pthread_mutex_lock(&m->asking);
        if (map_get(&m->approved, buf_str(&key)))
                r = BAILEY_OK;
        else if (!who->fn)
                r = refuse(e, BAILEY_E_ESCALATED, v, "the command needs an approval, and nobody is there to be asked");
        else
                r = ask(m, who, v, text, buf_str(&key), e);
        pthread_mutex_unlock(&m->asking);
        return r;
}

int approve(bailey_manager *m, const struct state *s, const struct approve_command *c, const bailey_options *o,
            struct bailey_error *e) {
        cleanup(sh_verdict_done) struct sh_verdict v = { 0 };
        if (o && o->unclassified)
                return BAILEY_OK;
        int r = approve_classify(s, c, &v, e);
        if (r != BAILEY_OK)
                return r;
        if (v.decision == SH_FORBIDDEN)
                return refuse(e, BAILEY_E_FORBIDDEN, &v, "the command is forbidden");
        const struct approver *who = o && o->has_approver ? &o->approver : &s->approver;
        return v.decision == SH_ESCALATED ? escalated(m, who, c, &v, e) : BAILEY_OK;
}

/*
 * Judging without running.
 */
static int check(bailey_manager *m, const struct approve_command *c, struct bailey_verdict *ret,
                 struct bailey_error *e) {
        cleanup(state_unrefp) struct state *s = NULL;
        cleanup(sh_verdict_done) struct sh_verdict v = { 0 };
        int r = manager_enter(m, &s, e);
        if (r != BAILEY_OK)
                return r;
        r = approve_classify(s, c, &v, e);
        if (r == BAILEY_OK) {
                *ret = (struct bailey_verdict){ .decision = (enum bailey_decision)v.decision };
                snprintf(ret->rule, sizeof ret->rule, "%s", v.rule);
                snprintf(ret->reason, sizeof ret->reason, "%s", v.reason);
                report_escape(ret->segment, sizeof ret->segment, str_of(v.segment));
                report_escape(ret->detail, sizeof ret->detail, str_of(v.detail));
        }
        manager_leave(m);
        return r;
}

int bailey_manager_check(bailey_manager *m, const char *command, struct bailey_verdict *ret, struct bailey_error *e) {
        if (!m || !command || !ret)
                return report_null(e);
        return check(m, &(struct approve_command){ .text = command }, ret, e);
}

int bailey_manager_check_args(bailey_manager *m, const char *const *argv, struct bailey_verdict *ret,
                              struct bailey_error *e) {
        if (!m || !argv || !argv[0] || !ret)
                return report_null(e);
        return check(m, &(struct approve_command){ .argv = argv }, ret, e);
}

const char *bailey_decision_name(enum bailey_decision d) {
        return d <= BAILEY_FORBIDDEN ? sh_decision_name((enum sh_decision)d) : NULL;
}
