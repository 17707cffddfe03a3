/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules that change while the sandbox runs. All changes take one path: the network part of the policy is changed,
 * compiled whole, and handed to the gateway; if that fails, the policy is restored. Approvals are kept beside it, so
 * that a reload of the files does not lose them. Remembering comes last: an answer never waits for a disk, and a failed
 * write to the database is reported but does not undo the answer.
 */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "control/live_internal.h"
#include "policy/apply.h"
#include "policy/check.h"
#include "policy/load.h"
#include "roles/host_addresses.h"
#include "store/state.h"

#include <errno.h>
#include <stdio.h>

enum { LIVE_MAX = 1024 };

void live_rules_done(struct live *live) {
        for (size_t i = 0; i < live->live.n; i++) {
                free(live->live.p[i].pattern);
                free(live->live.p[i].origin);
        }
        vec_done(&live->live);
}

/* What judges connections now. */
static struct policy *rules_judging(const struct live *live) {
        return *live->parts.network ? *live->parts.network : *live->parts.policy;
}

static origin_texts *list_of(struct policy *policy, bool deny) {
        return deny ? &policy->network.deny : &policy->network.allow;
}

/* The last entry of the list with this text and origin. */
static bool remove_entry(origin_texts *list, const char *text, const char *origin) {
        for (size_t i = list->n; i-- > 0;) {
                struct origin_text *origin_text = &list->p[i];
                if (strcmp(origin_text->text, text) != 0 || (origin && strcmp(origin_text->origin, origin) != 0))
                        continue;

                free(origin_text->text);
                free(origin_text->origin);
                free(origin_text->reason);
                memmove(origin_text, origin_text + 1, (list->n - i - 1) * sizeof *origin_text);
                list->n--;

                return true;
        }

        return false;
}

static int hand_over(struct live *live, const void *snapshot, size_t n, struct err *err) {
        struct gateway_process *process = *live->parts.gateway;
        if (process)
                return gateway_process_reload(process, NULL, snapshot, n, err);

        return 0; /* one that starts later takes the policy then */
}

/* An allow that cannot help is an error: otherwise the caller would wonder why nothing changes. */
static int check_effect(const void *bytes, size_t n, const char *text, struct err *err) {
        cleanup(snapshot_closep) struct snapshot *snapshot = NULL;
        struct pattern pattern;
        struct snapshot_rule rule;

        if (pattern_parse_user(str_of(text), &pattern, NULL) < 0 || pattern.kind != PATTERN_NAME)
                return 0; /* groups, wildcards and networks: some of it may be refused still */

        int r = snapshot_open(bytes, n, &snapshot, err);
        if (r < 0)
                return r;

        struct verdict verdict =
            verdict_target(snapshot, &pattern.host, pattern.port_first == pattern.port_last ? pattern.port_first : 443);
        if (verdict.decision == DECISION_DENY && verdict.reason == REASON_NO_NETWORK)
                return err_set(err, EINVAL, "this sandbox has no network: it runs in a mode without");

        if (verdict.decision == DECISION_DENY && verdict.reason == REASON_DENY_RULE &&
            snapshot_rule(snapshot, verdict.rule, &rule)) {
                if (str_starts(rule.origin, STR("denied ")))
                        return err_set(err, EINVAL,
                                       "%s stays refused by the rule %.*s (%.*s); `bailey deny --forget %.*s` takes it "
                                       "back",
                                       text, STR_FMT(rule.text), STR_FMT(rule.origin), STR_FMT(rule.text));
                return err_set(err, EINVAL, "%s stays refused by the rule %.*s (%.*s)", text, STR_FMT(rule.text),
                               STR_FMT(rule.origin));
        }

        return 0;
}

/*
 * Remembering.
 */
static char *command_text(const struct live *live) {
        cleanup(buf_done) struct buf out = BUF(4096);
        for (char *const *word = live->parts.argv; *word; word++)
                if (buf_printf(&out, "%s%s", out.n ? " " : "", *word) < 0)
                        break;
        return str_dup(buf_str(&out));
}

void live_rules_decided(struct live *live, const struct state_decision *decision) {
        cleanup(state_closep) struct state *s = NULL;
        cleanup(free_ptr) char *command = command_text(live);
        struct err e = { 0 };
        struct state_decision state_decision = *decision;

        state_decision.sandbox = live->parts.id;
        state_decision.workspace = (*live->parts.policy)->workspace;
        state_decision.command = command;
        if (state_open(&s, &e) < 0 || state_add_decision(s, &state_decision, &e) < 0)
                log_notice("the decision is not remembered: %s", err_text(&e));
}

