/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BAILEY_MANAGER_H
#define BAILEY_MANAGER_H
#include "bailey/config.h"
BAILEY_BEGIN

/* Runs commands in sandboxes by one config. Every function may be called from any number of threads at once, except
 * bailey_manager_free(), which must be the last. */
typedef struct bailey_manager bailey_manager;

/* Validates and copies the config, finds the shell and the bailey executable, and makes one sandbox to see that this
 * machine can. BAILEY_E_CONFIG, BAILEY_E_DEPENDENCY, BAILEY_E_PLATFORM (not with BAILEY_WARN). */
BAILEY_API int bailey_manager_new(const bailey_config *c, bailey_manager **ret, struct bailey_error *e);
/* Commands that start from now on run by the new config, all of it. The network rules of those that run already, and of
 * gateways, are replaced before this returns; open tunnels that they refuse are closed. What cannot take them ends. A
 * config that is not valid changes nothing. May be called in a callback.
 * BAILEY_E_CONFIG, BAILEY_E_DEPENDENCY, BAILEY_E_CLOSED. */
BAILEY_API int bailey_manager_update(bailey_manager *m, const bailey_config *c, struct bailey_error *e);
/* 1: commands run in a sandbox; where the config accepts less (allow_degraded) and this machine gives less, the error's
 * message says what is lost, with the code BAILEY_OK. 0: they do not (BAILEY_WARN), or the manager is closed; the error
 * says why. */
BAILEY_API int bailey_manager_available(const bailey_manager *m, struct bailey_error *e);
/* Closes: every later call fails with BAILEY_E_CLOSED, what runs is killed and its callers get BAILEY_E_CANCELLED,
 * gateways end. Returns when all of that is done, after 5 seconds at the latest. A second time: BAILEY_E_CLOSED. */
BAILEY_API int bailey_manager_cleanup(bailey_manager *m, struct bailey_error *e);
/* Cleans up if that was not done, and frees; NULL is allowed. No other thread may be inside a call. */
BAILEY_API void bailey_manager_free(bailey_manager *m);

/* What must be there, each with what was found. */
struct bailey_dependency {
        const char *name;  /* "bailey", "bailey-gateway", "shell" */
        int found;         /* 1: usable */
        char detail[1024]; /* where it is, or what is wrong */
};
enum { BAILEY_DEPENDENCIES = 3 };
/* Looks for all of them; c may be NULL for the default config. BAILEY_E_DEPENDENCY when one is missing: the list is
 * filled in any case. */
BAILEY_API int bailey_check_dependencies(const bailey_config *c, struct bailey_dependency ret[BAILEY_DEPENDENCIES],
                                         struct bailey_error *e);

/*
 * Options of one call, laid over the manager's config. NULL stands for none.
 */
typedef struct bailey_options bailey_options;
/* Empty options. BAILEY_E_MEMORY. */
BAILEY_API int bailey_options_new(bailey_options **ret, struct bailey_error *e);
/* Frees them; NULL is allowed. No call may be using them. */
BAILEY_API void bailey_options_free(bailey_options *o);
/* Any setting of bailey-policy(5) for this call: "filesystem.write", "mode", "filesystem.deny_read", "process.env.set".
 * Lists add to the manager's. BAILEY_E_CONFIG. */
BAILEY_API int bailey_options_set(bailey_options *o, const char *key, const char *value, struct bailey_error *e);
/* Where the command starts: there, or the call fails and names the directory (a denied one, or one below /tmp, which
 * the sandbox has for itself). If not set: the directory of bailey_manager_new() where that is in the workspace, else
 * the workspace. */
