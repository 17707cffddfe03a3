/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Scope cleanup: a resource is released when its variable leaves scope, unless it was taken.
 *
 *     cleanup(free_ptr) char *copy = str_dup(name);
 *     cleanup(close_fd) int fd = -1;
 *     cleanup(buf_done) struct buf b = BUF(4096);
 *     *ret_fd = take_fd(&fd);
 *     return take_ptr(&copy);
 *
 * Destructors accept NULL, -1 and half-built objects. For a `struct x *x_free(struct x *)` style destructor of a heap
 * object use CLEANUP_PTR(x, x_free) once, which defines x_freep() for use with cleanup().
 */
#include <stddef.h>
#include <stdlib.h>

#define cleanup(function) __attribute__((cleanup(function)))

static inline void free_ptr(void *pointer_to_pointer) {
        free(*(void **)pointer_to_pointer);
}

/* Hands over ownership: returns the value and leaves NULL or -1 behind. */
#define take_ptr(pointer)                                                                                              \
        ({                                                                                                             \
                __typeof__(pointer) take_from = (pointer);                                                             \
                __typeof__(*take_from) taken = *take_from;                                                             \
                *take_from = NULL;                                                                                     \
                taken;                                                                                                 \
        })

static inline int take_fd(int *fd) {
        int taken = *fd;
        *fd = -1;
        return taken;
}

#define CLEANUP_PTR(type, free_function)                                                                               \
        static inline void free_function##p(type **pointer) {                                                          \
                free_function(*pointer);                                                                               \
        }
