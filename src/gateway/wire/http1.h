/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * HTTP/1.0 and 1.1 heads and chunked bodies: strict, incremental, bounded, without allocation.
 *
 * Trusts nothing. Ambiguous input is refused, not repaired: request smuggling depends on two parsers that disagree. A
 * head is parsed in one pass over the caller's bytes; names and values are slices of those bytes, valid while they
 * stay. When the head is not complete yet the parser remembers only how far it looked (struct http1_progress, 8 bytes),
 * so that an idle connection costs nothing and a client that drips bytes costs no more than one that does not.
 *
 *     enum http1_result r = http1_request_parse(&progress, bytes, &limits, &request);
 *     HTTP1_OK: parsed, request.head.bytes long; HTTP1_MORE: call again with the same bytes and more; else: refuse.
 *
 * The result depends only on the bytes, never on how they were split over calls.
 */
#include "base/buf.h"
#include "policy/match/host.h"

#define HTTP1_HEADERS_MAX 128
#define HTTP1_HEAD_MAX 65536 /* default limit of a head in bytes */
#define HTTP1_METHOD_MAX 32
#define HTTP1_NAME_MAX 256       /* of a header */
#define HTTP1_OPTIONS_MAX 32     /* in Connection */
#define HTTP1_CHUNK_LINE_MAX 256 /* chunk size with extensions */
#define HTTP1_TRAILER_MAX 8192

enum http1_result {
        HTTP1_OK,
        HTTP1_MORE,
        HTTP1_TOO_LARGE,
        HTTP1_TOO_MANY,
        HTTP1_BAD_LINE,
        HTTP1_BAD_METHOD,
        HTTP1_BAD_TARGET,
        HTTP1_BAD_SCHEME,
        HTTP1_BAD_VERSION,
        HTTP1_BAD_STATUS,
        HTTP1_BAD_NAME,
        HTTP1_BAD_VALUE,
        HTTP1_FOLDED,
        HTTP1_SPACE_BEFORE_COLON,
        HTTP1_BAD_LENGTH,
        HTTP1_TWO_LENGTHS,
        HTTP1_BAD_ENCODING,
        HTTP1_LENGTH_AND_ENCODING,
        HTTP1_HOST_MISSING,
        HTTP1_HOST_TWICE,
        HTTP1_BAD_UPGRADE,
        HTTP1_BAD_CHUNK,
        HTTP1_RESULTS
};
/* What is wrong, as a short phrase for people: "a line that does not end with CR LF". */
const char *http1_result_text(enum http1_result result);

/* The names that change what a proxy does. All others are HEADER_OTHER and pass. */
enum http1_header_id {
        HEADER_OTHER,
        HEADER_CONNECTION,
        HEADER_CONTENT_LENGTH,
        HEADER_EXPECT,
        HEADER_HOST,
        HEADER_HTTP2_SETTINGS,
        HEADER_KEEP_ALIVE,
        HEADER_PROXY, /* Proxy-Connection, Proxy-Authorization and every other Proxy-* */
        HEADER_TE,
        HEADER_TRAILER,
        HEADER_TRANSFER_ENCODING,
        HEADER_UPGRADE,
};

/* Of a name, which is not empty. */
enum http1_header_id http1_id_of(struct str name);

struct http1_header {
        struct str name, value; /* value without the white space around it */
        uint32_t line_bytes;    /* from the name's first byte to behind CR LF */
        uint8_t id;             /* enum http1_header_id */
        bool hop;               /* ends here: hop-by-hop by name, or named in Connection */
};

enum http1_body {
        BODY_NONE,
        BODY_LENGTH,
        BODY_CHUNKED,
        BODY_UNTIL_CLOSE, /* responses only */
};

struct http1_head {
        size_t bytes; /* the whole head, with the empty line */
        uint8_t minor;
        uint8_t body; /* enum http1_body */
        bool close;   /* this side will not send more on the connection */
        bool upgrade; /* Connection: upgrade with one Upgrade header */
        uint64_t length;
        struct str upgrade_to; /* the protocol named, when upgrade is set */
        size_t n_headers;
        struct http1_header headers[HTTP1_HEADERS_MAX];
};

enum http1_form { FORM_ORIGIN, FORM_ABSOLUTE, FORM_AUTHORITY, FORM_ASTERISK };

struct http1_request {
        struct str method, target;
        uint8_t form; /* enum http1_form */
        bool https;   /* absolute form with https: to be refused, with a reason of its own */
        bool expect_continue;
        struct str authority; /* of the target, in absolute and authority form */
        struct str host;      /* the Host header's value; p is NULL without one */
        struct str path;      /* with query, begins with '/' or is "*"; in absolute form "" stands for "/" */
        struct http1_head head;
};

struct http1_response {
        uint16_t status;
        struct str reason;
        struct http1_head head; /* body and length as if for GET; http1_response_body() knows the exceptions */
};

/* Zeroed at the start of each message. */
struct http1_progress {
        uint32_t line;  /* where the first unfinished line begins */
        uint32_t seen;  /* bytes that were looked at */
        uint32_t lines; /* header lines that are finished */
};

enum http1_result http1_request_parse(struct http1_progress *at, struct str in, size_t max, struct http1_request *ret);
enum http1_result http1_response_parse(struct http1_progress *at, struct str in, size_t max,
                                       struct http1_response *ret);

/* The body that follows, given the method it answers: none after HEAD, 1xx, 204 and 304. */
enum http1_body http1_response_body(const struct http1_response *response, bool head_method);
/* A 101 that answers the upgrade to `protocol` which was asked for. */
bool http1_response_switches(const struct http1_response *response, struct str protocol);
/* Path of the target without its query, "/" when empty. */
struct str http1_path_only(struct str path);

/*
 * Writes the request to send. The request line is rebuilt, Host comes from the canonical authority (no port when it is
 * the scheme's), framing from what was parsed, hop-by-hop headers are gone.
 */
/* A body where few servers look for one. A server that overlooks it would read it as the next request, so no other
 * request may follow. */
bool http1_request_is_last(const struct http1_request *request);
int http1_request_write(struct buf *out, const struct http1_request *request, const struct authority *to,
                        uint16_t default_port);
/* `chunked_out` false: the body is sent bare and ended by closing (HTTP/1.0 clients). `connection`: the value of the
 * header of that name, NULL for none. */
int http1_response_write(struct buf *out, const struct http1_response *response, enum http1_body body, bool chunked_out,
                         const char *connection);

/*
 * Chunked bodies. Takes bytes off the front of *in and says which to pass on: the framing with the data, or the data
 * alone (`bare`). Extensions and trailers are checked and left out.
 *
 *     while ((r = http1_chunked_next(&c, &in, &span)) == HTTP1_OK) pass(span);
 *     HTTP1_MORE: the body is over (c.done, the rest of *in comes after it) or *in is used up
 *     else: malformed, close
 */
struct http1_chunked {
        uint64_t left;        /* of the current chunk's data */
        uint64_t announced;   /* data of all chunks so far, the current one whole */
        uint32_t line_bytes;  /* of the current size line or of the trailers */
        struct buf *trailers; /* NULL, or where they are kept for somebody to look at */
        uint8_t state;
        uint8_t digits;
        bool bare;
        bool done;
};
enum http1_result http1_chunked_next(struct http1_chunked *chunked, struct str *in, struct str *ret_span);