BAILEY_API int bailey_options_directory(bailey_options *o, const char *path, struct bailey_error *e);
/* After this the sandbox is killed; 0: no limit. */
BAILEY_API int bailey_options_timeout(bailey_options *o, uint64_t milliseconds, struct bailey_error *e);
/* Another shell. */
BAILEY_API int bailey_options_shell(bailey_options *o, const char *path, struct bailey_error *e);
/* Another limit for each output, in bytes. */
BAILEY_API int bailey_options_output_limit(bailey_options *o, uint64_t bytes, struct bailey_error *e);
/* Somebody else who is asked about an escalated command. */
BAILEY_API int bailey_options_on_approval(bailey_options *o, bailey_approval_fn fn, void *arg, struct bailey_error *e);
/* The command's standard input, a descriptor that stays the caller's; nothing to read if not set. */
BAILEY_API int bailey_options_input(bailey_options *o, int fd, struct bailey_error *e);
/* Somebody else who has the last word about the command. */
BAILEY_API int bailey_options_classifier(bailey_options *o, bailey_classifier_fn fn, void *arg, struct bailey_error *e);
/* 0: the command is not classified, because the caller has judged it. It still runs in the sandbox. */
BAILEY_API int bailey_options_classify(bailey_options *o, int on, struct bailey_error *e);

/* A way to end calls from outside. */
typedef struct bailey_cancel bailey_cancel;
/* BAILEY_E_MEMORY, BAILEY_E_SYSTEM. */
BAILEY_API int bailey_cancel_new(bailey_cancel **ret, struct bailey_error *e);
/* Ends every call whose options name it, now and later. From any thread, and from a signal handler. */
BAILEY_API void bailey_cancel_trigger(bailey_cancel *c);
/* Frees it; NULL is allowed. No call and no options may be using it. */
BAILEY_API void bailey_cancel_free(bailey_cancel *c);
/* Calls with these options end when it is triggered. */
BAILEY_API int bailey_options_cancel(bailey_options *o, bailey_cancel *c, struct bailey_error *e);

/*
 * Results.
 */
typedef struct bailey_result bailey_result;

/* Something that the policy refused while the command ran. File accesses that mounts refuse are the kernel's, and are
 * listed where "process.trace_denials" is set. */
struct bailey_violation {
        const char *operation; /* "network", "read", "write", "socket", "system-call", "protected" */
        const char *target;    /* "host:port", a path, a name; escaped */
        const char *rule;      /* the rule that refused it as it was written, "" when nothing allows it */
        const char *detail;    /* why, and what would allow it */
        uint64_t count;        /* how often */
        const char *process;   /* "name[pid]" as the sandbox numbers it, the first that tried; "" where it is not known:
                                * connections, and   protected paths, which are found at the end. Escaped */
};

/* The exit code, 0 to 255; 126 and 127 as a shell has them. -1 when a signal ended the command. */
BAILEY_API int bailey_result_exit_code(const bailey_result *r);
/* The signal that ended the command, or 0. */
BAILEY_API int bailey_result_signal(const bailey_result *r);
/* What it wrote to standard output; any bytes, and a NUL after them that is not counted. *ret_n may be NULL. */
BAILEY_API const char *bailey_result_stdout(const bailey_result *r, size_t *ret_n);
/* What it wrote to standard error. */
BAILEY_API const char *bailey_result_stderr(const bailey_result *r, size_t *ret_n);
/* 1 when an output was longer than the limit, and its end is missing. */
BAILEY_API int bailey_result_truncated(const bailey_result *r);
/* From the start of the call's process to its end. */
BAILEY_API uint64_t bailey_result_duration_ns(const bailey_result *r);
/* 1: it ran in a sandbox. 0: it ran without one, because the manager has none (BAILEY_WARN). */
BAILEY_API int bailey_result_sandboxed(const bailey_result *r);
/* Why it was not sandboxed, or, line by line, what was lost of the sandbox on this machine; "" when nothing was. */
BAILEY_API const char *bailey_result_notice(const bailey_result *r);
/* How many violations there are. */
BAILEY_API size_t bailey_result_violations(const bailey_result *r);
/* One of them, or NULL beyond the last. It lives as long as the result. */
BAILEY_API const struct bailey_violation *bailey_result_violation(const bailey_result *r, size_t i);
/* Frees it; NULL is allowed. */
BAILEY_API void bailey_result_free(bailey_result *r);