static int rules_remember(struct live *live, const struct rule_change *change, struct err *err) {
        cleanup(state_closep) struct state *s = NULL;
        const char *workspace = change->scope == SCOPE_WORKSPACE ? (*live->parts.policy)->workspace : NULL;
        int r = state_open(&s, err);
        if (r == 0)
                r = state_add_rule(s, change->deny, workspace, change->pattern, err);
        if (r < 0)
                return err_wrap(err, r, "the rule holds for this sandbox, but is not remembered");

        return 0;
}

/*
 * Adding and taking back.
 */
static int keep_live(struct live *live, const struct rule_change *change, const char *origin) {
        struct live_rule rule = { .deny = change->deny,
                                  .remembered = change->scope > SCOPE_SANDBOX,
                                  .pattern = str_dup(str_of(change->pattern)),
                                  .origin = str_dup(str_of(origin)) };
        if (rule.pattern && rule.origin && vec_push(&live->live, rule) == 0)
                return 0;

        free(rule.pattern);
        free(rule.origin);

        return -ENOMEM;
}

static void rules_tell(struct live *live, const struct rule_change *change) {
        cleanup(buf_done) struct buf out = BUF(LIVE_EVENT_MAX);
        const char *list = change->deny ? "deny" : "allow";

        (void)audit_note(*live->parts.audit, "rule: %s %s, scope %s, by %s", list, change->pattern,
                         control_scope_name(change->scope), change->by);
        if (!control_server_watched(live->server))
                return;

        struct emit j = control_event_open(&out, "rules");
        emit_put_text(&j, "list", list);
        emit_put_text(&j, "pattern", change->pattern);
        emit_put_text(&j, "scope", control_scope_name(change->scope));
        live_publish(live, &j);
}

int live_compile(const struct live *live, const struct policy *policy, void **ret, size_t *ret_n, struct err *err) {
        if (live->parts.compile)
                return live->parts.compile(live->parts.run, policy, ret, ret_n, err);
        return host_addresses_compile(policy, ret, ret_n, err);
}

int live_rules_add(struct live *live, const struct rule_change *change, struct err *err) {
        struct policy *policy = rules_judging(live);
        cleanup(free_ptr) void *snapshot = NULL;
        size_t n = 0;
        char day[CLOCK_TEXT_MAX], origin[48];

        if (live->live.n >= LIVE_MAX)
                return err_set(err, E2BIG, "this sandbox has %d rules that were added to it already", LIVE_MAX);

        clock_text(clock_wall_us(), day);
        day[10] = '\0';
        snprintf(origin, sizeof origin, "%s %s", change->deny ? "denied" : "approved", day);

        int r = policy_apply(policy, change->deny ? ROW_DENY : ROW_ALLOW, str_of(change->pattern), origin, "/", err);
        if (r == -ENOMEM)
                return r;
        if (r < 0)
                return -EINVAL;

        r = live_compile(live, policy, &snapshot, &n, err);
        if (r == 0 && !change->deny)
                r = check_effect(snapshot, n, change->pattern, err);
        if (r == 0)
                r = keep_live(live, change, origin) < 0 ? err_memory(err) : 0;
        if (r == 0)
                r = hand_over(live, snapshot, n, err);

        if (r < 0) {
                remove_entry(list_of(policy, change->deny), change->pattern, origin);
                return r;
        }

        rules_tell(live, change);
        if (change->scope > SCOPE_SANDBOX)
                r = rules_remember(live, change, err);
        if (r < 0) /* nothing that is read again has it */
                live->live.p[live->live.n - 1].remembered = false;

        return r;
}

/* What is taken back for one container or guest stays for all others. What is taken back for all stays a guest's own
 * rule. */
int live_forget_remembered(const struct live *live, const char *what, enum control_scope scope, struct err *err) {
        cleanup(state_closep) struct state *s = NULL;
        const char *workspace = (*live->parts.policy)->workspace;
        int r = state_open(&s, err);
        if (r < 0)
                return r;

        if (live->parts.guest && scope == SCOPE_ALWAYS)
                return state_forget_own_rule(s, "", what, err);
        if (live->parts.container || live->parts.guest)
                return state_forget_own_rule(s, workspace, what, err);

        return state_forget_rule(s, workspace, what, err);
}

/* From an answer of a person's, not from a file. */
static bool was_answered(const char *origin) {
        return str_starts(str_of(origin), STR("approved ")) || str_starts(str_of(origin), STR("denied "));
}

/* A guest reads its files again, and they may hold the same refusal for all: until they are read it stays. */
static bool forget_at_once(const struct live *live, bool deny) {
        return !live->parts.guest || !deny;
}

