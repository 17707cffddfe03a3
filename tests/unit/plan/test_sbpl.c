/* SPDX-License-Identifier: Apache-2.0 */
/* The judge of Seatbelt profiles, held to what is known about them: tests/cases/sbpl/facts.txt. */
#include "../cmocka_all.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/paths/path.h"
#include "gateway/confine/gateway_profile.h"
#include "sbpl.h"
#include "vault/vault_profile.h"

#include <stdio.h>

static const struct sbpl_parameter parameters[] = { { "PLACE", "/given" }, { NULL, NULL } };

struct state {
        const char *fact;
        struct buf profile;
        struct sbpl *sbpl;
        struct err why;
        bool parsed;
        size_t questions, failures;
        int line;
};

static void fact_failed(struct state *s, const char *what) {
        fprintf(stderr, "facts.txt:%d: %s: %s\n", s->line, s->fact, what);
        s->failures++;
}

/* What a text file cannot hold stands in the profile as a word. */
static int add_profile_line(struct buf *out, struct str line) {
        for (size_t i = 0; i < line.n; i++) {
                struct str rest = str_skip(line, i);
                int r = 0;

                if (str_starts(rest, STR("LONG1100"))) {
                        for (size_t n = 0; n < 1100 && r == 0; n++)
                                r = buf_add_char(out, 'a');
                        i += 7;
                } else if (str_starts(rest, STR("\\x")) && rest.n >= 4) {
                        r = buf_add_char(out, (char)(ascii_hex(rest.p[2]) << 4 | ascii_hex(rest.p[3])));
                        i += 3;
                } else {
                        r = buf_add_char(out, line.p[i]);
                }
                if (r < 0)
                        return r;
        }
        return buf_add_char(out, '\n');
}

static bool parse_once(struct state *s) {
        if (!s->parsed) {
                s->parsed = true;
                err_clear(&s->why);
                (void)sbpl_parse(buf_str(&s->profile), parameters, &s->sbpl, &s->why);
        }
        return s->sbpl != NULL;
}

/* key=value words; the texts belong to `words`. */
static bool read_question(char *words, struct sbpl_question *q, bool *ret_allowed) {
        char *next = words;
        bool said = false;

        q->operation = strsep(&next, " ");
        for (char *word; (word = strsep(&next, " "));) {
                char *value = strchr(word, '=');
                size_t n = value ? (size_t)(value - word) : strlen(word);
                struct str key = str_n(word, n);

                value = value ? value + 1 : NULL;
                if (str_is(key, "allow") || str_is(key, "deny")) {
                        *ret_allowed = str_is(key, "allow");
                        said = true;
                } else if (!value) {
                        return false;
                } else if (str_is(key, "path")) {
                        q->path = value;
                } else if (str_is(key, "type")) {
                        q->type = value;
                } else if (str_is(key, "target")) {
                        q->target = value;
                } else if (str_is(key, "name")) {
                        q->name = value;
                } else if (str_is(key, "ip") || str_is(key, "own-ip")) {
                        q->address = value;
                        q->own_address = str_is(key, "own-ip");
                } else if (str_is(key, "port")) {
                        q->port = (unsigned)strtoul(value, NULL, 10);
                } else if (str_is(key, "domain")) {
                        q->domain = value;
                } else if (str_is(key, "ext")) {
                        q->extension = value;
                } else {
                        return false;
                }
        }
        return said && q->operation;
}

static void ask(struct state *s, struct str text) {
        cleanup(free_ptr) char *words = str_dup(text);
        struct sbpl_question q = { 0 };
        bool allowed = false;

        s->questions++;
        if (!parse_once(s))
                fact_failed(s, err_text(&s->why));
        else if (!words || !read_question(words, &q, &allowed))
                fact_failed(s, "not a question");
        else if ((sbpl_ask(s->sbpl, &q).verdict == SBPL_ALLOW) != allowed)
                fact_failed(s, allowed ? "was denied" : "was allowed");
}

static void check_line(struct state *s, struct str line) {
        s->questions++;
        if (str_starts(line, STR("invalid "))) {
                cleanup(free_ptr) char *words = str_dup(str_skip(line, 8));
                if (parse_once(s) || !strstr(err_text(&s->why), words))
                        fact_failed(s, s->sbpl ? "is valid" : err_text(&s->why));
        } else if (str_starts(line, STR("nests "))) {
                if (!parse_once(s) || sbpl_can_nest(s->sbpl) != str_is(str_skip(line, 6), "yes"))
                        fact_failed(s, "nests otherwise");
        } else if (str_starts(line, STR("starts "))) {
                cleanup(free_ptr) char *program = str_dup(str_skip(line, 7));
                char *said = strchr(program, ' ');
                *said++ = '\0';
                if (!parse_once(s) || sbpl_can_start(s->sbpl, program) != (strcmp(said, "yes") == 0))
                        fact_failed(s, "starts otherwise");
        } else {
                fact_failed(s, "not a line of this format");
        }
}

