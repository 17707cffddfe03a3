/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One nft table, loaded for real into a network namespace of our own: `table inet { chain { type nat hook output;
 * redirect to :9 } }`. It is the shape that capture needs (nat hook, immediate value, redirect), written straight as
 * netlink attributes so that the probe needs no library and no nft program.
 */
#include "base/cleanup.h"
#include "base/fd.h"
#include "sandbox/linux/probe/probe_internal.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum { BATCH_MAX = 1024, NAT_PRIORITY = -100, REPLIES_MAX = 16 };

/* Messages of a known, small size: `n` stays far below the array, and the assert would tell. */
struct batch {
        char bytes[BATCH_MAX];
        size_t n;
        size_t message; /* where the message being written begins */
        uint32_t sequence;
};

static void *nft_put(struct batch *b, size_t size) {
        assert(b->n + NLMSG_ALIGN(size) <= sizeof b->bytes);
        void *at = b->bytes + b->n;
        b->n += NLMSG_ALIGN(size);
        return at;
}

static void message_begin(struct batch *batch, uint16_t type, uint16_t flags, uint8_t family, uint16_t resource) {
        batch->message = batch->n;
        struct nlmsghdr header = { .nlmsg_type = type,
                                   .nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags),
                                   .nlmsg_seq = batch->sequence++ };
        memcpy(nft_put(batch, sizeof header), &header, sizeof header);
        struct nfgenmsg family_header = { .nfgen_family = family, .version = NFNETLINK_V0, .res_id = htons(resource) };
        memcpy(nft_put(batch, sizeof family_header), &family_header, sizeof family_header);
}

static void message_end(struct batch *batch) {
        uint32_t length = (uint32_t)(batch->n - batch->message);
        memcpy(batch->bytes + batch->message, &length, sizeof length); /* nlmsg_len comes first */
}

static void nft_attribute(struct batch *batch, uint16_t type, const void *value, size_t size) {
        struct nlattr header = { .nla_len = (uint16_t)(NLA_HDRLEN + size), .nla_type = type };
        char *at = nft_put(batch, NLA_HDRLEN + size);
        memcpy(at, &header, sizeof header);
        memcpy(at + NLA_HDRLEN, value, size);
}
static void attribute_text(struct batch *batch, uint16_t type, const char *text) {
        nft_attribute(batch, type, text, strlen(text) + 1);
}
static void attribute_u32(struct batch *batch, uint16_t type, uint32_t value) {
        value = htonl(value);
        nft_attribute(batch, type, &value, sizeof value);
}

static size_t nest_begin(struct batch *batch, uint16_t type) {
        size_t at = batch->n;
        struct nlattr header = { .nla_type = (uint16_t)(type | NLA_F_NESTED) };
        memcpy(nft_put(batch, sizeof header), &header, sizeof header);
        return at;
}
static void nest_end(struct batch *batch, size_t at) {
        uint16_t length = (uint16_t)(batch->n - at);
        memcpy(batch->bytes + at, &length, sizeof length); /* nla_len comes first */
}

static void put_chain(struct batch *batch) {
        message_begin(batch, NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_NEWCHAIN, NLM_F_CREATE | NLM_F_ACK, NFPROTO_INET, 0);
        attribute_text(batch, NFTA_CHAIN_TABLE, "probe");
        attribute_text(batch, NFTA_CHAIN_NAME, "out");

        size_t hook = nest_begin(batch, NFTA_CHAIN_HOOK);
        attribute_u32(batch, NFTA_HOOK_HOOKNUM, NF_INET_LOCAL_OUT);
        attribute_u32(batch, NFTA_HOOK_PRIORITY, (uint32_t)NAT_PRIORITY);
        nest_end(batch, hook);
        attribute_text(batch, NFTA_CHAIN_TYPE, "nat");
        message_end(batch);
}

