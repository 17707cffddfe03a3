/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A launch looks at each of the user's files with one call, and reads those that have changed since they were seeded.
 * The files are the user's, but may lie where a sandbox writes (a workspace of dotfiles, with links to it from the
 * home): so they are read as if anybody had written them, and pass the same filter.
 */
#include "kept/home_settings.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/paths/path.h"
#include "policy/git/gitconfig.h"
#include "policy/paths/settings_filter.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { KEY_MAX = 96, FILTER_VERSION = 1 /* a newer filter seeds again */ };

static void settings_key(const struct stat *st, char ret[static KEY_MAX]) {
        snprintf(ret, KEY_MAX, "%d %" PRId64 ".%09ld %" PRId64 " %" PRIu64, FILTER_VERSION, (int64_t)st->st_mtim.tv_sec,
                 st->st_mtim.tv_nsec, (int64_t)st->st_size, (uint64_t)st->st_ino);
}

/* The last one counts. */
static int find_signing(const struct gitconfig_setting *setting, void *context) {
        static const char *const yes[] = { "true", "yes", "on", "1" };
        bool *ret = context;

        if (!str_is(setting->section, "commit") || setting->subsection.p || !str_is(setting->key, "gpgsign"))
                return 0;
        *ret = !setting->value.p;
        for (size_t i = 0; i < sizeof yes / sizeof *yes; i++)
                *ret |= setting->value.p && str_eq_nocase(setting->value, str_of(yes[i]));
        return 0;
}

/* People who sign every commit want to know before a push which commits are unsigned. */
static void tell_unsigned(const char *source, struct str text, const struct policy *policy) {
        bool wanted = false;

        if (policy->signing.ssh || policy->signing.gpg.n)
                return;
        (void)gitconfig_read(text, find_signing, &wanted, NULL);
        if (wanted)
                log_notice("%s asks for signed commits, and those made inside are not signed: the keys stay outside. "
                           "--sign-gpg KEY, or --sign-ssh with --ssh-key FILE, has git inside sign",
                           source);
}

static int settings_lay(struct home *home, const struct home_settings *row, const char *source, const char *key,
                        const struct policy *policy, struct err *err) {
        cleanup(buf_done) struct buf text = BUF(HOME_SETTINGS_MAX), kept = BUF(HOME_FILE_MAX);
        int r;

        r = path_read_file(source, HOME_SETTINGS_MAX, &text, err);
        if (r < 0)
                return r;

        if (str_ends(str_of(row->path), STR(".gitconfig")) || str_ends(str_of(row->path), STR("git/config")))
                tell_unsigned(source, buf_str(&text), policy);

        r = row->filter(buf_str(&text), &kept);
        if (r < 0)
                return err_set(err, -r, "the settings in %s cannot be copied", source);

        /* Nothing to seed, unless there was before. An empty file is no JSON. */
        if (kept.n == 0 && (!home_was_laid(home, row->path) || str_ends(str_of(row->path), STR(".json"))))
                return 0;

        const struct home_file file = { .path = row->path, .content = buf_str(&kept), .origin = source, .key = key };
        return home_lay(home, &file, err);
}

void home_settings_seed(struct home *home, const struct policy *policy) {
        cleanup(close_fd) int at = policy->home ? open(policy->home, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;

        if (at < 0 || !home->directory)
                return;

        for (size_t i = 0; i < n_home_settings; i++) {
                const struct home_settings *row = &home_settings[i];
                char key[KEY_MAX];
                struct err err = { 0 };
                struct stat st;

                if (fstatat(at, row->path, &st, 0) < 0 || !S_ISREG(st.st_mode))
                        continue;

                settings_key(&st, key);
                if (home_is_current(home, row->path, key))
                        continue;

                cleanup(free_ptr) char *source = path_join(policy->home, row->path);
                if (source && settings_lay(home, row, source, key, policy, &err) < 0)
                        log_warning("settings are not seeded: %s", err_text(&err));
        }
}
