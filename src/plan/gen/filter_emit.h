/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Writes bytes as C source: what plan/embedded.h declares. */
#include <stddef.h>
#include <stdio.h>

static inline void emit_filter(const char *name, const void *bytes, size_t n) {
        const unsigned char *p = bytes;
        /* The kernel reads filters as 8-byte instructions and netlink as 4-byte words: keep both aligned. */
        printf("static const unsigned char %s_bytes[] __attribute__((aligned(8))) = {", name);
        for (size_t i = 0; i < n; i++)
                printf("%s0x%02x,", i % 24 ? "" : "\n        ", p[i]);
        printf("\n};\nconst struct str %s = { (const char *)%s_bytes, sizeof %s_bytes };\n", name, name, name);
}
