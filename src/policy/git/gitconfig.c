/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/git/gitconfig.h"

#include "base/buf.h"
#include "base/cleanup.h"

#include <errno.h>

enum { TEXT_MAX = 64 << 20, END = -1 };

struct reader {
        struct str rest;
        const char *begin; /* of the text */
        unsigned line;
        bool over;          /* the end was read, as a line end */
        struct buf section; /* "core", "remote.origin": what stands in the brackets, as git joins it */
        struct buf key, value;
};

/* --- characters: by bytes, whatever the locale --- */

static bool is_space(int c) {
        return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool is_letter(int c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_key(int c) {
        return is_letter(c) || (c >= '0' && c <= '9') || c == '-';
}

static char to_small(int c) {
        return (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
}

/* A line may end with CR LF, and the last one with nothing. */
static int reader_next(struct reader *reader) {
        if (reader->rest.n == 0) {
                reader->over = true;
                return '\n';
        }

        int c = (unsigned char)reader->rest.p[0];
        reader->rest = str_skip(reader->rest, 1);
        if (c == '\r' && reader->rest.n && reader->rest.p[0] == '\n') {
                reader->rest = str_skip(reader->rest, 1);
                c = '\n';
        }

        reader->line += c == '\n';
        return c;
}

/* --- the parts of a line --- */

/* `"name"]`, after the blank behind the section. */
static int read_subsection(struct reader *reader) {
        int c, status = buf_add_char(&reader->section, '.');

        do {
                c = reader_next(reader);
                if (c == '\n')
                        return -EBADMSG;
        } while (is_space(c));

        if (c != '"')
                return -EBADMSG;

        while (status == 0 && (c = reader_next(reader)) != '"') {
                if (c == '\\')
                        c = reader_next(reader);
                if (c == '\n')
                        return -EBADMSG;
                status = buf_add_char(&reader->section, (char)c);
        }

        if (status < 0)
                return status;

        if (reader_next(reader) != ']')
                return -EBADMSG;

        return 0;
}

static int read_section(struct reader *reader) {
        reader->section.n = 0;

        for (;;) {
                int c = reader_next(reader);

                if (reader->over)
                        return -EBADMSG;
                if (c == ']') {
                        if (!reader->section.n)
                                return -EBADMSG;
                        return 0;
                }
                if (is_space(c)) {
                        if (c == '\n')
                                return -EBADMSG;
                        return read_subsection(reader);
                }
                if (!is_key(c) && c != '.')
                        return -EBADMSG;

                int status = buf_add_char(&reader->section, to_small(c));
                if (status < 0)
                        return status;
        }
}

/* After a backslash: the character that is meant, END when the line goes on, or -EBADMSG. */
static int read_escape(struct reader *reader) {
        int c = reader_next(reader);

        switch (c) {
        case '\n':
                return END;
        case 't':
                return '\t';
        case 'b':
                return '\b';
        case 'n':
                return '\n';
        case '\\':
        case '"':
                return c;
        default:
                return -EBADMSG;
        }
}

static int read_value(struct reader *reader) {
        bool quoted = false, comment = false, blank = false;
        size_t text = 0; /* length without the blanks at the end */

        reader->value.n = 0;

        for (;;) {
                int status = 0, c = reader_next(reader);

                if (c == '\n') {
                        if (blank)
                                reader->value.n = text;
                        if (quoted)
                                return -EBADMSG;

                        return 0;
                }

                if (comment)
                        continue;

                if (is_space(c) && !quoted) {
                        if (!blank)
                                text = reader->value.n;
                        blank = true;
                        if (reader->value.n)
                                status = buf_add_char(&reader->value, (char)c);
                        else
                                status = 0;
                        if (status < 0)
                                return status;
                        continue;
                }

                if (!quoted && (c == ';' || c == '#')) {
                        comment = true;
                        continue;
                }

                blank = false;

                if (c == '"') {
                        quoted = !quoted;
                        continue;
                }

                if (c == '\\') {
                        c = read_escape(reader);
                        if (c == -EBADMSG)
                                return c;
                        if (c == END)
                                continue;
                }

                status = buf_add_char(&reader->value, (char)c);
                if (status < 0)
                        return status;
        }
}

static struct gitconfig_setting reader_setting(const struct reader *reader, bool has_value) {
        struct str section = buf_str(&reader->section);
        ptrdiff_t dot = str_find(section, '.');
        struct gitconfig_setting setting = { .section = section, .key = buf_str(&reader->key) };

        if (dot >= 0) {
                setting.section = str_first(section, (size_t)dot);
                setting.subsection = str_skip(section, (size_t)dot + 1);
        }

        if (has_value)
                setting.value = reader->value.n ? buf_str(&reader->value) : STR("");

        return setting;
}

/* `key`, or `key = value`; its first character was read. */
static int read_setting(struct reader *reader, int first, gitconfig_each *each, void *context) {
        size_t begin = (size_t)(reader->rest.p - reader->begin) - 1;
        int c = 0, status;
        bool has_value = false;

        reader->key.n = 0;
        status = buf_add_char(&reader->key, to_small(first));
        while (status == 0 && (c = reader_next(reader)) != '\n' && is_key(c))
                status = buf_add_char(&reader->key, to_small(c));

        if (status < 0)
                return status;

        while (c == ' ' || c == '\t')
                c = reader_next(reader);

        if (c != '\n') {
                if (c != '=')
                        return -EBADMSG;

                has_value = true;
                status = read_value(reader);
                if (status < 0)
                        return status;
        }

        struct gitconfig_setting setting = reader_setting(reader, has_value);
        setting.begin = begin;
        setting.end = (size_t)(reader->rest.p - reader->begin);

        return each(&setting, context);
}

static int read_all(struct reader *reader, gitconfig_each *each, void *context) {
        bool comment = false;

        if (str_starts(reader->rest, STR("\xef\xbb\xbf")))
                reader->rest = str_skip(reader->rest, 3);

        for (;;) {
                int c = reader_next(reader), status = 0;

                if (reader->over)
                        return 0;
                if (c == '\n')
                        comment = false;
                if (comment || is_space(c))
                        continue;

                if (c == '#' || c == ';')
                        comment = true;
                else if (c == '[')
                        status = read_section(reader);
                else if (is_letter(c))
                        status = read_setting(reader, c, each, context);
                else
                        status = -EBADMSG;

                if (status != 0)
                        return status;
                if (reader->over)
                        return 0;
        }
}

int gitconfig_read(struct str text, gitconfig_each *each, void *context, struct err *err) {
        struct reader reader = { .rest = text,
                                 .begin = text.p,
                                 .line = 1,
                                 .section = BUF(TEXT_MAX),
                                 .key = BUF(TEXT_MAX),
                                 .value = BUF(TEXT_MAX) };
        int r = read_all(&reader, each, context);

        buf_done(&reader.section);
        buf_done(&reader.key);
        buf_done(&reader.value);

        if (r == -EBADMSG)
                return err_set(err, EBADMSG, "line %u is no line of a git configuration", reader.line);
        if (r == -ENOMEM)
                return err_memory(err);

        return r;
}

/* --- what git runs --- */

/* By section and key, whatever the subsection; a key of NULL stands for all of them. */
static const struct {
        const char *section, *key;
        enum gitconfig_kind kind;
} meanings[] = {
        { "include", "path", GITCONFIG_INCLUDE },
        { "includeif", "path", GITCONFIG_INCLUDE },
        { "core", "hookspath", GITCONFIG_DIRECTORY },
        { "init", "templatedir", GITCONFIG_DIRECTORY },
        { "core", "fsmonitor", GITCONFIG_COMMAND },
        { "core", "sshcommand", GITCONFIG_COMMAND },
        { "core", "pager", GITCONFIG_COMMAND },
        { "core", "editor", GITCONFIG_COMMAND },
        { "core", "askpass", GITCONFIG_COMMAND },
        { "core", "gitproxy", GITCONFIG_COMMAND },
        { "core", "alternaterefscommand", GITCONFIG_COMMAND },
        { "sequence", "editor", GITCONFIG_COMMAND },
        { "interactive", "difffilter", GITCONFIG_COMMAND },
        { "pager", NULL, GITCONFIG_COMMAND },
        { "alias", NULL, GITCONFIG_COMMAND },
        { "hook", "command", GITCONFIG_COMMAND },
        { "gpg", "program", GITCONFIG_COMMAND },
        { "gpg", "defaultkeycommand", GITCONFIG_COMMAND },
        { "credential", "helper", GITCONFIG_COMMAND },
        { "diff", "external", GITCONFIG_COMMAND },
        { "diff", "command", GITCONFIG_COMMAND },
        { "diff", "textconv", GITCONFIG_COMMAND },
        { "difftool", "cmd", GITCONFIG_COMMAND },
        { "difftool", "path", GITCONFIG_COMMAND },
        { "merge", "driver", GITCONFIG_COMMAND },
        { "mergetool", "cmd", GITCONFIG_COMMAND },
        { "mergetool", "path", GITCONFIG_COMMAND },
        { "filter", "clean", GITCONFIG_COMMAND },
        { "filter", "smudge", GITCONFIG_COMMAND },
        { "filter", "process", GITCONFIG_COMMAND },
        { "remote", "uploadpack", GITCONFIG_COMMAND },
        { "remote", "receivepack", GITCONFIG_COMMAND },
        { "remote", "url", GITCONFIG_COMMAND }, /* ext::PROGRAM */
        { "remote", "pushurl", GITCONFIG_COMMAND },
        { "uploadpack", "packobjectshook", GITCONFIG_COMMAND },
        { "submodule", "update", GITCONFIG_COMMAND },
        { "sendemail", "smtpserver", GITCONFIG_COMMAND },
        { "sendemail", "sendmailcmd", GITCONFIG_COMMAND },
        { "sendemail", "tocmd", GITCONFIG_COMMAND },
        { "sendemail", "cccmd", GITCONFIG_COMMAND },
        { "sendemail", "headercmd", GITCONFIG_COMMAND },
        { "imap", "tunnel", GITCONFIG_COMMAND },
        { "instaweb", "httpd", GITCONFIG_COMMAND },
        { "browser", "cmd", GITCONFIG_COMMAND },
        { "browser", "path", GITCONFIG_COMMAND },
        { "man", "cmd", GITCONFIG_COMMAND },
        { "man", "path", GITCONFIG_COMMAND },
        { "guitool", "cmd", GITCONFIG_COMMAND },
        { "trailer", "cmd", GITCONFIG_COMMAND },
        { "trailer", "command", GITCONFIG_COMMAND },
        { "tar", "command", GITCONFIG_COMMAND },
        { "lfs", "path", GITCONFIG_COMMAND },
        { "lfs", "args", GITCONFIG_COMMAND }, /* of customtransfer: the script that an interpreter runs */
        { "svn", "authorsprog", GITCONFIG_COMMAND },
        { "lfs", "clean", GITCONFIG_COMMAND },
        { "lfs", "smudge", GITCONFIG_COMMAND },
};

/* Settings of newer versions of git, and of tools that keep theirs in its files (gc.recentObjectsHook, annex): those
 * that run something are called like this. */
static bool sounds_like_command(struct str key) {
        static const char *const ends[] = { "command", "cmd", "program", "hook", "editor", "pager", "helper" };

        for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
                if (str_ends(key, str_of(ends[i])))
                        return true;
        return false;
}

/* These have both: a local path or an address, which runs nothing, and a command. */
static bool is_address(const struct gitconfig_setting *setting) {
        bool url = str_is(setting->key, "url") || str_is(setting->key, "pushurl");
        return str_is(setting->section, "remote") && url && !str_starts(setting->value, STR("ext::"));
}

static bool is_git_alias(const struct gitconfig_setting *setting) {
        return str_is(setting->section, "alias") && !str_starts(setting->value, STR("!"));
}

enum gitconfig_kind gitconfig_judge(const struct gitconfig_setting *setting) {
        if (setting->value.n == 0 || is_address(setting) || is_git_alias(setting))
                return GITCONFIG_OTHER;
        for (size_t i = 0; i < sizeof meanings / sizeof *meanings; i++)
                if (str_is(setting->section, meanings[i].section) &&
                    (!meanings[i].key || str_is(setting->key, meanings[i].key)))
                        return meanings[i].kind;

        if (sounds_like_command(setting->key))
                return GITCONFIG_COMMAND;

        return GITCONFIG_OTHER;
}

static bool gitconfig_separates(char c) {
        return c == '\0' || strchr(" \t\r\n\"'`$(){};|&<>=!,", c);
}

bool gitconfig_word(struct str *command, struct str *ret_word) {
        struct str rest = *command;
        size_t n = 0;

        while (rest.n && gitconfig_separates(rest.p[0]))
                rest = str_skip(rest, 1);

        while (n < rest.n && !gitconfig_separates(rest.p[n]))
                n++;

        *command = str_skip(rest, n);
        if (n == 0)
                return false;

        *ret_word = str_first(rest, n);
        return true;
}
