/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Sockets of container engines, by the name that their clients look for: a program that reaches one has the host. */
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

static inline bool engine_socket(const char *path) {
        static const char *const names[] = { "docker.sock", "podman.sock",    "containerd.sock",
                                             "crio.sock",   "buildkitd.sock", "docker-raw.sock" };
        const char *slash = strrchr(path, '/');

        for (size_t i = 0; slash && i < sizeof names / sizeof *names; i++)
                if (strcmp(slash + 1, names[i]) == 0)
                        return true;
        return false;
}
