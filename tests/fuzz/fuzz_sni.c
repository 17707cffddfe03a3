/* SPDX-License-Identifier: Apache-2.0 */
/* A name found is in the bytes it was found in; a final answer stays the same when more bytes are seen one by one. */
#include "fuzz.h"
#include "gateway/wire/sni.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct str in = str_n(data, size);
        struct sni sni, grown;
        struct sniff found;
        enum sni_result r = sni_parse(in, &sni);
        if (r == SNI_NAME)
                FUZZ_CHECK(sni.n > 0);
        enum sni_result early = SNI_MORE;
        for (size_t n = 0; n <= size && early == SNI_MORE; n++)
                early = sni_parse(str_first(in, n), &grown);
        if (r == SNI_MORE || early == SNI_MORE)
                FUZZ_CHECK(r == early);
        if (early == SNI_NAME)
                FUZZ_CHECK(r == SNI_NAME && sni.n == grown.n && memcmp(sni.name, grown.name, sni.n) == 0);
        if (sniff(in, 65536, &found) == SNIFF_TLS)
                FUZZ_CHECK(found.has_host == (r == SNI_NAME));
        /* What may pass behind the hello is never nothing. */
        for (int with_early = 0; with_early < 2; with_early++) {
                struct tls_records records = { .early = with_early };
                bool has_host = false;
                struct host host;
                if (tls_records_look(&records, in, &has_host, &host) == TLS_PASS)
                        FUZZ_CHECK(records.pass > 0);
        }
        return 0;
}
