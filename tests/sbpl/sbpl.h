/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A reader and judge for Seatbelt's profile language, for the tests: no Mac is at hand. It follows what others measured
 * (tests/cases/sbpl/facts.txt names the source of each fact) and is strict where the real compiler is: an operation or
 * filter that it does not know, a string that is too long or not ASCII, a host other than `localhost` or `*`.
 *
 * One rule is inference from three reports, not a measurement: a question goes from the operation itself to the more
 * general ones (file-read-data, file-read*, file*, default). On each step the last rule with a filter that matches
 * decides; if there is none, the last rule without a filter; if there is none either, the next step.
 */
#include "base/err.h"
#include "base/str.h"

enum sbpl_verdict { SBPL_DENY, SBPL_ALLOW };

struct sbpl;
struct sbpl_parameter {
        const char *name, *value;
};

struct sbpl_question {
        const char *operation; /* "file-read-data" */
        const char *path;      /* resolved, as the kernel has it; NULL: none */
        const char *type;      /* of the vnode; NULL: REGULAR-FILE */
        const char *target;    /* of a signal: self, same-sandbox, others */
        const char *name;      /* of a sysctl, a service, memory, a hardware class */
        bool local_name;       /* the service is the process's own */
        const char *address;   /* of a connection: "127.0.0.1" */
        bool own_address;      /* it belongs to this machine, and is no loopback */
        unsigned port;
        const char *domain;    /* of a socket: "AF_UNIX" */
        const char *extension; /* that the process holds for the path */
};

struct sbpl_answer {
        enum sbpl_verdict verdict;
        int line; /* of the rule that decided, 0: none did */
};

/* `parameters` ends with a row without a name; or NULL. */
int sbpl_parse(struct str text, const struct sbpl_parameter *parameters, struct sbpl **ret, struct err *e);
void sbpl_free(struct sbpl *s);
void sbpl_freep(struct sbpl **s);

struct sbpl_answer sbpl_ask(const struct sbpl *s, const struct sbpl_question *q);
/* Whether a process under this profile can apply another one: only where nothing is denied. */
bool sbpl_can_nest(const struct sbpl *s);
/* Whether a program starts at all: its file may be executed, the loader mapped, the root read. */
bool sbpl_can_start(const struct sbpl *s, const char *program);
size_t sbpl_rules(const struct sbpl *s);
/* Whether some rule names this operation and has no filter. */
bool sbpl_has_default(const struct sbpl *s, const char *operation);
