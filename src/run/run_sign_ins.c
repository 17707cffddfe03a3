/* SPDX-License-Identifier: Apache-2.0 */
#include "run/run_sign_ins.h"

#include "base/cleanup.h"
#include "base/emit.h"
#include "base/log.h"
#include "base/paths/path.h"
#include "base/secrets/secret.h"
#include "conf/json_walk.h"
#include "conf/yaml.h"
#include "policy/profile/sign_ins.h"

#include <errno.h>

/* the copy */

struct copying {
        stand_in_for *stand_in;
        void *arg;
        struct buf pointer; /* of YAML */
};

/* What stands there inside; NULL: as it was. */
static const char *text_inside(const struct copying *copying, struct str pointer, struct str value) {
        const char *stand_in = copying->stand_in(copying->arg, pointer);

        if (stand_in)
                return stand_in;
        return sign_in_looks_secret(value) ? "" : NULL;
}

static int copy_scalar(void *arg, const struct json_scalar *scalar, struct buf *out) {
        const struct copying *copying = arg;
        struct buf value = BUF(scalar->raw.n);

        if (!scalar->is_string)
                return 0;

        int r = buf_reserve(&value, scalar->raw.n);
        r = r < 0 ? r : json_scalar_text(scalar, &value);
        const char *inside = r < 0 ? NULL : text_inside(copying, scalar->pointer, buf_str(&value));
        if (inside) {
                r = json_quote(str_of(inside), out);
                r = r < 0 ? r : 1;
        }

        if (value.p)
                secret_wipe(value.p, value.cap);

        buf_done(&value);
        return r;
}

static int copy_node(struct copying *copying, const struct node *node, struct emit *json) {
        size_t before = copying->pointer.n, i = 0;
        int r = 0;

        if (node->kind == NODE_NULL)
                emit_null(json);

        if (node->kind == NODE_SCALAR) {
                const char *inside = text_inside(copying, buf_str(&copying->pointer), node->text);
                bool plain = !node->quoted && (str_is(node->text, "true") || str_is(node->text, "false"));
                if (plain)
                        emit_bool(json, str_is(node->text, "true"));
                else
                        emit_string(json, inside ? str_of(inside) : node->text);
        }

        if (node->kind == NODE_SCALAR || node->kind == NODE_NULL)
                return 0;

        emit_open(json, node->kind == NODE_LIST ? '[' : '{');

        for (const struct node *child = node->first; r == 0 && child; child = child->next, i++) {
                r = node->kind == NODE_LIST ? buf_printf(&copying->pointer, "/%zu", i)
                                            : buf_printf(&copying->pointer, "/%.*s", STR_FMT(child->key));
                if (node->kind == NODE_MAP)
                        emit_key_str(json, child->key);

                r = r < 0 ? r : copy_node(copying, child, json);
                copying->pointer.n = before;
        }

        emit_close(json);
        return r;
}

static int copy_yaml(struct copying *copying, struct str text, struct buf *out) {
        cleanup(document_freep) struct document *document = NULL;
        struct emit j = emit_to(out);

        if (yaml_read(text, STR("sign-in"), &document, NULL) < 0)
                return -EBADMSG;
        if (!document_root(document))
                return 0;

        copying->pointer = BUF(JSON_POINTER_MAX);
        int r = copy_node(copying, document_root(document), &j);
        buf_done(&copying->pointer);
        r = r < 0 ? r : emit_status(&j);
        if (r < 0)
                return r;

        return buf_add(out, "\n");
}

int sign_in_copy(struct str text, bool yaml, stand_in_for *stand_in, void *arg, struct buf *out, struct err *err) {
        struct copying copying = { .stand_in = stand_in, .arg = arg };
        int r = yaml ? copy_yaml(&copying, text, out) : json_edit(text, copy_scalar, &copying, out);

        if (r < 0)
                return err_set(err, -r, "it is not %s that can be read", yaml ? "YAML" : "JSON");

        return 0;
}

/* the files */

struct laying {
        const struct vault_session *vault;
        struct str file;
};

static const char *stand_in_at(void *arg, struct str pointer) {
        const struct laying *laying = arg;

        for (uint32_t i = 0; i < laying->vault->mappings.n; i++) {
                struct str file, at;

                if (source_is_member(str_of(laying->vault->mappings.p[i].source), &file, &at) &&
                    str_eq(file, laying->file) && str_eq(at, pointer))
                        return vault_process_stand_in(laying->vault->process, i, PART_VALUE);
        }

        return NULL;
}

static int lay_file(struct home *home, const struct policy *policy, struct laying *laying, bool yaml, struct err *err) {
        cleanup(free_ptr) char *path = str_dup(laying->file);
        struct buf text = BUF(0);
        cleanup(buf_done) struct buf copy = BUF(HOME_FILE_MAX);

        if (!path)
                return err_memory(err);

        int r = path_read_file(path, SIGN_IN_BYTES_MAX, &text, err);
        r = r < 0 ? r : sign_in_copy(buf_str(&text), yaml, stand_in_at, laying, &copy, err);
        if (text.p)
                secret_wipe(text.p, text.cap);

        buf_done(&text);
        const struct home_file file = { .path = path + strlen(policy->home) + 1,
                                        .content = buf_str(&copy),
                                        .origin = path };

        return r < 0 ? err_wrap(err, r, "%s", path) : home_lay(home, &file, err);
}

static bool came_before(const mappings *list, size_t index, struct str file) {
        struct str other, pointer;

        for (size_t i = 0; i < index; i++)
                if (source_is_member(str_of(list->p[i].source), &other, &pointer) && str_eq(other, file))
                        return true;
        return false;
}

bool run_sign_ins_any(const struct vault_session *vault) {
        struct str file, pointer;

        for (size_t i = 0; i < vault->mappings.n; i++)
                if (source_is_member(str_of(vault->mappings.p[i].source), &file, &pointer))
                        return true;
        return false;
}

int run_sign_ins_lay(struct home *home, const struct policy *policy, const struct vault_session *vault,
                     struct err *err) {
        const mappings *list = &vault->mappings;

        if (!vault->process || !home->directory || !policy->home)
                return 0;

        for (size_t i = 0; i < list->n; i++) {
                struct laying laying = { .vault = vault };
                struct str pointer;
                struct err why = { 0 };

                if (!source_is_member(str_of(list->p[i].source), &laying.file, &pointer) ||
                    came_before(list, i, laying.file))
                        continue;

                cleanup(free_ptr) char *path = str_dup(laying.file);
                if (!path)
                        return err_memory(err);
                if (!path_is_within(path, policy->home))
                        continue;
                if (lay_file(home, policy, &laying, str_starts(str_of(list->p[i].source), STR("yaml:")), &why) < 0)
                        log_warning("the sandbox has no sign-in of %s: %s", path, err_text(&why));
        }

        return 0;
}
