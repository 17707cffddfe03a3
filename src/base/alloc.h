/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
#include <stddef.h>

/* Zeroed memory for objects that come and go with every connection; NULL when there is none, freed with free(). Unlike
 * calloc(), which in glibc always takes the lock of an arena, it reuses what this thread freed last. */
void *alloc_zeroed(size_t n) __attribute__((malloc));

/* For a program that starts, works for some milliseconds and ends: the heap grows once instead of a dozen times, and
 * gives nothing back in between. What rests for long calls alloc_trim() itself. Never in a library: the heap is the
 * program's. */
void alloc_settle(void);

/* Gives free memory back to the system, which the allocator does not do by itself. Takes milliseconds. */
void alloc_trim(void);

/* How large a block of the heap is: at least what was asked for. */
size_t alloc_size(const void *p);
