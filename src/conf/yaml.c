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

static void reader_done(struct reader *reader) {
        yaml_parser_delete(&reader->parser);
        document_free(reader->doc);
}

static uint32_t number_of(size_t from_zero) {
        return from_zero >= UINT32_MAX ? UINT32_MAX : (uint32_t)from_zero + 1;
}

__attribute__((format(printf, 4, 5))) static int yaml_refuse(const struct reader *reader, const yaml_mark_t *at,
                                                             struct err *err, const char *format, ...) {
        char text[ERR_TEXT_MAX];
        va_list args;

        va_start(args, format);
        vsnprintf(text, sizeof text, format, args);
        va_end(args);

        return err_set(err, EINVAL, "%s:%u:%u: %s", document_name(reader->doc), number_of(at->line),
                       number_of(at->column), text);
}

/* Control characters other than tab and line ends make a text that a person cannot read in an editor. */
static bool is_text(uint32_t c) {
        return c == '\t' || c == '\n' || c == '\r' || (c >= 0x20 && c != 0x7f && !(c >= 0x80 && c < 0xa0 && c != 0x85));
}

static int check_bytes(const struct reader *reader, struct str text, struct err *err) {
        yaml_mark_t at = { 0 };

        if (text.n > DOCUMENT_BYTES_MAX)
                return err_set(err, EFBIG,
                               "%s:1:1: the file has %zu bytes, more than %d; put long lists of hosts into a file of "
                               "their own (network.allow_file, network.deny_file)",
                               document_name(reader->doc), text.n, DOCUMENT_BYTES_MAX);

        while (text.n > 0) {
                uint32_t code = 0;
                size_t n = utf8_decode(text, &code);
                if (n == 0)
                        return yaml_refuse(reader, &at, err, "byte 0x%02x is not UTF-8 text; is this a policy file?",
                                           (unsigned char)text.p[0]);

                if (!is_text(code))
                        return yaml_refuse(reader, &at, err, "control character 0x%02x; is this a policy file?",
                                           (unsigned)code);

                at.column++;

                if (code == '\n') {
                        at.line++;
                        at.column = 0;
                }

                text = str_skip(text, n);
        }

        return 0;
}

static struct node *yaml_top(const struct reader *reader) {
        return reader->depth ? reader->open[reader->depth - 1] : NULL;
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

        if (line.n > 0)
                return line.p[0];

        return 0;
}

/* The mistakes that everybody makes once. */
static const char *syntax_hint(const struct reader *reader) {
        const yaml_parser_t *p = &reader->parser;
        if (p->context && strstr(p->context, "alias"))
                return "; a pattern that starts with '*' needs quotes: \"*.example.com\"";

        switch (byte_at(reader->text, &p->problem_mark)) {
        case '@':
                return "; the name of a group needs quotes: \"@github\"";
        case '\t':
                return "; indent with spaces, not with tabs";
        default:
                return "";
        }
}

static int refuse_syntax(const struct reader *reader, struct err *err) {
        const yaml_parser_t *p = &reader->parser;
        const char *problem = text_or(p->problem, "unreadable");

        if (p->error == YAML_MEMORY_ERROR)
                return err_memory(err);
        if (!p->context)
                return yaml_refuse(reader, &p->problem_mark, err, "not valid YAML: %s%s", problem, syntax_hint(reader));

        return yaml_refuse(reader, &p->problem_mark, err, "not valid YAML: %s %s on line %u%s", problem, p->context,
                           number_of(p->context_mark.line), syntax_hint(reader));
}

/* A node under the open collection, with the key that waits for it. */
static int yaml_add(struct reader *reader, enum node_kind kind, const yaml_mark_t *at, struct node **ret,
                    struct err *err) {
        struct node *parent = yaml_top(reader);
        if (!parent && document_root(reader->doc))
                return yaml_refuse(reader, at, err, "a second document in the file; one is all that is read");
        if (parent && parent->kind == NODE_MAP && !reader->have_key)
                return yaml_refuse(reader, at, err, "a key must be a single word, not %s", node_kind_name(kind));

        struct node *node = document_add(reader->doc, parent, kind, err);
        if (!node) {
                if (err && err->code)
                        return -err->code;
                return -ENOMEM;
        }

        node->line = number_of(at->line);
        node->column = number_of(at->column);

        if (reader->have_key) {
                node->key = reader->key;
                node->key_line = number_of(reader->key_mark.line);
                node->key_column = number_of(reader->key_mark.column);
                reader->have_key = false;
        }

        *ret = node;
        return 0;
}

static bool is_null(struct str s, bool plain) {
        return plain && (s.n == 0 || str_is(s, "~") || str_is(s, "null") || str_is(s, "Null") || str_is(s, "NULL"));
}

static int read_key(struct reader *reader, const yaml_event_t *event, struct str text, struct err *err) {
        if (str_is(text, "<<"))
                return yaml_refuse(reader, &event->start_mark, err,
                                   "merge keys ('<<') are not read; write the values out");
        reader->have_key = true;
        reader->key_mark = event->start_mark;
        return document_text(reader->doc, text, &reader->key, err);
}

