/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What a helper process gives up for good, whatever it is for. Each adds its own list of system calls on top.
 */
#include "base/err.h"

#include <stdbool.h>

/* A sanitizer's run-time opens files and traces the process at its end: such builds leave out Landlock and filters. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

/* No core file, no tracing, nothing readable in /proc for others of the same user. */
int confine_memory(struct err *err);
/* No capabilities and none to gain; includes confine_memory(), which a change of privileges may have undone. */
int confine_privileges(struct err *err);
/* Landlock without a single rule: every right that the running ABI knows is taken, but for TCP connections where
 * `connects` is set. What is open already works. Does nothing where the kernel has no Landlock: the caller's filter has
 * to refuse the same. */
int confine_files(bool connects, struct err *err);