static void take_line(struct state *s, struct str line) {
        if (line.n == 0 || line.p[0] == '#')
                return;
        if (str_starts(line, STR("fact "))) {
                sbpl_free(s->sbpl);
                s->sbpl = NULL;
                s->parsed = false;
                buf_clear(&s->profile);
                free((char *)s->fact);
                s->fact = str_dup(str_skip(line, 5));
        } else if (str_starts(line, STR("| "))) {
                assert_int_equal(add_profile_line(&s->profile, str_skip(line, 2)), 0);
        } else if (str_starts(line, STR("ask "))) {
                ask(s, str_skip(line, 4));
        } else {
                check_line(s, line);
        }
}

static void facts(void **state) {
        (void)state;
        struct state s = { .profile = BUF(65536) };
        cleanup(buf_done) struct buf text = BUF(1 << 20);
        struct err e = { 0 };
        char path[512];

        snprintf(path, sizeof path, "%s/sbpl/facts.txt", getenv("CASES"));
        if (path_read_file(path, 1 << 20, &text, &e) < 0)
                fail_msg("%s", err_text(&e));
        struct str rest = buf_str(&text), line;
        while (str_split(&rest, '\n', &line)) {
                s.line++;
                take_line(&s, line);
        }
        sbpl_free(s.sbpl);
        buf_done(&s.profile);
        free((char *)s.fact);
        assert_true(s.questions > 60);
        assert_int_equal(s.failures, 0);
}

static void what_is_no_profile(void **state) {
        (void)state;
        static const char *const texts[] = { "(",
                                             ")",
                                             "(version 2)",
                                             "(version 1) (allow)",
                                             "\"",
                                             "#\"(",
                                             "(version 1) allow x",
                                             "(version 1) (allow file-read* (subpath))",
                                             "(version 1) (import \"system.sb\")" };

        for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
                struct sbpl *sbpl = NULL;
                struct err e = { 0 };

                assert_true(sbpl_parse(str_of(texts[i]), NULL, &sbpl, &e) < 0);
                assert_null(sbpl);
                assert_true(e.code != 0);
        }
}

/* gateway_confine_darwin.c: connections to other machines, and nothing else. */
static void the_gateway_gives_all_else_up(void **state) {
        static const struct {
                struct sbpl_question question;
                enum sbpl_verdict verdict;
        } cases[] = {
                { { .operation = "network-outbound", .address = "192.0.2.1", .port = 443 }, SBPL_ALLOW },
                { { .operation = "network-outbound", .address = "2001:db8::1", .port = 53 }, SBPL_ALLOW },
                { { .operation = "network-outbound", .address = "127.0.0.1", .port = 8080 }, SBPL_ALLOW },
                { { .operation = "network-outbound", .path = "/private/var/run/mDNSResponder" }, SBPL_DENY },
                { { .operation = "network-bind", .address = "127.0.0.1", .port = 8080 }, SBPL_DENY },
                { { .operation = "network-inbound", .address = "127.0.0.1", .port = 8080 }, SBPL_DENY },
                { { .operation = "system-socket", .domain = "AF_INET" }, SBPL_ALLOW },
                { { .operation = "system-socket", .domain = "AF_UNIX" }, SBPL_DENY },
                { { .operation = "file-read-data", .path = "/private/etc/passwd" }, SBPL_DENY },
                { { .operation = "file-read-metadata", .path = "/Users/user" }, SBPL_DENY },
                { { .operation = "file-write-create", .path = "/private/tmp/x" }, SBPL_DENY },
                { { .operation = "process-exec", .path = "/bin/sh" }, SBPL_DENY },
                { { .operation = "process-fork" }, SBPL_DENY },
                { { .operation = "signal", .target = "others" }, SBPL_DENY },
                { { .operation = "mach-lookup", .name = "com.apple.SecurityServer" }, SBPL_DENY },
                { { .operation = "sysctl-read", .name = "kern.hostname" }, SBPL_DENY },
                { { .operation = "sysctl-read", .name = "hw.ncpu" }, SBPL_ALLOW },
        };
        cleanup(sbpl_freep) struct sbpl *profile = NULL;
        struct err e = { 0 };

        (void)state;
        assert_int_equal(sbpl_parse(str_of(gateway_profile), NULL, &profile, &e), 0);
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
                if (sbpl_ask(profile, &cases[i].question).verdict != cases[i].verdict)
                        fail_msg("case %zu: %s", i, cases[i].question.operation);
        assert_false(sbpl_can_nest(profile));
}

