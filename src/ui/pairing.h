/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Pairing a phone, as data: one link for one device, for a limited time. The link has a key and the digest of the
 * certificate in its fragment:
 *
 *     https://ADDRESS:PORT/#pair=KEY.DIGEST
 *
 * The first device that shows the key is the paired one, by a session of two halves (ui/ui_gate.h) and by its address:
 * no other address is listened to any more. Nothing of it outlives the pairing.
 *
 * The digest: a program that opens the link can compare it with the certificate. A page in a browser cannot, since no
 * browser tells a page which certificate its connection has; the person compares it with what the browser's warning
 * shows. The page sends the digest of its link back, and the server compares: a link of an earlier pairing, or one that
 * leads to another computer's Bailey, is noticed. That is no proof against somebody in between.
 *
 * Pure: no clock, no I/O.
 */
#include "ui/ui_gate.h"

enum { PAIRING_KEY_MAX = 44 /* 256 bits in base64url, terminated */, PAIRING_HOST_MAX = 64 };

struct pairing {
        char key[PAIRING_KEY_MAX];         /* "": none, or used */
        char certificate[PAIRING_KEY_MAX]; /* its digest */
        char host[PAIRING_HOST_MAX];       /* "ADDRESS:PORT", as a browser says it */
        char device[PAIRING_HOST_MAX];     /* the paired one's address, "": none yet */
        struct gate_session session;
        uint64_t link_until_ns, until_ns; /* 0: there is no pairing */
};

enum pairing_result { PAIRING_DONE, PAIRING_USED, PAIRING_LATE, PAIRING_WRONG_KEY, PAIRING_WRONG_CERTIFICATE };
const char *pairing_text(enum pairing_result result);

#define PAIRING_LINK_SECONDS 120

void pairing_begin(struct pairing *pairing, const unsigned char digest[static 32], const char *host, uint64_t now_ns,
                   uint64_t seconds);
/* The link, heap text. */
char *pairing_link(const struct pairing *pairing);
/* Whether connections of this address are listened to. */
bool pairing_takes(const struct pairing *pairing, const char *device);
/* The key is worth a session, once. */
enum pairing_result pairing_exchange(struct pairing *pairing, struct str key, struct str certificate,
                                     const char *device, uint64_t now_ns);
/* Why it is over now; NULL: it is not. */
const char *pairing_over(const struct pairing *pairing, uint64_t now_ns);
void pairing_wipe(struct pairing *pairing);
