/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of tcpdump about pf: an address has only the characters of one, and a name never comes from elsewhere. */
#include "fuzz.h"
#include "sandbox/darwin/pflog.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct pflog_packet packet;

        memset(&packet, 0xaa, sizeof packet);
        if (!pflog_parse(str_n(data, size), &packet))
                return 0;
        FUZZ_CHECK(memchr(packet.address, 0, sizeof packet.address) && packet.address[0]);
        FUZZ_CHECK(strspn(packet.address, "0123456789abcdefABCDEF.:") == strlen(packet.address));
        FUZZ_CHECK(packet.v6 || !strchr(packet.address, ':'));
        FUZZ_CHECK(strlen(packet.protocol) < sizeof packet.protocol);
        return 0;
}
