/* SPDX-License-Identifier: Apache-2.0 */
#include "base/secrets/secret.h"

#include "../alloc_fail.h"
#include "../child.h"
#include "../cmocka_all.h"
#include "../sanitizer.h"
#include "base/cleanup.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

static struct secret *make(const char *text) {
        struct secret *s = NULL;
        struct err e = { 0 };
        if (secret_new(str_of(text), &s, &e) < 0)
                fail_msg("%s", err_text(&e));
        return s;
}

static void keeps_the_value(void **state) {
        (void)state;
        struct secret *s = make("correct horse");
        assert_true(str_is(secret_value(s), "correct horse"));
        secret_bytes(s)[0] = 'C';
        assert_true(str_is(secret_value(s), "Correct horse"));
        secret_free(s);
        struct secret *empty = make("");
        assert_int_equal(secret_value(empty).n, 0);
        secret_free(empty);
        secret_free(NULL);
        cleanup(secret_freep) struct secret *none = NULL;
        assert_int_equal(secret_new_empty(100, &none, NULL), 0);
        for (size_t i = 0; i < 100; i++)
                assert_int_equal(secret_bytes(none)[i], 0);
}

static void size_is_bounded(void **state) {
        (void)state;
        struct secret *s = NULL;
        struct err e = { 0 };
        assert_int_equal(secret_new_empty((1 << 20) + 1, &s, &e), -EMSGSIZE);
        assert_int_equal(secret_new_empty(SIZE_MAX, &s, &e), -EMSGSIZE);
        assert_null(s);
        assert_non_null(strstr(err_text(&e), "too large"));
        static const size_t sizes[] = { 1, 4095, 4096, 4097, 8192, 65536 };
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
                if (secret_new_empty(sizes[i], &s, &e) < 0)
                        continue; /* the limit on locked memory may be lower than that */
                memset(secret_bytes(s), 'x', sizes[i]);
                secret_free(s);
        }
}

/* In a child that dies of it: signals of sanitizers are set back first. */
static volatile char sink;

static void read_behind(void *argument) {
        signal(SIGSEGV, SIG_DFL);
        signal(SIGBUS, SIG_DFL);
        struct str value = secret_value(argument);
        sink = value.p[value.n];
}

static void read_before(void *argument) {
        signal(SIGSEGV, SIG_DFL);
        signal(SIGBUS, SIG_DFL);
        struct str value = secret_value(argument);
        size_t page = (size_t)sysconf(_SC_PAGESIZE);
        sink = *(const char *)(((uintptr_t)value.p & ~(page - 1)) - 1);
}

static void guard_pages_fault(void **state) {
        (void)state;
        struct secret *s = make("guarded");
        static void (*const readers[])(void *) = { read_behind, read_before };
        for (size_t i = 0; i < 2; i++) {
                int status = child_status(readers[i], s);
                assert_true(WIFSIGNALED(status));
                assert_true(WTERMSIG(status) == SIGSEGV || WTERMSIG(status) == SIGBUS);
        }
        secret_free(s);
}

/* The flags of the mapping that holds this address, from /proc/self/smaps. */
static bool mapping_flags(const void *address, char *ret, size_t n) {
        FILE *f = fopen("/proc/self/smaps", "re");
        bool inside = false, found = false;
        char line[200];
        while (f && fgets(line, sizeof line, f)) {
                char *end;
                uintptr_t first = strtoull(line, &end, 16);
                if (*end == '-') {
                        uintptr_t last = strtoull(end + 1, NULL, 16);
                        inside = first <= (uintptr_t)address && (uintptr_t)address < last;
                } else if (inside && strncmp(line, "VmFlags:", 8) == 0) {
                        snprintf(ret, n, "%s", line + 8);
                        found = true;
                }
        }
        if (f)
                fclose(f);
        return found;
}

static void not_in_core_dumps_nor_swap(void **state) {
        (void)state;
        struct secret *s = make("never on a disk");
        char flags[256] = "";
        assert_true(mapping_flags(secret_value(s).p, flags, sizeof flags));
        assert_non_null(strstr(flags, " dd")); /* do not dump */
        assert_non_null(strstr(flags, " lo")); /* locked */
        secret_free(s);
}

