/* SPDX-License-Identifier: Apache-2.0 */
#include "ui/pairing.h"

#include "base/base64.h"
#include "base/bounds.h"
#include "base/clock.h"
#include "base/random.h"
#include "base/secrets/digest.h"
#include "base/secrets/secret.h"

#include <assert.h>
#include <stdio.h>

static const char *const texts[] = {
        [PAIRING_DONE] = "paired",
        [PAIRING_USED] = "another device is paired: the link is for one, once",
        [PAIRING_LATE] = "the link is too old",
        [PAIRING_WRONG_KEY] = "this is not the key of the link",
        [PAIRING_WRONG_CERTIFICATE] = "the link names another certificate than this server's",
};

const char *pairing_text(enum pairing_result result) {
        return texts[result];
}

/* 43 characters for 32 bytes: the padding is left out. */
static void write_base64(const unsigned char bytes[static DIGEST_BYTES], char ret[static PAIRING_KEY_MAX]) {
        char padded[PAIRING_KEY_MAX];

        static_assert(sizeof padded == (DIGEST_BYTES + 2) / 3 * 4, "it fits");
        base64_encode(str_n(bytes, DIGEST_BYTES), BASE64_URL, padded);
        memcpy(ret, padded, PAIRING_KEY_MAX - 1);
        ret[PAIRING_KEY_MAX - 1] = '\0';
}

static void make_hex_key(char ret[static UI_KEY_MAX]) {
        unsigned char bytes[DIGEST_BYTES];

        random_bytes(bytes, sizeof bytes);
        digest_hex(bytes, ret);
        secret_wipe(bytes, sizeof bytes);
}

void pairing_begin(struct pairing *pairing, const unsigned char digest[static 32], const char *host, uint64_t now_ns,
                   uint64_t seconds) {
        unsigned char bytes[DIGEST_BYTES];
        uint64_t link_seconds = min_of(seconds, PAIRING_LINK_SECONDS);

        *pairing = (struct pairing){ .link_until_ns = now_ns + link_seconds * NS_PER_SECOND,
                                     .until_ns = now_ns + seconds * NS_PER_SECOND };
        random_bytes(bytes, sizeof bytes);
        write_base64(bytes, pairing->key);
        secret_wipe(bytes, sizeof bytes);
        write_base64(digest, pairing->certificate);
        snprintf(pairing->host, sizeof pairing->host, "%s", host);
}

char *pairing_link(const struct pairing *pairing) {
        return str_format("https://%s/#pair=%s.%s", pairing->host, pairing->key, pairing->certificate);
}

bool pairing_takes(const struct pairing *pairing, const char *device) {
        return pairing->until_ns && (!pairing->device[0] || strcmp(pairing->device, device) == 0);
}

enum pairing_result pairing_exchange(struct pairing *pairing, struct str key, struct str certificate,
                                     const char *device, uint64_t now_ns) {
        if (pairing->device[0])
                return PAIRING_USED;
        if (!pairing->key[0] || now_ns >= pairing->link_until_ns)
                return PAIRING_LATE;
        if (!secret_equal(str_of(pairing->key), key))
                return PAIRING_WRONG_KEY;
        if (!secret_equal(str_of(pairing->certificate), certificate))
                return PAIRING_WRONG_CERTIFICATE;

        secret_wipe(pairing->key, sizeof pairing->key);
        make_hex_key(pairing->session.cookie);
        make_hex_key(pairing->session.header);
        snprintf(pairing->device, sizeof pairing->device, "%s", device);

        return PAIRING_DONE;
}

const char *pairing_over(const struct pairing *pairing, uint64_t now_ns) {
        if (!pairing->until_ns)
                return NULL;
        if (now_ns >= pairing->until_ns)
                return "its time is over";
        if (!pairing->device[0] && now_ns >= pairing->link_until_ns)
                return "no device came";
        return NULL;
}

void pairing_wipe(struct pairing *pairing) {
        secret_wipe(pairing, sizeof *pairing);
}
