/* SPDX-License-Identifier: Apache-2.0 */
#include "kept/guard_table.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/processes/process.h"
#include "base/random.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TABLE_MAGIC "bailey table 1"
enum { ROWS_MAX = 4097, SAME_ENOUGH = 2, DOUBTED = 32 };

/* In the place of the first row. */
struct table_head {
        char magic[16];
        struct hash_key key;
        char unused[sizeof(struct guard_row) - 16 - sizeof(struct hash_key)];
};
static_assert(sizeof(struct guard_row) == 128 && sizeof(struct table_head) == sizeof(struct guard_row),
              "a file format");

/* --- the file --- */

static int open_table(int registry, int flags) {
        return openat(registry, "table", flags | O_NOFOLLOW | O_CLOEXEC, 0600);
}

/* Numbers of processes mean something in one boot, and in one namespace of processes. */
static bool table_learn_here(struct guard_table *table) {
        char boot[PROCESS_BOOT_MAX];
        struct stat space;

        if (process_boot(boot, NULL) < 0)
                return false;

        table->boot = hash_bytes(&table->key, boot, strlen(boot));
        table->space = stat("/proc/self/ns/pid", &space) == 0 ? (uint64_t)space.st_ino : 0;

        return true;
}

static bool table_begin(int registry, struct hash_key *ret) {
        struct table_head head = { .magic = TABLE_MAGIC };
        cleanup(close_fd) int fd = open_table(registry, O_WRONLY | O_CREAT | O_TRUNC);

        random_bytes(&head.key, sizeof head.key);
        *ret = head.key;

        return fd >= 0 && fd_write_all(fd, &head, sizeof head) == 0;
}

static bool table_take_rows(struct guard_table *table, struct str bytes) {
        struct table_head head;
        size_t n = bytes.n / sizeof head;

        if (n == 0)
                return false;
        memcpy(&head, bytes.p, sizeof head);
        if (memcmp(head.magic, TABLE_MAGIC, sizeof TABLE_MAGIC) != 0)
                return false;

        table->key = head.key;
        if (vec_reserve(&table->rows, n - 1) < 0)
                return false;

        if (n > 1)
                memcpy(table->rows.p, bytes.p + sizeof head, (n - 1) * sizeof head);
        table->rows.n = n - 1;

        return true;
}

void guard_table_read(struct guard_table *ret, int registry, bool make) {
        cleanup(buf_done) struct buf bytes = BUF(ROWS_MAX * sizeof(struct guard_row));
        cleanup(close_fd) int fd = open_table(registry, O_RDONLY);
        struct stat st;

        *ret = (struct guard_table){ 0 };
        if (fd >= 0 && fstat(fd, &st) == 0 && st.st_size > 0 && st.st_size <= (off_t)bytes.max)
                (void)buf_reserve(&bytes, (size_t)st.st_size + 1); /* in one read */

        ret->known = fd >= 0 && fd_read_all(fd, &bytes) == 0 && table_take_rows(ret, buf_str(&bytes));
        if (!ret->known && make)
                ret->known = table_begin(registry, &ret->key);
        if (ret->known)
                ret->known = table_learn_here(ret);
}

void guard_table_done(struct guard_table *table) {
        vec_done(&table->rows);
}

/* --- a row --- */

static uint64_t row_check(const struct guard_table *table, const struct guard_row *row) {
        return hash_bytes(&table->key, row, offsetof(struct guard_row, check));
}

static uint64_t hash_path(const struct guard_table *table, const char *path, size_t n) {
        return hash_bytes(&table->key, path, n);
}

/* The length of the path of the directory above; 0 for that of "/". */
static size_t length_above(const char *path, size_t n) {
        if (n <= 1)
                return 0;

        while (n > 1 && path[n - 1] != '/')
                n--;

        return n > 1 ? n - 1 : 1;
}

static bool filter_has(const uint64_t filter[static 4], uint64_t hash) {
        return filter[hash >> 6 & 3] >> (hash & 63) & filter[hash >> 14 & 3] >> (hash >> 8 & 63) & 1;
}

static void filter_add(uint64_t filter[static 4], uint64_t hash) {
        filter[hash >> 6 & 3] |= 1ULL << (hash & 63);
        filter[hash >> 14 & 3] |= 1ULL << (hash >> 8 & 63);
}

