/* SPDX-License-Identifier: Apache-2.0 */
/*
 * By a queue of the kernel's. It tells that a directory has changed, not which name: so what the file is then is
 * compared with what it was. Never yet run on a Mac.
 */
#include "vault/reader_os.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/hash.h"

#include <fcntl.h>
#include <sys/event.h>
#include <sys/stat.h>
#include <unistd.h>

enum { AT_ONCE = 64, SETTLE_MS = 100 };

const uint64_t reader_settle_ns = SETTLE_MS * NS_PER_MS; /* every write is told, not the last one */

int reader_notes_new(void) {
        return kqueue();
}

static uint64_t stamp_of(const char *path) {
        struct stat st;
        if (stat(path, &st) < 0)
                return 0;

        const uint64_t parts[] = { (uint64_t)st.st_ino, (uint64_t)st.st_size, (uint64_t)st.st_mtim.tv_sec,
                                   (uint64_t)st.st_mtim.tv_nsec, (uint64_t)st.st_mode };
        return hash_bytes(hash_seed(), parts, sizeof parts) | 1;
}

static void notes_add(int notes, const char *path, int *at) {
        struct kevent kevent_of;

        close_fd(at); /* the queue forgets it */
        *at = open(path, O_EVTONLY | O_CLOEXEC | O_NONBLOCK);
        if (*at < 0)
                return;

        EV_SET(&kevent_of, *at, EVFILT_VNODE, EV_ADD | EV_CLEAR,
               NOTE_WRITE | NOTE_EXTEND | NOTE_ATTRIB | NOTE_RENAME | NOTE_DELETE | NOTE_REVOKE, 0, NULL);
        if (kevent(notes, &kevent_of, 1, NULL, 0, NULL) < 0)
                close_fd(at);
}

void reader_notes_watch(int notes, const char *directory, struct watched *file) {
        notes_add(notes, directory, &file->at[0]);
        notes_add(notes, file->path, &file->at[1]);
        file->stamp = stamp_of(file->path);
}

void reader_notes_read(int notes, struct watched *files, size_t n_files) {
        const struct timespec now = { 0, 0 };
        struct kevent events[AT_ONCE];
        int n;

        do {
                n = kevent(notes, NULL, 0, events, AT_ONCE, &now);
        } while (n == AT_ONCE); /* each tells that to look is worth it, and no more */

        for (size_t i = 0; i < n_files; i++)
                if (files[i].path[0] && files[i].stamp != stamp_of(files[i].path))
                        files[i].changed = true;
}

/* Its pipes grow by themselves. */
void reader_widen(int pipe) {
        (void)pipe;
}

/* Nothing ends with its parent there. The reader ends when its socket does; it ends its readings itself. */
void reader_end_with_parent(void) {
}
