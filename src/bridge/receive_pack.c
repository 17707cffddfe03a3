/* SPDX-License-Identifier: Apache-2.0 */
#include "bridge/receive_pack.h"

#include "base/map.h"
#include "bridge/pktline.h"
#include "policy/git/git.h"

#include <errno.h>

enum { SHA1_HEX = 40, SHA256_HEX = 64 };

struct reader {
        struct str left;
        struct receive_pack *head;
        bool started; /* the first command was there, and its capabilities */
};

static int pack_bad(struct reader *reader, const char *problem) {
        reader->head->problem = problem;
        return -EBADMSG;
}

/* The next line. As pktline_read(). */
static int next_line(struct reader *reader, struct pktline *ret) {
        int status = pktline_read(reader->left, ret);

        if (status < 0)
                return pack_bad(reader, "its lines are not framed as git frames them");
        if (status == 0 && reader->left.n > RECEIVE_PACK_HEAD_MAX)
                return pack_bad(reader, "its list of refs is too long");
        if (status > 0)
                reader->left = str_skip(reader->left, ret->bytes);

        return status;
}

/* --- capabilities --- */

struct capability {
        const char *name; /* with '=' at its end: has a value */
        size_t offset;    /* of the flag in struct receive_pack; SIZE_MAX: none */
};

#define FLAG(field) offsetof(struct receive_pack, field)

static const struct capability capabilities[] = {
        { "report-status", FLAG(report_status) },
        { "report-status-v2", FLAG(report_status_v2) },
        { "side-band-64k", FLAG(side_band) },
        { "atomic", FLAG(atomic) },
        { "push-options", FLAG(push_options) },
        { "quiet", SIZE_MAX },
        { "delete-refs", SIZE_MAX },
        { "ofs-delta", SIZE_MAX },
        { "no-thin", SIZE_MAX },
        { "agent=", SIZE_MAX },
        { "session-id=", SIZE_MAX },
};

static int take_object_format(struct reader *reader, struct str value) {
        if (str_is(value, "sha256"))
                reader->head->sha256 = true;
        else if (!str_is(value, "sha1"))
                return pack_bad(reader, "it has object ids of an unknown kind");
        return 0;
}

static bool capability_is(const struct capability *known, struct str word) {
        struct str name = str_of(known->name);

        if (name.p[name.n - 1] == '=')
                return str_starts(word, name);

        return str_eq(word, name);
}

static int take_capability(struct reader *reader, struct str word) {
        const struct str format = STR("object-format=");

        if (str_starts(word, format))
                return take_object_format(reader, str_skip(word, format.n));

        for (size_t i = 0; i < sizeof capabilities / sizeof *capabilities; i++) {
                if (!capability_is(&capabilities[i], word))
                        continue;
                if (capabilities[i].offset != SIZE_MAX)
                        *(bool *)((char *)reader->head + capabilities[i].offset) = true;
                return 0;
        }

        return pack_bad(reader, "it uses a capability that is not known here");
}

static int take_capabilities(struct reader *reader, struct str text) {
        struct str word;

        /* Servers part them at a tab, or at any blank of Unicode: what hides in a value would be one more of them. */
        for (size_t i = 0; i < text.n; i++)
                if (text.p[i] < ' ' || text.p[i] > '~')
                        return pack_bad(reader, "a capability in it has bytes that none has");

        while (text.n > 0 && str_split(&text, ' ', &word)) {
                int status = word.n > 0 ? take_capability(reader, word) : 0;
                if (status < 0)
                        return status;
        }

        return 0;
}

/* --- commands --- */

static bool is_id(struct str text, size_t n) {
        for (size_t i = 0; i < text.n; i++)
                if (!ascii_is_digit(text.p[i]) && (text.p[i] < 'a' || text.p[i] > 'f'))
                        return false;
        return text.n == n;
}

static bool is_zero(struct str id) {
        for (size_t i = 0; i < id.n; i++)
                if (id.p[i] != '0')
                        return false;
        return true;
}

static size_t id_length(const struct reader *reader) {
        return reader->head->sha256 ? SHA256_HEX : SHA1_HEX;
}

