/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/creds/scrub.h"

#include "base/base64.h"
#include "base/buf.h"
#include "base/cleanup.h"

#include <errno.h>

#include "../alloc_fail.h"
#include "../cmocka_all.h"

#define REAL "sk-live-7Qz/9+xYk=Mm"
#define FAKE "sk-live-AAAAAAAAAAAA"
#define OTHER "ghp_realrealreal"
#define OTHER_FAKE "ghp_fakefakefake"

static const struct scrub_pair pairs[] = { { STR(REAL), STR(FAKE) }, { STR(OTHER), STR(OTHER_FAKE) } };

static void words_done(struct scrub_words **w) {
        scrub_words_unref(*w);
}

static struct scrub_words *words(void) {
        struct scrub_words *w = NULL;
        assert_int_equal(scrub_words_new(pairs, 2, &w), 0);
        return w;
}

/* Passes the text through in pieces of every size. */
static void expect_str(struct scrub_words *w, struct str text, struct str expected) {
        for (size_t piece = 1; piece <= text.n; piece++) {
                struct scrub s;
                cleanup(buf_done) struct buf out = BUF(1 << 20);
                assert_int_equal(scrub_init(&s, w), 0);
                for (size_t at = 0; at < text.n; at += piece) {
                        char part[1024];
                        struct str in = str_first(str_skip(text, at), piece), before, now;
                        memcpy(part, in.p, in.n);
                        scrub_feed(&s, part, in.n, &before, &now);
                        assert_int_equal(buf_append(&out, before), 0);
                        assert_int_equal(buf_append(&out, now), 0);
                }
                assert_int_equal(buf_append(&out, scrub_end(&s)), 0);
                assert_int_equal(out.n, text.n);
                if (!str_eq(buf_str(&out), expected))
                        fail_msg("in pieces of %zu:\n%.*s\n%.*s", piece, STR_FMT(buf_str(&out)), STR_FMT(expected));
                assert_int_equal(s.found, !str_eq(text, expected));
                scrub_done(&s);
        }
}

static void expect(struct scrub_words *w, const char *text, const char *expected) {
        expect_str(w, str_of(text), str_of(expected));
        char copy[1024];
        memcpy(copy, text, strlen(text) + 1);
        assert_int_equal(scrub_text(w, copy, strlen(copy)), strcmp(text, expected) != 0);
        assert_string_equal(copy, expected);
}

static void plain_and_percent(void **state) {
        (void)state;
        cleanup(words_done) struct scrub_words *w = words();
        expect(w, "nothing of ours: sk-live-", "nothing of ours: sk-live-");
        expect(w, REAL, FAKE);
        expect(w, "{\"key\":\"" REAL "\"," REAL REAL, "{\"key\":\"" FAKE "\"," FAKE FAKE);
        expect(w, "sk-live-" REAL "x" OTHER, "sk-live-" FAKE "x" OTHER_FAKE);
        expect(w, "sk-live-7Qz%2F9%2BxYk%3DMm", "sk-live-AAA%41A%41AAA%41AA");
        expect(w, "a=%73k-live-7Qz/9%2bxYk=Mm&", "a=%73k-live-AAAAA%41AAAAAA&");
        expect(w, "sk-live-7Qz%2", "sk-live-7Qz%2");
        expect(w,
               "ghp_%72eal"
               "realreal ghp_realrealrea",
               "ghp_%66ake"
               "fakefake ghp_realrealrea");
}

/* Feeds one piece; what may be passed on at once is appended. */
static void feed(struct scrub *s, const char *text, struct buf *out) {
        char part[64];
        struct str before, now;
        memcpy(part, text, strlen(text));
        scrub_feed(s, part, strlen(text), &before, &now);
        assert_int_equal(buf_append(out, before), 0);
        assert_int_equal(buf_append(out, now), 0);
}

/* A few bytes may go when nothing follows; the rest of what they began is replaced. */
static void what_is_released(void **state) {
        (void)state;
        cleanup(words_done) struct scrub_words *w = words();
        cleanup(buf_done) struct buf out = BUF(1 << 10);
        struct scrub s;
        assert_int_equal(scrub_init(&s, w), 0);
        feed(&s, "one gh", &out);
        assert_true(str_is(buf_str(&out), "one "));
        assert_int_equal(buf_append(&out, scrub_release(&s)), 0);
        assert_true(str_is(buf_str(&out), "one gh"));
        assert_int_equal(scrub_release(&s).n, 0);
        feed(&s, "p_r", &out);
        assert_true(str_is(buf_str(&out), "one gh"));
        feed(&s, "ealrealreal two ghp_realr", &out);
        assert_true(str_is(buf_str(&out), "one ghp_fakefakefake two "));
        assert_int_equal(scrub_release(&s).n, 0); /* more than half: no accident */
        feed(&s, "ealre", &out);
        feed(&s, "al.", &out);
        assert_int_equal(buf_append(&out, scrub_end(&s)), 0);
        assert_true(str_is(buf_str(&out), "one ghp_fakefakefake two ghp_fakefakefake."));
        scrub_done(&s);
}

