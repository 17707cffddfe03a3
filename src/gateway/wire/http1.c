/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Header lines, shared by requests and responses. One pass: each byte of a name is looked up once in a table, values
 * are skipped eight bytes at a time. Errors are found where they stand; nothing is repaired.
 */
#include "gateway/wire/http1_internal.h"

#include "base/bounds.h"

#define ALNUM (CHAR_TOKEN | CHAR_VALUE | CHAR_PATH | CHAR_QUERY | CHAR_VISIBLE)
#define URL (CHAR_VALUE | CHAR_PATH | CHAR_QUERY | CHAR_VISIBLE)
#define PLAIN (CHAR_VALUE | CHAR_VISIBLE)

/* Besides RFC 3986, a target may carry what browsers and Node leave as it is: | ^ ` { } [ ] anywhere, \ in the query.
 */
const uint8_t http1_chars[256] = {
        ['\t'] = PLAIN,
        [' '] = PLAIN,
        ['!'] = ALNUM,
        ['"'] = PLAIN,
        ['#'] = PLAIN | CHAR_TOKEN,
        ['$'] = ALNUM,
        ['%'] = ALNUM,
        ['&'] = ALNUM,
        ['\''] = ALNUM,
        ['('] = URL,
        [')'] = URL,
        ['*'] = ALNUM,
        ['+'] = ALNUM,
        [','] = URL,
        ['-'] = ALNUM,
        ['.'] = ALNUM,
        ['/'] = URL,
        ['0' ... '9'] = ALNUM | CHAR_HEX,
        [':'] = URL,
        [';'] = URL,
        ['<'] = PLAIN,
        ['='] = URL,
        ['>'] = PLAIN,
        ['?'] = PLAIN | CHAR_QUERY,
        ['@'] = URL,
        ['A' ... 'F'] = ALNUM | CHAR_HEX,
        ['G' ... 'Z'] = ALNUM,
        ['['] = URL,
        ['\\'] = PLAIN | CHAR_QUERY,
        [']'] = URL,
        ['^'] = ALNUM,
        ['_'] = ALNUM,
        ['`'] = ALNUM,
        ['a' ... 'f'] = ALNUM | CHAR_HEX,
        ['g' ... 'z'] = ALNUM,
        ['{'] = URL,
        ['|'] = ALNUM,
        ['}'] = URL,
        ['~'] = ALNUM,
        [0x80 ... 0xff] = CHAR_VALUE,
};

static const char *const result_texts[] = {
        [HTTP1_OK] = "nothing wrong",
        [HTTP1_MORE] = "an unfinished message",
        [HTTP1_TOO_LARGE] = "a header that is too large",
        [HTTP1_TOO_MANY] = "too many header lines",
        [HTTP1_BAD_LINE] = "a line that does not end with CR LF",
        [HTTP1_BAD_METHOD] = "a malformed method",
        [HTTP1_BAD_TARGET] = "a malformed request target",
        [HTTP1_BAD_SCHEME] = "a scheme other than http and https, and the proxy carries no other",
        [HTTP1_BAD_VERSION] = "a version other than HTTP/1.0 and HTTP/1.1",
        [HTTP1_BAD_STATUS] = "a malformed status line",
        [HTTP1_BAD_NAME] = "a malformed header name",
        [HTTP1_BAD_VALUE] = "a control byte in a header",
        [HTTP1_FOLDED] = "a folded header line",
        [HTTP1_SPACE_BEFORE_COLON] = "white space before the colon of a header",
        [HTTP1_BAD_LENGTH] = "a Content-Length that is not one plain number",
        [HTTP1_TWO_LENGTHS] = "more than one Content-Length",
        [HTTP1_BAD_ENCODING] = "a Transfer-Encoding other than chunked",
        [HTTP1_LENGTH_AND_ENCODING] = "both Content-Length and Transfer-Encoding",
        [HTTP1_HOST_MISSING] = "no Host header",
        [HTTP1_HOST_TWICE] = "more than one Host header",
        [HTTP1_BAD_UPGRADE] = "a switch of protocols that was not asked for",
        [HTTP1_BAD_CHUNK] = "a malformed chunk",
};
_Static_assert(sizeof result_texts / sizeof *result_texts == HTTP1_RESULTS, "a text for each result");

