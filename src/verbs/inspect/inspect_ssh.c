/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs/inspect/inspect_ssh.h"

#include "base/cleanup.h"
#include "base/escape.h"
#include "policy/git/ssh_rules.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define DAEMON_SCHEME "git://"
#define DAEMON_PORT "9418"

/* --- addresses --- */

static bool skip_scheme(struct str *word) {
        static const char *const schemes[] = { "ssh://", "git+ssh://", "ssh+git://" };

        for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++)
                if (str_starts(*word, str_of(schemes[i]))) {
                        *word = str_skip(*word, strlen(schemes[i]));
                        return true;
                }
        return false;
}

/* Takes "USER@" off the front. False: there is none. */
static bool take_user(struct str *host, struct str *ret_user) {
        ptrdiff_t at = str_rfind(*host, '@');

        if (at < 0)
                return false;

        *ret_user = str_first(*host, (size_t)at);
        *host = str_skip(*host, (size_t)at + 1);
        return true;
}

/* The colon that ends the host: behind the brackets, if the host has some. -1: it is a path, or a helper's address. */
static ptrdiff_t find_host_end(struct str word) {
        ptrdiff_t colon = str_find(word, ':'), slash = str_find(word, '/'), open = str_find(word, '[');
        bool bracketed = open == 0 || (open > 0 && word.p[open - 1] == '@');

        if (bracketed && (slash < 0 || open < slash)) {
                ptrdiff_t shut = str_find(word, ']');
                colon = shut >= 0 && (size_t)shut + 1 < word.n && word.p[shut + 1] == ':' ? shut + 1 : -1;
        }

        if (colon <= 0 || (slash >= 0 && slash < colon) || (size_t)colon + 1 >= word.n || word.p[colon + 1] == ':')
                return -1;

        return colon;
}

/* Git writes HOST:PORT in brackets, alone or with the user. An address of IPv6 keeps its own. */
static struct str host_without_brackets(struct str host) {
        if (host.n < 2 || host.p[0] != '[' || host.p[host.n - 1] != ']')
                return host;

        struct str inner = str_first(str_skip(host, 1), host.n - 2);
        bool one = str_find(inner, ':') == str_rfind(inner, ':');
        return one || str_find(inner, '@') >= 0 ? inner : host;
}

/* A PATH alone that is a number is a port, whoever stands before the host: user@host:443 is no name of a host. Without
 * a user, HOST:PATH is also how people write HOST:PORT/PATH and, on another system, a file of a drive. */
static bool short_is_plausible(bool user, struct str host, struct str path) {
        ptrdiff_t slash = str_find(path, '/');
        struct str first = slash < 0 ? path : str_first(path, (size_t)slash);
        uint16_t port;
        bool number = port_parse(first, &port);

        if (user)
                return slash >= 0 || !number;

        return host.n > 1 && !number && (slash >= 0 || str_ends(path, STR(".git")));
}

static bool split_short(struct str word, struct str *ret_host, struct str *ret_user, struct str *ret_path,
                        bool *ret_certain) {
        ptrdiff_t end = find_host_end(word);

        if (end < 0 || memmem(word.p, word.n, "://", 3))
                return false;

        struct str host = host_without_brackets(str_first(word, (size_t)end));
        struct str path = str_skip(word, (size_t)end + 1);
        bool user = take_user(&host, ret_user);

        host = host_without_brackets(host);
        if ((user && ret_user->n == 0) || !short_is_plausible(user, host, path))
                return false;

        *ret_certain = user;
        *ret_host = host;
        *ret_path = path.p[0] == '/' ? str_skip(path, 1) : path;
        return true;
}

static void split_url(struct str word, struct str *ret_host, struct str *ret_user, struct str *ret_path) {
        ptrdiff_t slash = str_find(word, '/');

        *ret_host = slash < 0 ? word : str_first(word, (size_t)slash);
        *ret_path = slash < 0 ? STR("") : str_skip(word, (size_t)slash + 1);
        (void)take_user(ret_host, ret_user);
}

