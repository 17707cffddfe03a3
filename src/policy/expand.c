/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/expand.h"

#include "base/cleanup.h"
#include "policy/forges.h"
#include "policy/groups.h"

#include <errno.h>
#include <stdio.h>

static int expand_mirrors(const struct policy *p, const struct group *group, const struct origin_text *entry,
                          expand_function *f, void *context, struct err *e) {
        for (size_t i = 0; i < p->network.mirrors.n; i++) {
                const struct mirror *m = &p->network.mirrors.p[i];
                if (strcmp(m->group, group->name) != 0)
                        continue;
                cleanup(free_ptr) char *origin = str_format("%s of %s in %s", m->origin, entry->text, entry->origin);
                int r = origin ? f(context, str_of(m->pattern), str_of(origin), e) : err_memory(e);
                if (r < 0)
                        return r;
        }
        return 0;
}

int expand_entry(const struct policy *p, const struct origin_text *entry, bool mirrors, expand_function *f,
                 void *context, struct err *e) {
        struct str text = str_of(entry->text);
        if (forge_is_reference(text))
                return 0; /* rules and entries of their own stand for it (policy/forges.h) */
        if (!group_is_reference(text))
                return f(context, text, str_of(entry->origin), e);
        const struct group *group = group_find(text, e);
        if (!group)
                return err_wrap(e, -ENOENT, "%s", entry->origin);
        cleanup(free_ptr) char *origin = str_format("%s in %s", entry->text, entry->origin);
        if (!origin)
                return err_memory(e);
        for (const char *const *pattern = group->patterns; *pattern; pattern++) {
                const struct origin_text inner = { .text = (char *)*pattern, .origin = origin };
                int r = expand_entry(p, &inner, mirrors, f, context, e);
                if (r < 0)
                        return r;
        }
        return mirrors ? expand_mirrors(p, group, entry, f, context, e) : 0;
}

/* What stands before a comment and between spaces; carriage returns of other systems count as space. */
static struct str content_of(struct str line) {
        ptrdiff_t hash = str_find(line, '#');
        line = hash < 0 ? line : str_first(line, (size_t)hash);
        if (line.n > 0 && line.p[line.n - 1] == '\r')
                line.n--;
        return str_trim(line);
}

int expand_file(const struct pattern_file *file, expand_function *f, void *context, struct err *e) {
        /* The origin is built in place: a million lines must not mean a million allocations. */
        size_t path_n = strlen(file->path);
        cleanup(free_ptr) char *origin = malloc(path_n + 16);
        if (!origin)
                return err_memory(e);
        memcpy(origin, file->path, path_n + 1);
        struct str rest = str_n(file->content, file->content ? file->n : 0), line;
        for (unsigned number = 1; str_split(&rest, '\n', &line); number++) {
                struct str pattern = content_of(line);
                if (pattern.n == 0)
                        continue;
                int n = snprintf(origin + path_n, 16, ":%u", number);
                int r = f(context, pattern, str_n(origin, path_n + (size_t)n), e);
                if (r < 0)
                        return r;
        }
        return 0;
}
