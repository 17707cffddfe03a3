/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Between the files of a session of ssh or gpg: ssh_session.c (its life and what is judged), ssh_flow.c (bytes),
 * ssh_errors.c (what the program says to people), ssh_gpg.c (signing). */
#include "bridge/ssh_command.h"
#include "bridge/ssh_message.h"
#include "gateway/examine.h"
#include "gateway/gate.h"
#include "gateway/programs.h"
#include "gateway/ssh/ssh_session.h"

/*
 * READING (the message) -> OPENING (the supervisor starts the program) -> HEAD (of a push, while the server's list of
 * refs passes) -> HELD (a person is asked) -> PASSING -> ENDING. PAYLOAD is the reading of what gpg is to sign, before
 * OPENING. Whatever is refused goes to DRAINING, where the client's bytes are thrown away until its end.
 */
enum ssh_state {
        SSH_READING,
        SSH_PAYLOAD,
        SSH_HELD,
        SSH_OPENING,
        SSH_HEAD,
        SSH_PASSING,
        SSH_DRAINING,
        SSH_ENDING,
        SSH_STATES
};

enum { SSH_PIECE = 65536, SSH_PAYLOAD_MAX = 1 << 20, SSH_ERRORS_MAX = 4096, SSH_STATUS_NONE = -1 };

struct ssh_errors {
        struct buf line;
        char host_key[160]; /* "TYPE FINGERPRINT" that the host has shown; "": none */
        bool unverified;    /* ssh said that it does not know the key */
};

struct ssh_session {
        struct link link; /* in worker.ssh_sessions */
        struct client client;
        struct worker *worker;
        uint8_t state;
        bool gpg, gone;
        bool client_ended; /* its end was read */
        bool finished;     /* and passed on */
        struct buf in;     /* of the client, not yet judged or not yet passed on */
        size_t fed;        /* of `in`: shown to the examination */
        struct buf out;    /* frames for the client */
        size_t out_at;
        struct stream *program, *errors;
        struct ssh_errors said;
        int status; /* of the program; SSH_STATUS_NONE while it runs */
        struct program_call call;
        struct ssh_command command;
        struct authority judged_at; /* as the policy names it */
        struct examine *examine;
        struct judged judged;
        struct gate_call hold;
        struct verdict verdict;
        char key[80]; /* of gpg */
        struct timer limit;
        struct task destroy, again;
        struct host_bytes *host_bytes;
        uint64_t bytes_in, bytes_out;
        bool recorded;
};

/* Moves what can be moved. The session may be gone after. */
void ssh_session_run(struct ssh_session *session);
void ssh_session_end(struct ssh_session *session);
void ssh_session_enter(struct ssh_session *session, enum ssh_state state);

/* ssh_flow.c. 1: something moved; 0: nothing can now; negative: it is over. */
int ssh_flow_flush(struct ssh_session *session);
int ssh_flow_out(struct ssh_session *session);
int ssh_flow_in(struct ssh_session *session);
int ssh_flow_read(struct ssh_session *session, size_t max);
int ssh_flow_frame(struct ssh_session *session, enum ssh_frame_kind kind, struct str bytes);
/* The program's end was heard, and all that it said was passed on. */
bool ssh_flow_is_over(const struct ssh_session *session);

/* ssh_errors.c: what is to be shown of it. At the end with an empty text and `last`. */
int ssh_errors_take(struct ssh_errors *errors, struct str bytes, bool last, struct buf *out);
int ssh_errors_advise(const struct ssh_errors *errors, const struct authority *target, struct buf *out);

/* Says `text` to the person, with this exit status, and ends when the client does. */
void ssh_session_refuse_plain(struct ssh_session *session, struct verdict verdict, const char *why, int status);
void ssh_session_record(struct ssh_session *session, const struct verdict *verdict, bool allowed, const char *why);
struct verdict ssh_session_no(enum reason reason);

/* ssh_gpg.c */
void ssh_gpg_begin(struct ssh_session *session, const struct ssh_message *message);
void ssh_gpg_payload(struct ssh_session *session);
int ssh_gpg_open(struct ssh_session *s);
