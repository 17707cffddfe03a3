/* SPDX-License-Identifier: Apache-2.0 */
#include "run/learn.h"

#include "base/cleanup.h"
#include "base/escape.h"
#include "base/paths/path.h"
#include "bridge/agent_message.h"
#include "policy/groups.h"
#include "policy/match/pattern.h"

#include <errno.h>
#include <stdlib.h>

enum { NEEDS_MAX = 4096, SIBLINGS = 3 /* files of one directory that make it worth granting whole */ };

void learn_done(struct learn *learn) {
        for (size_t i = 0; i < learn->needs.n; i++) {
                free(learn->needs.p[i].target);
                free(learn->needs.p[i].remark);
        }
        vec_done(&learn->needs);
}

/* Takes the texts. */
static void learn_note(struct learn *learn, enum learned_kind kind, char *target, char *remark) {
        for (size_t i = 0; target && i < learn->needs.n; i++)
                if (learn->needs.p[i].kind == kind && strcmp(learn->needs.p[i].target, target) == 0) {
                        learn->needs.p[i].count++;
                        free(target);
                        free(remark);
                        return;
                }

        struct learned need = { kind, target, remark, 1 };
        if (!target || learn->needs.n >= NEEDS_MAX || vec_push(&learn->needs, need) < 0) {
                learn->full = true;
                free(target);
                free(remark);
        }
}

/* Places where anybody can put anything: allowing one allows sending data out. */
static const char *const open_places[] = { "gist.github.com",  "*.s3.amazonaws.com",
                                           "pastebin.com",     "transfer.sh",
                                           "*.ngrok.io",       "*.ngrok-free.app",
                                           "webhook.site",     "*.requestbin.com",
                                           "*.workers.dev",    "storage.googleapis.com",
                                           "0x0.st",           "file.io",
                                           "api.telegram.org", "discord.com",
                                           "hooks.slack.com" };

static bool learn_fits(const char *text, const struct host *host, uint16_t port) {
        struct pattern pattern;
        return pattern_parse(str_of(text), &pattern, NULL) == 0 && pattern_matches(&pattern, host, port);
}

static const char *group_of(const struct host *host, uint16_t port) {
        for (size_t i = 0; i < n_policy_groups; i++)
                for (const char *const *p = policy_groups[i].patterns; *p; p++)
                        if (learn_fits(*p, host, port))
                                return policy_groups[i].name;
        return NULL;
}

static char *remark_on(const struct host *host, uint16_t port) {
        for (size_t i = 0; i < sizeof open_places / sizeof open_places[0]; i++)
                if (learn_fits(open_places[i], host, port))
                        return str_format("review: anybody can store data there");
        const char *group = group_of(host, port);
        return group ? str_format("part of @%s", group) : NULL;
}

/* --- git, GraphQL, ssh and signatures --- */

/* No entry allows it. What a rule forbids, or nobody understood, is no need. */
static bool git_is_missing(const struct event *ev) {
        return !ev->allowed && (ev->reason == REASON_GIT_REPOSITORY || ev->reason == REASON_GIT_SERVICE ||
                                ev->reason == REASON_GIT_REF || ev->reason == REASON_NOT_ALLOWED);
}

static bool service_is(struct str service, const char *name) {
        return str_is(service, name) || (str_starts(service, STR("git-")) && str_is(str_skip(service, 4), name));
}

/* A request of git's, as the gateway describes it (ipc/event.h): "SERVICE HOST/PATH", a line for each ref. */
static void learn_git(struct learn *learn, const struct event *ev) {
        struct str rest = ev->act, line, service, ref;

        if ((!ev->allowed && !git_is_missing(ev)) || !str_split(&rest, '\n', &line) ||
            !str_split(&line, ' ', &service) || !line.p || str_find(line, '*') >= 0)
                return;

        if (service_is(service, "upload-pack") || service_is(service, "upload-archive"))
                learn_note(learn, ev->allowed ? LEARNED_FETCH : LEARNED_FETCH_REFUSED, str_dup(line), NULL);
        if (ev->via == VIA_SSH && ev->allowed)
                learn_note(learn, LEARNED_SSH_GIT, str_dup(STR("git")), NULL);
        if (!service_is(service, "receive-pack"))
                return;

        for (struct str row; str_split(&rest, '\n', &row);)
                if (str_split(&row, ' ', &ref) && ref.n)
                        learn_note(learn, LEARNED_PUSH, str_format("%.*s=%.*s", STR_FMT(line), STR_FMT(ref)), NULL);
}

