/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A real secret must not end up in the wrong place, so the rule is strict and the same everywhere: a stand-in is
 * replaced only if it fills its slot exactly. "Bearer F" is, "Bearer F, x" is not: nobody knows what a server makes of
 * text around a secret. All other text that leaves and can be seen (header names and values, the target) is searched
 * for every stand-in of every mapping, in base64 and percent-encoded too, and one that is found refuses the request.
 * Bodies are neither searched nor changed: a stand-in is worth nothing to its receiver.
 *
 * Headers that end at this gateway (hop-by-hop, or named in Connection) are no slots, but they are searched: nobody
 * puts a stand-in there by accident.
 */
#include "gateway/creds/inject.h"

#include "base/base64.h"
#include "base/cleanup.h"
#include "base/secrets/secret.h"

#include <assert.h>
#include <errno.h>

enum { BASIC_MAX = 32768 }; /* of decoded Basic credentials */

static const char *const problem_texts[] = {
        [INJECT_NO_PROBLEM] = "",
        [INJECT_PLAIN] = "the stand-in of a credential would travel unencrypted",
        [INJECT_WRONG_HOST] = "the stand-in of a credential is on its way to a host that it is not for",
        [INJECT_WRONG_SLOT] = "the stand-in of a credential is in a place of the request that it is not for",
        [INJECT_TWICE] = "the place of a credential is there twice in the request",
        [INJECT_TOO_MANY] = "there are too many stand-ins of credentials in the request",
        [INJECT_SIGNATURE] = "the AWS signature cannot be made anew",
        [INJECT_ROTATED] = ("the stand-in of a credential was rotated since (bailey secrets rotate, or egress setup "
                            "--rotate-tokens) and counts no more; what runs must get the new one"),
        [INJECT_GRANT] = ("the request to the token endpoint is neither JSON nor a form, or asks for another kind of "
                          "token than a sign-in has"),
};
static_assert(sizeof problem_texts / sizeof *problem_texts == INJECT_PROBLEMS, "a text for each problem");

const char *inject_problem_text(const struct inject_plan *plan) {
        if (plan->problem == INJECT_SIGNATURE)
                return sigv4_problem_text(plan->sigv4.problem);

        return problem_texts[plan->problem];
}

/* --- text --- */

/* Takes one byte off the front, an escaped one decoded. A '%' that is no escape stands for itself. */
static unsigned char next_byte(struct str *s) {
        char c = s->p[0];
        size_t width = 1;

        if (c == '%' && s->n >= 3 && ascii_hex(s->p[1]) >= 0 && ascii_hex(s->p[2]) >= 0) {
                c = (char)(ascii_hex(s->p[1]) << 4 | ascii_hex(s->p[2]));
                width = 3;
        }

        *s = str_skip(*s, width);
        return (unsigned char)c;
}

static bool decodes_to(struct str text, struct str plain) {
        while (text.n > 0 && plain.n > 0) {
                if (next_byte(&text) != (unsigned char)plain.p[0])
                        return false;
                plain = str_skip(plain, 1);
        }
        return text.n == 0 && plain.n == 0;
}

static bool same_decoded(struct str a, struct str b) {
        while (a.n > 0 && b.n > 0)
                if (next_byte(&a) != next_byte(&b))
                        return false;
        return a.n == 0 && b.n == 0;
}

/* Characters that need no escape. A path segment allows more of them (RFC 3986, 3.3), and for some servers the escaped
 * form is another path (2.2); in a query '&', '=' and '+' have a meaning. */
static bool stands_for_itself(char c, bool in_segment) {
        if (ascii_is_alnum(c) || str_find(STR("-._~"), c) >= 0)
                return true;
        return in_segment && str_find(STR(":@!$&'()*+,;="), c) >= 0;
}

static int put_encoded(struct buf *out, struct str plain, bool in_segment) {
        static const char digits[] = "0123456789ABCDEF";
        int r = 0;

        for (size_t i = 0; r == 0 && i < plain.n; i++) {
                unsigned char c = (unsigned char)plain.p[i];
                char escape[3] = { '%', digits[c >> 4], digits[c & 15] };

                if (stands_for_itself((char)c, in_segment))
                        r = buf_add_char(out, (char)c);
                else
                        r = buf_append(out, str_n(escape, 3));
        }

        return r;
}

