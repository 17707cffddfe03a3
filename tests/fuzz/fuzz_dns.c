/* SPDX-License-Identifier: Apache-2.0 */
/* Every question that is parsed gets an answer with its id, its question and no more than was allowed. */
#include "base/cleanup.h"
#include "fuzz.h"
#include "gateway/wire/dns_wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct str in = str_n(data, size);
        struct dns_query q;
        enum dns_rcode rcode;
        if (!dns_query_parse(in, &q, &rcode))
                return 0;
        FUZZ_CHECK(q.udp_size >= DNS_UDP_MAX && q.udp_size <= DNS_EDNS_MAX);
        FUZZ_CHECK(q.name_n <= 253);
        for (size_t i = 0; q.plain && i < q.name_n; i++)
                FUZZ_CHECK(ascii_is_alnum(q.name[i]) || q.name[i] == '-' || q.name[i] == '_' || q.name[i] == '.');
        const struct addr addrs[] = { { ADDR_V4, { 198, 18, 1, 0 } },
                                      { ADDR_V6, { 0xfd } },
                                      { ADDR_V4, { 198, 18, 1, 1 } } };
        struct dns_answer a = { .rcode = rcode, .ttl = 30, .n_addrs = 3, .addrs = addrs, .max = q.udp_size };
        cleanup(buf_done) struct buf out = BUF(4096);
        FUZZ_CHECK(dns_answer_write(&out, &q, &a) == 0);
        FUZZ_CHECK(out.n >= 12 && out.n <= q.udp_size);
        FUZZ_CHECK(out.p[0] == in.p[0] && out.p[1] == in.p[1] && (out.p[2] & 0x80));
        FUZZ_CHECK(str_starts(str_skip(buf_str(&out), 12), q.question));
        struct dns_query back;
        FUZZ_CHECK(!dns_query_parse(buf_str(&out), &back, &rcode)); /* an answer is never answered */
        char type[DNS_TYPE_TEXT_MAX];
        dns_type_text(q.type, type);
        return 0;
}
