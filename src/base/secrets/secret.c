/* SPDX-License-Identifier: Apache-2.0 */
#include "base/secrets/secret.h"

#include "base/buf.h"
#include "base/secrets/secret_internal.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SECRET_MAX = 1 << 20 };

struct secret {
        size_t n;
        char *bytes;
        void *mapping; /* guard page, data pages, guard page */
        size_t mapping_n;
};

int secret_new_empty(size_t n, struct secret **ret, struct err *err) {
        if (n > SECRET_MAX)
                return err_set(err, EMSGSIZE, "a secret of %zu bytes is too large (at most %d)", n, SECRET_MAX);

        size_t page = (size_t)sysconf(_SC_PAGESIZE);
        size_t data_n = n ? (n + page - 1) / page * page : page;
        struct secret *secret = calloc(1, sizeof *secret);
        if (!secret)
                return err_memory(err);

        secret->mapping_n = data_n + 2 * page;
        secret->mapping = mmap(NULL, secret->mapping_n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (secret->mapping == MAP_FAILED) {
                int r = err_errno(err, "cannot reserve memory for a secret");

                secret->mapping = NULL;
                secret_free(secret);
                return r;
        }

        int r = secret_map((char *)secret->mapping + page, data_n, err);
        if (r < 0) {
                secret_free(secret);
                return r;
        }

        /* The value ends at the far guard page: reading past it faults. */
        secret->bytes = (char *)secret->mapping + page + data_n - n;
        secret->n = n;
        *ret = secret;

        return 0;
}

int secret_new(struct str value, struct secret **ret, struct err *err) {
        struct secret *secret = NULL;
        int r = secret_new_empty(value.n, &secret, err);
        if (r < 0)
                return r;
        if (value.n)
                memcpy(secret->bytes, value.p, value.n);

        *ret = secret;
        return 0;
}

int secret_take(char *text, size_t size, struct secret **ret, struct err *err) {
        int r = 0;

        *ret = NULL;
        if (text[0])
                r = secret_new(str_n(text, strnlen(text, size)), ret, err);

        secret_wipe(text, size);
        return r;
}

void secret_wipe(void *p, size_t n) {
        explicit_bzero(p, n);
}

void secret_free(struct secret *secret) {
        if (!secret)
                return;
        if (secret->bytes)
                secret_wipe(secret->bytes, secret->n);
        if (secret->mapping)
                munmap(secret->mapping, secret->mapping_n);
        free(secret);
}

void secret_freep(struct secret **secret) {
        secret_free(*secret);
}

struct str secret_value(const struct secret *secret) {
        return str_n(secret->bytes, secret->n);
}

char *secret_bytes(struct secret *secret) {
        return secret->bytes;
}

bool secret_equal(struct str a, struct str b) {
        unsigned char difference = a.n != b.n;
        for (size_t i = 0; i < a.n && i < b.n; i++)
                difference |= (unsigned char)(a.p[i] ^ b.p[i]);
        return difference == 0;
}

void secret_buf_done(struct buf *buf) {
        if (buf->p)
                secret_wipe(buf->p, buf->cap);
        buf_done(buf);
}