struct guard_row guard_row_make(const struct guard_table *table, const char *const *roots, size_t n, bool apart,
                                const void *bytes, size_t bytes_n) {
        struct guard_row row = { .boot = table->boot,
                                 .space = table->space,
                                 .supervisor = (int32_t)getpid(),
                                 .n_roots = apart || n > GUARD_ROW_ROOTS ? UINT32_MAX : (uint32_t)n,
                                 .same = hash_bytes(&table->key, bytes, bytes_n) };

        for (size_t i = 0; i < n && row.n_roots != UINT32_MAX; i++) {
                size_t length = strlen(roots[i]);

                row.roots[i] = hash_path(table, roots[i], length);
                for (; length; length = length_above(roots[i], length))
                        filter_add(row.above, hash_path(table, roots[i], length));
        }

        row.check = row_check(table, &row);
        return row;
}

void guard_row_put(int registry, int number, const struct guard_row *row) {
        const struct guard_row none = { 0 };
        cleanup(close_fd) int fd = open_table(registry, O_WRONLY);
        off_t at = (off_t)(number + 1) * (off_t)sizeof *row;

        if (fd >= 0 && pwrite(fd, row, sizeof *row, at) != (ssize_t)sizeof *row)
                (void)!pwrite(fd, &none, sizeof none, at); /* its check fails, whatever became of it */
}

void guard_row_void(int registry, int number) {
        guard_row_put(registry, number, &(struct guard_row){ 0 });
}

void guard_row_clear(int registry, const struct guard_table *table, int number) {
        if (table->known && number >= 0 && (size_t)number < table->rows.n && table->rows.p[number].supervisor)
                guard_row_void(registry, number);
}

/* --- asking --- */

int guard_reach_add(struct guard_reach *reach, const char *path) {
        size_t length = strlen(path);
        int r = vec_push(&reach->asked, hash_path(reach->table, path, length));

        for (; length && r == 0; length = length_above(path, length))
                r = vec_push(&reach->above, hash_path(reach->table, path, length));

        return r;
}

static int compare_hashes(const void *a, const void *b) {
        uint64_t one = *(const uint64_t *)a, other = *(const uint64_t *)b;

        return (one > other) - (one < other);
}

void guard_reach_ready(struct guard_reach *reach) {
        if (reach->finds_over)
                random_bytes(&reach->doubted, sizeof reach->doubted);
        if (reach->above.n)
                qsort(reach->above.p, reach->above.n, sizeof *reach->above.p, compare_hashes);
}

void guard_reach_done(struct guard_reach *reach) {
        vec_done(&reach->asked);
        vec_done(&reach->above);
        vec_done(&reach->said);
}

/* One is in the other, for all that is known. */
static bool is_near(const struct guard_reach *reach, const struct guard_row *row) {
        if (row->n_roots > GUARD_ROW_ROOTS)
                return true;

        for (size_t i = 0; i < row->n_roots && reach->above.n; i++)
                if (bsearch(&row->roots[i], reach->above.p, reach->above.n, sizeof *reach->above.p, compare_hashes))
                        return true;

        for (size_t i = 0; i < reach->asked.n; i++)
                if (filter_has(row->above, reach->asked.p[i]))
                        return true;

        return false;
}

static bool is_supervised(const struct guard_row *row) {
        return kill(row->supervisor, 0) == 0 || errno == EPERM;
}

static struct guard_said *find_said(const struct guard_reach *reach, uint64_t same) {
        for (size_t i = 0; i < reach->said.n; i++)
                if (reach->said.p[i].same == same)
                        return &reach->said.p[i];

        return NULL;
}

/* The first ones that say the same are read, the others add nothing. */
static bool is_said_enough(const struct guard_reach *reach, uint64_t same) {
        const struct guard_said *said = find_said(reach, same);

        return said && said->slots >= SAME_ENOUGH;
}

void guard_reach_heard(struct guard_reach *reach, int number) {
        const struct guard_table *table = reach->table;
        struct guard_said *said;

        if (!table->known || number < 0 || (size_t)number >= table->rows.n || !table->rows.p[number].supervisor)
                return;

        said = find_said(reach, table->rows.p[number].same);
        if (said)
                said->slots++;
        else
                (void)vec_push(&reach->said,
                               ((struct guard_said){ table->rows.p[number].same, 1 })); /* or all are read */
}

bool guard_reach_wants(struct guard_reach *reach, int number) {
        const struct guard_table *table = reach->table;
        const struct guard_row *row;

        if (!table->known || number == reach->own || number < 0 || (size_t)number >= table->rows.n)
                return true;

        row = &table->rows.p[number];
        if (row->supervisor <= 0 || row->boot != table->boot || row->space != table->space ||
            row->check != row_check(table, row))
                return true;

        if (!is_near(reach, row))
                return reach->finds_over && !is_supervised(row);

        return !is_supervised(row) || !is_said_enough(reach, row->same);
}

bool guard_reach_doubts(const struct guard_reach *reach, int number) {
        size_t n = reach->table->rows.n;

        return reach->finds_over && ((size_t)number + n - reach->doubted % n) % n < DOUBTED;
}
