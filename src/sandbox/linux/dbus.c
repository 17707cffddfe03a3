/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/linux/dbus.h"

#include <errno.h>
#include <string.h>

enum { FIXED = 16, BODY_LENGTH_AT = 4, NAME_MAX_BYTES = 255 };
enum {
        FIELD_PATH = 1,
        FIELD_INTERFACE,
        FIELD_MEMBER,
        FIELD_ERROR,
        FIELD_REPLY_TO,
        FIELD_DESTINATION,
        FIELD_SIGNATURE = 8
};

static void dbus_put(struct dbus_out *out, const void *p, size_t n) {
        if (!out->error)
                out->error = buf_append(&out->bytes, str_n(p, n));
}

static void put_byte(struct dbus_out *out, uint8_t value) {
        dbus_put(out, &value, 1);
}

static void dbus_pad(struct dbus_out *out, size_t alignment) {
        static const char zeros[8];
        dbus_put(out, zeros, -out->bytes.n & (alignment - 1));
}

/* Little-endian on every machine; the first byte of the message says so. */
static void dbus_little(uint8_t *ret, uint64_t value, size_t n) {
        for (size_t i = 0; i < n; i++)
                ret[i] = (uint8_t)(value >> (8 * i));
}

void dbus_put_u32(struct dbus_out *out, uint32_t value) {
        uint8_t bytes[4];
        dbus_little(bytes, value, sizeof bytes);
        dbus_pad(out, sizeof bytes);
        dbus_put(out, bytes, sizeof bytes);
}

void dbus_put_u64(struct dbus_out *out, uint64_t value) {
        uint8_t bytes[8];
        dbus_little(bytes, value, sizeof bytes);
        dbus_pad(out, sizeof bytes);
        dbus_put(out, bytes, sizeof bytes);
}

void dbus_put_string(struct dbus_out *out, const char *text) {
        size_t n = strlen(text);
        if (n >= DBUS_MESSAGE_MAX) {
                if (!out->error)
                        out->error = -EMSGSIZE;
                return;
        }
        dbus_put_u32(out, (uint32_t)n);
        dbus_put(out, text, n + 1);
}

void dbus_put_signature(struct dbus_out *out, const char *text) {
        size_t n = strlen(text);
        if (n > NAME_MAX_BYTES) {
                if (!out->error)
                        out->error = -EMSGSIZE;
                return;
        }
        put_byte(out, (uint8_t)n);
        dbus_put(out, text, n + 1);
}

void dbus_put_struct(struct dbus_out *out) {
        dbus_pad(out, 8);
}

struct dbus_array dbus_array_begin(struct dbus_out *out, size_t alignment) {
        struct dbus_array array = { 0 };
        dbus_put_u32(out, 0);
        array.length_at = out->bytes.n - sizeof(uint32_t);
        dbus_pad(out, alignment); /* there even when the array is empty, and not counted */
        array.begin = out->bytes.n;
        return array;
}

static void set_u32(struct dbus_out *out, size_t at, size_t value) {
        if (!out->error)
                dbus_little((uint8_t *)out->bytes.p + at, value, sizeof(uint32_t));
}

void dbus_array_end(struct dbus_out *out, struct dbus_array array) {
        set_u32(out, array.length_at, out->bytes.n - array.begin);
}

static void put_field(struct dbus_out *out, uint8_t field, char type, const char *text) {
        dbus_put_struct(out);
        put_byte(out, field);
        dbus_put_signature(out, (const char[]){ type, '\0' });
        if (type == 'g')
                dbus_put_signature(out, text);
        else
                dbus_put_string(out, text);
}

void dbus_begin(struct dbus_out *out, const struct dbus_call *call) {
        dbus_put(out, (const uint8_t[]){ 'l', DBUS_CALL, 0 /* flags */, 1 /* version */ }, 4);
        dbus_put_u32(out, 0); /* length of the body: dbus_end() */
        dbus_put_u32(out, call->serial);

        struct dbus_array fields = dbus_array_begin(out, 8);
        put_field(out, FIELD_PATH, 'o', call->path);
        put_field(out, FIELD_INTERFACE, 's', call->interface);
        put_field(out, FIELD_MEMBER, 's', call->member);
        put_field(out, FIELD_DESTINATION, 's', call->destination);

        if (call->signature)
                put_field(out, FIELD_SIGNATURE, 'g', call->signature);

        dbus_array_end(out, fields);
        dbus_pad(out, 8);
        out->body = out->bytes.n;
}

