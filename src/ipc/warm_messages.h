/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Between `bailey exec --warm` and a sandbox that waits for a command (run/run_spare.h), over one SOCK_SEQPACKET
 * connection. Both are the same program of the same user, so that the structs need no other form.
 *
 *     to the sandbox    struct warm_offer, and behind it in the same message the words (base/words.h);
 *                       descriptors: 0, 1 and 2, and with captured output the link (ipc/supervise_messages.h)
 *     from it           WARM_TAKEN, or WARM_NOT: nothing was run, and nothing will be
 *     to the sandbox    WARM_GO: a caller that lost patience is not there to say it, and launches by itself. A command
 *                       never runs twice
 *     to the sandbox    WARM_SIGNAL, as often as there is one. When the connection ends, so does the command
 *     from it           WARM_END; with captured output SUPERVISE_END on the link in its place
 */
#include "base/digest.h"
#include "base/err.h"
#include "ipc/run_end.h"

enum { WARM_VERSION = 1, WARM_WORDS_MAX = 96 << 10 };
enum { WARM_STREAMS = 3, WARM_LINK = 3, WARM_FDS_MAX = 4 };

enum warm_kind { WARM_TAKEN = 1, WARM_NOT, WARM_GO, WARM_SIGNAL, WARM_END };

struct warm_offer {
        uint32_t version;
        uint32_t leave;                  /* 1: there is no command, it is to end */
        unsigned char key[DIGEST_BYTES]; /* of the caller (verbs/warm_key.h) */
};

struct warm_message {
        uint32_t version, kind;
        uint32_t end;            /* WARM_END: enum run_end */
        int32_t status;          /* of the command, as run_command() has it; WARM_SIGNAL: the signal */
        char text[ERR_TEXT_MAX]; /* WARM_END: why, where it did not run to its end */
};
