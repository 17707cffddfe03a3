/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The destination that a client names in its first bytes, read without replying: the server name of a TLS ClientHello,
 * or the Host of an HTTP request. Strict: ambiguous input is malformed.
 */
#include "base/str.h"
#include "policy/match/host.h"

#define SNI_PROTOCOLS_MAX 256
#define SNI_HELLO_MAX 16384 /* a longer ClientHello is malformed */

enum sni_result {
        SNI_MORE,    /* a ClientHello so far; call again with the same bytes and more */
        SNI_NAME,    /* a ClientHello with one server name */
        SNI_NONE,    /* a ClientHello without server name */
        SNI_NOT_TLS, /* something else */
        SNI_BAD,     /* begins like TLS and is malformed */
};

struct sni {
        uint8_t n;
        char name[256]; /* as sent, any bytes: to be canonicalised by host_parse() */
        bool ech;   /* offers encrypted ClientHello (or greases it): the name may not be the one the server will use */
        bool early; /* data may follow at once, before the server has spoken */
        uint16_t protocols_n;
        char protocols[SNI_PROTOCOLS_MAX]; /* offered (ALPN), in wire form; names that do not fit are left out */
        size_t bytes;                      /* of the records that hold it, when the whole ClientHello is there */
};

enum sni_result sni_parse(struct str bytes, struct sni *ret);

/*
 * The client's records behind its ClientHello. A server may ask for a second one (HelloRetryRequest, RFC 8446 section
 * 4.1.4) and then goes by the name in that. It comes before anything else that is a handshake message in the clear.
 */
struct tls_records {
        bool early;  /* records of early data may lie between */
        size_t pass; /* bytes of the last part that was checked, which may be sent */
};

enum tls_next {
        TLS_MORE,  /* call again with the same bytes and more */
        TLS_PASS,  /* `pass` bytes, then look again */
        TLS_OVER,  /* no second ClientHello can come */
        TLS_HELLO, /* a second ClientHello; *ret_host is its name. Nothing needs to be looked at behind it */
        TLS_BAD,
};

/* has_host false: it has no name. */
enum tls_next tls_records_look(struct tls_records *records, struct str bytes, bool *ret_has_host,
                               struct host *ret_host);

enum sniff_kind {
        SNIFF_MORE,
        SNIFF_TLS,   /* with or without a name */
        SNIFF_HTTP,  /* one HTTP/1 request head */
        SNIFF_HTTP2, /* the preface of HTTP/2 in the clear: the host cannot be seen */
        SNIFF_LINE,  /* text that is not HTTP so far: it may go while sniff_line_look() sees the rest of its line */
        SNIFF_OTHER, /* no protocol that names a host */
        SNIFF_BAD,   /* TLS or HTTP, but malformed or ambiguous: refuse */
};

struct sniff {
        bool has_host;
        bool ech;
        bool word; /* a SNIFF_MORE that is a word of no method that we know: SNIFF_LINE, when nothing follows soon */
        struct tls_records records; /* what follows a SNIFF_TLS */
        struct host host;           /* canonical, when has_host */
        uint16_t protocols_n;       /* as struct sni */
        char protocols[SNI_PROTOCOLS_MAX];
};

/* max: bytes that are looked at before the answer must be known. */
enum sniff_kind sniff(struct str bytes, size_t max, struct sniff *ret);
/*
 * A first line that is let through before it is complete, since its client may wait for a reply ("ruok"). It must not
 * become an HTTP request later.
 */
struct sniff_line { /* zeroed at the start */
        bool begun; /* behind the blanks in front of it */
        char tail[6];
        uint8_t n;
};

#define SNIFF_LINE_STEP 1024

enum sniff_line_next {
        SNIFF_LINE_GOES, /* these bytes may go; show what follows */
        SNIFF_LINE_OVER, /* it is not HTTP: nothing needs to be looked at any more */
        SNIFF_LINE_HTTP, /* it is HTTP after all: refuse */
};

/* bytes: those that have not been shown yet, from the first one of the connection. */
enum sniff_line_next sniff_line_look(struct sniff_line *line, struct str bytes);

/* For when sniff() wants more bytes and none come: true if the bytes are no part of TLS or HTTP that a server might act
 * on. */
bool sniff_is_other_at_end(struct str bytes);