/* "Scheme rest" with at least one space between. */
static bool split_scheme(struct str value, struct str *ret_scheme, struct str *ret_rest) {
        ptrdiff_t space = str_find(value, ' ');
        if (space <= 0)
                return false;

        *ret_scheme = str_first(value, (size_t)space);
        *ret_rest = str_skip(value, (size_t)space);
        while (ret_rest->n > 0 && ret_rest->p[0] == ' ')
                *ret_rest = str_skip(*ret_rest, 1);

        return ret_rest->n > 0;
}

/* --- judging --- */

struct judging {
        const struct credentials *table;
        const struct request_view *request;
        struct inject_plan *plan;
};

static enum inject_result inject_refuse(struct judging *judging, enum inject_problem problem, uint32_t mapping) {
        judging->plan->problem = (uint8_t)problem;
        judging->plan->culprit = mapping;
        return INJECT_REFUSE;
}

/* A stand-in was found where it may not be. */
static enum inject_result refuse_found(struct judging *judging, uint32_t mapping) {
        if (!judging->request->secure)
                return inject_refuse(judging, INJECT_PLAIN, mapping);
        return inject_refuse(
            judging, credential_set_has(&judging->plan->set, mapping) ? INJECT_WRONG_SLOT : INJECT_WRONG_HOST, mapping);
}

static enum inject_result inject_search(struct judging *judging, struct str text) {
        struct credential_hit hit;
        size_t at = 0;
        if (!credentials_find(judging->table, text, &at, &hit))
                return INJECT_PASS;
        if (hit.part == PARTS)
                return inject_refuse(judging, INJECT_ROTATED, hit.mapping);

        return refuse_found(judging, hit.mapping);
}

/* The mapping of this host whose stand-in `text` is, exactly, and which has a slot of this kind (and name). */
static const struct credential_mapping *mapping_for(struct judging *judging, struct str text, bool encoded,
                                                    enum credential_slot_kind kind, struct str name) {
        for (uint32_t i = 0; i < credentials_count(judging->table); i++) {
                const struct credential_mapping *mapping = credentials_get(judging->table, i);
                struct str stand_in = mapping->stand_in[PART_VALUE];

                if (mapping->kind != MAPPING_VALUE || !credential_set_has(&judging->plan->set, i) ||
                    !(encoded ? decodes_to(text, stand_in) : str_eq(text, stand_in)))
                        continue;

                for (size_t k = 0; k < mapping->n_slots; k++) {
                        const struct credential_slot *slot = &mapping->slots[k];
                        bool same_name;
                        if (kind == SLOT_HEADER)
                                same_name = str_eq_nocase(slot->name, name);
                        else if (kind == SLOT_QUERY)
                                same_name = decodes_to(name, slot->name);
                        else
                                same_name = true;

                        bool basic =
                            slot->kind == SLOT_BASIC && (kind == SLOT_BASIC_USER || kind == SLOT_BASIC_PASSWORD);
                        if ((slot->kind == kind || basic) && same_name)
                                return mapping;
                }
        }

        return NULL;
}

static enum inject_result add_swap(struct judging *judging, const struct credential_mapping *mapping,
                                   enum credential_slot_kind slot, uint32_t header, size_t at, size_t n) {
        struct inject_plan *plan = judging->plan;
        if (plan->n_swaps == INJECT_SWAPS_MAX)
                return inject_refuse(judging, INJECT_TOO_MANY, mapping->index);
        plan->swaps[plan->n_swaps++] = (struct inject_swap){
                .mapping = mapping->index, .header = header, .slot = (uint8_t)slot, .at = at, .n = n
        };
        return INJECT_SWAP;
}

/* Basic credentials: user and password are each a slot of their own. Two swaps at most, then nothing else is left. */
static enum inject_result judge_basic(struct judging *judging, uint32_t header, struct str encoded) {
        static _Thread_local char plain[BASIC_MAX];
        size_t n;

