/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/account/guest_spools.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/files/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* On Debian and on others. Where two names lead to one directory, the second finds nothing any more. */
static const struct spool {
        const char *directory;
        bool by_owner; /* its entries have names of their own, and belong to the uid */
} spools[] = {
        { "/var/spool/cron/crontabs", false },
        { "/var/spool/cron", false },
        { "/var/spool/cron/tabs", false },
        { "/var/mail", false },
        { "/var/spool/mail", false },
        { "/var/lib/systemd/linger", false },
        { "/var/spool/cron/atjobs", true },
        { "/var/spool/cron/atspool", true },
        { "/var/spool/at", true },
        { "/var/spool/at/spool", true },
        { "/var/spool/atjobs", true },
};

static int entry_remove(const char *directory, int fd, const char *name, struct err *err) {
        int r = tree_remove(fd, name);

        if (r < 0)
                return err_set(err, -r, "cannot remove %s/%s: %s", directory, name, strerror(-r));

        return 0;
}

static int owned_remove(const char *directory, int fd, uid_t uid, struct err *err) {
        DIR *list = fdopendir(fd);
        struct stat st;
        int r = 0;

        if (!list) {
                r = err_errno(err, "cannot list %s", directory);
                close(fd);
                return r;
        }

        for (const struct dirent *entry; r == 0 && (entry = readdir(list));)
                if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
                    fstatat(fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_uid == uid)
                        r = entry_remove(directory, fd, entry->d_name, err);

        closedir(list);
        return r;
}

int guest_spools_clear(const char *account, uid_t uid, struct err *err) {
        for (size_t i = 0; i < sizeof spools / sizeof *spools; i++) {
                const char *directory = spools[i].directory;
                cleanup(close_fd) int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

                if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
                        continue;
                if (fd < 0)
                        return err_errno(err, "cannot open %s", directory);

                int r = spools[i].by_owner ? owned_remove(directory, take_fd(&fd), uid, err)
                                           : entry_remove(directory, fd, account, err);
                if (r < 0)
                        return r;
        }

        return 0;
}
