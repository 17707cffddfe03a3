/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/egress_view.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "conf/json.h"
#include "egress/egress_state.h"

#include <errno.h>
#include <stdlib.h>

void egress_view_done(struct egress_view *view) {
        free(view->directory);
        egress_settings_done(&view->settings);
        document_free(view->service);
        document_free(view->tokens);
}

static int read_json(const char *directory, const char *name, struct document **ret, struct err *err) {
        cleanup(buf_done) struct buf text = BUF(0);
        int r = egress_read(directory, name, &text, err);
        if (r < 0)
                return r;

        return json_read(buf_str(&text), str_of(name), ret, err);
}

int egress_view_load(struct egress_view *view, struct err *err) {
        cleanup(close_fd) int pidfd = -1;

        err_blame(err, ERR_SYSTEM);
        int r = egress_directory(false, &view->directory, err);
        if (r < 0)
                return r;

        err_blame(err, ERR_CONFIG);
        r = egress_settings_load(view->directory, &view->settings, err);
        if (r < 0) {
                if (r == -ENOENT)
                        err_clear(err);
                if (r == -ENOENT)
                        return 0;

                return r;
        }

        view->configured = true;
        view->running = egress_pid_find(view->directory, false, &view->id, &pidfd, NULL) == 0;
        r = read_json(view->directory, EGRESS_TOKENS, &view->tokens, err);
        if (r == -ENOENT)
                r = 0;
        if (r == 0 && view->running && read_json(view->directory, EGRESS_SERVICE, &view->service, err) < 0)
                view->running = false; /* it has not said yet that it listens */

        err_clear(err);
        return r;
}

const struct node *egress_view_members(const struct document *document, const char *key) {
        const struct node *node = document ? node_get(document_root(document), str_of(key)) : NULL;
        return node ? node->first : NULL;
}

struct str egress_view_text(const struct document *document, const char *key) {
        const struct node *node = document ? node_get(document_root(document), str_of(key)) : NULL;
        return node && node->kind == NODE_SCALAR ? node->text : (struct str){ 0 };
}