/* An origin that pauses after each byte gets no more released than one that pauses once. */
static void what_drips(void **state) {
        (void)state;
        static const char *const secrets[] = { "ghp_realrealreal", "%67%68%70%5f%72%65%61%6c%72%65%61%6c%72%65%61%6c" };
        for (size_t i = 0; i < sizeof secrets / sizeof *secrets; i++) {
                cleanup(words_done) struct scrub_words *w = words();
                cleanup(buf_done) struct buf out = BUF(1 << 10);
                struct scrub s;
                size_t released = 0;
                assert_int_equal(scrub_init(&s, w), 0);
                for (const char *c = secrets[i]; *c; c++) {
                        feed(&s, (char[]){ *c, 0 }, &out);
                        struct str now = scrub_release(&s);
                        released += now.n;
                        assert_int_equal(buf_append(&out, now), 0);
                }
                assert_int_equal(buf_append(&out, scrub_end(&s)), 0);
                assert_int_equal(out.n, strlen(secrets[i]));
                assert_true(released > 0 && released < out.n / 2);
                assert_false(str_is(buf_str(&out), secrets[i]));
                scrub_done(&s);
        }
}

static void base64_at_any_alignment(void **state) {
        (void)state;
        cleanup(words_done) struct scrub_words *w = words();
        for (size_t before = 0; before < 4; before++)
                for (size_t after = 0; after < 3; after++)
                        for (int alphabet = BASE64_STANDARD; alphabet <= BASE64_URL; alphabet++) {
                                char real[64], stand_in[64], text[128], clean[128], seen[128];
                                size_t n = before + strlen(REAL) + after, length = base64_length(n), back = 0;
                                memset(real, '.', sizeof real);
                                memset(stand_in, '.', sizeof stand_in);
                                memcpy(real + before, REAL, strlen(REAL));
                                memcpy(stand_in + before, FAKE, strlen(FAKE));
                                base64_encode(str_n(real, n), alphabet, text);
                                memcpy(clean, text, length);
                                assert_true(scrub_text(w, clean, length));
                                expect_str(w, str_n(text, length), str_n(clean, length));
                                /* It still decodes, to something that is not the secret but has its neighbours. */
                                for (size_t i = 0; i < length; i++)
                                        clean[i] = clean[i] == '-' ? '+' : clean[i] == '_' ? '/' : clean[i];
                                assert_true(base64_decode(str_n(clean, length), seen, &back));
                                assert_int_equal(back, n);
                                assert_memory_equal(seen, real, before);
                                assert_memory_equal(seen + n - after, real + n - after, after);
                                assert_memory_equal(seen + before + 1, stand_in + before + 1, strlen(FAKE) - 2);
                                assert_null(memmem(seen, n, REAL, strlen(REAL)));
                        }
}

/* Nothing waits that cannot be the beginning of a secret: an event is passed on when it is there. */
static void holds_back_no_more_than_it_must(void **state) {
        (void)state;
        static const struct {
                const char *text;
                size_t held;
        } cases[] = { { "data: hello\n\n", 0 },
                      { "data: s", 1 },
                      { "data: sk-live-7", 9 },
                      { "data: sk-live-7x", 0 },
                      { REAL, 0 },
                      { REAL "sk", 2 },
                      { "50%", 1 },
                      { "50%\n", 0 } };
        cleanup(words_done) struct scrub_words *w = words();
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                struct scrub s;
                struct str before, now;
                char text[64];
                memcpy(text, cases[i].text, strlen(cases[i].text));
                assert_int_equal(scrub_init(&s, w), 0);
                scrub_feed(&s, text, strlen(cases[i].text), &before, &now);
                assert_int_equal(before.n + now.n, strlen(cases[i].text) - cases[i].held);
                assert_int_equal(scrub_end(&s).n, cases[i].held);
                scrub_done(&s);
        }
}

static void lengths_that_differ(void **state) {
        (void)state;
        static const struct scrub_pair odd[] = { { STR("secret-one"), STR("short") },
                                                 { STR("secret2"), STR("much-too-long") } };
        cleanup(words_done) struct scrub_words *w = NULL;
        assert_int_equal(scrub_words_new(odd, 2, &w), 0);
        expect(w, "a secret-one b secret2 c", "a short***** b much-to c");
        struct scrub_words *none = NULL;
        static const struct scrub_pair empty = { STR(""), STR("x") };
        assert_int_equal(scrub_words_new(&empty, 1, &none), -EINVAL);
        assert_null(none);
        scrub_words_unref(NULL);
        struct scrub never = { 0 };
        scrub_done(&never);
}

static int use(void *argument) {
        (void)argument;
        struct scrub_words *w = NULL;
        struct scrub s = { 0 };
        int r = scrub_words_new(pairs, 2, &w);
        if (r == 0)
                r = scrub_init(&s, w);
        scrub_done(&s);
        scrub_words_unref(w);
        return r;
}

static void out_of_memory(void **state) {
        (void)state;
        assert_true(alloc_fail_each(use, NULL) >= 5);
        cleanup(words_done) struct scrub_words *w = words();
        char text[] = "x" REAL;
        alloc_fail_at(1);
        assert_true(scrub_text(w, text, sizeof text - 1));
        alloc_fail_at(0);
        assert_string_equal(text, "*********************");
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(plain_and_percent),
                cmocka_unit_test(what_is_released),
                cmocka_unit_test(what_drips),
                cmocka_unit_test(base64_at_any_alignment),
                cmocka_unit_test(holds_back_no_more_than_it_must),
                cmocka_unit_test(lengths_that_differ),
                cmocka_unit_test(out_of_memory),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
