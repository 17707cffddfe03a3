/* SPDX-License-Identifier: Apache-2.0 */
#include "base/paths/account.h"

#include "base/vec.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool account_copy(const struct passwd *entry, struct account *ret) {
        if (strlen(entry->pw_name) >= sizeof ret->name || strlen(entry->pw_dir) >= sizeof ret->home)
                return false;

        *ret = (struct account){ .uid = entry->pw_uid, .gid = entry->pw_gid };
        memcpy(ret->name, entry->pw_name, strlen(entry->pw_name) + 1);
        memcpy(ret->home, entry->pw_dir, strlen(entry->pw_dir) + 1);
        if (entry->pw_gecos && strlen(entry->pw_gecos) < sizeof ret->comment)
                memcpy(ret->comment, entry->pw_gecos, strlen(entry->pw_gecos) + 1);
        return true;
}

/* By its name, or by its number where that is NULL. The first entry counts, as everywhere. */
static bool account_find(const char *name, uid_t uid, struct account *ret) {
        FILE *file = fopen("/etc/passwd", "re");
        bool found = false;
        if (!file)
                return false;

        for (const struct passwd *entry; (entry = fgetpwent(file));) {
                if (name ? strcmp(entry->pw_name, name) != 0 : entry->pw_uid != uid)
                        continue;

                found = account_copy(entry, ret);
                break;
        }

        fclose(file);
        return found;
}

bool account_by_uid(uid_t uid, struct account *ret) {
        return account_find(NULL, uid, ret);
}

bool account_by_name(const char *name, struct account *ret) {
        return account_find(name, 0, ret);
}

int account_each(int (*each)(void *arg, const struct account *account), void *arg) {
        FILE *file = fopen("/etc/passwd", "re");
        struct account account;
        int r = file ? 0 : -errno;

        for (const struct passwd *entry; r >= 0 && file && (entry = fgetpwent(file));)
                if (account_copy(entry, &account))
                        r = each(arg, &account);
        if (file)
                fclose(file);
        if (r < 0)
                return r;

        return 0;
}

static bool group_has(const struct group *group, const char *name) {
        for (char *const *member = group->gr_mem; *member; member++)
                if (strcmp(*member, name) == 0)
                        return true;
        return false;
}

int account_take_groups(const struct account *account) {
        VEC(gid_t) groups = { 0 };
        FILE *file = fopen("/etc/group", "re");
        int r = vec_push(&groups, account->gid);

        for (const struct group *group; file && r == 0 && (group = fgetgrent(file));)
                if (group->gr_gid != account->gid && group_has(group, account->name))
                        r = vec_push(&groups, group->gr_gid);
        if (file)
                fclose(file);

        if (r == 0 && setgroups(groups.n, groups.p) < 0)
                r = -errno;
        vec_done(&groups);
        return r;
}
