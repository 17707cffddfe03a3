/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/account/guest_groups.h"

#include "base/cleanup.h"
#include "base/paths/path.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

enum { GROUPS_MAX = 16 << 20 };

int guest_groups_filter(struct str text, struct buf *ret) {
        struct str line;
        int r = 0;

        while (r == 0 && str_split(&text, '\n', &line)) {
                if (str_starts(line, STR("tty:")) || (line.n == 0 && text.n == 0))
                        continue;

                r = buf_append(ret, line);
                if (r == 0)
                        r = buf_add_char(ret, '\n');
        }

        return r;
}

int guest_groups_write(const struct guest *guest, char **ret, struct err *err) {
        cleanup(buf_done) struct buf text = BUF(GROUPS_MAX), kept = BUF(GROUPS_MAX + 1);
        cleanup(free_ptr) char *path = path_join(guest->directory, GUEST_GROUPS_FILE);

        if (!path)
                return err_memory(err);
        if (access("/etc/group", R_OK) < 0)
                return 0;

        int r = path_read_file("/etc/group", GROUPS_MAX, &text, err);
        if (r < 0)
                return r;

        r = guest_groups_filter(buf_str(&text), &kept);
        if (r < 0)
                return err_set(err, -r, "cannot keep the groups for the guest: %s", strerror(-r));

        /* For everybody inside; the directory is closed to all others. */
        r = path_replace_file(path, buf_str(&kept), 0644, err);
        if (r < 0)
                return r;

        *ret = path;
        path = NULL;
        return 0;
}
