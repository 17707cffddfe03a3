/* SPDX-License-Identifier: Apache-2.0 */
/* Command lines as git writes them, and those that would make ssh do something else; payloads that may be signed. */
#include "bridge/sign_payload.h"
#include "bridge/ssh_command.h"
#include "bridge/ssh_message.h"

#include "../cmocka_all.h"

#include <errno.h>
#include <string.h>

static int parse(const char *protocol, const char *const *words, struct ssh_command *ret) {
        struct str list[16];
        size_t n = 0;

        for (; words[n]; n++)
                list[n] = str_of(words[n]);
        return ssh_command_parse(str_of(protocol), list, n, ret, NULL);
}

#define WORDS(...) ((const char *const[]){ __VA_ARGS__, NULL })

static void git_s_own_forms_are_read(void **state) {
        struct ssh_command c, again;
        char text[256];
        (void)state;

        assert_int_equal(parse("version=2",
                               WORDS("-o", "SendEnv=GIT_PROTOCOL", "-p", "2222", "git@example.com",
                                     "git-upload-pack '/acme/app.git'"),
                               &c),
                         0);
        assert_string_equal(c.user, "git");
        assert_string_equal(c.target.host.name, "example.com");
        assert_int_equal(c.target.port, 2222);
        assert_int_equal(c.protocol, 2);
        assert_int_equal(c.service, SSH_UPLOAD_PACK);
        assert_true(str_is(c.path, "acme/app"));
        assert_string_equal(c.sent_path, "/acme/app.git");

        assert_int_equal(ssh_request_write(&c, text, sizeof text), 0);
        assert_string_equal(text, "git-upload-pack git 2 0 /acme/app.git");
        assert_int_equal(ssh_request_read(str_of(text), &c.target, &again), 0);
        assert_true(str_is(again.path, "acme/app"));

        assert_int_equal(parse("", WORDS("example.com", "git-receive-pack 'acme/app'"), &c), 0);
        assert_int_equal(c.target.port, 22);
        assert_string_equal(c.user, "git");
        assert_int_equal(c.service, SSH_RECEIVE_PACK);
        assert_int_equal(parse("", WORDS("-6", "a-b_c@::1", "git-upload-archive 'x/y/'"), &c), 0);
        assert_int_equal(c.target.host.kind, HOST_ADDR);
        assert_int_equal(c.family, 6);
        assert_true(str_is(c.path, "x/y"));
}

static void everything_else_is_refused(void **state) {
        static const char *const lines[][6] = {
                { "-oProxyCommand=x", "h", "git-upload-pack 'a'" },
                { "-o", "ProxyCommand=x", "h", "git-upload-pack 'a'" },
                { "h", "-oProxyCommand=x", "git-upload-pack 'a'" },
                { "-p", "h", "git-upload-pack 'a'" },
                { "-oX=y", "git-upload-pack 'a'" },
                { "-4", "-6", "h", "git-upload-pack 'a'" },
                { "--", "h", "git-upload-pack 'a'" },
                { "-x@h", "git-upload-pack 'a'" },
                { "@h", "git-upload-pack 'a'" },
                { "a b@h", "git-upload-pack 'a'" },
                { "u@", "git-upload-pack 'a'" },
                { "u@-h", "git-upload-pack 'a'" },
                { "h;x", "git-upload-pack 'a'" },
                { "h" },
                { "h", "git-upload-pack" },
                { "h", "git-upload-pack a" },
                { "h", "git-upload-pack 'a" },
                { "h", "git-upload-pack ''" },
                { "h", "git-upload-pack 'a'b'" },
                { "h", "git-upload-pack 'a' x" },
                { "h", "git-upload-pack '../a'" },
                { "h", "git-upload-pack 'a/../b'" },
                { "h", "git-upload-pack 'a//b'" },
                { "h", "git-upload-pack '//a'" },
                { "h", "git-upload-pack '-a'" },
                { "h", "git-upload-pack '/-a'" },
                { "h", "git-upload-pack 'a\n'" },
                { "h", "git-upload-pack '$(x)'" },
                { "h", "git-upload-pack 'a$b'" },
                { "h", "git-upload-pack 'a=b'" },
                { "h", "git-lfs-authenticate 'a' upload" },
                { "-oControlMaster=yes", "h", "git-lfs-transfer a upload" },
                { "h", "git-lfs-authenticate", "a", "download" },
                { "h", "scp -t x" },
        };
        struct ssh_command c;
        (void)state;

        for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
                assert_int_equal(parse("", lines[i], &c), -EINVAL);
        assert_int_equal(parse("version=3", WORDS("h", "git-upload-pack 'a'"), &c), -EINVAL);
        assert_int_equal(parse("version=2\nX=y", WORDS("h", "git-upload-pack 'a'"), &c), -EINVAL);

        assert_int_equal(ssh_request_read(STR("git-upload-pack git 2 0 ../x"), &c.target, &c), -EBADMSG);
        assert_int_equal(ssh_request_read(STR("sh git 2 0 x"), &c.target, &c), -EBADMSG);
        assert_int_equal(ssh_request_read(STR("git-upload-pack -x 2 0 x"), &c.target, &c), -EBADMSG);
        assert_int_equal(ssh_request_read(STR("git-upload-pack git 2 5 x"), &c.target, &c), -EBADMSG);
        assert_int_equal(ssh_request_read(STR("git-upload-pack git 2"), &c.target, &c), -EBADMSG);
}