const char *http1_result_text(enum http1_result result) {
        return (unsigned)result < HTTP1_RESULTS ? result_texts[result] : "unknown";
}

bool http1_list_next(struct str *rest, struct str *ret_word) {
        struct str word;
        while (str_split(rest, ',', &word)) {
                *ret_word = str_trim(word);
                if (ret_word->n > 0)
                        return true;
        }
        return false;
}

enum http1_header_id http1_id_of(struct str name) {
        static const struct {
                struct str name;
                enum http1_header_id id;
        } known[] = {
                { STR("te"), HEADER_TE },
                { STR("host"), HEADER_HOST },
                { STR("expect"), HEADER_EXPECT },
                { STR("trailer"), HEADER_TRAILER },
                { STR("upgrade"), HEADER_UPGRADE },
                { STR("connection"), HEADER_CONNECTION },
                { STR("keep-alive"), HEADER_KEEP_ALIVE },
                { STR("content-length"), HEADER_CONTENT_LENGTH },
                { STR("http2-settings"), HEADER_HTTP2_SETTINGS },
                { STR("transfer-encoding"), HEADER_TRANSFER_ENCODING },
        };
        static const uint32_t lengths = 1u << 2 | 1u << 4 | 1u << 6 | 1u << 7 | 1u << 10 | 1u << 14 | 1u << 17;

        /* First byte and length tell nearly all other names apart without a comparison. */
        char first = ascii_lower(name.p[0]);
        bool may = name.n < 32 && lengths >> name.n & 1;
        for (size_t i = 0; may && i < sizeof known / sizeof *known; i++)
                if (known[i].name.n == name.n && known[i].name.p[0] == first && str_eq_nocase(known[i].name, name))
                        return known[i].id;

        if (first == 'p' && str_eq_nocase(str_first(name, 6), STR("proxy-")))
                return HEADER_PROXY;

        return HEADER_OTHER;
}

/* Behind the last byte of the value: skips eight clean bytes at a time, then looks at what stopped it. */
static const char *skip_value(const char *p, const char *end) {
        const uint64_t ones = 0x0101010101010101u, highs = ones << 7;

        while (end - p >= 8) {
                uint64_t word;

                memcpy(&word, p, sizeof word);
                uint64_t control = (word - ones * 0x20) & ~word;
                uint64_t rubout = word ^ (ones * 0x7f);
                if ((control | ((rubout - ones) & ~rubout)) & highs)
                        break;

                p += 8;
        }

        return http1_skip(p, end, CHAR_VALUE);
}

/* One line at *p, which is not the empty one. On HTTP1_OK *p stands behind its CR LF. Bytes before `seen` were looked
 * at before, when the line was not finished: a long value that arrives byte by byte is not read from its start each
 * time. */
static enum http1_result parse_line(const char **p, const char *end, const char *seen, struct http1_header *ret) {
        const char *name = *p, *colon = http1_skip(name, end, CHAR_TOKEN);
        if (colon - name > HTTP1_NAME_MAX)
                return HTTP1_BAD_NAME;
        if (colon == end)
                return HTTP1_MORE;

        if (*colon != ':' || colon == name) {
                if (*colon == ' ' || *colon == '\t')
                        return colon == name ? HTTP1_FOLDED : HTTP1_SPACE_BEFORE_COLON;
                if (*colon == '\n' || *colon == '\r')
                        return HTTP1_BAD_LINE;

                return HTTP1_BAD_NAME;
        }

