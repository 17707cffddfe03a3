/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs/inspect_ssh.h"

#include "policy/git/ssh_rules.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

bool inspect_ssh_address(const char *text, struct inspect_ssh *ret) {
        const struct str scheme = STR("ssh://");
        struct str word = str_of(text), user = STR(SSH_DEFAULT_USER);
        bool url = str_starts(word, scheme);
        ptrdiff_t at, colon, slash;
        int n;

        if (url)
                word = str_skip(word, scheme.n);

        at = str_find(word, '@');
        slash = str_find(word, '/');
        if (at >= 0 && (slash < 0 || at < slash)) {
                user = str_first(word, (size_t)at);
                word = str_skip(word, (size_t)at + 1);
        } else if (!url) {
                return false; /* HOST:PATH alone could be HOST:PORT */
        }

        colon = str_find(word, ':');
        if (url || colon < 0)
                n = snprintf(ret->plain, sizeof ret->plain, "%.*s", STR_FMT(word));
        else
                n = snprintf(ret->plain, sizeof ret->plain, "%.*s/%.*s", STR_FMT(str_first(word, (size_t)colon)),
                             STR_FMT(str_skip(word, (size_t)colon + 1)));

        if (user.n > SSH_USER_MAX)
                user = STR(""); /* nobody's name */
        (void)snprintf(ret->user, sizeof ret->user, "%.*s", STR_FMT(user));

        return (url || colon > 0) && n > 0 && n < INSPECT_SSH_MAX;
}

int inspect_ssh_closed(const struct policy *policy, const struct inspect_ssh *ssh, struct inspect_verdict *answer) {
        const char *text = "Git has no ssh in this sandbox.";
        char *change;

        if (policy->ssh.git && policy_ssh_user(policy, str_of(ssh->user)))
                return 0;

        if (policy->ssh.git) {
                text = "Git may not log in as this user.";
                change = str_format("to let git log in as %s: under ssh.users in the policy", ssh->user);
        } else {
                change = str_dup(STR("to let git use ssh for it: --git-ssh, or git: true under ssh in the policy"));
        }

        if (!change)
                return -ENOMEM;

        struct inspect_verdict closed = { .decision = "deny",
                                          .reason = reason_code(REASON_GIT_SERVICE),
                                          .text = text,
                                          .target = answer->target,
                                          .port = answer->port,
                                          .change = change };
        answer->target = NULL;
        inspect_verdict_done(answer); /* the entry that it names did not decide */
        *answer = closed;

        return 0;
}
