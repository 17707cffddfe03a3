/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/match/addr.h"

#include <assert.h>
#include <stdio.h>

static uint32_t load_be32(const uint8_t *p) {
        return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static uint64_t load_be64(const uint8_t *p) {
        return (uint64_t)load_be32(p) << 32 | load_be32(p + 4);
}

/* --- text --- */

/* Four decimal parts without leading zeros: what some parsers read as octal, hexadecimal or short forms is no address.
 */
static bool parse_v4(struct str s, uint8_t ret[static 4]) {
        size_t i = 0;

        for (int part = 0; part < 4; part++) {
                if (part > 0 && (i >= s.n || s.p[i++] != '.'))
                        return false;

                unsigned value = 0;
                size_t first = i;
                for (; i < s.n && i - first < 3 && ascii_is_digit(s.p[i]); i++)
                        value = value * 10 + (unsigned)(s.p[i] - '0');

                if (i == first || value > 255 || (i - first > 1 && s.p[first] == '0'))
                        return false;

                ret[part] = (uint8_t)value;
        }

        return i == s.n;
}

static bool parse_v6_group(struct str s, uint8_t ret[static 2]) {
        unsigned value = 0;

        if (s.n < 1 || s.n > 4)
                return false;

        for (size_t i = 0; i < s.n; i++) {
                int digit = ascii_hex(s.p[i]);
                if (digit < 0)
                        return false;
                value = value << 4 | (unsigned)digit;
        }

        ret[0] = (uint8_t)(value >> 8);
        ret[1] = (uint8_t)value;

        return true;
}

static bool parse_v6(struct str s, uint8_t ret[static 16]) {
        uint8_t bytes[16] = { 0 };
        size_t n = 0;
        ptrdiff_t gap = -1; /* where "::" stands */

        if (str_starts(s, STR("::"))) {
                gap = 0;
                s = str_skip(s, 2);
        }

        while (s.n > 0) {
                ptrdiff_t colon = str_find(s, ':');

                if (n == 16)
                        return false;

                if (colon < 0 && str_find(s, '.') >= 0) { /* the last four bytes as a dotted quad */
                        if (n > 12 || !parse_v4(s, bytes + n))
                                return false;
                        n += 4;
                        break;
                }

                if (!parse_v6_group(colon < 0 ? s : str_first(s, (size_t)colon), bytes + n))
                        return false;

                n += 2;
                if (colon < 0)
                        break;

                s = str_skip(s, (size_t)colon + 1);
                if (s.n == 0)
                        return false; /* ends in a single colon */

                if (s.p[0] == ':') {
                        if (gap >= 0)
                                return false;
                        gap = (ptrdiff_t)n;
                        s = str_skip(s, 1);
                }
        }

        if (gap < 0 ? n != 16 : n > 14)
                return false;

        if (gap >= 0) {
                size_t tail = n - (size_t)gap;

                memmove(bytes + 16 - tail, bytes + gap, tail);
                memset(bytes + gap, 0, 16 - n);
        }

        memcpy(ret, bytes, 16);
        return true;
}

bool addr_parse(struct str s, struct addr *ret) {
        struct addr addr = { 0 };
        if (parse_v4(s, addr.bytes))
                addr.family = ADDR_V4;
        else if (parse_v6(s, addr.bytes))
                addr.family = ADDR_V6;
        else
                return false;

        *ret = addr;
        return true;
}

static bool host_bits_clear(const struct cidr *net) {
        unsigned bits = net->bits, bytes = addr_bits(&net->addr) / 8;
        for (unsigned i = bits / 8; i < bytes; i++) {
                unsigned kept = i == bits / 8 ? bits % 8 : 0;
                if (net->addr.bytes[i] & (0xffU >> kept))
                        return false;
        }
        return true;
}

bool cidr_parse(struct str s, struct cidr *ret) {
        struct cidr net = { 0 };
        ptrdiff_t slash = str_find(s, '/');
        if (!addr_parse(slash < 0 ? s : str_first(s, (size_t)slash), &net.addr))
                return false;

        uint64_t bits = addr_bits(&net.addr);

        if (slash >= 0) {
                struct str length = str_skip(s, (size_t)slash + 1);
                if ((length.n > 1 && length.p[0] == '0') || !str_to_u64(length, bits, &bits))
                        return false;
        }

        net.bits = (uint8_t)bits;
        if (!host_bits_clear(&net))
                return false;

        *ret = net;
        return true;
}

/* The longest run of two or more zero groups, the first one among equals (RFC 5952). */
static void longest_zero_run(const uint8_t *bytes, int *ret_first, int *ret_length) {
        *ret_first = -1;
        *ret_length = 1;

        for (int i = 0; i < 8;) {
                int end = i;
                while (end < 8 && bytes[2 * end] == 0 && bytes[2 * end + 1] == 0)
                        end++;

                if (end - i > *ret_length) {
                        *ret_first = i;
                        *ret_length = end - i;
                }

                i = end + 1;
        }
}

static bool is_mapped(const uint8_t *bytes) {
        return load_be64(bytes) == 0 && load_be32(bytes + 8) == 0xffff;
}

static void v6_text(const uint8_t *bytes, char ret[static ADDR_TEXT_MAX]) {
        int run, run_n, n = 0;

        if (is_mapped(bytes)) {
                snprintf(ret, ADDR_TEXT_MAX, "::ffff:%u.%u.%u.%u", bytes[12], bytes[13], bytes[14], bytes[15]);
                return;
        }

        longest_zero_run(bytes, &run, &run_n);

        for (int i = 0; i < 8; i++) {
                if (i == run) {
                        n += snprintf(ret + n, (size_t)(ADDR_TEXT_MAX - n), "::");
                        i += run_n - 1;
                        continue;
                }

                const char *colon = i > 0 && i != run + run_n ? ":" : "";
                n += snprintf(ret + n, (size_t)(ADDR_TEXT_MAX - n), "%s%x", colon,
                              (unsigned)bytes[2 * i] << 8 | bytes[2 * i + 1]);
        }
}

/* By hand: it runs for every record. */
static void v4_text(const uint8_t bytes[static 4], char *ret) {
        for (int i = 0; i < 4; i++) {
                if (bytes[i] >= 100)
                        *ret++ = (char)('0' + bytes[i] / 100);
                if (bytes[i] >= 10)
                        *ret++ = (char)('0' + bytes[i] / 10 % 10);

                *ret++ = (char)('0' + bytes[i] % 10);
                *ret++ = i < 3 ? '.' : '\0';
        }
}

void addr_text(const struct addr *addr, char ret[static ADDR_TEXT_MAX]) {
        if (addr->family == ADDR_V4)
                v4_text(addr->bytes, ret);
        else if (addr->family == ADDR_V6)
                v6_text(addr->bytes, ret);
        else
                snprintf(ret, ADDR_TEXT_MAX, "none");
}

void cidr_text(const struct cidr *net, char ret[static CIDR_TEXT_MAX]) {
        char text[ADDR_TEXT_MAX];
        addr_text(&net->addr, text);
        if (net->bits == addr_bits(&net->addr))
                snprintf(ret, CIDR_TEXT_MAX, "%s", text);
        else
                snprintf(ret, CIDR_TEXT_MAX, "%s/%u", text, net->bits);
}

bool addr_equal(const struct addr *a, const struct addr *b) {
        return a->family == b->family && memcmp(a->bytes, b->bytes, addr_bits(a) / 8) == 0;
}

bool cidr_contains(const struct cidr *net, const struct addr *addr) {
        unsigned whole = net->bits / 8, rest = net->bits % 8;
        if (net->addr.family != addr->family || memcmp(net->addr.bytes, addr->bytes, whole) != 0)
                return false;
        return rest == 0 || ((net->addr.bytes[whole] ^ addr->bytes[whole]) & (0xff00U >> rest) & 0xff) == 0;
}

/* --- classes --- */

/* Checked from the top: the narrower block stands before the wider one. Metadata services of the clouds come first. */
static const struct {
        uint32_t net;
        uint8_t bits, class;
} special_v4[] = {
        { 0xa9fea9fe, 32, ADDR_CLASS_METADATA },      /* 169.254.169.254: nearly all clouds */
        { 0xa9feaa02, 32, ADDR_CLASS_METADATA },      /* 169.254.170.2: ECS task credentials */
        { 0xa9feaa17, 32, ADDR_CLASS_METADATA },      /* 169.254.170.23: EKS pod identity */
        { 0x646464c8, 32, ADDR_CLASS_METADATA },      /* 100.100.100.200: Alibaba */
        { 0xa83f8110, 32, ADDR_CLASS_METADATA },      /* 168.63.129.16: Azure */
        { 0xc00000c0, 32, ADDR_CLASS_METADATA },      /* 192.0.0.192: Oracle */
        { 0x00000000, 8, ADDR_CLASS_UNSPECIFIED },    /* 0/8 */
        { 0x0a000000, 8, ADDR_CLASS_PRIVATE },        /* 10/8 */
        { 0x64400000, 10, ADDR_CLASS_SHARED },        /* 100.64/10 */
        { 0x7f000000, 8, ADDR_CLASS_LOOPBACK },       /* 127/8 */
        { 0xa9fe0000, 16, ADDR_CLASS_LINK_LOCAL },    /* 169.254/16 */
        { 0xac100000, 12, ADDR_CLASS_PRIVATE },       /* 172.16/12 */
        { 0xc0000000, 24, ADDR_CLASS_RESERVED },      /* 192.0.0/24: protocol assignments */
        { 0xc0000200, 24, ADDR_CLASS_DOCUMENTATION }, /* 192.0.2/24 */
        { 0xc0586300, 24, ADDR_CLASS_RESERVED },      /* 192.88.99/24: 6to4 relays */
        { 0xc0a80000, 16, ADDR_CLASS_PRIVATE },       /* 192.168/16 */
        { 0xc6120000, 15, ADDR_CLASS_RESERVED },      /* 198.18/15: benchmarks */
        { 0xc6336400, 24, ADDR_CLASS_DOCUMENTATION }, /* 198.51.100/24 */
        { 0xcb007100, 24, ADDR_CLASS_DOCUMENTATION }, /* 203.0.113/24 */
        { 0xe0000000, 4, ADDR_CLASS_MULTICAST },      /* 224/4 */
        { 0xf0000000, 4, ADDR_CLASS_RESERVED },       /* 240/4 and broadcast */
};

/* By the upper 64 bits. What stands in no row is public inside 2000::/3 and reserved outside. */
static const struct {
        uint64_t net;
        uint8_t bits, class;
} special_v6[] = {
        { 0x2001000000000000, 23, ADDR_CLASS_RESERVED },      /* 2001::/23: Teredo, ORCHID and the like */
        { 0x20010db800000000, 32, ADDR_CLASS_DOCUMENTATION }, /* 2001:db8::/32 */
        { 0x2002000000000000, 16, ADDR_CLASS_RESERVED },      /* 2002::/16: 6to4 */
        { 0x3fff000000000000, 20, ADDR_CLASS_DOCUMENTATION }, /* 3fff::/20 */
        { 0xfc00000000000000, 7, ADDR_CLASS_PRIVATE },        /* fc00::/7 */
        { 0xfe80000000000000, 10, ADDR_CLASS_LINK_LOCAL },    /* fe80::/10 */
        { 0xfec0000000000000, 10, ADDR_CLASS_PRIVATE },       /* fec0::/10: site-local of old */
        { 0xff00000000000000, 8, ADDR_CLASS_MULTICAST },      /* ff00::/8 */
};

static enum addr_class classify_v4(const uint8_t *bytes) {
        uint32_t a = load_be32(bytes);
        for (size_t i = 0; i < sizeof special_v4 / sizeof special_v4[0]; i++)
                if ((a ^ special_v4[i].net) >> (32 - special_v4[i].bits) == 0)
                        return special_v4[i].class;
        return ADDR_CLASS_PUBLIC;
}

static enum addr_class classify_v6(const uint8_t *bytes) {
        uint64_t high = load_be64(bytes), low = load_be64(bytes + 8);
        if (high == 0 && low <= 1)
                return low ? ADDR_CLASS_LOOPBACK : ADDR_CLASS_UNSPECIFIED;
        if (high == 0xfd000ec200000000 && (low == 0x254 || low == 0x23)) /* EC2 and EKS */
                return ADDR_CLASS_METADATA;

        for (size_t i = 0; i < sizeof special_v6 / sizeof special_v6[0]; i++)
                if ((high ^ special_v6[i].net) >> (64 - special_v6[i].bits) == 0)
                        return special_v6[i].class;

        if (high >> 61 == 1)
                return ADDR_CLASS_PUBLIC;

        return ADDR_CLASS_RESERVED;
}

enum addr_class addr_classify_outer(const struct addr *addr) {
        switch (addr->family) {
        case ADDR_V4:
                return classify_v4(addr->bytes);
        case ADDR_V6:
                return classify_v6(addr->bytes);
        default:
                return ADDR_CLASS_RESERVED; /* no address at all is never public */
        }
}

static void add_embedded(const struct addr *addr, const uint8_t at[static 4], struct addr *ret, size_t *n) {
        struct addr v4 = { .family = ADDR_V4 };
        for (int i = 0; i < 4; i++)
                v4.bytes[i] = addr->bytes[at[i]];
        ret[(*n)++] = v4;
}

size_t addr_embedded_v4(const struct addr *addr, struct addr ret[static ADDR_EMBEDDED_MAX]) {
        static const uint8_t at_end[] = { 12, 13, 14, 15 }, after_16[] = { 2, 3, 4, 5 };

        /* RFC 6052, for a prefix of 48, 56 and 64 bits: byte 8 is skipped. */
        static const uint8_t after_48[] = { 6, 7, 9, 10 }, after_56[] = { 7, 9, 10, 11 },
                             after_64[] = { 9, 10, 11, 12 };
        static_assert(ADDR_EMBEDDED_MAX >= 4, "one for each place in the local-use NAT64 block");
        size_t n = 0;

        if (addr->family != ADDR_V6)
                return 0;

        uint64_t high = load_be64(addr->bytes);
        uint32_t third = load_be32(addr->bytes + 8), last = load_be32(addr->bytes + 12);
        bool mapped = high == 0 && third == 0xffff;
        bool translated = high == 0 && third == 0xffff0000;
        bool compatible = high == 0 && third == 0 && last > 1;
        bool nat64 = high == 0x0064ff9b00000000 && third == 0;
        if (mapped || translated || compatible || nat64) {
                add_embedded(addr, at_end, ret, &n);
        } else if (high >> 48 == 0x2002) {
                add_embedded(addr, after_16, ret, &n);
        } else if (high >> 16 == 0x0064ff9b0001) {
                add_embedded(addr, at_end, ret, &n);
                add_embedded(addr, after_48, ret, &n);
                add_embedded(addr, after_56, ret, &n);
                add_embedded(addr, after_64, ret, &n);
        }

        return n;
}

enum addr_class addr_classify(const struct addr *addr) {
        struct addr inner[ADDR_EMBEDDED_MAX];
        enum addr_class found = ADDR_CLASS_PUBLIC;
        size_t n = addr_embedded_v4(addr, inner);
        for (size_t i = 0; i < n; i++) {
                enum addr_class class = classify_v4(inner[i].bytes);
                if (class == ADDR_CLASS_METADATA || found == ADDR_CLASS_PUBLIC)
                        found = class;
                if (found == ADDR_CLASS_METADATA)
                        return found;
        }

        if (found != ADDR_CLASS_PUBLIC)
                return found;

        return addr_classify_outer(addr);
}

const char *addr_class_name(enum addr_class class) {
        static const char *const names[] = {
                [ADDR_CLASS_PUBLIC] = "public",
                [ADDR_CLASS_LOOPBACK] = "loopback",
                [ADDR_CLASS_UNSPECIFIED] = "unspecified",
                [ADDR_CLASS_PRIVATE] = "private",
                [ADDR_CLASS_SHARED] = "shared",
                [ADDR_CLASS_LINK_LOCAL] = "link-local",
                [ADDR_CLASS_METADATA] = "metadata",
                [ADDR_CLASS_MULTICAST] = "multicast",
                [ADDR_CLASS_DOCUMENTATION] = "documentation",
                [ADDR_CLASS_RESERVED] = "reserved",
        };
        static_assert(sizeof names / sizeof names[0] == ADDR_CLASSES, "a name for each class");

        return (unsigned)class < ADDR_CLASSES ? names[class] : "unknown";
}

/* --- the kernel's form --- */

bool addr_from_sockaddr(const struct sockaddr *sa, struct addr *ret, uint16_t *ret_port) {
        struct addr addr = { 0 };
        uint16_t port;

        if (sa->sa_family == AF_INET) {
                struct sockaddr_in in;

                memcpy(&in, sa, sizeof in);
                addr.family = ADDR_V4;
                memcpy(addr.bytes, &in.sin_addr, 4);
                port = ntohs(in.sin_port);
        } else if (sa->sa_family == AF_INET6) {
                struct sockaddr_in6 in6;

                memcpy(&in6, sa, sizeof in6);
                addr.family = ADDR_V6;
                memcpy(addr.bytes, &in6.sin6_addr, 16);
                port = ntohs(in6.sin6_port);
        } else {
                return false;
        }

        *ret = addr;
        if (ret_port)
                *ret_port = port;

        return true;
}

socklen_t addr_to_sockaddr(const struct addr *addr, uint16_t port, struct sockaddr_storage *ret) {
        memset(ret, 0, sizeof *ret);

        if (addr->family == ADDR_V4) {
                struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(port) };

                memcpy(&in.sin_addr, addr->bytes, 4);
                memcpy(ret, &in, sizeof in);
                return sizeof in;
        }

        struct sockaddr_in6 in6 = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
        memcpy(&in6.sin6_addr, addr->bytes, 16);
        memcpy(ret, &in6, sizeof in6);

        return sizeof in6;
}
