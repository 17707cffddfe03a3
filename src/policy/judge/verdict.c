/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides who may be reached. Every caller comes here, and the order is always the same: the mode, the address class
 * (with metadata, own addresses and listeners), the deny list, the allow lists, a person, no.
 *
 * An address that can carry an IPv4 address inside is judged as both; each must pass by itself. So opening 64:ff9b::/96
 * does not open 10.0.0.0/8 behind it.
 */
#include "policy/judge/verdict.h"

#include "policy/block_internal.h"
#include "policy/match/glob.h"
#include "policy/match/request_path.h"

#include <assert.h>

static struct verdict verdict_refuse(enum reason reason, uint32_t rule) {
        return (struct verdict){ .decision = DECISION_DENY, .reason = (uint8_t)reason, .rule = rule };
}

static struct verdict verdict_grant(enum reason reason, uint32_t rule) {
        return (struct verdict){ .decision = DECISION_ALLOW, .reason = (uint8_t)reason, .rule = rule };
}

static struct verdict refuse_class(enum addr_class class, uint32_t rule) {
        struct verdict verdict = verdict_refuse(REASON_ADDRESS_CLASS, rule);
        verdict.class = (uint8_t) class;
        return verdict;
}

/* One form of an address. name_rule: the allow_private rule for the name it belongs to, if there is one. */
static struct verdict judge_form(const struct snapshot *snapshot, const struct addr *addr, uint16_t port,
                                 uint32_t name_rule, struct match *match) {
        enum addr_class class = addr_classify_outer(addr);

        snapshot_match_addr(snapshot, addr, port, match);
        if (class == ADDR_CLASS_METADATA || class == ADDR_CLASS_UNSPECIFIED)
                return refuse_class(class, RULE_NONE);
        if (match->rule[LIST_LISTENER] != RULE_NONE)
                return verdict_refuse(REASON_SELF, match->rule[LIST_LISTENER]);

        bool own = match->rule[LIST_OWN] != RULE_NONE;
        bool refused =
            snapshot->header->default_classes ? class != ADDR_CLASS_PUBLIC : match->rule[LIST_REFUSED] != RULE_NONE;

        /* A network in allow_private means its other machines, not this host by accident. */
        uint32_t opener = own && !match->private_is_exact ? RULE_NONE : match->rule[LIST_ALLOW_PRIVATE];
        if (opener == RULE_NONE)
                opener = name_rule;
        if (opener == RULE_NONE && refused && !(own && class != ADDR_CLASS_LOOPBACK))
                return refuse_class(class, match->rule[LIST_REFUSED]);
        if (opener == RULE_NONE && own)
                return verdict_refuse(REASON_SELF, match->rule[LIST_OWN]);
        if (match->rule[LIST_DENY] != RULE_NONE)
                return verdict_refuse(REASON_DENY_RULE, match->rule[LIST_DENY]);

        if (opener != RULE_NONE)
                return verdict_grant(REASON_ALLOWED_PRIVATE, opener);

        return verdict_grant(REASON_ALLOWED, RULE_NONE);
}

static struct verdict judge_address(const struct snapshot *snapshot, const struct addr *addr, uint16_t port,
                                    uint32_t name_rule, struct match *match) {
        struct addr inner[ADDR_EMBEDDED_MAX];
        size_t n = addr_embedded_v4(addr, inner);
        for (size_t i = 0; i < n; i++) {
                struct verdict verdict = judge_form(snapshot, &inner[i], port, name_rule, match);
                if (verdict.decision == DECISION_DENY)
                        return verdict;
        }

        return judge_form(snapshot, addr, port, name_rule, match);
}

/* Both loopback addresses must be free of refusals, since either may be dialled. */
static struct verdict judge_loopback_name(const struct snapshot *snapshot, uint16_t port, const struct match *match) {
        struct match by_address;

        if (match->rule[LIST_ALLOW_PRIVATE] == RULE_NONE)
                return refuse_class(ADDR_CLASS_LOOPBACK, RULE_NONE);

