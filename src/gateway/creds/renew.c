/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Only here are bodies searched and changed, because here the secret is in the body: at one path of one host, both
 * named by the credential. So everything about it is strict. The request's body is JSON or a form, small and whole; a
 * stand-in fills one member exactly, and any other in it refuses the request. No byte of the response is passed on
 * until it is complete, its tokens are stored (in the vault, in the user's file), and the rest has no text that looks
 * like a token.
 *
 * Members of the answer belong to the mappings of the leader's group ("x", "x.refresh") that name them. Their stand-ins
 * do not change: the sandbox renews its token and gets the stand-in that it has.
 */
#include "gateway/creds/renew.h"

#include "base/cleanup.h"
#include "base/map.h"
#include "base/paths/path.h"
#include "base/secrets/secret.h"
#include "conf/json_walk.h"
#include "policy/profile/sign_ins.h"

#include <errno.h>

enum { PATH_BYTES_MAX = 65536, MEMBER_NAME_MAX = 64 };

/* requests */

static int put_decoded(struct str text, struct buf *out);

/* As servers may read it: escapes undone, dot segments and double slashes folded, without query and parameters, in any
 * case. A path that the origin takes for the endpoint must be recognised here, or the response would reach the sandbox
 * unchanged. */
static bool path_is(struct str target, struct str wanted) {
        cleanup(buf_done) struct buf plain = BUF(PATH_BYTES_MAX);
        cleanup(free_ptr) char *path = NULL;
        size_t n = 0;

        while (n < target.n && !strchr("?;#", target.p[n]))
                n++;

        if (put_decoded(str_first(target, n), &plain) < 0 || path_normalise(buf_str(&plain), "/", &path) < 0)
                return false;

        return str_eq_nocase(str_of(path), wanted);
}

static const struct credential_slot *body_slot(const struct credential_mapping *mapping, struct str path) {
        for (size_t i = 0; i < mapping->n_slots; i++)
                if (mapping->slots[i].kind == SLOT_BODY && (!path.p || path_is(path, mapping->slots[i].path)))
                        return &mapping->slots[i];
        return NULL;
}

/* Whether an account is renewed with it: its refresh token. */
static bool mapping_renews(const struct credential_mapping *mapping) {
        return str_is(mapping->answer, "refresh_token");
}

const struct credential_mapping *renew_leader(const struct credentials *credentials, const struct credential_set *set,
                                              struct str method, struct str target) {
        const struct credential_mapping *found = NULL;

        if (!str_is(method, "POST"))
                return NULL;

        for (uint32_t i = 0; i < credentials_count(credentials); i++) {
                const struct credential_mapping *mapping = credentials_get(credentials, i);
                if (!credential_set_has(set, i) || !body_slot(mapping, target))
                        continue;
                if (mapping_renews(mapping))
                        return mapping; /* what the others are renewed with */

                if (!found)
                        found = mapping;
        }

        return found;
}

bool renew_has_endpoint(const struct credentials *credentials, const struct authority *to) {
        struct credential_set set = credentials_at(credentials, &to->host, to->port);

        for (uint32_t i = 0; i < credentials_count(credentials); i++)
                if (credential_set_has(&set, i) && body_slot(credentials_get(credentials, i), (struct str){ 0 }))
                        return true;
        return false;
}

struct judging {
        const struct credentials *table;
        struct inject_plan *plan;
        struct str body;
        struct str grant; /* as it stands there */
        struct map names; /* of members, in lower case */
};

/* A name that another reader could take for one that was there, or that the endpoint could decode, is none. */
static int take_name(struct judging *judging, struct str member) {
        char lower[MEMBER_NAME_MAX];

        if (member.n == 0 || member.n > sizeof lower)
                return -EBADMSG;

        for (size_t i = 0; i < member.n; i++) {
                if (!ascii_is_alnum(member.p[i]) && (member.p[i] == '\0' || !strchr("_-.", member.p[i])))
                        return -EBADMSG;
                lower[i] = ascii_lower(member.p[i]);
        }

        if (map_get(&judging->names, str_n(lower, member.n)))
                return -EBADMSG;

        return map_add(&judging->names, str_n(lower, member.n), judging);
}

static const struct credential_mapping *mapping_in(const struct judging *judging, struct str member, struct str value) {
        for (uint32_t i = 0; i < credentials_count(judging->table); i++) {
                const struct credential_mapping *mapping = credentials_get(judging->table, i);
                if (!credential_set_has(&judging->plan->set, i) || !str_eq(value, mapping->stand_in[PART_VALUE]))
                        continue;
                for (size_t k = 0; k < mapping->n_slots; k++)
                        if (mapping->slots[k].kind == SLOT_BODY && str_eq(mapping->slots[k].name, member))
                                return mapping;
        }

        return NULL;
}

/* One member and where its value stands. */
static int judge_member(struct judging *judging, struct str member, struct str value, struct str place) {
        const struct credential_mapping *mapping = mapping_in(judging, member, value);
        struct inject_plan *plan = judging->plan;
        int r = take_name(judging, member);

        if (r < 0)
                return r;
        if (str_is(member, "grant_type"))
                judging->grant = place;
        if (!mapping)
                return 0;
        if (plan->n_swaps == INJECT_SWAPS_MAX)
                return -E2BIG;

        plan->swaps[plan->n_swaps++] = (struct inject_swap){ .mapping = mapping->index,
                                                             .header = INJECT_IN_BODY,
                                                             .slot = SLOT_BODY,
                                                             .at = (size_t)(place.p - judging->body.p),
                                                             .n = place.n };
        return 0;
}

/* "grant_type": ["..."] is the same to some servers. */
static bool is_list_of_one(struct str pointer) {
        static const char *const telling[] = { "grant_type", "refresh_token", "code" };
        struct str rest = str_skip(pointer, 1), first;

        (void)str_split(&rest, '/', &first);
        for (size_t i = 0; i < sizeof telling / sizeof *telling; i++)
                if (str_eq_nocase(first, str_of(telling[i])))
                        return true;

        return false;
}

static int judge_json(void *arg, const struct json_scalar *scalar) {
        struct judging *judging = arg;
        cleanup(buf_done) struct buf value = BUF(RENEW_REQUEST_MAX);

        if (scalar->pointer.n != scalar->key.n + 1) { /* of the outermost object only */
                if (is_list_of_one(scalar->pointer))
                        return -EBADMSG;
                return 0;
        }
        if (!scalar->is_string)
                return take_name(judging, scalar->key);

        int r = json_scalar_text(scalar, &value);
        if (r < 0)
                return r;

        return judge_member(judging, scalar->key, buf_str(&value), scalar->raw);
}

static int put_decoded(struct str text, struct buf *out) {
        int r = 0;

        for (size_t i = 0; r == 0 && i < text.n; i++) {
                char c = text.p[i];
                if (c == '%' && i + 2 < text.n && ascii_hex(text.p[i + 1]) >= 0 && ascii_hex(text.p[i + 2]) >= 0) {
                        c = (char)(ascii_hex(text.p[i + 1]) << 4 | ascii_hex(text.p[i + 2]));
                        i += 2;
                }

                r = buf_add_char(out, c);
        }

        return r;
}

static int judge_form(struct judging *judging) {
        struct str rest = judging->body, part;
        int r = 0;

        while (r == 0 && str_split(&rest, '&', &part)) {
                ptrdiff_t equals = str_find(part, '=');
                cleanup(buf_done) struct buf value = BUF(RENEW_REQUEST_MAX);

                if (part.n == 0)
                        continue;
                if (equals < 0)
                        return -EBADMSG;

                struct str place = str_skip(part, (size_t)equals + 1);
                r = put_decoded(place, &value);
                if (r >= 0)
                        r = judge_member(judging, str_first(part, (size_t)equals), buf_str(&value), place);
        }

        return r;
}

/* What is not replaced must be free of stand-ins. */
static bool is_clean(const struct judging *judging, uint32_t *ret_culprit) {
        size_t from = 0;

        for (size_t i = 0; i <= judging->plan->n_swaps; i++) {
                const struct inject_swap *swap = i < judging->plan->n_swaps ? &judging->plan->swaps[i] : NULL;
                struct credential_hit hit;
                size_t at = 0, end = swap ? swap->at : judging->body.n;

                if (swap && swap->header != INJECT_IN_BODY)
                        continue;

                if (credentials_find(judging->table, str_first(str_skip(judging->body, from), end - from), &at, &hit)) {
                        *ret_culprit = hit.mapping;
                        return false;
                }

                from = swap ? swap->at + swap->n : end;
        }

        return true;
}

/* Of other kinds the answer has tokens that belong to nobody's file. */
static bool grant_is_known(struct str grant, bool *ret_fresh) {
        static const char *const fresh[] = { "authorization_code", "urn:ietf:params:oauth:grant-type:device_code",
                                             "urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Adevice_code" };

        if (grant.n >= 2 && grant.p[0] == '"')
                grant = str_n(grant.p + 1, grant.n - 2);
        if (grant.n == 0 || str_is(grant, "refresh_token"))
                return true;

        for (size_t i = 0; i < sizeof fresh / sizeof *fresh; i++)
                if (str_is(grant, fresh[i])) {
                        *ret_fresh = true;
                        return true;
                }

        return false;
}

static bool body_is_json(struct str body) {
        size_t blank = 0;

        while (blank < body.n && strchr(" \t\r\n", body.p[blank]) && body.p[blank] != '\0')
                blank++;

        return blank < body.n && body.p[blank] == '{';
}

/* Read as its type says, and by nothing else: what stands in the query is a parameter too for many servers. */
static bool is_read_in_one_way(const struct renew_request *request) {
        struct str wanted =
            body_is_json(request->body) ? STR("application/json") : STR("application/x-www-form-urlencoded");
        const struct request_view *view = request->view;
        uint32_t at = view ? request_view_only(view, "content-type") : VIEW_NONE;
        struct str type;

        if (!view)
                return true;
        if (str_find(view->target, '?') >= 0 || at == VIEW_NONE)
                return false;

        type = view->headers[at].value;
        ptrdiff_t end = str_find(type, ';');
        return str_eq_nocase(str_trim(end < 0 ? type : str_first(type, (size_t)end)), wanted);
}

static enum inject_result refuse_grant(struct inject_plan *plan) {
        plan->problem = INJECT_GRANT;
        return INJECT_REFUSE;
}

static bool group_renews(const struct credentials *credentials, struct str group) {
        for (uint32_t i = 0; i < credentials_count(credentials); i++) {
                const struct credential_mapping *mapping = credentials_get(credentials, i);
                if (str_eq(mapping->group, group) && mapping_renews(mapping))
                        return true;
        }
        return false;
}

/* Several accounts may have the same endpoint: the one whose stand-in was sent is renewed. NULL: of more than one, or
 * only something that goes with the refresh token, which is somebody else's then. */
static const struct credential_mapping *leader_among(const struct judging *judging, size_t first) {
        const struct credential_mapping *leader = NULL;

        for (size_t i = first; i < judging->plan->n_swaps; i++) {
                const struct credential_mapping *mapping =
                    credentials_get(judging->table, judging->plan->swaps[i].mapping);

                if (leader && !str_eq(leader->group, mapping->group))
                        return NULL;
                if (!leader || mapping_renews(mapping))
                        leader = mapping;
        }

        if (leader && !mapping_renews(leader) && group_renews(judging->table, leader->group))
                return NULL;

        return leader;
}

/* The tokens of a response go into the user's file only if the user's own refresh token was sent for them. Otherwise a
 * token or code of another account could sign the user in there. */
enum inject_result renew_judge(const struct credentials *credentials, const struct credential_mapping **leader,
                               const struct renew_request *request, struct inject_plan *plan, bool *ret_fresh) {
        struct judging judging = { .table = credentials, .plan = plan, .body = request->body };
        size_t before = plan->n_swaps;
        bool fresh = false;
        int r = body_is_json(request->body) ? json_walk(request->body, judge_json, &judging) : judge_form(&judging);

        map_done(&judging.names, NULL);
        plan->culprit = (*leader)->index;
        *ret_fresh = true;

        if (r < 0 || !grant_is_known(judging.grant, &fresh))
                return refuse_grant(plan);

        if (!is_clean(&judging, &plan->culprit)) {
                plan->problem = INJECT_WRONG_SLOT;
                return INJECT_REFUSE;
        }

        if (plan->n_swaps == before)
                return INJECT_PASS;
        const struct credential_mapping *sent = leader_among(&judging, before);
        if (fresh || !sent || !is_read_in_one_way(request))
                return refuse_grant(plan);

        *leader = sent;
        *ret_fresh = false;
        return INJECT_SWAP;
}

static int put_encoded(struct str plain, struct buf *out) {
        int r = 0;

        for (size_t i = 0; r == 0 && i < plain.n; i++) {
                unsigned char ch = (unsigned char)plain.p[i];
                bool unreserved = ascii_is_alnum((char)ch) || (ch != '\0' && strchr("-._~", ch));

                if (unreserved)
                        r = buf_add_char(out, (char)ch);
                else
                        r = buf_printf(out, "%%%02X", ch);
        }

        return r;
}

int renew_body(const struct inject_plan *plan, struct str body, const struct str *values, struct buf *out) {
        size_t from = 0;
        int r = 0;

        for (size_t i = 0; r == 0 && i < plan->n_swaps; i++) {
                const struct inject_swap *swap = &plan->swaps[i];
                if (swap->header != INJECT_IN_BODY)
                        continue;

                r = buf_append(out, str_first(str_skip(body, from), swap->at - from));
                if (r == 0)
                        r = body.p[swap->at] == '"' ? json_quote(values[i], out) : put_encoded(values[i], out);

                from = swap->at + swap->n;
        }

        if (r < 0)
                return r;

        return buf_append(out, str_skip(body, from));
}

/* answers */

/* Of the group: whose value the member is. */
static const struct credential_mapping *renewed_by(const struct credentials *credentials,
                                                   const struct credential_mapping *leader, struct str member) {
        for (uint32_t i = 0; i < credentials_count(credentials); i++) {
                const struct credential_mapping *mapping = credentials_get(credentials, i);
                if (mapping->answer.n > 0 && str_eq(mapping->group, leader->group) && str_eq(mapping->answer, member))
                        return mapping;
        }
        return NULL;
}

struct answering {
        const struct credentials *table;
        const struct credential_mapping *leader;
        struct buf *lines;
        uint64_t expires_in;
        struct str known; /* lines, for what is written */
};

static bool is_outermost(const struct json_scalar *scalar) {
        return scalar->pointer.n == scalar->key.n + 1;
}

static int read_member(void *arg, const struct json_scalar *scalar) {
        struct answering *answering = arg;

        if (!is_outermost(scalar))
                return 0;
        if (!scalar->is_string && str_is(scalar->key, "expires_in"))
                (void)str_to_u64(scalar->raw, 400ULL * 86400, &answering->expires_in);
        if (!scalar->is_string || scalar->raw.n == 2 || !renewed_by(answering->table, answering->leader, scalar->key))
                return 0;

        int r = buf_append(answering->lines, scalar->key);
        if (r >= 0)
                r = buf_add_char(answering->lines, ' ');
        size_t from = answering->lines->n;
        if (r >= 0)
                r = json_scalar_text(scalar, answering->lines);
        for (size_t i = from; r == 0 && i < answering->lines->n; i++)
                if (answering->lines->p[i] <= ' ' || answering->lines->p[i] >= 0x7f)
                        r = -EBADMSG; /* no token has such a character */

        if (r < 0)
                return r;

        return buf_add_char(answering->lines, '\n');
}

int renew_read(const struct credentials *credentials, const struct credential_mapping *leader, struct str answer,
               struct buf *ret_lines, uint64_t *ret_expires_in) {
        struct answering answering = { .table = credentials, .leader = leader, .lines = ret_lines };
        int r = buf_reserve(ret_lines, VAULT_ANSWER_MAX); /* so that it never moves */

        if (r >= 0)
                r = json_walk(answer, read_member, &answering);
        if (r < 0) {
                if (r == -EMSGSIZE || r == -ENOMEM)
                        return r;
                return -EBADMSG;
        }

        *ret_expires_in = answering.expires_in;
        if (ret_lines->n <= 0)
                return -ENOENT;

        return 0;
}

bool renew_holds(struct str lines, struct str text) {
        struct str line, member;

        while (str_split(&lines, '\n', &line)) {
                if (!str_split(&line, ' ', &member) || !line.p || line.n < VAULT_SECRET_MIN)
                        continue;
                if (text.n >= line.n && memmem(text.p, text.n, line.p, line.n))
                        return true;
        }

        return false;
}

static int write_member(void *arg, const struct json_scalar *scalar, struct buf *out) {
        struct answering *answering = arg;
        const struct credential_mapping *mapping = is_outermost(scalar) && scalar->is_string
                                                       ? renewed_by(answering->table, answering->leader, scalar->key)
                                                       : NULL;

        if (mapping && scalar->raw.n > 2) {
                int r = json_quote(mapping->stand_in[PART_VALUE], out);
                if (r < 0)
                        return r;

                return 1;
        }

        if (!scalar->is_string)
                return 0;

        struct buf text = BUF(RENEW_ANSWER_MAX);
        int r = json_scalar_text(scalar, &text);
        if (r == 0 && (sign_in_looks_secret(buf_str(&text)) || renew_holds(answering->known, buf_str(&text))))
                r = -EPERM;
        if (text.p)
                secret_wipe(text.p, text.cap);

        buf_done(&text);
        return r;
}

int renew_write(const struct credentials *credentials, const struct credential_mapping *leader, struct str answer,
                struct str lines, struct buf *out) {
        struct answering answering = { .table = credentials, .leader = leader, .known = lines };
        int r = json_edit(answer, write_member, &answering, out);

        if (r == 0 && renew_holds(lines, buf_str(out))) /* in a key */
                r = -EPERM;
        return r;
}
