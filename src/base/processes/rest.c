/* SPDX-License-Identifier: Apache-2.0 */
#include "base/processes/rest.h"

#include "base/alloc.h"
#include "base/clock.h"

#include <link.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

/* Only what can never have been written to: a page that was changed (by relocations, say) would come back unchanged. */
static int object_drop(struct dl_phdr_info *object, size_t size, void *arg) {
        uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);

        (void)size;
        (void)arg;

        for (size_t i = 0; i < object->dlpi_phnum; i++) {
                const ElfW(Phdr) *part = &object->dlpi_phdr[i];
                uintptr_t from = (object->dlpi_addr + part->p_vaddr) & ~(page - 1);
                uintptr_t to = (object->dlpi_addr + part->p_vaddr + part->p_filesz) & ~(page - 1);

                if (part->p_type == PT_LOAD && !(part->p_flags & PF_W) && to > from)
                        (void)madvise((void *)from, to - from, MADV_DONTNEED); /* what stays costs memory alone */
        }

        return 0;
}

void process_rest(void) {
        alloc_trim();
        (void)dl_iterate_phdr(object_drop, NULL);
}

struct rest rest_begin(void) {
        return (struct rest){ .due_ns = clock_after_ms(REST_AFTER_MS) };
}

void rest_watch(void *arg, struct poller *poller) {
        poller_until(poller, ((const struct rest *)arg)->due_ns);
}

int rest_step(void *arg, struct poller *poller, struct err *err) {
        struct rest *rest = arg;

        (void)poller;
        (void)err;

        if (clock_ns() < rest->due_ns)
                return 0;

        process_rest();
        rest->due_ns = CLOCK_NEVER;
        return 0;
}
