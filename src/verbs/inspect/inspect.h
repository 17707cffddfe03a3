/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Questions about a policy, without running anything: is it valid, what does it say, what would it decide and why.
 * Answers are plain text and numbers; the command line prints them.
 */
#include "base/buf.h"
#include "conf/option.h"

struct inspector;

/* Loads and compiles the policy that the options (rows of verbs/policy_options.h) give. `file`: nothing but this
 * file. */
int inspector_new(const struct option_values *options, const char *file, struct inspector **ret, struct err *err);
void inspector_free(struct inspector *inspector);
void inspector_freep(struct inspector **inspector);

enum inspect_show_flags { INSPECT_EXPAND = 1, INSPECT_DEFAULTS = 2, INSPECT_JSON = 4 };
int inspect_show(const struct inspector *inspector, unsigned flags, struct buf *out);
/* How much there is: for the summary of a check. */
struct inspect_counts {
        size_t network_rules, path_rules;
        const char *mode;
};
/* Grants that open nothing, a line each. */
void inspect_idle(const struct inspector *inspector, void (*say)(void *arg, const char *text), void *arg);
struct inspect_counts inspect_count(const struct inspector *inspector);

/* The groups for allow and deny lists, and the profiles, with what they stand for. */
int inspect_list_groups(struct buf *out, bool json);

/* One verdict. Texts that are not owned are static; NULL where there is nothing to say. */
struct inspect_verdict {
        bool is_path;
        bool allowed;
        const char *decision; /* hosts: allow, ask, deny; paths: write, read, ask, denied */
        const char *reason;   /* code */
        const char *text;     /* for people */
        const char *list;     /* allow, deny, allow_private: where the rule stands */
        char *target;         /* canonical: "host:port", or the path with links resolved */
        char *detail;         /* what is wrong with the name, or the class of the address */
        char *rule, *origin;
        char *because;  /* the reason that the rule gives */
        char *change;   /* what a person can do about it */
        char *ratchets; /* what ratchets have to do with it, a line each */
        char *notes;    /* what is still decided behind the verdict, a line each */
        uint16_t port;
        bool needs_request; /* allowed, but methods and paths count */
};
void inspect_verdict_done(struct inspect_verdict *verdict);

struct inspect_question {
        const char *target;        /* HOST[:PORT]; 443 without a port */
        const char *method, *path; /* optional: a request that is seen */
        const char *address;       /* optional: what the name resolves to */
};
int inspect_host(const struct inspector *inspector, const struct inspect_question *question,
                 struct inspect_verdict *ret, struct err *err);
/* A repository, HOST/PATH or git's address of it, and with =REF a push to a branch or a full ref. */
int inspect_repository(const struct inspector *inspector, const char *text, struct inspect_verdict *ret,
                       struct err *err);
/* Does the text mean a repository? It begins with a host that the policy names under git, or is an address for ssh or
 * git's daemon (inspect_ssh.h). */
bool inspect_is_repository(const struct inspector *inspector, const char *text);
/* A file or directory that is there, and is called like an address for ssh: then that is meant, as git does it. */
bool inspect_is_file(const char *text);
/* A call of a bridged tool: it begins with the name of one that the policy opens. */
bool inspect_is_tool(const struct inspector *inspector, const char *text);
/* A page, by its address: would it be opened in a person's browser? */
bool inspect_is_page(const char *text);
int inspect_page(const struct inspector *inspector, const char *text, struct inspect_verdict *ret, struct err *err);
/* Links are resolved as far as the path exists. */
int inspect_path(const struct inspector *inspector, const char *path, struct inspect_verdict *ret, struct err *err);
/* Does the text mean a path? No host has a slash or begins with a dot: x/y, ~, . and .envrc are paths. */
bool inspect_is_path(const char *text);
