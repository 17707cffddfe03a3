/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The firewall script of Claude's development container. It is never run: the names are read from its lists, which are
 * quoted words of a `for NAME in` loop or of an array, and everything else in it is left alone.
 *
 * The container sees the project and its own image; of this host's files the policy opens the project and the
 * directories of the system that stand in for the image.
 */
#include "base/cleanup.h"
#include "import/import_source.h"
#include "import/script.h"
#include "policy/check.h"

#include <errno.h>
#include <stdio.h>
#include <strings.h>

struct list_place {
        uint32_t line, column;
};

enum list_kind { LIST_NONE, LIST_LOOP, LIST_ARRAY };

struct host_list {
        enum list_kind kind;
        enum list_fate fate;
};

static bool is_host_word(struct str word) {
        bool dot = false;

        for (size_t i = 0; i < word.n; i++) {
                dot |= word.p[i] == '.';
                if (!ascii_is_alnum(word.p[i]) && word.p[i] != '.' && word.p[i] != '-' && word.p[i] != '*')
                        return false;
        }

        return dot && check_plain_pattern(word, NULL) == 0;
}

static int add_host(struct import_source *source, struct str word, const struct list_place *place, enum list_fate fate,
                    struct err *err) {
        const struct node node = {
                .kind = NODE_SCALAR, .quoted = true, .text = word, .line = place->line, .column = place->column
        };

        int r = import_check_word(source->document, &node, err);

        if (r < 0)
                return r;
        if (fate == FATE_REFUSED)
                return import_deny_host(source, &node, word, err);
        if (fate == FATE_UNKNOWN)
                return import_say(source, &node, false, err,
                                  "it is not certain that the script lets this host through");
        if (is_host_word(word))
                return import_allow_host(source, &node, word, err);
        return import_say(source, &node, false, err, "not the plain name of a host");
}

/* The words of one line of a list; *ret_ended: the list ends on it. */
static int read_words(struct import_source *source, struct str line, size_t from, uint32_t number,
                      const struct host_list *list, bool *ret_ended, struct err *err) {
        size_t i = from;
        int r = 0;

        while (r == 0 && i < line.n) {
                char c = line.p[i];
                struct list_place place = { number, (uint32_t)i + 1 };
                size_t start = i;

                if (c == ' ' || c == '\t' || c == '\\' || c == '\r') {
                        i++;
                        continue;
                }

                if (c == '#')
                        return 0;

                if (c == ';' || (list->kind == LIST_ARRAY && c == ')')) {
                        *ret_ended = true;
                        return 0;
                }

                if (c == '"' || c == '\'') {
                        start = ++i;
                        while (i < line.n && line.p[i] != c)
                                i++;

                        if (i == line.n)
                                return err_set(err, EINVAL, "%s:%u:%u: the quoted word has no end on this line",
                                               document_name(source->document), number, place.column);

                        r = add_host(source, str_n(line.p + start, i - start), &place, list->fate, err);
                        i++;
                        continue;
                }

                while (i < line.n && !strchr(" \t;)\\\"'\r", line.p[i]))
                        i++;

                if (i == start)
                        i++;

                r = add_host(source, str_n(line.p + start, i - start), &place, list->fate, err);
        }

        return r;
}

/* Whether one of the words is in the text, in either case. */
static bool has_word(struct str text, const char *const *words) {
        for (; *words; words++)
                for (size_t i = 0, n = strlen(*words); i + n <= text.n; i++)
                        if (strncasecmp(text.p + i, *words, n) == 0)
                                return true;
        return false;
}

/* The name of a variable that the line sets to a list, after words that may stand before it; else empty. */
static struct str array_name(struct str trimmed) {
        static const char *const before[] = { "local ",    "declare -a ", "declare -ar ", "declare ", "readonly -a ",
                                              "readonly ", "export ",     "typeset -a ",  "local -a " };
        ptrdiff_t equals = str_find(trimmed, '=');

        if (equals <= 0 || (size_t)equals + 1 >= trimmed.n || trimmed.p[equals + 1] != '(')
                return STR("");

        struct str name = str_first(trimmed, (size_t)equals);
        for (size_t i = 0; i < sizeof before / sizeof *before; i++)
                if (str_starts(name, str_of(before[i])))
                        name = str_trim(str_skip(name, strlen(before[i])));

