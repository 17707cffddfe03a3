/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/escape.h"
#include "store/audit.h"

enum { COMMAND_SHOWN = 4000 };

/* One word more, or -EMSGSIZE when the text has grown long enough. */
static int add_word(struct buf *text, const char *word, bool first) {
        int r = 0;

        if (!first)
                r = buf_add_char(text, ' ');

        if (r < 0)
                return r;
        return escape_shell(text, str_of(word));
}

void audit_note_command(struct audit *audit, char *const *argv) {
        cleanup(buf_done) struct buf text = BUF(COMMAND_SHOWN);
        size_t shown = 0, all = 0;

        while (argv[all])
                all++;
        while (shown < all && add_word(&text, argv[shown], shown == 0) == 0)
                shown++;

        if (shown < all)
                (void)audit_note(audit, "command: %.*s ...(%zu more words)", STR_FMT(buf_str(&text)), all - shown);
        else
                (void)audit_note(audit, "command: %.*s", STR_FMT(buf_str(&text)));
}
