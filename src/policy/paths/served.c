/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/paths/served.h"

#include <errno.h>

/* Where the setting was written, or NULL: the policy does not ask for it. */
typedef const char *asked_for(const struct policy *policy);

static const char *row_origin(const struct policy *policy, enum policy_row row) {
        return text_or(policy->origins[row], "default");
}

static const char *first_origin(const origin_texts *list) {
        return list->n ? list->p[0].origin : NULL;
}

static const char *bridge_origin(const struct policy *policy) {
        return policy->bridge.n ? policy->bridge.p[0].origin : NULL;
}

static const char *browser_origin(const struct policy *policy) {
        return first_origin(&policy->browser.hosts);
}

static const char *ssh_git_origin(const struct policy *policy) {
        return policy->ssh.git ? row_origin(policy, ROW_SSH_GIT) : NULL;
}

static const char *ssh_hosts_origin(const struct policy *policy) {
        return first_origin(&policy->ssh.hosts);
}

static const char *signing_origin(const struct policy *policy) {
        if (policy->signing.ssh)
                return row_origin(policy, ROW_SIGN_SSH);
        return first_origin(&policy->signing.gpg);
}

static const char *ratchet_origin(const struct policy *policy) {
        return policy->ratchet.n ? policy->ratchet.p[0].origin : NULL;
}

static const char *ask_paths_origin(const struct policy *policy) {
        return first_origin(&policy->filesystem.ask);
}

static const char *nesting_origin(const struct policy *policy) {
        return policy->process.nesting ? row_origin(policy, ROW_NESTING) : NULL;
}

static const struct {
        const char *what;
        asked_for *origin;
        unsigned places; /* that cannot give it */
} unserved[] = {
        { "tools of the host (bridge)", bridge_origin, PLACE_DEGRADED | PLACE_CONTAINER },
        { "pages in your browser (browser)", browser_origin, PLACE_DEGRADED | PLACE_CONTAINER },
        { "git over ssh (ssh.git)", ssh_git_origin, PLACE_DEGRADED | PLACE_CONTAINER },
        { "the ssh-agent (ssh.hosts)", ssh_hosts_origin, PLACE_DEGRADED | PLACE_CONTAINER },
        { "signatures (signing)", signing_origin, PLACE_DEGRADED | PLACE_CONTAINER },
        { "ratchets (ratchet)", ratchet_origin, PLACE_DEGRADED | PLACE_CONTAINER | PLACE_GATEWAY },
        { "questions about paths (filesystem.ask)", ask_paths_origin, PLACE_DEGRADED | PLACE_CONTAINER },
        { "sandboxes inside (process.nesting)", nesting_origin, PLACE_DEGRADED | PLACE_CONTAINER },
};

static const char *place_text(enum policy_place place) {
        switch (place) {
        case PLACE_DEGRADED:
                return "need namespaces, which this machine does not give (see `bailey doctor`)";
        case PLACE_CONTAINER:
                return "are for sandboxes, not for containers";
        default:
                return "are for sandboxes, not for a gateway by itself";
        }
}

int policy_check_served(const struct policy *policy, enum policy_place place, struct err *err) {
        for (size_t i = 0; i < sizeof unserved / sizeof *unserved; i++) {
                const char *origin = unserved[i].places & place ? unserved[i].origin(policy) : NULL;

                if (origin)
                        return err_set(err, EOPNOTSUPP, "%s: %s %s; take this out of the policy to go on without",
                                       origin, unserved[i].what, place_text(place));
        }

        return 0;
}