/* Where the policy of the run judges documents or repositories, a line that allows the whole host would let all of them
 * through. */
static void learn_judged_host(struct learn *learn, const char *target, const char *rules) {
        char *remark = str_format("review: all of it, also what the %s of this run refuse", rules);

        for (size_t i = 0; i < learn->needs.n; i++)
                if (learn->needs.p[i].kind == LEARNED_HOST && strcmp(learn->needs.p[i].target, target) == 0) {
                        if (!remark)
                                return;
                        free(learn->needs.p[i].remark);
                        learn->needs.p[i].remark = remark;
                        return;
                }

        learn_note(learn, LEARNED_HOST, str_dup(str_of(target)), remark);
}

/* "graphql query|mutation", a line for each field. */
static void learn_graphql(struct learn *learn, const struct event *ev, const char *target) {
        struct str rest = ev->act, head, word, path, after = ev->path;

        if (!str_split(&rest, '\n', &head) || !str_split(&head, ' ', &word) || !str_split(&after, '?', &path) ||
            !(str_is(head, "query") || str_is(head, "mutation")))
                return;

        if (str_find(path, '*') >= 0 || str_find(path, ' ') >= 0)
                return; /* a rule would read it as a pattern */

        for (struct str field; str_split(&rest, '\n', &field);)
                if (field.n > 0)
                        learn_note(
                            learn, LEARNED_GRAPHQL,
                            str_format("%s %.*s %.*s %.*s", target, STR_FMT(path), STR_FMT(head), STR_FMT(field)),
                            NULL);
}

static void learn_key(struct learn *learn, struct str key, const char *remark) {
        if (str_starts(key, STR("SHA256:")))
                learn_note(learn, LEARNED_SSH_KEY, str_dup(key), str_dup(str_of(remark)));
}

/* What the filtered agent was asked to sign (bridge/agent_message.h). A signature stands for a person, so all of it is
 * theirs to grant. */
static void learn_agent(struct learn *learn, const struct event *ev) {
        if (ev->allowed && str_starts(ev->detail, STR(AGENT_LOGIN))) {
                learn_key(learn, ev->path, "review: it logged in");
                learn_note(learn, LEARNED_SSH_HOST, str_dup(ev->domain), str_dup(STR("review: it logged in there")));
        } else if ((ev->allowed && str_is(ev->detail, AGENT_GIT)) || str_is(ev->detail, AGENT_NO_SIGNING)) {
                learn_key(learn, ev->path, "review: it was to sign a commit or tag");
                learn_note(learn, LEARNED_SIGN_SSH, str_dup(STR("ssh")), NULL);
        } else if (str_is(ev->detail, AGENT_NO_KEY)) {
                learn_key(learn, ev->path, "review: it was to sign");
        }
}

static void learn_gpg(struct learn *learn, const struct event *ev) {
        if (ev->path.n > 0 && (ev->allowed || ev->reason == REASON_SIGNING))
                learn_note(learn, LEARNED_SIGN_GPG, str_dup(ev->path), str_dup(STR("review: it was to sign")));
}

void learn_tool(struct learn *learn, const char *name) {
        learn_note(learn, LEARNED_TOOL, str_dup(str_of(name)), NULL);
}

void learn_page(struct learn *learn, const char *host) {
        learn_note(learn, LEARNED_PAGE, str_dup(str_of(host)), NULL);
}

/* A host that was reached, or would have been. */
static void learn_host(struct learn *learn, const struct event *ev, const struct authority *authority,
                       const char *text) {
        if (!ev->allowed && ev->reason == REASON_ADDRESS_CLASS)
                learn_note(learn, LEARNED_PRIVATE, strdup(text), strdup("review: a private or local address"));
        else if (ev->via == VIA_SSH)
                return; /* the entry under git opens it, for git alone */
        else if (authority->host.kind == HOST_ADDR && (ev->allowed || ev->reason == REASON_UPSTREAM))
                learn_note(learn, LEARNED_ADDRESS, strdup(text), strdup("review: an address without a name"));
        else if (ev->allowed || ev->reason == REASON_UPSTREAM || ev->reason == REASON_RESOLVE ||
                 ev->reason == REASON_TIMEOUT)
                learn_note(learn, LEARNED_HOST, strdup(text), remark_on(&authority->host, authority->port));
}

