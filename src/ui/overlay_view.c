/* SPDX-License-Identifier: Apache-2.0 */
/* What runs with --overlay left: the list, and both states of one file. Both sides are hostile: no link is followed. */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/paths/path.h"
#include "kept/overlays.h"
#include "ui/ui_internal.h"

#include <fcntl.h>
#include <sys/stat.h>

enum { FILE_MAX = 512 * 1024 };

void overlay_view_list(struct ui *ui, const struct ui_request *request) {
        cleanup(buf_done) struct buf out = BUF(UI_REPLY_MAX);
        cleanup(overlay_runs_done) overlay_runs all = { 0 };
        struct emit j = emit_to(&out);
        struct err err = { 0 };

        (void)ui;

        if (overlays_list(&all, &err) < 0) {
                connection_fault(request->connection, 500, err_text(&err));
                return;
        }

        emit_open(&j, '[');

        for (size_t i = all.n; i-- > 0;) {
                char when[CLOCK_TEXT_MAX];

                clock_text(all.p[i].began_us, when);
                emit_open(&j, '{');
                emit_put_text(&j, "id", all.p[i].id);
                emit_put_text(&j, "began", when);
                emit_put_text(&j, "workspace", all.p[i].workspace);
                emit_close(&j);
        }

        emit_close(&j);

        if (emit_status(&j) < 0)
                connection_fault(request->connection, 500, "too many overlays");
        else
                connection_reply(request->connection, 200, "application/json", buf_str(&out), NULL);
}

/* null: not there, no file, or too long to be shown. */
static void put_file(struct emit *json, const char *key, const char *top, const char *path) {
        cleanup(close_fd) int directory = open(top, O_PATH | O_DIRECTORY | O_CLOEXEC), fd = -1;
        cleanup(buf_done) struct buf text = BUF(FILE_MAX);
        struct stat st;

        if (directory >= 0)
                fd = path_open_at(directory, path, O_RDONLY | O_NONBLOCK, 0, PATH_BENEATH | PATH_NO_SYMLINKS);

        if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && fd_read_all(fd, &text) == 0 &&
            !str_has_nul(buf_str(&text)))
                emit_put_string(json, key, text.n ? buf_str(&text) : STR(""));
        else
                emit_put_text(json, key, NULL);
}

void overlay_view_file(struct ui *ui, const struct ui_request *request) {
        cleanup(buf_done) struct buf out = BUF(UI_REPLY_MAX), id_text = BUF(256), path_text = BUF(8192);
        cleanup(overlay_run_done) struct overlay_run run = { .lock = -1 };
        const char *id = query_get(request->query, "id", &id_text);
        const char *path = query_get(request->query, "path", &path_text);
        struct emit j = emit_to(&out);
        struct err err = { 0 };

        (void)ui;

        if (!id || !path || !*id) {
                connection_fault(request->connection, 400, "id and path are needed");
                return;
        }

        if (overlays_find(id, NULL, &run, &err) < 0) {
                connection_fault(request->connection, 404, err_text(&err));
                return;
        }

        emit_open(&j, '{');
        put_file(&j, "before", run.workspace, path);
        put_file(&j, "after", run.upper, path);
        emit_close(&j);

        if (emit_status(&j) < 0)
                connection_fault(request->connection, 500, "the file cannot be shown");
        else
                connection_reply(request->connection, 200, "application/json", buf_str(&out), NULL);
}
