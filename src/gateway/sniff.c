/* SPDX-License-Identifier: Apache-2.0 */
/*
 * First bytes: TLS, HTTP or neither. A server is lenient where this parser is strict, so whatever begins like HTTP and
 * does not parse is refused rather than passed as an unknown protocol: otherwise a bare line feed would hide a Host
 * header.
 */
#include "gateway/http1.h"
#include "gateway/sni.h"

static enum sniff_kind sniff_tls(enum sni_result r, const struct sni *sni, struct sniff *ret) {
        ret->ech = sni->ech;
        ret->protocols_n = sni->protocols_n;
        memcpy(ret->protocols, sni->protocols, sni->protocols_n);
        ret->records = (struct tls_records){ .early = sni->early, .pass = sni->bytes };
        switch (r) {
        case SNI_MORE:
                return SNIFF_MORE;
        case SNI_NAME:
                if (host_parse(str_n(sni->name, sni->n), &ret->host, NULL) < 0)
                        return SNIFF_BAD;
                ret->has_host = true;
                return SNIFF_TLS;
        case SNI_NONE:
                return SNIFF_TLS;
        default:
                return SNIFF_BAD;
        }
}

static bool is_blank(char c) {
        return c == ' ' || (c >= '\t' && c <= '\r');
}

static struct str skip_blanks(struct str s) {
        while (s.n > 0 && is_blank(s.p[0]))
                s = str_skip(s, 1);
        return s;
}

/* A method that every server knows, with something blank behind it; *ret_part: so far only the beginning of one. */
static bool begins_with_method(struct str bytes, bool *ret_part) {
        static const struct str methods[] = { STR("GET"),     STR("HEAD"),  STR("POST"),    STR("PUT"),  STR("DELETE"),
                                              STR("OPTIONS"), STR("PATCH"), STR("CONNECT"), STR("TRACE") };
        for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
                if (bytes.n <= methods[i].n) {
                        if (str_eq_nocase(bytes, str_first(methods[i], bytes.n)))
                                *ret_part = true;
                } else if (str_eq_nocase(str_first(bytes, methods[i].n), methods[i]) && is_blank(bytes.p[methods[i].n]))
                        return true;
        }
        return false;
}

static bool is_text(struct str s) {
        for (size_t i = 0; i < s.n; i++)
                if ((uint8_t)s.p[i] >= 0x7f || ((uint8_t)s.p[i] < ' ' && !is_blank(s.p[i])))
                        return false;
        return true;
}

/* What nginx takes for a method, with something blank behind it: its targets may hold any byte. */
static bool begins_with_word(struct str s) {
        size_t n = 0;
        while (n < s.n && (ascii_is_alnum(s.p[n]) || s.p[n] == '_' || s.p[n] == '-'))
                n++;
        return n > 0 && (n == s.n || is_blank(s.p[n]));
}

/* Bytes that do not parse as HTTP: would a lenient server take them for it? Such a server skips blanks, and takes tabs
 * and the like for spaces. While that cannot be told, more bytes are needed: who sends the first one alone must not be
 * let through on account of it. */
static enum sniff_kind sniff_lenient(struct str bytes, size_t max) {
        struct str text = skip_blanks(bytes);
        bool part = text.n == 0;
        if (begins_with_method(text, &part))
                return SNIFF_BAD;
        ptrdiff_t lf = str_find(text, '\n');
        struct str line = lf < 0 ? text : str_first(text, (size_t)lf);
        for (struct str rest = line; rest.n > 5; rest = str_skip(rest, 1))
                if (is_blank(rest.p[0]) && str_eq_nocase(str_first(str_skip(rest, 1), 5), STR("HTTP/")))
                        return SNIFF_BAD;
        bool unfinished = part || (lf < 0 && (begins_with_word(text) || (ascii_is_alnum(text.p[0]) && is_text(text))));
        return unfinished && bytes.n < max ? SNIFF_MORE : SNIFF_OTHER;
}

static enum sniff_kind sniff_http(struct str bytes, size_t max, struct sniff *ret) {
        static const struct str preface = STR("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        if (str_eq(str_first(bytes, preface.n), str_first(preface, bytes.n)))
                return bytes.n < preface.n ? SNIFF_MORE : SNIFF_HTTP2;
        struct http1_progress at = { 0 };
        struct http1_request request;
        enum http1_result r = http1_request_parse(&at, bytes, max, &request);
        if (r == HTTP1_MORE)
                return SNIFF_MORE;
        if (r != HTTP1_OK)
                return sniff_lenient(bytes, max);
        if (!request.host.p)
                return SNIFF_HTTP;
        struct authority authority;
        if (authority_parse(request.host, 80, &authority, NULL) < 0)
                return SNIFF_BAD;
        ret->host = authority.host;
        ret->has_host = true;
        return SNIFF_HTTP;
}

enum sniff_kind sniff(struct str bytes, size_t max, struct sniff *ret) {
        struct sni sni;
        *ret = (struct sniff){ 0 };
        if (bytes.n == 0)
                return SNIFF_MORE;
        enum sni_result r = sni_parse(bytes, &sni);
        return r == SNI_NOT_TLS ? sniff_http(bytes, max, ret) : sniff_tls(r, &sni, ret);
}

bool sniff_is_other_at_end(struct str bytes) {
        return bytes.n > 0 && bytes.p[0] != 0x16 /* a TLS handshake record */ && sniff_lenient(bytes, 0) != SNIFF_BAD;
}
