/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/git/gitindex.h"

#include "base/buf.h"
#include "base/cleanup.h"

#include <errno.h>

enum {
        HEADER = 12,
        FIXED = 40, /* of an entry: times, device, inode, mode, owner, size */
        MODE_AT = 24,
        MODE_LINK = 0160000,
        MODE_KIND = 0170000,
        FLAG_EXTENDED = 0x4000,
        NAME_BYTES_MAX = 65536,
};

static uint32_t number_at(struct str bytes, size_t at) {
        const unsigned char *p = (const unsigned char *)bytes.p + at;
        return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* How many bytes of the name before are left out: as pack files write offsets. */
static bool read_varint(struct str *rest, size_t *ret) {
        size_t value = 0;

        for (unsigned n = 0; rest->n && n < 4; n++) {
                unsigned char c = (unsigned char)rest->p[0];

                *rest = str_skip(*rest, 1);
                value = n ? ((value + 1) << 7 | (c & 0x7f)) : (c & 0x7f);

                if (!(c & 0x80)) {
                        *ret = value;
                        return true;
                }
        }

        return false;
}

struct index_reader {
        struct str rest;
        uint32_t version;
        unsigned hash;
        struct buf name; /* of the entry that was read last */
};

static int read_name(struct index_reader *reader, size_t before) {
        size_t strip = reader->name.n;
        struct str whole = reader->rest, suffix;
        ptrdiff_t end;

        if (reader->version == 4 && (!read_varint(&reader->rest, &strip) || strip > reader->name.n))
                return -EBADMSG;

        end = str_find(reader->rest, '\0');
        if (end < 0)
                return -EBADMSG;

        suffix = str_first(reader->rest, (size_t)end);
        reader->name.n -= reader->version == 4 ? strip : reader->name.n;
        if (buf_append(&reader->name, suffix) < 0)
                return -EBADMSG;

        if (reader->version == 4) {
                reader->rest = str_skip(reader->rest, (size_t)end + 1);
                return 0;
        }

        size_t padded = (before + (size_t)end + 8) / 8 * 8; /* one to eight NULs behind the name */
        if (padded - before > whole.n)
                return -EBADMSG;

        reader->rest = str_skip(whole, padded - before);
        return 0;
}

static int read_entry(struct index_reader *reader, uint32_t *ret_mode) {
        size_t fixed = (size_t)FIXED + reader->hash + 2;

        if (reader->rest.n < fixed + 2)
                return -EBADMSG;

        *ret_mode = number_at(reader->rest, MODE_AT);
        bool extended = (number_at(reader->rest, FIXED + reader->hash - 2) & FLAG_EXTENDED) && reader->version >= 3;
        fixed += extended ? 2 : 0;
        reader->rest = str_skip(reader->rest, fixed);

        return read_name(reader, fixed);
}

int gitindex_links(struct str bytes, unsigned hash, gitindex_each *each, void *context) {
        struct index_reader reader = { .rest = bytes, .hash = hash, .name = BUF(NAME_BYTES_MAX) };
        int r = 0;

        if (bytes.n < HEADER || !str_starts(bytes, STR("DIRC")) || (hash != 20 && hash != 32))
                return -EBADMSG;

        reader.version = number_at(bytes, 4);
        if (reader.version < 2 || reader.version > 4)
                return -EBADMSG;

        uint32_t count = number_at(bytes, 8);
        reader.rest = str_skip(bytes, HEADER);

        for (uint32_t i = 0; i < count && r == 0; i++) {
                uint32_t mode = 0;

                r = read_entry(&reader, &mode);
                if (r == 0 && (mode & MODE_KIND) == MODE_LINK && reader.name.n)
                        r = each(buf_str(&reader.name), context);
        }

        buf_done(&reader.name);
        return r;
}
