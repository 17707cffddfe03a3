/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include "../alloc_fail.h"
#include "../cmocka_all.h"
#include "base/cleanup.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static char written[1 << 20];
static int sink = -1;

static void begin(struct log_settings settings) {
        if (sink < 0)
                sink = memfd_create("log", MFD_CLOEXEC);
        assert_true(sink >= 0);
        assert_int_equal(ftruncate(sink, 0), 0);
        assert_int_equal(lseek(sink, 0, SEEK_SET), 0);
        settings.fd = sink;
        log_setup(&settings);
}

/* Everything written since begin(). */
static const char *output(void) {
        ssize_t n = pread(sink, written, sizeof written - 1, 0);
        assert_true(n >= 0);
        written[n] = '\0';
        return written;
}

static int lines(void) {
        int n = 0;
        for (const char *c = output(); *c; c++)
                n += *c == '\n';
        return n;
}

static void text_is_one_line(void **state) {
        (void)state;
        begin((struct log_settings){ .level = LOG_DEBUG, .program = "prog" });
        log_notice("ordinary %d", 1);
        log_error("bad\nprog: error: forged\r\n");
        log_debug("\033[2Jx\xe2\x80\xae");
        log_notice("unknown key '\\x1b[2J'"); /* escaped already, and not once more */
        assert_string_equal(output(), "prog: ordinary 1\n"
                                      "prog: error: bad\\x0aprog: error: forged\\x0d\\x0a\n"
                                      "prog: debug: \\x1b[2Jx\\u{202e}\n"
                                      "prog: unknown key '\\x1b[2J'\n");
}

static void json_is_one_object(void **state) {
        (void)state;
        begin((struct log_settings){ .level = LOG_INFO, .format = LOG_FORMAT_JSON, .program = "prog" });
        log_warning("say \"%s\"\n}{", "hi");
        const char *text = output();
        assert_int_equal(lines(), 1);
        assert_memory_equal(text, "{\"ts\":\"20", 9);
        assert_int_equal(text[34], '"'); /* the time has a fixed width */
        assert_string_equal(text + 35,
                            ",\"level\":\"warning\",\"program\":\"prog\",\"message\":\"say \\\"hi\\\"\\n}{\"}\n");
}

static void levels_are_kept(void **state) {
        (void)state;
        for (enum log_level level = LOG_ERROR; level < LOG_LEVELS; level++) {
                begin((struct log_settings){ .level = level, .program = "prog" });
                log_error("x");
                log_warning("x");
                log_notice("x");
                log_info("x");
                log_debug("x");
                assert_int_equal(lines(), level + 1);
                assert_int_equal(log_enabled(LOG_DEBUG), level == LOG_DEBUG);
                enum log_level parsed = LOG_LEVELS;
                assert_true(log_level_parse(log_level_name(level), &parsed));
                assert_int_equal(parsed, level);
        }
        enum log_level untouched = LOG_INFO;
        assert_false(log_level_parse("loud", &untouched));
        assert_false(log_level_parse("", &untouched));
        assert_int_equal(untouched, LOG_INFO);
        assert_string_equal(log_level_name(LOG_LEVELS), "?");
}

static void long_messages_are_clipped_and_say_so(void **state) {
        (void)state;
        char wide[5000];
        memset(wide, 'w', sizeof wide - 1);
        wide[sizeof wide - 1] = '\0';
        begin((struct log_settings){ .level = LOG_NOTICE, .program = "p" });
        log_notice("%s", wide);
        const char *text = output();
        assert_int_equal(strlen(text), 3 + 2048 + strlen("...(2951 more)\n"));
        assert_string_equal(text + 3 + 2048, "...(2951 more)\n");
        begin((struct log_settings){ .level = LOG_NOTICE, .format = LOG_FORMAT_JSON, .program = "p" });
        log_notice("%s", wide);
        text = output();
        assert_string_equal(text + strlen(text) - 20, "www...(2951 more)\"}\n");
}

static void worst_message_fits_in_a_line(void **state) {
        (void)state;
        char worst[3000];
        memset(worst, 1, sizeof worst - 1); /* each becomes six bytes of JSON */
        worst[sizeof worst - 1] = '\0';
        for (int format = LOG_FORMAT_TEXT; format <= LOG_FORMAT_JSON; format++) {
                begin((struct log_settings){ .level = LOG_NOTICE, .format = (enum log_format)format, .program = "p" });
                log_notice("%s", worst);
                const char *text = output();
                assert_int_equal(lines(), 1);
                assert_non_null(strstr(text, "...(951 more)"));
        }
}

static void rate_is_limited_but_errors_pass(void **state) {
        (void)state;
        begin((struct log_settings){ .level = LOG_NOTICE, .program = "p", .per_second = 5 });
        sleep(1); /* a window of its own */
        for (int i = 0; i < 100; i++)
                log_notice("noise %d", i);
        int passed = lines();
        assert_in_range(passed, 5, 11); /* 5, or a little more where a second ended on the way */
        for (int i = 0; i < 20; i++)
                log_error("serious");
        assert_in_range(lines() - passed, 20, 21);
        sleep(1);
        log_notice("after");
        assert_non_null(strstr(output(), " messages left out (rate limit)\np: after\n"));
        begin((struct log_settings){ .level = LOG_NOTICE, .program = "p" });
        for (int i = 0; i < 500; i++)
                log_notice("unlimited");
        assert_int_equal(lines(), 500);
}

static void errno_is_kept(void **state) {
        (void)state;
        struct log_settings broken = { .level = LOG_NOTICE, .program = "p", .fd = -1 };
        log_setup(&broken);
        errno = 4711;
        log_notice("to nowhere");
        assert_int_equal(errno, 4711);
}

static void *talk(void *name) {
        for (int i = 0; i < 300; i++) {
                log_notice("%s %s %s", (const char *)name, (const char *)name, (const char *)name);
                log_debug("unseen");
        }
        return NULL;
}

static void threads_do_not_mix_lines(void **state) {
        (void)state;
        begin((struct log_settings){ .level = LOG_NOTICE, .program = "p" });
        pthread_t threads[4];
        char names[4][2] = { "a", "b", "c", "d" };
        for (size_t i = 0; i < 4; i++)
                assert_int_equal(pthread_create(&threads[i], NULL, talk, names[i]), 0);
        struct log_settings again = { .level = LOG_NOTICE, .program = "p", .fd = sink };
        for (int i = 0; i < 100; i++)
                log_setup(&again); /* settings may change meanwhile */
        for (size_t i = 0; i < 4; i++)
                pthread_join(threads[i], NULL);
        assert_int_equal(lines(), 1200);
        for (const char *line = output(); *line; line = strchr(line, '\n') + 1) {
                assert_memory_equal(line, "p: ", 3);
                assert_true(line[3] == line[5] && line[5] == line[7] && line[8] == '\n');
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(text_is_one_line),
                cmocka_unit_test(json_is_one_object),
                cmocka_unit_test(levels_are_kept),
                cmocka_unit_test(long_messages_are_clipped_and_say_so),
                cmocka_unit_test(worst_message_fits_in_a_line),
                cmocka_unit_test(rate_is_limited_but_errors_pass),
                cmocka_unit_test(errno_is_kept),
                cmocka_unit_test(threads_do_not_mix_lines),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
