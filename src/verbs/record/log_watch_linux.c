/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs/record/log_view_internal.h"

#include "base/fd.h"

#include <sys/inotify.h>

int log_watch(const char *directory) {
        int watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);

        if (watch >= 0 && inotify_add_watch(watch, directory, IN_MODIFY | IN_CREATE | IN_MOVED_TO) < 0)
                close_fd(&watch);
        return watch;
}
