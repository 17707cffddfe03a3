/* SPDX-License-Identifier: Apache-2.0 */
#include "kept/guard_slot.h"

#include "base/alloc.h"
#include "base/fd.h"
#include "base/processes/process.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

void slot_done(struct slot *s) {
        close_fd(&s->fd);
        buf_done(&s->bytes);
        vec_done(&s->roots);
        vec_done(&s->guards);
        vec_done(&s->made);
        vec_done(&s->settings);
        vec_done(&s->open);
}

enum { MANY_SLOTS = 16 };

/* Where many sandboxes run, what was read of them is most of what a supervisor ever had in memory. */
void slots_done(slots *list) {
        bool many = list->n > MANY_SLOTS;

        for (size_t i = 0; i < list->n; i++)
                slot_done(&list->p[i]);
        vec_done(list);

        if (many)
                alloc_trim();
}

static const char *slot_text(struct str *rest) {
        struct str text;
        return str_split(rest, '\0', &text) && text.p ? text.p : NULL;
}

static int slot_keep_guard(struct slot *s, const char *path, const char *link) {
        const struct plan_guard guard = {
                .path = path, .kind = link ? PLAN_GUARD_LINK : PLAN_GUARD_MISSING, .link = link, .why = "", .root = "/"
        };

        return vec_push(&s->guards, guard) < 0 ? -ENOMEM : 0;
}

/* "PID START-TIME BOOT". Of another boot nothing lives. */
static bool slot_take_first(struct slot *s, struct str text) {
        char boot[PROCESS_BOOT_MAX];
        struct str number, started;
        uint64_t pid, start_time;

        if (!str_split(&text, ' ', &number) || !str_split(&text, ' ', &started) ||
            !str_to_u64(number, INT32_MAX, &pid) || !str_to_u64(started, UINT64_MAX, &start_time))
                return false;

        if (process_boot(boot, NULL) == 0 && !str_is(text, boot))
                return true;

        s->first = (pid_t)pid;
        s->first_started = start_time;
        return true;
}

/* Takes a field of this kind and the fields that belong to it. A field of no kind was cut off; those after it still
 * count. */
static int slot_take(struct slot *s, const char *kind, struct str *rest) {
        struct str after = *rest;
        const char *path = after.n ? slot_text(&after) : NULL;
        int r = 0;

        if (path && strcmp(kind, "first") == 0 && slot_take_first(s, str_of(path))) {
                *rest = after;
                return 0;
        }

        if (path && strcmp(kind, "began") == 0 && str_to_u64(str_of(path), UINT64_MAX, &s->began_us)) {
                *rest = after;
                return 0;
        }

        if (!path || path[0] != '/')
                return 0;
        if (strcmp(kind, "root") == 0)
                r = vec_push(&s->roots, path);
        else if (strcmp(kind, "made") == 0)
                r = vec_push(&s->made, path);
        else if (strcmp(kind, "settings") == 0)
                r = vec_push(&s->settings, path);
        else if (strcmp(kind, "open") == 0)
                r = vec_push(&s->open, path);
        else if (strcmp(kind, "missing") == 0)
                r = slot_keep_guard(s, path, NULL);
        else if (strcmp(kind, "link") == 0) {
                const char *text = after.n ? slot_text(&after) : NULL;
                r = text ? slot_keep_guard(s, path, text) : 0;
        } else
                return 0;

        *rest = after;
        return r < 0 ? -ENOMEM : 0;
}

/* Fields end with a NUL. The writer of the slot may have been killed, or the disk may be full: then one field is lost,
 * and the others still count. */
int slot_parse(struct slot *s) {
        struct str rest = buf_str(&s->bytes);
        int r = 0;

        while (rest.n && rest.p[rest.n - 1] != '\0')
                rest.n--;
        const char *first = rest.n ? slot_text(&rest) : NULL;
        if (!first || strcmp(first, SLOT_MAGIC) != 0)
                return 0;
        s->id = slot_text(&rest);

        while (rest.n && r == 0) {
                const char *kind = slot_text(&rest);

                r = kind ? slot_take(s, kind, &rest) : 0;
                if (!kind)
                        break;
        }
        return r;
}

int slot_add_field(struct buf *out, const char *text) {
        return buf_append(out, str_n(text, strlen(text) + 1));
}

static int slot_add_kind(struct buf *out, const char *kind, const char *value) {
        int r = slot_add_field(out, kind);
        if (r < 0)
                return r;

        return slot_add_field(out, value);
}

int slot_add_root(struct buf *out, const char *root) {
        return slot_add_kind(out, "root", root);
}

int slot_add_made(struct buf *out, const char *path) {
        return slot_add_kind(out, "made", path);
}

int slot_add_settings(struct buf *out, const char *path) {
        return slot_add_kind(out, "settings", path);
}

int slot_add_open(struct buf *out, const char *path) {
        return slot_add_kind(out, "open", path);
}

int slot_add_began(struct buf *out, uint64_t began_us) {
        char text[24];

        snprintf(text, sizeof text, "%" PRIu64, began_us);
        return slot_add_kind(out, "began", text);
}

int slot_add_guard(struct buf *out, const struct plan_guard *guard) {
        int r;

        if (guard->kind != PLAN_GUARD_MISSING && guard->kind != PLAN_GUARD_LINK)
                return 0;

        r = slot_add_field(out, guard->kind == PLAN_GUARD_LINK ? "link" : "missing");
        if (r == 0)
                r = slot_add_field(out, guard->path);
        if (r == 0 && guard->kind == PLAN_GUARD_LINK)
                r = slot_add_field(out, guard->link);

        return r;
}

/* Written over what is there: when a run is recorded its guards are added, and until then nothing of it runs. */
int slot_write(int fd, const struct buf *bytes) {
        if (lseek(fd, 0, SEEK_SET) < 0)
                return -errno;
        int r = fd_write_all(fd, bytes->p, bytes->n);
        return r == 0 && ftruncate(fd, (off_t)bytes->n) < 0 ? -errno : r;
}
