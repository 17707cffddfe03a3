/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What every fuzz target is made of. A property that does not hold ends the process, in every kind of build, so that
 * the fuzzer and the replayer both see it.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_CHECK(condition)                                                                                          \
        do {                                                                                                           \
                if (!(condition)) {                                                                                    \
                        fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition);                 \
                        abort();                                                                                       \
                }                                                                                                      \
        } while (0)
