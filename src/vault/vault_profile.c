/* SPDX-License-Identifier: Apache-2.0 */
#include "vault/vault_profile.h"

/* What is open stays: the sockets to the supervisor, to the gateways and to the reader. */
const char vault_profile[] = "(version 1)\n"
                             "(deny default)\n"
                             "(allow sysctl-read (sysctl-name \"hw.pagesize\"))\n";

/* Directories and links are passed on the way to a file; which ones are there can be seen. */
static const char reader_base[] = "(version 1)\n"
                                  "(deny default)\n"
                                  "(allow file-read-metadata (vnode-type DIRECTORY) (vnode-type SYMLINK))\n"
                                  "(allow process-fork)\n"
                                  "(allow signal (target same-sandbox))\n"
                                  "(allow sysctl-read (sysctl-name \"hw.pagesize\"))\n";

/* Paths are parameters: whatever is in them, the text stays what it is. */
static int add_rules(struct reader_profile *profile, const reader_paths *paths, const char *operations,
                     const char *filter, const char *kind) {
        for (size_t i = 0; i < paths->n; i++) {
                char *name = str_format("%s_%zu", kind, i + 1);

                if (!name || vec_push(&profile->parameters, name) < 0) {
                        free(name);
                        return -ENOMEM;
                }
                if (vec_push(&profile->parameters, paths->p[i]) < 0)
                        return -ENOMEM;

                int r = buf_printf(&profile->text, "(allow %s (%s (param \"%s\")))\n", operations, filter, name);
                if (r < 0)
                        return r;
        }

        return 0;
}

int reader_profile_write(const struct reader_places *places, struct reader_profile *ret, struct err *err) {
        int r = buf_add(&ret->text, reader_base);

        if (r == 0)
                r = add_rules(ret, &places->read, "file-read*", "literal", "READ");
        if (r == 0)
                r = add_rules(ret, &places->written, "file-read* file-write*", "subpath", "WRITTEN");
        if (r == 0)
                r = vec_push(&ret->parameters, NULL);
        if (r < 0)
                return err_memory(err);

        return 0;
}

void reader_profile_done(struct reader_profile *profile) {
        for (size_t i = 0; i < profile->parameters.n; i += 2)
                free(profile->parameters.p[i]);
        vec_done(&profile->parameters);
        buf_done(&profile->text);
}