        for (size_t i = 0; i < HOST_LOOPBACKS; i++) {
                struct verdict verdict =
                    judge_address(snapshot, &host_loopback[i], port, match->rule[LIST_ALLOW_PRIVATE], &by_address);
                if (verdict.decision == DECISION_DENY)
                        return verdict;
        }

        return verdict_grant(REASON_ALLOWED_PRIVATE, match->rule[LIST_ALLOW_PRIVATE]);
}

static struct verdict judge_lists(const struct snapshot *snapshot, const struct match *match) {
        struct verdict verdict;

        if (match->rule[LIST_DENY] != RULE_NONE)
                return verdict_refuse(REASON_DENY_RULE, match->rule[LIST_DENY]);

        if (match->rule[LIST_ALLOW_PRIVATE] != RULE_NONE)
                verdict = verdict_grant(REASON_ALLOWED_PRIVATE, match->rule[LIST_ALLOW_PRIVATE]);
        else if (match->rule[LIST_ALLOW] != RULE_NONE)
                verdict = verdict_grant(REASON_ALLOWED, match->rule[LIST_ALLOW]);
        else if (match->rule[LIST_GIT] != RULE_NONE)
                verdict = verdict_grant(REASON_ALLOWED, match->rule[LIST_GIT]);
        else if (snapshot->header->mode == NETWORK_OPEN)
                verdict = verdict_grant(REASON_OPEN_NETWORK, RULE_NONE);
        else if (snapshot->header->ask && match->rule[LIST_QUIET] != RULE_NONE)
                return verdict_refuse(REASON_NOT_ALLOWED, match->rule[LIST_QUIET]);
        else if (snapshot->header->ask)
                return (struct verdict){ .decision = DECISION_ASK, .reason = REASON_ASK, .rule = RULE_NONE };
        else
                return verdict_refuse(REASON_NOT_ALLOWED, RULE_NONE);

        verdict.needs_request = match->needs_request || match->git;
        verdict.git = match->git;

        return verdict;
}

static struct verdict judge_open(const struct snapshot *snapshot, const struct host *host, uint16_t port,
                                 struct match *match) {
        struct verdict verdict;

        if (!snapshot || snapshot->header->mode == NETWORK_NONE)
                return verdict_refuse(REASON_NO_NETWORK, RULE_NONE);

        if (host->kind == HOST_ADDR) {
                verdict = judge_address(snapshot, &host->addr, port, RULE_NONE, match);
                if (verdict.decision == DECISION_DENY)
                        return verdict;

                if (verdict.reason ==
                    REASON_ALLOWED) /* needed no opening: an allow_private rule for it opens nothing more */
                        return judge_lists(snapshot, match);

                verdict.needs_request = match->needs_request || match->git;
                verdict.git = match->git;
                return verdict;
        }

        snapshot_match_name(snapshot, host, port, match);

        if (host_is_loopback_name(host)) {
                verdict = judge_loopback_name(snapshot, port, match);
                if (verdict.decision == DECISION_DENY)
                        return verdict;
        }

        return judge_lists(snapshot, match);
}

/* Ratchets that have closed: they only take away. */
static struct verdict judge_target(const struct snapshot *snapshot, const struct host *host, uint16_t port,
                                   struct match *match) {
        struct verdict verdict = judge_open(snapshot, host, port, match);

        if (verdict.decision == DECISION_DENY)
                return verdict;

        verdict.reaches = match->rule[LIST_REACH] != RULE_NONE;
        if (match->rule[LIST_RATCHET] != RULE_NONE && match->rule[LIST_KEPT] == RULE_NONE)
                return verdict_refuse(REASON_RATCHET, match->rule[LIST_RATCHET]);

        if (match->rule[LIST_RATCHET_ASK] != RULE_NONE && match->rule[LIST_KEPT_ASK] == RULE_NONE) {
                verdict.decision = DECISION_ASK;
                verdict.reason = REASON_RATCHET;
                verdict.rule = match->rule[LIST_RATCHET_ASK];
                verdict.narrowed = snapshot->header->narrowed;
        }

        return verdict;
}

struct verdict verdict_target(const struct snapshot *snapshot, const struct host *host, uint16_t port) {
        struct match match;
        if (port == 0)
                return verdict_refuse(REASON_BAD_NAME, RULE_NONE);
        return judge_target(snapshot, host, port, &match);
}

