/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/guest_settings.h"

#include "base/cleanup.h"
#include "base/paths/path.h"
#include "policy/load.h"
#include "policy/options.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

const struct option *guest_setting_row(const char *flag) {
        static const struct option_table *const tables[] = { &policy_table_general, &policy_table_network,
                                                             &policy_table_files, &policy_table_process,
                                                             &policy_table_limits };

        return option_find(tables, sizeof tables / sizeof *tables, str_of(flag));
}

/* "~" is the same home at each start, and a double star holds anywhere. */
static bool is_relative(const struct option *row, const char *text) {
        bool path = row->type == OPTION_PATH || row->type == OPTION_PATHS;

        return path && text[0] && text[0] != '/' && text[0] != '~' && strncmp(text, "**/", 3) != 0;
}

int guest_setting_text(const struct option *row, const char *text, char **ret, struct err *err) {
        char current[PATH_MAX];

        if (!is_relative(row, text)) {
                *ret = str_dup(str_of(text));
                if (!*ret)
                        return err_memory(err);

                return 0;
        }

        if (!getcwd(current, sizeof current) || current[0] != '/')
                return err_errno(err, "--%s %s: the current directory has no name", row->flag, text);

        int r = path_normalise(str_of(text), current, ret);
        if (r < 0)
                return err_set(err, -r, "--%s %s: the path cannot be made absolute", row->flag, text);

        return 0;
}

int guest_setting_keep(struct guests *guests, const char *id, const struct option *row, const char *text,
                       struct err *err) {
        cleanup(free_ptr) char *kept = NULL;
        int r = guest_setting_text(row, text, &kept, err);

        if (r < 0)
                return r;

        return guests_db_add_setting(guests->db, id, row->flag, kept, err);
}

/* Its home may not be there yet; no part of a policy depends on what is in it. */
int guest_settings_check(const struct guests *guests, const struct option_values *values, struct err *err) {
        cleanup(policy_freep) struct policy *policy = NULL;
        const struct policy_request request = { .workspace = guests->top, .command_line = values, .guest = true };

        err_blame(err, ERR_CONFIG);
        int r = policy_load(&request, &policy, err);
        if (r == 0)
                err_blame(err, ERR_SYSTEM);

        return r;
}
