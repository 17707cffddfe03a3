/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request to the API proxy is one to the origin, as if TLS had been opened: the same verdict, the same slots, the
 * same search of what comes back, TLS to the origin verified. Only its destination comes from elsewhere: the first
 * segment of its path, which is compared byte by byte with the names of credentials. Nothing is normalised: an
 * ambiguous path is refused, so that the origin gets exactly what was compared.
 *
 * The client must present the stand-in, as it would the key; SDKs find it in the variable they always look in. A
 * listener may be within reach of others (another user of the machine, a neighbouring container): the stand-in
 * distinguishes the sandbox from them, and a request without it is refused.
 *
 * Host must be an address or localhost: a web page cannot point a name of its own here.
 */
#include "gateway/creds/apiproxy.h"

static bool is_escaped(struct str s, size_t at, char c) {
        return s.p[at] == '%' && at + 2 < s.n && ascii_hex(s.p[at + 1]) >= 0 && ascii_hex(s.p[at + 2]) >= 0 &&
               (ascii_hex(s.p[at + 1]) << 4 | ascii_hex(s.p[at + 2])) == c;
}

/* Dot segments, empty ones, backslashes, and what decodes to any of them. */
static bool is_ambiguous(struct str path) {
        static const char special[] = "./\\%";

        for (size_t i = 0; i < path.n; i++) {
                unsigned char c = (unsigned char)path.p[i];
                if (c == '\\' || c <= ' ' || c >= 0x7f)
                        return true;
                for (const char *s = special; *s; s++)
                        if (is_escaped(path, i, *s))
                                return true;
        }

        struct str rest = str_skip(path, 1), segment;
        while (str_split(&rest, '/', &segment)) {
                bool inner = segment.p + segment.n < path.p + path.n;
                if ((segment.n == 0 && inner) || str_eq(segment, STR(".")) || str_eq(segment, STR("..")))
                        return true;
        }

        return false;
}

/* The service's name in behaviour and documents, where it is not the provider's. */
static struct str credential_name(struct str segment) {
        return str_eq(segment, STR("google")) ? STR("gemini") : segment;
}

static bool find_target(const struct credentials *credentials, struct str name, struct authority *ret) {
        for (uint32_t i = 0; i < credentials_count(credentials); i++) {
                const struct credential_mapping *mapping = credentials_get(credentials, i);
                if (mapping->kind != MAPPING_VALUE || !str_eq(mapping->name, name))
                        continue;
                for (size_t k = 0; k < mapping->n_hosts; k++)
                        if (mapping->hosts[k].kind == PATTERN_NAME) {
                                *ret = (struct authority){ mapping->hosts[k].host, mapping->hosts[k].port_first };
                                return true;
                        }
        }

        return false;
}

unsigned apiproxy_route(const struct credentials *credentials, struct http1_request *request,
                        struct authority *ret_target, const char **ret_what) {
        struct authority host;

        if (request->form != FORM_ORIGIN) {
                *ret_what = "This is the API proxy: requests are for /NAME/PATH, where NAME is a credential";
                return request->form == FORM_AUTHORITY ? 405 : 400;
        }

        bool ours = request->host.p && authority_parse(request->host, 80, &host, NULL) == 0 &&
                    (host.host.kind == HOST_ADDR || str_eq(host_str(&host.host), STR("localhost")));
        if (!ours) {
                *ret_what = "The Host header must be the API proxy's own address";
                return 421;
        }

        struct str path = http1_path_only(request->path), rest = str_skip(path, 1), name;
        *ret_what = "The path is not plain: no empty or dot segments, no backslashes, none of them escaped";
        if (is_ambiguous(path))
                return 400;

        *ret_what = "No credential with one host has the name that the path begins with";
        if (!str_split(&rest, '/', &name) || !credentials ||
            !find_target(credentials, credential_name(name), ret_target))
                return 404;

        request->path = str_skip(request->path,
                                 1 + name.n); /* may be "" or begin with '?': "/" is put in front when it is written */
        request->host = (struct str){ 0 };

        return 0;
}
