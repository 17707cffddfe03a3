/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program inside signs with the stand-ins that it has. AWS would reject its signature, but it says what the program
 * wanted signed: the scope (day, region, service), the headers, and how the body is hashed. The final request is
 * brought into canonical form and signed with a key that the vault derived for exactly that scope; the secret itself
 * never comes here. A key for a scope signs anything of that service for one day, which is why the time of the request
 * must be now, and why the vault looks at the host before it derives one.
 *
 * The client's own signature is not verified: anyone who can reach this gateway may use a stand-in.
 */
#include "gateway/creds/sigv4.h"

#include "base/bounds.h"
#include "base/cleanup.h"
#include "base/secrets/secret.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#define ALGORITHM "AWS4-HMAC-SHA256"
#define REQUEST_TYPE "aws4_request"
#define EMPTY_HASH "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
enum { CANONICAL_MAX = 1 << 18, SCOPE_PART_MAX = 63 };

static const char *const problem_texts[] = {
        [SIGV4_OK] = "",
        [SIGV4_MALFORMED] = "the AWS signature is not written as the specification says",
        [SIGV4_ALGORITHM] = "the request is signed in another way than AWS4-HMAC-SHA256, which cannot be made anew",
        [SIGV4_DATE] = "a request with an AWS signature needs one X-Amz-Date, of the day that the signature is for",
        [SIGV4_SKEW] = "the AWS signature is not for now: it has expired, or the clock inside is wrong",
        [SIGV4_PAYLOAD] = "the body is signed in a way that cannot be made anew",
        [SIGV4_HEADERS] = "the AWS signature does not cover what it must",
        [SIGV4_TOO_LARGE] = "the body is too large to be signed: send X-Amz-Content-Sha256, or a smaller one",
};
static_assert(sizeof problem_texts / sizeof *problem_texts == SIGV4_PROBLEMS, "a text for each problem");

const char *sigv4_problem_text(uint8_t problem) {
        return problem < SIGV4_PROBLEMS ? problem_texts[problem] : "";
}

/* --- finding --- */

static bool take_scope(struct str credential, struct sigv4 *sigv4) {
        struct str last;

        if (!str_split(&credential, '/', &sigv4->key_id) || sigv4->key_id.n == 0)
                return false;

        bool whole = str_split(&credential, '/', &sigv4->date) && str_split(&credential, '/', &sigv4->region) &&
                     str_split(&credential, '/', &sigv4->service) && str_split(&credential, '/', &last) &&
                     credential.n == 0 && str_eq(last, STR(REQUEST_TYPE));
        if (!whole && sigv4->problem == SIGV4_OK)
                sigv4->problem = SIGV4_MALFORMED;

        return true;
}

static bool find_in_header(const struct request_view *view, struct sigv4 *sigv4) {
        sigv4->authorization = request_view_only(view, "authorization");
        if (sigv4->authorization == VIEW_NONE)
                return false;

        struct str rest = view->headers[sigv4->authorization].value, part, credential = { 0 }, signature = { 0 };
        ptrdiff_t space = str_find(rest, ' ');
        if (space < 0 || !str_starts(rest, STR("AWS4-")))
                return false;
        if (!str_eq(str_first(rest, (size_t)space), STR(ALGORITHM)))
                sigv4->problem = SIGV4_ALGORITHM;

        rest = str_skip(rest, (size_t)space);
        while (str_split(&rest, ',', &part)) {
                part = str_trim(part);
                ptrdiff_t equals = str_find(part, '=');
                struct str name = { 0 }, value = { 0 }, *to;
                if (equals >= 0) {
                        name = str_first(part, (size_t)equals);
                        value = str_skip(part, (size_t)equals + 1);
                }

                if (str_eq(name, STR("Credential")))
                        to = &credential;
                else if (str_eq(name, STR("SignedHeaders")))
                        to = &sigv4->signed_headers;
                else if (str_eq(name, STR("Signature")))
                        to = &signature;
                else
                        to = NULL;

                if (!to || to->p)
                        sigv4->problem = SIGV4_MALFORMED;
                else
                        *to = value;
        }

        if (sigv4->problem == SIGV4_OK && signature.n != SIGV4_SIGNATURE_HEX)
                sigv4->problem = SIGV4_MALFORMED;

        return credential.p && take_scope(credential, sigv4);
}

static struct str query_of(struct str target) {
        ptrdiff_t question = str_find(target, '?');
        return question < 0 ? str_n(NULL, 0) : str_skip(target, (size_t)question + 1);
}

