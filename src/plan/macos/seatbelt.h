/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The sandbox of macOS: a Seatbelt profile, computed from the same policy as a launch plan of Linux. Pure: policy and
 * facts go in, rules as data come out, and seatbelt_text() writes them in the profile language (SBPL). It runs on every
 * system, so that `bailey plan --for macos` shows a Mac's profile on Linux.
 *
 * No Mac was at hand when this was written. The rules follow what others measured about the language; the tests hold
 * the text to an evaluator with those semantics (tests/sbpl), never to a kernel.
 *
 * How a policy becomes rules:
 *
 *  - Filtered rules: the last one that matches decides. So paths are written from shallow to deep, which is the
 *    policy's own order (policy/paths/paths.h), and globs follow, each with the deeper grants taken out of it.
 *  - A rule without a filter only sets the default of its operation. Reads are open or closed by one of those.
 *  - The more special operation decides over the general one, whatever the order. So file-write-unlink and
 *    file-read-metadata stand in few rules, each on purpose.
 *  - The kernel compares resolved paths. /tmp, /var and /etc are links into /private, so paths there are ordered by
 *    their resolved form and written in both.
 *  - Volumes mostly ignore case. The kernel knows the spelling of what exists; a name that does not exist yet is
 *    refused in every spelling.
 */
#include "base/buf.h"
#include "base/err.h"
#include "base/vec.h"
#include "policy/paths/paths.h"
#include "policy/policy.h"

enum seatbelt_filter_kind {
        SEATBELT_END, /* of a static list */
        SEATBELT_LITERAL,
        SEATBELT_SUBPATH,
        SEATBELT_REGEX,
        SEATBELT_VNODE_TYPE,
        SEATBELT_EXTENSION,
        SEATBELT_TARGET,
        SEATBELT_SYSCTL_NAME,
        SEATBELT_SYSCTL_NAME_PREFIX,
        SEATBELT_GLOBAL_NAME,
        SEATBELT_GLOBAL_NAME_REGEX,
        SEATBELT_LOCAL_NAME,
        SEATBELT_IPC_NAME,
        SEATBELT_IPC_NAME_PREFIX,
        SEATBELT_IPC_NAME_REGEX,
        SEATBELT_IOKIT_CLASS,
        SEATBELT_REMOTE_IP,
        SEATBELT_LOCAL_IP,
        SEATBELT_SOCKET_DOMAIN,
        SEATBELT_FILTER_KINDS
};

struct seatbelt_filter {
        uint8_t kind;     /* enum seatbelt_filter_kind */
        bool negated;     /* (require-not ...) */
        bool joined;      /* holds together with the filter before it: (require-all ...) */
        const char *text; /* a name, a path, a pattern */
        const char *why;  /* for people, NULL for none */
};

struct seatbelt_rule {
        bool allows;
        const char *section;    /* heading in the text; rules of one section stand together */
        const char *why;        /* for people */
        const char *operations; /* separated by blanks */
        size_t first, n;        /* of struct seatbelt, `filters`; n is 0 for a default of the operation */
};

/* A path that the language cannot hold (not ASCII, a quote, too long) is handed over beside the text. */
struct seatbelt_parameter {
        const char *name, *value;
};

struct seatbelt {
        VEC(char *) strings; /* owns what the rest points to */
        const char *tag;     /* the message of every denial, by which the log knows the run */
        VEC(struct seatbelt_rule) rules;
        VEC(struct seatbelt_filter) filters;
        VEC(struct seatbelt_parameter) parameters;
        VEC(const char *) notes; /* for people: what differs from Linux under this policy */
};

/* Facts about the Mac. */
struct seatbelt_host {
        const char *home;     /* of the user, canonical */
        const char *own_home; /* the directory of the sandbox's own home, NULL: the real one is used */
        const char *tmpdir;   /* of this run alone, canonical */
        bool case_sensitive;  /* the volumes tell a from A */
        uint16_t http_port, socks_port, api_port; /* of the gateway on loopback, 0: none */
        const char *const *sockets;               /* Unix sockets of the host, NULL-terminated, or NULL */
        const char *tag;                          /* letters, digits, '-' and '_' */
};

struct seatbelt_request {
        const struct policy *policy;
        const struct path_rules *rules;
        const struct seatbelt_host *host;
};

/* -EOPNOTSUPP for a policy that macOS cannot hold (an overlay, a port that is mapped), -EINVAL for facts that are none.
 */
int seatbelt_build(const struct seatbelt_request *request, struct seatbelt **ret, struct err *err);
void seatbelt_free(struct seatbelt *seatbelt);
void seatbelt_freep(struct seatbelt **seatbelt);

/* The profile, pure ASCII, with a comment on every rule. */
int seatbelt_text(const struct seatbelt *seatbelt, struct buf *out);
