/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whatever the bytes: a table that is accepted has fakes that are found, alone and inside other text, and mappings
 * that are those of their hosts.
 */
#include "base/cleanup.h"
#include "fuzz.h"
#include "ipc/credentials.h"

static void check_stand_ins(const struct credentials *c, const struct credential_mapping *m) {
        for (int part = 0; part < PARTS; part++) {
                if (m->stand_in[part].n == 0)
                        continue;
                struct credential_hit hit;
                size_t at = 0;
                cleanup(buf_done) struct buf text = BUF(1 << 20);
                FUZZ_CHECK(buf_add(&text, "?") == 0 && buf_append(&text, m->stand_in[part]) == 0 &&
                           buf_add(&text, "&") == 0);
                FUZZ_CHECK(credentials_find(c, m->stand_in[part], &at, &hit));
                FUZZ_CHECK(at <= m->stand_in[part].n && hit.end == at && hit.mapping < credentials_count(c));
                at = 0;
                FUZZ_CHECK(credentials_find(c, buf_str(&text), &at, &hit) && at < text.n);
        }
}

static void check_hosts(const struct credentials *c, const struct credential_mapping *m) {
        FUZZ_CHECK(m->n_hosts > 0 && m->n_slots > 0 && m->n_slots <= CREDENTIAL_SLOTS_MAX);
        for (size_t i = 0; i < m->n_hosts; i++) {
                const struct pattern *p = &m->hosts[i];
                struct host host = p->host;
                if (p->kind == PATTERN_WILDCARD)
                        continue;
                if (p->kind == PATTERN_NET)
                        host_from_addr(&p->net.addr, &host);
                struct credential_set set = credentials_at(c, &host, p->port_last);
                FUZZ_CHECK(credential_set_has(&set, m->index));
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        cleanup(credentials_closep) struct credentials *c = NULL;
        struct credential_slot slot;
        (void)credential_slot_parse(str_n(data, size), &slot, NULL);
        if (credentials_open(str_n(data, size), &c, NULL) < 0)
                return 0;
        for (uint32_t i = 0; i < credentials_count(c); i++) {
                check_stand_ins(c, credentials_get(c, i));
                check_hosts(c, credentials_get(c, i));
        }
        return 0;
}