        if (encoded.n / 4 * 3 > sizeof plain || !base64_decode(encoded, plain, &n))
                return INJECT_PASS; /* no credentials of ours; it is searched as any other text */

        struct str all = str_n(plain, n);
        ptrdiff_t colon = str_find(all, ':');
        if (colon < 0)
                return INJECT_PASS;

        struct str user = str_first(all, (size_t)colon), password = str_skip(all, (size_t)colon + 1);
        const struct credential_mapping *in_user = mapping_for(judging, user, false, SLOT_BASIC_USER, STR("")),
                                        *in_password =
                                            mapping_for(judging, password, false, SLOT_BASIC_PASSWORD, STR(""));
        if (!in_user && !in_password)
                return INJECT_PASS;

        enum inject_result result = in_user ? INJECT_SWAP : inject_search(judging, user);
        if (result != INJECT_REFUSE && !in_password)
                result = inject_search(judging, password);
        if (result == INJECT_REFUSE)
                return result;
        if (in_user)
                result = add_swap(judging, in_user, SLOT_BASIC_USER, header, 0, user.n);
        if (in_password && result != INJECT_REFUSE)
                result = add_swap(judging, in_password, SLOT_BASIC_PASSWORD, header, (size_t)colon + 1, password.n);

        return in_user && result == INJECT_PASS ? INJECT_SWAP : result;
}

static enum inject_result judge_authorization(struct judging *judging, uint32_t header, struct str value) {
        struct str scheme, rest;

        if (!split_scheme(value, &scheme, &rest))
                return INJECT_PASS;
        if (str_eq_nocase(scheme, STR("basic")))
                return judge_basic(judging, header, rest);
        if (!str_eq_nocase(scheme, STR("bearer")) && !str_eq_nocase(scheme, STR("token")))
                return INJECT_PASS;

        const struct credential_mapping *mapping = mapping_for(judging, rest, false, SLOT_BEARER, STR(""));
        if (mapping)
                return add_swap(judging, mapping, SLOT_BEARER, header, value.n - rest.n, rest.n);

        return INJECT_PASS;
}

/* A header as a slot; INJECT_PASS: it is none, or holds something else. */
static enum inject_result judge_slot(struct judging *judging, uint32_t header) {
        const struct header_view *view = &judging->request->headers[header];
        const struct credential_mapping *mapping = mapping_for(judging, view->value, false, SLOT_HEADER, view->name);
        enum inject_result result = INJECT_PASS;

        if (mapping)
                result = add_swap(judging, mapping, SLOT_HEADER, header, 0, view->value.n);
        else if (str_eq_nocase(view->name, STR("authorization")))
                result = judge_authorization(judging, header, view->value);

        if (result == INJECT_SWAP && request_view_count(judging->request, view->name) > 1)
                return inject_refuse(judging, INJECT_TWICE, judging->plan->swaps[judging->plan->n_swaps - 1].mapping);

        return result;
}

/* Whether Connection (or what the message is framed by) takes the header away here. listed: there is one. */
static bool ends_here(const struct request_view *view, bool listed, struct str name) {
        static const struct str hop[] = { STR("connection"), STR("keep-alive"),        STR("te"),
                                          STR("trailer"),    STR("transfer-encoding"), STR("upgrade") };
        for (size_t i = 0; i < sizeof hop / sizeof *hop; i++)
                if (str_eq_nocase(name, hop[i]))
                        return true;

        if (str_eq_nocase(str_first(name, 6), STR("proxy-")))
                return true;

        for (size_t i = 0; listed && i < view->n_headers; i++) {
                struct str list = view->headers[i].value, option;

                if (!str_eq_nocase(view->headers[i].name, STR("connection")))
                        continue;
                while (str_split(&list, ',', &option))
                        if (str_eq_nocase(str_trim(option), name))
                                return true;
        }

        return false;
}

static enum inject_result judge_headers(struct judging *judging) {
        const struct request_view *view = judging->request;
        bool mapped = view->secure && !credential_set_is_empty(&judging->plan->set), authorized = false;
        bool listed = mapped && request_view_count(view, STR("connection")) > 0;
        enum inject_result result = INJECT_PASS;

