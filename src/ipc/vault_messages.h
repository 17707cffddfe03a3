/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Between the vault and its two neighbours. bailey-vault is started with descriptors only:
 *
 *   fd 3  start block: a sealed anonymous file, struct vault_start and then n_mappings times struct vault_mapping
 *   fd 4  control: SOCK_SEQPACKET to the supervisor
 *   fd 5  keep: VAULT_KEEP_BYTES of shared memory that outlive the vault. The session CA is kept here for the next one,
 *         so that what the sandbox trusts stays the same. The supervisor only holds it and never looks.
 *
 * A gateway's worker talks to the vault over a SOCK_SEQPACKET of its own. The supervisor makes the pair, gives one end
 * to the vault (VAULT_CONNECT) and the other to the gateway (at its start, or as IPC_VAULT). The vault's first message
 * there is VAULT_HELLO with the page of serial numbers.
 *
 * No secret is in the start block, in an argument or in a variable. The values that the supervisor itself has (sources
 * env:NAME) travel as VAULT_VALUE, once. The AWS secret key never leaves the vault.
 *
 * Either side takes a malformed message as the other's failure: the vault closes a gateway's channel, the supervisor
 * ends the vault.
 */
#include "base/err.h"
#include "base/str.h"
#include "policy/match/host.h"

#include <stdatomic.h>
#include <stdbool.h>

#define VAULT_VERSION 4
enum { VAULT_FD_START = 3, VAULT_FD_CONTROL, VAULT_FD_KEEP, VAULT_FDS_END };

enum {
        VAULT_MAPPINGS_MAX = 256,
        VAULT_HOSTS_MAX = 32,
        VAULT_NAME_MAX = 64,
        VAULT_SECRET_MIN = 8,     /* shorter ones have no stand-in that could be told from other text */
        VAULT_SECRET_MAX = 16384, /* bytes of one value */
        VAULT_KEEP_BYTES = 16384,
        VAULT_DIGEST_BYTES = 32,
        VAULT_OLD_MAX = 4, /* rotations whose stand-ins are still recognised */
};

enum vault_kind_of_mapping {
        MAPPING_VALUE, /* one value, released as it is */
        MAPPING_SIGV4, /* key id, secret key and perhaps a session token; only derived keys leave the vault */
        MAPPING_KINDS
};

/* What a mapping consists of. MAPPING_VALUE has the first only, MAPPING_SIGV4 has the others. */
enum vault_part { PART_VALUE, PART_KEY_ID, PART_SECRET_KEY, PART_SESSION_TOKEN, PARTS };

struct vault_mapping {
        uint32_t kind; /* enum vault_kind_of_mapping */
        uint32_t n_hosts;
        uint64_t timeout_ns; /* for one run of its command */
        uint64_t refresh_ns; /* how often a source that cannot be watched is read again; 0: never by itself */
        char name[VAULT_NAME_MAX];
        char source[2048]; /* "env:NAME", "file:/PATH", "exec:COMMAND", "bws:...", "systemd:NAME", "keyring:NAME",
                              "json:/PATH#/POINTER", "yaml:...", "memory" */
        char place[4096];  /* a glob: the file that is closed to the sandbox beside the one that the source names; the
                              value of another is not taken. "": no sandbox, or no file */
        char prefix[32];   /* the provider's; the stand-in keeps it. "" for none */
        /* Of a sign-in. Mappings whose sources name one file belong together. */
        uint32_t optional; /* it may be without a value: a token endpoint gives it */
        char form[64];     /* of the stand-in: "opaque:PREFIX", "jwt"; "": as the value */
        char answer[64];   /* the member of the endpoint's answer that renews it; "" for none */
        char expiry[256];  /* "ms:POINTER", "now:POINTER": a time in the file that changes with it; "" for none */
        char hosts[VAULT_HOSTS_MAX][AUTHORITY_TEXT_MAX + 8]; /* patterns; a port must match, 443 where none is given */
};

enum vault_ca { VAULT_CA_P256, VAULT_CA_RSA4096, VAULT_CAS };

/* Fixed size, native byte order (both ends are the same build; `version` and `size` are checked). */
struct vault_start {
        uint32_t version, size; /* size: of this struct, without the mappings */
        uint32_t n_mappings, mapping_size;
        uint32_t ca; /* enum vault_ca: for a new CA */
        uint32_t log_level;
        char lock_dir[4096];        /* where files are that lock the renewal of a sign-in among sandboxes; "": none */
        char ca_dir[4096];          /* where ca.key and ca.crt are kept; "": the CA lives as long as the sandbox */
        char credentials_dir[4096]; /* of systemd:NAME; "": there is none */
        char sandbox_id[32];
};

/* Who says it to whom. A channel has two of them: control the first two, a gateway's the others. */
enum vault_way { SUPERVISOR_TO_VAULT, VAULT_TO_SUPERVISOR, GATEWAY_TO_VAULT, VAULT_TO_GATEWAY, VAULT_WAYS };

