/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BAILEY_ERROR_H
#define BAILEY_ERROR_H
#include "bailey/api.h"
BAILEY_BEGIN

/*
 * Functions that can fail return BAILEY_OK or one of these negative codes. The numbers never change. Each code is one
 * thing that a program may want to handle by itself.
 */
enum bailey_code {
        BAILEY_OK = 0,
        BAILEY_E_MEMORY = -1,     /* out of memory */
        BAILEY_E_ARGUMENT = -2,   /* the call itself is wrong: NULL, an empty command, a name that does not exist */
        BAILEY_E_CONFIG = -3,     /* the config is invalid; the message says which setting, and what is accepted */
        BAILEY_E_PLATFORM = -4,   /* unsupported platform: this machine cannot make the sandbox; the message says why */
        BAILEY_E_DEPENDENCY = -5, /* dependency missing: the bailey executable, its gateway or the shell */
        BAILEY_E_FORBIDDEN = -6,  /* the classifier forbids the command: error.rule and error.reason say why */
        BAILEY_E_ESCALATED = -7,  /* the command needs an approval: there was nobody to ask, or the answer was no */
        BAILEY_E_CLOSED = -8,     /* the manager is closed: bailey_manager_cleanup() was called */
        BAILEY_E_PROXY = -9,      /* a gateway could not start */
        BAILEY_E_TIMEOUT = -10,   /* the time limit was reached; the sandbox and everything in it was killed */
        BAILEY_E_CANCELLED = -11, /* the call was cancelled; the sandbox and everything in it was killed */
        BAILEY_E_SYSTEM = -12     /* a system call or a part of Bailey failed; the message says which */
};

/*
 * Details of a failure. Owned by the caller, of fixed size, so that reporting never allocates and never fails. Every
 * function that can fail takes a pointer to one as its last argument, which may be NULL. It is written only on failure.
 * Texts are always terminated; one that does not fit is cut. Text from a command is escaped: it is safe to print.
 */
struct bailey_error {
        int code;           /* enum bailey_code */
        char message[1024]; /* one sentence for people */
        char rule[128];     /* FORBIDDEN and ESCALATED: the name of the rule that decided, else "" */
        char reason[256];   /* the rule's reason, else "" */
        char segment[512];  /* the part of the command that decided, else "" */
};

/* A stable name for a code, for logs and JSON: "escalated-command". Never NULL. */
BAILEY_API const char *bailey_error_name(int code);

BAILEY_END
#endif
