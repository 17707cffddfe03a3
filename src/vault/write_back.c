/* SPDX-License-Identifier: Apache-2.0 */
#include "vault/write_back.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/random.h"
#include "base/secrets/digest.h"
#include "base/secrets/secret.h"
#include "conf/json_walk.h"
#include "policy/mappings.h"
#include "policy/profile/sign_ins.h"
#include "vault/member.h"
#include "vault/source.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TRIES = 8 };
#define RENEW_PATIENCE (5 * NS_PER_SECOND)
#define STALE_SECONDS 10 /* what the agents' own lock takes for left behind */
#define TOUCH_NS (3 * NS_PER_SECOND)

bool renew_same_group(const struct vault_mapping *mapping, const struct vault_mapping *vault_mapping) {
        if (!mapping || !vault_mapping)
                return false;

        size_t n = strcspn(mapping->name, ".");
        return n == strcspn(vault_mapping->name, ".") && strncmp(mapping->name, vault_mapping->name, n) == 0;
}

void renew_file(const struct vault_mapping *mapping, char ret[static 4096]) {
        struct str file, pointer;

        ret[0] = '\0';
        if (source_is_member(str_of(mapping->source), &file, &pointer) && file.n < 4096)
                snprintf(ret, 4096, "%.*s", STR_FMT(file));
}

/* locks */

bool renew_lock_of_agent(const char *file, char ret[static RENEW_LOCK_PATH_MAX]) {
        for (size_t i = 0; i < n_sign_ins; i++) {
                const struct sign_in *sign_in = &sign_ins[i];
                size_t n = strlen(file), own = strlen(sign_in->file);
                if (!sign_in->lock || n <= own || strcmp(file + n - own, sign_in->file) != 0 ||
                    file[n - own - 1] != '/')
                        continue;

                return snprintf(ret, RENEW_LOCK_PATH_MAX, "%.*s%s", (int)(n - own), file, sign_in->lock) <
                       RENEW_LOCK_PATH_MAX;
        }

        return false;
}

static bool is_stale(const char *path) {
        struct stat st;
        int64_t now = (int64_t)(clock_wall_us() / 1000000);

        return stat(path, &st) == 0 && S_ISDIR(st.st_mode) && now - st.st_mtim.tv_sec > STALE_SECONDS;
}

/* True: ours, or nobody's that we would wait for any longer. */
static bool agent_lock_try(struct renew_lock *lock, const char *file) {
        char path[4096];

        if (lock->agent[0] || !renew_lock_of_agent(file, path))
                return true;

        if (mkdir(path, 0700) < 0) {
                if (errno != EEXIST)
                        return true; /* there is no place for it: the agent could not make it either */
                if (!is_stale(path))
                        return clock_ns() - lock->since_ns > RENEW_PATIENCE;
                if (rmdir(path) < 0 || mkdir(path, 0700) < 0)
                        return false;
        }

        memcpy(lock->agent, path, sizeof path);
        lock->touch_ns = clock_ns() + TOUCH_NS;

        return true;
}

static int own_lock_open(struct renew_lock *lock, const char *lock_dir, const char *file, struct err *err) {
        char path[4200], hex[DIGEST_HEX_MAX];
        unsigned char digest[DIGEST_BYTES];

        digest_sha256(str_of(file), digest);
        digest_hex(digest, hex);
        snprintf(path, sizeof path, "%s/renew-%.16s.lock", lock_dir, hex);
        lock->fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

        if (lock->fd < 0)
                return err_errno(err, "cannot open %s", path);

        return 0;
}

int renew_lock_try(struct renew_lock *lock, const char *lock_dir, const char *file, struct err *err) {
        if (lock->since_ns == 0)
                lock->since_ns = clock_ns();

        if (lock->fd < 0 && lock_dir[0]) {
                int r = own_lock_open(lock, lock_dir, file, err);
                if (r < 0)
                        return r;
                if (flock(lock->fd, LOCK_EX | LOCK_NB) < 0) {
                        close_fd(&lock->fd);
                        return 0;
                }
        }

        if (agent_lock_try(lock, file))
                return 1;

        return 0;
}

void renew_lock_touch(struct renew_lock *lock) {
        if (lock->agent[0] == '\0' || clock_ns() < lock->touch_ns)
                return;
        (void)utimensat(AT_FDCWD, lock->agent, NULL, AT_SYMLINK_NOFOLLOW);
        lock->touch_ns = clock_ns() + TOUCH_NS;
}

void renew_lock_release(struct renew_lock *lock) {
        if (lock->agent[0])
                (void)rmdir(lock->agent);
        close_fd(&lock->fd);
        *lock = RENEW_LOCK;
}

/* the file */

static bool line_value(struct str lines, struct str wanted, struct str *ret) {
        struct str line, member;

        while (str_split(&lines, '\n', &line))
                if (str_split(&line, ' ', &member) && line.p && str_eq(member, wanted)) {
                        *ret = line;
                        return true;
                }

        return false;
}

