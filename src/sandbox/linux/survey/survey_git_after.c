/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What git would obey after a run and would not have before. If the search before the run hit a bound, a repository
 * that only the second one reaches may be a person's own, as old as it likes: then only what changed since the run
 * began is named. A status change is what no program can set. But what a directory brings along that gets another name
 * does not change: only where a broker notes repositories as they are made is the rest old.
 *
 * Submodules that a repository has after a run: git asks each of them for its state when it is asked for that of the
 * whole, and obeys its configuration; only the index, which the sandbox writes, says whether git looks there. So an
 * index that was written since the run began is read, and the repositories that it names are looked at.
 */
#include "sandbox/linux/survey/survey_git_internal.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/files/listing.h"
#include "base/paths/path.h"
#include "policy/git/gitconfig.h"
#include "policy/git/gitindex.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

enum { INDEX_MAX = 1 << 30, SHA1 = 20, SHA256 = 32 };

struct links {
        struct git_survey *g;
        const char *tree;
};

static int find_format(const struct gitconfig_setting *setting, void *context) {
        if (str_is(setting->section, "extensions") && str_is(setting->key, "objectformat"))
                *(unsigned *)context = str_is(setting->value, "sha256") ? SHA256 : SHA1;
        return 0;
}

static unsigned hash_of(struct git_survey *survey, const char *gitdir) {
        cleanup(free_ptr) char *common = git_read_line(survey, gitdir, "commondir");
        cleanup(free_ptr) char *real = common ? git_lead(survey, gitdir, common) : NULL;
        cleanup(free_ptr) char *file = path_join(real ? real : gitdir, "config");
        cleanup(buf_done) struct buf content = { 0 };
        unsigned hash = SHA1;

        int r = -ENOMEM;

        if (file)
                r = path_read_file(file, GIT_FILE_SIZE_MAX, &content, NULL);

        if (r < 0)
                git_doubt(survey, -r, gitdir);
        else
                (void)gitconfig_read(buf_str(&content), find_format, &hash, NULL);

        return hash;
}

/* What the index says is the sandbox's: a path that leads out of the tree names nothing in it. */
static int add_link(struct str path, void *context) {
        struct links *links = context;
        cleanup(free_ptr) char *text = str_dup(path), *whole = NULL;

        if (!text)
                return -ENOMEM;
        if (path_normalise(str_of(text), links->tree, &whole) < 0 || !path_is_within(whole, links->tree))
                return 0;

        cleanup(free_ptr) char *real = git_lead(links->g, "", whole);
        if (real)
                return git_add_tree(links->g, real);

        return 0;
}

static bool is_new(struct git_survey *survey, const char *path) {
        struct stat st;

        return git_look(survey, path, &st) && S_ISREG(st.st_mode) && clock_is_since(&st, survey->began_us);
}

static int add_name(struct git_survey *survey, const char *path, const char *why) {
        const struct plan_path closed = {
                .path = path, .type = PLAN_PATH_MISSING, .access = PATH_READ, .protected = true, .origin = why
        };

        return survey_add(survey->host, closed, survey->err);
}

/* A file that is written in place does not change its directory. */
static int add_changed_files(struct git_survey *survey, const char *directory, const char *why) {
        cleanup(listing_close) struct listing *files = listing_open(AT_FDCWD, directory);
        struct stat st;

        if (!files)
                return survey_doubt(survey->err, errno, directory);

        for (const struct dirent64 *entry; (entry = listing_next(files));) {
                if (fstatat(listing_fd(files), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 || S_ISDIR(st.st_mode) ||
                    !clock_is_since(&st, survey->began_us))
                        continue;

                cleanup(free_ptr) char *path = path_join(directory, entry->d_name);
                int r = path ? add_name(survey, path, why) : err_memory(survey->err);
                if (r < 0)
                        return r;
        }

        return listing_error(files) ? survey_doubt(survey->err, listing_error(files), directory) : 0;
}

int git_add_later(struct git_survey *survey, const char *path, const char *why) {
        struct stat st;

        if (!survey->known_partly)
                return add_name(survey, path, why);
        if (!git_look(survey, path, &st))
                return 0;
        if (clock_is_since(&st, survey->began_us))
                return add_name(survey, path, why);

        return S_ISDIR(st.st_mode) ? add_changed_files(survey, path, why) : 0;
}

static int read_index(struct git_survey *survey, const char *gitdir, const char *name, const char *tree) {
        cleanup(free_ptr) char *path = path_join(gitdir, name);
        cleanup(buf_done) struct buf content = { 0 };
        struct links links = { survey, tree };

        if (!path)
                return err_set(survey->err, ENOMEM, "out of memory");
        if (!is_new(survey, path))
                return 0;

        int r = path_read_file(path, INDEX_MAX, &content, NULL);
        if (r < 0)
                return survey_doubt(survey->err, -r, path);

        r = gitindex_links(buf_str(&content), hash_of(survey, gitdir), add_link, &links);
        if (r == -EBADMSG)
                return 0; /* git does not take it either */

        return r;
}

/* An index may be split: then the larger part is a file beside it. */
int git_add_links(struct git_survey *survey, const char *gitdir, const char *tree) {
        cleanup(free_ptr) char *found = tree ? NULL : git_tree_of_module(survey, gitdir);

        if (!tree)
                tree = found;
        if (!tree)
                return 0;

        int r = read_index(survey, gitdir, "index", tree);
        if (r < 0)
                return r;

        cleanup(listing_close) struct listing *files = listing_open(AT_FDCWD, gitdir);
        if (!files)
                return survey_doubt(survey->err, errno, gitdir);

        for (const struct dirent64 *entry; r == 0 && (entry = listing_next(files));)
                if (str_starts(str_of(entry->d_name), STR("sharedindex.")))
                        r = read_index(survey, gitdir, entry->d_name, tree);

        if (r == 0 && listing_error(files))
                r = survey_doubt(survey->err, listing_error(files), gitdir);

        return r;
}
