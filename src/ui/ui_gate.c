/* SPDX-License-Identifier: Apache-2.0 */
#include "ui/ui_gate.h"

#include "base/secrets/secret.h"

#include <assert.h>
#include <stdio.h>

static const struct {
        unsigned status;
        const char *text;
} verdicts[] = {
        [GATE_PASS] = { 200, "" },
        [GATE_HOST] = { 421, "the request names another host than this server" },
        [GATE_ORIGIN] = { 403, "the request comes from a page of another origin" },
        [GATE_SITE] = { 403, "the request comes from a page of another site" },
        [GATE_TARGET] = { 400, "the request names no path" },
        [GATE_METHOD] = { 405, "only GET and POST are understood" },
        [GATE_TYPE] = { 415, "what is sent must be application/json" },
        [GATE_SESSION] = { 401, "there is no session: open the link that `bailey ui` prints" },
        [GATE_HEADER] = { 403, "the request does not come from the dashboard's own page" },
        [GATE_READ_ONLY] = { 403, "this dashboard only shows (--read-only)" },
        [GATE_PAIRED] = { 403, "a paired device reads and answers questions, and nothing else" },
};
static_assert(sizeof verdicts / sizeof *verdicts == GATE_VERDICTS, "one for each");

unsigned gate_status(enum gate_verdict verdict) {
        return verdicts[verdict].status;
}

const char *gate_text(enum gate_verdict verdict) {
        return verdicts[verdict].text;
}

static bool is_own_host(const struct gate_rules *rules, struct str host) {
        static const char *const names[] = { "127.0.0.1", "localhost", "[::1]" };

        if (rules->device_host)
                return str_is(host, rules->device_host);

        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
                char own[32];

                snprintf(own, sizeof own, "%s:%u", names[i], rules->port);
                if (str_is(host, own))
                        return true;
        }

        return false;
}

static bool is_own_origin(const struct gate_rules *rules, struct str origin, struct str host) {
        struct str scheme = str_of(rules->device_host ? "https://" : "http://");

        return str_starts(origin, scheme) && str_eq(str_skip(origin, scheme.n), host);
}

/* The value of our cookie; a second one of the same name makes both worthless. */
static struct str cookie_of(const struct gate_rules *rules, struct str cookies) {
        struct str name = str_of(rules->device_host ? GATE_DEVICE_COOKIE "=" : GATE_COOKIE "="), part, found = { 0 };

        while (str_split(&cookies, ';', &part)) {
                part = str_trim(part);
                if (!str_starts(part, name))
                        continue;
                if (found.p)
                        return (struct str){ 0 };

                found = str_skip(part, name.n);
        }

        return found;
}

static const struct gate_session *session_of(const struct gate_rules *rules, struct str cookie) {
        const struct gate_session *found = NULL;

        for (size_t i = 0; i < rules->n_sessions; i++)
                if (rules->sessions[i].cookie[0] && secret_equal(str_of(rules->sessions[i].cookie), cookie))
                        found = &rules->sessions[i];
        return found;
}

static bool is_json(struct str type) {
        struct str first;

        if (!str_split(&type, ';', &first))
                return false;
        return str_eq_nocase(str_trim(first), STR("application/json"));
}

/* Where it comes from. */
static enum gate_verdict judge_source(const struct gate_rules *rules, const struct gate_request *request) {
        if (!is_own_host(rules, request->host))
                return GATE_HOST;
        if (request->origin.p && !is_own_origin(rules, request->origin, request->host))
                return GATE_ORIGIN;
        if (request->site.p && !str_is(request->site, "same-origin") && !str_is(request->site, "none"))
                return GATE_SITE;
        return GATE_PASS;
}

enum gate_verdict gate_judge(const struct gate_rules *rules, const struct gate_request *request) {
        enum gate_verdict verdict = judge_source(rules, request);
        bool post = str_is(request->method, "POST");

        if (verdict != GATE_PASS)
                return verdict;
        if (!request->origin_form)
                return GATE_TARGET;
        if (!post && !str_is(request->method, "GET"))
                return GATE_METHOD;
        if (post && !is_json(request->content_type))
                return GATE_TYPE;
        if (request->is_public)
                return GATE_PASS;

        const struct gate_session *session = session_of(rules, cookie_of(rules, request->cookies));
        if (!session)
                return GATE_SESSION;
        if (!secret_equal(str_of(session->header), request->header))
                return GATE_HEADER;
        if (rules->device_host && !request->is_paired)
                return GATE_PAIRED;
        if (post && rules->read_only && !request->always)
                return GATE_READ_ONLY;

        return GATE_PASS;
}
