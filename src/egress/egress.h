/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * `bailey egress`: a gateway in the background, for containers and guests. Set up once; then a service of the user's
 * that is started, asked and stopped. egress_state.h says what is kept, and egress_pid.h how the service is
 * distinguished from other processes.
 */
#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>

/* How to notify and ask a person. */
struct egress_talk {
        void (*say)(void *arg, bool bad, const char *text);
        bool (*confirm)(void *arg, const char *question); /* NULL: everything is agreed to */
        void *arg;
};

struct egress_setup {
        bool from_bitwarden, no_bitwarden, rotate_tokens;
        const char *project;        /* of Bitwarden; NULL: as before */
        const char *token_env;      /* the variable with its token; NULL: as before */
        const char *const *without; /* credentials to be taken out, NULL-terminated; NULL: none */
};

/* Finds credentials, reads each once (so that a source that does not work is known now), makes CA and stand-ins, and
 * enables the service. Existing sources, stand-ins and other settings stay. */
int egress_setup(const struct egress_setup *setup, const struct egress_talk *talk, struct err *err);
/* "KEY=VALUE" each, or none; then prints the settings. */
int egress_config(char *const *assignments, struct buf *out, struct err *err);

/* Returns when it listens; 1 when it did before. */
int egress_start(const struct egress_talk *talk, struct err *err);
/* 1 when none ran. */
int egress_stop(const struct egress_talk *talk, struct err *err);
/* Returns when the new settings count, and says what has changed; or why everything is as before. */
int egress_reload(const struct egress_talk *talk, struct err *err);
/* Stops it; it cannot be started until it is set up again. */
int egress_disable(const struct egress_talk *talk, struct err *err);

/* `running` is whether it serves. */
int egress_status(bool json, bool show_tokens, struct buf *out, bool *ret_running, struct err *err);
/* Arguments for docker or podman, quoted for a shell on one line, or one on each line. `given` are the user's own
 * arguments: a conflict with ours is an error, or a warning when the settings do not enforce. */
int egress_docker_args(char *const *given, bool lines, const struct egress_talk *talk, struct buf *out,
                       struct err *err);

/* The same facts for every other backend: variables for a shell, or with addresses and files as JSON. */
struct egress_env {
        bool json;
        bool for_containers;      /* the listener on the bridge, not the one on loopback */
        const char *certificates; /* the directory in which the program sees them; NULL: their place on this host */
};
int egress_env(const struct egress_env *query, struct buf *out, struct err *err);

/* The service itself, started by egress_start(). */
enum { EGRESS_STATUS_FD = 3 };
int egress_serve(const char *nonce, struct err *err);

/* A list for each container (containers.h). The gateway of one, started by the service. */
int egress_contain(const char *engine, const char *address, const char *at, struct err *err);
/* "NAME", "docker/NAME" or "podman/NAME": the directory that rules for this container are remembered for, which is
 * made, and the name with the engine. Heap texts. */
int egress_container_place(const char *text, char **ret_place, char **ret_name, struct err *err);
/* The same for a name that is known to be one; made when `make`. */
int egress_container_directory(const char *engine, const char *name, bool make, char **ret, struct err *err);
/* The same, for as long as its gateway runs; then nothing is left of it, unless a rule is remembered for it. */
int egress_container_hold(const char *engine, const char *name, char **ret_place, int *ret_fd, struct err *err);
void egress_container_leave(const char *place, int fd);
/* Whether anything is denied to one container alone; true also when that cannot be read. */
bool egress_containers_deny(void);
/* Which there are, and what each may reach. */
int egress_containers(bool json, struct buf *out, struct err *err);