static int on_scalar(struct reader *reader, const yaml_event_t *event, struct err *err) {
        bool plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
        struct str text = str_n(event->data.scalar.value, event->data.scalar.length);
        struct node *node = NULL, *parent = yaml_top(reader);

        if (str_has_nul(text))
                return yaml_refuse(reader, &event->start_mark, err, "a NUL character ('\\0') in the text");
        if (parent && parent->kind == NODE_MAP && !reader->have_key)
                return read_key(reader, event, text, err);

        int status = yaml_add(reader, is_null(text, plain) ? NODE_NULL : NODE_SCALAR, &event->start_mark, &node, err);
        if (!node)
                return status;

        node->quoted = !plain;
        return document_text(reader->doc, text, &node->text, err);
}

static int on_open(struct reader *reader, enum node_kind kind, const yaml_mark_t *at, struct err *err) {
        struct node *node = NULL;

        if (reader->depth == NODE_DEPTH_MAX)
                return yaml_refuse(reader, at, err, "nested deeper than %d levels", NODE_DEPTH_MAX);

        int status = yaml_add(reader, kind, at, &node, err);
        if (!node)
                return status;

        reader->open[reader->depth++] = node;
        return 0;
}

static int refuse_decorated(const struct reader *reader, const yaml_event_t *event, const yaml_char_t *anchor,
                            const yaml_char_t *tag, struct err *err) {
        if (anchor)
                return yaml_refuse(reader, &event->start_mark, err,
                                   "anchors ('&') are not read; write the value where it is used");

        if (tag)
                return yaml_refuse(reader, &event->start_mark, err,
                                   "tags ('!') are not read; the policy knows the types itself");

        return 0;
}

static int on_event(struct reader *reader, const yaml_event_t *event, struct err *err) {
        int status;

        switch (event->type) {
        case YAML_DOCUMENT_START_EVENT:
                if (reader->ended)
                        return yaml_refuse(reader, &event->start_mark, err,
                                           "a second document in the file; one is all that is read");
                if (event->data.document_start.tag_directives.start != event->data.document_start.tag_directives.end)
                        return yaml_refuse(reader, &event->start_mark, err, "tag directives ('%%TAG') are not read");

                return 0;
        case YAML_DOCUMENT_END_EVENT:
                reader->ended = true;
                return 0;
        case YAML_ALIAS_EVENT:
                return yaml_refuse(reader, &event->start_mark, err,
                                   "aliases ('*') are not read; if a pattern is meant, put it in quotes: "
                                   "\"*.example.com\"");
        case YAML_SCALAR_EVENT:
                status = refuse_decorated(reader, event, event->data.scalar.anchor, event->data.scalar.tag, err);

                if (status < 0)
                        return status;

                return on_scalar(reader, event, err);
        case YAML_SEQUENCE_START_EVENT:
                status = refuse_decorated(reader, event, event->data.sequence_start.anchor,
                                          event->data.sequence_start.tag, err);
                if (status < 0)
                        return status;

                return on_open(reader, NODE_LIST, &event->start_mark, err);
        case YAML_MAPPING_START_EVENT:
                status = refuse_decorated(reader, event, event->data.mapping_start.anchor,
                                          event->data.mapping_start.tag, err);
                if (status < 0)
                        return status;

                return on_open(reader, NODE_MAP, &event->start_mark, err);
        case YAML_MAPPING_END_EVENT:
                status = document_check_keys(reader->doc, yaml_top(reader), err);
                reader->depth--;
                return status;
        case YAML_SEQUENCE_END_EVENT:
                reader->depth--;

                return 0;
        default:
                return 0;
        }
}

static int read_events(struct reader *reader, struct err *err) {
        for (bool more = true; more;) {
                cleanup(yaml_event_delete) yaml_event_t event = { 0 };
                if (!yaml_parser_parse(&reader->parser, &event))
                        return refuse_syntax(reader, err);

                more = event.type != YAML_STREAM_END_EVENT;
                int status = on_event(reader, &event, err);
                if (status < 0)
                        return status;
        }

        return 0;
}

int yaml_read(struct str text, struct str name, struct document **ret, struct err *err) {
        cleanup(reader_done) struct reader r = { .text = text };
        struct err local = { 0 };

        if (!err)
                err = &local; /* limits are reported through it */
        if (!yaml_parser_initialize(&r.parser))
                return err_memory(err);

        int status = document_new(name, &r.doc, err);
        if (status < 0)
                return status;

        status = check_bytes(&r, text, err);
        if (status < 0)
                return status;

        yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
        yaml_parser_set_input_string(&r.parser, (const unsigned char *)(text.n ? text.p : ""), text.n);
        status = read_events(&r, err);
        if (status < 0)
                return status;

        *ret = take_ptr(&r.doc);
        return 0;
}
