/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The network of a Mac is the host's own: there is no namespace to lead connections elsewhere. So a program may connect
 * to the gateway's ports on loopback and to nothing else. Names are not looked up inside: mDNSResponder is a socket and
 * a service, and both stay closed, so that no name leaves before the gateway has judged it.
 *
 * (remote ip "localhost:PORT") also holds for other addresses of this Mac, which is why the gateway listens on loopback
 * only and requires the run's secret from every client. A (local ip ...) filter on an outgoing connection would admit
 * everything, since the source is not bound before; there is none.
 */
#include "plan/macos/seatbelt_internal.h"

#include "base/cleanup.h"
#include "base/paths/path.h"

#include <errno.h>

#define SECTION "network"

static int add_port(struct seatbelt *seatbelt, uint16_t port, const char *why) {
        return port
                   ? seatbelt_filter(seatbelt, SEATBELT_REMOTE_IP, seatbelt_format(seatbelt, "localhost:%u", port), why)
                   : 0;
}

static int add_gateway(struct seatbelt *seatbelt, const struct seatbelt_request *request) {
        const struct seatbelt_host *host = request->host;
        int r = 0;

        if (host->http_port || host->socks_port || host->api_port)
                r = seatbelt_begin(seatbelt, true, SECTION, "network-outbound",
                                   "the gateway, which judges every connection");
        if (r == 0)
                r = add_port(seatbelt, host->http_port, "HTTP proxy");
        if (r == 0 && host->socks_port != host->http_port)
                r = add_port(seatbelt, host->socks_port, "SOCKS5");

        return r == 0 ? add_port(seatbelt, host->api_port, "API proxy") : r;
}

static int add_host_ports(struct seatbelt *seatbelt, const struct policy *policy) {
        int r = 0;

        if (policy->network.host_ports.n > 0)
                r = seatbelt_begin(seatbelt, true, SECTION, "network-outbound",
                                   "ports of this Mac that the policy opens");

        for (size_t i = 0; i < policy->network.host_ports.n && r == 0; i++) {
                const struct port_map *map = &policy->network.host_ports.p[i];

                r = add_port(seatbelt, map->outside, seatbelt_format(seatbelt, "%s", text_or(map->origin, "")));
        }

        return r;
}

/* Listening cannot be limited to a port in a way that holds; `bind` alone does not listen, so it is both. */
static int add_serving(struct seatbelt *seatbelt, const struct policy *policy, unsigned groups) {
        bool everywhere = (groups & MACOS_LOCALHOST) != 0;
        int r = 0;

        if (!everywhere && policy->network.publish.n == 0)
                return 0;

        r = seatbelt_begin(seatbelt, true, SECTION, "network-bind network-inbound", "listen on this Mac, on any port");
        if (r == 0)
                r = seatbelt_filter(seatbelt, SEATBELT_LOCAL_IP, "localhost:*", NULL);

        if (r == 0 && everywhere)
                r = seatbelt_begin(seatbelt, true, SECTION, "network-outbound",
                                   "opened: localhost: every service that listens on this Mac");

        return r == 0 && everywhere ? seatbelt_filter(seatbelt, SEATBELT_REMOTE_IP, "localhost:*", NULL) : r;
}

/* Whether a rule names this very path and grants it. */
static bool is_granted(const struct path_rules *rules, const char *path) {
        bool granted = false;

        for (size_t i = 0; i < path_rules_count(rules); i++) {
                const struct path_rule *rule = path_rules_at(rules, i);
                cleanup(free_ptr) char *canonical = seatbelt_canonical(rule->pattern);

                if (canonical && strcmp(canonical, path) == 0)
                        granted = rule->grants && !rule->own;
        }

        return granted;
}

/* The sandbox's own sockets are in its own directories; it reaches only those of the host's that a rule names. File
 * rules do not affect connect(), so only these rules open a socket. */
static int add_sockets(struct seatbelt *seatbelt, const struct seatbelt_request *request, unsigned groups) {
        const struct seatbelt_host *host = request->host;
        int r = seatbelt_begin(seatbelt, true, SECTION, "system-socket", "Unix sockets; where they lead stands below");

        if (r == 0)
                r = seatbelt_filter(seatbelt, SEATBELT_SOCKET_DOMAIN, "AF_UNIX", NULL);
        if (r == 0)
                r = seatbelt_begin(seatbelt, true, SECTION, "network-bind network-outbound",
                                   "sockets of the sandbox's own");

        cleanup(free_ptr) char *tmpdir = seatbelt_canonical(host->tmpdir);
        if (r == 0)
                r = tmpdir ? seatbelt_filter_path(seatbelt, SEATBELT_SUBPATH, tmpdir, NULL) : -ENOMEM;

        if (r == 0 && host->own_home) {
                cleanup(free_ptr) char *home = seatbelt_canonical(host->own_home);
                r = home ? seatbelt_filter_path(seatbelt, SEATBELT_SUBPATH, home, NULL) : -ENOMEM;
        }

        for (const char *const *at = host->sockets; at && *at && r == 0; at++) {
                cleanup(free_ptr) char *path = seatbelt_canonical(*at);
                bool docker = groups & MACOS_DOCKER && str_ends(str_of(*at), STR("/docker.sock"));

                if (!path)
                        return -ENOMEM;
                if (!docker && !is_granted(request->rules, path))
                        continue;

                r = seatbelt_begin(seatbelt, true, SECTION, "network-outbound",
                                   "a socket of the host that a rule names");
                if (r == 0)
                        r = seatbelt_filter_path(seatbelt, SEATBELT_LITERAL, path, NULL);
        }

        return r;
}

int seatbelt_add_network(struct seatbelt *seatbelt, const struct seatbelt_request *request, unsigned groups,
                         struct err *err) {
        bool none = request->policy->mode == MODE_READ_ONLY || request->policy->mode == MODE_WORKSPACE_WRITE;

        if (none && (request->host->http_port || request->host->socks_port || request->host->api_port))
                return err_set(err, EINVAL, "the policy has no network, and the gateway has a port");

        int r = add_gateway(seatbelt, request);
        if (r == 0)
                r = add_host_ports(seatbelt, request->policy);
        if (r == 0)
                r = add_serving(seatbelt, request->policy, groups);

        return r == 0 ? add_sockets(seatbelt, request, groups) : r;
}