int dbus_end(struct dbus_out *out) {
        set_u32(out, BODY_LENGTH_AT, out->bytes.n - out->body);
        return out->error;
}

/* What is read: positions count from the message's first byte, as alignment does. */
struct in {
        const uint8_t *p;
        size_t at, end;
        bool big;
};

static bool dbus_align(struct in *in, size_t alignment) {
        size_t gap = -in->at & (alignment - 1);
        if (gap > in->end - in->at)
                return false;
        in->at += gap;
        return true;
}

static bool get_byte(struct in *in, uint8_t *ret) {
        if (in->at == in->end)
                return false;
        *ret = in->p[in->at++];
        return true;
}

static uint32_t u32_at(const struct in *in, size_t at) {
        uint32_t value = 0;
        for (size_t i = 0; i < sizeof value; i++)
                value |= (uint32_t)in->p[at + i] << (8 * (in->big ? 3 - i : i));
        return value;
}

static bool get_u32(struct in *in, uint32_t *ret) {
        if (!dbus_align(in, sizeof *ret) || in->end - in->at < sizeof *ret)
                return false;
        *ret = u32_at(in, in->at);
        in->at += sizeof *ret;
        return true;
}

/* n bytes and the zero after them. */
static bool get_text(struct in *in, size_t n, struct str *ret) {
        if (n >= in->end - in->at || in->p[in->at + n] != 0)
                return false;
        *ret = str_n(in->p + in->at, n);
        in->at += n + 1;
        return !str_has_nul(*ret);
}

static bool get_signature(struct in *in, struct str *ret) {
        uint8_t n;
        return get_byte(in, &n) && get_text(in, n, ret);
}

static bool is_name(struct str s) {
        for (size_t i = 0; i < s.n; i++)
                if (!ascii_is_alnum(s.p[i]) && s.p[i] != '.' && s.p[i] != '_')
                        return false;
        return s.n > 0 && s.n <= NAME_MAX_BYTES;
}

/* The fields that there are have one of four types; a message with another one is not for us. */
static bool get_field(struct in *in, struct dbus_message *message) {
        uint8_t field;
        struct str type, text = { 0 };
        uint32_t number = 0;

        if (!dbus_align(in, 8) || !get_byte(in, &field) || !get_signature(in, &type))
                return false;

        bool is_text = str_is(type, "s") || str_is(type, "o"), is_number = str_is(type, "u");
        if (is_text || is_number) {
                if (!get_u32(in, &number) || (is_text && !get_text(in, number, &text)))
                        return false;
        } else if (!str_is(type, "g") || !get_signature(in, &text)) {
                return false;
        }

        if (field == FIELD_REPLY_TO) {
                message->reply_to = number;
                return is_number && number > 0;
        }

        if (field == FIELD_ERROR) {
                message->error = text;
                return is_text && is_name(text);
        }

        return field > 0;
}

ssize_t dbus_parse(struct str bytes, struct dbus_message *ret) {
        struct in in = { .p = (const uint8_t *)bytes.p, .end = bytes.n };

        *ret = (struct dbus_message){ 0 };
        if (bytes.n < FIXED)
                return 0;

        in.big = in.p[0] == 'B';
        if ((!in.big && in.p[0] != 'l') || in.p[1] == 0 || in.p[3] != 1 || u32_at(&in, 8) == 0)
                return -EBADMSG;

        uint64_t body = u32_at(&in, BODY_LENGTH_AT), fields = u32_at(&in, 12);
        uint64_t whole = FIXED + ((fields + 7) & ~UINT64_C(7)) + body;
        if (whole > DBUS_MESSAGE_MAX)
                return -EMSGSIZE;
        if (whole > bytes.n)
                return 0;

        in.at = FIXED;
        in.end = FIXED + (size_t)fields;
        ret->type = in.p[1];

        while (in.at < in.end)
                if (!get_field(&in, ret))
                        return -EBADMSG;

        bool answers = ret->type == DBUS_RETURN || ret->type == DBUS_ERROR;
        if ((answers && !ret->reply_to) || (ret->type == DBUS_ERROR && !ret->error.n))
                return -EBADMSG;

        return (ssize_t)whole;
}
