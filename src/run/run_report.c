/* SPDX-License-Identifier: Apache-2.0 */
#include "run/run_report.h"

#include "ipc/gateway_messages.h"

#include "base/cleanup.h"
#include "base/escape.h"
#include "control/link.h"
#include "kept/git_copies.h"
#include "kept/kept.h"
#include "plan/engines.h"
#include "policy/match/pattern.h"
#include "policy/paths/paths.h"
#include "sandbox/sandbox.h"

enum { MOVED_SHOWN = 3 }; /* beyond so many, they are one line */

/* Beyond the reasons of the network: what tells entries of the summary apart. */
enum { GUARDED = REASONS, FILE_READ, FILE_WRITE, SYSTEM_CALL, HOST_SOCKET };

static void refusal_done(struct refusal *refusal) {
        free(refusal->target);
        free(refusal->object);
        free(refusal->rule);
        free(refusal->advice);
        free(refusal->why);
        free(refusal->process);
}

/* Takes the texts. Without memory the summary is shorter; the audit has every line in any case. */
static bool run_report_add(struct run_report *report, struct refusal refusal) {
        for (size_t i = 0; refusal.target && i < report->refusals.n; i++)
                if (strcmp(report->refusals.p[i].target, refusal.target) == 0 &&
                    report->refusals.p[i].reason == refusal.reason) {
                        report->refusals.p[i].count += refusal.count ? refusal.count : 1;
                        refusal_done(&refusal);
                        return false;
                }

        refusal.count = refusal.count ? refusal.count : 1;
        if (!refusal.target || report->refusals.n >= RUN_REPORT_MAX || vec_push(&report->refusals, refusal) < 0) {
                if (!refusal.moved) /* those are counted by themselves */
                        report->more += refusal.count;
                refusal_done(&refusal);
                return false;
        }

        return true;
}

/* Hosts that the program asks for by habit: its profile lists them. */
static bool is_quiet(const struct run_report *report, struct str domain, uint16_t port) {
        struct host host;

        if (!report->quiet || report->quiet->n == 0 || host_parse(domain, &host, NULL) < 0)
                return false;

        for (size_t i = 0; i < report->quiet->n; i++) {
                struct pattern pattern;

                if (pattern_parse_user(str_of(report->quiet->p[i].text), &pattern, NULL) == 0 &&
                    pattern_matches(&pattern, &host, port ? port : pattern.port_first))
                        return true;
        }

        return false;
}

static char *report_escaped(struct str s) {
        cleanup(buf_done) struct buf buf = BUF(8192);
        return escape_text(&buf, s, 512) == 0 ? str_dup(buf_str(&buf)) : NULL;
}

/* Metadata services and addresses that mean "any" are never opened, by whatever name: no advice leads there. */
static bool can_be_opened(const struct event *ev) {
        struct addr addr = ev->addr;
        if (addr.family == ADDR_NONE && !addr_parse(ev->domain, &addr))
                return true; /* a name that leads nowhere yet */
        enum addr_class class = addr_classify(&addr);
        return class != ADDR_CLASS_METADATA && class != ADDR_CLASS_UNSPECIFIED && class != ADDR_CLASS_MULTICAST;
}

/* The path as one word for a shell: a person copies the advice, and the program chose the name. */
static char *advice_with(const char *option, const char *shown) {
        cleanup(buf_done) struct buf word = BUF(8192);
        return shown && escape_shell(&word, str_of(shown)) == 0 ? str_format("%s %.*s", option, STR_FMT(buf_str(&word)))
                                                                : NULL;
}

/* What a credential is read from is closed on purpose, and so are Bailey's own programs: nothing opens them. */
static bool is_closed_for_good(const struct path_rule *rule) {
        return rule && (str_starts(str_of(rule->origin), STR("source of credential")) ||
                        strcmp(rule->origin, PLAN_PROGRAMS_WHY) == 0);
}

static char *advice_for(const struct event *ev, const char *target, const struct snapshot_rule *rule) {
        if (ev->kind == EVENT_PACKET && ev->scheme != SCHEME_TCP)
                return NULL; /* nothing carries it */

        switch ((enum reason)ev->reason) {
        case REASON_NOT_ALLOWED:
        case REASON_ASK:
                return str_format("--allow %s", target);
        case REASON_ADDRESS_CLASS:
                return can_be_opened(ev) ? str_format("--allow-private %s", target) : NULL;
        case REASON_NO_NETWORK:
                return str_format("--mode workspace-write-whitelist --allow %s", target);
        case REASON_DENY_RULE:
                return rule ? str_format("remove the rule %.*s (%.*s)", STR_FMT(rule->text), STR_FMT(rule->origin))
                            : NULL;
        default:
                return NULL;
        }
}

