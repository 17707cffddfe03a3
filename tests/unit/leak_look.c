/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Linked into the test programs of a build with AddressSanitizer, which looks for leaks when a program ends. In that
 * look its run-time library goes through all blocks of its heap four times. On arm64 the library of clang 14 asks each
 * time of every place in the address space, 2^28 of them, whether it is part of the heap: 3.2 s of CPU in all.
 *
 * This function stands in for the one that asks (the library's is weak). It skips 2^12 places at a time where none is
 * in use, and visits the same blocks in the same order. tests/meson.build links it only with the library that it was
 * written for; test_leak_look.c shows that leaks of every size are still found.
 */
#include <stddef.h>
#include <stdint.h>

#define HEAP "11__sanitizer20SizeClassAllocator32IN6__asan4AP32INS_21LocalAddressSpaceViewEEEE"

enum { TABLES = 1 << 16, PLACES = 1 << 12, PLACE_BITS = 20 };

/* The beginning of the library's object. A byte of a table says what size the blocks of its place have; 0: no heap. */
struct heap {
        uintptr_t lock;
        const uint8_t *tables[TABLES];
};

typedef void visit(uintptr_t block, void *context);

void heap_each_block(const struct heap *heap, visit *visitor,
                     void *context) __asm__("_ZNK" HEAP "12ForEachChunkEPFvmPvES6_");
/* The library's own. It ends the program if the address is not one of the heap. */
size_t heap_block_size(const struct heap *heap, uintptr_t block) __asm__("_ZN" HEAP "24GetActuallyAllocatedSizeEPv");

static void visit_place(const struct heap *heap, uintptr_t place, visit *visitor, void *context) {
        uintptr_t begin = place << PLACE_BITS;
        size_t size = heap_block_size(heap, begin);

        for (size_t n = ((size_t)1 << PLACE_BITS) / size, i = 0; i < n; i++)
                visitor(begin + i * size, context);
}

void heap_each_block(const struct heap *heap, visit *visitor, void *context) {
        for (uintptr_t table = 0; table < TABLES; table++) {
                if (!heap->tables[table])
                        continue;

                for (uintptr_t place = 0; place < PLACES; place++) {
                        if (heap->tables[table][place])
                                visit_place(heap, table * PLACES + place, visitor, context);
                }
        }
}
