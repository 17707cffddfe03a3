/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The control protocol: what a person's programs say to a running sandbox, and what it says back. One JSON object per
 * line, both ways, over the sandbox's Unix socket (control/control_place.h). docs/control.md describes every message
 * with an example, and a test reads those examples with the parsers below.
 *
 * A request has an id of the client's choice and a "do"; exactly one reply has the same id. The first request is hello.
 * After subscribe, events come in between; they have "event" and no id. Parsing is strict: a field that the request
 * does not know, a wrong type or a missing field is an error, so that a mistake never means something else.
 */
#include "base/buf.h"
#include "base/emit.h"
#include "base/err.h"
#include "conf/node.h"

#define CONTROL_VERSION 1
#define CONTROL_LINE_MAX 16384      /* longest request */
#define CONTROL_MESSAGE_MAX 1048576 /* longest message of a server */

enum control_do {
        CONTROL_HELLO,     /* version, client */
        CONTROL_STATUS,    /* */
        CONTROL_SUBSCRIBE, /* */
        CONTROL_PENDING,   /* */
        CONTROL_ANSWER,    /* question, answer, scope */
        CONTROL_ALLOW,     /* pattern, scope */
        CONTROL_DENY,      /* pattern, scope */
        CONTROL_FORGET,    /* pattern, scope */
        CONTROL_RULES,     /* */
        CONTROL_RELOAD,    /* */
        CONTROL_PAUSE,     /* */
        CONTROL_RESUME,    /* */
        CONTROL_KILL,      /* */
        CONTROL_DOS
};
const char *control_do_name(enum control_do d);

enum control_answer { ANSWER_DENY, ANSWER_ALLOW, CONTROL_ANSWERS };
const char *control_answer_name(enum control_answer answer);

/* How far an answer reaches. */
enum control_scope {
        SCOPE_ONCE,      /* the connections that wait now */
        SCOPE_SANDBOX,   /* this sandbox, until it ends */
        SCOPE_WORKSPACE, /* every sandbox in this workspace, also later */
        SCOPE_ALWAYS,
        CONTROL_SCOPES
};
const char *control_scope_name(enum control_scope scope);
bool control_scope_parse(struct str text, enum control_scope *ret);

/* Codes of errors in replies; stable. */
enum control_fault {
        FAULT_BAD_REQUEST, /* not a request of this protocol: the connection is closed after the reply */
        FAULT_VERSION,     /* hello with a version that is not spoken here */
        FAULT_HELLO_FIRST,
        FAULT_NOT_FOUND, /* no such question or rule */
        FAULT_INVALID,   /* a value is wrong; the text says how */
        FAULT_FAILED,    /* it could not be done; the text says why */
        FAULT_TOO_MANY,  /* clients or rules */
        CONTROL_FAULTS
};
const char *control_fault_code(enum control_fault fault);

struct control_request {
        uint64_t id;
        enum control_do what;
        uint32_t version;  /* hello */
        char client[64];   /* hello: printable ASCII, what the client calls itself; may be empty */
        uint64_t question; /* answer */
        enum control_answer answer;
        enum control_scope scope; /* SCOPE_SANDBOX where it is left out (answer: SCOPE_ONCE) */
        char pattern[512];        /* allow, deny, forget: not yet checked as a pattern */
};

/* One line without its line break. -EINVAL says what is wrong; ret->id is set whenever it could be read. */
int control_request_parse(struct str line, struct control_request *ret, struct err *err);
/* The same request as a line with its line break. */
int control_request_write(struct buf *out, const struct control_request *request);

/* A message of the server, as a client reads it. Owns the document; nodes live as long as it does. */
struct control_message {
        struct document *document;
        const struct node *root;
        bool is_event;
        struct str event; /* "network", "ask", ... */
        uint64_t id;      /* of a reply */
        bool ok;
        struct str fault, text; /* of a reply that is not ok */
};
int control_message_parse(struct str line, struct control_message *ret, struct err *err);
void control_message_done(struct control_message *message);
/* Members of an object as values; NULL, 0 and false when they are missing or of another type. */
const char *control_text(const struct node *map, const char *key);
uint64_t control_number(const struct node *map, const char *key);
bool control_bool(const struct node *map, const char *key);

/* Replies. Between open and close members are added with emit_put_...; close adds the line break. */
struct emit control_reply_open(struct buf *out, uint64_t id);
struct emit control_event_open(struct buf *out, const char *event);
int control_close(struct emit *json);
int control_reply_fault(struct buf *out, uint64_t id, enum control_fault fault, const char *text);
