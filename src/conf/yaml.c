/* SPDX-License-Identifier: Apache-2.0 */
#include "conf/yaml.h"

#include "base/cleanup.h"
#include "base/escape.h"
#include "conf/suggest.h"

#include <errno.h>
#include <yaml.h>

/*
 * The bytes are checked first (size, UTF-8, no control characters), so that the library sees only text. Its events then
 * build the tree; a stack of open collections as deep as the limit is all the state there is.
 */

struct reader {
        yaml_parser_t parser;
        struct document *doc;
        struct str text;
        struct node *open[NODE_DEPTH_MAX];
        size_t depth;
        bool have_key; /* in a map: the key was read, its value comes */
        struct str key;
        yaml_mark_t key_mark;
        bool ended; /* the one document is over */
};

static void reader_done(struct reader *r) {
        yaml_parser_delete(&r->parser);
        document_free(r->doc);
}

static uint32_t number_of(size_t from_zero) {
        return from_zero >= UINT32_MAX ? UINT32_MAX : (uint32_t)from_zero + 1;
}

__attribute__((format(printf, 4, 5))) static int refuse(const struct reader *r, const yaml_mark_t *at, struct err *e,
                                                        const char *format, ...) {
        char text[ERR_TEXT_MAX];
        va_list args;
        va_start(args, format);
        vsnprintf(text, sizeof text, format, args);
        va_end(args);
        return err_set(e, EINVAL, "%s:%u:%u: %s", document_name(r->doc), number_of(at->line), number_of(at->column),
                       text);
}

/* Control characters other than tab and line ends make a text that a person cannot read in an editor. */
static bool is_text(uint32_t c) {
        return c == '\t' || c == '\n' || c == '\r' || (c >= 0x20 && c != 0x7f && !(c >= 0x80 && c < 0xa0 && c != 0x85));
}

static int check_bytes(const struct reader *r, struct str text, struct err *e) {
        yaml_mark_t at = { 0 };
        if (text.n > DOCUMENT_BYTES_MAX)
                return err_set(e, EFBIG,
                               "%s:1:1: the file has %zu bytes, more than %d; put long lists of hosts into a file of "
                               "their own (network.allow_file, network.deny_file)",
                               document_name(r->doc), text.n, DOCUMENT_BYTES_MAX);
        while (text.n > 0) {
                uint32_t code = 0;
                size_t n = utf8_decode(text, &code);
                if (n == 0)
                        return refuse(r, &at, e, "byte 0x%02x is not UTF-8 text; is this a policy file?",
                                      (unsigned char)text.p[0]);
                if (!is_text(code))
                        return refuse(r, &at, e, "control character 0x%02x; is this a policy file?", (unsigned)code);
                at.column++;
                if (code == '\n') {
                        at.line++;
                        at.column = 0;
                }
                text = str_skip(text, n);
        }
        return 0;
}

static struct node *top(const struct reader *r) {
        return r->depth ? r->open[r->depth - 1] : NULL;
}

/* The byte at a place, 0 at the end. */
static char byte_at(struct str text, const yaml_mark_t *at) {
        struct str line = { 0 };
        uint32_t code;
        for (size_t i = 0; i <= at->line; i++)
                if (!str_split(&text, '\n', &line))
                        return 0;
        for (size_t i = 0; i < at->column && line.n > 0; i++)
                line = str_skip(line, utf8_decode(line, &code));
        return line.n > 0 ? line.p[0] : 0;
}

/* The mistakes that everybody makes once. */
static const char *syntax_hint(const struct reader *r) {
        const yaml_parser_t *p = &r->parser;
        if (p->context && strstr(p->context, "alias"))
                return "; a pattern that starts with '*' needs quotes: \"*.example.com\"";
        switch (byte_at(r->text, &p->problem_mark)) {
        case '@':
                return "; the name of a group needs quotes: \"@github\"";
        case '\t':
                return "; indent with spaces, not with tabs";
        default:
                return "";
        }
}

static int refuse_syntax(const struct reader *r, struct err *e) {
        const yaml_parser_t *p = &r->parser;
        const char *problem = p->problem ? p->problem : "unreadable";
        if (p->error == YAML_MEMORY_ERROR)
                return err_set(e, ENOMEM, "out of memory");
        if (!p->context)
                return refuse(r, &p->problem_mark, e, "not valid YAML: %s%s", problem, syntax_hint(r));
        return refuse(r, &p->problem_mark, e, "not valid YAML: %s %s on line %u%s", problem, p->context,
                      number_of(p->context_mark.line), syntax_hint(r));
}

/* A node under the open collection, with the key that waits for it. */
static int add(struct reader *r, enum node_kind kind, const yaml_mark_t *at, struct node **ret, struct err *e) {
        struct node *parent = top(r);
        if (!parent && document_root(r->doc))
                return refuse(r, at, e, "a second document in the file; one is all that is read");
        if (parent && parent->kind == NODE_MAP && !r->have_key)
                return refuse(r, at, e, "a key must be a single word, not %s", node_kind_name(kind));
        struct node *n = document_add(r->doc, parent, kind, e);
        if (!n)
                return e && e->code ? -e->code : -ENOMEM;
        n->line = number_of(at->line);
        n->column = number_of(at->column);
        if (r->have_key) {
                n->key = r->key;
                n->key_line = number_of(r->key_mark.line);
                n->key_column = number_of(r->key_mark.column);
                r->have_key = false;
        }
        *ret = n;
        return 0;
}

