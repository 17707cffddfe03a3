/* SPDX-License-Identifier: Apache-2.0 */
#include "base/secret.h"

#include "base/cleanup.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SECRET_MAX = 1 << 20 };

struct secret {
        size_t n;
        char *bytes;
        void *mapping; /* guard page, data pages, guard page */
        size_t mapping_n;
};

void secret_wipe(void *p, size_t n) {
        explicit_bzero(p, n);
}

/* Data pages over the middle of the reservation: secret memory when the kernel has it, locked ordinary memory
 * otherwise. */
static int map_data(char *at, size_t n, struct err *e) {
#ifdef SYS_memfd_secret
        cleanup(close_fd) int fd = (int)syscall(SYS_memfd_secret, O_CLOEXEC);
        if (fd >= 0 && ftruncate(fd, (off_t)n) == 0 &&
            mmap(at, n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) != MAP_FAILED) {
                /* Shared memory: a child that freed its copy would wipe ours. It gets none. */
                if (madvise(at, n, MADV_DONTFORK) < 0)
                        return err_errno(e, "cannot keep a secret from child processes");
                return 0;
        }
#endif
        if (mmap(at, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
                return err_errno(e, "cannot map memory for a secret");
        if (mlock(at, n) < 0)
                return err_errno(e, "cannot lock memory for a secret (see `ulimit -l`)");
        if (madvise(at, n, MADV_DONTDUMP) < 0)
                return err_errno(e, "cannot keep a secret out of core dumps");
        if (madvise(at, n, MADV_WIPEONFORK) < 0)
                return err_errno(e, "cannot keep a secret from child processes");
        return 0;
}

int secret_new_empty(size_t n, struct secret **ret, struct err *e) {
        if (n > SECRET_MAX)
                return err_set(e, EMSGSIZE, "a secret of %zu bytes is too large (at most %d)", n, SECRET_MAX);
        size_t page = (size_t)sysconf(_SC_PAGESIZE);
        size_t data_n = n ? (n + page - 1) / page * page : page;
        struct secret *s = calloc(1, sizeof *s);
        if (!s)
                return err_set(e, ENOMEM, "out of memory");
        s->mapping_n = data_n + 2 * page;
        s->mapping = mmap(NULL, s->mapping_n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (s->mapping == MAP_FAILED) {
                int r = err_errno(e, "cannot reserve memory for a secret");
                s->mapping = NULL;
                secret_free(s);
                return r;
        }
        int r = map_data((char *)s->mapping + page, data_n, e);
        if (r < 0) {
                secret_free(s);
                return r;
        }
        /* The value ends at the far guard page: reading past it faults. */
        s->bytes = (char *)s->mapping + page + data_n - n;
        s->n = n;
        *ret = s;
        return 0;
}

int secret_new(struct str value, struct secret **ret, struct err *e) {
        struct secret *s = NULL;
        int r = secret_new_empty(value.n, &s, e);
        if (r < 0)
                return r;
        if (value.n)
                memcpy(s->bytes, value.p, value.n);
        *ret = s;
        return 0;
}

void secret_free(struct secret *s) {
        if (!s)
                return;
        if (s->bytes)
                secret_wipe(s->bytes, s->n);
        if (s->mapping)
                munmap(s->mapping, s->mapping_n);
        free(s);
}

void secret_freep(struct secret **s) {
        secret_free(*s);
}

struct str secret_value(const struct secret *s) {
        return str_n(s->bytes, s->n);
}

char *secret_bytes(struct secret *s) {
        return s->bytes;
}

bool secret_equal(struct str a, struct str b) {
        unsigned char difference = a.n != b.n;
        for (size_t i = 0; i < a.n && i < b.n; i++)
                difference |= (unsigned char)(a.p[i] ^ b.p[i]);
        return difference == 0;
}
