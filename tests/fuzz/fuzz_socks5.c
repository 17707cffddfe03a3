/* SPDX-License-Identifier: Apache-2.0 */
/* What is understood does not depend on how the bytes arrive, fits its buffer, and can be written again and read back.
 */
#include "base/cleanup.h"
#include "fuzz.h"
#include "gateway/wire/socks5_wire.h"

static void check_request(struct str in) {
        size_t used = 0, early_used = 0;
        struct authority target, early_target;
        enum socks5_reply reply = 0, early_reply = 0;
        enum socks5_result r = socks5_request(in, &used, &target, &reply, NULL), early = SOCKS5_MORE;
        for (size_t n = 0; n <= in.n && early == SOCKS5_MORE; n++)
                early = socks5_request(str_first(in, n), &early_used, &early_target, &early_reply, NULL);
        FUZZ_CHECK(r == early);
        if (r == SOCKS5_SAY)
                FUZZ_CHECK(reply == early_reply && reply >= SOCKS5_FAILURE && reply <= SOCKS5_BAD_ADDRESS_TYPE);
        if (r != SOCKS5_OK)
                return;
        FUZZ_CHECK(used == early_used && used <= in.n && used <= SOCKS5_MESSAGE_MAX);
        FUZZ_CHECK(target.port != 0 && target.host.name_n > 0 && !str_has_nul(host_str(&target.host)));
        FUZZ_CHECK(host_equal(&target.host, &early_target.host));
        cleanup(buf_done) struct buf out = BUF(SOCKS5_MESSAGE_MAX);
        struct authority again;
        FUZZ_CHECK(socks5_put_request(&out, &target) == 0);
        FUZZ_CHECK(socks5_request(buf_str(&out), &used, &again, &reply, NULL) == SOCKS5_OK && used == out.n);
        FUZZ_CHECK(again.port == target.port && host_equal(&again.host, &target.host));
}

static void check_password(struct str in) {
        struct str user = { 0 }, password = { 0 }, again_user, again_password;
        size_t used = 0, early_used = 0;
        enum socks5_result r = socks5_password(in, &used, &user, &password), early = SOCKS5_MORE;
        for (size_t n = 0; n <= in.n && early == SOCKS5_MORE; n++)
                early = socks5_password(str_first(in, n), &early_used, &again_user, &again_password);
        FUZZ_CHECK(r == early);
        if (r != SOCKS5_OK)
                return;
        FUZZ_CHECK(used == early_used && used <= in.n && used == 3 + user.n + password.n);
        if (user.n == 0)
                return; /* is never written */
        cleanup(buf_done) struct buf out = BUF(2 * SOCKS5_MESSAGE_MAX);
        FUZZ_CHECK(socks5_put_password(&out, user, password) == 0 && str_eq(buf_str(&out), str_first(in, used)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct str in = str_n(data, size);
        size_t used = 0;
        struct socks5_methods offered;
        uint8_t method;
        enum socks5_reply reply;
        check_request(in);
        check_password(in);
        if (socks5_greeting(in, &used, &offered) == SOCKS5_OK) {
                FUZZ_CHECK(used >= 2 && used <= size && used <= SOCKS5_MESSAGE_MAX);
                check_request(str_skip(in, used));
        }
        if (socks5_answer(in, &used, &reply) == SOCKS5_OK)
                FUZZ_CHECK(used <= size);
        if (socks5_choice(in, &used, &method) == SOCKS5_OK)
                FUZZ_CHECK(used == 2);
        socks5_password_result(in, &used);
        return 0;
}
