/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs/inspect/inspect_advice.h"

#include "base/cleanup.h"
#include "base/escape.h"

static char *advice_for_class(enum addr_class class, const char *target) {
        switch (class) {
        case ADDR_CLASS_METADATA:
                return str_dup(STR("nothing opens it: it hands out the machine's credentials"));
        case ADDR_CLASS_LOOPBACK:
                return str_dup(STR(
                    "inside, this is the sandbox's own loopback; for a service of this host use --host-port PORT, or "
                    "allow_private with host.bailey.internal:PORT"));
        case ADDR_CLASS_UNSPECIFIED:
        case ADDR_CLASS_MULTICAST:
                return NULL;
        default:
                return str_format(
                    "to open exactly this: --allow-private %s, or under network.allow_private in the policy", target);
        }
}

char *inspect_advice_host(const struct verdict *verdict, const struct authority *authority, const char *origin) {
        char target[AUTHORITY_TEXT_MAX];

        authority_text(authority, target);

        switch (verdict->reason) {
        case REASON_ALLOWED:
        case REASON_ALLOWED_PRIVATE:
        case REASON_OPEN_NETWORK:
                return str_format("to refuse it: --deny %s, or under network.deny in the policy", target);
        case REASON_NOT_ALLOWED:
        case REASON_ASK:
                return str_format("to allow it: --allow %s, or under network.allow in the policy", target);
        case REASON_DENY_RULE:
                if (origin && strncmp(origin, "denied ", 7) == 0)
                        return str_dup(STR("a person refused it; to take that back: bailey deny --forget, with the "
                                           "rule's own pattern"));
                return str_format("a deny rule wins over every allow rule; take it out where it stands: %s",
                                  text_or(origin, "in the policy"));
        case REASON_NO_NETWORK:
                return str_dup(STR("the mode has no network: use --mode workspace-write-whitelist and --allow"));
        case REASON_METHOD:
        case REASON_PATH:
        case REASON_NOT_VISIBLE:
                return str_format("the rule names methods or paths; change it where it stands: %s",
                                  text_or(origin, "in the policy"));
        case REASON_GIT_REPOSITORY:
                return str_dup(STR("to allow it: --git HOST/PATH, or under git in the policy"));
        case REASON_GIT_SERVICE:
        case REASON_GIT_REF:
                return str_format("change the entry where it stands: %s", text_or(origin, "under git in the policy"));
        case REASON_ADDRESS_CLASS:
                return advice_for_class((enum addr_class)verdict->class, target);
        default:
                return NULL;
        }
}

char *inspect_advice_path(enum path_access access, const char *path, bool read_only) {
        cleanup(buf_done) struct buf quoted = BUF(65536);
        if (escape_shell(&quoted, str_of(path)) < 0)
                return NULL;

        struct str shown = buf_str(&quoted);

        switch (access) {
        case PATH_DENIED:
                return str_format("to let it be read: --read %.*s, or under filesystem.read in the policy",
                                  STR_FMT(shown));
        case PATH_READ:
                if (read_only)
                        return str_dup(STR("the mode is read-only: nothing can be written; --mode workspace-write "
                                           "opens the workspace"));
                return str_format("to let it be written: --write %.*s; to hide it: --deny-read %.*s", STR_FMT(shown),
                                  STR_FMT(shown));
        default:
                return str_format("to keep it as it is: --deny-write %.*s; to hide it: --deny-read %.*s",
                                  STR_FMT(shown), STR_FMT(shown));
        }
}

const char *inspect_advice_access(enum path_access access, bool by_rule) {
        static const char *const texts[][2] = {
                [PATH_DENIED] = { "it can be neither read nor written: reading is closed where no rule opens it",
                                  "it can be neither read nor written" },
                [PATH_READ] = { "it can be read, not written: writing is closed where no rule opens it",
                                "it can be read, not written" },
                [PATH_WRITE] = { "it can be read and written", "it can be read and written" },
        };
        return texts[access][by_rule];
}
