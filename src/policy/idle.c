/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/idle.h"

#include "base/cleanup.h"
#include "policy/groups.h"
#include "policy/match/pattern.h"

#include <stdlib.h>

/* The address that the pattern is, or begins with; false: it is a name. */
static bool address_of(struct str text, struct pattern *pattern, struct addr *ret) {
        if (group_is_reference(text) || pattern_parse_user(text, pattern, NULL) < 0)
                return false;

        if (pattern->kind == PATTERN_NET) {
                *ret = pattern->net.addr;
                return true;
        }

        *ret = pattern->host.addr;
        return pattern->host.kind == HOST_ADDR;
}

/* Opened for some port, by an entry for it or around it. */
static bool is_opened(const struct policy *policy, const struct addr *addr) {
        for (size_t i = 0; i < policy->network.allow_private.n; i++) {
                struct pattern opener;
                struct addr first;

                if (!address_of(str_of(policy->network.allow_private.p[i].text), &opener, &first))
                        continue;
                if (opener.kind == PATTERN_NET ? cidr_contains(&opener.net, addr) : addr_equal(&first, addr))
                        return true;
        }

        return false;
}

static char *idle_allow(const struct policy *policy, const struct origin_text *entry) {
        struct pattern pattern;
        struct addr addr;

        if (!address_of(str_of(entry->text), &pattern, &addr) || policy->network.deny_cidrs_set)
                return NULL;

        enum addr_class class = addr_classify(&addr);
        if (class == ADDR_CLASS_PUBLIC || is_opened(policy, &addr) ||
            (pattern.kind == PATTERN_NET && pattern.net.bits == 0))
                return NULL;

        if (class == ADDR_CLASS_LOOPBACK)
                return str_format(
                    "%s: %s under allow opens nothing: inside, it is the sandbox's own loopback; for a service "
                    "of this host use host_port, or allow_private with host.bailey.internal:PORT",
                    entry->origin, entry->text);

        return str_format("%s: %s under allow opens nothing: a %s address is opened by allow_private, with a port",
                          entry->origin, entry->text, addr_class_name(class));
}

static char *idle_private(const struct origin_text *entry) {
        struct pattern pattern;
        struct addr addr;

        if (!address_of(str_of(entry->text), &pattern, &addr))
                return NULL;

        enum addr_class class = addr_classify(&addr);
        if (class != ADDR_CLASS_METADATA && class != ADDR_CLASS_UNSPECIFIED)
                return NULL;

        return str_format("%s: %s under allow_private opens nothing: no rule opens a %s address", entry->origin,
                          entry->text, addr_class_name(class));
}

void policy_idle_grants(const struct policy *policy, void (*say)(void *arg, const char *text), void *arg) {
        for (size_t i = 0; i < policy->network.allow.n; i++) {
                cleanup(free_ptr) char *text = idle_allow(policy, &policy->network.allow.p[i]);
                if (text)
                        say(arg, text);
        }

        for (size_t i = 0; i < policy->network.allow_private.n; i++) {
                cleanup(free_ptr) char *text = idle_private(&policy->network.allow_private.p[i]);
                if (text)
                        say(arg, text);
        }
}
