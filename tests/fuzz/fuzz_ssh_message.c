/* SPDX-License-Identifier: Apache-2.0 */
/* Words of a message lie in it; a command line that is understood is one that can be asked for and read again, and
 * names nothing that a shell or ssh could take for something else. */
#include "bridge/sign_payload.h"
#include "bridge/ssh_command.h"
#include "bridge/ssh_message.h"
#include "fuzz.h"

static void check_command(const struct ssh_message *m) {
        struct ssh_command command, again;
        char text[256];

        if (m->n == 0 || ssh_command_parse(m->words[0], m->words + 1, m->n - 1, &command, NULL) < 0)
                return;
        FUZZ_CHECK(command.user[0] != '-' && command.target.host.name[0] != '-' && command.path.p[0] != '-');
        for (const char *at = command.sent_path; *at; at++)
                FUZZ_CHECK(*at > ' ' && *at < 0x7f && !strchr("'\"\\$`;&|<>(){}*?[]#!\n", *at));
        FUZZ_CHECK(!strstr(command.sent_path, "..") || strstr(command.sent_path, "../") != command.sent_path);
        FUZZ_CHECK(ssh_request_write(&command, text, sizeof text) == 0);
        FUZZ_CHECK(ssh_request_read(str_of(text), &command.target, &again) == 0);
        FUZZ_CHECK(again.service == command.service && strcmp(again.user, command.user) == 0 &&
                   str_eq(again.path, command.path) && strcmp(again.sent_path, command.sent_path) == 0 &&
                   again.protocol == command.protocol && again.family == command.family);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct str bytes = str_n(data, size), key;
        struct ssh_message m;
        int r = ssh_message_read(bytes, &m);

        (void)sign_payload_kind(bytes);
        if (r <= 0)
                return 0;
        FUZZ_CHECK(m.bytes <= size && m.n <= SSH_MESSAGE_WORDS);
        for (size_t i = 0; i < m.n; i++)
                FUZZ_CHECK(m.words[i].p >= (const char *)data &&
                           m.words[i].p + m.words[i].n < (const char *)data + size);
        if (m.kind == SSH_MESSAGE_SSH)
                check_command(&m);
        else if (sign_gpg_parse(m.words, m.n, &key))
                FUZZ_CHECK(key.n > 0 && key.p[0] != '-');
        return 0;
}