/* The only parameter of that name; p is NULL when there is none, or two. */
static struct str sigv4_parameter(const struct request_view *view, const char *name) {
        struct str query = query_of(view->target), part, found = { 0 };
        while (str_split(&query, '&', &part)) {
                ptrdiff_t equals = str_find(part, '=');
                if (equals < 0 || !str_is(str_first(part, (size_t)equals), name))
                        continue;
                if (found.p)
                        return (struct str){ 0 };

                found = str_skip(part, (size_t)equals + 1);
        }

        return found;
}

static bool sigv4_decode(struct str text, char *to, size_t max, struct str *ret) {
        size_t n = 0;
        while (text.n > 0) {
                bool escape = text.p[0] == '%' && text.n >= 3 && ascii_hex(text.p[1]) >= 0 && ascii_hex(text.p[2]) >= 0;
                if (n == max || (text.p[0] == '%' && !escape))
                        return false;

                to[n++] = (char)(escape ? ascii_hex(text.p[1]) << 4 | ascii_hex(text.p[2]) : text.p[0]);
                text = str_skip(text, escape ? 3 : 1);
        }

        *ret = str_n(to, n);
        return true;
}

static bool find_in_query(const struct request_view *view, struct sigv4 *sigv4) {
        struct str algorithm = sigv4_parameter(view, "X-Amz-Algorithm"), credential;
        if (!algorithm.p ||
            !sigv4_decode(sigv4_parameter(view, "X-Amz-Credential"), sigv4->scope, sizeof sigv4->scope, &credential))
                return false;

        sigv4->presigned = true;
        sigv4->authorization = VIEW_NONE;

        if (!str_eq(algorithm, STR(ALGORITHM)))
                sigv4->problem = SIGV4_ALGORITHM;
        else if (!sigv4_decode(sigv4_parameter(view, "X-Amz-SignedHeaders"), sigv4->names, sizeof sigv4->names,
                               &sigv4->signed_headers) ||
                 sigv4_parameter(view, "X-Amz-Signature").n != SIGV4_SIGNATURE_HEX)
                sigv4->problem = SIGV4_MALFORMED;

        return take_scope(credential, sigv4);
}

bool sigv4_find(const struct request_view *view, struct sigv4 *sigv4) {
        sigv4_clear(sigv4);
        bool in_header = find_in_header(view, sigv4), in_query = sigv4_parameter(view, "X-Amz-Algorithm").p != NULL;
        if (in_header || !in_query)
                return in_header && !in_query;
        sigv4_clear(sigv4);
        return request_view_count(view, STR("authorization")) == 0 && find_in_query(view, sigv4);
}

/* --- checking --- */

static bool is_scope_part(struct str s) {
        for (size_t i = 0; i < s.n; i++)
                if (!ascii_is_alnum(s.p[i]) && s.p[i] != '-' && s.p[i] != '_' && s.p[i] != '.')
                        return false;
        return s.n > 0 && s.n <= SCOPE_PART_MAX;
}

static unsigned digits_at(struct str s, size_t at, size_t n) {
        unsigned value = 0;
        for (size_t i = at; i < at + n; i++)
                value = value * 10 + (unsigned)(s.p[i] - '0');
        return value;
}

/* "20130524T000000Z" in seconds since 1970. */
static bool parse_timestamp(struct str s, int64_t *ret) {
        static const char form[] = "dddddddd"
                                   "T"
                                   "dddddd"
                                   "Z";
        if (s.n != sizeof form - 1)
                return false;

        for (size_t i = 0; i < s.n; i++)
                if (form[i] == 'd' ? !ascii_is_digit(s.p[i]) : s.p[i] != form[i])
                        return false;

        int64_t year = digits_at(s, 0, 4), month = digits_at(s, 4, 2), day = digits_at(s, 6, 2);
        int64_t hour = digits_at(s, 9, 2), minute = digits_at(s, 11, 2), second = digits_at(s, 13, 2);
        if (year < 1970 || month < 1 || month > 12 || day < 1 || day > 31 || hour > 23 || minute > 59 || second > 60)
                return false;

        /* Days since 1970: years begin in March, so that the leap day is the last. */
        int64_t y = month > 2 ? year : year - 1, from_march = (month + 9) % 12;
        int64_t days = 365 * y + y / 4 - y / 100 + y / 400 + (153 * from_march + 2) / 5 + day - 1 - 719468;
        *ret = ((days * 24 + hour) * 60 + minute) * 60 + second;

        return true;
}