/* "UDP 192.0.2.1:53"; "raw socket" for one that was never made, and so has no target. Takes the target. */
static char *with_protocol(const struct event *ev, char *taken) {
        cleanup(free_ptr) char *target = taken;
        cleanup(free_ptr) char *protocol = report_escaped(ev->method);

        if (!target || !protocol)
                return NULL;
        return str_format("%s%s%s", protocol, target[0] ? " " : "", target);
}

/* git over ssh, the agent, gpg: these say themselves what was wanted, and why not. */
static bool add_program(struct run_report *report, const struct event *ev) {
        cleanup(free_ptr) char *what = report_escaped(ev->detail), *domain = report_escaped(ev->domain);
        char *target = NULL, *why = NULL;

        if (!what || !domain)
                return false;

        if (ev->via == VIA_SSH) {
                target = str_format("git over ssh%s%s", domain[0] ? " to " : "", domain);
                why = what[0] ? str_dup(str_of(what)) : NULL;
        } else {
                target = str_format("a signature%s%s", what[0] ? ": " : "", what);
        }

        return run_report_add(
            report, (struct refusal){ .target = target, .why = why, .reason = ev->reason, .count = ev->count });
}

bool run_report_event(struct run_report *report, const struct event *ev, const struct snapshot_rule *rule) {
        if (ev->allowed || ev->kind == EVENT_NOTE || ev->kind == EVENT_TUNNEL_CLOSE)
                return false;

        if (ev->domain.n == 0 && ev->count) { /* many at once that were not recorded one by one */
                report->more += ev->count;
                return false;
        }

        if (ev->via == VIA_SSH || ev->via == VIA_AGENT || ev->via == VIA_GPG)
                return add_program(report, ev);
        if (str_is(ev->domain, ASK_ACCESS_NAME)) /* a question of the agent, not a host that anybody could allow */
                return false;

        /* A question for a name says no port: the connection that would have followed is what a person allows. */
        cleanup(free_ptr) char *domain = report_escaped(ev->domain);
        if (!domain)
                return false;

        bool quiet = is_quiet(report, ev->domain, ev->port);
        bool has_port = ev->port && ev->kind != EVENT_DNS;
        char *target = has_port ? str_format("%s:%u", domain, ev->port) : str_format("%s", domain);
        char *advice = target ? advice_for(ev, target, rule) : NULL;

        if (ev->kind == EVENT_PACKET)
                target = with_protocol(ev, target);

        struct refusal refusal = {
                .target = target, .advice = advice, .reason = ev->reason, .quiet = quiet, .count = ev->count
        };
        if (rule)
                refusal.rule = report_escaped(rule->text);
        if (rule && rule->reason.n)
                refusal.why = report_escaped(rule->reason);

        return run_report_add(report, refusal) && !quiet;
}

static const char *const guard_did[] = {
        [GUARD_KEPT] = "moved away",
        [GUARD_BESIDE] = "moved away",
        [GUARD_FILTERED] = "left the harmless settings only in",
        [GUARD_LINK_BACK] = "put back",
        [GUARD_UNFINISHED] = "moved away",
        [GUARD_PRUNED] = "removed what was kept of",
};

static char *guard_why(const struct guard_found *found, bool own) {
        const char *made =
            own ? "a protected path that the command made" : "a protected path that an earlier command made";

        switch (found->done) {
        case GUARD_KEPT:
                return str_format("%s; it is kept: see `bailey kept`", made);
        case GUARD_BESIDE:
                return str_format("%s; it is beside its place, as %s", made, found->kept);
        case GUARD_FILTERED:
                if (found->kept)
                        return str_format(
                            "the command made the repository; all of the file is kept: see `bailey kept`");
                return str_format("the command made the repository");
        case GUARD_UNFINISHED:
                return str_format("git would run something by it when you continue; it is kept: see `bailey kept`");
        case GUARD_PRUNED:
                return str_format("it was more than %d days old, or all of it more than 1 GiB", KEPT_DAYS_MAX);
        default:
                return str_format("a protected link that was replaced");
        }
}

void run_report_guard(struct run_report *report, const struct guard_found *found, bool own) {
        bool advise = found->done == GUARD_KEPT || found->done == GUARD_BESIDE;
        bool moved = found->done == GUARD_KEPT && own;

        if (moved && ++report->moved > RUN_REPORT_MOVED_MAX)
                return; /* what was refused is told, too */

        char *shown = report_escaped(str_of(found->path));

        run_report_add(report, (struct refusal){ .target = shown,
                                                 .did = guard_did[found->done],
                                                 .advice = advise ? advice_with("--write", shown) : NULL,
                                                 .why = guard_why(found, own),
                                                 .moved = moved,
                                                 .reason = GUARDED });
}

