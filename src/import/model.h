/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What another tool's settings grant and forbid, in one form for all of them. A reader (import/claude.c and its
 * neighbours) fills it from the tool's files; import/import_resolve.c adapts it to Bailey's order of rules;
 * import/write.c writes the policy. Every entry knows where it was written and in which words.
 *
 * Settings that cannot be expressed become notes. A grant that is left out is harmless; a restriction that is left out
 * is `dropped`, and the whole import says so with an exit code of its own.
 */
#include "base/err.h"
#include "base/str.h"
#include "base/vec.h"

enum import_list {
        IMPORT_ALLOW,       /* patterns of hosts (policy/match/pattern.h) */
        IMPORT_DENY,        /* the same, or "*:PORT" */
        IMPORT_UNSAID_DENY, /* hosts that are denied by a form that is no pattern: what they may concern is not allowed
                             */
        IMPORT_REQUIRED_HOST,   /* an administrator's list, in the words of Codex: grants nothing, see hosts_required */
        IMPORT_REQUIRED_SOCKET, /* the same of sockets: absolute paths */
        IMPORT_NO_INTERCEPT,    /* patterns */
        IMPORT_HOST_PORT,       /* ports of this host's loopback */
        IMPORT_BYPASS,          /* patterns that the upstream proxy is not used for */
        IMPORT_READ,            /* absolute paths */
        IMPORT_WRITE,
        IMPORT_DENY_READ, /* absolute paths or globs */
        IMPORT_DENY_WRITE,
        IMPORT_LISTS
};

struct import_entry {
        char *text, *place; /* "settings.json:3:9" */
        char *said;         /* the source's own words; "" for what the tool does by itself */
        char *reason;       /* of a denial, or NULL */
        bool soft;          /* in IMPORT_DENY_READ: can be opened again; in IMPORT_READ: opens such a denial again */
        bool by_rule;       /* granted by a rule about the agent's tools, which a rule about all of a tool takes back */
        bool socket;        /* in IMPORT_READ: granted to connect to it */
        size_t file;        /* how many files had been read before its own */
};
typedef VEC(struct import_entry) import_entries;
typedef VEC(char *) import_words;

struct import_command {
        const char *decision; /* allow, escalate, forbid */
        import_words argv;
        char *reason, *place, *said;
};

struct import_credential {
        char *env, *place;
        import_words hosts;
};

/* How Codex confines, by a word of sandbox_mode or by a name of default_permissions. */
struct import_choice {
        char *profile; /* that says it; NULL: the file itself does */
        char *mode;    /* NULL: there is this profile, and it says nothing */
        bool permissions;
};

/* A variable that the source keeps from programs. Inside it is there, and empty. */
struct import_variable {
        char *name, *place;
};

struct import_note {
        char *place, *said, *why;
        bool dropped; /* a restriction is missing in the result */
};

enum import_network { IMPORT_NETWORK_NONE, IMPORT_NETWORK_LISTED, IMPORT_NETWORK_ANY };

struct import_model {
        const char *tool;
        const char *workspace, *home; /* absolute and normalised */
        import_entries lists[IMPORT_LISTS];
        VEC(struct import_command) commands;
        VEC(struct import_credential) credentials;
        VEC(struct import_variable) hidden;
        VEC(struct import_note) notes;
        import_words files; /* that were read */
        uint64_t work;      /* comparisons of entries with each other so far; import_check_work() bounds them */

        enum import_network network;
        bool denies_all_hosts; /* "*" among the denied ones */
        bool safe_methods;     /* only GET, HEAD and OPTIONS */
        size_t only_file;      /* 1 + number of the file whose allowed hosts alone count; 0: all */
        bool asks, strict;     /* a person is asked about other hosts; nobody is, whatever another file says */
        /* Files come with the one that counts most first: what it says, others cannot say otherwise. */
        bool mode_decided, network_decided, paths_decided;
        /* Codex merges its files before it looks for the profile: a first reading (`looking`) collects these. */
        bool looking;
        VEC(struct import_choice) choices;
        char *profile, *profile_place; /* the chosen one, or NULL */
        char *upstream_proxy;
        bool rules_grant_no_hosts, rules_grant_no_writes; /* entries that are `by_rule` do not count */
        bool reads_strict;        /* and the directories of the system are not among them by themselves */
        bool reads_listed;        /* only what IMPORT_READ and IMPORT_WRITE name can be read */
        bool reads_limit_writes;  /* what is named for reading alone is not written to, also inside IMPORT_WRITE */
        bool requires_read_only;  /* whatever mode is chosen */
        bool hosts_limited;       /* no mode opens every host: only those that are listed */
        bool hosts_required;      /* and of those only what IMPORT_REQUIRED_HOST covers */
        bool sockets_required;    /* sockets that IMPORT_REQUIRED_SOCKET does not name are not connected to */
        bool workspace_writable;  /* before denials */
        bool workspace_read_only; /* settled: the project is not written to */
};

void import_model_done(struct import_model *model);
/* -E2BIG if there are too many entries to compare them with each other. */
int import_check_work(const struct import_model *model, struct err *err);
bool import_is_overworked(const struct import_model *model);
bool import_model_dropped(const struct import_model *model);

/* All texts are copied. What is there already is not added again. */
int import_add(struct import_model *model, enum import_list list, struct str text, const char *place, struct str said,
               struct err *err);
int import_add_path(struct import_model *model, enum import_list list, struct str text, const char *place,
                    struct str said, bool soft, struct err *err);
int import_hide(struct import_model *model, struct str name, const char *place, struct err *err);
int import_note(struct import_model *model, const char *place, struct str said, bool dropped, struct err *err,
                const char *format, ...) ERR_PRINTF(6, 7);
int import_words_add(import_words *words, struct str text, struct err *err);
void import_words_done(import_words *words);
void import_entry_done(struct import_entry *entry);
/* Takes the entry out and notes why. */
int import_drop(struct import_model *model, enum import_list list, size_t index, bool dropped, const char *why,
                struct err *err);
