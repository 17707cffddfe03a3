/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
#include <stddef.h>

/* Fills with the kernel's random bytes; ends the process if the kernel has none, since nothing is safe without. */
void random_bytes(void *p, size_t n);

/* Lower-case letters and digits without look-alikes, terminated: for the names of sandboxes and runs. */
void random_id(char *ret, size_t length_with_nul);