/* "old new ref" */
static int take_command(struct reader *reader, struct str text) {
        size_t n = id_length(reader);
        struct git_update update = { .old_id = str_first(text, n) };

        if (text.n < 2 * n + 3 || text.p[n] != ' ' || text.p[2 * n + 1] != ' ')
                return pack_bad(reader, "a line of it names no old id, new id and ref");

        update.new_id = str_first(str_skip(text, n + 1), n);
        update.ref = str_skip(text, 2 * n + 2);
        if (!is_id(update.old_id, n) || !is_id(update.new_id, n))
                return pack_bad(reader, "an object id in it is none");
        if (!git_ref_is_valid(update.ref))
                return pack_bad(reader, "a ref in it has no valid name below refs/");

        update.creates = is_zero(update.old_id);
        update.deletes = is_zero(update.new_id);
        if (update.creates && update.deletes)
                return pack_bad(reader, "it creates and deletes a ref at once");
        if (reader->head->updates.n == RECEIVE_PACK_UPDATES_MAX)
                return pack_bad(reader, "it changes too many refs at once");

        return vec_push(&reader->head->updates, update);
}

/* Only the first line has capabilities. */
static int take_first(struct reader *reader, struct str line, struct str *ret_text) {
        const char *nul = line.n ? memchr(line.p, '\0', line.n) : NULL;

        *ret_text = line;
        if (reader->started && nul)
                return pack_bad(reader, "a line has a NUL byte where none belongs");
        if (reader->started)
                return 0;

        reader->started = true;
        if (!nul)
                return 0;

        *ret_text = str_first(line, (size_t)(nul - line.p));
        return take_capabilities(reader, str_skip(line, ret_text->n + 1));
}

static int check_shallow(struct reader *reader, struct str text) {
        struct str id = str_skip(text, strlen("shallow "));

        if (reader->started)
                return pack_bad(reader, "a shallow line stands behind a command");
        if (is_id(id, SHA1_HEX) || is_id(id, SHA256_HEX))
                return 0;

        return pack_bad(reader, "a shallow line has no object id");
}

/* --- certificates --- */

static bool is_signature(struct str line) {
        static const char *const begins[] = { "-----BEGIN PGP SIGNATURE-----", "-----BEGIN PGP MESSAGE-----",
                                              "-----BEGIN SIGNED MESSAGE-----", "-----BEGIN SSH SIGNATURE-----" };

        for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
                if (str_starts(line, str_of(begins[i])))
                        return true;
        return false;
}

enum certificate_part { CERTIFICATE_HEADER, CERTIFICATE_COMMANDS, CERTIFICATE_SIGNATURE };

/* One line of a certificate: its commands stand between an empty line and the signature. */
static int take_certificate_line(struct reader *reader, const struct pktline *line, enum certificate_part *part) {
        struct str text = pktline_text(line);

        if (text.n == line->data.n || str_has_nul(text) || str_find(text, '\n') >= 0)
                return pack_bad(reader, "a line of its certificate is not one line");

        switch (*part) {
        case CERTIFICATE_HEADER:
                if (is_signature(text))
                        return pack_bad(reader, "its certificate names no command");
                if (text.n == 0)
                        *part = CERTIFICATE_COMMANDS;

                return 0;
        case CERTIFICATE_COMMANDS:
                if (!is_signature(text))
                        return take_command(reader, text);
                *part = CERTIFICATE_SIGNATURE;
                return 0;
        default:
                return is_signature(text) ? pack_bad(reader, "its certificate has two signatures") : 0;
        }
}

static int take_certificate(struct reader *reader) {
        enum certificate_part part = CERTIFICATE_HEADER;
        struct pktline line;
        int status;

        reader->head->certificate = true;
        while ((status = next_line(reader, &line)) > 0) {
                if (line.kind != PKTLINE_DATA)
                        return pack_bad(reader, "its certificate has no end");
                if (str_is(line.data, "push-cert-end\n"))
                        break;

                status = take_certificate_line(reader, &line, &part);
                if (status < 0)
                        return status;
        }

        if (status <= 0)
                return status;
        if (part != CERTIFICATE_SIGNATURE)
                return pack_bad(reader, "its certificate is not signed");

        status = next_line(reader, &line);
        if (status > 0 && line.kind != PKTLINE_FLUSH)
                return pack_bad(reader, "commands follow its certificate");

        return status;
}