static void ordinary_memory_child(void *unused) {
        (void)unused;
        CHECK(deny_syscall(SYS_memfd_secret, ENOSYS) == 0);
        struct secret *s = NULL;
        struct err e = { 0 };
        char flags[256] = "";
        CHECK(secret_new(STR("fallback"), &s, &e) == 0);
        CHECK(str_is(secret_value(s), "fallback"));
        CHECK(mapping_flags(secret_value(s).p, flags, sizeof flags));
        CHECK(strstr(flags, " dd") && strstr(flags, " wf"));
        CHECK(UNDER_SANITIZER || strstr(flags, " lo"));
        pid_t pid = fork();
        if (pid == 0) /* a child sees zeros */
                _exit(secret_value(s).p[0] == 0 ? 0 : 1);
        int status = -1;
        CHECK(waitpid(pid, &status, 0) == pid && status == 0);
        CHECK(str_is(secret_value(s), "fallback"));
        secret_free(s);
}

static void works_without_memfd_secret(void **state) {
        (void)state;
        assert_child_succeeds(ordinary_memory_child, NULL);
}

#if !UNDER_SANITIZER
static void refuses_child(void *unused) {
        (void)unused;
        const struct rlimit none = { 0, 0 };
        CHECK(deny_syscall(SYS_memfd_secret, ENOSYS) == 0);
        CHECK(deny_syscall(SYS_mlock, ENOMEM) == 0);
        CHECK(setrlimit(RLIMIT_MEMLOCK, &none) == 0);
        struct secret *s = NULL;
        struct err e = { 0 };
        CHECK(secret_new(STR("unlocked"), &s, &e) == -ENOMEM);
        CHECK(!s && strstr(err_text(&e), "ulimit -l"));
}

static void refuses_memory_that_cannot_be_locked(void **state) {
        (void)state;
        assert_child_succeeds(refuses_child, NULL);
}
#endif

static void child_never_sees_it(void **state) {
        (void)state;
        struct secret *s = make("only mine");
        pid_t pid = fork();
        if (pid == 0) {
                signal(SIGSEGV, SIG_DFL);
                signal(SIGBUS, SIG_DFL);
                _exit(str_is(secret_value(s), "only mine") ? 1 : 0);
        }
        int status = -1;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status) || (WIFEXITED(status) && WEXITSTATUS(status) == 0));
        assert_true(str_is(secret_value(s), "only mine"));
        secret_free(s);
}

static void wipes(void **state) {
        (void)state;
        char copy[32] = "to be forgotten";
        secret_wipe(copy, sizeof copy);
        for (size_t i = 0; i < sizeof copy; i++)
                assert_int_equal(copy[i], 0);
        /* After the free the pages are gone altogether. */
        struct secret *s = make("gone");
        const char *where = secret_value(s).p;
        secret_free(s);
        char flags[256];
        assert_false(mapping_flags(where, flags, sizeof flags));
}

static void compares(void **state) {
        (void)state;
        assert_true(secret_equal(STR("abc"), STR("abc")));
        assert_true(secret_equal(STR(""), (struct str){ NULL, 0 }));
        assert_false(secret_equal(STR("abc"), STR("abd")));
        assert_false(secret_equal(STR("abc"), STR("ab")));
        assert_false(secret_equal(STR("ab"), STR("abc")));
        assert_false(secret_equal(STR("\x80"), STR("\x00")));
}

static int make_and_free(void *unused) {
        (void)unused;
        cleanup(secret_freep) struct secret *s = NULL;
        return secret_new(STR("value"), &s, NULL);
}

static void every_allocation_may_fail(void **state) {
        (void)state;
        assert_int_equal(alloc_fail_each(make_and_free, NULL), 1);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(keeps_the_value),
                cmocka_unit_test(size_is_bounded),
                cmocka_unit_test(guard_pages_fault),
                cmocka_unit_test(not_in_core_dumps_nor_swap),
                cmocka_unit_test(works_without_memfd_secret),
#if !UNDER_SANITIZER
                cmocka_unit_test(refuses_memory_that_cannot_be_locked),
#endif
                cmocka_unit_test(child_never_sees_it),
                cmocka_unit_test(wipes),
                cmocka_unit_test(compares),
                cmocka_unit_test(every_allocation_may_fail),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
