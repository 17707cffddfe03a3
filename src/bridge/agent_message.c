/* SPDX-License-Identifier: Apache-2.0 */
#include "bridge/agent_message.h"

#include <errno.h>

enum { USERAUTH_REQUEST = 50, SESSION_MAX = 128, SHA256_N = 32, SHA512_N = 64 };

static uint32_t number_at(const char *p) {
        const unsigned char *b = (const unsigned char *)p;

        return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

bool agent_take_number(struct str *bytes, uint32_t *ret) {
        if (bytes->n < 4)
                return false;
        *ret = number_at(bytes->p);
        *bytes = str_skip(*bytes, 4);
        return true;
}

bool agent_take_string(struct str *bytes, struct str *ret) {
        struct str rest = *bytes;
        uint32_t n;

        if (!agent_take_number(&rest, &n) || n > rest.n)
                return false;

        *ret = str_first(rest, n);
        *bytes = str_skip(rest, n);

        return true;
}

static bool take_byte(struct str *bytes, unsigned *ret) {
        if (bytes->n == 0)
                return false;
        *ret = (unsigned char)bytes->p[0];
        *bytes = str_skip(*bytes, 1);
        return true;
}

int agent_message_read(struct str bytes, struct agent_message *ret) {
        uint32_t n;

        *ret = (struct agent_message){ 0 };
        if (bytes.n < 4)
                return 0;

        n = number_at(bytes.p);
        if (n == 0 || n > AGENT_MESSAGE_MAX)
                return -EBADMSG;
        if (bytes.n - 4 < n)
                return 0;

        ret->type = (uint8_t)bytes.p[4];
        ret->body = str_first(str_skip(bytes, AGENT_HEAD), n - 1);
        ret->bytes = 4 + (size_t)n;

        return 1;
}

bool agent_sign_parse(struct str body, struct agent_sign *ret) {
        return agent_take_string(&body, &ret->key) && agent_take_string(&body, &ret->data) &&
               agent_take_number(&body, &ret->flags) && body.n == 0;
}

bool agent_bind_parse(struct str body, struct agent_bind *ret) {
        struct str name;
        unsigned forwarding;

        if (!agent_take_string(&body, &name) || !str_is(name, "session-bind@openssh.com"))
                return false;

        if (!agent_take_string(&body, &ret->host_key) || !agent_take_string(&body, &ret->session) ||
            !agent_take_string(&body, &ret->signature) || !take_byte(&body, &forwarding) || body.n > 0)
                return false;

        ret->forwarding = forwarding != 0;
        return ret->host_key.n > 0 && ret->session.n > 0 && ret->session.n <= SESSION_MAX;
}

/* --- what is signed --- */

static bool login_parse(struct str data, struct agent_data *ret) {
        struct str service, method, algorithm;
        unsigned type, has_signature;
        bool bound;

        if (!agent_take_string(&data, &ret->session) || !take_byte(&data, &type) || type != USERAUTH_REQUEST ||
            !agent_take_string(&data, &ret->user) || !agent_take_string(&data, &service) ||
            !agent_take_string(&data, &method) || !take_byte(&data, &has_signature) || has_signature != 1 ||
            !agent_take_string(&data, &algorithm) || !agent_take_string(&data, &ret->key))
                return false;

        bound = str_is(method, "publickey-hostbound-v00@openssh.com");
        if (bound && (!agent_take_string(&data, &ret->host_key) || ret->host_key.n == 0))
                return false;

        return (bound || str_is(method, "publickey")) && str_is(service, "ssh-connection") && data.n == 0 &&
               ret->session.n > 0 && ret->session.n <= SESSION_MAX;
}

static bool sshsig_parse(struct str data, struct agent_data *ret) {
        const struct str mark = STR("SSHSIG");
        struct str reserved, hash, digest;

        if (!str_starts(data, mark))
                return false;

        data = str_skip(data, mark.n);
        if (!agent_take_string(&data, &ret->name) || !agent_take_string(&data, &reserved) ||
            !agent_take_string(&data, &hash) || !agent_take_string(&data, &digest) || data.n > 0 || reserved.n > 0)
                return false;

        return (str_is(hash, "sha256") && digest.n == SHA256_N) || (str_is(hash, "sha512") && digest.n == SHA512_N);
}

void agent_data_parse(struct str data, struct agent_data *ret) {
        *ret = (struct agent_data){ 0 };
        if (sshsig_parse(data, ret)) {
                ret->kind = AGENT_DATA_SSHSIG;
                return;
        }

        *ret = (struct agent_data){ 0 };
        if (login_parse(data, ret))
                ret->kind = AGENT_DATA_LOGIN;
        else
                *ret = (struct agent_data){ 0 };
}

bool agent_take_identity(struct str *list, struct agent_identity *ret) {
        return agent_take_string(list, &ret->key) && agent_take_string(list, &ret->comment);
}
