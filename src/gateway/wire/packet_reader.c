/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/wire/packet_reader.h"

#include <errno.h>
#include <linux/sock_diag.h>
#include <sys/socket.h>

static void reader_count(struct packet_reader *reader, const struct packet_log *log) {
        if (!log->has_serial)
                return;

        if (reader->has_serial && log->serial != reader->next_serial) {
                reader->lost += log->serial - reader->next_serial;
                reader->lost_all += log->serial - reader->next_serial;
        }

        reader->has_serial = true;
        reader->next_serial = log->serial + 1;
}

/* An overrun is an error once; what follows it is read as usual. */
bool packet_reader_step(struct packet_reader *reader, void (*on_packet)(void *arg, const struct packet_log *log),
                        void *arg) {
        struct packet_log log;
        ssize_t n = recv(reader->fd, reader->message, sizeof reader->message, MSG_DONTWAIT);

        if (n < 0)
                return errno == ENOBUFS || errno == EINTR;

        struct str messages = str_n(reader->message, (size_t)n);
        while (packet_log_next(&messages, &log) == 1) {
                reader_count(reader, &log);
                on_packet(arg, &log);
        }

        return true;
}

void packet_reader_end(struct packet_reader *reader) {
        uint32_t memory[SK_MEMINFO_VARS] = { 0 };
        socklen_t n = sizeof memory;

        if (getsockopt(reader->fd, SOL_SOCKET, SO_MEMINFO, memory, &n) == 0 &&
            memory[SK_MEMINFO_DROPS] > reader->lost_all) {
                reader->lost += memory[SK_MEMINFO_DROPS] - reader->lost_all;
                reader->lost_all = memory[SK_MEMINFO_DROPS];
        }
}

uint32_t packet_reader_take_lost(struct packet_reader *reader) {
        uint32_t count = reader->lost < UINT32_MAX ? (uint32_t)reader->lost : UINT32_MAX;

        reader->lost = 0;
        return count;
}
