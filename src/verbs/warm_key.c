/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs/warm_key.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/vec.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

extern char **environ;

static void key_add(struct digest *digest, struct str bytes) {
        const uint64_t n = bytes.n;

        digest_add(digest, str_n(&n, sizeof n));
        digest_add(digest, bytes);
}

static void key_add_text(struct digest *digest, const char *text) {
        key_add(digest, str_of(text_or(text, "")));
}

static void key_add_number(struct digest *digest, uint64_t value) {
        key_add(digest, str_n(&value, sizeof value));
}

/* What cannot be looked at is the same for every process that cannot. */
static void key_add_place(struct digest *digest, const char *path) {
        struct stat st = { 0 };

        if (stat(path, &st) < 0)
                st = (struct stat){ 0 };
        key_add_number(digest, st.st_dev);
        key_add_number(digest, st.st_ino);
}

static void key_add_file(struct digest *digest, const char *path) {
        char text[4096];
        cleanup(close_fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text);

        key_add(digest, str_n(text, n > 0 ? (size_t)n : 0));
}

/* The program itself: an upgrade makes other sandboxes. */
static void key_add_self(struct digest *digest) {
        struct stat st = { 0 };

        if (stat("/proc/self/exe", &st) < 0)
                st = (struct stat){ 0 };
        key_add_number(digest, st.st_dev);
        key_add_number(digest, st.st_ino);
        key_add(digest, str_n(&st.st_mtim, sizeof st.st_mtim));
}

static void key_add_identity(struct digest *digest) {
        uid_t uids[3] = { 0 };
        gid_t gids[3] = { 0 }, groups[1024];
        struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
        struct __user_cap_data_struct caps[2] = { { 0 } };
        int n = getgroups(sizeof groups / sizeof *groups, groups);

        (void)getresuid(&uids[0], &uids[1], &uids[2]);
        (void)getresgid(&gids[0], &gids[1], &gids[2]);
        (void)syscall(SYS_capget, &head, caps);
        key_add(digest, str_n(uids, sizeof uids));
        key_add(digest, str_n(gids, sizeof gids));
        key_add(digest, str_n(groups, n > 0 ? (size_t)n * sizeof *groups : 0));
        key_add(digest, str_n(caps, sizeof caps));
        key_add_file(digest, "/proc/self/attr/current");
}

static void key_add_namespaces(struct digest *digest) {
        static const char *const names[] = { "cgroup", "ipc", "mnt", "net", "pid_for_children", "time", "user", "uts" };

        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
                char path[48];

                snprintf(path, sizeof path, "/proc/self/ns/%s", names[i]);
                key_add_place(digest, path);
        }
}

/* What a process inherits and a command would see of its caller. */
static void key_add_inherited(struct digest *digest) {
        cpu_set_t processors = { 0 };
        mode_t mask = umask(0);

        (void)umask(mask);
        (void)sched_getaffinity(0, sizeof processors, &processors);
        key_add_number(digest, mask);
        key_add(digest, str_n(&processors, sizeof processors));
        key_add_number(digest, (uint64_t)getpriority(PRIO_PROCESS, 0));
        key_add_number(digest, (uint64_t)sched_getscheduler(0));
        key_add_number(digest, (uint64_t)personality(0xffffffff));
        key_add_file(digest, "/proc/self/cgroup");
        key_add_file(digest, "/proc/self/oom_score_adj");

        for (int i = 0; i < RLIM_NLIMITS; i++) {
                struct rlimit limit = { 0 };

                (void)getrlimit((__rlimit_resource_t)i, &limit);
                key_add(digest, str_n(&limit, sizeof limit));
        }
}

/* A shell sets "_" to something else for each command. */
static void key_add_variables(struct digest *digest) {
        for (char **variable = environ; variable && *variable; variable++)
                if (!str_starts(str_of(*variable), STR("_=")))
                        key_add_text(digest, *variable);
}

int warm_key(const struct exec_request *request, const char *program, unsigned char ret[static DIGEST_BYTES]) {
        struct digest digest;
        char **words = NULL;
        cleanup(free_ptr) char *current = getcwd(NULL, 0);
        int r = warm_options(request, true, &words);

        if (r < 0 || !current) {
                warm_options_free(words);
                return -ENOMEM;
        }

        digest_begin(&digest);
        for (char **word = words; *word; word++)
                key_add_text(&digest, *word);

        key_add_text(&digest, program);
        key_add_text(&digest, current);
        key_add_place(&digest, ".");
        key_add_place(&digest, "/");
        key_add_self(&digest);
        key_add_identity(&digest);
        key_add_namespaces(&digest);
        key_add_inherited(&digest);
        key_add_variables(&digest);
        digest_end(&digest, ret);
        warm_options_free(words);

        return 0;
}

void warm_options_free(char **words) {
        for (char **word = words; word && *word; word++)
                free(*word);
        free(words);
}

/* They are the caller's business alone; how many there are to be is not, but makes no other sandbox. */
static bool is_of_caller(const struct option *option, bool for_key) {
        static const char *const names[] = { "json", "output-limit", "die-with-parent" };

        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
                if (option->flag && strcmp(option->flag, names[i]) == 0)
                        return true;

        return for_key && option->flag && strcmp(option->flag, "warm") == 0;
}

static char *option_word(const struct option_value *value) {
        const struct option *option = value->option;

        if (option->type != OPTION_FLAG)
                return str_format("--%s=%s", option->flag, value->text);
        return option_number(option, str_of(value->text)) ? str_format("--%s", option->flag)
                                                          : str_format("--no-%s", option->flag);
}

int warm_options(const struct exec_request *request, bool for_key, char ***ret) {
        VEC(char *) words = { 0 };
        int r = 0;

        for (size_t i = 0; i < request->options->values.n && r == 0; i++) {
                const struct option_value *value = &request->options->values.p[i];
                if (value->origin[0] != '-' || is_of_caller(value->option, for_key))
                        continue; /* variables are handed on as such */

                cleanup(free_ptr) char *word = option_word(value);
                r = word ? vec_push(&words, word) : -ENOMEM;
                if (r == 0)
                        (void)take_ptr(&word);
        }

        if (r == 0)
                r = vec_push(&words, NULL);
        if (r == 0) {
                *ret = words.p;
                return 0;
        }

        for (size_t i = 0; i < words.n; i++)
                free(words.p[i]);
        vec_done(&words);

        return r;
}
