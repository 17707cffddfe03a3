/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/git/git_verdict.h"

#include "policy/block_internal.h"
#include "policy/git/git.h"
#include "policy/match/glob.h"

static struct str text_at(const struct snapshot *snapshot, uint32_t index) {
        return str_n(snapshot->pool + snapshot->texts[index].at, snapshot->texts[index].n);
}

static void match_host(const struct snapshot *snapshot, const struct host *host, uint16_t port, struct match *ret) {
        if (host->kind == HOST_ADDR)
                snapshot_match_addr(snapshot, &host->addr, port, ret);
        else
                snapshot_match_name(snapshot, host, port, ret);
}

bool verdict_git_concerns(const struct snapshot *snapshot, const struct host *host) {
        struct match match;

        match_host(snapshot, host, PORT_ANY, &match);
        return match.git;
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
static struct found find_entry(const struct snapshot *snapshot, const struct authority *target, struct str path,
                               const struct match *match) {
        struct found found = { .rule = RULE_NONE };
        uint32_t folded_best = BLOCK_NONE, best = BLOCK_NONE;
        char lower[GIT_PATH_MAX];
        struct str folded = git_path_fold(str_first(path, sizeof lower), lower);

        for (uint32_t i = match->first_git; i < match->first_git + match->n_git; i++) {
                const struct block_rule *rule = &snapshot->rules[i];
                if (rule->list != LIST_GIT || !block_rule_covers(rule, target->port))
                        continue;

                const struct block_git *git = &snapshot->gits[rule->request];
                struct str pattern = text_at(snapshot, git->path);
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

static struct git_verdict verdict_refuse(enum reason reason, uint32_t rule, size_t at, const char *why) {
        return (struct git_verdict){
                .verdict = { .decision = DECISION_DENY, .reason = (uint8_t)reason, .rule = rule, .git = true },
                .at = at,
                .why = why,
        };
}

static struct git_verdict judge_entry(const struct snapshot *snapshot, const struct authority *target, struct str path,
                                      size_t n, struct found *ret) {
        struct match match;
        struct git_verdict verdict = { .verdict = verdict_target(snapshot, &target->host, target->port), .at = n };

        if (verdict.verdict.decision == DECISION_DENY)
                return verdict;

        match_host(snapshot, &target->host, target->port, &match);
        *ret = find_entry(snapshot, target, path, &match);
        if (ret->other_case)
                return verdict_refuse(REASON_GIT_REPOSITORY, RULE_NONE, n,
                                      "the policy writes this repository with other capital letters");

        if (ret->rule == RULE_NONE)
                return verdict_refuse(REASON_GIT_REPOSITORY, RULE_NONE, n, NULL);

        verdict.verdict.rule = ret->rule;
        return verdict;
}

struct git_verdict verdict_git(const struct snapshot *snapshot, const struct authority *target, struct str path,
                               enum git_right right) {
        struct found found = { 0 };
        struct git_verdict verdict = judge_entry(snapshot, target, path, 0, &found);

        if (verdict.verdict.decision == DECISION_DENY)
                return verdict;
        if (right == GIT_RIGHT_FETCH && !(found.git->flags & BLOCK_GIT_FETCH))
                return verdict_refuse(REASON_GIT_SERVICE, found.rule, 0, "the rule allows no fetch");
        if (right == GIT_RIGHT_PUSH && found.git->n_refs == 0)
                return verdict_refuse(REASON_GIT_SERVICE, found.rule, 0, "the rule allows no push");

        verdict.ask = right == GIT_RIGHT_PUSH && (found.git->flags & BLOCK_GIT_ASK);
        return verdict;
}

static bool ref_is_granted(const struct snapshot *snapshot, const struct block_git *git, struct str ref) {
        for (uint32_t i = 0; i < git->n_refs; i++)
                if (glob_match(text_at(snapshot, git->first_ref + i), ref))
                        return true;
        return false;
}

static const char *update_problem(const struct snapshot *snapshot, const struct block_git *git,
                                  const struct git_update *update) {
        if (!ref_is_granted(snapshot, git, update->ref))
                return "the rule allows no push to this ref";
        if (update->creates && !(git->flags & BLOCK_GIT_CREATE))
                return "the rule allows no new refs";
        if (update->deletes && !(git->flags & BLOCK_GIT_DELETE))
                return "the rule allows no deletion of refs";

        return NULL;
}

struct git_verdict verdict_git_push(const struct snapshot *snapshot, const struct authority *target, struct str path,
                                    const struct git_push *push) {
        struct found found = { 0 };
        struct git_verdict verdict = judge_entry(snapshot, target, path, push->n, &found);

        if (verdict.verdict.decision == DECISION_DENY)
                return verdict;
        if (found.git->n_refs == 0)
                return verdict_refuse(REASON_GIT_SERVICE, found.rule, push->n, "the rule allows no push");
        if (push->options && !(found.git->flags & BLOCK_GIT_OPTIONS))
                return verdict_refuse(REASON_GIT_SERVICE, found.rule, push->n, "the rule allows no push options");
        if (push->certificate && !(found.git->flags & BLOCK_GIT_SIGNED))
                return verdict_refuse(REASON_GIT_SERVICE, found.rule, push->n, "the rule allows no signed push");

        for (size_t i = 0; i < push->n; i++) {
                const char *problem = update_problem(snapshot, found.git, &push->updates[i]);
                if (problem)
                        return verdict_refuse(REASON_GIT_REF, found.rule, i, problem);
        }

        verdict.ask = found.git->flags & BLOCK_GIT_ASK;
        return verdict;
}
