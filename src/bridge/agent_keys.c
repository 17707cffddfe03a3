/* SPDX-License-Identifier: Apache-2.0 */
#include "bridge/agent_keys.h"

#include "base/base64.h"

#include <errno.h>
#include <stdio.h>

static bool take_digest(struct str hex, unsigned char ret[static DIGEST_BYTES]) {
        if (hex.n != 2 * (size_t)DIGEST_BYTES)
                return false;

        for (size_t i = 0; i < DIGEST_BYTES; i++) {
                int high = ascii_hex(hex.p[2 * i]), low = ascii_hex(hex.p[2 * i + 1]);
                if (high < 0 || low < 0)
                        return false;
                ret[i] = (unsigned char)(high << 4 | low);
        }

        return true;
}

static int take_line(struct agent_keys *keys, struct str line) {
        struct str kind = { 0 }, value = { 0 };
        struct agent_key row = { 0 };

        (void)(str_split(&line, ' ', &kind) && str_split(&line, ' ', &value));

        if (str_is(kind, "sign")) {
                keys->sign = true;
                return 0;
        }

        row.host = str_is(kind, "host");
        if ((!row.host && !str_is(kind, "key")) || !take_digest(value, row.digest) || line.n >= sizeof row.name)
                return -EBADMSG;
        if (line.n > 0)
                memcpy(row.name, line.p, line.n);

        return vec_push(&keys->rows, row);
}

int agent_keys_read(struct str text, struct agent_keys *ret) {
        struct str line;
        int r = 0;

        *ret = (struct agent_keys){ 0 };

        while (r == 0 && str_split(&text, '\n', &line))
                if (line.n > 0)
                        r = take_line(ret, line);

        if (r < 0)
                agent_keys_done(ret);

        return r;
}

void agent_keys_done(struct agent_keys *keys) {
        vec_done(&keys->rows);
        keys->sign = false;
}

const struct agent_key *agent_keys_find(const struct agent_keys *keys, struct str wire, bool host) {
        unsigned char digest[DIGEST_BYTES];

        digest_sha256(wire, digest);
        for (size_t i = 0; i < keys->rows.n; i++)
                if (keys->rows.p[i].host == host && memcmp(keys->rows.p[i].digest, digest, sizeof digest) == 0)
                        return &keys->rows.p[i];
        return NULL;
}

void agent_fingerprint(struct str wire, char ret[static AGENT_FINGERPRINT_MAX]) {
        unsigned char digest[DIGEST_BYTES];
        char text[48] = "";

        digest_sha256(wire, digest);
        base64_encode(str_n(digest, sizeof digest), BASE64_STANDARD, text);
        (void)snprintf(ret, AGENT_FINGERPRINT_MAX, "SHA256:%.43s", text);
}