        for (size_t i = 0; i < view->n_headers; i++) {
                const struct header_view *header_view = &view->headers[i];
                enum inject_result one = INJECT_PASS;

                if (mapped && str_eq_nocase(header_view->name, STR("authorization"))) {
                        if (authorized)
                                return inject_refuse(judging, INJECT_TWICE, UINT32_MAX);
                        authorized = true;
                }

                if (mapped && !ends_here(view, listed, header_view->name))
                        one = judge_slot(judging, (uint32_t)i);
                if (one == INJECT_PASS)
                        one = inject_search(judging, header_view->value);
                if (one != INJECT_REFUSE && inject_search(judging, header_view->name) == INJECT_REFUSE)
                        one = INJECT_REFUSE;
                if (one == INJECT_REFUSE)
                        return one;
                if (one == INJECT_SWAP)
                        result = one;
        }

        return result;
}

/* One piece of the target that may be a slot. `at` is where it begins. */
static enum inject_result judge_piece(struct judging *judging, struct str piece, size_t at,
                                      enum credential_slot_kind kind, struct str name) {
        const struct credential_mapping *mapping = mapping_for(judging, piece, true, kind, name);
        if (mapping)
                return add_swap(judging, mapping, kind, INJECT_IN_TARGET, at, piece.n);

        return INJECT_PASS;
}

static bool parameter_again(struct str query, struct str name, const char *except) {
        struct str part;

        while (str_split(&query, '&', &part)) {
                ptrdiff_t equals = str_find(part, '=');
                struct str other = equals < 0 ? part : str_first(part, (size_t)equals);
                if (part.p != except && other.n > 0 && same_decoded(other, name))
                        return true;
        }

        return false;
}

static enum inject_result judge_query(struct judging *judging, struct str query, size_t at) {
        struct str rest = query, part;
        enum inject_result result = INJECT_PASS;

        while (str_split(&rest, '&', &part)) {
                ptrdiff_t equals = str_find(part, '=');
                enum inject_result one = INJECT_PASS;

                if (equals > 0) {
                        struct str name = str_first(part, (size_t)equals), value = str_skip(part, (size_t)equals + 1);
                        size_t from = at + (size_t)(value.p - query.p);

                        one = judge_piece(judging, value, from, SLOT_QUERY, name);
                        if (one == INJECT_SWAP && parameter_again(query, name, part.p))
                                return inject_refuse(judging, INJECT_TWICE,
                                                     judging->plan->swaps[judging->plan->n_swaps - 1].mapping);
                }

                if (one == INJECT_REFUSE)
                        return one;
                if (one == INJECT_SWAP)
                        result = one;
        }

        return result;
}

static enum inject_result judge_path(struct judging *judging, struct str path) {
        struct str rest = path, segment;
        enum inject_result result = INJECT_PASS;

        while (str_split(&rest, '/', &segment)) {
                enum inject_result one =
                    judge_piece(judging, segment, (size_t)(segment.p - path.p), SLOT_PATH, STR(""));
                if (one == INJECT_REFUSE)
                        return one;
                if (one == INJECT_SWAP)
                        result = one;
        }

        return result;
}

/* Without the slots that will be replaced nothing may be left, also over the borders of pieces ("F1" of "F1/F2"). */
static enum inject_result search_target(struct judging *judging) {
        struct str target = judging->request->target;
        size_t at = 0;

        for (size_t i = 0; i <= judging->plan->n_swaps; i++) {
                const struct inject_swap *swap = i < judging->plan->n_swaps ? &judging->plan->swaps[i] : NULL;
                if (swap && swap->header != INJECT_IN_TARGET)
                        continue;

                size_t end = swap ? swap->at : target.n;
                if (inject_search(judging, str_first(str_skip(target, at), end - at)) == INJECT_REFUSE)
                        return INJECT_REFUSE;

                at = swap ? swap->at + swap->n : end;
        }

        return INJECT_PASS;
}

static enum inject_result judge_target(struct judging *judging) {
        struct str target = judging->request->target;
        bool mapped = judging->request->secure && !credential_set_is_empty(&judging->plan->set);
        ptrdiff_t question = str_find(target, '?');
        struct str path = question < 0 ? target : str_first(target, (size_t)question);
        enum inject_result result = INJECT_PASS, query = INJECT_PASS;

