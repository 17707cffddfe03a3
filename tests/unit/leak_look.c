/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Linked into the test programs of a build with AddressSanitizer, which looks for leaks when a program ends. Four times
 * in that look its run-time library goes through all that was allocated, and each time, on arm64, through all places of
 * the address space where something could be: 0.8 s of CPU. Nothing can change meanwhile, as all threads but the one
 * that looks are stopped. So the places are found once, and what was found is gone through from then on.
 *
 * The linker leads the library's calls here (--wrap). A library without a function of this name, or a shared one, is
 * left as it is.
 */
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef void visit(uintptr_t chunk, void *context);

__attribute__((weak)) void __real__ZN6__lsan12ForEachChunkEPFvmPvES0_(visit *visitor, void *context);
void __wrap__ZN6__lsan12ForEachChunkEPFvmPvES0_(visit *visitor, void *context);

/* Of one look: each has a thread of its own. */
static long looker;
/* Not in a variable, where the look would find each of them, and take what it points at for in use. */
static uintptr_t *chunks;
static size_t n_chunks, room;

enum { ROOM = 64 << 20 }; /* of address space; memory for as much as is used */

static void note_chunk(uintptr_t chunk, void *context) {
        (void)context;
        if (n_chunks < room)
                chunks[n_chunks] = chunk;
        n_chunks++;
}

/* Without the C library's own function, which the sanitizer stands before. */
static void make_room(void) {
        long p = syscall(SYS_mmap, NULL, ROOM * sizeof *chunks, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (p == -1)
                return;
        chunks = (uintptr_t *)p;
        room = ROOM;
}

void __wrap__ZN6__lsan12ForEachChunkEPFvmPvES0_(visit *visitor, void *context) {
        long self = syscall(SYS_gettid);

        if (self != looker) {
                if (!room)
                        make_room();
                n_chunks = 0;
                __real__ZN6__lsan12ForEachChunkEPFvmPvES0_(note_chunk, NULL);
                looker = self;
        }

        if (n_chunks > room) {
                __real__ZN6__lsan12ForEachChunkEPFvmPvES0_(visitor, context);
                return;
        }
        for (size_t i = 0; i < n_chunks; i++)
                visitor(chunks[i], context);
}
