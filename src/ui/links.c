/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One-time links. The key is 256 bits, stands in the fragment of the link (which no browser sends, and no log has), and
 * is dead after its use or a minute. A second `bailey ui` asks the first for a new one (ui/callers.c).
 */
#include "base/clock.h"
#include "base/random.h"
#include "base/secrets/digest.h"
#include "base/secrets/secret.h"
#include "ui/ui_internal.h"

#include <errno.h>

#define LINK_NS (60 * NS_PER_SECOND)

static void make_key(char ret[static UI_KEY_MAX]) {
        unsigned char bytes[DIGEST_BYTES];

        random_bytes(bytes, sizeof bytes);
        digest_hex(bytes, ret);
        secret_wipe(bytes, sizeof bytes);
}

int links_make(struct ui *ui, char **ret) {
        size_t oldest = 0;

        for (size_t i = 1; i < UI_LINKS_MAX; i++)
                if (ui->links[i].until_ns < ui->links[oldest].until_ns)
                        oldest = i;

        make_key(ui->links[oldest].key);
        ui->links[oldest].until_ns = clock_ns() + LINK_NS;
        *ret = str_format("http://127.0.0.1:%u/#key=%s", ui->port, ui->links[oldest].key);

        if (!*ret)
                return -ENOMEM;

        return 0;
}

struct gate_session *links_exchange(struct ui *ui, struct str key) {
        uint64_t now = clock_ns();
        bool good = false;

        for (size_t i = 0; i < UI_LINKS_MAX; i++) {
                bool same = ui->links[i].key[0] && secret_equal(str_of(ui->links[i].key), key);
                bool dead = now >= ui->links[i].until_ns;

                good = good || (same && !dead);
                if (same || dead)
                        secret_wipe(&ui->links[i], sizeof ui->links[i]);
        }

        if (!good)
                return NULL;

        struct gate_session *session = &ui->sessions[ui->next_session++ % UI_SESSIONS_MAX];
        make_key(session->cookie);
        make_key(session->header);

        return session;
}
