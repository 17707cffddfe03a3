/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs/inspect_ssh.h"

#include "base/str.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

bool inspect_ssh_address(const char *text, char ret[static INSPECT_SSH_MAX]) {
        const struct str scheme = STR("ssh://");
        struct str word = str_of(text);
        bool url = str_starts(word, scheme);
        ptrdiff_t at, colon, slash;
        int n;

        if (url)
                word = str_skip(word, scheme.n);

        at = str_find(word, '@');
        slash = str_find(word, '/');
        if (at >= 0 && (slash < 0 || at < slash))
                word = str_skip(word, (size_t)at + 1);
        else if (!url)
                return false; /* HOST:PATH alone could be HOST:PORT */

        colon = str_find(word, ':');
        if (url || colon < 0)
                n = snprintf(ret, INSPECT_SSH_MAX, "%.*s", STR_FMT(word));
        else
                n = snprintf(ret, INSPECT_SSH_MAX, "%.*s/%.*s", STR_FMT(str_first(word, (size_t)colon)),
                             STR_FMT(str_skip(word, (size_t)colon + 1)));

        return (url || colon > 0) && n > 0 && n < INSPECT_SSH_MAX;
}

int inspect_ssh_closed(struct inspect_verdict *answer, struct inspect_verdict *ret, struct err *err) {
        char *change = str_dup(STR("to let git use ssh for it: --git-ssh, or git: true under ssh in the policy"));

        if (!change)
                return err_memory(err);

        free(answer->change);
        answer->change = change;
        answer->allowed = false;
        answer->decision = "deny";
        answer->text = "Git has no ssh in this sandbox.";
        *ret = *answer;
        *answer = (struct inspect_verdict){ 0 };

        return 0;
}
