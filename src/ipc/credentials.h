/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The credential table: which stand-ins ("stand-ins") the sandbox holds, and where each may turn into the real secret.
 * The supervisor builds it, seals it into an anonymous file and hands the descriptor to the gateway. It holds no
 * secret: the gateway asks the vault for a value by the mapping's index here, and the vault checks host and port by
 * itself.
 *
 * Kinds and parts are those of ipc/vault_messages.h: a plain secret has one part. An AWS credential has a key id, which
 * is seen in requests, a secret key, which never is, and perhaps a session token.
 */
#include "base/buf.h"
#include "base/err.h"
#include "ipc/vault_messages.h"
#include "policy/match/pattern.h"

#define CREDENTIALS_MAX VAULT_MAPPINGS_MAX
#define CREDENTIAL_NAME_MAX (VAULT_NAME_MAX - 1)
#define CREDENTIAL_ENV_MAX 128
#define CREDENTIAL_STAND_IN_MIN VAULT_SECRET_MIN /* shorter ones would be found in ordinary text */
#define CREDENTIAL_STAND_IN_MAX VAULT_SECRET_MAX
#define CREDENTIAL_HOSTS_MAX 64
#define CREDENTIAL_SLOTS_MAX 8
#define CREDENTIAL_OLD_MAX 16
#define CREDENTIALS_BYTES_MAX (1u << 20)

enum credential_slot_kind {
        SLOT_BEARER,         /* Authorization: Bearer F, or "token F", as GitHub's own clients write it */
        SLOT_HEADER,         /* NAME: F; the header may be any but the ones that carry the request itself */
        SLOT_BASIC,          /* Authorization: Basic, F as user or as password */
        SLOT_BASIC_USER,     /* as user only */
        SLOT_BASIC_PASSWORD, /* as password only */
        SLOT_QUERY,          /* ?NAME=F */
        SLOT_PATH,           /* /.../F/... */
        SLOT_SIGV4,          /* an AWS signature, header or query */
        SLOT_BODY,           /* a member of the body of a POST to one path: a provider's token endpoint */
        CREDENTIAL_SLOTS
};

struct credential_slot {
        uint8_t kind;    /* enum credential_slot_kind */
        struct str name; /* of the header (case does not count), of the query parameter, of the body's member */
        struct str path; /* SLOT_BODY: of the token endpoint */
};

/* "bearer", "header:x-api-key", "basic", "basic:user", "query:key", "path", "sigv4", "body:refresh_token@/oauth/token".
 * The name points into the text. -EINVAL. */
int credential_slot_parse(struct str text, struct credential_slot *ret, struct err *err);

/* One row, as it goes in. Texts are the caller's. */
struct credential_row {
        uint8_t kind; /* enum vault_kind_of_mapping */
        struct str name;
        struct str slots;                       /* one or several, separated by commas */
        struct str env[PARTS], stand_in[PARTS]; /* empty where there is no such part */
        const struct str *hosts; /* patterns with an optional port, 443 where none is written; no networks */
        size_t n_hosts;
        struct str answer;     /* the member of a token endpoint's answer that renews it; empty for none */
        const struct str *old; /* stand-ins of before a rotation: recognised, and refused */
        size_t n_old;
};

/* Checks all of it as the reader will, so that a mistake shows at its place; heap bytes in *ret. */
int credentials_encode(const struct credential_row *rows, size_t n, struct buf *out, struct err *err);

/* As it comes out: validated, never changing, safe from any number of threads. */
struct credential_mapping {
        uint32_t index;
        uint8_t kind;
        struct str name;
        struct str group; /* its name up to a dot: "x" and "x.refresh" are renewed together */
        struct str answer;
        struct str env[PARTS], stand_in[PARTS];
        size_t n_slots, n_hosts, n_old;
        struct str old[CREDENTIAL_OLD_MAX];
        struct credential_slot slots[CREDENTIAL_SLOTS_MAX];
        struct pattern *hosts;
};

struct credentials;

/* Refuses what is malformed in any way. The bytes must outlive it. */
int credentials_open(struct str bytes, struct credentials **ret, struct err *err);
/* Maps the sealed file; the seals are checked. The descriptor stays the caller's. */
int credentials_open_fd(int fd, struct credentials **ret, struct err *err);
void credentials_close(struct credentials *credentials);
void credentials_closep(struct credentials **credentials);

size_t credentials_count(const struct credentials *credentials);
const struct credential_mapping *credentials_get(const struct credentials *credentials,
                                                 uint32_t index); /* NULL: none */

/* Which mappings belong to a host and port. */
struct credential_set {
        uint64_t bits[CREDENTIALS_MAX / 64];
};
struct credential_set credentials_at(const struct credentials *credentials, const struct host *host, uint16_t port);
static inline bool credential_set_has(const struct credential_set *set, uint32_t index) {
        return index < CREDENTIALS_MAX && (set->bits[index / 64] >> index % 64 & 1);
}
static inline bool credential_set_is_empty(const struct credential_set *set) {
        uint64_t any = 0;
        for (size_t i = 0; i < CREDENTIALS_MAX / 64; i++)
                any |= set->bits[i];
        return any == 0;
}

struct credential_hit {
        uint32_t mapping;
        uint8_t part; /* enum vault_part; PARTS: one of before a rotation */
        bool base64;  /* inside base64 text */
        size_t end;   /* offset behind it */
};
/* The first stand-in in the bytes, of now or of before a rotation, from *at on, which is moved behind it: as it is, in
 * base64 (any alignment, both alphabets), percent-encoded in whole or in part. */
bool credentials_find(const struct credentials *credentials, struct str bytes, size_t *at, struct credential_hit *ret);
