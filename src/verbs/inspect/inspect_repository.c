/* SPDX-License-Identifier: Apache-2.0 */
/* Repositories: HOST/PATH as a policy writes them, and the addresses that git has for them. */
#include "base/cleanup.h"
#include "policy/git/git.h"
#include "policy/git/git_verdict.h"
#include "verbs/inspect/inspect_internal.h"
#include "verbs/inspect/inspect_ssh.h"

#include <errno.h>
#include <stdlib.h>

enum { HTTPS_PORT = 443 };

static struct str word_repository(struct str word, struct str *ret_ref) {
        ptrdiff_t equals = str_find(word, '=');

        *ret_ref = str_n(NULL, 0);
        if (equals >= 0)
                *ret_ref = str_skip(word, (size_t)equals + 1);
        return equals < 0 ? word : str_first(word, (size_t)equals);
}

bool inspect_is_repository(const struct inspector *inspector, const char *text) {
        struct str ref, word = word_repository(str_of(text), &ref);
        char where[AUTHORITY_TEXT_MAX];
        struct inspect_ssh ssh;
        struct git_name name;

        if (strchr("/.~", text[0]))
                return false;
        if (inspect_git_daemon(word, where))
                return true;
        if (inspect_ssh_address(word, &ssh))
                return ssh.certain || git_name_parse(str_of(ssh.plain), &name, NULL) == 0;

        return git_name_parse(word, &name, NULL) == 0 && verdict_git_concerns(inspector->snapshot, &name.host);
}

/* With the ref as an update of one that is there; a deletion or a new ref may be judged otherwise. By ssh, what
 * network.deny says about its port comes first, as in the gateway. */
static struct git_verdict judge_repository(const struct inspector *inspector, const struct authority *target,
                                           struct str path, struct str ref, bool by_ssh) {
        const struct git_update update = { .ref = ref };
        const struct git_push push = { .updates = &update, .n = 1 };
        struct authority judged = *target;

        if (by_ssh) {
                struct git_verdict there = ssh_verdict(inspector->snapshot, target, path, GIT_RIGHT_FETCH);
                if (there.verdict.decision == DECISION_DENY && there.verdict.reason == REASON_DENY_RULE)
                        return there;

                judged = ssh_judged_target(inspector->snapshot, target, path);
        }

        if (ref.n > 0)
                return verdict_git_push(inspector->snapshot, &judged, path, &push);

        return verdict_git(inspector->snapshot, &judged, path, GIT_RIGHT_FETCH);
}

static int describe_repository(const struct inspector *inspector, const struct git_verdict *verdict,
                               const struct authority *target, struct inspect_verdict *answer) {
        int r = inspect_describe(inspector, &verdict->verdict, target, answer);
        if (r < 0)
                return r;

        answer->needs_request = false;
        if (verdict->ask) {
                answer->decision = inspect_decision(DECISION_ASK);
                answer->reason = reason_code(REASON_ASK);
                answer->text = "An entry under git allows it, once a person has agreed.";
        }

        if (verdict->why && !answer->detail && !(answer->detail = str_dup(str_of(verdict->why))))
                return -ENOMEM;

        return 0;
}

/* A repository that somebody asks about. */
struct asked {
        struct git_name name;
        struct authority target;
        struct inspect_ssh ssh;
        bool by_ssh;
        struct str word; /* HOST[:PORT]/PATH, as it was written */
        char *ref;       /* in full; empty without a push */
};

static void asked_done(struct asked *asked) {
        free(asked->ref);
}

static int asked_take_name(struct asked *asked, struct err *err) {
        int r = git_name_parse(asked->word, &asked->name, err);
        struct str path;

        if (r < 0)
                return r;

        asked->target = (struct authority){ .host = asked->name.host, .port = asked->name.port };
        if (!asked->target.port)
                asked->target.port = asked->by_ssh ? SSH_DEFAULT_PORT : HTTPS_PORT;

        if (asked->by_ssh && !ssh_path_parse(str_skip(asked->word, (size_t)str_find(asked->word, '/') + 1), &path))
                return err_set(err, EINVAL, "over ssh, no repository has such a path");

        return 0;
}

