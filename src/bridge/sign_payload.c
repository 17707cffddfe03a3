/* SPDX-License-Identifier: Apache-2.0 */
#include "bridge/sign_payload.h"

enum { SHA1_HEX = 40, SHA256_HEX = 64, KEY_MAX = 72 };

static bool is_id(struct str text) {
        for (size_t i = 0; i < text.n; i++)
                if (!ascii_is_digit(text.p[i]) && (text.p[i] < 'a' || text.p[i] > 'f'))
                        return false;
        return text.n == SHA1_HEX || text.n == SHA256_HEX;
}

/* "NAME VALUE" and the end of the line, taken off the front. */
static bool take_line(struct str *bytes, struct str name, struct str *ret_value) {
        ptrdiff_t end = str_find(*bytes, '\n');
        struct str line;

        if (end < 0 || !str_starts(*bytes, name))
                return false;

        line = str_first(*bytes, (size_t)end);
        if (line.n <= name.n || line.p[name.n] != ' ' || str_has_nul(line))
                return false;

        *ret_value = str_skip(line, name.n + 1);
        *bytes = str_skip(*bytes, (size_t)end + 1);

        return true;
}

/* "NAME <MAIL> SECONDS ZONE" */
static bool is_person(struct str text) {
        ptrdiff_t open = str_find(text, '<'), close = str_rfind(text, '>');
        struct str when, seconds, zone;

        if (open < 0 || close < open || str_find(str_skip(text, (size_t)open + 1), '<') >= 0)
                return false;

        when = str_skip(text, (size_t)close + 1);
        if (when.n < 2 || when.p[0] != ' ')
                return false;

        when = str_skip(when, 1);
        if (!str_split(&when, ' ', &seconds) || !str_split(&when, ' ', &zone) || when.n > 0)
                return false;

        for (size_t i = 0; i < seconds.n; i++)
                if (!ascii_is_digit(seconds.p[i]))
                        return false;

        return seconds.n > 0 && zone.n == 5 && (zone.p[0] == '+' || zone.p[0] == '-');
}

/* Headers that may follow (encoding, mergetag with its lines that begin with a blank), then an empty line. */
static bool take_rest(struct str *bytes) {
        for (;;) {
                ptrdiff_t end = str_find(*bytes, '\n');
                struct str line;

                if (end < 0)
                        return false;

                line = str_first(*bytes, (size_t)end);
                *bytes = str_skip(*bytes, (size_t)end + 1);
                if (line.n == 0)
                        return true;

                if (str_starts(line, STR("gpgsig")) || str_has_nul(line) ||
                    (line.p[0] != ' ' && str_find(line, ' ') <= 0))
                        return false;
        }
}

static bool is_commit(struct str bytes) {
        struct str value;

        if (!take_line(&bytes, STR("tree"), &value) || !is_id(value))
                return false;

        while (str_starts(bytes, STR("parent ")))
                if (!take_line(&bytes, STR("parent"), &value) || !is_id(value))
                        return false;

        return take_line(&bytes, STR("author"), &value) && is_person(value) &&
               take_line(&bytes, STR("committer"), &value) && is_person(value) && take_rest(&bytes);
}

static bool is_tag(struct str bytes) {
        struct str value;

        if (!take_line(&bytes, STR("object"), &value) || !is_id(value) || !take_line(&bytes, STR("type"), &value))
                return false;
        if (!str_is(value, "commit") && !str_is(value, "tag") && !str_is(value, "tree") && !str_is(value, "blob"))
                return false;

        return take_line(&bytes, STR("tag"), &value) && value.n > 0 && take_line(&bytes, STR("tagger"), &value) &&
               is_person(value) && bytes.n > 0 && bytes.p[0] == '\n';
}

enum sign_payload sign_payload_kind(struct str bytes) {
        if (is_commit(bytes))
                return SIGN_COMMIT;
        if (is_tag(bytes))
                return SIGN_TAG;

        return SIGN_OTHER;
}

const char *sign_payload_name(enum sign_payload kind) {
        static const char *const names[] = { "something else", "a commit", "a tag" };

        return names[kind];
}

bool sign_gpg_parse(const struct str *words, size_t n, struct str *ret_key) {
        if (n != 3 || !str_is(words[0], "--status-fd=2") || !str_is(words[1], "-bsau"))
                return false;
        for (size_t i = 0; i < words[2].n; i++)
                if (words[2].p[i] < 0x20 || words[2].p[i] > 0x7e)
                        return false;
        *ret_key = words[2];
        return words[2].n > 0 && words[2].n <= KEY_MAX && words[2].p[0] != '-';
}
