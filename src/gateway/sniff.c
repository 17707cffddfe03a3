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

/* A method that every server knows, or a first line that ends in a version: it will be taken for HTTP. */
static bool looks_like_http(struct str bytes) {
        static const struct str methods[] = {
                STR("GET "),     STR("HEAD "),  STR("POST "),    STR("PUT "),   STR("DELETE "),
                STR("OPTIONS "), STR("PATCH "), STR("CONNECT "), STR("TRACE "),
        };
        for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
                if (str_eq_nocase(str_first(bytes, methods[i].n), methods[i]))
                        return true;
        if (bytes.n > 0 && (bytes.p[0] == '\r' || bytes.p[0] == '\n'))
                return true; /* some servers skip empty lines */
        ptrdiff_t lf = str_find(bytes, '\n');
        struct str line = lf < 0 ? bytes : str_first(bytes, (size_t)lf);
        return memmem(line.p, line.n, " HTTP/", 6) != NULL;
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
                return looks_like_http(bytes) ? SNIFF_BAD : SNIFF_OTHER;
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
        return bytes.n > 0 && bytes.p[0] != 0x16 /* a TLS handshake record */ && !looks_like_http(bytes);
}
