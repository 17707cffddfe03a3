/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs/profiles.h"

#include "base/cleanup.h"
#include "base/emit.h"
#include "policy/profile/profile.h"

#include <errno.h>

static const char *place_of(const struct profile *profile) {
        return text_or(profile->path, "built in");
}

static int too_large(struct err *err) {
        return err_set(err, EMSGSIZE, "the profiles are too large to print");
}

static void emit_node(struct emit *json, const struct node *node) {
        if (node->kind != NODE_LIST && node->kind != NODE_MAP) {
                emit_text(json, node->kind == NODE_SCALAR ? node->text.p : "");
                return;
        }

        emit_open(json, node->kind == NODE_LIST ? '[' : '{');

        for (const struct node *child = node->first; child; child = child->next) {
                if (node->kind == NODE_MAP)
                        emit_key(json, child->key.p);
                emit_node(json, child);
        }

        emit_close(json);
}

static void emit_profile(struct emit *json, const struct profile *profile) {
        const struct node *root = document_root(profile->file.document);

        emit_open(json, '{');
        emit_put_text(json, "name", profile->name);
        emit_put_text(json, "path", profile->path);

        for (const struct node *node = root && root->kind == NODE_MAP ? root->first : NULL; node; node = node->next) {
                emit_key(json, node->key.p);
                emit_node(json, node);
        }

        emit_close(json);
}

static int put_programs(const struct profile *profile, struct buf *out) {
        const struct node *list = profile_node(profile, "programs");
        int r = 0;

        for (const struct node *node = list ? list->first : NULL; node && r == 0; node = node->next) {
                const char *name = node->kind == NODE_SCALAR ? node->text.p : "";

                r = buf_printf(out, "%s%s", node == list->first ? "" : ", ", name);
        }

        return r;
}

static int put_line(const struct profile *profile, struct buf *out) {
        cleanup(buf_done) struct buf programs = BUF(4096);
        const char *text = put_programs(profile, &programs) == 0 ? buf_text(&programs) : NULL;

        return buf_printf(out, "%-10s %-20s %-14s %s\n", profile->name, profile_text(profile, "title"),
                          text_or(text, ""), place_of(profile));
}

int profiles_list(bool json, struct buf *out, struct err *err) {
        cleanup(profile_names_done) profile_names names = { 0 };
        struct emit j = emit_to(out);
        int r = profile_list(&names, err);

        if (r < 0)
                return r;
        if (json)
                emit_open(&j, '[');

        for (size_t i = 0; i < names.n; i++) {
                cleanup(profile_done) struct profile profile = { 0 };

                r = profile_open(str_of(names.p[i]), &profile, err);
                if (r < 0)
                        return r;

                if (json)
                        emit_profile(&j, &profile);
                else if (put_line(&profile, out) < 0)
                        return too_large(err);
        }

        if (!json)
                return 0;

        emit_close(&j);
        if (emit_status(&j) < 0 || buf_add_char(out, '\n') < 0)
                return too_large(err);

        return 0;
}

static int put_content(const struct profile *profile, struct buf *out) {
        struct str content = buf_str(&profile->file.content);
        int r = buf_printf(out, "# profile %s, %s\n", profile->name, place_of(profile));

        if (!profile->path) {
                for (size_t i = 0; i < n_profiles_built_in; i++)
                        if (strcmp(profiles_built_in[i].name, profile->name) == 0)
                                content = str_of(profiles_built_in[i].text);
        }

        if (r < 0)
                return r;

        return buf_append(out, content);
}

int profiles_show(const char *name, bool json, struct buf *out, struct err *err) {
        cleanup(profile_done) struct profile profile = { 0 };
        struct emit j = emit_to(out);
        int r = profile_open(str_of(name), &profile, err);

        if (r < 0)
                return r;
        if (!json) {
                if (put_content(&profile, out) < 0)
                        return too_large(err);
                return 0;
        }

        emit_profile(&j, &profile);
        if (emit_status(&j) < 0 || buf_add_char(out, '\n') < 0)
                return too_large(err);

        return 0;
}

static int open_either(const char *name, struct profile *ret, struct err *err) {
        struct str text = str_of(name);
        bool path = str_find(text, '/') >= 0 || str_ends(text, STR(".yaml")) || str_ends(text, STR(".yml"));

        if (path)
                return profile_open_file(name, ret, err);

        return profile_open(text, ret, err);
}

int profiles_check(const char *name, bool json, struct buf *out, struct err *err) {
        cleanup(profile_done) struct profile profile = { 0 };
        struct err why = { 0 };
        int r = open_either(name, &profile, &why);

        if (r == 0)
                r = profile_check(&profile, &why);

        if (json) {
                struct emit j = emit_to(out);

                emit_open(&j, '{');
                emit_put_text(&j, "profile", name);
                emit_put_bool(&j, "valid", r == 0);

                if (r < 0)
                        emit_put_text(&j, "error", err_text(&why));

                emit_close(&j);
                if (emit_status(&j) < 0 || buf_add_char(out, '\n') < 0)
                        return too_large(err);
        } else if (r == 0 && buf_printf(out, "%s: valid (%s)\n", name, place_of(&profile)) < 0)
                return too_large(err);

        if (r < 0)
                *err = why;

        return r;
}
