/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/account/guest_ids.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/paths/account.h"
#include "base/paths/path.h"
#include "base/processes/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { SUB_FILE_MAX = 4 << 20, NOBODY_INSIDE = 65534 };

/* "name:first:count" */
static bool sub_line(struct str line, const char *user, uint32_t uid, struct sub_range *ret) {
        struct str part[3];
        uint64_t first, count, number;

        for (size_t i = 0; i < 3; i++)
                if (!str_split(&line, ':', &part[i]))
                        return false;

        if (line.n || !(str_is(part[0], user) || (str_to_u64(part[0], UINT32_MAX, &number) && number == uid)))
                return false;
        if (!str_to_u64(part[1], UINT32_MAX, &first) || !str_to_u64(part[2], UINT32_MAX, &count))
                return false;
        if (first == 0 || count == 0 || first + count > UINT32_MAX)
                return false;

        *ret = (struct sub_range){ (uint32_t)first, (uint32_t)count };
        return true;
}

bool sub_range_find(struct str text, const char *user, uint32_t uid, struct sub_range *ret) {
        struct sub_range best = { 0 }, range;
        struct str line;

        while (str_split(&text, '\n', &line))
                if (sub_line(line, user, uid, &range) && range.count > best.count)
                        best = range;

        if (best.count)
                *ret = best;

        return best.count > 0;
}

static bool id_is_taken(uint32_t id, const uint32_t *taken, size_t n) {
        for (size_t i = 0; i < n; i++)
                if (taken[i] == id)
                        return true;
        return false;
}

uint32_t sub_range_pick(struct sub_range range, const uint32_t *taken, size_t n) {
        for (uint32_t left = range.count; left > 0; left--) {
                uint32_t id = range.first + left - 1;
                /* In a map that begins with 1, the id before the last of 65536 is nobody. */
                if (left != NOBODY_INSIDE && !id_is_taken(id, taken, n))
                        return id;
        }
        return 0;
}

/* Ids of guests that are there, and of homes that were kept. */
static int ids_taken(struct guests *guests, uint32_t **ret, size_t *ret_n, struct err *err) {
        cleanup(guest_rows_done) guest_rows rows = { 0 };
        int r = guests_db_list(guests->db, true, &rows, err);

        if (r < 0)
                return r;

        uint32_t *taken = calloc(2 * rows.n + 1, sizeof *taken);
        size_t n = 0;
        if (!taken)
                return err_set(err, ENOMEM, "out of memory");

        for (size_t i = 0; i < rows.n; i++) {
                cleanup(free_ptr) char *directory = path_join(guests->top, rows.p[i].id);
                if (directory && strcmp(rows.p[i].state, "deleted") == 0 && access(directory, F_OK) < 0)
                        continue;

                taken[n++] = rows.p[i].uid;
                taken[n++] = rows.p[i].gid;
        }

        *ret = taken;
        *ret_n = n;

        return 0;
}

static bool range_of_file(const char *path, struct sub_range *ret) {
        cleanup(buf_done) struct buf text = BUF(SUB_FILE_MAX);
        struct account own = { 0 };
        cleanup(close_fd) int fd = open(path, O_RDONLY | O_CLOEXEC);

        (void)account_by_uid(geteuid(), &own); /* without one its name is empty, and the number counts */
        return fd >= 0 && fd_read_all(fd, &text) == 0 && sub_range_find(buf_str(&text), own.name, geteuid(), ret);
}

int guest_ids_choose(struct guests *guests, uint32_t *ret_uid, uint32_t *ret_gid, char *ret_why, struct err *err) {
        static char *const environment[] = { (char *)"PATH=/usr/bin:/bin:/usr/sbin:/sbin", NULL };
        cleanup(free_ptr) uint32_t *taken = NULL;
        struct sub_range users, groups;
        char path[PATH_MAX];
        size_t n = 0;

        if (!range_of_file("/etc/subuid", &users) || !range_of_file("/etc/subgid", &groups)) {
                snprintf(ret_why, ERR_TEXT_MAX,
                         "you have no subordinate ids (/etc/subuid, /etc/subgid; root adds them with usermod "
                         "--add-subuids 100000-165535 --add-subgids 100000-165535 NAME)");
                return 0;
        }

        if (geteuid() != 0 &&
            (!spawn_find("newuidmap", environment, path) || !spawn_find("newgidmap", environment, path))) {
                snprintf(ret_why, ERR_TEXT_MAX, "newuidmap is missing (package uidmap)");
                return 0;
        }

        int r = ids_taken(guests, &taken, &n, err);
        if (r < 0)
                return r;

        *ret_uid = sub_range_pick(users, taken, n);
        *ret_gid = sub_range_pick(groups, taken, n);
        if (*ret_uid && *ret_gid)
                return 1;

        snprintf(ret_why, ERR_TEXT_MAX, "every subordinate id of yours belongs to a guest already");
        return 0;
}
