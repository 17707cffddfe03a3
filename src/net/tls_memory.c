/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection that rests holds no room for records: OpenSSL takes it for each and gives it back (set_common()). That
 * is a block of 17 KiB for every record read and written, too large for what the heap keeps at hand for a thread. So
 * the last few are kept here, for the thread that gave them back, until it ends; all else is the heap's.
 */
#include "net/tls_internal.h"

#include <malloc.h>
#include <openssl/crypto.h>
#include <stdlib.h>

enum { ROOM_MIN = TLS_RECORD_BYTES, ROOM = ROOM_MIN + 1024, KEPT_MAX = 4 };

static _Thread_local struct {
        void *rooms[KEPT_MAX];
        size_t n;
        bool known; /* to the end of the thread */
} kept;
static pthread_key_t at_end;

static bool is_for_record(size_t n) {
        return n > ROOM_MIN && n <= ROOM;
}

static void *memory_take(size_t n, const char *file, int line) {
        (void)file;
        (void)line;
        if (!is_for_record(n)) {
                if (n > 0)
                        return malloc(n);
                return NULL;
        }
        if (kept.n > 0)
                return kept.rooms[--kept.n];

        return malloc(ROOM);
}

/* The heap says how large a block is; a little more than was asked for is usual. */
static void memory_give(void *p, const char *file, int line) {
        (void)file;
        (void)line;
        size_t n = p && kept.n < KEPT_MAX ? malloc_usable_size(p) : 0;
        if (n >= ROOM && n < ROOM + 64 && !kept.known)
                kept.known = pthread_setspecific(at_end, &kept) == 0;

        if (n >= ROOM && n < ROOM + 64 && kept.known)
                kept.rooms[kept.n++] = p;
        else
                free(p);
}

static void *memory_resize(void *p, size_t n, const char *file, int line) {
        if (n > 0)
                return realloc(p, is_for_record(n) ? ROOM : n);
        memory_give(p, file, line);
        return NULL;
}

static void on_end(void *unused) {
        (void)unused;
        while (kept.n > 0)
                free(kept.rooms[--kept.n]);
        kept.known = false; /* what is given back later in its end is looked at once more */
}

static void memory_init(void) {
        if (pthread_key_create(&at_end, on_end) != 0)
                return;
        (void)CRYPTO_set_mem_functions(memory_take, memory_resize,
                                       memory_give); /* refused when OpenSSL was used before: then without */
}

void tls_memory_init(void) {
        static pthread_once_t once = PTHREAD_ONCE_INIT;
        pthread_once(&once, memory_init);
}
