/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Who is let in. The server listens on loopback only, but every page in the same browser, every other user of this
 * machine and every name that resolves to 127.0.0.1 can send it requests. In this order:
 *
 *  - Host must be exactly 127.0.0.1:PORT, [::1]:PORT or localhost:PORT. A page of another site whose name was made to
 *    lead here (DNS rebinding) sends its own name. That Host and Origin match each other proves nothing.
 *  - Origin, where there is one, must be that host. Sec-Fetch-Site, where there is one, must be same-origin or none.
 *  - Every path that is not public needs a session: a cookie (HttpOnly, SameSite=Strict) and a second value that the
 *    page keeps in its own origin's storage and sends as a header. Cookies do not know ports: another server on another
 *    port of localhost receives the cookie, but never the header.
 *  - Every change is a POST with a JSON body, and never in read-only mode.
 *  - A paired device (ui/pairing.h) comes over TLS to one address, has a session of its own, and reaches a list of
 *    paths that lets it read and answer, and nothing else.
 *
 * Pure: no clock, no I/O. The user behind a connection is checked before (ui/peer_user.h).
 */
#include "base/str.h"

#define UI_KEY_MAX 65 /* 256 bits in hexadecimal, terminated */
#define GATE_COOKIE "bailey_ui"
#define GATE_DEVICE_COOKIE "__Host-bailey_device" /* of this host alone, over TLS only: browsers see to it */

enum gate_verdict {
        GATE_PASS,
        GATE_HOST,
        GATE_ORIGIN,
        GATE_SITE,
        GATE_TARGET,
        GATE_METHOD,
        GATE_TYPE,
        GATE_SESSION,
        GATE_HEADER,
        GATE_READ_ONLY,
        GATE_PAIRED,
        GATE_VERDICTS
};
unsigned gate_status(enum gate_verdict verdict);
const char *gate_text(enum gate_verdict verdict);

struct gate_session {
        char cookie[UI_KEY_MAX], header[UI_KEY_MAX]; /* "": none */
};
enum { UI_SESSIONS_MAX = 8 };

struct gate_rules {
        uint16_t port;
        bool read_only;
        const struct gate_session *sessions;
        size_t n_sessions;
        const char *device_host; /* for a paired device: "ADDRESS:PORT", the only host; NULL: the names of loopback */
};

struct gate_request {
        struct str method, host, origin, site, cookies, header, content_type; /* p NULL: not there */
        bool origin_form;
        bool is_public; /* the page itself, and the exchange of a link for a session */
        bool is_paired; /* what a paired device may ask for */
        bool always;    /* the end of a pairing, which is no order to a sandbox */
};

enum gate_verdict gate_judge(const struct gate_rules *rules, const struct gate_request *request);