struct verdict verdict_name(const struct snapshot *snapshot, const struct host *host) {
        struct match match;
        return judge_target(snapshot, host, PORT_ANY, &match);
}

struct verdict verdict_address(const struct snapshot *snapshot, const struct host *host, const struct addr *addr,
                               uint16_t port) {
        struct match match;
        uint32_t name_rule = RULE_NONE;

        if (!snapshot || snapshot->header->mode == NETWORK_NONE)
                return verdict_refuse(REASON_NO_NETWORK, RULE_NONE);

        if (host->kind == HOST_NAME) {
                snapshot_match_name(snapshot, host, port, &match);
                name_rule = match.rule[LIST_ALLOW_PRIVATE];
        } else if (!addr_equal(&host->addr, addr)) {
                return verdict_refuse(REASON_BAD_NAME, RULE_NONE); /* another address than the one that was judged */
        }

        return judge_address(snapshot, addr, port, name_rule, &match);
}

/* --- requests --- */

static struct str text_at(const struct snapshot *snapshot, uint32_t index) {
        return str_n(snapshot->pool + snapshot->texts[index].at, snapshot->texts[index].n);
}

static bool method_matches(const struct snapshot *snapshot, const struct block_request *request, struct str method) {
        for (uint32_t i = 0; i < request->n_methods; i++)
                if (str_eq(text_at(snapshot, request->first_method + i), method))
                        return true;
        return request->n_methods == 0;
}

static bool reading_matches(const struct snapshot *snapshot, const struct block_request *request, struct str path) {
        for (uint32_t i = 0; i < request->n_paths; i++)
                if (glob_match(text_at(snapshot, request->first_path + i), path))
                        return true;
        return false;
}

static bool path_matches(const struct snapshot *snapshot, const struct block_request *request,
                         const struct request_readings *readings) {
        if (request->n_paths == 0)
                return true;
        for (size_t i = 0; i < readings->n; i++)
                if (!reading_matches(snapshot, request, readings->at[i]))
                        return false;
        return readings->n > 0;
}

/* A path that a server may take for the GraphQL endpoint is judged as one: servers accept escaped letters, other case,
 * a trailing slash and a suffix. */
static bool graphql_matches(const struct snapshot *snapshot, const struct block_request *request, struct str reading) {
        char folded[1024], pattern[1024];

        if (!request->graphql || request->n_paths == 0)
                return request->graphql;
        if (reading.n > sizeof folded)
                return true;

        struct str path = request_path_fold(reading, folded), stem = request_path_without_suffix(path);

        for (uint32_t i = 0; i < request->n_paths; i++) {
                struct str text = text_at(snapshot, request->first_path + i);
                if (text.n > sizeof pattern)
                        return true;

                struct str folded_text = request_path_fold(text, pattern);
                if (glob_match(folded_text, path) || glob_match(folded_text, stem))
                        return true;
        }

        return false;
}

static bool any_reading_matches(const struct snapshot *snapshot, const struct block_request *request,
                                const struct request_readings *readings) {
        for (size_t i = 0; i < readings->n; i++)
                if (graphql_matches(snapshot, request, readings->at[i]))
                        return true;
        return readings->n == 0 && request->graphql; /* a path that could lead anywhere */
}

/* Where a GraphQL rule names the path, only GraphQL rules count. */
static bool rules_are_narrowed(const struct snapshot *snapshot, const struct match *match, uint16_t port,
                               const struct request_readings *readings) {
        for (uint32_t i = match->first_rule; i < match->first_rule + match->n_rules; i++) {
                const struct block_rule *rule = &snapshot->rules[i];
                if (rule->list == LIST_ALLOW && rule->request != BLOCK_NONE && block_rule_covers(rule, port) &&
                    any_reading_matches(snapshot, &snapshot->requests[rule->request], readings))
                        return true;
        }

        return false;
}

static bool field_is_granted(const struct snapshot *snapshot, uint32_t first, uint32_t n, struct str name) {
        if (str_is(name, "__typename"))
                return n > 0;

        for (uint32_t i = 0; i < n; i++) {
                struct str granted = text_at(snapshot, first + i);
                if (str_is(granted, "*") || str_eq(granted, name))
                        return true;
        }

        return false;
}

