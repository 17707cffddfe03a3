/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Failing every allocation in turn. A test program that depends on alloc_fail_dep has its calls of malloc, calloc,
 * realloc, reallocarray, strdup and vasprintf led through here (linker option --wrap).
 *
 *     static int step(void *argument) { ...returns 0 or a negative errno, frees what it made... }
 *     alloc_fail_each(step, NULL);
 *
 * calls step with the first allocation failing, then the second, until a call needs no more. While one failed, step
 * must return -ENOMEM; when none did, 0. Under a sanitizer a leak or a use after free on any of those ways is seen as
 * well. Returns how many allocations were failed, at least one.
 */
unsigned alloc_fail_each(int (*step)(void *), void *argument);

/* The nth allocation from now fails, 1 for the next one; 0 for none. */
void alloc_fail_at(unsigned nth);
