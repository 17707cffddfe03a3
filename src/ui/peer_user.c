/* SPDX-License-Identifier: Apache-2.0 */
#include "ui/peer_user.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ESTABLISHED = 1 };

/* The next number, and what must follow it (0: a space). */
static bool take_number(const char **at, int base, char end, unsigned long *ret) {
        char *after = NULL;

        errno = 0;
        *ret = strtoul(*at, &after, base);
        if (errno || after == *at || (end ? *after != end : *after != ' '))
                return false;

        *at = after + 1;
        return true;
}

/* One row: "sl: LOCAL:PORT REMOTE:PORT STATE TX:RX TR:WHEN RETRNSMT UID ...", addresses as the memory has them. */
static bool row_is(const char *row, const struct sockaddr_in *theirs, const struct sockaddr_in *ours, uid_t *ret_uid) {
        static const struct {
                int base;
                char end;
        } columns[] = { { 10, ':' }, { 16, ':' }, { 16, 0 },   { 16, ':' }, { 16, 0 }, { 16, 0 },
                        { 16, ':' }, { 16, 0 },   { 16, ':' }, { 16, 0 },   { 16, 0 }, { 10, 0 } };
        enum {
                NUMBER,
                LOCAL,
                LOCAL_PORT,
                REMOTE,
                REMOTE_PORT,
                STATE,
                TX,
                RX,
                TIMER,
                WHEN,
                RETRANSMITTED,
                UID,
                COLUMNS
        };
        unsigned long value[COLUMNS] = { 0 };

        static_assert(sizeof columns / sizeof *columns == COLUMNS, "a base for each column");

        for (size_t i = 0; i < COLUMNS; i++)
                if (!take_number(&row, columns[i].base, columns[i].end, &value[i]))
                        return false;

        if (value[LOCAL] != theirs->sin_addr.s_addr || value[LOCAL_PORT] != ntohs(theirs->sin_port) ||
            value[REMOTE] != ours->sin_addr.s_addr || value[REMOTE_PORT] != ntohs(ours->sin_port) ||
            value[STATE] != ESTABLISHED)
                return false;

        *ret_uid = (uid_t)value[UID];
        return true;
}

bool peer_user_is_ours(int fd) {
        struct sockaddr_in theirs = { 0 }, ours = { 0 };
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