static enum sigv4_problem check_time(const struct request_view *view, struct sigv4 *sigv4) {
        uint32_t header = request_view_only(view, "x-amz-date");

        if (sigv4->presigned)
                sigv4->timestamp = sigv4_parameter(view, "X-Amz-Date");
        else if (header != VIEW_NONE)
                sigv4->timestamp = view->headers[header].value;
        else
                sigv4->timestamp = (struct str){ 0 };
        int64_t at, now = (int64_t)view->now_s;
        if (sigv4->date.n != 8 || !parse_timestamp(sigv4->timestamp, &at) ||
            !str_eq(str_first(sigv4->timestamp, 8), sigv4->date))
                return SIGV4_DATE;

        uint64_t lasts = 0;
        if (sigv4->presigned &&
            (!str_to_u64(sigv4_parameter(view, "X-Amz-Expires"), SIGV4_EXPIRES_MAX_S, &lasts) || lasts == 0))
                return SIGV4_MALFORMED;

        bool early = at > now + SIGV4_SKEW_S, late = now > at + (int64_t)lasts + SIGV4_SKEW_S;
        return early || late ? SIGV4_SKEW : SIGV4_OK;
}

static bool is_signed(const struct sigv4 *sigv4, struct str wanted) {
        struct str list = sigv4->signed_headers, name;
        while (str_split(&list, ';', &name))
                if (str_eq(name, wanted))
                        return true;
        return false;
}

static enum sigv4_problem check_signed(const struct sigv4 *sigv4) {
        struct str list = sigv4->signed_headers, name;
        size_t n = 0;

        while (str_split(&list, ';', &name)) {
                if (name.n == 0 || ++n > SIGV4_SIGNED_MAX)
                        return SIGV4_MALFORMED;
                for (size_t i = 0; i < name.n; i++)
                        if (name.p[i] <= ' ' || name.p[i] >= 0x7f || ascii_lower(name.p[i]) != name.p[i] ||
                            name.p[i] == ':')
                                return SIGV4_MALFORMED;
        }

        return is_signed(sigv4, STR("host")) ? SIGV4_OK : SIGV4_HEADERS;
}

static bool is_s3(struct str service) {
        static const char *const names[] = { "s3", "s3express", "s3-outposts", "s3-object-lambda" };
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
                if (str_is(service, names[i]))
                        return true;
        return false;
}

static enum sigv4_problem check_payload(const struct request_view *view, struct sigv4 *sigv4) {
        struct str name = STR("x-amz-content-sha256");
        size_t n = request_view_count(view, name);
        if (n == 0 || (sigv4->presigned && !is_signed(sigv4, name))) {
                sigv4->payload = sigv4->presigned && is_s3(sigv4->service) ? PAYLOAD_UNSIGNED : PAYLOAD_BODY;
                return SIGV4_OK;
        }

        if (n > 1)
                return SIGV4_MALFORMED;

        sigv4->hash = view->headers[request_view_only(view, "x-amz-content-sha256")].value;
        bool hex = sigv4->hash.n == SIGV4_SIGNATURE_HEX;
        for (size_t i = 0; hex && i < sigv4->hash.n; i++)
                hex = ascii_hex(sigv4->hash.p[i]) >= 0;

        if (hex || str_eq(sigv4->hash, STR("UNSIGNED-PAYLOAD")) ||
            str_eq(sigv4->hash, STR("STREAMING-UNSIGNED-PAYLOAD-TRAILER")))
                sigv4->payload = PAYLOAD_GIVEN;
        else if (str_eq(sigv4->hash, STR("STREAMING-AWS4-HMAC-SHA256-PAYLOAD")))
                sigv4->payload = PAYLOAD_CHUNKS;
        else if (str_eq(sigv4->hash, STR("STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER")))
                sigv4->payload = PAYLOAD_CHUNKS_TRAILER;
        else
                return SIGV4_PAYLOAD;

        return SIGV4_OK;
}

bool sigv4_check(const struct request_view *view, struct sigv4 *sigv4) {
        enum sigv4_problem p = sigv4->problem;
        if (p == SIGV4_OK && (!is_scope_part(sigv4->region) || !is_scope_part(sigv4->service)))
                p = SIGV4_MALFORMED;
        if (p == SIGV4_OK)
                p = check_time(view, sigv4);
        if (p == SIGV4_OK)
                p = check_signed(sigv4);
        if (p == SIGV4_OK)
                p = check_payload(view, sigv4);

        sigv4->problem = (uint8_t)p;
        return p == SIGV4_OK;
}

