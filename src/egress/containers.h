/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A list for each container behind one `bailey egress`.
 *
 * The service accepts at the bridge itself, looks at the address that a connection comes from, and hands the descriptor
 * to the gateway of the container that has this address: a gateway, a vault and a supervisor of its own, as `bailey ps`
 * lists them, with the service's settings and the container's own rules. A connection from an address that is no
 * container's goes to the service's own gateway, which has the service's settings alone.
 *
 *   bridge  --accept-->  containers.c  --descriptor-->  gateway of docker/one     (container_service.c, a process each)
 *                                      --descriptor-->  gateway of docker/two
 *                                      --descriptor-->  the service's own
 *
 * A container's own claims count for nothing. The engine says who has an address, and a descriptor of the container's
 * first process says whether that still holds: it is checked for every connection, after the accept. The engine gives
 * an address away only when that process has ended, so a connection of the next container with the same address cannot
 * pass for one of the last.
 */
#include "base/err.h"
#include "base/processes/poller.h"
#include "policy/match/addr.h"

struct containers; /* opaque */

struct containers_settings {
        const char *engine; /* "docker", "podman" */
        struct endpoint at; /* to listen on; its port is not 0 */
        void (*on_message)(void *arg, bool bad, const char *text);
        void *arg;
};

int containers_open(const struct containers_settings *settings, struct containers **ret, struct err *err);
/* Everything accepts NULL. Ends the gateways of all containers, and waits for them. */
void containers_close(struct containers *containers);

/* Where the service's own gateway gets its connections; stays this object's. */
int containers_own(const struct containers *containers);
/* Where it listens: the port is filled in. */
const struct endpoint *containers_at(const struct containers *containers);
struct poller_part containers_part(struct containers *containers);
/* The settings have changed: every gateway reads them again. */
void containers_reload(struct containers *containers);

/*
 * Between the service and the process of one container: fd 3, SOCK_SEQPACKET, a byte each. Closed: the other is to end.
 */
enum { CONTAINER_FD_CONTROL = 3, CONTAINER_FD_DOOR = 4 };
#define CONTAINER_NOBODY 'n' /* no container has this address */
#define CONTAINER_HELD 'h'   /* one has; with a descriptor of its first process. Connections may come */
#define CONTAINER_FAILED 'f' /* the engine does not answer */

/* ENGINE/NAME. */
#define CONTAINER_TEXT_MAX 160
