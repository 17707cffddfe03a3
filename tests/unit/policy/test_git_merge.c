/* SPDX-License-Identifier: Apache-2.0 */
/* What comes back of a copy of git's configuration: cases by hand, and three texts against a result. */
#include "base/cleanup.h"
#include "policy/git/git_merge.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#define CORE "[core]\n\tbare = false\n"
#define ORIGIN "[remote \"origin\"]\n\turl = https://github.com/a/b\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n"
#define LAB "[remote \"lab\"]\n\turl = https://lab.test/a/b\n"

static bool only_github(struct str host, uint16_t port, void *context) {
        (void)context;
        return str_is(host, "github.com") && (port == 443 || port == 22);
}

struct result {
        struct buf text;
        git_lefts left;
        bool changed;
        int r;
};

static void result_done(struct result *result) {
        buf_done(&result->text);
        git_lefts_done(&result->left);
}

static struct result merge(const char *base, const char *inside, const char *host) {
        const struct git_merge request = {
                .base = str_of(base), .inside = str_of(inside), .host = str_of(host), .may_reach = only_github
        };
        struct result result = { .text = BUF(1 << 20) };

        result.r = git_merge(&request, &result.text, &result.changed, &result.left);
        return result;
}

/* `left`: "name why, name why", in order. */
static void check(const char *base, const char *inside, const char *host, const char *wanted, const char *left) {
        static const char *const whys[] = { "kind", "server", "remote", "both" };
        cleanup(result_done) struct result result = merge(base, inside, host);
        cleanup(buf_done) struct buf names = BUF(4096);

        assert_int_equal(result.r, 0);
        assert_int_equal(buf_add_char(&result.text, '\0'), 0);
        assert_string_equal(result.text.p, wanted);
        assert_int_equal(result.changed, strcmp(wanted, host) != 0);
        for (size_t i = 0; i < result.left.n; i++)
                assert_int_equal(
                    buf_printf(&names, "%s%s %s", i ? ", " : "", result.left.p[i].name, whys[result.left.p[i].why]), 0);
        assert_int_equal(buf_add_char(&names, '\0'), 0);
        assert_string_equal(names.p, left);
}

/* Added inside to a plain configuration: alone, does it come back? */
static void check_added(const char *added, bool comes) {
        cleanup(buf_done) struct buf inside = BUF(65536);
        cleanup(result_done) struct result result = { 0 };

        assert_int_equal(buf_printf(&inside, "%s%s%s", CORE, ORIGIN, added), 0);
        assert_int_equal(buf_add_char(&inside, '\0'), 0);
        result = merge(CORE ORIGIN, inside.p, CORE ORIGIN);
        assert_int_equal(result.r, 0);
        if (result.changed != comes || (result.left.n > 0) == comes)
                fail_msg("%s: %s", added, result.changed ? "came back" : "did not come back");
}

static void test_harmless(void **state) {
        (void)state;
        check_added("[user]\n\tname = A B\n\temail = a@b\n", true);
        check_added("[branch \"x\"]\n\tremote = origin\n\tmerge = refs/heads/x\n\trebase = true\n", true);
        check_added("[branch \"x\"]\n\tremote = .\n\tmerge = refs/heads/main\n", true);
        check_added("[remote \"f\"]\n\turl = git@github.com:me/x.git\n\tfetch = +refs/heads/*:refs/remotes/f/*\n",
                    true);
        check_added("[remote \"f\"]\n\turl = ssh://git@github.com/me/x.git\n", true);
        check_added("[submodule \"a/b\"]\n\tactive = true\n\turl = https://github.com/a/lib\n", true);
        check_added("[submodule \"a\"]\n\tupdate = rebase\n", true);
        check_added("[push]\n\tautoSetupRemote = true\n", true);
}