        if (mapped)
                result = judge_path(judging, path);
        if (mapped && question >= 0 && result != INJECT_REFUSE)
                query = judge_query(judging, str_skip(target, (size_t)question + 1), (size_t)question + 1);
        if (result == INJECT_REFUSE || query == INJECT_REFUSE || search_target(judging) == INJECT_REFUSE)
                return INJECT_REFUSE;

        if (query == INJECT_SWAP)
                return query;

        return result;
}

/* An AWS signature made with a stand-in: the whole request is signed anew, nothing else is swapped. */
static enum inject_result judge_signature(struct judging *judging) {
        const struct request_view *view = judging->request;
        struct sigv4 *sigv4 = &judging->plan->sigv4;
        const struct credential_mapping *mapping = NULL;
        bool read = false, is_signed = false;

        for (uint32_t i = 0; view->secure && !mapping && i < credentials_count(judging->table); i++) {
                const struct credential_mapping *one = credentials_get(judging->table, i);
                if (one->kind != MAPPING_SIGV4 || !credential_set_has(&judging->plan->set, i))
                        continue;

                if (!read)
                        is_signed = sigv4_find(view, sigv4);
                read = true;
                if (is_signed && str_eq(one->stand_in[PART_KEY_ID], sigv4->key_id))
                        mapping = one;
        }

        if (!mapping)
                return INJECT_PASS; /* none, somebody else's key, or a stand-in that is searched for as any other */
        if (!sigv4_check(view, sigv4))
                return inject_refuse(judging, INJECT_SIGNATURE, mapping->index);

        for (size_t i = 0; i < view->n_headers; i++)
                if (inject_search(judging, view->headers[i].name) == INJECT_REFUSE ||
                    (!sigv4_owns_header(sigv4, view->headers[i].name) &&
                     inject_search(judging, view->headers[i].value) == INJECT_REFUSE))
                        return INJECT_REFUSE;

        ptrdiff_t question = str_find(view->target, '?');
        struct str query = str_skip(view->target, question < 0 ? view->target.n : (size_t)question + 1), part;
        if (inject_search(judging, str_first(view->target, view->target.n - query.n)) == INJECT_REFUSE)
                return INJECT_REFUSE;

        while (str_split(&query, '&', &part))
                if (!sigv4_owns_parameter(sigv4, part) && inject_search(judging, part) == INJECT_REFUSE)
                        return INJECT_REFUSE;

        return add_swap(judging, mapping, SLOT_SIGV4, INJECT_IN_TARGET, 0, 0);
}

enum inject_result inject_judge(const struct credentials *credentials, const struct authority *to,
                                const struct request_view *view, struct inject_plan *ret) {
        struct judging judging = { .table = credentials, .request = view, .plan = ret };

        memset(ret, 0, offsetof(struct inject_plan, sigv4));
        sigv4_clear(&ret->sigv4);
        ret->culprit = UINT32_MAX;

        if (!credentials || credentials_count(credentials) == 0)
                return INJECT_PASS;

        ret->set = credentials_at(credentials, &to->host, to->port);
        enum inject_result result = judge_signature(&judging);
        if (result != INJECT_PASS)
                return result;

        enum inject_result target = judge_target(&judging);
        if (target == INJECT_REFUSE || inject_search(&judging, view->method) == INJECT_REFUSE)
                return INJECT_REFUSE;

        result = judge_headers(&judging);
        return result == INJECT_PASS ? target : result;
}

/* --- replacing --- */

static bool can_stand_in_header(struct str value) {
        for (size_t i = 0; i < value.n; i++)
                if ((unsigned char)value.p[i] < ' ' || value.p[i] == 0x7f)
                        return false;
        return value.n > 0 && value.p[0] != ' ' && value.p[value.n - 1] != ' ';
}

