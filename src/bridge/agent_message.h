/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The protocol of ssh-agent (draft-miller-ssh-agent), as far as a sandbox may speak it, and what is in the data that an
 * agent is asked to sign:
 *
 *   - a login (RFC 4252, section 7, and OpenSSH's publickey-hostbound-v00): it names the session, which must have been
 *     bound to a host's key before (session-bind@openssh.com)
 *   - an SSHSIG (OpenSSH, PROTOCOL.sshsig) in a namespace
 *
 * Everything is strict: no byte may be left over, and what is neither of the two is nothing that is signed.
 */
#include "base/str.h"

#include <stdint.h>

enum { AGENT_MESSAGE_MAX = 256 << 10, AGENT_HEAD = 5 };

enum agent_type {
        AGENT_FAILURE = 5,
        AGENT_SUCCESS = 6,
        AGENT_REQUEST_IDENTITIES = 11,
        AGENT_IDENTITIES_ANSWER = 12,
        AGENT_SIGN_REQUEST = 13,
        AGENT_SIGN_RESPONSE = 14,
        AGENT_EXTENSION = 27,
};

struct agent_message {
        uint8_t type;
        struct str body;
        size_t bytes; /* of the whole */
};

/* 1: it is whole; 0: more bytes are needed; -EBADMSG: longer than any, or empty. */
int agent_message_read(struct str bytes, struct agent_message *ret);

/* A string of the wire, taken off the front. */
bool agent_take_string(struct str *bytes, struct str *ret);

struct agent_sign {
        struct str key, data;
        uint32_t flags;
};
bool agent_sign_parse(struct str body, struct agent_sign *ret);

struct agent_bind { /* session-bind@openssh.com */
        struct str host_key, session, signature;
        bool forwarding;
};
bool agent_bind_parse(struct str body, struct agent_bind *ret);

enum agent_data_kind { AGENT_DATA_OTHER, AGENT_DATA_LOGIN, AGENT_DATA_SSHSIG };
struct agent_data {
        enum agent_data_kind kind;
        struct str session, user, key; /* of a login */
        struct str host_key;           /* of one that names it; else empty */
        struct str name;               /* of an SSHSIG: its namespace */
};
void agent_data_parse(struct str data, struct agent_data *ret);

/* How a record says what was to be signed, and why it was not; `bailey learn` reads them. */
#define AGENT_LOGIN "a login as "
#define AGENT_GIT "a commit or tag of git's"
#define AGENT_NO_KEY "a key that ssh.keys does not name"
#define AGENT_NO_SIGNING "a signature, and signing.ssh does not allow any"

/* One of the keys in an AGENT_IDENTITIES_ANSWER, taken off the front of what is behind their number. */
struct agent_identity {
        struct str key, comment;
};
bool agent_take_identity(struct str *list, struct agent_identity *ret);
bool agent_take_number(struct str *bytes, uint32_t *ret);