void learn_connection(struct learn *learn, const struct event *ev) {
        bool graphql = ev->kind == EVENT_REQUEST && str_starts(ev->act, STR("graphql "));
        struct authority authority;

        if (ev->kind == EVENT_REQUEST && ev->via == VIA_AGENT) {
                learn_agent(learn, ev);
                return;
        }

        if (ev->kind == EVENT_REQUEST && ev->via == VIA_GPG) {
                learn_gpg(learn, ev);
                return;
        }

        if (ev->kind == EVENT_REQUEST && ev->act.n && !graphql)
                learn_git(learn, ev);

        if (ev->kind == EVENT_DNS || ev->kind == EVENT_PACKET || ev->kind == EVENT_TUNNEL_CLOSE ||
            ev->kind == EVENT_NOTE || ev->port == 0 || host_parse(ev->domain, &authority.host, NULL) < 0)
                return;

        authority.port = ev->port;
        char text[AUTHORITY_TEXT_MAX];
        authority_text(&authority, text);

        if (graphql)
                learn_graphql(learn, ev, text);
        if (graphql || ev->reason == REASON_GRAPHQL)
                learn_judged_host(learn, text, "GraphQL rules");
        else if (ev->kind == EVENT_REQUEST && ev->act.n && ev->via != VIA_SSH)
                learn_judged_host(learn, text, "entries under git");
        learn_host(learn, ev, &authority, text);
}

void learn_file(struct learn *learn, const char *path, bool write, const struct path_rule *rule) {
        char *remark = rule ? str_format("review: refused by %s (%s)", rule->pattern, rule->origin) : NULL;
        learn_note(learn, write ? LEARNED_WRITE : LEARNED_READ, strdup(path), remark);
}

/* --- writing ---------------------------------------------------------------------------------------------------------
 */

static int by_target(const void *a, const void *b) {
        const struct learned *x = *(const struct learned *const *)a, *y = *(const struct learned *const *)b;
        return x->kind != y->kind ? (int)x->kind - (int)y->kind : strcmp(x->target, y->target);
}

static size_t learn_siblings(const struct learn *learn, const struct learned *need, size_t directory_n) {
        size_t n = 0;
        for (size_t i = 0; i < learn->needs.n; i++) {
                const struct learned *other = &learn->needs.p[i];
                n += other->kind == need->kind && !other->remark &&
                     strncmp(other->target, need->target, directory_n) == 0 && other->target[directory_n] == '/' &&
                     !strchr(other->target + directory_n + 1, '/');
        }

        return n;
}

/* A directory stands for its files when several of them were wanted; never one near the root. */
static struct str learn_generalised(const struct learn *learn, const struct learned *need) {
        struct str path = str_of(need->target);
        ptrdiff_t slash = str_rfind(path, '/');
        if (need->remark || slash <= 0 || path_depth(need->target) < 4 ||
            learn_siblings(learn, need, (size_t)slash) < SIBLINGS)
                return path;
        return str_first(path, (size_t)slash);
}

/* Whether a person must look at it first: by its remark, and some things always. */
static bool needs_review(const struct learned *need) {
        const unsigned always = 1U << LEARNED_PRIVATE | 1U << LEARNED_ADDRESS | 1U << LEARNED_SSH_KEY |
                                1U << LEARNED_SSH_HOST | 1U << LEARNED_SIGN_GPG;

        return (always & 1U << need->kind) || (need->remark && str_starts(str_of(need->remark), STR("review")));
}

/* JSON strings are YAML strings. What needs review is a comment as a whole. */
static int put_item(struct buf *out, struct str target, const struct learned *need) {
        bool review = needs_review(need);
        int r = buf_add(out, review ? "    # - " : "    - ");
        if (r == 0)
                r = escape_json(out, target);

        if (r == 0 && need->remark) {
                r = buf_add(out, "  # ");
                if (r == 0)
                        r = escape_text(out, str_of(need->remark), 512);
        }

        if (r < 0)
                return r;

        return buf_add(out, "\n");
}

/* One key of the file. Nothing is written for a key without needs; comments alone need no key to be valid YAML. */
static int put_list(const struct learn *learn, struct learned **sorted, unsigned kinds, const char *key,
                    struct buf *out) {
        struct str before = { 0 };
        int r = 0;
        bool granted = false, any = false;

        for (size_t i = 0; i < learn->needs.n; i++) {
                if (!(kinds & 1U << sorted[i]->kind))
                        continue;
                any = true;
                granted = granted || !needs_review(sorted[i]);
        }

        if (any)
                r = buf_printf(out, granted ? "  %s:\n" : "  # %s:\n", key);

        for (size_t i = 0; i < learn->needs.n && r == 0; i++) {
                if (!(kinds & 1U << sorted[i]->kind))
                        continue;

                struct str shown =
                    sorted[i]->kind >= LEARNED_WRITE ? learn_generalised(learn, sorted[i]) : str_of(sorted[i]->target);
                if (!str_eq(shown, before))
                        r = put_item(out, shown, sorted[i]);

                before = shown;
        }

        return r;
}