bool inspect_ssh_address(struct str word, struct inspect_ssh *ret) {
        struct str host, path, user = STR(SSH_DEFAULT_USER);
        bool url = skip_scheme(&word), certain = true;
        int n;

        if (url)
                split_url(word, &host, &user, &path);
        else if (!split_short(word, &host, &user, &path, &certain))
                return false;

        if (path.n > 1 && path.p[path.n - 1] == '/')
                path = str_first(path, path.n - 1);
        if (user.n > SSH_USER_MAX)
                user = STR(""); /* nobody's name */

        *ret = (struct inspect_ssh){ .short_form = !url, .certain = certain };
        (void)snprintf(ret->user, sizeof ret->user, "%.*s", STR_FMT(user));
        n = snprintf(ret->plain, sizeof ret->plain, "%.*s/%.*s", STR_FMT(host), STR_FMT(path));
        if (n < 0 || n >= INSPECT_SSH_MAX)
                ret->plain[0] = '\0'; /* longer than any name: it names no repository */

        return true;
}

bool inspect_git_daemon(struct str word, char ret[static AUTHORITY_TEXT_MAX]) {
        struct str host, path, user;
        int n;

        if (!str_starts(word, STR(DAEMON_SCHEME)))
                return false;

        split_url(str_skip(word, strlen(DAEMON_SCHEME)), &host, &user, &path);
        ptrdiff_t colon = str_rfind(host, ':'), bracket = str_rfind(host, ']');
        n = snprintf(ret, AUTHORITY_TEXT_MAX, "%.*s%s", STR_FMT(host), colon > bracket ? "" : ":" DAEMON_PORT);
        if (n < 0 || n >= AUTHORITY_TEXT_MAX)
                ret[0] = '\0';

        return true;
}

/* --- answers --- */

/* No entry under git is for it: what would be one, as a word of a shell. */
static int say_entry(const struct inspect_ssh_question *question, struct buf *out) {
        bool several = str_find(question->ref, '+') >= 0; /* the option would read it as two refs */
        const char *equals = question->ref.n > 0 ? "=" : "";
        cleanup(free_ptr) char *entry =
            str_format("%.*s%s%.*s", STR_FMT(question->word), equals, STR_FMT(several ? STR("REFS") : question->ref));

        if (!entry)
                return -ENOMEM;

        return escape_shell(out, str_of(entry));
}

static bool entry_is_missing(const struct verdict *verdict) {
        return verdict->decision == DECISION_DENY &&
               (verdict->reason == REASON_NOT_ALLOWED || verdict->reason == REASON_GIT_REPOSITORY);
}

static char *advice_missing(const struct policy *policy, const struct inspect_ssh_question *question) {
        cleanup(buf_done) struct buf entry = BUF(65536);

        if (say_entry(question, &entry) < 0)
                return NULL;

        if (policy->ssh.git)
                return str_format("to allow it: --git %.*s, or under git in the policy", STR_FMT(buf_str(&entry)));

        return str_format("to let git use ssh for it: --git %.*s --git-ssh, or an entry under git and git: true under "
                          "ssh in the policy",
                          STR_FMT(buf_str(&entry)));
}

static int answer_closed(const char *text, char *change, struct inspect_verdict *answer) {
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

int inspect_ssh_closed(const struct policy *policy, const struct inspect_ssh_question *question,
                       struct inspect_verdict *answer) {
        const char *user = question->ssh->user;
        bool missing = entry_is_missing(&question->verdict);

        if (question->verdict.reason == REASON_NO_NETWORK)
                return 0;

        if (!policy->ssh.git)
                return answer_closed("The policy grants no git over ssh.",
                                     missing ? advice_missing(policy, question)
                                             : str_dup(STR("to let git use ssh for it: --git-ssh, or git: true under "
                                                           "ssh in the policy")),
                                     answer);

        if (!policy_ssh_user(policy, str_of(user)))
                return answer_closed("Git may not log in as this user.",
                                     str_format("to let git log in as %s: under ssh.users in the policy", user),
                                     answer);

        if (missing && answer->detail == NULL) {
                free(answer->change);
                answer->change = advice_missing(policy, question);
                if (!answer->change)
                        return -ENOMEM;

                return 0;
        }

        return 0;
}

int inspect_ssh_note(const struct snapshot *snapshot, const struct authority *target, struct inspect_verdict *answer) {
        struct verdict there = verdict_target(snapshot, &target->host, target->port);
        char text[AUTHORITY_TEXT_MAX];

        if (there.decision != DECISION_ALLOW || there.needs_request)
                return 0;

        authority_text(target, text);
        answer->notes = str_format("the network rules open %s for any program: one with a key of its own can use ssh "
                                   "there, and no repository is judged",
                                   text);
        if (!answer->notes)
                return -ENOMEM;

        return 0;
}
