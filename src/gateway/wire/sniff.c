/* SPDX-License-Identifier: Apache-2.0 */
/*
 * First bytes: TLS, HTTP or neither. A server is lenient where this parser is strict, so a line that some server would
 * read as HTTP and that does not parse is refused rather than passed as an unknown protocol: otherwise a bare line feed
 * would hide a Host header. A line is HTTP if it has a version; only HTTP/0.9, which is GET and a path, has none.
 */
#include "gateway/wire/http1_internal.h"
#include "gateway/wire/sni.h"

static enum sniff_kind sniff_tls(enum sni_result result, const struct sni *sni, struct sniff *ret) {
        ret->ech = sni->ech;
        ret->protocols_n = sni->protocols_n;
        memcpy(ret->protocols, sni->protocols, sni->protocols_n);
        ret->records = (struct tls_records){ .early = sni->early, .pass = sni->bytes };

        switch (result) {
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

/* The first line, without its end; *ret_whole: the end is there. */
static struct str first_line(struct str text, bool *ret_whole) {
        ptrdiff_t lf = str_find(text, '\n');

        *ret_whole = lf >= 0;
        return lf < 0 ? text : str_first(text, (size_t)lf);
}

/* Every version of HTTP that carries a Host is named in the request line, behind something blank. */
static bool names_http(struct str line) {
        for (; line.n > 5; line = str_skip(line, 1))
                if (is_blank(line.p[0]) && str_eq_nocase(str_first(str_skip(line, 1), 5), STR("HTTP/")))
                        return true;
        return false;
}

/* A method that every server knows, with something blank behind it; *ret_part: so far only the beginning of one.
 * Servers take capitals only: memcached's "get a" is none. */
static struct str known_method(struct str text, bool *ret_part) {
        static const struct str methods[] = { STR("GET"),     STR("HEAD"),  STR("POST"),    STR("PUT"),  STR("DELETE"),
                                              STR("OPTIONS"), STR("PATCH"), STR("CONNECT"), STR("TRACE") };
        for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
                struct str method = methods[i];

                if (text.n <= method.n)
                        *ret_part |= str_eq(text, str_first(method, text.n));
                else if (str_eq(str_first(text, method.n), method) && is_blank(text.p[method.n]))
                        return method;
        }

        return str_n(NULL, 0);
}

/* A line that begins with a known method and is not HTTP as it must be. "GET /" without a version is HTTP/0.9, and a
 * lenient server takes other blanks for a space; NATS, STOMP, RTSP and SIP share the words and nothing else. */
static enum sniff_kind sniff_method_line(struct str method, struct str line, bool whole) {
        struct str rest = str_skip(line, method.n);

        if (rest.n > 0 && rest.p[0] != ' ' && rest.p[0] != '\r')
                return SNIFF_BAD;

        struct str target = skip_blanks(rest);
        if (target.n == 0 && !whole)
                return SNIFF_MORE;
        if (target.n == 0) /* alone on its line: STOMP's, or what reads over line ends would find a target below */
                return str_eq(method, STR("CONNECT")) ? SNIFF_OTHER : SNIFF_BAD;
        if (target.p[0] == '/' || str_eq_nocase(str_first(target, 4), STR("http")))
                return SNIFF_BAD;

        if (whole)
                return SNIFF_OTHER;

        return SNIFF_MORE;
}

/* What nginx takes for a method: a request with such a word may still follow, as WebDAV's do. */
static bool is_capital_word(struct str line) {
        size_t n = 0;

        while (n < line.n && ((line.p[n] >= 'A' && line.p[n] <= 'Z') || line.p[n] == '_' || line.p[n] == '-'))
                n++;
        return n > 0 && (n == line.n || is_blank(line.p[n]));
}

/* Bytes that are no HTTP request (broken), or not yet. A lenient server skips blanks at the front, and takes tabs and
 * the like for spaces. A word that no method begins with may pass, as long as its line is watched: sending the first
 * byte alone must not get a client through. */
static enum sniff_kind sniff_lenient(struct str bytes, bool broken, struct sniff *ret) {
        struct str text = skip_blanks(bytes);
        bool part = false, whole;

        if (text.n == 0)
                return SNIFF_MORE;

        struct str line = first_line(text, &whole);
        if (broken && names_http(line))
                return SNIFF_BAD;

        struct str method = known_method(text, &part);
        if (method.n > 0) {
                if (broken)
                        return sniff_method_line(method, line, whole);
                return SNIFF_MORE;
        }
        if (whole)
                return broken ? SNIFF_OTHER : SNIFF_MORE;
        if (part)
                return SNIFF_MORE;
        if (!http1_is(text.p[0], CHAR_TOKEN) || str_has_nul(line))
                return SNIFF_OTHER;
        if (!is_capital_word(line))
                return SNIFF_LINE;

        ret->word = true;
        return SNIFF_MORE;
}

enum sniff_line_next sniff_line_look(struct sniff_line *line, struct str bytes) {
        char seen[sizeof line->tail + SNIFF_LINE_STEP];
        bool whole = false;

        if (!line->begun)
                bytes = skip_blanks(bytes);

        line->begun |= bytes.n > 0;

        while (bytes.n > 0 && !whole) {
                struct str part = first_line(str_first(bytes, SNIFF_LINE_STEP), &whole);

                memcpy(seen, line->tail, line->n);
                ptrdiff_t nul = str_find(part, '\0');
                if (nul >= 0)
                        part = str_first(part, (size_t)nul);
                if (part.n > 0)
                        memcpy(seen + line->n, part.p, part.n);

                struct str text = str_n(seen, line->n + part.n);
                if (names_http(text))
                        return SNIFF_LINE_HTTP;
                if (nul >= 0)
                        return SNIFF_LINE_OVER;

                line->n = (uint8_t)(text.n < sizeof line->tail ? text.n : sizeof line->tail);
                memcpy(line->tail, text.p + text.n - line->n, line->n);
                bytes = str_skip(bytes, part.n + whole);
        }

        return whole ? SNIFF_LINE_OVER : SNIFF_LINE_GOES;
}

static enum sniff_kind sniff_http(struct str bytes, size_t max, struct sniff *ret) {
        static const struct str preface = STR("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        if (str_eq(str_first(bytes, preface.n), str_first(preface, bytes.n)))
                return bytes.n < preface.n ? SNIFF_MORE : SNIFF_HTTP2;

        struct http1_progress at = { 0 };
        struct http1_request request;
        enum http1_result r = http1_request_parse(&at, bytes, max, &request);
        if (r != HTTP1_OK) {
                enum sniff_kind kind = sniff_lenient(bytes, r != HTTP1_MORE, ret);
                return kind == SNIFF_MORE && bytes.n >= max ? SNIFF_BAD : kind;
        }

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
        if (r == SNI_NOT_TLS)
                return sniff_http(bytes, max, ret);

        return sniff_tls(r, &sni, ret);
}

bool sniff_is_other_at_end(struct str bytes) {
        struct sniff ignored = { 0 };

        if (bytes.n == 0 || bytes.p[0] == 0x16 /* a TLS handshake record */)
                return false;
        return sniff_lenient(bytes, true, &ignored) != SNIFF_BAD;
}
