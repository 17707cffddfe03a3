/* SPDX-License-Identifier: Apache-2.0 */
/* bailey guest set: what a guest was made with, changed. */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "cli/verb_guest_internal.h"
#include "guest/guest_disk.h"
#include "guest/guest_settings.h"
#include "verbs/policy_options.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { SET_DISK, SET_IDLE, SET_UNSET, SET_ROWS };
static const struct option set_rows[] = {
        [SET_DISK] = { .flag = "disk",
                       .type = OPTION_SIZE,
                       .metavar = "SIZE",
                       .help = "how much its home may take; 0 for no limit of its own; holds at once" },
        [SET_IDLE] = { .flag = "idle",
                       .type = OPTION_DURATION,
                       .metavar = "TIME",
                       .max = INT64_MAX / 2,
                       .help = "a running guest ends when nothing was asked of it for so long; 0 for never" },
        [SET_UNSET] = { .flag = "unset",
                        .type = OPTION_LIST,
                        .metavar = "OPTION",
                        .help = "forget what is kept for this option of the policy" },
};
static_assert(sizeof set_rows / sizeof *set_rows == SET_ROWS, "one row each");
static const struct option_table set_table = { "This guest", set_rows, SET_ROWS };

static int set_unset(const struct call *call, struct guests *guests, const struct guest *guest, struct err *err) {
        const struct option_value *value;
        int r = 0;

        for (size_t i = 0; r == 0 && (value = option_next(&call->options, &set_rows[SET_UNSET], &i));) {
                const char *flag = strncmp(value->text, "--", 2) == 0 ? value->text + 2 : value->text;

                if (!guest_setting_row(flag)) {
                        err_blame(err, ERR_USAGE);
                        return err_set(err, EINVAL, "--unset %s: the policy has no option --%s", value->text, flag);
                }

                r = guests_db_clear_setting(guests->db, guest->row.id, flag, err);
        }

        return r;
}

static bool option_adds_up(const struct option *option) {
        return option->type == OPTION_LIST || option->type == OPTION_PATHS || option->type == OPTION_MAP;
}

/* An option with one value takes the place of what was kept; lists grow. */
static int set_options(const struct call *call, struct guests *guests, const struct guest *guest, size_t *ret_n,
                       struct err *err) {
        for (size_t i = 0; i < call->options.values.n; i++) {
                const struct option_value *value = &call->options.values.p[i];
                const char *flag = value->option->flag;
                int r = 0;

                if (!flag || guest_setting_row(flag) != value->option)
                        continue;

                if (!option_adds_up(value->option))
                        r = guests_db_clear_setting(guests->db, guest->row.id, flag, err);
                if (r == 0)
                        r = guest_setting_keep(guests, guest->row.id, value->option, value->text, err);
                if (r < 0)
                        return r;

                ++*ret_n;
        }

        return 0;
}

/* All that is kept now, as the next start will find it. */
static int set_check(struct guests *guests, const struct guest *guest, struct err *err) {
        cleanup(option_values_done) struct option_values values = { 0 };
        int r = guest_options(guests, guest, NULL, &values, err);

        if (r < 0)
                return r;

        return guest_settings_check(guests, &values, err);
}

static int set_rows_of(const struct call *call, struct guests *guests, const struct guest *guest, size_t *ret_later,
                       struct err *err) {
        const struct option_values *values = &call->options;
        int r = set_unset(call, guests, guest, err);

        *ret_later = option_given(values, &set_rows[SET_UNSET]) || option_given(values, &set_rows[SET_IDLE]);
        size_t before = *ret_later;
        if (r == 0)
                r = set_options(call, guests, guest, ret_later, err);
        if (r == 0 && *ret_later > before)
                r = set_check(guests, guest, err);
        if (r == 0 && option_given(values, &set_rows[SET_DISK]))
                r = guests_db_set_disk(guests->db, guest->row.id, option_get_number(values, &set_rows[SET_DISK]), err);
        if (r == 0 && option_given(values, &set_rows[SET_IDLE]))
                r = guests_db_set_idle(guests->db, guest->row.id,
                                       option_get_number(values, &set_rows[SET_IDLE]) / NS_PER_SECOND, err);
        return r;
}

static int run_set(const struct call *call, struct err *err) {
        cleanup(guests_close) struct guests guests = { 0 };
        cleanup(guest_done) struct guest guest = GUEST_NONE;
        size_t later = 0;
        int code = guest_open_held(call, &guests, &guest, err);

        if (code != EXIT_OK)
                return code;

        int r = guests_db_begin(guests.db, err);
        if (r == 0)
                r = set_rows_of(call, &guests, &guest, &later, err);
        if (r == 0)
                r = guests_db_commit(guests.db, err);
        if (r < 0) {
                guests_db_rollback(guests.db);
                return exit_of_guest(r, err);
        }

        if (option_given(&call->options, &set_rows[SET_DISK])) {
                struct err why = { 0 };

                if (guest_disk_limit_changed(&guest, &why) < 0)
                        log_warning("the limit of disk is kept, and a guest that runs learns of it later: %s",
                                    err_text(&why));
        }

        if (later && guest_is_running(&guest))
                printf("%s: kept; what is not the limit of disk holds from its next start on\n", guest.row.name);

        return EXIT_OK;
}

const struct verb verb_guest_set = {
        .name = "set",
        .flags = VERB_GUEST,
        .synopsis = "[OPTIONS] NAME",
        .help = "change a guest's limits, and the options that are kept with it",
        .about = "An option of the policy that has one value takes the place of the one that was kept; one that is a "
                 "list (--allow, --read) is added to. They hold from the next start on. A limit of disk holds within "
                 "some ten seconds also for a guest that runs: one that is over it is frozen, and one that was frozen "
                 "because of it "
                 "goes on.",
        .tables = { &set_table, &policy_table_general, &policy_table_network, &policy_table_files,
                    &policy_table_process, &policy_table_limits },
        .min_words = 1,
        .max_words = 1,
        .run = run_set,
};
