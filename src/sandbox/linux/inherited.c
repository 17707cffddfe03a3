/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Standard input, output and error are all that the command gets from outside, and a descriptor is more than a stream
 * of bytes. Some lead to places that no mount, network or filter of the sandbox covers:
 *
 *   - a directory: what lies below it, and above it by "..", is seen as the host mounts it, without any mask
 *   - a socket of the internet: it belongs to the host's network, and can be disconnected and connected to elsewhere
 *   - a Unix socket that sends to names or is not connected yet: the names are the host's
 *
 * Nobody means to pass these to a command. They are refused, and the error says how to go on.
 */
#include "sandbox/linux/step.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* Why it may not be handed in, or NULL. */
static const char *leads_on(int fd) {
        int domain = 0, type = 0;
        socklen_t domain_n = sizeof domain, type_n = sizeof type;
        struct sockaddr_storage peer;
        socklen_t peer_n = sizeof peer;
        struct stat st;

        if (fstat(fd, &st) < 0)
                return NULL; /* closed */
        if (S_ISDIR(st.st_mode))
                return "a directory, through which files could be reached as they are outside; redirect it";
        if (!S_ISSOCK(st.st_mode))
                return NULL;

        if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &domain_n) < 0 ||
            getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &type_n) < 0 || domain != AF_UNIX)
                return "a socket of the host's network, which could be connected to elsewhere; put a pipe in between, "
                       "with cat";

        if (type == SOCK_DGRAM)
                return "a Unix datagram socket, which could be used to reach others; redirect it";
        if (getpeername(fd, (struct sockaddr *)&peer, &peer_n) < 0)
                return "a Unix socket without a peer, which could be used to reach others; redirect it";

        return NULL;
}

int check_inherited(struct err *err) {
        static const char *const names[] = { "input", "output", "error" };
        for (int fd = 0; fd <= 2; fd++) {
                const char *why = leads_on(fd);
                if (why)
                        return err_set(err, EINVAL, "standard %s is %s", names[fd], why);
        }
        return 0;
}