/* "core.hookspath, alias.x and 3 more" */
static int put_names(struct buf *out, const git_lefts *left) {
        enum { SHOWN = 3 };
        int r = 0;

        for (size_t i = 0; i < left->n && i < SHOWN && r == 0; i++) {
                r = i ? buf_add(out, ", ") : 0;
                if (r == 0)
                        r = escape_text(out, str_of(left->p[i].name), 80);
        }

        return r == 0 && left->n > SHOWN ? buf_printf(out, " and %zu more", left->n - SHOWN) : r;
}

static const char *git_left_text(enum git_left_why why) {
        switch (why) {
        case GIT_LEFT_SERVER:
                return "the policy does not allow that server";
        case GIT_LEFT_REMOTE:
                return "it leads away from a remote that was there, or to none";
        case GIT_LEFT_BOTH:
                return "it was changed outside as well";
        default:
                return "git might run what it says, outside too";
        }
}

/* What a person types to have the first of them after all. */
static char *git_advice(const struct git_copies_found *found) {
        const struct git_left *first = &found->left->p[0];
        cleanup(buf_done) struct buf text = BUF(16384);
        int r = buf_add(&text, "git config -f ");

        if (r == 0)
                r = escape_shell(&text, str_of(found->path));
        if (r == 0)
                r = buf_add(&text, first->value ? " " : " --unset-all ");
        if (r == 0)
                r = escape_shell(&text, str_of(first->name));
        if (r == 0 && first->value)
                r = buf_add_char(&text, ' ');
        if (r == 0 && first->value)
                r = escape_shell(&text, str_of(first->value));

        return r == 0 ? str_dup(buf_str(&text)) : NULL;
}

void run_report_git(struct run_report *report, const struct git_copies_found *found) {
        const char *kept = found->kept ? "; the sandbox's copy is kept: see `bailey kept`" : "";
        cleanup(buf_done) struct buf why = BUF(16384);
        bool listed = found->left && put_names(&why, found->left) == 0;

        struct refusal refusal = { .target = report_escaped(str_of(found->path)),
                                   .did = "left out of",
                                   .reason = GUARDED };

        if (listed) {
                refusal.advice = git_advice(found);
                refusal.why =
                    str_format("%.*s: %s%s", STR_FMT(buf_str(&why)), git_left_text(found->left->p[0].why), kept);
        } else {
                refusal.why = str_format("what the command changed in it: %s%s", text_or(found->why, ""), kept);
        }

        run_report_add(report, refusal);
}

/* What a report says about a file that could not be read (0) or written (1). */
static const struct file_words {
        const char *doing, *refused, *no_rule, *option;
        uint16_t reason;
} file_words[] = {
        { "reading", "reading is refused", "no rule lets it be read", "--read", FILE_READ },
        { "writing", "writing is refused", "no rule lets it be written", "--write", FILE_WRITE },
};

void run_report_file(struct run_report *report, const char *path, bool write, const struct path_rule *rule,
                     struct str process) {
        cleanup(free_ptr) char *shown = report_escaped(str_of(path));
        if (!shown)
                return;

        char *pattern = rule ? report_escaped(str_of(rule->pattern)) : NULL;
        cleanup(free_ptr) char *by = pattern ? report_escaped(str_of(rule->origin)) : NULL;
        const struct file_words *words = &file_words[write];
        char *why = by ? str_format("%s by %s (%s)", words->refused, pattern, by) : str_format("%s", words->no_rule);
        char *target = str_format("%s %s", words->doing, shown);
        char *advice = is_closed_for_good(rule) ? NULL : advice_with(words->option, shown);
        run_report_add(report, (struct refusal){ .target = target,
                                                 .rule = pattern,
                                                 .advice = advice,
                                                 .why = why,
                                                 .object = take_ptr(&shown),
                                                 .process = process.n ? report_escaped(process) : NULL,
                                                 .reason = words->reason });
}

void run_report_socket(struct run_report *report, const char *path, struct str process) {
        cleanup(free_ptr) char *shown = report_escaped(str_of(path));
        if (!shown)
                return;

        char *target = str_format("connecting to %s", shown), *advice = NULL, *why;
        if (engine_socket(shown)) {
                why = str_format("it is a container engine's, and whoever reaches it has this host; see bailey run "
                                 "--container");
        } else {
                why = str_format("a program outside listens there");
                advice = advice_with("--read", shown);
        }

        run_report_add(report, (struct refusal){ .target = target,
                                                 .advice = advice,
                                                 .why = why,
                                                 .object = take_ptr(&shown),
                                                 .process = process.n ? report_escaped(process) : NULL,
                                                 .reason = HOST_SOCKET });
}