static int put_time(const struct write_back *back, struct str kind, const struct json_scalar *scalar, struct buf *out) {
        char text[CLOCK_TEXT_MAX];
        uint64_t now_us = clock_wall_us();
        int r;

        if (str_is(kind, "now")) {
                clock_text(now_us, text);
                r = json_quote(str_of(text), out);
        } else {
                if (back->expires_in == 0 || scalar->is_string)
                        return 0;
                r = buf_printf(out, "%ju", (uintmax_t)(now_us / 1000 + back->expires_in * 1000));
        }

        if (r < 0)
                return r;

        return 1;
}

static int replace_member(void *arg, const struct json_scalar *scalar, struct buf *out) {
        const struct write_back *back = arg;

        for (uint32_t i = 0; i < back->n; i++) {
                const struct vault_mapping *mapping = &back->mappings[i];
                struct str file, pointer, value, expiry = str_of(mapping->expiry), kind;

                if (!renew_same_group(mapping, &back->mappings[back->leader]))
                        continue;

                if (mapping->answer[0] && source_is_member(str_of(mapping->source), &file, &pointer) &&
                    scalar->is_string && str_eq(scalar->pointer, pointer) &&
                    line_value(back->lines, str_of(mapping->answer), &value)) {
                        int r = json_quote(value, out);
                        if (r < 0)
                                return r;

                        return 1;
                }

                if (expiry.n > 0 && str_split(&expiry, ':', &kind) && str_eq(scalar->pointer, expiry))
                        return put_time(back, kind, scalar, out);
        }

        return 0;
}

/* Beside the file, then in its place: a reader sees the one or the other. */
static int replace_file(const char *path, struct str content, const struct stat *was, struct err *err) {
        char suffix[9];

        random_id(suffix, sizeof suffix);
        cleanup(free_ptr) char *beside = str_format("%s.%s.tmp", path, suffix);
        if (!beside)
                return err_memory(err);

        cleanup(close_fd) int fd = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd < 0)
                return err_errno(err, "cannot create %s", beside);

        struct stat now;
        int r = fd_write_all(fd, content.p, content.n);
        if (r == 0 && (was->st_uid != geteuid() || was->st_gid != getegid()))
                (void)!fchown(fd, was->st_uid, was->st_gid);
        if (r == 0 && (fchmod(fd, was->st_mode & 0777) < 0 || fsync(fd) < 0))
                r = -errno;

        if (r == 0 && (stat(path, &now) < 0 || now.st_ino != was->st_ino || now.st_size != was->st_size ||
                       now.st_mtim.tv_sec != was->st_mtim.tv_sec || now.st_mtim.tv_nsec != was->st_mtim.tv_nsec))
                r = -EAGAIN; /* somebody else wrote it meanwhile */

        if (r == 0 && rename(beside, path) < 0)
                r = -errno;

        if (r < 0) {
                unlink(beside);
                if (r != -EAGAIN)
                        return err_set(err, -r, "cannot write %s: %s", path, strerror(-r));

                return r;
        }

        return 0;
}

static void wipe_buf(struct buf *buf) {
        if (buf->p)
                secret_wipe(buf->p, buf->cap);
        buf_done(buf);
}

static int write_once(const struct write_back *back, const char *path, enum write_back_result *ret, struct err *err) {
        struct buf text = BUF(0), before = BUF(VAULT_SECRET_MAX), after = BUF(2 * MEMBER_FILE_MAX);
        struct str file, pointer;
        struct stat st;
        int r = 0;

        if (stat(path, &st) < 0)
                r = err_errno(err, "cannot examine %s", path);

        if (r >= 0)
                r = member_file(path, &text, err);
        (void)source_is_member(str_of(back->mappings[back->leader].source), &file, &pointer);
        if (r == 0 && json_find(buf_str(&text), pointer, &before) < 0)
                buf_clear(&before);

        *ret = WRITE_BACK_DONE;

        if (r == 0 && !secret_equal(buf_str(&before), back->old)) {
                *ret = WRITE_BACK_NEWER;
        } else if (r == 0) {
                r = buf_reserve(&after, text.n + back->lines.n + 256);
                if (r >= 0)
                        r = json_edit(buf_str(&text), replace_member, (void *)back, &after);
                if (r < 0)
                        r = err_set(err, -r, "%s cannot be changed: it is not what it was", path);
                else
                        r = replace_file(path, buf_str(&after), &st, err);
        }

        wipe_buf(&text);
        wipe_buf(&before);
        wipe_buf(&after);

        return r;
}

int write_back(const struct write_back *back, enum write_back_result *ret, struct err *err) {
        char file[4096], real[PATH_MAX];

        renew_file(&back->mappings[back->leader], file);

        if (!realpath(file, real)) { /* a link stays one: what it leads to is replaced */
                *ret = WRITE_BACK_GONE;
                if (errno == ENOENT)
                        return 0;

                return err_errno(err, "cannot find %s", file);
        }

        int r = source_check_place(&back->mappings[back->leader], file, err);
        if (r < 0)
                return r;

        for (int i = 0; i < TRIES; i++) {
                r = write_once(back, real, ret, err);
                if (r != -EAGAIN)
                        return r;
        }

        return err_set(err, EBUSY, "%s changes all the time", real);
}