        const char *value = colon + 1;
        while (value < end && (*value == ' ' || *value == '\t'))
                value++;

        const char *stop = skip_value(max_of(seen, value), end);
        if (stop == end)
                return HTTP1_MORE;
        if (*stop != '\r')
                return *stop == '\n' ? HTTP1_BAD_LINE : HTTP1_BAD_VALUE;
        if (stop + 1 == end)
                return HTTP1_MORE;
        if (stop[1] != '\n')
                return HTTP1_BAD_LINE;

        const char *last = stop;
        while (last > value && (last[-1] == ' ' || last[-1] == '\t'))
                last--;

        ret->name = str_n(name, (size_t)(colon - name));
        ret->value = str_n(value, (size_t)(last - value));
        ret->line_bytes = (uint32_t)(stop + 2 - name);
        *p = stop + 2;

        return HTTP1_OK;
}

static bool names_header(struct str list, struct str name) {
        struct str word;
        while (http1_list_next(&list, &word))
                if (str_eq_nocase(word, name))
                        return true;
        return false;
}

/* Marks what ends at this hop and reads the options that matter. Each option is held against each header, so their
 * number is limited. */
static enum http1_result apply_connection(struct http1_head *head, struct str list, unsigned *n_options) {
        struct str rest = list, word;
        while (http1_list_next(&rest, &word)) {
                if (++*n_options > HTTP1_OPTIONS_MAX)
                        return HTTP1_TOO_MANY;
                if (str_eq_nocase(word, STR("close")))
                        head->close = true;
                else if (str_eq_nocase(word, STR("upgrade")))
                        head->upgrade = true;
                else if (str_eq_nocase(word, STR("keep-alive")))
                        continue;
                else
                        for (size_t i = 0; i < head->n_headers; i++)
                                if (str_eq_nocase(head->headers[i].name, word))
                                        head->headers[i].hop = true;
        }

        return HTTP1_OK;
}

static enum http1_result take_length(struct http1_head *head, struct str value) {
        if (head->body == BODY_LENGTH)
                return HTTP1_TWO_LENGTHS;
        if (head->body == BODY_CHUNKED)
                return HTTP1_LENGTH_AND_ENCODING;
        if (!str_to_u64(value, INT64_MAX, &head->length))
                return HTTP1_BAD_LENGTH;

        head->body = BODY_LENGTH;
        return HTTP1_OK;
}

static enum http1_result take_encoding(struct http1_head *head, struct str value) {
        if (head->body == BODY_LENGTH)
                return HTTP1_LENGTH_AND_ENCODING;
        if (head->body == BODY_CHUNKED || head->minor == 0 || !str_eq_nocase(value, STR("chunked")))
                return HTTP1_BAD_ENCODING;
        head->body = BODY_CHUNKED;
        return HTTP1_OK;
}

/* An Upgrade to several protocols, to HTTP/2 in the clear or to TLS: not passed on, the request goes on without it. */
static void settle_upgrade(struct http1_head *head, unsigned n_upgrades) {
        struct str to = head->upgrade_to;
        bool plain = n_upgrades == 1 && to.n > 0 && str_find(to, ',') < 0 && str_find(to, ' ') < 0;
        if (plain && (str_eq_nocase(str_first(to, 2), STR("h2")) || str_eq_nocase(str_first(to, 4), STR("http")) ||
                      str_eq_nocase(str_first(to, 3), STR("tls"))))
                plain = false;

        if (!head->upgrade || !plain || head->minor == 0) {
                head->upgrade = false;
                head->upgrade_to = str_n(NULL, 0);
        }
}

static enum http1_result apply_headers(struct http1_head *head) {
        enum http1_result r = HTTP1_OK;
        unsigned n_upgrades = 0, n_options = 0;
        bool keep_alive = false;