static bool fields_are_granted(const struct snapshot *snapshot, const struct block_request *request,
                               const struct graphql_fields *fields) {
        uint32_t first = fields->mutation ? request->first_mutation : request->first_query;
        uint32_t n = fields->mutation ? request->n_mutations : request->n_queries;

        for (size_t i = 0; i < fields->n; i++)
                if (!field_is_granted(snapshot, first, n, fields->names[i]))
                        return false;

        return fields->n > 0;
}

/* What a request is judged by. fields: NULL while its document has not been read. */
struct asked {
        uint16_t port;
        struct str method;
        const struct request_readings *readings;
        const struct graphql_fields *fields;
        bool narrowed; /* only GraphQL rules count */
};

static struct verdict judge_rules(const struct snapshot *snapshot, const struct match *match, const struct asked *asked,
                                  struct verdict granted) {
        struct verdict refusal = verdict_refuse(REASON_METHOD, match->rule[LIST_ALLOW]);

        for (uint32_t i = match->first_rule; i < match->first_rule + match->n_rules; i++) {
                const struct block_rule *rule = &snapshot->rules[i];
                if (rule->list != LIST_ALLOW || rule->request == BLOCK_NONE || !block_rule_covers(rule, asked->port))
                        continue;

                const struct block_request *request = &snapshot->requests[rule->request];
                if ((asked->narrowed && !request->graphql) || !method_matches(snapshot, request, asked->method))
                        continue;

                if (!path_matches(snapshot, request, asked->readings)) {
                        refusal = verdict_refuse(REASON_PATH, i);
                        continue;
                }

                if (!asked->fields || fields_are_granted(snapshot, request, asked->fields)) {
                        granted.rule = i;
                        granted.graphql = request->graphql;
                        return granted;
                }

                refusal = verdict_refuse(REASON_GRAPHQL, i);
        }

        return refusal;
}

static struct verdict judge_request(const struct snapshot *snapshot, const struct host *host, uint16_t port,
                                    struct str method, struct str path, const struct graphql_fields *fields) {
        struct match match;

        if (port == 0)
                return verdict_refuse(REASON_BAD_NAME, RULE_NONE);

        struct verdict verdict = judge_target(snapshot, host, port, &match);
        if (verdict.decision != DECISION_ALLOW || !verdict.needs_request)
                return verdict;
        if (match.git && match.rule[LIST_ALLOW] == RULE_NONE && snapshot->header->mode != NETWORK_OPEN)
                return verdict_refuse(REASON_GIT_ONLY, match.rule[LIST_GIT]);
        if (!match.needs_request)
                return verdict;

        struct request_readings readings;
        request_readings_of(path, &readings);
        const struct asked asked = { .port = port,
                                     .method = method,
                                     .readings = &readings,
                                     .fields = fields,
                                     .narrowed = rules_are_narrowed(snapshot, &match, port, &readings) };
        verdict = judge_rules(snapshot, &match, &asked, verdict);
        request_readings_done(&readings);

        return verdict;
}

struct verdict verdict_request(const struct snapshot *snapshot, const struct host *host, uint16_t port,
                               struct str method, struct str path) {
        return judge_request(snapshot, host, port, method, path, NULL);
}

struct verdict verdict_graphql(const struct snapshot *snapshot, const struct host *host, uint16_t port,
                               struct str method, struct str path, const struct graphql_fields *fields) {
        return judge_request(snapshot, host, port, method, path, fields);
}

size_t verdict_graphql_rules(const struct snapshot *snapshot, const struct authority *target, struct str method,
                             struct str path, uint32_t *ret, size_t max) {
        struct request_readings readings = { 0 };
        struct match match;
        size_t n = 0;

        if (target->port == 0 || judge_target(snapshot, &target->host, target->port, &match).decision == DECISION_DENY)
                return 0;

        request_readings_of(path, &readings);
        for (uint32_t i = match.first_rule; i < match.first_rule + match.n_rules; i++) {
                const struct block_rule *rule = &snapshot->rules[i];
                if (rule->list != LIST_ALLOW || rule->request == BLOCK_NONE || !block_rule_covers(rule, target->port))
                        continue;

                const struct block_request *request = &snapshot->requests[rule->request];
                if (!request->graphql || (method.n > 0 && !method_matches(snapshot, request, method)) ||
                    (path.n > 0 && !path_matches(snapshot, request, &readings)))
                        continue;

                if (n < max)
                        ret[n] = i;
                n++;
        }

        request_readings_done(&readings);
        return n;
}

