/* SPDX-License-Identifier: Apache-2.0 */
#include "vault/member.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/secrets/secret.h"
#include "policy/mappings.h"
#include "policy/profile/sign_ins.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

int member_open(const char *path, struct stat *ret_st, struct err *err) {
        cleanup(close_fd) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

        if (fd < 0 || fstat(fd, ret_st) < 0)
                return err_errno(err, "cannot open %s", path);
        if (!S_ISREG(ret_st->st_mode))
                return err_set(err, EINVAL, "%s is not a file", path);
        if (ret_st->st_mode & S_IWOTH)
                return err_set(err, EPERM, "%s is not used: everybody may write to it", path);

        return take_fd(&fd);
}

int member_file(const char *path, struct buf *ret, struct err *err) {
        struct stat st;
        cleanup(close_fd) int fd = member_open(path, &st, err);

        if (fd < 0)
                return fd;

        *ret = BUF(MEMBER_FILE_MAX);
        int r = buf_reserve(ret, (size_t)st.st_size < MEMBER_FILE_MAX ? (size_t)st.st_size + 1 : 1);
        if (r >= 0)
                r = fd_read_all(fd, ret);

        if (r < 0)
                return err_set(err, -r, "cannot read %s: %s", path, strerror(-r));

        return 0;
}

struct member {
        struct str pointer;
        char *ret;
        size_t n;
        unsigned found;
};

static int member_visit(void *arg, struct str pointer, struct str value) {
        struct member *member = arg;

        if (!str_eq(pointer, member->pointer))
                return 0;

        member->found++;
        if (value.n > VAULT_SECRET_MAX)
                return -EMSGSIZE;
        if (value.n > 0)
                memcpy(member->ret, value.p, value.n);

        member->n = value.n;
        return 0;
}

int member_read(const char *source, char *ret, size_t *ret_n, struct err *err) {
        struct str file, pointer;
        struct buf text = BUF(0);

        if (!source_is_member(str_of(source), &file, &pointer))
                return err_set(err, EINVAL, "a member of a file is written as json:FILE#/POINTER");

        struct member member = { .pointer = pointer, .ret = ret };
        cleanup(free_ptr) char *path = str_dup(file);
        int r = path ? member_file(path, &text, err) : err_memory(err);
        if (r == 0)
                r = sign_in_each(buf_str(&text), str_starts(str_of(source), STR("yaml:")), member_visit, &member, err);
        if (text.p)
                secret_wipe(text.p, text.cap);

        buf_done(&text);

        if (r == -EMSGSIZE)
                return err_set(err, EMSGSIZE, "the value is larger than %d bytes", VAULT_SECRET_MAX);
        if (r < 0)
                return r;

        if (member.found != 1)
                return err_set(err, ENODATA, member.found ? "%s is there twice" : "there is no text at %s in it",
                               source + 5 + file.n + 1);

        *ret_n = member.n;
        return 0;
}
