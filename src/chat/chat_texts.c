/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texts for people. Names and commands are the sandbox's: they are escaped, cut, and cannot end the block of code that
 * some services show them in.
 */
#include "base/bounds.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/escape.h"
#include "chat/chat_internal.h"

enum { TOGETHER_MAX = 10, SHOWN_MAX = 800 };

const char chat_help_text[] =
    "bailey: /allow CODE [once|sandbox|workspace|always], /deny CODE, /pending, /ps, /pause SANDBOX, /resume SANDBOX, "
    "/kill SANDBOX. The code stands in the question; it is worth one answer.";

int texts_safe(struct buf *out, struct str text, size_t max) {
        cleanup(buf_done) struct buf escaped = BUF(out->max);
        int r = escape_text(&escaped, text, min_of(max, SHOWN_MAX));

        /* A backquote would end the frame that some services get. As a quote it would be another command. */
        for (size_t i = 0; r == 0 && i < escaped.n; i++)
                r = escaped.p[i] == '`' ? buf_add(out, "\\x60") : buf_add_char(out, escaped.p[i]);

        return r;
}

static int put_time_left(struct buf *out, const struct chat_question *question) {
        uint64_t now = clock_wall_us();

        if (!question->expires_us || question->expires_us <= now)
                return 0;
        return buf_printf(out, "Without an answer it is refused in %ju s.\n",
                          (uintmax_t)((question->expires_us - now) / 1000000));
}

int texts_question(struct chat *chat, const struct chat_question *question, struct buf *out) {
        const struct chat_peer *peer = peers_find(chat, question->sandbox);
        size_t open = questions_n_open(chat);
        const char *code = question->code;
        int r = buf_printf(out, "Sandbox %s wants to %s\n%s", question->sandbox, question->about, question->detail);

        if (r == 0 && peer && peer->command)
                r = buf_printf(out, "It runs: %s\n", peer->command);
        if (r == 0 && peer && peer->workspace)
                r = buf_printf(out, "Workspace: %s\n", peer->workspace);
        if (r == 0)
                r = put_time_left(out, question);
        if (r == 0 && open > 1)
                r = buf_printf(out, "%zu questions are open: /pending lists them.\n", open);
        if (r < 0)
                return r;
        if (question->call)
                return buf_printf(out,
                                  "\nCode %s. Answer:\n/allow %s once       this call\n/allow %s sandbox    every such "
                                  "call until this sandbox ends\n/deny %s            refuse this call\n",
                                  code, code, code, code);
        if (!question->host[0])
                return buf_printf(out, "\nCode %s. Answer:\n/allow %s    this once\n/deny %s\n", code, code, code);

        return buf_printf(out,
                          "\nCode %s. Answer:\n"
                          "/allow %s once         what waits now\n"
                          "/allow %s sandbox      until this sandbox ends\n"
                          "/allow %s workspace    every sandbox in this workspace, also later\n"
                          "/allow %s always       every sandbox, also later\n"
                          "/deny %s               refuse what waits now\n",
                          code, code, code, code, code, code);
}

static int put_line(struct buf *out, const struct chat_question *question) {
        return buf_printf(out, "%s  %s  %s\n", question->code, question->sandbox, question->about);
}

int texts_questions(struct chat *chat, struct buf *out) {
        size_t shown = 0;
        int r = buf_add(out, "Several questions wait. Answer each with its code: /allow CODE [SCOPE] or /deny CODE\n");

        for (size_t i = 0; r == 0 && i < chat->questions.n && shown < TOGETHER_MAX; i++) {
                struct chat_question *question = &chat->questions.p[i];

                if (!question->open || question->posted)
                        continue;

                r = put_line(out, question);
                question->posted = true;
                shown++;
        }

        return r;
}

int texts_pending(struct chat *chat, struct buf *out) {
        size_t open = questions_n_open(chat), shown = 0;
        int r = buf_printf(out, "%zu %s\n", open, open == 1 ? "question is open." : "questions are open.");

        for (size_t i = 0; r == 0 && i < chat->questions.n && shown < 2 * TOGETHER_MAX; i++) {
                if (!chat->questions.p[i].open)
                        continue;
                r = put_line(out, &chat->questions.p[i]);
                shown++;
        }

        return r;
}

int texts_sandboxes(struct chat *chat, struct buf *out) {
        size_t shown = 0;
        int r = 0;

        for (size_t i = 0; r == 0 && i < chat->peers.n && shown < 2 * TOGETHER_MAX; i++) {
                const struct chat_peer *peer = chat->peers.p[i];

                if (peer->gone)
                        continue;

                r = buf_printf(out, "%s  %s  %s\n", peer->client.id, text_or(peer->command, "?"),
                               text_or(peer->workspace, ""));
                shown++;
        }

        if (r < 0 || shown)
                return r;

        return buf_add(out, "No sandbox runs.\n");
}
