/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/expand.h"

#include "base/cleanup.h"
#include "policy/git/forges.h"
#include "policy/groups.h"

#include <errno.h>
#include <stdio.h>

static int expand_mirrors(const struct policy *policy, const struct group *group, const struct origin_text *entry,
                          expand_function *expand, void *context, struct err *err) {
        for (size_t i = 0; i < policy->network.mirrors.n; i++) {
                const struct mirror *mirror = &policy->network.mirrors.p[i];
                if (strcmp(mirror->group, group->name) != 0)
                        continue;

                cleanup(free_ptr) char *origin =
                    str_format("%s of %s in %s", mirror->origin, entry->text, entry->origin);
                int r = origin ? expand(context, str_of(mirror->pattern), str_of(origin), err) : err_memory(err);
                if (r < 0)
                        return r;
        }

        return 0;
}

int expand_entry(const struct policy *policy, const struct origin_text *entry, bool mirrors, expand_function *expand,
                 void *context, struct err *err) {
        struct str text = str_of(entry->text);
        if (forge_is_reference(text))
                return 0; /* rules and entries of their own stand for it (policy/git/forges.h) */
        if (!group_is_reference(text))
                return expand(context, text, str_of(entry->origin), err);

        const struct group *group = group_find(text, err);
        if (!group)
                return err_wrap(err, -ENOENT, "%s", entry->origin);

        cleanup(free_ptr) char *origin = str_format("%s in %s", entry->text, entry->origin);
        if (!origin)
                return err_memory(err);

        for (const char *const *pattern = group->patterns; *pattern; pattern++) {
                const struct origin_text inner = { .text = (char *)*pattern, .origin = origin };
                int r = expand_entry(policy, &inner, mirrors, expand, context, err);
                if (r < 0)
                        return r;
        }

        if (mirrors)
                return expand_mirrors(policy, group, entry, expand, context, err);

        return 0;
}

/* What stands before a comment and between spaces; carriage returns of other systems count as space. */
static struct str content_of(struct str line) {
        ptrdiff_t hash = str_find(line, '#');
        if (hash >= 0)
                line = str_first(line, (size_t)hash);
        if (line.n > 0 && line.p[line.n - 1] == '\r')
                line.n--;
        return str_trim(line);
}

int expand_file(const struct pattern_file *file, expand_function *expand, void *context, struct err *err) {
        /* The origin is built in place: a million lines must not mean a million allocations. */
        size_t path_n = strlen(file->path);
        cleanup(free_ptr) char *origin = malloc(path_n + 16);
        if (!origin)
                return err_memory(err);

        memcpy(origin, file->path, path_n + 1);
        struct str rest = str_n(file->content, file->content ? file->n : 0), line;
        for (unsigned number = 1; str_split(&rest, '\n', &line); number++) {
                struct str pattern = content_of(line);
                if (pattern.n == 0)
                        continue;

                int n = snprintf(origin + path_n, 16, ":%u", number);
                int r = expand(context, pattern, str_n(origin, path_n + (size_t)n), err);
                if (r < 0)
                        return r;
        }

        return 0;
}
