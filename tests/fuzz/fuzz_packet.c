/* SPDX-License-Identifier: Apache-2.0 */
/* Refused packets, as the kernel logs them: whatever is in them, what was read lies inside, and the end is reached. */
#include "fuzz.h"
#include "gateway/wire/packet_wire.h"

static void check_packet(struct str bytes) {
        struct packet packet;
        if (!packet_parse(bytes, &packet))
                return;

        FUZZ_CHECK(packet.to.family == ADDR_V4 || packet.to.family == ADDR_V6);
        FUZZ_CHECK(packet.has_port || packet.port == 0);
        FUZZ_CHECK(packet.payload.n == 0 ||
                   (packet.payload.p >= bytes.p && packet.payload.p + packet.payload.n == bytes.p + bytes.n));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct str in = str_n(data, size);
        struct str rest = in;
        struct packet_log log;

        check_packet(in);
        for (size_t left = rest.n; packet_log_next(&rest, &log) == 1; left = rest.n) {
                FUZZ_CHECK(rest.n < left);
                FUZZ_CHECK(log.bytes.n == 0 || (log.bytes.p >= in.p && log.bytes.p + log.bytes.n <= in.p + in.n));
                check_packet(log.bytes);
        }
        return 0;
}