enum vault_kind {
        /* supervisor to vault */
        VAULT_VALUE = 1, /* mapping, data[0]: the value of its source env:NAME; for sigv4 "NAME=VALUE" lines */
        VAULT_VARIABLE,  /* data[0]: "NAME=VALUE" for the commands of sources */
        VAULT_SEED,      /* mapping, number: rotations ago (0: what counts now), data[0]: what stand-ins are made of */
        VAULT_STAND_IN_KEPT, /* mapping, part, data[0]: the stand-in that the sandbox has already */
        VAULT_OPEN,          /* everything was said: read the sources, make the CA, answer READY or FAILED */
        VAULT_CONNECT,       /* one descriptor: serve a gateway's worker here */
        VAULT_RELOAD,        /* read every source again */
        VAULT_STOP,
        /* vault to supervisor */
        VAULT_CA,           /* data[0]: the CA's certificate, DER */
        VAULT_STAND_IN,     /* mapping, part, data[0]: the stand-in to be shown inside */
        VAULT_STAND_IN_OLD, /* mapping, data[0]: a stand-in of before a rotation; worth nothing, and to be recognised */
        VAULT_READY,        /* all of them were said; it serves */
        VAULT_CHANGED,      /* mapping; number 1: a new value counts from now on, 0: its source has no value any more.
                               data[0]: text for people */
        VAULT_FAILED,       /* data[0]: text; the vault ends */
        /* gateway to vault; id is repeated in the answer */
        VAULT_SIGN,    /* id, host, data[0]: the public key (DER, SubjectPublicKeyInfo) */
        VAULT_RELEASE, /* id, mapping, host and port */
        VAULT_SIGV4,   /* id, mapping, host and port, data: date (YYYYMMDD), region, service */
        VAULT_STALE,   /* mapping, number: the serial whose value the origin refused (401); no answer */
        VAULT_RENEW,   /* id, mapping, host and port: its refresh token is about to be sent; nobody else's meanwhile */
        VAULT_KEEP,  /* id, mapping, host and port, number: seconds until it ends (0: not said), data[0]: "MEMBER VALUE"
                        lines of the token endpoint's answer. Answered when they are where they belong */
        VAULT_LEAVE, /* mapping: nothing came of it; no answer */
        /* vault to gateway */
        VAULT_HELLO,       /* one descriptor: the page */
        VAULT_CERTIFICATE, /* id, data[0]: the leaf, DER */
        VAULT_SECRET,      /* id, number: serial, data[0]: the value */
        VAULT_SIGNING_KEY, /* id, number: serial, data: key id, signing key (32 bytes), session token ("" for none) */
        VAULT_RENEWED,     /* id: go on, or they are kept */
        VAULT_REFUSED,     /* id, number: enum vault_refusal */
        VAULT_KINDS
};

enum vault_change {
        VAULT_CHANGE_GONE, /* the source has no value any more: requests that need it are refused */
        VAULT_CHANGE_NEW,  /* a new value counts from now on */
        VAULT_CHANGE_KEPT, /* the source could not be read again; the value before stays */
        VAULT_CHANGES
};

enum vault_refusal {
        VAULT_NOT_MAPPED = 1, /* no such mapping, or of the other kind */
        VAULT_WRONG_TARGET,   /* the mapping is not for this host and port, or the key not for this time */
        VAULT_NO_VALUE,       /* its source has no value now */
        VAULT_BAD_KEY,        /* the public key is not one on P-256 */
        VAULT_BROKEN,         /* out of memory or the like */
        VAULT_REFUSALS
};
enum { VAULT_ANSWER_MAX = 2 * VAULT_SECRET_MAX }; /* of VAULT_KEEP */
const char *vault_refusal_text(enum vault_refusal refusal);

enum { VAULT_DATA = 3 };

struct vault_message {
        uint32_t kind; /* enum vault_kind */
        uint32_t mapping, part;
        uint64_t id, number;
        struct authority authority; /* SIGN: port 0 */
        struct str data[VAULT_DATA];
};

/* Room for any message; holds secrets, so the receiver wipes it. */
enum { VAULT_MESSAGE_MAX = 512 + 4 * VAULT_SECRET_MAX };

const char *vault_kind_name(enum vault_kind kind); /* NULL for no kind */

/* One message, with the descriptor when it is not -1 (it stays the caller's). -EAGAIN on a full non-blocking socket,
 * -EPIPE when the other side is gone, -EINVAL for a message that the other side would not accept. */
int vault_send(int sock, enum vault_way way, const struct vault_message *message, int fd);
/* One message that may go this way, every field checked; what the kind does not use is zero or empty. data[] points
 * into `room` (VAULT_MESSAGE_MAX bytes). *ret_fd is -1 or a descriptor that is now the caller's. 1: got one, 0: the
 * other side closed, -EAGAIN: nothing there, -EBADMSG: malformed. */
int vault_receive(int sock, enum vault_way way, char *room, struct vault_message *ret, int *ret_fd);

/*
 * The page: one serial per mapping, written by the vault, mapped read-only by the gateway. A value counts only while
 * its serial is the one on the page; 0 means that there is no value. Serials never repeat, also not over a restart.
 */
#define VAULT_PAGE_MAGIC 0x424c595641554c54ULL
struct vault_page {
        uint64_t magic;
        uint64_t n;
        _Atomic uint64_t serials[VAULT_MAPPINGS_MAX];
};
/* The writer's: a file that others can map for reading only. */
int vault_page_new(size_t n, struct vault_page **ret, int *ret_fd, struct err *err);
/* The reader's: checked, read-only. */
int vault_page_open(int fd, const struct vault_page **ret, struct err *err);
void vault_page_close(const struct vault_page *page);

void vault_start_init(struct vault_start *start);
int vault_start_check(const struct vault_start *start, const struct vault_mapping *mappings, struct err *err);
/* The block as a sealed file, checked before; and read back in the vault, seals, size and content checked. */
int vault_start_seal(const struct vault_start *start, const struct vault_mapping *mappings, int *ret_fd,
                     struct err *err);
/* The mappings are heap memory of n_mappings. */
int vault_start_read(int fd, struct vault_start *ret, struct vault_mapping **ret_mappings, struct err *err);