bool sigv4_owns_header(const struct sigv4 *sigv4, struct str name) {
        return (!sigv4->presigned && str_eq_nocase(name, STR("authorization"))) ||
               str_eq_nocase(name, STR("x-amz-security-token"));
}

bool sigv4_owns_parameter(const struct sigv4 *sigv4, struct str p) {
        static const char *const names[] = { "X-Amz-Credential", "X-Amz-Security-Token", "X-Amz-Signature",
                                             "X-Amz-SignedHeaders" };
        ptrdiff_t equals = str_find(p, '=');
        struct str name = equals < 0 ? p : str_first(p, (size_t)equals);

        for (size_t i = 0; sigv4->presigned && i < sizeof names / sizeof *names; i++)
                if (str_is(name, names[i]))
                        return true;

        return false;
}

/* --- signing --- */

struct name_list {
        size_t n;
        struct str names[SIGV4_SIGNED_MAX + 1];
};

static int compare_names(const void *left, const void *right) {
        const struct str *a = left, *b = right;
        int order = memcmp(a->p, b->p, min_of(a->n, b->n));
        if (order)
                return order;

        if (a->n == b->n)
                return 0;

        if (a->n < b->n)
                return -1;

        return 1;
}

/* Those of the client that are still there, and the token, where it travels as a header. */
static void list_names(const struct sigv4 *sigv4, const struct request_view *view, bool with_token,
                       struct name_list *ret) {
        struct str list = sigv4->signed_headers, name;

        ret->n = 0;
        while (str_split(&list, ';', &name) && ret->n < SIGV4_SIGNED_MAX)
                if (str_eq(name, STR("host")) ||
                    (!sigv4_owns_header(sigv4, name) && request_view_count(view, name) > 0))
                        ret->names[ret->n++] = name;

        if (with_token)
                ret->names[ret->n++] = STR("x-amz-security-token");

        qsort(ret->names, ret->n, sizeof ret->names[0], compare_names);
        size_t n = 0;
        for (size_t i = 0; i < ret->n; i++)
                if (n == 0 || !str_eq(ret->names[n - 1], ret->names[i]))
                        ret->names[n++] = ret->names[i];

        ret->n = n;
}

static int put_names(const struct name_list *name_list, const char *separator, struct buf *out) {
        int r = 0;
        for (size_t i = 0; r == 0 && i < name_list->n; i++) {
                if (i > 0)
                        r = buf_add(out, separator);
                else
                        r = 0;
                if (r >= 0)
                        r = buf_append(out, name_list->names[i]);
        }
        return r;
}

static int put_scope(const struct sigv4 *sigv4, struct buf *out) {
        return buf_printf(out, "%.*s/%.*s/%.*s/" REQUEST_TYPE, STR_FMT(sigv4->date), STR_FMT(sigv4->region),
                          STR_FMT(sigv4->service));
}

/* The target of a presigned URL, without its signature. */
static int put_target(const struct sigv4 *sigv4, const struct request_view *view, const struct sigv4_key *key,
                      const struct name_list *names, struct buf *out) {
        struct str query = query_of(view->target), part;
        int e = buf_append(out, str_first(view->target, view->target.n - query.n));
        while (e == 0 && str_split(&query, '&', &part)) {
                if (part.n == 0 || sigv4_owns_parameter(sigv4, part))
                        continue;
                e = buf_append(out, part);
                if (e >= 0)
                        e = buf_add_char(out, '&');
        }

        if (e >= 0)
                e = buf_add(out, "X-Amz-Credential=");
        if (e >= 0)
                e = sigv4_encode(key->key_id, false, out);
        if (e >= 0)
                e = buf_printf(out, "%%2F%.*s%%2F%.*s%%2F%.*s%%2F" REQUEST_TYPE, STR_FMT(sigv4->date),
                               STR_FMT(sigv4->region), STR_FMT(sigv4->service));
        if (e == 0 && key->token.n > 0) {
                e = buf_add(out, "&X-Amz-Security-Token=");
                if (e >= 0)
                        e = sigv4_encode(key->token, false, out);
        }

        if (e >= 0)
                e = buf_add(out, "&X-Amz-SignedHeaders=");
        if (e < 0)
                return e;

        return put_names(names, "%3B", out);
}

