/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of a bus: what is found lies within the bytes, and no part of a message passes for a whole one. */
#include "fuzz.h"
#include "sandbox/linux/dbus.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
        struct dbus_message m, again;
        ssize_t r = dbus_parse(str_n(data, n), &m);
        if (r <= 0)
                return 0;
        const char *begin = (const char *)data;
        FUZZ_CHECK((size_t)r >= 16 && (size_t)r <= n && r <= DBUS_MESSAGE_MAX);
        FUZZ_CHECK(m.error.n == 0 || (m.error.p >= begin && m.error.p + m.error.n < begin + r));
        FUZZ_CHECK(m.type != DBUS_ERROR || m.error.n > 0);
        FUZZ_CHECK((m.type != DBUS_RETURN && m.type != DBUS_ERROR) || m.reply_to > 0);
        FUZZ_CHECK(dbus_parse(str_n(data, (size_t)r), &again) == r && again.reply_to == m.reply_to);
        FUZZ_CHECK(dbus_parse(str_n(data, (size_t)r - 1), &again) == 0);
        return 0;
}
