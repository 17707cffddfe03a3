/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The sign-in files of agents, as data: one row for each file. A row says where each secret is in the file, which hosts
 * may get it, and how it is renewed at the provider's token endpoint. A row becomes one credential for each secret; a
 * policy can say the same (bailey-policy(5)).
 */
#include "base/buf.h"
#include "base/err.h"

struct sign_in_secret {
        const char *suffix;       /* of its name, behind the sign-in's: "" or ".refresh" */
        const char *pointer;      /* in the file; a step that is "*" is any name. NULL: it is never in the file */
        const char *const *hosts; /* exact hosts of the provider, or those of... */
        const char *provider;     /* ... this row of the table of providers, with its slots; NULL: none */
        const char *slots;        /* with commas; NULL: the provider's */
        const char *form;         /* of the stand-in: "opaque:PREFIX", "jwt"; NULL: as the value */
        const char *answer;       /* the member of a token endpoint's answer that renews it; NULL: none */
};

enum { SIGN_IN_SECRETS_MAX = 20, SIGN_IN_BYTES_MAX = 1 << 20 };

struct sign_in {
        const char *name, *title;
        const char *file;     /* below the home directory */
        const char *variable; /* "NAME" or "NAME/BELOW": a variable that names another directory, and the place in it;
                               * NULL: none. `file`'s last name lies there */
        const char *expiry; /* "ms:POINTER" when the access token ends, "now:POINTER" when it was renewed; NULL: none */
        const char *lock;   /* directory that the agent itself makes while it renews, below the home; NULL: none */
        bool yaml;
        struct sign_in_secret secrets[SIGN_IN_SECRETS_MAX]; /* up to the first without slots and provider */
};

extern const struct sign_in sign_ins[];
extern const size_t n_sign_ins;

const struct sign_in *sign_in_find(struct str name); /* NULL: none */
size_t sign_in_secrets(const struct sign_in *sign_in);

/* The file that it has now: heap text. By the variable, if it is set to an absolute path, else below `home`. */
char *sign_in_path(const struct sign_in *sign_in, const char *home);

/* Calls back for each string in JSON or YAML text, with its pointer; negative results end it. Messages hold none of
 * the text. */
typedef int sign_in_visit(void *arg, struct str pointer, struct str value);
int sign_in_each(struct str text, bool yaml, sign_in_visit *visit, void *arg, struct err *err);

/* Strings in such a file that look like a secret, though no row names them: the sandbox's copy has "" there. */
bool sign_in_looks_secret(struct str value);
