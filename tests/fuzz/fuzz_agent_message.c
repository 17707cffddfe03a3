/* SPDX-License-Identifier: Apache-2.0 */
/* Every part lies in the message, and a login is never an SSHSIG. */
#include "bridge/agent_keys.h"
#include "bridge/agent_message.h"
#include "fuzz.h"

static void check_within(struct str part, struct str whole) {
        FUZZ_CHECK(part.n == 0 || (part.p >= whole.p && part.p + part.n <= whole.p + whole.n));
}

static void check_data(struct str bytes) {
        struct agent_data data;

        agent_data_parse(bytes, &data);
        check_within(data.session, bytes);
        check_within(data.user, bytes);
        check_within(data.key, bytes);
        check_within(data.host_key, bytes);
        check_within(data.name, bytes);
        FUZZ_CHECK(data.kind != AGENT_DATA_LOGIN || (data.session.n > 0 && data.name.n == 0));
        FUZZ_CHECK(data.kind != AGENT_DATA_SSHSIG || (data.session.n == 0 && data.key.n == 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct str bytes = str_n(data, size), list;
        struct agent_message m;
        struct agent_sign sign;
        struct agent_bind bind;
        struct agent_identity identity;
        struct agent_keys keys;

        check_data(bytes);
        if (agent_keys_read(bytes, &keys) == 0)
                agent_keys_done(&keys);
        if (agent_message_read(bytes, &m) <= 0)
                return 0;
        FUZZ_CHECK(m.bytes <= size);
        check_within(m.body, bytes);
        if (agent_sign_parse(m.body, &sign)) {
                check_within(sign.key, bytes);
                check_data(sign.data);
        }
        if (agent_bind_parse(m.body, &bind)) {
                check_within(bind.host_key, bytes);
                check_within(bind.session, bytes);
                check_within(bind.signature, bytes);
        }
        list = m.body;
        while (agent_take_identity(&list, &identity))
                check_within(identity.key, bytes);
        return 0;
}
