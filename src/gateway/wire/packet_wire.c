/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/wire/packet_wire.h"

#include "base/bounds.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_log.h>
#include <linux/netlink.h>
#include <netinet/in.h>

enum { V4_HEAD = 20, V6_HEAD = 40, UDP_HEAD = 8, EXTENSIONS_MAX = 8 };

static uint8_t byte_at(struct str s, size_t i) {
        return (uint8_t)s.p[i];
}

static uint16_t word_at(struct str s, size_t i) {
        return (uint16_t)(byte_at(s, i) << 8 | byte_at(s, i + 1));
}

static bool has_ports(uint8_t protocol) {
        return protocol == IPPROTO_TCP || protocol == IPPROTO_UDP || protocol == IPPROTO_UDPLITE ||
               protocol == IPPROTO_SCTP || protocol == IPPROTO_DCCP;
}

/* A later piece of a packet has no transport header: its address is all that is known. */
static void read_transport(struct str rest, bool later_piece, struct packet *ret) {
        if (later_piece || !has_ports(ret->protocol) || rest.n < 4)
                return;

        ret->has_port = true;
        ret->port = word_at(rest, 2);
        if (ret->protocol == IPPROTO_UDP && rest.n >= UDP_HEAD)
                ret->payload = str_skip(rest, UDP_HEAD);
}

static bool parse_v4(struct str bytes, struct packet *ret) {
        if (bytes.n < V4_HEAD)
                return false;

        size_t head = (size_t)(byte_at(bytes, 0) & 0xf) * 4;
        if (head < V4_HEAD || bytes.n < head)
                return false;

        ret->protocol = byte_at(bytes, 9);
        ret->to.family = ADDR_V4;
        memcpy(ret->to.bytes, bytes.p + 16, 4);
        read_transport(str_skip(bytes, head), word_at(bytes, 6) & 0x1fff, ret);

        return true;
}

/* How long the extension header at the front is; 0: it is none, or it is not whole. */
static size_t extension_length(uint8_t kind, struct str rest) {
        if (rest.n < 8)
                return 0;

        switch (kind) {
        case IPPROTO_HOPOPTS:
        case IPPROTO_ROUTING:
        case IPPROTO_DSTOPTS:
                return ((size_t)byte_at(rest, 1) + 1) * 8;
        case IPPROTO_FRAGMENT:
                return 8;
        default:
                return 0;
        }
}

static bool parse_v6(struct str bytes, struct packet *ret) {
        if (bytes.n < V6_HEAD)
                return false;

        ret->protocol = byte_at(bytes, 6);
        ret->to.family = ADDR_V6;
        memcpy(ret->to.bytes, bytes.p + 24, 16);

        bool later_piece = false;
        struct str rest = str_skip(bytes, V6_HEAD);

        for (int i = 0; i < EXTENSIONS_MAX; i++) {
                size_t n = extension_length(ret->protocol, rest);
                if (n == 0 || n > rest.n)
                        break;

                later_piece |= ret->protocol == IPPROTO_FRAGMENT && (word_at(rest, 2) & 0xfff8);
                ret->protocol = byte_at(rest, 0);
                rest = str_skip(rest, n);
        }

        read_transport(rest, later_piece, ret);
        return true;
}

bool packet_parse(struct str bytes, struct packet *ret) {
        *ret = (struct packet){ 0 };
        if (bytes.n == 0)
                return false;

        switch (byte_at(bytes, 0) >> 4) {
        case 4:
                return parse_v4(bytes, ret);
        case 6:
                return parse_v6(bytes, ret);
        default:
                return false;
        }
}

/* False: it is no number. */
static bool read_number(struct str value, uint32_t *ret) {
        uint32_t number;

        if (value.n != sizeof number)
                return false;
        memcpy(&number, value.p, sizeof number);
        *ret = ntohl(number);
        return true;
}

static void read_attribute(uint16_t type, struct str value, struct packet_log *ret) {
        if (type == NFULA_PAYLOAD)
                ret->bytes = value;
        if (type == NFULA_SEQ)
                ret->has_serial = read_number(value, &ret->serial);
        if (type == NFULA_UID)
                ret->has_uid = read_number(value, &ret->uid);
}

static int read_attributes(struct str rest, struct packet_log *ret) {
        *ret = (struct packet_log){ 0 };

        while (rest.n >= NLA_HDRLEN) {
                struct nlattr a;

                memcpy(&a, rest.p, sizeof a);
                if (a.nla_len < NLA_HDRLEN || a.nla_len > rest.n)
                        return -EBADMSG;

                read_attribute(a.nla_type & NLA_TYPE_MASK, str_n(rest.p + NLA_HDRLEN, a.nla_len - NLA_HDRLEN), ret);
                size_t step = NLA_ALIGN(a.nla_len);
                rest = str_skip(rest, min_of(step, rest.n));
        }

        return 1;
}

int packet_log_next(struct str *messages, struct packet_log *ret) {
        while (messages->n > 0) {
                struct nlmsghdr h;

                if (messages->n < sizeof h)
                        return -EBADMSG;

                memcpy(&h, messages->p, sizeof h);
                if (h.nlmsg_len < sizeof h || h.nlmsg_len > messages->n)
                        return -EBADMSG;

                struct str body = str_n(messages->p + NLMSG_HDRLEN, h.nlmsg_len - NLMSG_HDRLEN);
                size_t step = NLMSG_ALIGN(h.nlmsg_len);
                *messages = str_skip(*messages, min_of(step, messages->n));

                if (h.nlmsg_type == (NFNL_SUBSYS_ULOG << 8 | NFULNL_MSG_PACKET) && body.n >= sizeof(struct nfgenmsg))
                        return read_attributes(str_skip(body, sizeof(struct nfgenmsg)), ret);
        }

        return 0;
}
