/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Makes the merged policy. Layers, each laid over the ones before; single values are replaced, lists add up:
 *
 *   defaults, preset, user file (~/.config/bailey/config.yaml, or --policy FILE in its place), approved rules
 *   (policy/approved.h), workspace file (.bailey.yaml), BAILEY_* variables, command line, options of the call
 *
 * The workspace file comes with the code that is to be confined, so it is not trusted: it may only restrict. If it asks
 * for more, nothing is loaded and the error names the request, until a person has trusted exactly that content.
 */
#include "policy/policy.h"

/* Which layer was wrong, so that callers can tell a bad file from a bad command line. */
enum policy_layer { LAYER_FILES, LAYER_VARIABLES, LAYER_COMMAND_LINE, LAYER_CALL };

struct policy_request {
        const char *workspace;                    /* directory; NULL: by --workspace, else the current one */
        const struct option_values *command_line; /* NULL: none; rows of other tables are ignored */
        const struct option_values *call;         /* NULL: none */
        bool remembered;                          /* also with only_file: rules that people have had remembered */
        const char *only_file;                    /* nothing but the defaults and this file, trusted: for checking it */
        /* Nothing of this machine's user or workspace: defaults, this text (may be empty), and the two lists above. For
         * a program that brings its policy with it. */
        const char *only_text;
        const char *program;          /* what is to be run: it may have a profile of its own; NULL: not known */
        const char *base;             /* what is relative is relative to this directory; NULL: the current one */
        enum policy_layer *ret_layer; /* optional: the layer that a failure is about */
        bool guest;                   /* the workspace is the home of a guest (src/guest): no file in it is a policy */
        bool network_only;            /* the files part will not be used: the workspace may be anything */
};

/* -EPERM: the workspace file asks for more than was granted and is not trusted. -EINVAL and others: a layer is wrong.
 */
int policy_load(const struct policy_request *request, struct policy **ret, struct err *err);

/* What a workspace file asks for that needs trust. */
struct widening {
        char *place; /* ".bailey.yaml:3:9" */
        char *key, *text;
};
struct workspace_file {
        char *path;      /* absolute; NULL: there is no such file */
        char digest[65]; /* of its content and of the list files that it allows */
        bool trusted;
        VEC(struct widening) widenings;
};
void workspace_file_done(struct workspace_file *file);
/* Reads and checks the workspace's file without refusing it: for `bailey trust`. */
int policy_examine_workspace(const struct policy_request *request, struct workspace_file *ret, struct err *err);