static bool learn_has(const struct learn *learn, unsigned kinds) {
        for (size_t i = 0; i < learn->needs.n; i++)
                if (kinds & 1U << learn->needs.p[i].kind)
                        return true;
        return false;
}

static int put_push(struct buf *out, struct str target) {
        ptrdiff_t equals = str_find(target, '=');
        int r = buf_add(out, "  # - { repo: ");

        if (r == 0)
                r = escape_json(out, str_first(target, (size_t)equals));
        if (r == 0)
                r = buf_add(out, ", push: [");
        if (r == 0)
                r = escape_json(out, str_skip(target, (size_t)equals + 1));
        if (r < 0)
                return r;

        return buf_add(out, "] }  # review: a push to this ref\n");
}

static int put_fetch(struct buf *out, const struct learned *need) {
        bool refused = need->kind == LEARNED_FETCH_REFUSED;
        int r = buf_add(out, refused ? "  # - { repo: " : "  - { repo: ");

        if (r == 0)
                r = escape_json(out, str_of(need->target));
        if (r < 0)
                return r;

        return buf_add(out, refused ? " }  # review: this run was refused a fetch from it\n" : " }\n");
}

/* A fetch is granted; a push changes what others have, so that a person writes it. */
static int put_repositories(const struct learn *learn, struct learned **sorted, struct buf *out) {
        int r = 0;

        if (learn_has(learn, 1U << LEARNED_FETCH | 1U << LEARNED_FETCH_REFUSED | 1U << LEARNED_PUSH))
                r = buf_add(out, learn_has(learn, 1U << LEARNED_FETCH) ? "git:\n" : "# git:\n");

        for (size_t i = 0; i < learn->needs.n && r == 0; i++) {
                if (sorted[i]->kind == LEARNED_PUSH)
                        r = put_push(out, str_of(sorted[i]->target));
                else if (sorted[i]->kind == LEARNED_FETCH || sorted[i]->kind == LEARNED_FETCH_REFUSED)
                        r = put_fetch(out, sorted[i]);
        }

        return r;
}

/* The beginning of a rule, or what stands between two fields of one. */
static int put_between_fields(struct buf *out, const struct str now[static 3], const struct str before[static 3]) {
        int r;

        if (str_eq(now[0], before[0]) && str_eq(now[1], before[1])) {
                if (str_eq(now[2], before[2]))
                        return buf_add(out, ", ");
                return buf_printf(out, "], %.*s: [", STR_FMT(now[2]));
        }

        r = buf_add(out, before[0].n ? "] } }\n    # - { host: " : "    # - { host: ");
        if (r == 0)
                r = escape_json(out, now[0]);
        if (r == 0)
                r = buf_add(out, ", paths: [");
        if (r == 0)
                r = escape_json(out, now[1]);
        if (r < 0)
                return r;

        return buf_printf(out, "], graphql: { %.*s: [", STR_FMT(now[2]));
}

/* One rule for each address, since a rule must grant all that a document asks for. What a mutation does, and whether a
 * query may see it, is a person's to say. */
static int put_graphql(const struct learn *learn, struct learned **sorted, struct buf *out) {
        struct str before[3] = { { 0 } };
        int r = 0;

        if (!learn_has(learn, 1U << LEARNED_GRAPHQL))
                return 0;

        r = buf_add(out, "  # rules:  # review: what GraphQL documents asked for, also those that were refused\n");
        for (size_t i = 0; i < learn->needs.n && r == 0; i++) {
                struct str rest = str_of(sorted[i]->target), now[3];

                if (sorted[i]->kind != LEARNED_GRAPHQL || !str_split(&rest, ' ', &now[0]) ||
                    !str_split(&rest, ' ', &now[1]) || !str_split(&rest, ' ', &now[2]))
                        continue;

                r = put_between_fields(out, now, before);
                if (r == 0)
                        r = escape_json(out, rest);
                memcpy(before, now, sizeof before);
        }

        return r == 0 && before[0].n ? buf_add(out, "] } }\n") : r;
}

