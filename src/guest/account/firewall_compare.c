/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/account/firewall_compare.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "guest/account/guest_firewall.h"
#include "guest/account/guest_tool.h"
#include "guest/guest_place.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

static char *const nft_list[] = { (char *)"nft",  (char *)"list",         (char *)"table",
                                  (char *)"inet", (char *)FIREWALL_TABLE, NULL };

/*
 * As root.
 */
static int table_print(struct buf *out, struct err *err) {
        const struct guest_tool tool = { .argv = nft_list, .package = "nftables", .output = out, .quiet = true };

        return guest_tool_run(&tool, err);
}

static _Noreturn void wanted_main(struct str text, int to) {
        cleanup(buf_done) struct buf out = BUF(FIREWALL_TEXT_MAX);
        char *const argv[] = { (char *)"nft", (char *)"-f", (char *)"-", NULL };
        const struct guest_tool load = { .argv = argv, .package = "nftables", .input = text };
        struct err err = { 0 };

        if (unshare(CLONE_NEWNET) < 0 || guest_tool_run(&load, &err) < 0 || table_print(&out, &err) < 0)
                _exit(1);
        _exit(fd_write_all(to, out.p, out.n) < 0);
}

/* The table as nft prints it where nobody has changed it. */
static int wanted_print(struct str text, struct buf *out, struct err *err) {
        int ends[2], status = 0;

        if (pipe2(ends, O_CLOEXEC) < 0)
                return err_errno(err, "cannot make a pipe");
        cleanup(close_fd) int from = ends[0], to = ends[1];
        pid_t pid = fork();
        if (pid < 0)
                return err_errno(err, "cannot make a process");
        if (pid == 0)
                wanted_main(text, to);

        close_fd(&to);
        int r = fd_read_all(from, out);
        close_fd(&from);
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
                ;
        if (r < 0 || status != 0 || out->n == 0)
                return err_set(err, EIO, "nft cannot print the table that must be there");
        return 0;
}

static struct str line_next(struct str *rest) {
        struct str line = { 0 };

        if (!str_split(rest, '\n', &line))
                return STR("(its end)");
        while (line.n && (line.p[0] == '\t' || line.p[0] == ' '))
                line = str_skip(line, 1);
        return str_first(line, 80);
}

static int tables_compare(struct str wanted, struct str loaded, struct err *err) {
        while (wanted.n || loaded.n) {
                struct str right = line_next(&wanted), there = line_next(&loaded);

                if (!str_eq(right, there))
                        return err_set(err, EPERM,
                                       "table inet " FIREWALL_TABLE ": there is \"%.*s\" where \"%.*s\" must be",
                                       STR_FMT(there), STR_FMT(right));
        }
        return 0;
}

static int compare_table(struct firewall_state *ret, struct err *err) {
        cleanup(buf_done) struct buf text = BUF(FIREWALL_TEXT_MAX), wanted = BUF(FIREWALL_TEXT_MAX),
                                     loaded = BUF(FIREWALL_TEXT_MAX);
        struct err why = { 0 };
        int r = guest_firewall_text(&text, &ret->accounts, err);

        if (r < 0 || !ret->accounts)
                return r;
        ret->compared = true;

        r = wanted_print(buf_str(&text), &wanted, err);
        if (r < 0)
                return r;
        if (table_print(&loaded, &why) < 0)
                return err_set(err, EPERM, "there is no table inet " FIREWALL_TABLE);
        return tables_compare(buf_str(&wanted), buf_str(&loaded), err);
}

/*
 * Guests of this user.
 */
static int compare_attempts(struct firewall_state *ret, struct err *err) {
        cleanup(guests_close) struct guests guests = { 0 };
        cleanup(guest_rows_done) guest_rows rows = { 0 };
        struct err why = { 0 };

        if (!guests_are_there() || guests_open_as_is(&guests, &why) < 0 ||
            guests_db_list(guests.db, false, &rows, &why) < 0)
                return 0; /* what the database says of itself is said by every other verb */

        for (size_t i = 0; i < rows.n; i++) {
                cleanup(guest_done) struct guest guest = GUEST_NONE;

                if (guest_of_row(&guests, &rows.p[i], &guest, &why) < 0 || guest.kind != GUEST_ACCOUNT)
                        continue;
                ret->accounts++;
                int r = guest_firewall_check(&guest, err);
                if (r < 0)
                        return r;
        }

        return 0;
}

int firewall_compare(struct firewall_state *ret, struct err *err) {
        int r = 0;

        *ret = (struct firewall_state){ 0 };
        if (geteuid() == 0)
                r = compare_table(ret, err);
        if (r < 0)
                return r;

        struct firewall_state tried = { 0 };
        r = compare_attempts(&tried, err);
        if (!ret->compared)
                *ret = tried;
        return r;
}