/* --- words --- */

static const struct {
        const char *code, *text;
} reasons[] = {
        [REASON_NONE] = { "none", "No reason was recorded." },
        [REASON_ALLOWED] = { "allowed", "An allow rule matched." },
        [REASON_ALLOWED_PRIVATE] = { "allowed-private", "An allow_private rule opened it." },
        [REASON_OPEN_NETWORK] = { "open-network", "The mode leaves the network open." },
        [REASON_DENY_RULE] = { "deny-rule", "A deny rule matched." },
        [REASON_NOT_ALLOWED] = { "not-allowed", "No rule allows it." },
        [REASON_ADDRESS_CLASS] = { "address-class", "Addresses of this class are refused." },
        [REASON_SELF] = { "self", "It is an address of this host or a listener of Bailey." },
        [REASON_NO_NETWORK] = { "no-network", "The policy gives no network." },
        [REASON_METHOD] = { "method", "The host is allowed, this method is not." },
        [REASON_PATH] = { "path", "The host is allowed, this path is not." },
        [REASON_NOT_VISIBLE] = { "not-visible", "The rule needs to see the request, which is inside a tunnel." },
        [REASON_ASK] = { "ask", "A person must be asked." },
        [REASON_BAD_NAME] = { "bad-name", "It is not a plain host name or address." },
        [REASON_FRONTING] = { "fronting", "The name inside the connection is not the one it was opened for." },
        [REASON_RESOLVE] = { "resolve", "The name did not resolve." },
        [REASON_LIMIT] = { "limit", "A limit was reached." },
        [REASON_AUDIT] = { "audit", "The audit log cannot be written." },
        [REASON_PROTOCOL] = { "protocol", "The bytes are malformed or not supported." },
        [REASON_UPSTREAM] = { "upstream", "The far end failed." },
        [REASON_TIMEOUT] = { "timeout", "It took too long." },
        [REASON_CREDENTIAL] = { "credential",
                                "A stand-in for a credential may go only to the host and the place that the "
                                "credential is for." },
        [REASON_VAULT] = { "vault", "What keeps the credentials is not there now." },
        [REASON_CERTIFICATE] = { "certificate",
                                 "The certificate of the origin cannot be trusted, so nothing was sent." },
        [REASON_TRANSPORT] = { "transport", "A sandbox has TCP and DNS, no other protocols." },
        [REASON_GIT_REPOSITORY] = { "git-repository", "No rule under git names this repository." },
        [REASON_GIT_SERVICE] = { "git-service", "The rule for this repository does not allow this." },
        [REASON_GIT_REF] = { "git-ref", "The rule for this repository does not allow this change of a ref." },
        [REASON_GIT_FORM] = { "git-form", "It is meant for git, but not in a form that can be judged." },
        [REASON_GIT_ONLY] = { "git-only", "The host is open for git alone, and this is no request of git's." },
        [REASON_GRAPHQL] = { "graphql",
                             "The GraphQL request asks for more than the rule allows, or is not understood." },
        [REASON_SIGNING] = { "signing", "The policy lets no key be used for this." },
        [REASON_CLIENT] = { "client", "This gateway is for other clients than this one." },
        [REASON_RATCHET] = { "ratchet",
                             "A ratchet has closed: for the rest of this run, only what it leaves is open." },
};
static_assert(sizeof reasons / sizeof reasons[0] == REASONS, "words for each reason");

const char *reason_code(enum reason reason) {
        return (unsigned)reason < REASONS ? reasons[reason].code : "unknown";
}

const char *reason_text(enum reason reason) {
        return (unsigned)reason < REASONS ? reasons[reason].text : "Unknown reason.";
}
