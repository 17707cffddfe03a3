/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Any bytes as the settings of a tool: an error that can be printed, or a policy that has been loaded once and holds no
 * control characters. */
#include "base/cleanup.h"
#include "fuzz.h"
#include "import/import.h"

static inline int fuzz_import(const char *tool, const char *kind, const uint8_t *data, size_t size) {
        cleanup(import_result_done) struct import_result result = { 0 };
        struct err err = { 0 };

        if (import_make_text(tool, kind, str_n(data, size), "/usr/share", "/home/somebody", &result, &err) < 0) {
                FUZZ_CHECK(result.text.n == 0 && err.code != 0 && err.text[0] != '\0');
                for (const char *c = err.text; *c; c++)
                        FUZZ_CHECK((unsigned char)*c >= 0x20 && *c != 0x7f);
                /* Whatever a reader accepts can be said, or the reader says where it cannot. */
                FUZZ_CHECK(strncmp(err.text, "no policy can say this", 22) != 0);
                return 0;
        }
        FUZZ_CHECK(result.text.n > 0);
        for (size_t i = 0; i < result.text.n; i++)
                FUZZ_CHECK((unsigned char)result.text.p[i] >= 0x20 || result.text.p[i] == '\n');
        return 0;
}