static void messages(void **state) {
        static const char whole[] = "BSH1\1\2\4\0a\0b\0rest";
        struct ssh_message m;
        (void)state;

        assert_int_equal(ssh_message_read(str_n(whole, 12), &m), 1);
        assert_int_equal(m.bytes, 12);
        assert_true(str_is(m.words[0], "a") && str_is(m.words[1], "b") && m.n == 2);
        for (size_t n = 0; n < 12; n++)
                assert_int_equal(ssh_message_read(str_n(whole, n), &m), 0);
        assert_int_equal(ssh_message_read(STR("BSH2"), &m), -EBADMSG);
        assert_int_equal(ssh_message_read(str_n("BSH1\3\0\0\0", 8), &m), -EBADMSG);
        assert_int_equal(ssh_message_read(str_n("BSH1\1\1\2\0ab", 10), &m), -EBADMSG);
        assert_int_equal(ssh_message_read(str_n("BSH1\1\1\4\0a\0b\0", 12), &m), -EBADMSG);
        assert_int_equal(ssh_message_read(str_n("BSH1\1\377\0\0", 8), &m), -EBADMSG);
}

#define TREE "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
#define PEOPLE "author A <a@b> 1 +0000\ncommitter A <a@b> 1 -0130\n"

static void payloads(void **state) {
        static const char *const others[] = { "",
                                              "tree " TREE "\n",
                                              "tree x\n" PEOPLE "\nm",
                                              "tree " TREE "\n" PEOPLE,
                                              "tree " TREE "\n" PEOPLE "gpgsig x\n\nm",
                                              "tree " TREE "\nauthor A\ncommitter A <a@b> 1 +0000\n\nm",
                                              "object " TREE "\ntype commit\ntag v\n\nm",
                                              "object " TREE "\ntype x\ntag v\ntagger A <a@b> 1 +0000\n\nm",
                                              "certificate version 0.1\npusher a\n\n" };
        const struct str good[] = { STR("--status-fd=2"), STR("-bsau"), STR("ABCD") };
        const struct str bad[] = { STR("--status-fd=2"), STR("-bsau"), STR("-x") };
        struct str key;
        (void)state;

        assert_int_equal(sign_payload_kind(STR("tree " TREE "\nparent " TREE "\n" PEOPLE "\nm")), SIGN_COMMIT);
        assert_int_equal(sign_payload_kind(STR("tree " TREE "\n" PEOPLE "mergetag object x\n type y\n\nm")),
                         SIGN_COMMIT);
        assert_int_equal(sign_payload_kind(STR("object " TREE "\ntype commit\ntag v\ntagger A <a@b> 1 +0000\n\nm")),
                         SIGN_TAG);
        for (size_t i = 0; i < sizeof others / sizeof *others; i++)
                assert_int_equal(sign_payload_kind(str_of(others[i])), SIGN_OTHER);
        assert_true(sign_gpg_parse(good, 3, &key) && str_is(key, "ABCD"));
        assert_false(sign_gpg_parse(bad, 3, &key));
        assert_false(sign_gpg_parse(good, 2, &key));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(git_s_own_forms_are_read),
                cmocka_unit_test(everything_else_is_refused),
                cmocka_unit_test(messages),
                cmocka_unit_test(payloads),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
