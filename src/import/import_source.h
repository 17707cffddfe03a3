/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What the readers share: one settings file as a tree, its keys by table, and the ways in which hosts, paths and
 * commands of other tools become entries of the model.
 */
#include "base/buf.h"
#include "conf/node.h"
#include "import/model.h"

enum { IMPORT_ROOTS_MAX = 4 };

struct import_source {
        struct import_model *model;
        const struct document *document;
        const char *path; /* of the file, absolute */
        const char *root; /* what is relative is relative to this directory */
        /* If there are others, `root` is a guess: nothing is granted by it, and denials hold at all of them. */
        const char *other_roots[IMPORT_ROOTS_MAX];
        bool soft, by_rule; /* of what is read now: see struct import_entry */
        bool literal;       /* of paths that are read now: no character stands for others */
        unsigned depth;     /* of files that extend files */
        void *own;          /* the reader's */
};

typedef int import_handler(struct import_source *source, const struct node *node, struct err *err);

/* One key of a map. Without a handler its presence is a note, or nothing where `why` is NULL too. A handler of a value
 * that is null is not called. */
struct import_key {
        const char *key;
        import_handler *handle;
        const char *why;
        bool dropped;
};
/* Every member goes to its row. `unknown`: what a key in no row means; NULL: nothing worth a note. */
int import_keys(struct import_source *source, const struct node *map, const struct import_key *keys, size_t n,
                const char *unknown, bool dropped, struct err *err);
#define IMPORT_KEYS(table) table, sizeof table / sizeof *table

/* Calls back for each string of a list; anything else is an error with its place. */
int import_each(struct import_source *source, const struct node *list, import_handler *handle, struct err *err);
int import_want_map(struct import_source *source, const struct node *node, struct err *err);
int import_want_text(struct import_source *source, const struct node *node, struct err *err);
int import_want_bool(struct import_source *source, const struct node *node, bool *ret, struct err *err);

/* No word of a tool's settings is longer than this, whether it is read or left alone: what is read is copied into the
 * model, and some of it into the policy. The firewall script has no tree: its words are checked one by one. */
enum { IMPORT_WORD_BYTES_MAX = 64 << 10 };
int import_check_words(const struct document *document, struct err *err);
int import_check_word(const struct document *document, const struct node *node, struct err *err);

/* The node's own text, with its key if it has one. Heap text. */
char *import_said(const struct node *node);
/* A note about this node, in its own words. */
int import_say(struct import_source *source, const struct node *node, bool dropped, struct err *err, const char *format,
               ...) ERR_PRINTF(5, 6);

/* Hosts. `text` is what the node says, or a part of it. */
int import_allow_host(struct import_source *source, const struct node *node, struct str text, struct err *err);
int import_deny_host(struct import_source *source, const struct node *node, struct str text, struct err *err);
import_handler import_allow_host_node, import_deny_host_node;

enum import_anchor {
        ANCHOR_PLAIN,     /* /absolute, ~/home, relative to the root */
        ANCHOR_GITIGNORE, /* //absolute, ~/home, /root, and what has no slash holds at any depth */
};
/* Paths, into one of the four lists of paths. A grant that is a glob is noted; a denial is widened if necessary. */
int import_path(struct import_source *source, const struct node *node, struct str text, enum import_list list,
                enum import_anchor anchor, struct err *err);

/* Whether the path hangs on the root or on the home, and not on a file's place. */
bool import_is_anchored(struct str text);

/* A socket that programs may connect to. A directory in its place would open the files in it. */
int import_socket(struct import_source *source, const struct node *node, struct str text, struct err *err);

/* A path whose own characters stand for themselves in a glob. */
int import_add_literal(struct buf *out, struct str text);

/* A command by its first words. exact: nothing may follow. */
int import_command_words(struct import_source *source, const struct node *node, struct str text, const char *decision,
                         bool exact, struct str reason, struct err *err);
int import_command_argv(struct import_source *source, const struct node *node, const char *decision,
                        const struct str *argv, size_t n, struct str reason, struct err *err);

/* Readers, one for each tool. The document is open; nothing but the model is changed. */
import_handler import_claude, import_srt, import_codex, import_codex_rules, import_fence, import_gemini,
    import_gemini_policy;
/* The first reading of Codex's files: see import/model.h. */
import_handler import_codex_look;
/* What an administrator requires of it, and what that means once all files are read. */
import_handler import_codex_requirements;
int import_codex_settle(struct import_model *model, struct err *err);
/* The firewall script of a development container is no tree. */
int import_devcontainer(struct import_source *source, struct str text, struct err *err);

/* Sections that Claude's settings have from srt's. */
int import_srt_network(struct import_source *source, const struct node *map, struct err *err);
int import_srt_filesystem(struct import_source *source, const struct node *map, struct err *err);
int import_srt_credentials(struct import_source *source, const struct node *map, struct err *err);

/* The defaults that every tool starts from. */
void import_start_listed(struct import_model *model, bool workspace_writable);
