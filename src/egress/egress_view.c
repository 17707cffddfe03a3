/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/egress_view.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "conf/json.h"
#include "egress/egress_state.h"

#include <errno.h>
#include <stdlib.h>

void egress_view_done(struct egress_view *v) {
        free(v->directory);
        egress_settings_done(&v->settings);
        document_free(v->service);
        document_free(v->tokens);
}

static int read_json(const char *directory, const char *name, struct document **ret, struct err *e) {
        cleanup(buf_done) struct buf text = BUF(0);
        int r = egress_read(directory, name, &text, e);
        return r < 0 ? r : json_read(buf_str(&text), str_of(name), ret, e);
}

int egress_view_load(struct egress_view *v, struct err *e) {
        cleanup(close_fd) int pidfd = -1;
        err_blame(e, ERR_SYSTEM);
        int r = egress_directory(false, &v->directory, e);
        if (r < 0)
                return r;
        err_blame(e, ERR_CONFIG);
        r = egress_settings_load(v->directory, &v->settings, e);
        if (r < 0) {
                if (r == -ENOENT)
                        err_clear(e);
                return r == -ENOENT ? 0 : r;
        }
        v->configured = true;
        v->running = egress_pid_find(v->directory, false, &v->id, &pidfd, NULL) == 0;
        r = read_json(v->directory, EGRESS_TOKENS, &v->tokens, e);
        if (r == -ENOENT)
                r = 0;
        if (r == 0 && v->running && read_json(v->directory, EGRESS_SERVICE, &v->service, e) < 0)
                v->running = false; /* it has not said yet that it listens */
        err_clear(e);
        return r;
}

const struct node *egress_view_members(const struct document *d, const char *key) {
        const struct node *n = d ? node_get(document_root(d), str_of(key)) : NULL;
        return n ? n->first : NULL;
}

struct str egress_view_text(const struct document *d, const char *key) {
        const struct node *n = d ? node_get(document_root(d), str_of(key)) : NULL;
        return n && n->kind == NODE_SCALAR ? n->text : (struct str){ 0 };
}
