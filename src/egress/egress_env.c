/* SPDX-License-Identifier: Apache-2.0 */
/* The facts of the gateway for backends that are no container engine: a virtual machine, a chroot, a remote runner. */
#include "base/cleanup.h"
#include "base/emit.h"
#include "base/escape.h"
#include "base/paths/path.h"
#include "egress/egress_facts.h"
#include "egress/egress_state.h"

#include <errno.h>
#include <stdlib.h>

struct places {
        char *bundle, *java; /* on this host */
        char *seen_bundle, *seen_java;
};

static void places_done(struct places *places) {
        free(places->bundle);
        free(places->java);
        free(places->seen_bundle);
        free(places->seen_java);
}

static int places_find(struct places *ret, const struct egress_view *view, const char *seen_in, struct err *err) {
        const char *seen = seen_in ? seen_in : view->directory;

        if (seen[0] != '/')
                return err_set(err, EINVAL, "--certificates %s: the directory must be an absolute path", seen);

        ret->bundle = path_join(view->directory, EGRESS_BUNDLE);
        ret->java = path_join(view->directory, EGRESS_JAVA);
        ret->seen_bundle = path_join(seen, EGRESS_BUNDLE);
        ret->seen_java = path_join(seen, EGRESS_JAVA);
        if (!ret->bundle || !ret->java || !ret->seen_bundle || !ret->seen_java)
                return err_memory(err);

        return 0;
}

static void emit_file(struct emit *json, const char *source, const char *target) {
        emit_open(json, '{');
        emit_put_text(json, "source", source);
        emit_put_text(json, "target", target);
        emit_close(json);
}

static int facts_to_json(const struct egress_facts *facts, const struct places *places, struct buf *out) {
        struct emit json = emit_to(out);

        emit_open(&json, '{');
        emit_put_text(&json, "address", facts->address);
        emit_put_number(&json, "port", facts->port);

        emit_key(&json, "environment");
        emit_open(&json, '{');

        for (size_t i = 0; i < facts->env.entries.n; i++)
                if (egress_facts_sets(&facts->env.entries.p[i]))
                        emit_put_text(&json, facts->env.entries.p[i].name, facts->env.entries.p[i].value);

        emit_close(&json);

        emit_key(&json, "files");
        emit_open(&json, '[');

        if (facts->has_ca) {
                emit_file(&json, places->bundle, places->seen_bundle);
                emit_file(&json, places->java, places->seen_java);
        }

        emit_close(&json);

        emit_close(&json);
        int r = emit_status(&json);
        if (r < 0)
                return r;

        return buf_add_char(out, '\n');
}

static int facts_to_shell(const struct egress_facts *facts, struct buf *out) {
        int r = 0;

        for (size_t i = 0; r == 0 && i < facts->env.entries.n; i++) {
                const struct env_entry *entry = &facts->env.entries.p[i];
                if (!egress_facts_sets(entry))
                        continue;

                r = buf_printf(out, "export %s=", entry->name);
                if (r == 0)
                        r = escape_shell(out, str_of(entry->value));
                if (r == 0)
                        r = buf_add_char(out, '\n');
        }

        return r;
}

int egress_env(const struct egress_env *query, struct buf *out, struct err *err) {
        cleanup(egress_view_done) struct egress_view view = { 0 };
        cleanup(egress_facts_done) struct egress_facts facts = { 0 };
        cleanup(places_done) struct places places = { 0 };
        static char *const no_arguments[] = { NULL };
        int r = egress_view_load(&view, err);
        if (r < 0)
                return r;

        err_blame(err, ERR_UNAVAILABLE);
        if (!view.running)
                return err_set(err, ENOENT, "the gateway does not run; start it with \"bailey egress start\"");

        r = egress_facts_listener(&facts, &view, query->for_containers ? EGRESS_FOR_CONTAINERS : EGRESS_FOR_THIS_HOST,
                                  err);
        if (r < 0)
                return r;

        err_blame(err, ERR_USAGE);
        r = places_find(&places, &view, query->certificates, err);
        if (r < 0)
                return r;

        r = egress_facts_variables(&facts, &view, no_arguments, places.seen_bundle, places.seen_java, err);
        if (r < 0)
                return r;

        if (query->json)
                r = facts_to_json(&facts, &places, out);
        else
                r = facts_to_shell(&facts, out);
        if (r < 0)
                return err_set(err, -r, "the variables are too large to print");

        return 0;
}
