/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/macos_differences.h"

#include "base/cleanup.h"
#include "base/emit.h"
#include "cli/verb.h"
#include "verbs/macos/macos_plan.h"

#include <stdio.h>

enum { OUTPUT_MAX = 1 << 20 };

int macos_differences_print(bool json, struct err *err) {
        cleanup(buf_done) struct buf out = BUF(OUTPUT_MAX);
        struct emit j = emit_to(&out);

        if (!json) {
                puts("macOS: " MACOS_STATE
                     ". `bailey run`, its gateway and its vault are cross-built. See docs/macos.md.\n");
                printf("  %-26s %-48s %s\n", "", "on Linux", "on macOS");

                for (size_t i = 0; i < n_macos_differences; i++)
                        printf("  %-26s %-48s %s\n", macos_differences[i].about, macos_differences[i].on_linux,
                               macos_differences[i].on_macos);

                return EXIT_OK;
        }

        emit_open(&j, '{');
        emit_put_text(&j, "state", MACOS_STATE);
        emit_put_bool(&j, "tried_on_a_mac", false);
        emit_key(&j, "differences");
        emit_open(&j, '[');

        for (size_t i = 0; i < n_macos_differences; i++) {
                emit_open(&j, '{');
                emit_put_text(&j, "about", macos_differences[i].about);
                emit_put_text(&j, "linux", macos_differences[i].on_linux);
                emit_put_text(&j, "macos", macos_differences[i].on_macos);
                emit_close(&j);
        }

        emit_close(&j);
        emit_close(&j);
        return verb_print_json(&j, &out, err);
}