        if (str_ends(name, STR("+")))
                name = str_first(name, name.n - 1);

        for (size_t i = 0; i < name.n; i++)
                if (!ascii_is_alnum(name.p[i]) && name.p[i] != '_')
                        return STR("");

        return name;
}

/* Where a list of words begins on this line, or -1. An array is recognised by its name. */
static ptrdiff_t list_start(struct script *script, struct str line, struct host_list *ret) {
        static const char *const loops[] = { "for domain in ", "for host in ", "for d in ", "for h in " };
        static const char *const hosts[] = { "DOMAIN", "HOST", NULL };
        struct str trimmed = str_trim(line);
        size_t before = (size_t)(trimmed.p - line.p);

        for (size_t i = 0; i < sizeof loops / sizeof *loops; i++)
                if (str_starts(trimmed, str_of(loops[i])) && !memchr(trimmed.p, '$', trimmed.n)) {
                        *ret = (struct host_list){ LIST_LOOP,
                                                   script_loop_fate(script, (size_t)(line.p - script->text.p)) };
                        return (ptrdiff_t)(before + strlen(loops[i]));
                }

        struct str name = array_name(trimmed);
        if (name.n == 0 || !has_word(name, hosts))
                return -1;

        *ret = (struct host_list){ LIST_ARRAY, script_array_fate(script, name) };
        return (ptrdiff_t)before + str_find(trimmed, '=') + 2;
}

static int note_wider(struct import_source *source, struct err *err) {
        static const char *const wider[] = {
                "the script opens port 53 of every host: names are resolved by Bailey alone",
                "the script opens port 22 of every host: ssh reaches the hosts that are allowed",
                "the script opens the network of the container's host: nothing of it is",
        };
        int r = 0;

        for (size_t i = 0; r == 0 && i < sizeof wider / sizeof *wider; i++)
                r = import_note(source->model, document_name(source->document), STR("init-firewall.sh"), false, err,
                                "%s", wider[i]);

        return r;
}

static int add_fixed(struct import_source *source, struct err *err) {
        static const char *const system_roots[] = { "/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc" };
        const char *place = document_name(source->document);
        int r = import_add(source->model, IMPORT_WRITE, str_of(source->model->workspace), place, STR(""), err);

        for (size_t i = 0; r == 0 && i < sizeof system_roots / sizeof *system_roots; i++)
                r = import_add(source->model, IMPORT_READ, str_of(system_roots[i]), place, STR(""), err);
        return r;
}

int import_devcontainer(struct import_source *source, struct str text, struct err *err) {
        struct host_list list = { LIST_NONE, FATE_UNKNOWN };
        bool in_list = false, ended, found = false;
        struct str rest = text, line;
        struct script script;
        int r = 0;

        script_read(text, &script);

        import_start_listed(source->model, true);
        source->model->reads_listed = true;

        for (uint32_t number = 1; r == 0 && str_split(&rest, '\n', &line); number++) {
                ptrdiff_t start = in_list ? 0 : list_start(&script, line, &list);
                const struct node node = { .kind = NODE_SCALAR,
                                           .quoted = true,
                                           .text = STR("api.github.com/meta"),
                                           .line = number,
                                           .column = 1 };

                if (memmem(line.p, line.n, "api.github.com/meta", 19) && str_trim(line).p[0] != '#') {
                        r = import_allow_host(source, &node, STR("github.com"), err);
                        if (r == 0)
                                r = import_allow_host(source, &node, STR("api.github.com"), err);
                }

                if (r < 0 || start < 0)
                        continue;

                in_list = true;
                found |= list.fate != FATE_REFUSED;
                ended = false;
                r = read_words(source, line, (size_t)start, number, &list, &ended, err);
                in_list = !ended;
        }

        if (r == 0 && in_list)
                r = err_set(err, EINVAL, "%s: the list of hosts has no end; the file is only half there",
                            document_name(source->document));

        if (r == 0 && !found)
                r = err_set(err, EINVAL,
                            "%s: there is no list of hosts in it, as `for domain in \"a.example\" ...; do` or "
                            "ALLOWED_DOMAINS=(...)",
                            document_name(source->document));

        if (r == 0)
                r = note_wider(source, err);
        if (r < 0)
                return r;

        return add_fixed(source, err);
}
