/* SPDX-License-Identifier: Apache-2.0 */
/* What the sandbox closes and what the classifier asks about are two lists. This is where they meet. */
#include "../cmocka_all.h"

#include "base/cleanup.h"
#include "policy/paths/paths_builtin.h"
#include "shell/classify.h"

#include <stdio.h>

/* In a directory, the file that people mean when they speak of its secrets. */
static const struct {
        const char *directory, *file;
} files[] = {
        { "~/.ssh", "/id_ed25519" },
        { "~/.aws", "/credentials" },
        { "~/.kube", "/config" },
        { "~/.docker", "/config.json" },
        { "~/.config/containers", "/auth.json" },
        { "~/.mozilla", "/firefox/x.default/logins.json" },
        { "~/.config/google-chrome", "/Default/Login Data" },
        { "~/.config/chromium", "/Default/Cookies" },
};

static const char *file_of(const char *directory) {
        for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
                if (strcmp(files[i].directory, directory) == 0)
                        return files[i].file;
        return "/key";
}

/* Closed because of the services that could be reached there: reading tells no secret. */
static bool is_of_services(const char *path) {
        return strncmp(path, "/run", 4) == 0 || strncmp(path, "/var/", 5) == 0;
}

static enum sh_decision decide(const char *before, const char *path, const char *after) {
        cleanup(free_ptr) char *command = str_format("%s%s%s", before, path, after);
        cleanup(sh_verdict_done) struct sh_verdict v = { 0 };
        assert_non_null(command);
        assert_int_equal(sh_classify(NULL, NULL, str_of(command), &v), 0);
        return v.decision;
}

/* The file in the directory; ~ stays outside the quotes. */
static enum sh_decision decide_file(const char *path) {
        cleanup(free_ptr) char *rest = str_format("/'%s%s'", path + 2, file_of(path));
        assert_non_null(rest);
        return strncmp(path, "~/", 2) == 0 ? decide("cat ~", rest, "") : decide("cat ", path, file_of(path));
}

static void reading_what_is_closed_is_asked_about(void **state) {
        (void)state;
        unsigned wrong = 0;
        for (size_t i = 0; i < builtin_deny_read_n; i++) {
                const char *path = builtin_deny_read[i].path;
                if (is_of_services(path) || decide("cat ", path, "") >= SH_ESCALATED ||
                    decide_file(path) >= SH_ESCALATED)
                        continue;
                print_error("cat %s is not asked about\n", path);
                wrong++;
        }
        assert_int_equal(wrong, 0);
}

static void writing_what_is_protected_is_asked_about(void **state) {
        (void)state;
        unsigned wrong = 0;
        for (size_t i = 0; i < builtin_protected_n; i++) {
                const char *path = builtin_protected[i].path;
                if (strcmp(path, "HEAD") == 0) /* a word like any other, where no repository is to be made */
                        continue;
                if (decide("touch ", path, "") >= SH_ESCALATED && decide("echo x >> ", path, "") >= SH_ESCALATED)
                        continue;
                print_error("touch %s is not asked about\n", path);
                wrong++;
        }
        assert_int_equal(wrong, 0);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(reading_what_is_closed_is_asked_about),
                cmocka_unit_test(writing_what_is_protected_is_asked_about),
        };
        return cmocka_run_group_tests_name("shell/place", tests, NULL, NULL);
}