static bool is_null(struct str s, bool plain) {
        return plain && (s.n == 0 || str_is(s, "~") || str_is(s, "null") || str_is(s, "Null") || str_is(s, "NULL"));
}

static int read_key(struct reader *r, const yaml_event_t *event, struct str text, struct err *e) {
        if (str_is(text, "<<"))
                return refuse(r, &event->start_mark, e, "merge keys ('<<') are not read; write the values out");
        r->have_key = true;
        r->key_mark = event->start_mark;
        return document_text(r->doc, text, &r->key, e);
}

static int on_scalar(struct reader *r, const yaml_event_t *event, struct err *e) {
        bool plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
        struct str text = str_n(event->data.scalar.value, event->data.scalar.length);
        struct node *n = NULL, *parent = top(r);
        if (str_has_nul(text))
                return refuse(r, &event->start_mark, e, "a NUL character ('\\0') in the text");
        if (parent && parent->kind == NODE_MAP && !r->have_key)
                return read_key(r, event, text, e);
        int status = add(r, is_null(text, plain) ? NODE_NULL : NODE_SCALAR, &event->start_mark, &n, e);
        if (!n)
                return status;
        n->quoted = !plain;
        return document_text(r->doc, text, &n->text, e);
}

static int on_open(struct reader *r, enum node_kind kind, const yaml_mark_t *at, struct err *e) {
        struct node *n = NULL;
        if (r->depth == NODE_DEPTH_MAX)
                return refuse(r, at, e, "nested deeper than %d levels", NODE_DEPTH_MAX);
        int status = add(r, kind, at, &n, e);
        if (!n)
                return status;
        r->open[r->depth++] = n;
        return 0;
}

static int refuse_decorated(const struct reader *r, const yaml_event_t *event, const yaml_char_t *anchor,
                            const yaml_char_t *tag, struct err *e) {
        if (anchor)
                return refuse(r, &event->start_mark, e, "anchors ('&') are not read; write the value where it is used");
        if (tag)
                return refuse(r, &event->start_mark, e, "tags ('!') are not read; the policy knows the types itself");
        return 0;
}

static int on_event(struct reader *r, const yaml_event_t *event, struct err *e) {
        int status;
        switch (event->type) {
        case YAML_DOCUMENT_START_EVENT:
                if (r->ended)
                        return refuse(r, &event->start_mark, e,
                                      "a second document in the file; one is all that is read");
                if (event->data.document_start.tag_directives.start != event->data.document_start.tag_directives.end)
                        return refuse(r, &event->start_mark, e, "tag directives ('%%TAG') are not read");
                return 0;
        case YAML_DOCUMENT_END_EVENT:
                r->ended = true;
                return 0;
        case YAML_ALIAS_EVENT:
                return refuse(r, &event->start_mark, e,
                              "aliases ('*') are not read; if a pattern is meant, put it in quotes: "
                              "\"*.example.com\"");
        case YAML_SCALAR_EVENT:
                status = refuse_decorated(r, event, event->data.scalar.anchor, event->data.scalar.tag, e);
                return status < 0 ? status : on_scalar(r, event, e);
        case YAML_SEQUENCE_START_EVENT:
                status =
                    refuse_decorated(r, event, event->data.sequence_start.anchor, event->data.sequence_start.tag, e);
                return status < 0 ? status : on_open(r, NODE_LIST, &event->start_mark, e);
        case YAML_MAPPING_START_EVENT:
                status = refuse_decorated(r, event, event->data.mapping_start.anchor, event->data.mapping_start.tag, e);
                return status < 0 ? status : on_open(r, NODE_MAP, &event->start_mark, e);
        case YAML_MAPPING_END_EVENT:
                status = document_check_keys(r->doc, top(r), e);
                r->depth--;
                return status;
        case YAML_SEQUENCE_END_EVENT:
                r->depth--;
                return 0;
        default:
                return 0;
        }
}

static int read_events(struct reader *r, struct err *e) {
        for (bool more = true; more;) {
                cleanup(yaml_event_delete) yaml_event_t event = { 0 };
                if (!yaml_parser_parse(&r->parser, &event))
                        return refuse_syntax(r, e);
                more = event.type != YAML_STREAM_END_EVENT;
                int status = on_event(r, &event, e);
                if (status < 0)
                        return status;
        }
        return 0;
}

int yaml_read(struct str text, struct str name, struct document **ret, struct err *e) {
        cleanup(reader_done) struct reader r = { .text = text };
        struct err local = { 0 };
        e = e ? e : &local; /* limits are told through it */
        if (!yaml_parser_initialize(&r.parser))
                return err_set(e, ENOMEM, "out of memory");
        int status = document_new(name, &r.doc, e);
        status = status < 0 ? status : check_bytes(&r, text, e);
        if (status < 0)
                return status;
        yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
        yaml_parser_set_input_string(&r.parser, (const unsigned char *)(text.n ? text.p : ""), text.n);
        status = read_events(&r, e);
        if (status < 0)
                return status;
        *ret = take_ptr(&r.doc);
        return 0;
}