static int asked_take_ref(struct asked *asked, struct str ref, struct err *err) {
        if (ref.n > 0)
                asked->ref = git_ref_expand(ref);
        else
                asked->ref = str_dup(STR(""));
        if (!asked->ref)
                return err_memory(err);

        if (asked->ref[0] && !git_ref_is_valid(str_of(asked->ref)))
                return err_set(err, EINVAL, "%s is no ref: write a branch, as agent/x, or a full name, as refs/tags/v1",
                               asked->ref);

        return 0;
}

/* An address that nobody can judge is refused; the gateway does the same. */
static int refuse_address(const char *text, const struct err *why, struct inspect_verdict *ret, struct err *err) {
        ret->decision = inspect_decision(DECISION_DENY);
        ret->reason = reason_code(REASON_GIT_FORM);
        ret->text = reason_text(REASON_GIT_FORM);
        ret->target = str_dup(str_of(text));
        ret->detail = str_dup(str_of(err_text(why)));
        if (ret->target && ret->detail)
                return 0;

        return err_memory(err);
}

/* Nothing reads git's own protocol: only the connection is judged. */
static int inspect_daemon(const struct inspector *inspector, const char *target, struct inspect_verdict *ret,
                          struct err *err) {
        const struct inspect_question question = { .target = target };
        int r = inspect_host(inspector, &question, ret, err);

        if (r < 0)
                return r;

        char *notes = str_format("over git:// no repository is judged: entries under git are for https and ssh%s%s",
                                 ret->notes ? "\n" : "", text_or(ret->notes, ""));
        free(ret->notes);
        ret->notes = notes;
        if (notes)
                return 0;

        inspect_verdict_done(ret);
        return err_memory(err);
}

static int describe_asked(const struct inspector *inspector, const struct asked *asked,
                          struct inspect_verdict *answer) {
        struct str ref = str_of(asked->ref);
        struct git_verdict verdict = judge_repository(inspector, &asked->target,
                                                      str_n(asked->name.path, asked->name.path_n), ref, asked->by_ssh);
        int r;

        answer->port = asked->target.port;
        if (ref.n > 0)
                answer->target = str_format("push to %.*s %s", STR_FMT(asked->word), asked->ref);
        else
                answer->target = str_format("fetch from %.*s", STR_FMT(asked->word));
        if (!answer->target)
                return -ENOMEM;

        r = describe_repository(inspector, &verdict, &asked->target, answer);
        if (r < 0 || !asked->by_ssh)
                return r;

        const struct inspect_ssh_question question = {
                .ssh = &asked->ssh, .word = asked->word, .ref = ref, .verdict = verdict.verdict
        };
        r = inspect_ssh_closed(inspector->policy, &question, answer);
        if (r < 0)
                return r;

        return inspect_ssh_note(inspector->snapshot, &asked->target, answer);
}

int inspect_repository(const struct inspector *inspector, const char *text, struct inspect_verdict *ret,
                       struct err *err) {
        cleanup(inspect_verdict_done) struct inspect_verdict answer = { 0 };
        cleanup(asked_done) struct asked asked = { 0 };
        struct str ref, word = word_repository(str_of(text), &ref);
        char where[AUTHORITY_TEXT_MAX];
        struct err why = { 0 };
        int r;

        if (inspect_git_daemon(word, where))
                return inspect_daemon(inspector, where, ret, err);

        asked.by_ssh = inspect_ssh_address(word, &asked.ssh);
        asked.word = asked.by_ssh ? str_of(asked.ssh.plain) : word;

        r = asked_take_name(&asked, asked.by_ssh ? &why : err);
        if (r < 0 && !asked.by_ssh)
                return r;

        if (r < 0) {
                r = refuse_address(text, &why, &answer, err);
        } else {
                r = asked_take_ref(&asked, ref, err);
                if (r == 0 && describe_asked(inspector, &asked, &answer) < 0)
                        r = err_memory(err);
        }

        if (r < 0)
                return r;

        *ret = answer;
        answer = (struct inspect_verdict){ 0 };

        return 0;
}
