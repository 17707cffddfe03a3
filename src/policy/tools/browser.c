/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/tools/browser.h"

#include "base/clock.h"
#include "conf/suggest.h"
#include "policy/check.h"
#include "policy/match/pattern.h"
#include "policy/tools/tools.h"

#include <errno.h>

const char *const browser_names[] = { "xdg-open", "open", "sensible-browser", "x-www-browser", "www-browser", NULL };

bool policy_has_browser(const struct policy *policy) {
        return policy->browser.hosts.n > 0;
}

bool browser_is_name(struct str name) {
        for (size_t i = 0; browser_names[i]; i++)
                if (str_is(name, browser_names[i]))
                        return true;
        return false;
}

bool browser_allows(const struct policy *policy, const struct authority *target, const struct origin_text **ret_rule) {
        for (size_t i = 0; i < policy->browser.hosts.n; i++) {
                const struct origin_text *entry = &policy->browser.hosts.p[i];
                struct pattern pattern;
                bool any = strcmp(entry->text, "*") == 0;

                if (!any && (pattern_parse_user(str_of(entry->text), &pattern, NULL) < 0 ||
                             !pattern_matches(&pattern, &target->host, target->port)))
                        continue;

                *ret_rule = entry;
                return true;
        }

        return false;
}

uint64_t browser_callback_ns(const struct policy *policy) {
        return policy->browser.callback_ns ? policy->browser.callback_ns : BROWSER_CALLBACK_SECONDS * NS_PER_SECOND;
}

int check_browser_host(struct str text, struct err *err) {
        if (str_is(text, "*"))
                return 0;
        return check_plain_pattern(text, err);
}

int check_browser_program(struct str text, struct err *err) {
        if (str_is(text, "none") || (text.n > 1 && text.p[0] == '/'))
                return 0;
        return err_set(err, EINVAL, "%s: the program that opens pages is a whole path, as /usr/bin/xdg-open, or none",
                       show(text).text);
}

int browser_settle(const struct policy *policy, struct err *err) {
        if (!policy_has_browser(policy))
                return 0;

        for (size_t i = 0; i < policy->browser.hosts.n && !policy->browser.ask; i++)
                if (strcmp(policy->browser.hosts.p[i].text, "*") == 0)
                        return err_set(err, EINVAL,
                                       "%s: pages of every host would be opened without a question; name the hosts, or "
                                       "leave out browser.ask: false",
                                       policy->browser.hosts.p[i].origin);

        for (size_t i = 0; browser_names[i]; i++) {
                const struct bridge_tool *tool = tool_find(policy, str_of(browser_names[i]));
                if (tool)
                        return err_set(
                            err, EINVAL,
                            "%s: %s opens pages (see `browser`), so that no tool of this name can be bridged",
                            tool->origin, tool->name);
        }

        return 0;
}
