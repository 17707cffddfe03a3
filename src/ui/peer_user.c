/* SPDX-License-Identifier: Apache-2.0 */
#include "ui/peer_user.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ESTABLISHED = 1 };

/* One row: "sl: LOCAL:PORT REMOTE:PORT STATE TX:RX TR:WHEN RETRNSMT UID ...", addresses as the memory has them. */
static bool row_is(const char *row, const struct sockaddr_in *theirs, const struct sockaddr_in *ours, uid_t *ret_uid) {
        uint32_t local, remote;
        unsigned local_port, remote_port, state, uid;

        if (sscanf(row, " %*u: %" SCNx32 ":%x %" SCNx32 ":%x %x %*x:%*x %*x:%*x %*x %u", &local, &local_port, &remote,
                   &remote_port, &state, &uid) != 6)
                return false;
        if (local != theirs->sin_addr.s_addr || local_port != ntohs(theirs->sin_port) ||
            remote != ours->sin_addr.s_addr || remote_port != ntohs(ours->sin_port) || state != ESTABLISHED)
                return false;
        *ret_uid = uid;
        return true;
}

bool peer_user_is_ours(int fd) {
        struct sockaddr_in theirs, ours;
        socklen_t n = sizeof theirs, m = sizeof ours;
        char row[512];
        bool found = false;
        uid_t uid = 0;

        if (getpeername(fd, (struct sockaddr *)&theirs, &n) < 0 || getsockname(fd, (struct sockaddr *)&ours, &m) < 0)
                return false;
        if (theirs.sin_family != AF_INET || ours.sin_family != AF_INET)
                return false;
        FILE *table = fopen("/proc/net/tcp", "re");
        if (!table)
                return false;
        while (!found && fgets(row, sizeof row, table))
                found = row_is(row, &theirs, &ours, &uid);
        fclose(table);
        return found && (uid == geteuid() || uid == 0);
}
