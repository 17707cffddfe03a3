/* SPDX-License-Identifier: Apache-2.0 */
#include "bridge/shim_message.h"

#include <signal.h>

bool shim_call_read(struct str packet, struct shim_call *ret) {
        struct shim_head head;
        struct str rest, text;

        if (packet.n < sizeof head || packet.n > SHIM_BYTES_MAX)
                return false;

        memcpy(&head, packet.p, sizeof head);
        if (head.magic != SHIM_MAGIC || head.version != SHIM_VERSION || head.n < 2 || head.n > SHIM_TEXTS_MAX)
                return false;

        rest = str_skip(packet, sizeof head);
        if (rest.n != head.bytes || rest.n == 0 || rest.p[rest.n - 1] != '\0')
                return false;

        *ret = (struct shim_call){ 0 };

        for (size_t i = 0; i < head.n; i++) {
                const char *end = rest.n ? memchr(rest.p, '\0', rest.n) : NULL;
                if (!end)
                        return false;

                text = str_first(rest, (size_t)(end - rest.p));
                rest = str_skip(rest, text.n + 1);

                if (i == 0)
                        ret->directory = text;
                else if (i == 1)
                        ret->tool = text;
                else
                        ret->words[ret->n++] = text;
        }

        return rest.n == 0 && ret->directory.n > 0 && ret->directory.p[0] == '/' && ret->tool.n > 0;
}

bool shim_signal_read(struct str packet, int *ret) {
        static const int handed_on[] = { SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM };
        struct shim_word word;

        if (packet.n != sizeof word)
                return false;

        memcpy(&word, packet.p, sizeof word);
        if (word.magic != SHIM_MAGIC || word.version != SHIM_VERSION || word.kind != SHIM_SIGNAL)
                return false;

        for (size_t i = 0; i < sizeof handed_on / sizeof *handed_on; i++)
                if (word.number == handed_on[i]) {
                        *ret = word.number;
                        return true;
                }

        return false;
}
