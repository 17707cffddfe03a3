/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BAILEY_CONFIG_H
#define BAILEY_CONFIG_H
#include "bailey/error.h"
BAILEY_BEGIN

/*
 * What a manager works with: a policy, and how the library behaves around it. A config is a builder. It may be changed
 * and freed after a manager was made of it; the manager has its own copy. One config belongs to one thread at a time.
 *
 * Settings have the names of bailey-policy(5): "network.allow", "filesystem.write", "process.timeout". A list grows
 * with every call; of other settings the last value counts. Each value is checked at once; the whole is checked by
 * bailey_config_validate(), bailey_manager_new() and bailey_manager_update(). Paths may begin with ~ and may be
 * relative: to the directory that is current when the manager is made.
 *
 * A config stands for itself: neither files of the user nor of the workspace nor BAILEY_* variables are read.
 */
typedef struct bailey_config bailey_config;

/* A new config on a preset, NULL for "default":
 *   default      strict; writes in the workspace, network by policy
 *   development  runs with less, or without protection, where the machine cannot give it; open network
 *   ci           strict; writes in the workspace, no network, nobody is asked
 * BAILEY_E_ARGUMENT: there is no such preset. */
BAILEY_API int bailey_config_new(const char *preset, bailey_config **ret, struct bailey_error *e);
/* A copy of its own. BAILEY_E_MEMORY. */
BAILEY_API int bailey_config_copy(const bailey_config *from, bailey_config **ret, struct bailey_error *e);
/* Frees it; NULL is allowed. */
BAILEY_API void bailey_config_free(bailey_config *c);

/* Any setting, by its key. BAILEY_E_CONFIG: unknown key (with a suggestion), or a value that is not accepted. */
BAILEY_API int bailey_config_set(bailey_config *c, const char *key, const char *value, struct bailey_error *e);
/* The text of a policy (YAML or JSON), for what has structure: rules, commands, credentials. Settings made by the other
 * functions lie over it. Replaces an earlier one. BAILEY_E_CONFIG with line and column. */
BAILEY_API int bailey_config_policy(bailey_config *c, const char *text, struct bailey_error *e);
/* The same from a file. BAILEY_E_CONFIG: it cannot be read, or what it says is wrong. */
BAILEY_API int bailey_config_policy_file(bailey_config *c, const char *path, struct bailey_error *e);

/* The directory that a command may write; the directory where the manager is made, if not set. */
BAILEY_API int bailey_config_workspace(bailey_config *c, const char *directory, struct bailey_error *e);
/* A host pattern that may be reached: "api.example.com", "*.example.com:443", "@github". */
BAILEY_API int bailey_config_allow(bailey_config *c, const char *pattern, struct bailey_error *e);
/* A host pattern that is refused whatever allows it. */
BAILEY_API int bailey_config_deny(bailey_config *c, const char *pattern, struct bailey_error *e);
/* A path that may be written, with everything below. */
BAILEY_API int bailey_config_write(bailey_config *c, const char *path, struct bailey_error *e);
/* A path or glob that may not be read. */
BAILEY_API int bailey_config_deny_read(bailey_config *c, const char *path, struct bailey_error *e);
/* A path or glob that may not be written. */
BAILEY_API int bailey_config_deny_write(bailey_config *c, const char *path, struct bailey_error *e);
/* A variable that the command sees: "NAME=VALUE". */
BAILEY_API int bailey_config_env(bailey_config *c, const char *assignment, struct bailey_error *e);

/* What happens where this machine cannot make a sandbox. */
enum bailey_unavailable {
        BAILEY_STRICT, /* bailey_manager_new() fails with BAILEY_E_PLATFORM or BAILEY_E_DEPENDENCY */
        BAILEY_WARN    /* the manager runs commands without a sandbox, and every result says so */
};
/* Strict, unless the preset is "development". */
BAILEY_API int bailey_config_unavailable(bailey_config *c, enum bailey_unavailable what, struct bailey_error *e);
/* The shell of bailey_manager_exec(); "/bin/sh" if not set. It must exist when the manager is made. */
BAILEY_API int bailey_config_shell(bailey_config *c, const char *path, struct bailey_error *e);
/* How much of each output is kept, in bytes; 10 MB (10,000,000) if not set. The rest is read and dropped. */
BAILEY_API int bailey_config_output_limit(bailey_config *c, uint64_t bytes, struct bailey_error *e);
/* The bailey executable. If not set: beside this library or this program, in the installation, or in the build tree.
 * It is never looked for in PATH. */
BAILEY_API int bailey_config_executable(bailey_config *c, const char *path, struct bailey_error *e);
/* Addresses of names that the gateway knows without asking, in the form of /etc/hosts. */
BAILEY_API int bailey_config_hosts_file(bailey_config *c, const char *path, struct bailey_error *e);

/* A command that the classifier escalates. The texts are valid during the call and may hold any byte of the command:
 * escape them before they are shown. */
struct bailey_question {
        const char *command; /* the whole command; for bailey_manager_exec_args() its words, quoted for a shell */
        const char *segment; /* the part that decided */
        const char *rule, *reason;
};
enum bailey_approval {
        BAILEY_DENY,
        BAILEY_APPROVE,        /* this once */
        BAILEY_APPROVE_SESSION /* this very command, as long as the manager lives */
};
/* Called on the thread that wants to run the command, one question at a time in a manager. It must not start an
 * escalated command on the same manager. */
typedef enum bailey_approval (*bailey_approval_fn)(void *arg, const struct bailey_question *q);
/* Who is asked about escalated commands. NULL: nobody, they are refused. */
BAILEY_API int bailey_config_on_approval(bailey_config *c, bailey_approval_fn fn, void *arg, struct bailey_error *e);

/* A classifier of the program's own. It gets the command (as struct bailey_question has it) and Bailey's own verdict,
 * and may change decision, rule and reason of that: what it leaves counts, for running and for bailey_manager_check().
 * Nothing lifts "forbidden". Called on the thread that runs or checks the command, by several threads at once. */
struct bailey_verdict;
typedef void (*bailey_classifier_fn)(void *arg, const char *command, struct bailey_verdict *verdict);
/* Who has the last word about commands. NULL: Bailey's own classifier. */
BAILEY_API int bailey_config_classifier(bailey_config *c, bailey_classifier_fn fn, void *arg, struct bailey_error *e);

/* A host that no rule names, and that may be asked for. `host` is a canonical name or address. 1 allows this connection
 * and those that wait with it; 0 refuses. Called on the thread that runs the command, or on a thread of the library for
 * bailey_gateway_start(). The connection is held meanwhile, for network.ask_timeout at the longest. */
typedef int (*bailey_request_fn)(void *arg, const char *host, uint16_t port);
/* Who is asked about hosts. NULL: nobody, they are refused. */
BAILEY_API int bailey_config_on_request(bailey_config *c, bailey_request_fn fn, void *arg, struct bailey_error *e);

/* Checks the whole: every setting, the policy's text, its rules and their examples. Starts nothing.
 * BAILEY_E_CONFIG, BAILEY_E_DEPENDENCY (the shell). */
BAILEY_API int bailey_config_validate(const bailey_config *c, struct bailey_error *e);

BAILEY_END
#endif
