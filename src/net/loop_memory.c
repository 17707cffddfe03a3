/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For each descriptor that a loop has ever watched libevent keeps a small record until the loop ends. On the common
 * heap each would lie between the memory of two connections and hold its page: after a crowd has gone, nearly nothing
 * could be given back to the system. So small records come from a region of their own, which takes real memory only as
 * it is used. If it is full or could not be mapped, the heap is used.
 */
#include "net/loop_memory.h"

#include <event2/event.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { SLOT_BYTES = 64, SLOTS = 1 << 18 };

union slot {
        union slot *next; /* while it is free */
        char bytes[SLOT_BYTES];
};

static struct {
        pthread_mutex_t lock;
        union slot *slots, *free; /* slots: NULL without a region */
        size_t used;              /* those behind were never given out */
} region = { .lock = PTHREAD_MUTEX_INITIALIZER };

static bool is_slot(const void *p) {
        return region.slots && (uintptr_t)p - (uintptr_t)region.slots < sizeof(union slot) * SLOTS;
}

static void *take_slot(void) {
        pthread_mutex_lock(&region.lock);
        union slot *s = region.free;
        if (s)
                region.free = s->next;
        else if (region.slots && region.used < SLOTS)
                s = &region.slots[region.used++];

        pthread_mutex_unlock(&region.lock);
        return s;
}

static void *memory_take(size_t n) {
        void *p = n <= SLOT_BYTES ? take_slot() : NULL;
        if (p)
                return p;

        return malloc(n);
}

static void memory_give(void *p) {
        if (!is_slot(p)) {
                free(p);
                return;
        }

        union slot *s = p;
        pthread_mutex_lock(&region.lock);
        s->next = region.free;
        region.free = s;
        pthread_mutex_unlock(&region.lock);
}

static void *memory_resize(void *p, size_t n) {
        if (!is_slot(p)) {
                if (p)
                        return realloc(p, n);
                return memory_take(n);
        }
        if (n <= SLOT_BYTES)
                return p;

        void *larger = malloc(n);
        if (larger) {
                memcpy(larger, p, SLOT_BYTES);
                memory_give(p);
        }

        return larger;
}

static void memory_init(void) {
        void *p = mmap(NULL, sizeof(union slot) * SLOTS, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (p == MAP_FAILED)
                return;
        region.slots = p;
        event_set_mem_functions(memory_take, memory_resize, memory_give);
}

void loop_memory_init(void) {
        static pthread_once_t once = PTHREAD_ONCE_INIT;
        pthread_once(&once, memory_init);
}