static void test_harmful(void **state) {
        static const char *const added[] = {
                "[core]\n\thooksPath = h\n",
                "[core]\n\tfsmonitor = x\n",
                "[core]\n\tsshCommand = x\n",
                "[core]\n\tworktree = ..\n",
                "[core]\n\tattributesFile = x\n",
                "[include]\n\tpath = x\n",
                "[includeIf \"gitdir:/\"]\n\tpath = x\n",
                "[alias]\n\tst = !id\n",
                "[alias]\n\tst = status\n",
                "[credential]\n\thelper = !id\n",
                "[credential \"https://github.com\"]\n\tusername = x\n",
                "[url \"https://evil.test/\"]\n\tinsteadOf = https://github.com/\n",
                "[http]\n\tproxy = http://evil.test\n",
                "[http]\n\tsslVerify = false\n",
                "[filter \"x\"]\n\tclean = id\n",
                "[diff \"x\"]\n\ttextconv = id\n",
                "[merge \"x\"]\n\tdriver = id\n",
                "[commit]\n\tgpgSign = false\n",
                "[gpg]\n\tprogram = x\n",
                "[user]\n\tsigningKey = x\n",
                "[extensions]\n\tworktreeConfig = true\n",
                "[branch \"x\"]\n\tmergeOptions = --strategy=evil\n",
                "[branch \"x\"]\n\tremote = evil\n",
                "[branch \"x\"]\n\tpushRemote = evil\n",
                "[branch \"x\"]\n\tremote = ./evil\n",
                "[branch \"x\"]\n\tremote = https://github.com/a/c\n",
                "[branch \"x\"]\n\tmerge = --upload-pack=id\n",
                "[branch \"x\"]\n\tremote\n",
                "[branch \"x\\\"y\"]\n\tremote = origin\n",
                "[branch]\n\tremote = origin\n",
                "[remote \"f\"]\n\turl = https://evil.test/x\n",
                "[remote \"f\"]\n\turl = https://github.com.evil.test/x\n",
                "[remote \"f\"]\n\turl = https://github.com@evil.test/x\n",
                "[remote \"f\"]\n\turl = https://token@github.com/x\n",
                "[remote \"f\"]\n\turl = https://a:b@github.com/x\n",
                "[remote \"f\"]\n\turl = ssh://-oProxyCommand=id@github.com/x\n",
                "[remote \"f\"]\n\turl = ssh://-oProxyCommand=id/x\n",
                "[remote \"f\"]\n\turl = -x@github.com:y\n",
                "[remote \"f\"]\n\turl = git@github.com:-x\n",
                "[remote \"f\"]\n\turl = git@-github.com:x\n",
                "[remote \"f\"]\n\turl = ext::sh -c id\n",
                "[remote \"f\"]\n\turl = ../lib\n",
                "[remote \"f\"]\n\turl = /srv/x\n",
                "[remote \"f\"]\n\turl = file:///srv/x\n",
                "[remote \"f\"]\n\turl = github.com\n",
                "[remote \"f\"]\n\turl = https://github.com:8443/x\n",
                "[remote \"f\"]\n\turl = https://github.com:0/x\n",
                "[remote \"f\"]\n\turl = https://github.com/%0a\n",
                "[remote \"f\"]\n\turl =\n",
                "[remote \"f\"]\n\tfetch = +refs/heads/*:refs/remotes/f/*\n",
                "[remote \"origin\"]\n\turl = https://github.com/evil/b\n",
                "[remote \"origin\"]\n\tpushurl = https://github.com/evil/b\n",
                "[remote \"origin\"]\n\tfetch = +refs/heads/*:refs/heads/*\n",
                "[remote \"origin\"]\n\tuploadpack = id\n",
                "[remote \"origin\"]\n\tvcs = evil\n",
                "[submodule \"a\"]\n\tupdate = !id\n",
                "[submodule \"a\"]\n\turl = ../evil\n",
                "[submodule]\n\trecurse = true\n",
                "[user]\n\tname = \"a\\n[core]\"\n",
                "[lfs \"customtransfer.x\"]\n\tpath = id\n",
        };
        (void)state;
        for (size_t i = 0; i < sizeof added / sizeof *added; i++)
                check_added(added[i], false);
}

