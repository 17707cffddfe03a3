/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/override.h"

static const struct override overrides[] = {
        { "X-HTTP-Method-Override", REASON_METHOD },
        { "X-HTTP-Method", REASON_METHOD },
        { "X-Method-Override", REASON_METHOD },
        { "X-Method", REASON_METHOD },
        { "X-Original-Method", REASON_METHOD },
        { "X-Forwarded-Method", REASON_METHOD },
        { "X-Rewrite-Method", REASON_METHOD },
        { "HTTP-Method-Override", REASON_METHOD },
        { "Method-Override", REASON_METHOD },
        { "X-Original-URL", REASON_PATH },
        { "X-Original-URI", REASON_PATH },
        { "X-Original-Path", REASON_PATH },
        { "X-Original-Host", REASON_PATH },
        { "X-Rewrite-URL", REASON_PATH },
        { "X-Rewrite-URI", REASON_PATH },
        { "X-Rewrite-Path", REASON_PATH },
        { "X-Forwarded-URL", REASON_PATH },
        { "X-Forwarded-URI", REASON_PATH },
        { "X-Forwarded-Path", REASON_PATH },
        { "X-Forwarded-Prefix", REASON_PATH },
        { "X-Forwarded-Host", REASON_PATH },
        { "X-Script-Name", REASON_PATH },
        { "X-Path-Info", REASON_PATH },
        { "X-Replaced-Path", REASON_PATH },
        { "X-Request-URI", REASON_PATH },
        { "X-Override-URL", REASON_PATH },
        { "X-HTTP-Path-Override", REASON_PATH },
        { "X-HTTP-DestinationURL", REASON_PATH },
        { "X-Envoy-Original-Path", REASON_PATH },
        { "X-Envoy-Original-Host", REASON_PATH },
        { "X-Host", REASON_PATH },
        { "X-HTTP-Host-Override", REASON_PATH },
        { "Destination", REASON_PATH }, /* WebDAV's second path, of COPY and MOVE */
};

/* Read by the gateway under their own names; a server that takes other letters for a dash would frame the body by
 * these. */
static const struct override framing[] = {
        { "Content-Length", REASON_PATH },
        { "Transfer-Encoding", REASON_PATH },
};

static char override_plain(char c) {
        if (c >= 'A' && c <= 'Z')
                return (char)(c - 'A' + 'a');
        return ascii_is_alnum(c) ? c : '-';
}

static bool is_spelling_of(struct str name, struct str known) {
        if (name.n != known.n)
                return false;
        for (size_t i = 0; i < name.n; i++)
                if (override_plain(name.p[i]) != override_plain(known.p[i]))
                        return false;
        return true;
}

const struct override *override_find(struct str name) {
        for (size_t i = 0; i < sizeof overrides / sizeof *overrides; i++)
                if (is_spelling_of(name, str_of(overrides[i].name)))
                        return &overrides[i];

        for (size_t i = 0; i < sizeof framing / sizeof *framing; i++)
                if (is_spelling_of(name, str_of(framing[i].name)) && !str_eq_nocase(name, str_of(framing[i].name)))
                        return &framing[i];

        return NULL;
}
