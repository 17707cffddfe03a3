/* SPDX-License-Identifier: Apache-2.0 */
/* Files of the user's, in whatever state they are. */
#include "fuzz.h"
#include "roles/known_hosts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct authority target = { .port = 22 };
        known_keys keys = { 0 }, revoked = { 0 };
        struct known_key key;

        (void)host_parse(STR("example.com"), &target.host, NULL);
        (void)known_hosts_find(str_n(data, size), &target, &keys, &revoked);
        known_hosts_revoke(&keys, &revoked);
        for (size_t i = 0; i < keys.n; i++)
                for (size_t k = 0; k < revoked.n; k++)
                        FUZZ_CHECK(memcmp(keys.p[i].digest, revoked.p[k].digest, DIGEST_BYTES) != 0);
        vec_done(&keys);
        vec_done(&revoked);
        (void)known_key_parse(str_n(data, size), &key);
        return 0;
}