static void check_profile(const char *text, const struct sbpl_parameter *given, const struct sbpl_question *questions,
                          const bool *allowed, size_t n) {
        cleanup(sbpl_freep) struct sbpl *profile = NULL;
        struct err e = { 0 };

        assert_int_equal(sbpl_parse(str_of(text), given, &profile, &e), 0);
        for (size_t i = 0; i < n; i++)
                if ((sbpl_ask(profile, &questions[i]).verdict == SBPL_ALLOW) != allowed[i])
                        fail_msg("case %zu: %s %s", i, questions[i].operation, text_or(questions[i].path, ""));
        assert_false(sbpl_can_nest(profile));
}

static void the_vault_gives_all_else_up(void **state) {
        const struct sbpl_question questions[] = {
                { .operation = "file-read-data", .path = "/Users/me/.netrc" },
                { .operation = "file-write-data", .path = "/Users/me/.netrc" },
                { .operation = "process-fork" },
                { .operation = "process-exec", .path = "/bin/sh" },
                { .operation = "mach-lookup", .name = "com.apple.SecurityServer" },
                { .operation = "signal", .target = "others" },
                { .operation = "sysctl-read", .name = "kern.hostname" },
        };
        enum { N = sizeof questions / sizeof *questions };
        const bool vault[N] = { 0 };

        (void)state;
        check_profile(vault_profile, NULL, questions, vault, N);
}

/* A file that is read, in its directory; another place that is written. The quotes show that paths are no part of the
 * text. */
static void the_reader_has_its_files_alone(void **state) {
        static char file[] = "/Users/me/a \"b\"/key", directory[] = "/Users/me/a \"b\"", sign_in[] = "/Users/me/.agent";
        char *read[] = { file, directory }, *written[] = { sign_in };
        const struct reader_places places = { { read, 2, 2 }, { written, 1, 1 } };
        const struct {
                struct sbpl_question question;
                bool allowed;
        } cases[] = {
                { { .operation = "file-read-data", .path = file }, true },
                { { .operation = "file-read-data", .path = directory, .type = "DIRECTORY" }, true },
                { { .operation = "file-write-data", .path = file }, false },
                { { .operation = "file-write-create", .path = "/Users/me/a \"b\"/new" }, false },
                { { .operation = "file-read-data", .path = "/Users/me/a \"b\"/other" }, false },
                { { .operation = "file-read-metadata", .path = "/Users/me/a \"b\"/other" }, false },
                { { .operation = "file-read-metadata", .path = "/Users/me", .type = "DIRECTORY" }, true },
                { { .operation = "file-read-data", .path = "/Users/me", .type = "DIRECTORY" }, false },
                { { .operation = "file-read-data", .path = "/Users/me/.netrc" }, false },
                { { .operation = "file-read-data", .path = "/Users/me/.agent/auth.json" }, true },
                { { .operation = "file-write-create", .path = "/Users/me/.agent/auth.json.x.tmp" }, true },
                { { .operation = "file-write-unlink", .path = "/Users/me/.agent/auth.json" }, true },
                { { .operation = "file-write-create", .path = "/Users/me/.agent2" }, false },
                { { .operation = "file-write-data", .path = "/Users/me/.zshrc" }, false },
                { { .operation = "process-fork" }, true },
                { { .operation = "process-exec", .path = "/bin/sh" }, false },
                { { .operation = "network-outbound", .address = "192.0.2.1", .port = 443 }, false },
                { { .operation = "mach-lookup", .name = "com.apple.SecurityServer" }, false },
                { { .operation = "signal", .target = "others" }, false },
                { { .operation = "sysctl-read", .name = "kern.hostname" }, false },
        };
        cleanup(reader_profile_done) struct reader_profile profile = READER_PROFILE_NONE;
        struct sbpl_parameter given[4] = { 0 };
        struct err e = { 0 };

        (void)state;
        assert_int_equal(reader_profile_write(&places, &profile, &e), 0);
        assert_int_equal(profile.parameters.n, 7);
        for (size_t i = 0; i < 3; i++)
                given[i] = (struct sbpl_parameter){ profile.parameters.p[2 * i], profile.parameters.p[2 * i + 1] };
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
                check_profile(buf_text(&profile.text), given, &cases[i].question, &cases[i].allowed, 1);
}

int main(void) {
        const struct CMUnitTest tests[] = { cmocka_unit_test(facts), cmocka_unit_test(what_is_no_profile),
                                            cmocka_unit_test(the_gateway_gives_all_else_up),
                                            cmocka_unit_test(the_vault_gives_all_else_up),
                                            cmocka_unit_test(the_reader_has_its_files_alone) };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
