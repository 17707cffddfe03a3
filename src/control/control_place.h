/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Where running sandboxes can be reached: one socket each, ID.sock, in $XDG_RUNTIME_DIR/bailey, or
 * /run/user/UID/bailey, or /tmp/bailey-UID where there is no session. The directory is 0700 and ours; it is hidden in
 * every sandbox. A killed sandbox leaves its socket behind; the next process that finds it removes it.
 */
#include "base/err.h"
#include "base/vec.h"

#include <stdbool.h>

#define CONTROL_ID_MAX 32

/* Not created. Heap text. */
int control_directory(char **ret, struct err *err);
/* Created, 0700, owner checked. */
int control_make_directory(char **ret, struct err *err);

/* A listening socket, non-blocking, mode 0600; *ret_path is what control_unlisten() removes. */
int control_listen(const char *directory, const char *id, int *ret_fd, char **ret_path, struct err *err);
void control_unlisten(char *path);

/* Of another socket in that directory, however long its path: *ret_fd must stay open until it was bound or connected
 * to.
 */
struct sockaddr_un;
int control_address(const char *directory, const char *name, struct sockaddr_un *ret, int *ret_fd, struct err *err);

/* Connects to the socket of this id. -ENOENT: there is none; -ECONNREFUSED: nobody listens (and the socket is removed).
 */
int control_connect(const char *directory, const char *id, int *ret_fd, struct err *err);

typedef VEC(char *) control_ids;
void control_ids_done(control_ids *ids);
/* Ids with a socket, sorted; whether somebody listens shows control_connect(). */
int control_list(control_ids *ret, struct err *err);

/* May this peer give orders? The same user (or root), and not from inside a sandbox: it has our namespaces, and no
 * seccomp filter that we do not have. -EPERM with the reason. */
int control_check_peer(int fd, struct err *err);
/* Whether the kernel names the speaking process in a way that no other process can take over (SO_PEERPIDFD). */
bool control_peer_is_certain(void);