void run_report_call(struct run_report *report, const char *name, struct str process) {
        run_report_add(report, (struct refusal){ .target = str_format("the system call %s", name),
                                                 .object = str_format("%s", name),
                                                 .why = str_format("no sandbox has it"),
                                                 .process = process.n ? report_escaped(process) : NULL,
                                                 .reason = SYSTEM_CALL });
}

const char *run_report_operation(const struct refusal *refusal) {
        switch (refusal->reason) {
        case GUARDED:
                return "protected";
        case FILE_READ:
                return "read";
        case FILE_WRITE:
                return "write";
        case SYSTEM_CALL:
                return "system-call";
        case HOST_SOCKET:
                return "socket";
        default:
                return "network";
        }
}

const char *run_report_why(const struct refusal *refusal) {
        if (refusal->why)
                return refusal->why;
        if (refusal->reason == GUARDED)
                return "a protected path that the command made";
        if (refusal->reason == REASON_ASK)
                return "nobody who was asked has allowed it";
        return reason_text(refusal->reason);
}

static int put_refusal(const struct refusal *refusal, struct buf *out) {
        struct str why = str_of(run_report_why(refusal));
        const char *target = refusal->target[0] ? refusal->target : "a connection whose target could not be read";
        int r = buf_printf(out, "bailey: %s %s", text_or(refusal->did, "refused"), target);

        if (r == 0 && refusal->count > 1)
                r = buf_printf(out, " (%u times)", refusal->count);
        if (str_ends(why, STR(".")))
                why.n--; /* more follows */
        if (r == 0)
                r = buf_printf(out, ": %.*s", STR_FMT(why));
        if (r == 0 && refusal->advice)
                r = buf_printf(out, "; to allow it: %s", refusal->advice);
        if (r < 0)
                return r;

        return buf_add_char(out, '\n');
}

int run_report_news(struct run_report *report, struct buf *out) {
        struct refusal *refusal = report->refusals.n ? &report->refusals.p[report->refusals.n - 1] : NULL;

        if (!refusal)
                return 0;
        refusal->told = true;
        return put_refusal(refusal, out);
}

/* An archive or a tree of packages may bring hundreds of them. */
static int put_moved(const struct run_report *report, struct buf *out) {
        unsigned shown = 0;
        int r = buf_printf(out, "bailey: moved away %u protected paths that the command made", report->moved);

        for (size_t i = 0; i < report->refusals.n && shown < MOVED_SHOWN && r == 0; i++)
                if (report->refusals.p[i].moved)
                        r = buf_printf(out, "%s%s", shown++ ? ", " : ": ", report->refusals.p[i].target);

        if (r == 0 && shown)
                r = buf_printf(out, " and %u more", report->moved - shown);
        if (r < 0)
                return r;

        return buf_add(out, "; they are kept: see `bailey kept`; to allow one: --write and its name\n");
}

int run_report_text(const struct run_report *report, struct buf *out) {
        bool many = report->moved > MOVED_SHOWN;
        int e = 0;

        for (size_t i = 0; i < report->refusals.n && e == 0; i++) {
                const struct refusal *refusal = &report->refusals.p[i];

                if (!refusal->quiet && (!refusal->told || refusal->count > 1) && !(many && refusal->moved))
                        e = put_refusal(refusal, out);
        }

        if (many && e == 0)
                e = put_moved(report, out);

        if (report->more && e == 0)
                e = buf_printf(out, "bailey: and %u more: see `bailey log`\n", report->more);

        return e;
}

void run_report_send(const struct run_report *report, const struct link *link) {
        for (size_t i = 0; i < report->refusals.n; i++) {
                const struct refusal *refusal = &report->refusals.p[i];
                struct supervise_message message = { .number = refusal->count };
                struct str why = str_of(run_report_why(refusal));

                if (str_ends(why, STR(".")))
                        why.n--; /* more may follow */

                snprintf(message.host, sizeof message.host, "%s", run_report_operation(refusal));
                snprintf(message.target, sizeof message.target, "%s", text_or(refusal->object, refusal->target));
                snprintf(message.rule, sizeof message.rule, "%s", text_or(refusal->rule, ""));
                snprintf(message.process, sizeof message.process, "%s", text_or(refusal->process, ""));
                if (refusal->advice)
                        snprintf(message.detail, sizeof message.detail, "%.*s; to allow it: %s", STR_FMT(why),
                                 refusal->advice);
                else
                        snprintf(message.detail, sizeof message.detail, "%.*s", STR_FMT(why));

                link_violation(link, &message);
        }
}

void run_report_done(struct run_report *report) {
        for (size_t i = 0; i < report->refusals.n; i++)
                refusal_done(&report->refusals.p[i]);
        vec_done(&report->refusals);
}