static int put_canonical(const struct sigv4 *sigv4, const struct request_view *view, const struct sigv4_key *key,
                         const struct name_list *names, struct str target, struct str body_hash, struct buf *out) {
        struct str query = query_of(target);
        struct str path = query.p ? str_first(target, target.n - query.n - 1) : target;
        int e = buf_append(out, view->method);

        if (e >= 0)
                e = buf_add_char(out, '\n');
        if (e >= 0)
                e = sigv4_canonical_path(path, is_s3(sigv4->service), out);
        if (e >= 0)
                e = buf_add_char(out, '\n');
        if (e >= 0)
                e = sigv4_canonical_query(query, out);
        if (e >= 0)
                e = buf_add_char(out, '\n');
        for (size_t i = 0; e == 0 && i < names->n; i++) {
                struct header_view token = { STR("x-amz-security-token"), key->token };
                struct request_view alone = { .n_headers = 1, .headers = &token };
                bool is_token = str_eq(names->names[i], token.name);

                e = sigv4_canonical_header(is_token ? &alone : view, names->names[i], out);
        }

        if (e >= 0)
                e = buf_add_char(out, '\n');
        if (e >= 0)
                e = put_names(names, ";", out);
        if (e >= 0)
                e = buf_add_char(out, '\n');

        struct str hash;
        if (sigv4->payload == PAYLOAD_UNSIGNED)
                hash = STR("UNSIGNED-PAYLOAD");
        else if (sigv4->payload != PAYLOAD_BODY)
                hash = sigv4->hash;
        else if (body_hash.n > 0)
                hash = body_hash;
        else
                hash = STR(EMPTY_HASH);

        if (e < 0)
                return e;

        return buf_append(out, hash);
}

static int sign_canonical(const struct sigv4 *sigv4, const struct sigv4_key *key, struct str canonical,
                          char ret[static SIGV4_SIGNATURE_HEX]) {
        unsigned char digest[DIGEST_BYTES];
        char hex[DIGEST_HEX_MAX];
        cleanup(buf_done) struct buf text = BUF(1024);

        digest_sha256(canonical, digest);
        digest_hex(digest, hex);
        int e = buf_printf(&text, ALGORITHM "\n%.*s\n", STR_FMT(sigv4->timestamp));
        if (e < 0)
                return e;

        e = put_scope(sigv4, &text);
        if (e < 0)
                return e;

        e = buf_printf(&text, "\n%s", hex);
        if (e < 0)
                return e;

        digest_hmac(str_n(key->key, sizeof key->key), buf_str(&text), digest);
        digest_hex(digest, hex);
        memcpy(ret, hex, SIGV4_SIGNATURE_HEX);

        return 0;
}

int sigv4_sign(const struct sigv4 *sigv4, const struct request_view *view, const struct sigv4_key *key,
               struct str body_hash, struct buf *out, char ret_signature[static SIGV4_SIGNATURE_HEX]) {
        cleanup(buf_done) struct buf canonical = BUF(CANONICAL_MAX);
        struct name_list names;
        size_t start = out->n;

        list_names(sigv4, view, !sigv4->presigned && key->token.n > 0, &names);
        int e = sigv4->presigned ? put_target(sigv4, view, key, &names, out) : 0;
        struct str target = sigv4->presigned ? str_skip(buf_str(out), start) : view->target;
        if (e >= 0)
                e = put_canonical(sigv4, view, key, &names, target, body_hash, &canonical);
        if (e >= 0)
                e = sign_canonical(sigv4, key, buf_str(&canonical), ret_signature);

        if (canonical.p)
                secret_wipe(canonical.p, canonical.cap); /* it has the session token */

        struct str signature = str_n(ret_signature, SIGV4_SIGNATURE_HEX);

        if (e == 0 && sigv4->presigned) {
                e = buf_add(out, "&X-Amz-Signature=");
        } else if (e == 0) {
                e = buf_printf(out, ALGORITHM " Credential=%.*s/", STR_FMT(key->key_id));
                if (e >= 0)
                        e = put_scope(sigv4, out);
                if (e >= 0)
                        e = buf_add(out, ", SignedHeaders=");
                if (e >= 0)
                        e = put_names(&names, ";", out);
                if (e >= 0)
                        e = buf_add(out, ", Signature=");
        }

        if (e < 0)
                return e;

        return buf_append(out, signature);
}
