/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/guest_rules.h"

#include "base/cleanup.h"
#include "policy/approved.h"

#include <errno.h>
#include <string.h>

int guest_rules(const struct guest *guest, guest_on_rule *on, void *arg, struct err *err) {
        cleanup(approved_done) struct approved approved = { 0 };
        cleanup(free_ptr) char *path = NULL;
        int r = approved_path(&path);

        if (r < 0)
                return err_set(err, -r, "there is no home directory");

        r = approved_read(path, &approved, err);
        for (size_t i = 0; i < approved.rules.n && r == 0; i++) {
                const struct approved_rule *rule = &approved.rules.p[i];

                if (rule->workspace && strcmp(rule->workspace, guest->home) == 0)
                        r = on(arg, rule->deny, rule->pattern, rule->day);
        }

        return r;
}
