/* SPDX-License-Identifier: Apache-2.0 */
/* What an agent is asked to sign: a login, an SSHSIG, or neither. */
#include "bridge/agent_keys.h"
#include "bridge/agent_message.h"

#include "../cmocka_all.h"
#include "base/buf.h"
#include "base/cleanup.h"

#include <errno.h>
#include <string.h>

static void put(struct buf *out, struct str text) {
        const char head[] = { 0, 0, (char)(text.n >> 8), (char)text.n };

        assert_int_equal(buf_append(out, str_n(head, 4)), 0);
        assert_int_equal(buf_append(out, text), 0);
}

static void write_login(struct buf *out, const char *method, bool host) {
        put(out, STR("session"));
        assert_int_equal(buf_add_char(out, 50), 0);
        put(out, STR("root"));
        put(out, STR("ssh-connection"));
        put(out, str_of(method));
        assert_int_equal(buf_add_char(out, 1), 0);
        put(out, STR("ssh-ed25519"));
        put(out, STR("key"));
        if (host)
                put(out, STR("host"));
}

static void logins(void **state) {
        cleanup(buf_done) struct buf out = BUF(4096);
        struct agent_data data;
        (void)state;

        write_login(&out, "publickey", false);
        agent_data_parse(buf_str(&out), &data);
        assert_int_equal(data.kind, AGENT_DATA_LOGIN);
        assert_true(str_is(data.session, "session") && str_is(data.user, "root") && str_is(data.key, "key"));
        for (size_t n = 0; n < out.n; n++) {
                agent_data_parse(str_first(buf_str(&out), n), &data);
                assert_int_equal(data.kind, AGENT_DATA_OTHER);
        }
        assert_int_equal(buf_add_char(&out, 0), 0);
        agent_data_parse(buf_str(&out), &data);
        assert_int_equal(data.kind, AGENT_DATA_OTHER);

        buf_clear(&out);
        write_login(&out, "publickey-hostbound-v00@openssh.com", true);
        agent_data_parse(buf_str(&out), &data);
        assert_int_equal(data.kind, AGENT_DATA_LOGIN);
        assert_true(str_is(data.host_key, "host"));

        buf_clear(&out);
        write_login(&out, "hostbased", false);
        agent_data_parse(buf_str(&out), &data);
        assert_int_equal(data.kind, AGENT_DATA_OTHER);
}

static void signatures(void **state) {
        cleanup(buf_done) struct buf out = BUF(4096);
        char digest[64] = { 1 };
        struct agent_data data;
        (void)state;

        assert_int_equal(buf_add(&out, "SSHSIG"), 0);
        put(&out, STR("git"));
        put(&out, STR(""));
        put(&out, STR("sha512"));
        put(&out, str_n(digest, sizeof digest));
        agent_data_parse(buf_str(&out), &data);
        assert_int_equal(data.kind, AGENT_DATA_SSHSIG);
        assert_true(str_is(data.name, "git"));
        for (size_t n = 0; n < out.n; n++) {
                agent_data_parse(str_first(buf_str(&out), n), &data);
                assert_int_equal(data.kind, AGENT_DATA_OTHER);
        }
}

static void tables(void **state) {
        struct agent_keys keys;
        char fingerprint[AGENT_FINGERPRINT_MAX];
        (void)state;

        /* SHA-256 of "key" */
        assert_int_equal(
            agent_keys_read(STR("key 2c70e12b7a0646f92279f427c7b38e7334d8e5389cff167a1dc30e73f826b683 -\n"
                                "host 4740ae6347b0172c01254ff55bae5aff5199f4446e7f6d643d40185b3f475145 h:22\n"
                                "sign free\n"),
                            &keys),
            0);
        assert_true(keys.sign);
        assert_non_null(agent_keys_find(&keys, STR("key"), false));
        assert_null(agent_keys_find(&keys, STR("key"), true));
        assert_null(agent_keys_find(&keys, STR("other"), false));
        const struct agent_key *host = agent_keys_find(&keys, STR("host"), true);
        assert_non_null(host);
        assert_string_equal(host->name, "h:22");
        agent_keys_done(&keys);
        assert_int_equal(agent_keys_read(STR("key x -\n"), &keys), -EBADMSG);
        assert_int_equal(agent_keys_read(STR("word\n"), &keys), -EBADMSG);
        agent_fingerprint(STR("key"), fingerprint);
        assert_string_equal(fingerprint, "SHA256:LHDhK3oGRvkiefQnx7OOczTY5Tic/xZ6HcMOc/gmtoM");
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(logins),
                cmocka_unit_test(signatures),
                cmocka_unit_test(tables),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
