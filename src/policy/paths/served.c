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

/* --- what a Mac lacks; a default that asks for it is not asked for by anybody --- */

static const char *tool_credentials_origin(const struct policy *policy) {
        return policy->tool_credentials.n ? policy->tool_credentials.p[0].origin : NULL;
}

static const char *ports_origin(const struct policy *policy) {
        if (policy->network.publish.n)
                return policy->network.publish.p[0].origin;
        if (policy->network.host_ports.n)
                return policy->network.host_ports.p[0].origin;

        return NULL;
}

static const char *seeds_origin(const struct policy *policy) {
        return policy->home_seeds.n ? policy->home_seeds.p[0].origin : NULL;
}

static const char *monitor_origin(const struct policy *policy) {
        return policy->monitor.n ? policy->monitor.p[0].origin : NULL;
}

static const char *role_origin(const struct policy *policy) {
        return policy->agent ? row_origin(policy, ROW_AGENT) : NULL;
}

static const char *shared_limits_origin(const struct policy *policy) {
        static const enum policy_row rows[] = { ROW_MEMORY, ROW_TEMPORARY, ROW_CPU_PERCENT };

        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
                if (policy->origins[rows[i]])
                        return policy->origins[rows[i]];
        return NULL;
}

static const struct {
        const char *what;
        asked_for *origin;
        unsigned places; /* that cannot give it */
} unserved[] = {
        { "tools of the host (bridge)", bridge_origin, PLACE_DEGRADED | PLACE_CONTAINER | PLACE_MACOS },
        { "pages in your browser (browser)", browser_origin, PLACE_DEGRADED | PLACE_CONTAINER | PLACE_MACOS },
        { "git over ssh (ssh.git)", ssh_git_origin, PLACE_DEGRADED | PLACE_CONTAINER | PLACE_MACOS },
        { "the ssh-agent (ssh.hosts)", ssh_hosts_origin, PLACE_DEGRADED | PLACE_CONTAINER | PLACE_MACOS },
        { "signatures (signing)", signing_origin, PLACE_DEGRADED | PLACE_CONTAINER | PLACE_MACOS },
        { "ratchets (ratchet)", ratchet_origin, PLACE_DEGRADED | PLACE_CONTAINER | PLACE_GATEWAY | PLACE_MACOS },
        { "questions about paths (filesystem.ask)", ask_paths_origin, PLACE_DEGRADED | PLACE_CONTAINER | PLACE_MACOS },
        { "sandboxes inside (process.nesting)", nesting_origin, PLACE_DEGRADED | PLACE_CONTAINER | PLACE_MACOS },
        { "credentials of tools (bridge)", tool_credentials_origin, PLACE_MACOS },
        { "ports (network.publish, network.host_ports)", ports_origin, PLACE_MACOS },
        { "files that a profile puts into the home", seeds_origin, PLACE_MACOS },
        { "rules about denials (monitor)", monitor_origin, PLACE_MACOS },
        { "roles (agent)", role_origin, PLACE_MACOS },
        { "limits of memory, of temporary files and of all processes together", shared_limits_origin, PLACE_MACOS },
};

static const char *place_text(enum policy_place place) {
        switch (place) {
        case PLACE_DEGRADED:
                return "need namespaces, which this machine does not give (see `bailey doctor`)";
        case PLACE_CONTAINER:
                return "are for sandboxes, not for containers";
        case PLACE_MACOS:
                return "are not there on macOS yet (docs/macos.md)";
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