/* Live rules with this pattern; how many. */
static size_t forget_live(struct live *live, struct policy *policy, const char *pattern) {
        size_t removed = 0;

        for (size_t i = live->live.n; i-- > 0;) {
                struct live_rule *rule = &live->live.p[i];
                if (strcmp(rule->pattern, pattern) != 0)
                        continue;

                if (forget_at_once(live, rule->deny))
                        remove_entry(list_of(policy, rule->deny), rule->pattern, rule->origin);
                free(rule->pattern);
                free(rule->origin);
                memmove(rule, rule + 1, (live->live.n - i - 1) * sizeof *rule);
                live->live.n--;
                removed++;
        }

        return removed;
}

/* Removes rules that the launch read from the remembered ones; returns how many. The caller may have removed the rule
 * from the database already. */
static size_t forget_read(const struct live *live, struct policy *policy, const char *pattern) {
        size_t removed = 0;

        for (int list = 0; list < 2; list++) {
                origin_texts *texts = list_of(policy, list);

                for (size_t i = texts->n; i-- > 0;) {
                        if (strcmp(texts->p[i].text, pattern) != 0 || !was_answered(texts->p[i].origin))
                                continue;

                        removed++;
                        if (forget_at_once(live, list))
                                remove_entry(texts, pattern, texts->p[i].origin);
                }
        }

        return removed;
}

/* A service reads its files again, and so does a guest: what is remembered for all may still be in them. A guest whose
 * files cannot be read loses what was allowed, and keeps what was refused. */
static int forget_hand_over(struct live *live, struct policy *policy, struct err *err) {
        cleanup(free_ptr) void *snapshot = NULL;
        char later[LIVE_LATER_MAX];
        struct err why = { 0 };
        size_t n = 0;
        int r;

        if (live->parts.reload)
                return live->parts.reload(live->parts.run, err);
        if (live->parts.guest && live_rules_reload(live, later, &why) == 0)
                return 0;

        r = live_compile(live, policy, &snapshot, &n, err);
        if (r == 0)
                r = hand_over(live, snapshot, n, err);
        if (r == 0 && live->parts.guest)
                return err_set(err, EIO, "what was refused stays refused: %s", err_text(&why));

        return r;
}

/* What a guest read again may have the same pattern for every sandbox. */
static bool forget_left(const struct live *live, const char *pattern) {
        for (int deny = 0; deny < 2; deny++) {
                const origin_texts *texts = list_of(rules_judging(live), deny);

                for (size_t i = 0; i < texts->n; i++)
                        if (strcmp(texts->p[i].text, pattern) == 0 && was_answered(texts->p[i].origin))
                                return true;
        }

        return false;
}

int live_rules_forget(struct live *live, const char *pattern, enum control_scope scope, struct err *err) {
        struct policy *policy = rules_judging(live);
        size_t removed = forget_live(live, policy, pattern);
        int remembered = live_forget_remembered(live, pattern, scope, err);

        if (remembered < 0)
                return remembered;

        size_t read = forget_read(live, policy, pattern);
        if (removed == 0 && remembered == 0 && read == 0)
                return err_set(err, ENOENT, "%s is no rule that was added", pattern);

        int r = forget_hand_over(live, policy, err);
        if (r < 0)
                return r;
        if (live->parts.guest && remembered == 0 && forget_left(live, pattern))
                return err_set(err, ENOENT, "%s stays: it is remembered for %s", pattern,
                               scope == SCOPE_ALWAYS ? "this guest" : "every sandbox");

        (void)audit_note(*live->parts.audit, "rule taken back: %s", pattern);
        if (removed <= read)
                removed = read;

        return (int)removed > remembered ? (int)removed : remembered;
}

static bool is_live(const struct live *live, const struct origin_text *origin_text, bool deny) {
        for (size_t i = 0; i < live->live.n; i++)
                if (live->live.p[i].deny == deny && strcmp(live->live.p[i].pattern, origin_text->text) == 0 &&
                    strcmp(live->live.p[i].origin, origin_text->origin) == 0)
                        return true;
        return false;
}

void live_rules_emit(const struct live *live, struct emit *json) {
        emit_key(json, "rules");
        emit_open(json, '[');

        for (int deny = 0; deny < 2; deny++) {
                const origin_texts *texts = list_of(rules_judging(live), deny);
                for (size_t i = 0; i < texts->n; i++) {
                        emit_open(json, '{');
                        emit_put_text(json, "list", deny ? "deny" : "allow");
                        emit_put_text(json, "pattern", texts->p[i].text);
                        emit_put_text(json, "origin", texts->p[i].origin);
                        emit_put_bool(json, "live", is_live(live, &texts->p[i], deny));
                        emit_close(json);
                }
        }

        emit_close(json);
}