        for (size_t i = 0; i < head->n_headers && r == HTTP1_OK; i++) {
                struct http1_header *header = &head->headers[i];
                if (header->id == HEADER_OTHER || header->id == HEADER_HOST || header->id == HEADER_EXPECT)
                        continue;

                header->hop = true; /* framing is written anew, the others end here */
                if (header->id == HEADER_CONTENT_LENGTH)
                        r = take_length(head, header->value);
                else if (header->id == HEADER_TRANSFER_ENCODING)
                        r = take_encoding(head, header->value);
                else if (header->id == HEADER_UPGRADE) {
                        head->upgrade_to = header->value;
                        n_upgrades++;
                } else if (header->id == HEADER_CONNECTION) {
                        r = apply_connection(head, header->value, &n_options);
                        keep_alive |= head->minor == 0 && names_header(header->value, STR("keep-alive"));
                }
        }

        if (head->minor == 0 && !keep_alive)
                head->close = true;

        settle_upgrade(head, n_upgrades);
        return r;
}

/* Lines from at->line to the empty one, kept in head unless that is NULL. *ret_end is behind the empty line. */
static enum http1_result walk_lines(struct http1_progress *at, struct str in, struct http1_head *head,
                                    size_t *ret_end) {
        const char *p = in.p + at->line, *end = in.p + in.n;
        const char *seen = in.p + (at->seen > 0 ? at->seen - 1 : 0); /* the last byte may have been a CR */
        struct http1_header unkept;

        for (;;) {
                at->line = (uint32_t)(p - in.p);
                if (p == end)
                        return HTTP1_MORE;

                if (*p == '\r') {
                        if (p + 1 == end)
                                return HTTP1_MORE;
                        *ret_end = (size_t)(p + 2 - in.p);
                        return p[1] == '\n' ? HTTP1_OK : HTTP1_BAD_LINE;
                }

                if (at->lines == HTTP1_HEADERS_MAX)
                        return HTTP1_TOO_MANY;

                struct http1_header *header = head ? &head->headers[at->lines] : &unkept;
                enum http1_result r = parse_line(&p, end, seen, header);
                if (r != HTTP1_OK)
                        return r;

                at->lines++;

                if (head) {
                        header->id = (uint8_t)http1_id_of(header->name);
                        header->hop = false;
                }
        }
}

enum http1_result http1_head_parse(struct http1_progress *at, struct str in, size_t max, http1_first_line *first_line,
                                   void *message, struct http1_head *head) {
        struct str bytes = str_first(in, max);
        enum http1_result r = HTTP1_OK;
        size_t end = 0;

        if (bytes.n == 0)
                return HTTP1_MORE;

        if (at->line > 0) { /* begun before: only what is new is looked at until the head is whole */
                r = walk_lines(at, bytes, NULL, &end);
                if (r == HTTP1_OK)
                        *at = (struct http1_progress){ 0 };
        }

        if (r == HTTP1_OK) {
                size_t next = 0;

                r = first_line(message, bytes, at->seen, &next);
                at->line = (uint32_t)next;
                if (r == HTTP1_OK)
                        r = walk_lines(at, bytes, head, &end);

                head->n_headers = at->lines;
                head->bytes = end;
        }

        at->seen = (uint32_t)bytes.n;
        if (r == HTTP1_MORE && in.n >= max)
                return HTTP1_TOO_LARGE;

        if (r == HTTP1_OK)
                return apply_headers(head);

        return r;
}

int http1_number_write(struct buf *out, uint64_t number) {
        char digits[20], *p = digits + sizeof digits;
        do {
                *--p = (char)('0' + number % 10);
                number /= 10;
        } while (number > 0);
        return buf_append(out, str_n(p, (size_t)(digits + sizeof digits - p)));
}

int http1_length_write(struct buf *out, uint64_t length) {
        int r = buf_append(out, STR("Content-Length: "));
        if (r == 0)
                r = http1_number_write(out, length);
        if (r != 0)
                return r;

        return buf_append(out, STR("\r\n"));
}
