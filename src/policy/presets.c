/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/presets.h"

#include "conf/suggest.h"
#include "policy/home_kind.h"

#include <errno.h>

#define VALUES(...)                                                                                                    \
        .values = (const struct preset_value[]){ __VA_ARGS__ },                                                        \
        .n = sizeof((const struct preset_value[]){ __VA_ARGS__ }) / sizeof(struct preset_value)

const struct preset policy_presets[] = {
        { "default", "strict: writes in the workspace, network by policy", .values = NULL, .n = 0 },
        { "development", "open network; runs with less where the machine cannot do all",
          VALUES({ ROW_MODE, "full-network" }, { ROW_HOME, HOME_WORD_REAL }, { ROW_ALLOW_DEGRADED, "true" }) },
        { "ci", "strict: writes in the workspace, no network, nobody to ask",
          VALUES({ ROW_MODE, "workspace-write" }, { ROW_ASK, "never" }) },
};
const size_t n_policy_presets = sizeof policy_presets / sizeof policy_presets[0];

const struct preset *preset_find(struct str name, struct err *err) {
        struct suggestion suggestion = suggest_for(name);

        for (size_t i = 0; i < n_policy_presets; i++) {
                if (str_is(name, policy_presets[i].name))
                        return &policy_presets[i];
                suggest_offer(&suggestion, policy_presets[i].name);
        }

        err_set(err, ENOENT, "there is no preset %s%s", show(name).text, suggest_text(&suggestion, "").text);
        return NULL;
}
