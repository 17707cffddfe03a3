/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A file without a name, on a system without sealed files: one descriptor that writes, one that can only read. */
int fd_nameless(const char *name, int *ret_writer, int *ret_reader);