static void put_rule(struct batch *batch) {
        message_begin(batch, NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND | NLM_F_ACK,
                      NFPROTO_INET, 0);
        attribute_text(batch, NFTA_RULE_TABLE, "probe");
        attribute_text(batch, NFTA_RULE_CHAIN, "out");

        size_t list = nest_begin(batch, NFTA_RULE_EXPRESSIONS);

        size_t element = nest_begin(batch, NFTA_LIST_ELEM); /* meta l4proto tcp: a redirect with a port wants to know */
        attribute_text(batch, NFTA_EXPR_NAME, "meta");
        size_t data = nest_begin(batch, NFTA_EXPR_DATA);
        attribute_u32(batch, NFTA_META_DREG, NFT_REG_1);
        attribute_u32(batch, NFTA_META_KEY, NFT_META_L4PROTO);
        nest_end(batch, data);
        nest_end(batch, element);

        element = nest_begin(batch, NFTA_LIST_ELEM);
        attribute_text(batch, NFTA_EXPR_NAME, "cmp");
        data = nest_begin(batch, NFTA_EXPR_DATA);
        attribute_u32(batch, NFTA_CMP_SREG, NFT_REG_1);
        attribute_u32(batch, NFTA_CMP_OP, NFT_CMP_EQ);

        size_t value = nest_begin(batch, NFTA_CMP_DATA);
        nft_attribute(batch, NFTA_DATA_VALUE, &(uint8_t){ IPPROTO_TCP }, 1);
        nest_end(batch, value);
        nest_end(batch, data);
        nest_end(batch, element);

        element = nest_begin(batch, NFTA_LIST_ELEM);
        attribute_text(batch, NFTA_EXPR_NAME, "immediate");
        data = nest_begin(batch, NFTA_EXPR_DATA);
        attribute_u32(batch, NFTA_IMMEDIATE_DREG, NFT_REG_1);
        value = nest_begin(batch, NFTA_IMMEDIATE_DATA);
        nft_attribute(batch, NFTA_DATA_VALUE, &(uint16_t){ htons(9) }, sizeof(uint16_t));
        nest_end(batch, value);
        nest_end(batch, data);
        nest_end(batch, element);

        element = nest_begin(batch, NFTA_LIST_ELEM);
        attribute_text(batch, NFTA_EXPR_NAME, "redir");
        data = nest_begin(batch, NFTA_EXPR_DATA);
        attribute_u32(batch, NFTA_REDIR_REG_PROTO_MIN, NFT_REG_1);
        nest_end(batch, data);
        nest_end(batch, element);

        nest_end(batch, list);
        message_end(batch);
}

static void put_all(struct batch *batch) {
        message_begin(batch, NFNL_MSG_BATCH_BEGIN, 0, AF_UNSPEC, NFNL_SUBSYS_NFTABLES);
        message_end(batch);
        message_begin(batch, NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_NEWTABLE, NLM_F_CREATE | NLM_F_ACK, NFPROTO_INET, 0);
        attribute_text(batch, NFTA_TABLE_NAME, "probe");
        message_end(batch);
        put_chain(batch);
        put_rule(batch);
        message_begin(batch, NFNL_MSG_BATCH_END, 0, AF_UNSPEC, NFNL_SUBSYS_NFTABLES);
        message_end(batch);
}

/* Reads acknowledgements until all three came or one is an error; 0 or the errno. */
static int read_replies(int fd, unsigned wanted) {
        unsigned good = 0;
        for (unsigned turn = 0; turn < REPLIES_MAX && good < wanted; turn++) {
                char bytes[8192];
                ssize_t n = recv(fd, bytes, sizeof bytes, 0);
                if (n < 0)
                        return errno;

                struct nlmsghdr header;
                struct nlmsgerr answer;

                for (size_t at = 0; at + sizeof header <= (size_t)n; at += NLMSG_ALIGN(header.nlmsg_len)) {
                        memcpy(&header, bytes + at, sizeof header);
                        if (header.nlmsg_len < sizeof header || header.nlmsg_len > (size_t)n - at)
                                return EPROTO;
                        if (header.nlmsg_type != NLMSG_ERROR || header.nlmsg_len < NLMSG_LENGTH(sizeof answer))
                                continue;

                        memcpy(&answer, bytes + at + NLMSG_HDRLEN, sizeof answer);
                        if (answer.error != 0)
                                return -answer.error;

                        good++;
                }
        }

        if (good >= wanted)
                return 0;

        return EPROTO;
}

void try_redirect(struct probe_result *result) {
        if (!enter_user_ns(result, CLONE_NEWNET))
                return;

        cleanup(close_fd) int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER);
        if (fd < 0) {
                if (errno == EPROTONOSUPPORT)
                        result_fail(result, PROBE_MISSING, CAUSE_NO_MODULE, errno, "netfilter netlink socket");
                else
                        result_error(result, errno, "netfilter netlink socket");

                return;
        }

        struct timeval limit = { .tv_sec = 3 };
        struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
        struct batch batch = { 0 };
        put_all(&batch);

        int error = 0;

        if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) < 0 ||
            sendto(fd, batch.bytes, batch.n, 0, (struct sockaddr *)&kernel, sizeof kernel) < 0)
                error = errno;
        else
                error = read_replies(fd, 3);

        if (error == 0)
                result_works(result, NULL);
        else if (error == EOPNOTSUPP || error == ENOENT || error == EPROTONOSUPPORT || error == EAFNOSUPPORT ||
                 error == EINVAL)
                result_fail(result, PROBE_MISSING, CAUSE_NO_MODULE, error, "loading a nat table");
        else
                result_error(result, error, "loading a nat table");
}