static void test_three_ways(void **state) {
        (void)state;
        /* The host's own changes stay, comments and all. */
        check(CORE, CORE "[user]\n\tname = in\n", "# mine\n" CORE "[alias]\n\tx = !id\n",
              "# mine\n" CORE "[alias]\n\tx = !id\n[user]\n\tname = in\n", "");
        check(CORE "[user]\n\tname = a\n", CORE "[user]\n\tname = in\n", CORE "[user]\n\tname = out\n",
              CORE "[user]\n\tname = out\n", "user.name both");
        check(CORE "[user]\n\tname = a\n", CORE "[user]\n\tname = both\n", CORE "[user]\n\tname = both\n",
              CORE "[user]\n\tname = both\n", "");
        check(CORE "[user]\n\tname = a\n", CORE, CORE, CORE, "");
        /* Where the host pushes to stays where it was; a new branch goes where the sandbox may send to itself. */
        check(ORIGIN "[branch \"x\"]\n\tremote = origin\n",
              ORIGIN
              "[branch \"x\"]\n\tremote = up\n\tpushremote = up\n[remote \"up\"]\n\turl = https://github.com/z/b\n",
              ORIGIN "[branch \"x\"]\n\tremote = origin\n",
              ORIGIN "[branch \"x\"]\n\tremote = origin\n[remote \"up\"]\n\turl = https://github.com/z/b\n",
              "branch.x.remote remote, branch.x.pushremote remote");
        check(LAB, LAB "[remote \"up\"]\n\turl = https://lab.test/z/b\n[branch \"x\"]\n\tremote = up\n", LAB,
              LAB "[remote \"up\"]\n\turl = https://lab.test/z/b\n", "branch.x.remote remote");
        check(LAB, LAB "[branch \"x\"]\n\tremote = lab\n\tpushremote = lab\n", LAB,
              LAB "[branch \"x\"]\n\tremote = lab\n\tpushremote = lab\n", "");
        check(CORE, CORE "[remote \"up\"]\n\turl = https://github.com/z/b\n[branch \"x\"]\n\tremote = up\n", CORE,
              CORE "[remote \"up\"]\n\turl = https://github.com/z/b\n[branch \"x\"]\n\tremote = up\n", "");
        /* Taken away inside. */
        check(ORIGIN "[branch \"x\"]\n\tremote = origin\n\tmerge = refs/heads/x\n[user]\n\tname = a\n",
              ORIGIN "[user]\n\tname = a\n",
              ORIGIN "[branch \"x\"]\n\tremote = origin\n\tmerge = refs/heads/x\n[user]\n\tname = a\n",
              ORIGIN "[branch \"x\"]\n[user]\n\tname = a\n", "");
        check("[user] name = a\n", "[user]\n", "[user] name = a ; mine\n", "[user]\n", "");
        check(CORE ORIGIN, CORE, CORE ORIGIN, CORE "[remote \"origin\"]\n\turl = https://github.com/a/b\n",
              "remote.origin.url remote");
        check(CORE "[commit]\n\tgpgsign = true\n", CORE, CORE "[commit]\n\tgpgsign = true\n",
              CORE "[commit]\n\tgpgsign = true\n", "commit.gpgsign kind");
        /* Without a line's end, and another letter case. */
        check(CORE "[user]\n\tname = a", CORE "[USER]\n\tNAME = b\n", CORE "[user]\n\tname = a",
              CORE "[user]\n[user]\n\tname = b\n", "");
        /* The server of the host's own remote. */
        check("[remote \"o\"]\n\turl = git@corp.test:a\n",
              "[remote \"o\"]\n\turl = git@corp.test:a\n[remote \"f\"]\n\turl = me@corp.test:b\n",
              "[remote \"o\"]\n\turl = git@corp.test:a\n",
              "[remote \"o\"]\n\turl = git@corp.test:a\n[remote \"f\"]\n\turl = me@corp.test:b\n", "");
}

static void test_broken(void **state) {
        cleanup(result_done) struct result inside = merge(CORE, "[core\n", CORE);
        cleanup(result_done) struct result host = merge(CORE, CORE "[user]\n\tname = x\n", "[core]\n\tx = \"");
        cleanup(result_done) struct result open = merge("[user]\n", "[user]\n\tname = x\n", "[a]\n\tb = c\\");
        cleanup(buf_done) struct buf many = BUF(1 << 20);
        (void)state;

        assert_int_equal(inside.r, -EBADMSG);
        assert_int_equal(host.r, -EBADMSG);
        assert_false(open.changed); /* what is open at the end would swallow the new section */
        for (int i = 0; i <= GIT_MERGE_SETTINGS_MAX; i++)
                assert_int_equal(buf_printf(&many, "[branch \"%d\"]\n\tremote = origin\n", i), 0);
        assert_int_equal(buf_add_char(&many, '\0'), 0);
        cleanup(result_done) struct result large = merge(CORE, many.p, CORE);
        assert_int_equal(large.r, -E2BIG);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_harmless),
                cmocka_unit_test(test_harmful),
                cmocka_unit_test(test_three_ways),
                cmocka_unit_test(test_broken),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