/* --- the whole --- */

static bool is_certificate(const struct pktline *line) {
        return str_starts(line->data, STR("push-cert")) && line->data.n > 9 && line->data.p[9] == '\0';
}

/* 1: the list of commands is whole. */
static int read_commands(struct reader *reader) {
        struct pktline line;
        int status;

        while ((status = next_line(reader, &line)) > 0 && line.kind == PKTLINE_DATA) {
                struct str text = pktline_text(&line);
                if (str_starts(text, STR("shallow "))) {
                        status = check_shallow(reader, text);
                } else if (is_certificate(&line) && !reader->started) {
                        reader->started = true;
                        status = take_capabilities(reader, str_skip(text, 10));
                        if (status < 0)
                                return status;

                        return take_certificate(reader);
                } else {
                        status = take_first(reader, text, &text);
                        if (status >= 0)
                                status = take_command(reader, text);
                }

                if (status < 0)
                        return status;
        }

        if (status > 0 && line.kind != PKTLINE_FLUSH)
                return pack_bad(reader, "its list of commands does not end as git ends it");

        return status;
}

static int read_options(struct reader *reader) {
        struct pktline line;
        int status;

        while ((status = next_line(reader, &line)) > 0 && line.kind == PKTLINE_DATA) {
                struct str text = pktline_text(&line);
                if (str_has_nul(text) || reader->head->options.n == RECEIVE_PACK_OPTIONS_MAX)
                        return pack_bad(reader, "its push options are too many, or none");
                if (vec_push(&reader->head->options, text) < 0)
                        return -ENOMEM;
        }

        if (status > 0 && line.kind != PKTLINE_FLUSH)
                return pack_bad(reader, "its push options do not end as git ends them");

        return status;
}

static int check_repeated(struct reader *reader) {
        struct map seen = { 0 };
        int status = 0;

        for (size_t i = 0; status == 0 && i < reader->head->updates.n; i++) {
                struct str ref = reader->head->updates.p[i].ref;
                if (map_get(&seen, ref))
                        status = pack_bad(reader, "it names one ref twice");
                else if (map_add(&seen, ref, reader->head) < 0)
                        status = -ENOMEM;
        }

        map_done(&seen, NULL);
        return status;
}

int receive_pack_scan(struct receive_pack_scan *scan, struct str bytes) {
        struct pktline line;
        int status;

        while ((status = pktline_read(str_skip(bytes, scan->at), &line)) > 0) {
                scan->at += line.bytes;
                if (line.kind == PKTLINE_FLUSH)
                        return 1;
        }

        if (status == 0 && bytes.n > RECEIVE_PACK_HEAD_MAX)
                return -EBADMSG;

        return status;
}

int receive_pack_read(struct str bytes, struct receive_pack *ret) {
        struct reader reader = { .left = bytes, .head = ret };
        int status;

        *ret = (struct receive_pack){ 0 };
        status = read_commands(&reader);
        if (status > 0 && ret->push_options)
                status = read_options(&reader);
        if (status == 0 && bytes.n > RECEIVE_PACK_HEAD_MAX)
                status = pack_bad(&reader, "its list of refs is too long");
        if (status <= 0)
                return status;

        ret->bytes = bytes.n - reader.left.n;
        status = check_repeated(&reader);
        if (status < 0)
                return status;

        return 1;
}

void receive_pack_done(struct receive_pack *head) {
        vec_done(&head->updates);
        vec_done(&head->options);
}

struct git_push receive_pack_push(const struct receive_pack *head) {
        return (struct git_push){ .updates = head->updates.p,
                                  .n = head->updates.n,
                                  .options = head->push_options,
                                  .certificate = head->certificate };
}
