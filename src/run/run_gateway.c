/* SPDX-License-Identifier: Apache-2.0 */
#include "run/run_gateway.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "roles/gateway_config.h"
#include "roles/host_addresses.h"

#include <errno.h>
#include <stdio.h>

static const uint16_t kinds[] = {
        [PLAN_LISTENER_HTTP] = LISTENER_HTTP,
        [PLAN_LISTENER_SOCKS5] = LISTENER_SOCKS5,
        [PLAN_LISTENER_DNS_UDP] = LISTENER_DNS_UDP,
        [PLAN_LISTENER_DNS_TCP] = LISTENER_DNS_TCP,
        [PLAN_LISTENER_TRANSPARENT] = LISTENER_TRANSPARENT,
        [PLAN_LISTENER_HOST_PORT] = LISTENER_FORWARD,
        [PLAN_LISTENER_API] = LISTENER_API,
        [PLAN_LISTENER_PACKETS] = LISTENER_PACKETS,
        [PLAN_LISTENER_SHIM] = LISTENER_SHIM,
        [PLAN_LISTENER_AGENT] = LISTENER_AGENT,
};

static int copy_text(char *to, size_t max, const char *text, const char *what, struct err *err) {
        int n = snprintf(to, max, "%s", text_or(text, ""));
        if (n < 0 || (size_t)n >= max)
                return err_set(err, E2BIG, "%s is longer than %zu bytes", what, max - 1);
        return 0;
}

static uint32_t current_log_level(void) {
        for (uint32_t level = LOG_DEBUG; level > LOG_ERROR; level--)
                if (log_enabled((enum log_level)level))
                        return level;
        return LOG_ERROR;
}

int run_gateway_start(const struct policy *policy, const struct plan *plan, const char *sandbox_id,
                      const struct run_request *request, struct gateway_start *ret, struct err *err) {
        *ret = (struct gateway_start){ .dns_mode = DNS_SYNTHETIC, .log_level = current_log_level() };

        for (size_t i = 0; i < plan->listeners.n && i < GATEWAY_LISTENERS_MAX; i++) {
                const struct plan_listener *listener = &plan->listeners.p[i];
                bool own = listener->kind == PLAN_LISTENER_BRIDGE || listener->kind == PLAN_LISTENER_CALLBACK;
                if (!own) /* the supervisor's own are the last */
                        ret->listeners[i] = (struct gateway_listener){ kinds[listener->kind], listener->forward_port };
        }

        if (plan->flags & PLAN_DEGRADED) { /* on the host's loopback, in this order: see run.c */
                ret->listeners[0].kind = LISTENER_HTTP;
                ret->listeners[1].kind = LISTENER_SOCKS5;
        }

        ret->ask_signing = policy->signing.ask;
        int r = copy_text(ret->sandbox_id, sizeof ret->sandbox_id, sandbox_id, "the sandbox's name", err);
        if (r == 0)
                r = copy_text(ret->hosts_file, sizeof ret->hosts_file, request->hosts_file, "the hosts file's path",
                              err);

        if (r == 0)
                r = copy_text(ret->ca_bundle, sizeof ret->ca_bundle, request->ca_bundle, "the path of the roots", err);
        if (r < 0)
                return r;

        return gateway_config_apply(ret, policy, err);
}
