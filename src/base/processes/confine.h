/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The rights that every helper process drops for good. Each adds its own list of system calls on top.
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
/* Landlock without a single rule: it drops every right that the running ABI knows, except TCP connections if `connects`
 * is set. Open descriptors keep working. Does nothing if the kernel has no Landlock, so the caller's seccomp filter
 * must refuse the same. */
int confine_files(bool connects, struct err *err);
