/* SPDX-License-Identifier: Apache-2.0 */
#include "base/paths/path.h"
#include "base/str.h"
#include "vault/reader_os.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { PIPE_ROOM = 65536 };

const uint64_t reader_settle_ns = 0; /* the end of writing is what is told */

int reader_notes_new(void) {
        return inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
}

void reader_notes_watch(int notes, const char *directory, struct watched *file) {
        file->at[0] = inotify_add_watch(notes, directory,
                                        IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_CREATE |
                                            IN_MOVE_SELF | IN_DELETE_SELF);
        file->at[1] = inotify_add_watch(notes, file->path, IN_CLOSE_WRITE | IN_ATTRIB | IN_MOVE_SELF | IN_DELETE_SELF);
}

/* In its directory only what has its name concerns it, unless it is a link: then any of its steps may be what changed.
 * A file that was only made has no content yet: its closing is waited for. */
static bool notes_count(const struct watched *file, const struct inotify_event *ev) {
        char target[PATH_MAX];
        if (readlink(file->path, target, sizeof target) > 0)
                return true;
        if (ev->mask & IN_CREATE)
                return false;
        return ev->len == 0 || str_eq(path_basename(file->path), str_of(ev->name));
}

void reader_notes_read(int notes, struct watched *files, size_t n_files) {
        _Alignas(struct inotify_event) char events[4096];
        ssize_t n;

        while ((n = read(notes, events, sizeof events)) > 0)
                for (ssize_t at = 0; at < n;) {
                        const struct inotify_event *ev = (const void *)(events + at);

                        for (size_t i = 0; i < n_files; i++) {
                                struct watched *file = &files[i];
                                bool mine = ev->wd == file->at[0] || ev->wd == file->at[1];
                                if ((ev->mask & IN_Q_OVERFLOW) || (mine && file->path[0] && notes_count(file, ev)))
                                        file->changed = true;
                        }

                        at += (ssize_t)(sizeof *ev + ev->len);
                }
}

void reader_widen(int pipe) {
        (void)fcntl(pipe, F_SETPIPE_SZ, PIPE_ROOM);
}

void reader_end_with_parent(void) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        prctl(PR_SET_NAME, "vault-reader");
}
