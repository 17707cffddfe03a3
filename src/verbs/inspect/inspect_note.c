/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs/inspect/inspect_note.h"

#include "base/cleanup.h"
#include "bridge/ssh_command.h"
#include "policy/git/ssh_rules.h"

#include <errno.h>

enum { NOTES_MAX = 65536, RULES_MAX = 16 };

/* A document is allowed if one of these rules grants all that it asks for. */
static int note_graphql(const struct snapshot *snapshot, const struct authority *target,
                        const struct inspect_question *question, struct buf *out) {
        bool request = question->method || question->path;
        struct str method = str_of(request ? text_or(question->method, "GET") : NULL);
        struct str path = str_of(request ? text_or(question->path, "/") : NULL);
        uint32_t rules[RULES_MAX];
        size_t n = verdict_graphql_rules(snapshot, target, method, path, rules, RULES_MAX);
        int r = 0;

        for (size_t i = 0; r == 0 && i < n && i < RULES_MAX; i++) {
                struct snapshot_rule rule;

                r = buf_printf(out, "%sGraphQL at ", out->n ? "\n" : "");
                if (r == 0)
                        r = snapshot_say_graphql(snapshot, rules[i], out);
                if (r == 0 && snapshot_rule(snapshot, rules[i], &rule))
                        r = buf_printf(out, " (%.*s)", STR_FMT(rule.origin));
        }

        if (r == 0 && n > RULES_MAX)
                r = buf_printf(out, "\nand %zu more GraphQL rules", n - RULES_MAX);

        return r;
}

static const struct origin_text *find_ssh_host(const struct policy *policy, const struct authority *target) {
        for (size_t i = 0; i < policy->ssh.hosts.n; i++) {
                struct authority named;
                if (ssh_host_parse(str_of(policy->ssh.hosts.p[i].text), &named, NULL) == 0 &&
                    named.port == target->port && host_equal(&named.host, &target->host))
                        return &policy->ssh.hosts.p[i];
        }

        return NULL;
}

/* The network rules open the connection, ssh.hosts the keys. */
static int note_ssh(const struct policy *policy, const struct authority *target, struct buf *out) {
        const struct origin_text *entry = find_ssh_host(policy, target);
        const char *line = out->n ? "\n" : "";

        if (entry && policy->ssh.keys.n == 0)
                return buf_printf(out, "%sssh.hosts names it (%s), but ssh.keys names no key to log in with", line,
                                  entry->origin);
        if (entry)
                return buf_printf(out, "%sssh.hosts names it (%s): ssh inside logs in there with the keys of ssh.keys",
                                  line, entry->origin);
        if (policy->ssh.hosts.n > 0 && target->port == SSH_DEFAULT_PORT)
                return buf_printf(out, "%sssh.hosts does not name it: no key of ssh.keys logs in there", line);

        return 0;
}

int inspect_notes(const struct policy *policy, const struct snapshot *snapshot, const struct authority *target,
                  const struct inspect_question *question, struct inspect_verdict *ret) {
        cleanup(buf_done) struct buf out = BUF(NOTES_MAX);
        int r = 0;

        if (ret->allowed)
                r = note_graphql(snapshot, target, question, &out);

        if (r == 0)
                r = note_ssh(policy, target, &out);

        ret->notes = out.n ? str_dup(buf_str(&out)) : NULL;
        if (r < 0 || (out.n && !ret->notes))
                return -ENOMEM;

        return 0;
}
