/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* docker and podman, by their command lines: the one interface that both have, with or without root. */
#include "base/buf.h"
#include "base/err.h"
#include "roles/vault_env.h"

#include <sys/types.h>

/* Appends words; the list stays NULL-terminated. */
int words_add(text_list *list, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Runs it, keeps what it prints; its errors go where ours go (`quiet`: nowhere). Returns its exit status. */
int engine_call(const text_list *argv, bool quiet, struct buf *out, struct err *err);
/* The same, quietly; one that takes longer is ended, which is an error. */
int engine_call_within(const text_list *argv, unsigned ms, struct buf *out, struct err *err);
/* Starts it with our standard descriptors. */
int engine_start(const text_list *argv, pid_t *ret_pid, struct err *err);

/* What the image starts by itself; pulled when it is not there. */
int engine_image(const char *engine, const char *image, text_list *ret_entrypoint, text_list *ret_command,
                 struct err *err);