static int replace_basic(const struct inject_plan *plan, size_t header, struct str value, const struct str *values,
                         struct buf *out) {
        struct str scheme, encoded;
        size_t n = 0, at = 0;
        cleanup(free_ptr) char *plain = NULL;
        cleanup(buf_done) struct buf made = BUF(BASIC_MAX);

        if (!split_scheme(value, &scheme, &encoded) || !(plain = malloc(encoded.n + 1)))
                return -ENOMEM;

        int r = -EILSEQ;

        if (base64_decode(encoded, plain, &n))
                r = buf_reserve(&made, BASIC_MAX);

        for (size_t i = 0; r == 0 && i < plan->n_swaps; i++) {
                const struct inject_swap *swap = &plan->swaps[i];
                if (swap->header != header)
                        continue;
                if (swap->slot == SLOT_BASIC_USER && str_find(values[i], ':') >= 0)
                        r = -EILSEQ; /* the server would take its rest for the password */

                if (r >= 0)
                        r = buf_append(&made, str_n(plain + at, swap->at - at));
                if (r >= 0)
                        r = buf_append(&made, values[i]);
                at = swap->at + swap->n;
        }

        if (r >= 0)
                r = buf_append(&made, str_n(plain + at, n - at));
        if (r >= 0)
                r = buf_add(out, "Basic ");
        if (r >= 0)
                r = buf_reserve(out, base64_length(made.n));
        if (r == 0) {
                base64_encode(buf_str(&made), BASE64_STANDARD, out->p + out->n);
                out->n += base64_length(made.n);
        }

        if (made.p)
                secret_wipe(made.p, made.cap);
        if (r < 0)
                return r;

        return 1;
}

int inject_header(const struct inject_plan *plan, const struct request_view *view, size_t header,
                  const struct str *values, struct buf *out) {
        struct str value = view->headers[header].value;

        for (size_t i = 0; i < plan->n_swaps; i++) {
                const struct inject_swap *swap = &plan->swaps[i];
                if (swap->header != header)
                        continue;
                if (swap->slot == SLOT_BASIC_USER || swap->slot == SLOT_BASIC_PASSWORD)
                        return replace_basic(plan, header, value, values, out);
                if (!can_stand_in_header(values[i]))
                        return -EILSEQ;

                int e = buf_append(out, str_first(value, swap->at));
                if (e >= 0)
                        e = buf_append(out, values[i]);
                if (e >= 0)
                        e = buf_append(out, str_skip(value, swap->at + swap->n));
                if (e < 0)
                        return e;

                return 1;
        }

        return 0;
}

int inject_target(const struct inject_plan *plan, const struct request_view *view, const struct str *values,
                  struct buf *out) {
        size_t at = 0;
        int e = 0;
        bool any = false;

        for (size_t i = 0; e == 0 && i < plan->n_swaps; i++) {
                const struct inject_swap *swap = &plan->swaps[i];
                if (swap->header != INJECT_IN_TARGET || swap->slot == SLOT_SIGV4)
                        continue;

                any = true;
                e = buf_append(out, str_first(str_skip(view->target, at), swap->at - at));

                /* A client that escapes what it need not gets the same for the secret. */
                struct str written = str_first(str_skip(view->target, swap->at), swap->n);
                bool as_it_is = swap->slot == SLOT_PATH && str_find(written, '%') < 0;
                if (e >= 0)
                        e = put_encoded(out, values[i], as_it_is);
                at = swap->at + swap->n;
        }

        if (!any)
                return 0;

        if (e >= 0)
                e = buf_append(out, str_skip(view->target, at));
        if (e < 0)
                return e;

        return 1;
}

int inject_names(const struct inject_plan *plan, const struct credentials *credentials, struct buf *out) {
        int e = 0;
        for (size_t i = 0; e == 0 && i < plan->n_swaps; i++) {
                bool before = false;

                for (size_t k = 0; k < i; k++)
                        before |= plan->swaps[k].mapping == plan->swaps[i].mapping;

                const struct credential_mapping *mapping = credentials_get(credentials, plan->swaps[i].mapping);
                if (before || !mapping)
                        continue;

                if (out->n > 0)
                        e = buf_add_char(out, ',');
                else
                        e = 0;
                if (e >= 0)
                        e = buf_append(out, mapping->name);
        }

        return e;
}
