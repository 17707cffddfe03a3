/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The head of a push: what git-receive-pack reads before the pack (gitprotocol-pack, "Reference Update Request and
 * Packfile Transfer").
 *
 *     *shallow  1*command flush  [ *push-option flush ]  pack
 *     push-cert ... push-cert-end flush  [ *push-option flush ]  pack
 *
 * Read strictly, up to a limit, and only once it is there whole: capabilities on the first line alone, ids of one
 * length, refs by git's rules, none twice. A capability that is not known may change what follows and is refused. What
 * is a push to one reader must be the same push to the server.
 *
 * A head without any command is what git sends to find out whether it may (four bytes "0000"), and changes nothing.
 */
#include "base/vec.h"
#include "policy/git/git_verdict.h"

enum { RECEIVE_PACK_HEAD_MAX = 1 << 20, RECEIVE_PACK_UPDATES_MAX = 8192, RECEIVE_PACK_OPTIONS_MAX = 256 };

struct receive_pack {
        VEC(struct git_update) updates; /* texts lie in the bytes that were read */
        VEC(struct str) options;
        size_t bytes; /* of the head; the pack begins behind it */
        bool certificate, push_options, report_status, report_status_v2, side_band, atomic;
        bool sha256;
        const char *problem; /* with -EBADMSG: for people, text that stays */
};

/* Finds where a head may end without reading what is in it, so that bytes which come one by one are looked at once. */
struct receive_pack_scan { /* zeroed at the start */
        size_t at;
};
/* 1: a list ended in what came since: worth receive_pack_read(); 0: more bytes are needed; -EBADMSG: it is no head. */
int receive_pack_scan(struct receive_pack_scan *scan, struct str bytes);
/* The head at the front of what came so far; every call begins anew. 1: it is whole; 0: more bytes are needed;
 * -EBADMSG: it is none, `problem` says why; -ENOMEM. */
int receive_pack_read(struct str bytes, struct receive_pack *ret);
void receive_pack_done(struct receive_pack *head);
/* What policy is asked about. */
struct git_push receive_pack_push(const struct receive_pack *head);
