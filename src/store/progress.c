/* SPDX-License-Identifier: Apache-2.0 */
#include "store/progress.h"

#include "base/bounds.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/files/lock_file.h"
#include "base/paths/path.h"
#include "conf/dirs.h"
#include "conf/json.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

/* A note is padded to one size, so that each write takes the place of the one before. */
enum {
        FIRST_MS = 250,
        TERMINAL_MS = 250,
        LINE_MS = 10000,
        NOTE_MS = 250,
        TEXT_MAX = 400,
        NOTE_BYTES = 1024,
        NOTES_MAX = 64
};
#define MEGABYTE 1000000.0
#define PLACE "work"
#define NUMBER_MAX (UINT64_C(1) << 53) /* what a browser counts exactly */

static const char *const units[] = { [PROGRESS_BYTES] = "bytes", [PROGRESS_STEPS] = "steps", [PROGRESS_TIME] = "" };

/* --- the note --- */

static int note_text(const struct progress *progress, struct buf *out) {
        struct emit j = emit_to(out);

        emit_open(&j, '{');
        emit_put_string(&j, "what", str_first(str_of(progress->what), TEXT_MAX / 2));
        emit_put_text(&j, "unit", units[progress->unit]);
        emit_put_number(&j, "since_us", progress->since_us);
        emit_put_number(&j, "done", progress->done);
        emit_put_number(&j, "total", progress->total);
        emit_close(&j);

        int r = emit_status(&j);
        while (r == 0 && out->n < NOTE_BYTES)
                r = buf_add_char(out, out->n + 1 < NOTE_BYTES ? ' ' : '\n');
        return r;
}

static char *notes_place(void) {
        cleanup(free_ptr) char *state = NULL;

        if (dirs_state(&state) < 0)
                return NULL;

        return path_join(state, PLACE);
}

void progress_open(struct progress *progress) {
        cleanup(buf_done) struct buf text = BUF(NOTE_BYTES);
        cleanup(free_ptr) char *place = notes_place();

        progress->note = -1;
        progress->since_us = clock_wall_us();
        if (!progress->what || !place || path_make_private_dir(place, NULL) < 0 || note_text(progress, &text) < 0)
                return;

        progress->path = str_format("%s/%d-%ju", place, (int)getpid(), (uintmax_t)clock_ns());
        if (progress->path)
                (void)lock_file_new(AT_FDCWD, progress->path, buf_str(&text), &progress->note);
}

static void note_write(struct progress *progress, uint64_t now_ns) {
        cleanup(buf_done) struct buf text = BUF(NOTE_BYTES);

        if (progress->note < 0 || now_ns < progress->note_ns)
                return;

        progress->note_ns = now_ns + NOTE_MS * NS_PER_MS;
        if (note_text(progress, &text) == 0 && pwrite(progress->note, text.p, text.n, 0) < 0)
                close_fd(&progress->note); /* no room: the note that there is says enough */
}

void progress_close(struct progress *progress) {
        progress_clear(progress);
        if (progress->path)
                (void)unlink(progress->path);

        free(progress->path);
        progress->path = NULL;
        close_fd(&progress->note);
}

/* --- standard error --- */

static void progress_show(const struct progress *progress) {
        char text[TEXT_MAX];
        int n;

        if (progress->unit == PROGRESS_STEPS)
                n = snprintf(text, sizeof text, "%.200s, %ju of %ju", progress->what, (uintmax_t)progress->done,
                             (uintmax_t)progress->total);
        else if (progress->total)
                n = snprintf(text, sizeof text, "%.200s, %u %% of %.1f MB", progress->what,
                             (unsigned)(progress->done * 100 / progress->total), (double)progress->total / MEGABYTE);
        else
                n = snprintf(text, sizeof text, "%.200s, %.1f MB so far", progress->what,
                             (double)progress->done / MEGABYTE);
        if (n <= 0)
                return;

        /* One write each: the line stays whole even if others write. */
        if (progress->terminal)
                (void)dprintf(STDERR_FILENO, "\r\033[K%s", text);
        else
                (void)dprintf(STDERR_FILENO, "bailey: %s\n", text);
}

static void line_write(struct progress *progress, uint64_t now_ns) {
        if (progress->silent || now_ns < progress->next_ns)
                return;

        progress->next_ns = now_ns + (progress->terminal ? TERMINAL_MS : LINE_MS) * NS_PER_MS;
        progress->shown = true;
        progress_show(progress);
}

void progress_add(struct progress *progress, uint64_t n) {
        if (!progress->what)
                return;

        uint64_t now_ns = clock_ns();
        if (!progress->begun) {
                progress->begun = true;
                progress->terminal = isatty(STDERR_FILENO);
                progress->next_ns = now_ns + (progress->terminal ? FIRST_MS : LINE_MS) * NS_PER_MS;
        }

        progress->done += n;
        line_write(progress, now_ns);
        note_write(progress, now_ns);
}

void progress_clear(struct progress *progress) {
        if (progress->shown && progress->terminal)
                (void)dprintf(STDERR_FILENO, "\r\033[K");
        progress->shown = false;
}

/* --- all of them --- */

/* False: nobody works on it any more, or it is none. */
static bool note_read(int place, const char *name, char ret[static NOTE_BYTES + 1]) {
        cleanup(close_fd) int fd = openat(place, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

        if (fd < 0)
                return false;
        if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
                (void)unlinkat(place, name, 0);
                return false;
        }

        ssize_t n = pread(fd, ret, NOTE_BYTES, 0);
        ret[n > 0 ? n : 0] = '\0';
        return n == NOTE_BYTES && ret[0] == '{' && ret[NOTE_BYTES - 1] == '\n';
}

/* Field by field: whoever works on it may be a guest's own user by then. */
static void note_emit(struct emit *json, const char *note) {
        cleanup(document_freep) struct document *document = NULL;
        const struct node *root =
            json_read(str_of(note), STR(PLACE), &document, NULL) < 0 ? NULL : document_root(document);
        const struct node *what = root && root->kind == NODE_MAP ? node_get(root, STR("what")) : NULL;
        const struct node *unit = what ? node_get(root, STR("unit")) : NULL;
        static const char *const numbers[] = { "since_us", "done", "total" };

        if (!what || what->kind != NODE_SCALAR || !unit || unit->kind != NODE_SCALAR)
                return;

        emit_open(json, '{');
        emit_put_string(json, "what", str_first(what->text, min_of(what->text.n, TEXT_MAX)));
        emit_put_string(json, "unit",
                        str_is(unit->text, "bytes") || str_is(unit->text, "steps") ? unit->text : STR(""));
        for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
                const struct node *number = node_get(root, str_of(numbers[i]));
                uint64_t n = 0;

                if (number && number->kind == NODE_SCALAR)
                        (void)str_to_u64(number->text, NUMBER_MAX, &n);
                emit_put_number(json, numbers[i], n);
        }

        emit_close(json);
}

void progress_list(struct emit *json) {
        cleanup(free_ptr) char *place = notes_place();
        DIR *directory = place ? opendir(place) : NULL;
        char note[NOTE_BYTES + 1];
        size_t n = 0;

        for (struct dirent *entry; directory && n < NOTES_MAX && (entry = readdir(directory));)
                if (entry->d_name[0] != '.' && note_read(dirfd(directory), entry->d_name, note)) {
                        note_emit(json, note);
                        n++;
                }

        if (directory)
                closedir(directory);
}
