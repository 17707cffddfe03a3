/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/git_verdict.h"

#include "policy/block.h"
#include "policy/git.h"
#include "policy/glob.h"

static struct str text_at(const struct snapshot *s, uint32_t index) {
        return str_n(s->pool + s->texts[index].at, s->texts[index].n);
}

static void match_host(const struct snapshot *s, const struct host *host, uint16_t port, struct match *ret) {
        if (host->kind == HOST_ADDR)
                snapshot_match_addr(s, &host->addr, port, ret);
        else
                snapshot_match_name(s, host, port, ret);
}

bool verdict_git_concerns(const struct snapshot *s, const struct host *host) {
        struct match m;

        match_host(s, host, PORT_ANY, &m);
        return m.git;
}

struct found {
        uint32_t rule; /* RULE_NONE: none */
        const struct block_git *git;
        bool other_case; /* an entry that would come first differs in case only */
};

static bool rule_matches_folded(struct str pattern, struct str folded) {
        char lower[GIT_PATH_MAX];

        return pattern.n <= sizeof lower && glob_match(git_path_fold(pattern, lower), folded);
}

/* Entries stand in the order of their rank: the lowest index that matches decides. */
static struct found find_entry(const struct snapshot *s, const struct authority *target, struct str path,
                               const struct match *m) {
        struct found found = { .rule = RULE_NONE };
        uint32_t folded_best = BLOCK_NONE, best = BLOCK_NONE;
        char lower[GIT_PATH_MAX];
        struct str folded = git_path_fold(str_first(path, sizeof lower), lower);

        for (uint32_t i = m->first_git; i < m->first_git + m->n_git; i++) {
                const struct block_rule *rule = &s->rules[i];
                if (rule->list != LIST_GIT || !block_rule_covers(rule, target->port))
                        continue;

                const struct block_git *git = &s->gits[rule->request];
                struct str pattern = text_at(s, git->path);
                if (rule->request < folded_best && rule_matches_folded(pattern, folded))
                        folded_best = rule->request;
                if (rule->request < best && glob_match(pattern, path)) {
                        best = rule->request;
                        found.rule = i;
                        found.git = git;
                }
        }
        found.other_case = folded_best < best;
        return found;
}

static struct git_verdict refuse(enum reason reason, uint32_t rule, size_t at, const char *why) {
        return (struct git_verdict){
                .verdict = { .decision = DECISION_DENY, .reason = (uint8_t)reason, .rule = rule, .git = true },
                .at = at,
                .why = why,
        };
}

static struct git_verdict judge_entry(const struct snapshot *s, const struct authority *target, struct str path,
                                      size_t n, struct found *ret) {
        struct match m;
        struct git_verdict v = { .verdict = verdict_target(s, &target->host, target->port), .at = n };

        if (v.verdict.decision == DECISION_DENY)
                return v;
        match_host(s, &target->host, target->port, &m);
        *ret = find_entry(s, target, path, &m);
        if (ret->other_case)
                return refuse(REASON_GIT_REPOSITORY, RULE_NONE, n,
                              "the policy writes this repository with other capital letters");
        if (ret->rule == RULE_NONE)
                return refuse(REASON_GIT_REPOSITORY, RULE_NONE, n, NULL);
        v.verdict.rule = ret->rule;
        return v;
}

struct git_verdict verdict_git(const struct snapshot *s, const struct authority *target, struct str path,
                               enum git_right right) {
        struct found found = { 0 };
        struct git_verdict v = judge_entry(s, target, path, 0, &found);

        if (v.verdict.decision == DECISION_DENY)
                return v;
        if (right == GIT_RIGHT_FETCH && !(found.git->flags & BLOCK_GIT_FETCH))
                return refuse(REASON_GIT_SERVICE, found.rule, 0, "the rule allows no fetch");
        if (right == GIT_RIGHT_PUSH && found.git->n_refs == 0)
                return refuse(REASON_GIT_SERVICE, found.rule, 0, "the rule allows no push");
        v.ask = right == GIT_RIGHT_PUSH && (found.git->flags & BLOCK_GIT_ASK);
        return v;
}

static bool ref_is_granted(const struct snapshot *s, const struct block_git *git, struct str ref) {
        for (uint32_t i = 0; i < git->n_refs; i++)
                if (glob_match(text_at(s, git->first_ref + i), ref))
                        return true;
        return false;
}

static const char *update_problem(const struct snapshot *s, const struct block_git *git,
                                  const struct git_update *update) {
        if (!ref_is_granted(s, git, update->ref))
                return "the rule allows no push to this ref";
        if (update->creates && !(git->flags & BLOCK_GIT_CREATE))
                return "the rule allows no new refs";
        if (update->deletes && !(git->flags & BLOCK_GIT_DELETE))
                return "the rule allows no deletion of refs";
        return NULL;
}

struct git_verdict verdict_git_push(const struct snapshot *s, const struct authority *target, struct str path,
                                    const struct git_push *push) {
        struct found found = { 0 };
        struct git_verdict v = judge_entry(s, target, path, push->n, &found);

        if (v.verdict.decision == DECISION_DENY)
                return v;
        if (found.git->n_refs == 0)
                return refuse(REASON_GIT_SERVICE, found.rule, push->n, "the rule allows no push");
        if (push->options && !(found.git->flags & BLOCK_GIT_OPTIONS))
                return refuse(REASON_GIT_SERVICE, found.rule, push->n, "the rule allows no push options");
        if (push->certificate && !(found.git->flags & BLOCK_GIT_SIGNED))
                return refuse(REASON_GIT_SERVICE, found.rule, push->n, "the rule allows no signed push");

        for (size_t i = 0; i < push->n; i++) {
                const char *problem = update_problem(s, found.git, &push->updates[i]);
                if (problem)
                        return refuse(REASON_GIT_REF, found.rule, i, problem);
        }
        v.ask = found.git->flags & BLOCK_GIT_ASK;
        return v;
}