/* What this machine can do: bailey_result_stdout() is the object of `bailey doctor --json`. It takes a moment, since
 * what can be tried is tried, but a minute at most: BAILEY_E_TIMEOUT. c may be NULL for the default config.
 * BAILEY_E_DEPENDENCY: there is no bailey to ask. */
BAILEY_API int bailey_capabilities(const bailey_config *c, bailey_result **ret, struct bailey_error *e);

/*
 * Running.
 */

/* Runs text through the shell: classified, approved where needed, in a sandbox, output captured. A command that ends in
 * any way is BAILEY_OK with a result. BAILEY_E_TIMEOUT has a result too: what the command wrote until its time was
 * over, with exit code -1. The other errors have none, and *ret stays as it was: BAILEY_E_FORBIDDEN, _ESCALATED,
 * _CANCELLED, _CLOSED, _CONFIG (of the options), _PLATFORM, _SYSTEM. */
BAILEY_API int bailey_manager_exec(bailey_manager *m, const char *command, const bailey_options *o, bailey_result **ret,
                                   struct bailey_error *e);
/* Runs a program without a shell: argv is NULL-terminated, argv[0] is found in PATH. Errors as above. */
BAILEY_API int bailey_manager_exec_args(bailey_manager *m, const char *const *argv, const bailey_options *o,
                                        bailey_result **ret, struct bailey_error *e);

/* A command that the caller starts itself. */
struct bailey_command {
        const char *path;        /* what is executed */
        const char *const *argv; /* NULL-terminated */
        const char *const *envp; /* NULL-terminated; NULL: the environment of bailey_manager_new() */
        void *memory;            /* the library's; must be NULL before the first wrap */
};
/* Changes the command in place so that it runs in a sandbox: path, argv and envp are replaced by the library's, which
 * belong to the command until bailey_command_done(). Standard descriptors, terminal, process group and signals are the
 * caller's as before; other descriptors are not needed and are not passed on. The status of the process is the
 * command's; 120 to 125 are Bailey's own. The command is classified as for bailey_manager_exec_args(). Time limits
 * hold; output limits and cancelling are the caller's business; hosts that may be asked for are refused. Where the
 * manager has no sandbox (BAILEY_WARN) nothing is changed. Errors as of bailey_manager_exec(). */
BAILEY_API int bailey_manager_wrap(bailey_manager *m, struct bailey_command *command, const bailey_options *o,
                                   struct bailey_error *e);
/* Frees what wrap made, after the process was started. */
BAILEY_API void bailey_command_done(struct bailey_command *command);

/*
 * Judging without running.
 */
enum bailey_decision {
        BAILEY_ALLOW,     /* known to be harmless */
        BAILEY_SANDBOXED, /* no rule is about it */
        BAILEY_ESCALATED, /* needs an approval */
        BAILEY_FORBIDDEN  /* is never run */
};
/* Fixed size, owned by the caller; texts escaped and cut as in struct bailey_error. */
struct bailey_verdict {
        enum bailey_decision decision;
        char rule[128]; /* "" when no rule matched */
        char reason[256];
        char segment[512];
        char detail[256]; /* what was not understood, or "" */
};
/* What bailey_manager_exec() would decide about the text. Runs nothing and opens no file. */
BAILEY_API int bailey_manager_check(bailey_manager *m, const char *command, struct bailey_verdict *ret,
                                    struct bailey_error *e);
/* What bailey_manager_exec_args() would decide. */
BAILEY_API int bailey_manager_check_args(bailey_manager *m, const char *const *argv, struct bailey_verdict *ret,
                                         struct bailey_error *e);
/* "allow", "sandboxed", "escalated", "forbidden"; NULL for no decision. */
BAILEY_API const char *bailey_decision_name(enum bailey_decision d);

BAILEY_END
#endif
