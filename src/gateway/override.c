/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/override.h"

static const struct override overrides[] = {
        { STR("X-HTTP-Method-Override"), REASON_METHOD },
        { STR("X-HTTP-Method"), REASON_METHOD },
        { STR("X-Method-Override"), REASON_METHOD },
        { STR("X-Method"), REASON_METHOD },
        { STR("X-Original-Method"), REASON_METHOD },
        { STR("X-Forwarded-Method"), REASON_METHOD },
        { STR("X-Rewrite-Method"), REASON_METHOD },
        { STR("HTTP-Method-Override"), REASON_METHOD },
        { STR("Method-Override"), REASON_METHOD },
        { STR("X-Request-Method"), REASON_METHOD },
        { STR("X-HTTP-Verb"), REASON_METHOD },
        { STR("Request-Method"), REASON_METHOD }, /* CGI's own name */
        { STR("X-Original-URL"), REASON_PATH },
        { STR("X-Original-URI"), REASON_PATH },
        { STR("X-Original-Path"), REASON_PATH },
        { STR("X-Original-Host"), REASON_PATH },
        { STR("X-Rewrite-URL"), REASON_PATH },
        { STR("X-Rewrite-URI"), REASON_PATH },
        { STR("X-Rewrite-Path"), REASON_PATH },
        { STR("X-Forwarded-URL"), REASON_PATH },
        { STR("X-Forwarded-URI"), REASON_PATH },
        { STR("X-Forwarded-Path"), REASON_PATH },
        { STR("X-Forwarded-Prefix"), REASON_PATH },
        { STR("X-Forwarded-Host"), REASON_PATH },
        { STR("X-Script-Name"), REASON_PATH },
        { STR("X-Path-Info"), REASON_PATH },
        { STR("X-Replaced-Path"), REASON_PATH },
        { STR("X-Request-URI"), REASON_PATH },
        { STR("X-Override-URL"), REASON_PATH },
        { STR("X-HTTP-Path-Override"), REASON_PATH },
        { STR("X-HTTP-DestinationURL"), REASON_PATH },
        { STR("X-Envoy-Original-Path"), REASON_PATH },
        { STR("X-Envoy-Original-Host"), REASON_PATH },
        { STR("X-Host"), REASON_PATH },
        { STR("X-HTTP-Host-Override"), REASON_PATH },
        { STR("X-Original-Request-URI"), REASON_PATH },
        { STR("X-Forwarded-Request-URI"), REASON_PATH },
        { STR("X-Forwarded-Server"), REASON_PATH },
        { STR("X-Real-URL"), REASON_PATH },
        { STR("X-URL"), REASON_PATH },
        { STR("X-URI"), REASON_PATH },
        { STR("X-Path"), REASON_PATH },
        { STR("X-Request-Path"), REASON_PATH },
        { STR("X-MS-Original-URL"), REASON_PATH },    /* Azure */
        { STR("X-WAWS-Unencoded-URL"), REASON_PATH }, /* Azure */
        { STR("X-Matched-Path"), REASON_PATH },       /* Next.js takes these from whoever sends them */
        { STR("X-Invoke-Path"), REASON_PATH },
        { STR("X-Middleware-Rewrite"), REASON_PATH },
        { STR("X-Middleware-Subrequest"), REASON_PATH },
        { STR("Script-Name"), REASON_PATH }, /* gunicorn takes these two for CGI's */
        { STR("Path-Info"), REASON_PATH },
        { STR("Request-URI"), REASON_PATH },
        { STR("Forwarded"), REASON_PATH },   /* host=... */
        { STR("Destination"), REASON_PATH }, /* WebDAV's second path, of COPY and MOVE */
};

/* Read by the gateway under their own names; a server that takes other letters for a dash would frame the body by
 * these. */
static const struct override framing[] = {
        { STR("Content-Length"), REASON_PATH },
        { STR("Transfer-Encoding"), REASON_PATH },
};

static char override_plain(char c) {
        if (c >= 'A' && c <= 'Z')
                return (char)(c - 'A' + 'a');
        if (ascii_is_alnum(c))
                return c;

        return '-';
}

/* Asked for every header of every request: almost all differ in their length. */
static inline bool is_spelling_of(struct str name, struct str known) {
        if (name.n != known.n)
                return false;

        for (size_t i = 0; i < name.n; i++)
                if (override_plain(name.p[i]) != override_plain(known.p[i]))
                        return false;
        return true;
}

const struct override *override_find(struct str name) {
        for (size_t i = 0; i < sizeof overrides / sizeof *overrides; i++)
                if (is_spelling_of(name, overrides[i].name))
                        return &overrides[i];

        for (size_t i = 0; i < sizeof framing / sizeof *framing; i++)
                if (is_spelling_of(name, framing[i].name) && !str_eq_nocase(name, framing[i].name))
                        return &framing[i];

        return NULL;
}
