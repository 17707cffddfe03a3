/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Settings of other sandboxes and agents as a policy. Nothing in the result allows a host, a read or a write that the
 * source does not; rules that a policy cannot express are listed in it, and the caller learns of every missing
 * restriction.
 *
 *   files --(import/NAME.c)--> model --(import_resolve.c)--> model --(write.c)--> YAML, loaded once as a check
 *
 * The files may be hostile: they are read with limits, and nothing in them is run. Nothing is written here.
 */
#include "base/buf.h"
#include "base/err.h"

struct import_request {
        const char *tool;   /* claude, codex, srt, fence, gemini, devcontainer */
        char *const *files; /* NULL or none: where the tool keeps its settings */
        size_t n_files;
        const char *workspace; /* the project's directory; NULL: the current one */
};

struct import_result {
        struct buf text; /* the policy */
        size_t n_notes;  /* entries that could not be said */
        bool dropped;    /* a restriction is among them */
};
void import_result_done(struct import_result *result);

/* -ENOENT: there are no settings; -EINVAL and others: a file is wrong, with its place. */
int import_make(const struct import_request *request, struct import_result *ret, struct err *err);

/* One text by the reader of the tool, as if it were the only file: for tests. kind: "jsonc", "toml", "rules", "sh". */
int import_make_text(const char *tool, const char *kind, struct str text, const char *workspace, const char *home,
                     struct import_result *ret, struct err *err);