/* Git's ssh is as safe as the entries under git; keys and signatures are a person's to give. */
static int put_ssh(const struct learn *learn, struct learned **sorted, struct buf *out) {
        const unsigned keys = 1U << LEARNED_SSH_KEY | 1U << LEARNED_SSH_HOST;
        const unsigned signs = 1U << LEARNED_SIGN_SSH | 1U << LEARNED_SIGN_GPG;
        bool git = learn_has(learn, 1U << LEARNED_SSH_GIT);
        int r = 0;

        if (git)
                r = buf_add(out,
                            "ssh:\n  git: true  # users, known_hosts and identities: as in the policy of this run\n");
        else if (learn_has(learn, keys))
                r = buf_add(out, "# ssh:\n");

        if (r == 0)
                r = put_list(learn, sorted, 1U << LEARNED_SSH_KEY, "keys", out);
        if (r == 0)
                r = put_list(learn, sorted, 1U << LEARNED_SSH_HOST, "hosts", out);

        if (r == 0 && learn_has(learn, signs))
                r = buf_add(out, "# signing:\n");
        if (r == 0 && learn_has(learn, 1U << LEARNED_SIGN_SSH))
                r = buf_add(out, "  # ssh: true  # review: commits or tags were to be signed by a key of ssh\n");
        if (r == 0)
                r = put_list(learn, sorted, 1U << LEARNED_SIGN_GPG, "gpg", out);

        return r;
}

/* Which repositories, hosts and files a tool has is a person's choice, made in the policy of this run. */
static int put_tools(const struct learn *learn, struct learned **sorted, struct buf *out) {
        int r = learn_has(learn, 1U << LEARNED_TOOL) ? buf_add(out, "# bridge:\n") : 0;

        for (size_t i = 0; i < learn->needs.n && r == 0; i++) {
                if (sorted[i]->kind != LEARNED_TOOL)
                        continue;

                r = buf_add(out, "  # ");
                if (r == 0)
                        r = escape_text(out, str_of(sorted[i]->target), 64);

                if (r == 0)
                        r = buf_add(out,
                                    ": {}  # review: it was called; take over its entry from the policy of this run\n");
        }

        return r;
}

int learn_write(const struct learn *learn, const char *command, struct buf *out) {
        const unsigned network = 1U << LEARNED_HOST | 1U << LEARNED_PRIVATE | 1U << LEARNED_ADDRESS;
        const unsigned files = 1U << LEARNED_WRITE | 1U << LEARNED_READ;
        cleanup(free_ptr) struct learned **sorted = calloc(learn->needs.n + 1, sizeof *sorted);
        if (!sorted)
                return -ENOMEM;

        for (size_t i = 0; i < learn->needs.n; i++)
                sorted[i] = &learn->needs.p[i];

        if (learn->needs.n > 1)
                qsort(sorted, learn->needs.n, sizeof *sorted, by_target);

        int r = buf_add(out, "# Learned from: ");
        if (r == 0)
                r = escape_text(out, str_of(command), 512);

        if (r == 0)
                r = buf_add(
                    out, "\n# Lines that are commented out need a person's judgement; remove the # to grant them.\n");

        if (r == 0)
                r = buf_printf(out, "mode: %s\n",
                               learn_has(learn, network | 1U << LEARNED_SSH_GIT) ? "workspace-write-whitelist"
                                                                                 : "workspace-write");
        if (r == 0 && learn_has(learn, network))
                r = buf_add(out, "network:\n");
        if (r == 0)
                r = put_list(learn, sorted, 1U << LEARNED_HOST | 1U << LEARNED_ADDRESS, "allow", out);
        if (r == 0)
                r = put_list(learn, sorted, 1U << LEARNED_PRIVATE, "allow_private", out);
        if (r == 0)
                r = put_graphql(learn, sorted, out);
        if (r == 0 && learn_has(learn, 1U << LEARNED_PAGE))
                r = buf_add(out, "browser:\n");
        if (r == 0)
                r = put_list(learn, sorted, 1U << LEARNED_PAGE, "hosts", out);
        if (r == 0)
                r = put_repositories(learn, sorted, out);
        if (r == 0)
                r = put_ssh(learn, sorted, out);
        if (r == 0)
                r = put_tools(learn, sorted, out);
        if (r == 0 && learn_has(learn, files))
                r = buf_add(out, "filesystem:\n");
        if (r == 0)
                r = put_list(learn, sorted, 1U << LEARNED_WRITE, "write", out);
        if (r == 0)
                r = put_list(learn, sorted, 1U << LEARNED_READ, "read", out);

        return r;
}
