/* SPDX-License-Identifier: Apache-2.0 */
/* Redirections: the files that they name, and what the substitutions in them do. */
#include "shell/call.h"

static void judge_write(struct judge *judge, struct sh_arg target) {
        if (str_is(target.text, "/dev/null"))
                return;

        judge->plain_off = true;

        switch (place_of(target)) {
        case PLACE_SYSTEM:
        case PLACE_ROOT:
                judge_find(judge, FINDING_REDIRECT_SYSTEM);
                break;
        case PLACE_DISK:
                judge_find(judge, FINDING_REDIRECT_DISK);
                break;
        case PLACE_SHARED:
                judge_find(judge, FINDING_REDIRECT_PLACE);
                break;
        case PLACE_PROTECTED:
                judge_find(judge, FINDING_REDIRECT_PROTECTED);
                break;
        case PLACE_NETWORK:
        case PLACE_OTHER:
                break;
        }
}

static void judge_redirect(struct judge *judge, const struct sh_redirect *redirect, bool shell) {
        if (redirect->kind == SH_HERE_DOCUMENT || redirect->kind == SH_HERE_STRING)
                return;

        struct sh_arg target = sh_word_to_arg(judge, redirect->target);
        if (place_of(target) == PLACE_NETWORK)
                judge_find(judge, shell ? FINDING_REVERSE_SHELL : FINDING_NETWORK_REDIRECT);

        switch (redirect->kind) {
        case SH_WRITE:
        case SH_APPEND:
        case SH_READ_WRITE:
        case SH_WRITE_BOTH:
        case SH_APPEND_BOTH:
                judge_write(judge, target);
                break;
        case SH_READ:
                if (names_credential(target))
                        judge_find(judge, FINDING_REDIRECT_CREDENTIAL);

                if (target.unknown)
                        judge->plain_off = true;
                break;
        case SH_DUPLICATE_OUT:
                if (target.unknown)
                        judge->plain_off = true;
                break;
        default:
                break;
        }
}

unsigned judge_redirects(struct judge *judge, const struct sh_redirect *redirects, bool shell) {
        unsigned inner = 0;
        for (const struct sh_redirect *redirect = redirects; redirect; redirect = redirect->next) {
                inner |= judge_inner_facts(judge, redirect->target);
                judge_redirect(judge, redirect, shell);
        }
        return inner;
}
